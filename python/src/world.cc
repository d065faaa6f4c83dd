// SPDX-License-Identifier: Apache-2.0
//
// Workload tables, their generator and what a team may do to them.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common.h"
#include "tenure/sim/gaming.h"
#include "tenure/sim/institute.h"
#include "tenure/sim/workload.h"

namespace py = pybind11;

namespace tenure::python {
namespace {

using sim::JobRow;
using sim::World;
using LeafTuple = std::pair<std::string, std::vector<double>>;

// The table is copied once into the world, so that nobody can change it under a running
// simulation; from there on it is only viewed.
std::shared_ptr<World> MakeWorld(std::int32_t nodes, std::int32_t gpus_per_node,
                                 std::int32_t nodes_per_rack, const std::vector<LeafTuple>& leaves,
                                 const py::array& jobs, std::vector<std::string> assumptions) {
  if (!py::dtype::of<JobRow>().equal(jobs.dtype())) {
    Throw(absl::InvalidArgumentError("jobs do not have dtype JOB_DTYPE"));
  }
  if (jobs.ndim() != 1) {
    Throw(absl::InvalidArgumentError(
        absl::StrCat("jobs have ", jobs.ndim(), " dimensions, must have 1")));
  }
  const auto rows = py::array_t<JobRow, py::array::c_style>::ensure(jobs);
  if (!rows) throw py::error_already_set();
  auto world = std::make_shared<World>();
  world->cluster = {nodes, gpus_per_node, nodes_per_rack};
  world->leaves.reserve(leaves.size());
  for (const auto& [path, weights] : leaves) world->leaves.push_back({path, weights});
  world->jobs.resize(static_cast<std::size_t>(rows.size()));
  if (!world->jobs.empty()) {
    std::memcpy(world->jobs.data(), rows.data(), world->jobs.size() * sizeof(JobRow));
  }
  world->assumptions = std::move(assumptions);
  ThrowIfError(sim::CheckWorld(*world));
  return world;
}

// A read-only view that keeps the world alive.
py::array JobsView(const py::object& self) {
  const auto& world = self.cast<const World&>();
  py::array view(py::dtype::of<JobRow>(), {static_cast<py::ssize_t>(world.jobs.size())},
                 {static_cast<py::ssize_t>(sizeof(JobRow))}, world.jobs.data(), self);
  view.attr("setflags")(py::arg("write") = false);
  return view;
}

std::vector<LeafTuple> Leaves(const World& world) {
  std::vector<LeafTuple> out;
  out.reserve(world.leaves.size());
  for (const sim::LeafSpec& leaf : world.leaves) out.emplace_back(leaf.path, leaf.weights);
  return out;
}

std::shared_ptr<World> GenerateInstitute(const sim::InstituteOptions& options) {
  absl::StatusOr<World> world;
  {
    const py::gil_scoped_release release;
    world = sim::GenerateInstitute(options);
  }
  return std::make_shared<World>(ValueOrThrow(std::move(world)));
}

// A changed copy, and the leaves of the team afterwards.
std::pair<std::shared_ptr<World>, std::vector<std::int32_t>> Game(const World& world,
                                                                  std::int32_t leaf,
                                                                  const std::string& strategy) {
  const sim::GameStrategy parsed = ValueOrThrow(sim::ParseGame(strategy));
  auto copy = std::make_shared<World>(world);
  std::vector<std::int32_t> leaves = ValueOrThrow(sim::Game(*copy, leaf, parsed));
  return {std::move(copy), std::move(leaves)};
}

}  // namespace

void BindWorld(py::module_& m) {
  PYBIND11_NUMPY_DTYPE(JobRow, submit_us, runtime_us, minimum_us, limit_us, checkpoint_us,
                       restart_us, patience_us, leaf, user, nodes, gpus_per_node, priority,
                       workload_class, flags, source_row);
  m.attr("JOB_DTYPE") = py::dtype::of<JobRow>();
  py::dict flags;
  flags["resumable"] = static_cast<std::uint32_t>(sim::kResumable);
  flags["idle"] = static_cast<std::uint32_t>(sim::kIdle);
  flags["checkpoint_on_notice"] = static_cast<std::uint32_t>(sim::kCheckpointOnNotice);
  m.attr("JOB_FLAGS") = flags;
  py::list classes;
  for (std::size_t i = 0; i < kWorkloadClasses; ++i) {
    classes.append(ToString(static_cast<WorkloadClass>(i)));
  }
  m.attr("WORKLOAD_CLASSES") = py::tuple(classes);
  m.attr("GAME_STRATEGIES") = py::tuple(py::cast(sim::kGameNames));

  py::class_<World, std::shared_ptr<World>>(m, "World")
      .def(py::init(&MakeWorld), py::kw_only(), py::arg("nodes"), py::arg("gpus_per_node"),
           py::arg("nodes_per_rack"), py::arg("leaves"), py::arg("jobs"), py::arg("assumptions"))
      .def_property_readonly("nodes", [](const World& w) { return w.cluster.nodes; })
      .def_property_readonly("gpus_per_node",
                             [](const World& w) { return w.cluster.gpus_per_node; })
      .def_property_readonly("nodes_per_rack",
                             [](const World& w) { return w.cluster.nodes_per_rack; })
      .def_property_readonly("leaves", &Leaves)
      .def_property_readonly("jobs", &JobsView)
      .def_property_readonly("assumptions", [](const World& w) { return w.assumptions; });

  using Institute = sim::InstituteOptions;
  py::class_<Institute>(m, "InstituteOptions")
      .def(py::init())
      .def_readwrite("load", &Institute::load)
      .def_readwrite("freeload", &Institute::freeload)
      .def_readwrite("seed", &Institute::seed)
      .def_readwrite("days", &Institute::days)
      .def_readwrite("warmup_days", &Institute::warmup_days)
      .def_readwrite("debug_per_day", &Institute::debug_per_day)
      .def_readwrite("nodes", &Institute::nodes)
      .def_readwrite("gpus_per_node", &Institute::gpus_per_node)
      .def_readwrite("nodes_per_rack", &Institute::nodes_per_rack)
      .def_property("mincap_us", DurationGetter(&Institute::mincap),
                    DurationSetter(&Institute::mincap))
      .def_property(
          "leaves", [](const Institute& o) { return o.tree.leaves; },
          [](Institute& o, std::int32_t n) { o.tree.leaves = n; })
      .def_property(
          "levels", [](const Institute& o) { return o.tree.levels; },
          [](Institute& o, std::int32_t n) { o.tree.levels = n; })
      .def_property(
          "largest_percent", [](const Institute& o) { return o.tree.largest_percent; },
          [](Institute& o, std::int32_t n) { o.tree.largest_percent = n; });
  m.def("generate_institute", &GenerateInstitute, py::arg("options"));
  m.def("game", &Game, py::arg("world"), py::arg("leaf"), py::arg("strategy"));
}

}  // namespace tenure::python
