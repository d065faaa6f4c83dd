// SPDX-License-Identifier: Apache-2.0
//
// Scheduler, through AnyScheduler: the policy is a name here.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common.h"
#include "tenure/any_scheduler.h"
#include "tenure/forecast.h"
#include "tenure/presets.h"
#include "tenure/types.h"

namespace py = pybind11;

namespace tenure::python {
namespace {

TimePoint At(std::int64_t us) { return TimePoint(Duration(us)); }
std::int64_t Us(TimePoint t) { return t.time_since_epoch().count(); }
std::optional<std::int64_t> UsOrNever(TimePoint t) {
  if (t == kNever) return std::nullopt;
  return Us(t);
}

// A Python integer as an id. What no id can be is as unknown as any other.
template <class Id>
Id ToId(const char* what, std::int64_t value) {
  if (value < 0 || static_cast<std::uint64_t>(value) >
                       std::uint64_t{std::numeric_limits<typename Id::rep>::max()}) {
    Throw(absl::NotFoundError(absl::StrCat(what, " ", value, " is unknown")));
  }
  return Id(static_cast<typename Id::rep>(value));
}

std::vector<std::uint32_t> NodeValues(std::span<const NodeId> nodes) {
  std::vector<std::uint32_t> out;
  out.reserve(nodes.size());
  for (const NodeId node : nodes) out.push_back(node.value());
  return out;
}

// Tuples in the order of the fields of the Python classes.
py::list ToTuples(const std::vector<Stop>& stops) {
  py::list out;
  for (const Stop& s : stops) {
    const std::optional<std::uint64_t> beneficiary =
        IsPreemption(s.reason) ? std::optional(s.beneficiary.value()) : std::nullopt;
    out.append(py::make_tuple(s.workload.value(), s.run.value(), ToString(s.reason), beneficiary,
                              s.grace.count(), s.lost_work.value()));
  }
  return out;
}

py::tuple ToTuple(const Decisions& d) {
  py::list starts;
  for (const Start& s : d.starts) {
    starts.append(py::make_tuple(s.workload.value(), s.run.value(), NodeValues(d.Nodes(s)),
                                 s.gpus_per_node.value()));
  }
  py::list holds;
  for (const Hold& h : d.holds) {
    holds.append(py::make_tuple(h.workload.value(), NodeValues(d.Nodes(h)), h.gpus_per_node.value(),
                                UsOrNever(h.expires)));
  }
  py::list promises;
  for (const Promise& p : d.promises) {
    promises.append(py::make_tuple(p.workload.value(), NodeValues(d.Nodes(p)), Us(p.start_by)));
  }
  const SearchRecord& s = d.search;
  return py::make_tuple(starts, ToTuples(d.stops), holds, promises, UsOrNever(d.next_wakeup),
                        py::make_tuple(ToString(s.outcome), ToString(s.backend), s.trials, s.seed,
                                       s.winner, s.price_before, s.price, s.faults));
}

}  // namespace

py::dict ExplanationDict(const Explanation& e) {
  py::dict out;
  out["workload"] = e.workload.value();
  out["state"] = ToString(e.state);
  out["reason"] = ToString(e.reason);
  out["allocation"] = e.allocation.value();
  out["entitlement_mgpu"] = e.entitlement.value();
  out["fluid_mgpu"] = e.fluid.value();
  out["placed_gpus"] = e.placed.value();
  out["queued_gpus"] = e.queued.value();
  out["used_gpu_us"] = e.used.value();
  out["key_us"] = e.key.count();
  out["tier"] = e.tier;
  out["leaves_ahead"] = e.leaves_ahead;
  out["requests_ahead"] = e.requests_ahead;
  out["protected_until_us"] = Us(e.protected_until);
  out["promised_start_us"] = UsOrNever(e.promised_start);
  out["next_protection_end_us"] = UsOrNever(e.next_protection_end);
  out["stops"] = e.stops;
  return out;
}

namespace {

py::dict ToDict(const AllocationStanding& s) {
  py::dict out;
  out["allocation"] = s.allocation.value();
  out["entitlement_mgpu"] = s.entitlement.value();
  out["natural_mgpu"] = s.natural.value();
  out["fluid_mgpu"] = s.fluid.value();
  out["used_gpu_us"] = s.used_in_window.value();
  out["committed_gpu_us"] = s.committed_ahead.value();
  out["unfunded_gpu_us"] = s.unfunded_in_window.value();
  out["key_us"] = s.key.count();
  out["placed_gpus"] = s.placed.value();
  out["queued_gpus"] = s.queued.value();
  out["unfunded_gpus"] = s.unfunded.value();
  return out;
}

WorkloadClass ClassOf(const std::string& name) {
  for (std::size_t i = 0; i < kWorkloadClasses; ++i) {
    const auto c = static_cast<WorkloadClass>(i);
    if (name == ToString(c)) return c;
  }
  Throw(absl::InvalidArgumentError(absl::StrCat("unknown kind '", name, "'")));
}

NodeHealth HealthOf(const std::string& name) {
  for (const NodeHealth h : {NodeHealth::kUp, NodeHealth::kDraining, NodeHealth::kDown}) {
    if (name == ToString(h)) return h;
  }
  Throw(absl::InvalidArgumentError(absl::StrCat("unknown node health '", name, "'")));
}

std::unique_ptr<AnyScheduler> Make(const std::string& policy, const Parameters& parameters) {
  return ValueOrThrow(MakeScheduler(policy, parameters));
}

WorkloadId Workload(std::int64_t id) { return ToId<WorkloadId>("workload", id); }
AllocationId Allocation(std::int64_t id) { return ToId<AllocationId>("allocation", id); }
RunNumber RunOf(std::int64_t run) { return ToId<RunNumber>("run", run); }

// A type that the scheduler knows. NotFound.
GpuTypeId GpuType(const AnyScheduler& s, const std::string& name) {
  if (const std::optional<GpuTypeId> type = s.cluster().FindGpuType(name)) return *type;
  Throw(absl::NotFoundError(absl::StrCat("GPU type '", name, "' is unknown")));
}

// What is submitted, but for its GPU type, which only a scheduler can turn into an id.
struct Request {
  WorkloadSpec spec;
  std::optional<std::string> gpu_type;
  TimePoint now{};
};

Request MakeRequest(std::int64_t id, std::int64_t allocation, std::int64_t nodes,
                    std::int64_t gpus_per_node, std::int64_t minimum_us, const std::string& kind,
                    std::int64_t user, std::string name, std::int32_t priority, bool resumable,
                    bool restorable, std::int64_t checkpoint_us, std::int64_t restart_us,
                    std::optional<std::string> gpu_type, bool topology_required,
                    std::optional<int> topology_level, std::int64_t now_us) {
  const auto bad = [&](const char* field, std::int64_t value) {
    Throw(absl::InvalidArgumentError(absl::StrCat("workload ", id, ": ", field, " is ", value)));
  };
  if (id < 0) bad("id", id);
  if (nodes < 0 || nodes > std::numeric_limits<std::uint32_t>::max()) bad("nodes", nodes);
  if (user < 0 || user > std::numeric_limits<std::uint32_t>::max()) bad("user", user);
  if (topology_level.has_value() && (*topology_level < 0 || *topology_level >= kDeepestLevel)) {
    bad("topology_level", *topology_level);
  }
  Request request;
  WorkloadSpec& spec = request.spec;
  spec.id = WorkloadId(static_cast<std::uint64_t>(id));
  spec.allocation = Allocation(allocation);
  spec.user = UserId(static_cast<std::uint32_t>(user));
  spec.name = std::move(name);
  spec.workload_class = ClassOf(kind);
  spec.priority = priority;
  spec.nodes = static_cast<std::uint32_t>(nodes);
  spec.gpus_per_node = GpuCount(gpus_per_node);
  spec.topology_rule = topology_required ? TopologyRule::kRequired : TopologyRule::kPreferred;
  if (topology_level.has_value()) {
    spec.topology_level = static_cast<std::uint8_t>(*topology_level);
  }
  spec.minimum = Duration(minimum_us);
  spec.resumable = resumable;
  spec.restorable = restorable;
  spec.checkpoint_interval = Duration(checkpoint_us);
  spec.restart_overhead = Duration(restart_us);
  request.gpu_type = std::move(gpu_type);
  request.now = At(now_us);
  return request;
}

// Binds `f(scheduler, request)` with the fields of a request as keyword arguments.
template <class Scheduler, class F>
auto WithRequest(F f) {
  return [f](Scheduler& s, std::int64_t id, std::int64_t allocation, std::int64_t nodes,
             std::int64_t gpus_per_node, std::int64_t minimum_us, const std::string& kind,
             std::int64_t user, std::string name, std::int32_t priority, bool resumable,
             bool restorable, std::int64_t checkpoint_us, std::int64_t restart_us,
             std::optional<std::string> gpu_type, bool topology_required,
             std::optional<int> topology_level, std::int64_t now_us) {
    return f(
        s, MakeRequest(id, allocation, nodes, gpus_per_node, minimum_us, kind, user,
                       std::move(name), priority, resumable, restorable, checkpoint_us, restart_us,
                       std::move(gpu_type), topology_required, topology_level, now_us));
  };
}

bool Knows(const AnyScheduler& s, const std::string& gpu_type) {
  return s.cluster().FindGpuType(gpu_type).has_value();
}

// The result of `call(scheduler, type)`. A refused call changes nothing, so a new type name is
// taken over only after a copy has accepted the call.
template <class Call>
auto WithType(AnyScheduler& s, const std::string& gpu_type, const Call& call) {
  if (!Knows(s, gpu_type)) {
    const std::unique_ptr<AnyScheduler> copy = s.Clone();
    if (auto tried = call(*copy, copy->InternGpuType(gpu_type)); !tried.ok()) return tried;
  }
  return call(s, s.InternGpuType(gpu_type));
}

void Submit(AnyScheduler& s, Request request) {
  if (!request.gpu_type.has_value()) {
    ThrowIfError(s.Submit(request.spec, request.now));
    return;
  }
  ThrowIfError(WithType(s, *request.gpu_type, [&](AnyScheduler& on, GpuTypeId type) {
    request.spec.gpu_type = type;
    return on.Submit(request.spec, request.now);
  }));
}

std::uint32_t AddNode(AnyScheduler& s, const std::string& name, std::int64_t gpus,
                      const std::string& gpu_type, std::int64_t domain, std::int64_t now_us) {
  const auto in = ToId<DomainId>("topology domain", domain);
  return ValueOrThrow(WithType(s, gpu_type,
                               [&](AnyScheduler& on, GpuTypeId type) {
                                 return on.AddNode(name, GpuCount(gpus), type, in, At(now_us));
                               }))
      .value();
}

py::dict WhatIf(const AnyScheduler& s, Request request) {
  std::unique_ptr<AnyScheduler> copy;
  if (request.gpu_type.has_value()) {
    if (!Knows(s, *request.gpu_type)) copy = s.Clone();
    request.spec.gpu_type =
        copy != nullptr ? copy->InternGpuType(*request.gpu_type) : GpuType(s, *request.gpu_type);
  }
  absl::StatusOr<WhatIfResult> result;
  {
    const py::gil_scoped_release release;
    result = (copy != nullptr ? *copy : s).WhatIf(request.spec, request.now);
  }
  const WhatIfResult r = ValueOrThrow(std::move(result));
  py::list losses;
  for (const AllocationLoss& l : r.losses) {
    losses.append(py::make_tuple(l.allocation.value(), l.lost_work.value()));
  }
  py::dict out;
  out["starts_now"] = r.starts_now;
  out["held"] = r.held;
  out["reserved"] = r.reserved;
  out["promised_us"] = UsOrNever(r.promised);
  out["nodes"] = NodeValues(r.nodes);
  out["victims"] = ToTuples(r.victims);
  out["losses"] = losses;
  out["reason"] = ToString(r.reason);
  return out;
}

py::dict ForecastOf(const AnyScheduler& s, std::int64_t id, std::int64_t horizon_us,
                    std::int64_t unfunded_us, std::int64_t step_us, std::int64_t max_passes,
                    const std::map<std::int64_t, std::int64_t>& limits_us) {
  ForecastOptions options;
  options.horizon = Duration(horizon_us);
  options.unfunded = Duration(unfunded_us);
  options.step = Duration(step_us);
  if (max_passes < 0) {
    Throw(absl::InvalidArgumentError(absl::StrCat("max_passes is ", max_passes)));
  }
  options.max_passes = static_cast<std::size_t>(max_passes);
  std::map<WorkloadId, Duration> limits;
  for (const auto& [workload, limit] : limits_us) limits[Workload(workload)] = Duration(limit);
  options.limit = [&](const WorkloadSpec& spec) {
    const auto it = limits.find(spec.id);
    return it == limits.end() ? Duration(0) : it->second;
  };
  const WorkloadId workload = Workload(id);
  absl::StatusOr<ForecastResult> result;
  {
    const py::gil_scoped_release release;
    result = s.Forecast(workload, options);
  }
  const ForecastResult r = ValueOrThrow(std::move(result));
  py::dict out;
  out["start_us"] = UsOrNever(r.start);
  out["promised"] = r.promised;
  out["started"] = r.started;
  out["reason"] = ToString(r.reason);
  out["searched_until_us"] = Us(r.searched_until);
  out["passes"] = r.passes;
  return out;
}

py::tuple Decide(AnyScheduler& s, std::int64_t now_us) {
  absl::StatusOr<const Decisions*> decisions;
  {
    const py::gil_scoped_release release;
    decisions = s.Decide(At(now_us));
  }
  return ToTuple(*ValueOrThrow(std::move(decisions)));
}

py::tuple Reconcile(AnyScheduler& s,
                    const std::vector<std::pair<std::int64_t, std::int64_t>>& running,
                    std::int64_t now_us) {
  std::vector<RunRef> refs;
  refs.reserve(running.size());
  for (const auto& [id, run] : running) refs.push_back({Workload(id), RunOf(run)});
  const ReconcileReport report = ValueOrThrow(s.Reconcile(refs, At(now_us)));
  const auto list = [](const std::vector<RunRef>& runs) {
    py::list out;
    for (const RunRef& r : runs) out.append(py::make_tuple(r.workload.value(), r.run.value()));
    return out;
  };
  return py::make_tuple(list(report.ended), list(report.unknown));
}

}  // namespace

void BindScheduler(py::module_& m) {
  using I = std::int64_t;
  py::class_<AnyScheduler> scheduler(m, "Scheduler");
  scheduler.def(py::init(&Make), py::kw_only(), py::arg("policy"), py::arg("parameters"))
      .def("tree", [](const AnyScheduler& s) { return BudgetTree(s.tree()); })
      .def_property_readonly("workloads", &AnyScheduler::workloads)
      .def_property_readonly("dirty", &AnyScheduler::dirty)
      .def_property_readonly("capacity_mgpu",
                             [](const AnyScheduler& s) { return s.Capacity().value(); })
      .def("add_allocation",
           [](AnyScheduler& s, std::string name, I parent, double weight, I now_us) {
             return ValueOrThrow(s.AddAllocation(std::move(name), Allocation(parent),
                                                 Weight{weight}, At(now_us)))
                 .value();
           })
      .def("set_weight",
           [](AnyScheduler& s, I id, double weight, I effective_us, std::string author,
              std::string reason, I now_us) {
             ThrowIfError(s.SetWeight(Allocation(id), Weight{weight}, At(effective_us),
                                      std::move(author), std::move(reason), At(now_us)));
           })
      .def("boost",
           [](AnyScheduler& s, I id, double weight, I from_us, I until_us, std::string author,
              std::string reason, I now_us) {
             ThrowIfError(s.Boost(Allocation(id), Weight{weight}, At(from_us), At(until_us),
                                  std::move(author), std::move(reason), At(now_us)));
           })
      .def("move_allocation",
           [](AnyScheduler& s, I id, I new_parent, std::string author, std::string reason,
              I now_us) {
             ThrowIfError(s.MoveAllocation(Allocation(id), Allocation(new_parent), At(now_us),
                                           std::move(author), std::move(reason)));
           })
      .def("close_allocation",
           [](AnyScheduler& s, I id, I now_us) {
             ThrowIfError(s.CloseAllocation(Allocation(id), At(now_us)));
           })
      .def("add_domain",
           [](AnyScheduler& s, std::string name, I parent) {
             return ValueOrThrow(
                        s.AddDomain(std::move(name), ToId<DomainId>("topology domain", parent)))
                 .value();
           })
      .def("add_node", &AddNode)
      .def("set_node",
           [](AnyScheduler& s, I id, const std::string& health, I since_us, I now_us) {
             const NodeReport report = ValueOrThrow(
                 s.SetNode(ToId<NodeId>("node", id), HealthOf(health), At(since_us), At(now_us)));
             py::list lost;
             for (const LostRun& l : report.lost) {
               lost.append(py::make_tuple(l.workload.value(), l.run.value(), ToString(l.outcome)));
             }
             return lost;
           })
      .def("drained",
           [](const AnyScheduler& s, I id) { return s.Drained(ToId<NodeId>("node", id)); })
      .def("announce_maintenance",
           [](AnyScheduler& s, const std::vector<I>& nodes, I from_us, I until_us,
              std::string author, std::string reason, I now_us) {
             std::vector<NodeId> ids;
             for (const I node : nodes) ids.push_back(ToId<NodeId>("node", node));
             return ValueOrThrow(s.AnnounceMaintenance(std::move(ids), At(from_us), At(until_us),
                                                       std::move(author), std::move(reason),
                                                       At(now_us)))
                 .value();
           })
      .def("cancel_maintenance",
           [](AnyScheduler& s, I id, I now_us) {
             ThrowIfError(s.CancelMaintenance(ToId<MaintenanceId>("maintenance", id), At(now_us)));
           })
      .def("maintenance",
           [](const AnyScheduler& s) {
             py::list out;
             for (const MaintenanceWindow& w : s.maintenance()) {
               out.append(py::make_tuple(w.id.value(), NodeValues(w.nodes), Us(w.from), Us(w.until),
                                         w.author, w.reason));
             }
             return out;
           })
      .def("set_charge_rate",
           [](AnyScheduler& s, const std::string& gpu_type, I permille, I now_us) {
             const auto rate = static_cast<std::int32_t>(
                 std::clamp<I>(permille, 0, std::numeric_limits<std::int32_t>::max()));
             ThrowIfError(s.SetChargeRate(GpuType(s, gpu_type), rate, At(now_us)));
           })
      .def("charge_rate",
           [](const AnyScheduler& s, const std::string& gpu_type) {
             return s.charge_rate(GpuType(s, gpu_type));
           })
      .def("node_name",
           [](const AnyScheduler& s, I id) {
             const auto node = ToId<NodeId>("node", id);
             if (!s.cluster().contains(node)) {
               Throw(absl::NotFoundError(absl::StrCat("node ", id, " is unknown")));
             }
             return s.cluster().node(node).name;
           })
      .def("cancel", [](AnyScheduler& s, I id,
                        I now_us) { ThrowIfError(s.Cancel(Workload(id), At(now_us))); })
      .def("report_started",
           [](AnyScheduler& s, I id, I run, I at_us, I now_us) {
             ThrowIfError(s.ReportStarted(Workload(id), RunOf(run), At(at_us), At(now_us)));
           })
      .def("report_start_failed",
           [](AnyScheduler& s, I id, I run, I now_us) {
             ThrowIfError(s.ReportStartFailed(Workload(id), RunOf(run), At(now_us)));
           })
      .def("report_ended",
           [](AnyScheduler& s, I id, I run, I at_us, I now_us) {
             ThrowIfError(s.ReportEnded(Workload(id), RunOf(run), At(at_us), At(now_us)));
           })
      .def("report_stopped",
           [](AnyScheduler& s, I id, I run, I at_us, I now_us) {
             return ToString(
                 ValueOrThrow(s.ReportStopped(Workload(id), RunOf(run), At(at_us), At(now_us))));
           })
      .def("report_stop_failed",
           [](AnyScheduler& s, I id, I run, I now_us) {
             ThrowIfError(s.ReportStopFailed(Workload(id), RunOf(run), At(now_us)));
           })
      .def("report_checkpoint",
           [](AnyScheduler& s, I id, I run, I at_us, I now_us) {
             ThrowIfError(s.ReportCheckpoint(Workload(id), RunOf(run), At(at_us), At(now_us)));
           })
      .def("report_idle",
           [](AnyScheduler& s, I id, bool idle, I now_us) {
             ThrowIfError(s.ReportIdle(Workload(id), idle, At(now_us)));
           })
      .def(
          "set_resume_hint",
          [](AnyScheduler& s, I id, const py::bytes& hint, I now_us) {
            ThrowIfError(s.SetResumeHint(Workload(id), static_cast<std::string>(hint), At(now_us)));
          })
      .def("resume_hint",
           [](const AnyScheduler& s, I id) {
             return py::bytes(std::string(ValueOrThrow(s.ResumeHint(Workload(id)))));
           })
      .def("reconcile", &Reconcile)
      .def("decide", &Decide)
      .def("explain", [](const AnyScheduler& s,
                         I id) { return ExplanationDict(ValueOrThrow(s.Explain(Workload(id)))); })
      .def("standing",
           [](const AnyScheduler& s, I id, I now_us) {
             return ToDict(ValueOrThrow(s.Standing(Allocation(id), At(now_us))));
           })
      .def("forecast", &ForecastOf, py::arg("id"), py::kw_only(), py::arg("horizon_us"),
           py::arg("unfunded_us"), py::arg("step_us"), py::arg("max_passes"), py::arg("limits_us"))
      .def("clone", &AnyScheduler::Clone)
      .def("snapshot", [](const AnyScheduler& s) { return py::bytes(s.Snapshot()); })
      .def("restore",
           [](AnyScheduler& s, const py::bytes& snapshot) {
             ThrowIfError(s.Restore(static_cast<std::string>(snapshot)));
           })
      .def("digest", &AnyScheduler::Digest);
  const auto def_request = [&](const char* name, auto f) {
    scheduler.def(name, f, py::kw_only(), py::arg("id"), py::arg("allocation"), py::arg("nodes"),
                  py::arg("gpus_per_node"), py::arg("minimum_us"), py::arg("kind"), py::arg("user"),
                  py::arg("name"), py::arg("priority"), py::arg("resumable"), py::arg("restorable"),
                  py::arg("checkpoint_us"), py::arg("restart_us"), py::arg("gpu_type"),
                  py::arg("topology_required"), py::arg("topology_level"), py::arg("now_us"));
  };
  def_request("submit", WithRequest<AnyScheduler>(&Submit));
  def_request("what_if", WithRequest<const AnyScheduler>(&WhatIf));
}

}  // namespace tenure::python
