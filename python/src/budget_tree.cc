// SPDX-License-Identifier: Apache-2.0
//
// BudgetTree. Ids are plain integers in Python; each is checked before it reaches the tree.
#include "tenure/budget_tree.h"

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common.h"
#include "tenure/types.h"

namespace py = pybind11;

namespace tenure::python {
namespace {

using Int64Array = py::array_t<std::int64_t, py::array::c_style>;

AllocationId Known(const BudgetTree& tree, std::int64_t id) {
  if (id < 0 || id >= static_cast<std::int64_t>(tree.size())) {
    Throw(absl::NotFoundError(absl::StrCat("allocation ", id, " is unknown")));
  }
  return AllocationId(static_cast<std::uint32_t>(id));
}

// An id that the tree itself refuses if it is unknown.
AllocationId AnyId(std::int64_t id) {
  if (id < 0 || id > std::numeric_limits<std::uint32_t>::max()) {
    Throw(absl::NotFoundError(absl::StrCat("allocation ", id, " is unknown")));
  }
  return AllocationId(static_cast<std::uint32_t>(id));
}

MilliGpu Capacity(std::int64_t capacity_mgpu) {
  if (capacity_mgpu < 0 || capacity_mgpu > kMaxClusterGpus * 1000) {
    Throw(absl::InvalidArgumentError(absl::StrCat(
        "capacity is ", capacity_mgpu, " mGPU, must be in [0, ", kMaxClusterGpus * 1000, "]")));
  }
  return MilliGpu(capacity_mgpu);
}

TimePoint Time(std::int64_t us) {
  if (us > kTimeLimit.count() || us < -kTimeLimit.count()) {
    Throw(absl::InvalidArgumentError(absl::StrCat("time ", us, " us is out of range")));
  }
  return TimePoint(Duration(us));
}

void CheckShape(const BudgetTree& tree, const char* what, const Int64Array& array) {
  if (array.ndim() == 1 && static_cast<std::size_t>(array.size()) == tree.size()) return;
  Throw(absl::InvalidArgumentError(absl::StrCat(what, " must have one dimension and ", tree.size(),
                                                " entries, one for each allocation")));
}

Int64Array ToArray(const std::vector<MilliGpu>& values) {
  Int64Array out(static_cast<py::ssize_t>(values.size()));
  std::transform(values.begin(), values.end(), out.mutable_data(),
                 [](MilliGpu v) { return v.value(); });
  return out;
}

std::vector<std::uint32_t> Values(std::span<const AllocationId> ids) {
  std::vector<std::uint32_t> out;
  out.reserve(ids.size());
  for (const AllocationId id : ids) out.push_back(id.value());
  return out;
}

Int64Array WaterFill(const BudgetTree& tree, std::int64_t capacity_mgpu, const Int64Array& demand,
                     const std::optional<Int64Array>& multiplier_q16) {
  CheckShape(tree, "demand", demand);
  std::vector<MilliGpu> wanted(tree.size());
  std::transform(demand.data(), demand.data() + demand.size(), wanted.begin(),
                 [](std::int64_t v) { return MilliGpu(v); });
  std::span<const std::int64_t> multiplier;
  if (multiplier_q16.has_value()) {
    CheckShape(tree, "multiplier", *multiplier_q16);
    multiplier = std::span(multiplier_q16->data(), tree.size());
  }
  WaterFillScratch scratch;
  std::vector<MilliGpu> out;
  tree.WaterFill(Capacity(capacity_mgpu), wanted, multiplier, scratch, out);
  return ToArray(out);
}

py::list Edits(const BudgetTree& tree) {
  py::list out;
  for (const BudgetEdit& e : tree.edits()) {
    out.append(py::make_tuple(e.allocation.value(), e.before.value, e.after.value,
                              e.effective.time_since_epoch().count(), e.author, e.reason));
  }
  return out;
}

}  // namespace

void BindBudgetTree(py::module_& m) {
  py::class_<BudgetTree>(m, "BudgetTree")
      .def(py::init<>())
      .def("__len__", &BudgetTree::size)
      .def(
          "add",
          [](BudgetTree& t, std::string name, std::int64_t parent, double weight) {
            return ValueOrThrow(t.Add(std::move(name), AnyId(parent), Weight{weight})).value();
          },
          py::arg("name"), py::arg("parent"), py::arg("weight"))
      .def(
          "set_weight",
          [](BudgetTree& t, std::int64_t id, double weight, std::int64_t effective_us,
             std::string author, std::string reason) {
            ThrowIfError(t.ScheduleWeight(AnyId(id), Weight{weight}, Time(effective_us),
                                          std::move(author), std::move(reason)));
          },
          py::arg("id"), py::arg("weight"), py::kw_only(), py::arg("effective_us"),
          py::arg("author"), py::arg("reason"))
      .def(
          "apply_edits",
          [](BudgetTree& t, std::int64_t now_us) { return t.ApplyEdits(Time(now_us)); },
          py::arg("now_us"))
      .def_property_readonly("next_edit_us",
                             [](const BudgetTree& t) -> std::optional<std::int64_t> {
                               if (t.next_edit() == kNever) return std::nullopt;
                               return t.next_edit().time_since_epoch().count();
                             })
      .def_property_readonly("edits", &Edits)
      .def(
          "close", [](BudgetTree& t, std::int64_t id) { ThrowIfError(t.Close(AnyId(id))); },
          py::arg("id"))
      .def(
          "find",
          [](const BudgetTree& t, const std::string& path) {
            return ValueOrThrow(t.Find(path)).value();
          },
          py::arg("path"))
      .def("path", [](const BudgetTree& t, std::int64_t id) { return t.path(Known(t, id)); })
      .def("name", [](const BudgetTree& t, std::int64_t id) { return t.name(Known(t, id)); })
      .def("weight",
           [](const BudgetTree& t, std::int64_t id) { return t.weight(Known(t, id)).value; })
      .def("closed", [](const BudgetTree& t, std::int64_t id) { return t.closed(Known(t, id)); })
      .def("is_leaf", [](const BudgetTree& t, std::int64_t id) { return t.is_leaf(Known(t, id)); })
      .def("parent",
           [](const BudgetTree& t, std::int64_t id) { return t.parent(Known(t, id)).value(); })
      .def("children",
           [](const BudgetTree& t, std::int64_t id) { return Values(t.children(Known(t, id))); })
      .def("leaves", [](const BudgetTree& t) { return Values(t.leaves()); })
      .def(
          "entitlements",
          [](const BudgetTree& t, std::int64_t capacity_mgpu) {
            std::vector<MilliGpu> out;
            t.Entitlements(Capacity(capacity_mgpu), out);
            return ToArray(out);
          },
          py::arg("capacity_mgpu"))
      .def("water_fill", &WaterFill, py::arg("capacity_mgpu"), py::arg("demand_mgpu"),
           py::arg("multiplier_q16"))
      .def("copy", [](const BudgetTree& t) { return BudgetTree(t); });
}

}  // namespace tenure::python
