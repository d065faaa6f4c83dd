// SPDX-License-Identifier: Apache-2.0
//
// Scheduler. The policy is a template argument in C++ and a name here: `Face` is the one interface
// that the instances share.
#include "tenure/scheduler.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common.h"
#include "tenure/policy.h"
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

const char* ToText(StopReason reason) {
  switch (reason) {
    case StopReason::kPreempted:
      return "preempted";
    case StopReason::kDrain:
      return "drain";
    case StopReason::kCancelled:
      return "cancelled";
    case StopReason::kPromise:
      return "promise";
  }
  return "unknown";
}

const char* ToText(WaitReason reason) {
  switch (reason) {
    case WaitReason::kNone:
      return "none";
    case WaitReason::kNotConsidered:
      return "not-considered";
    case WaitReason::kNeverFits:
      return "never-fits";
    case WaitReason::kClosed:
      return "closed";
    case WaitReason::kNoCapacity:
      return "no-capacity";
    case WaitReason::kWaitsForStop:
      return "waits-for-stop";
    case WaitReason::kUnfundedWaits:
      return "unfunded-waits";
    case WaitReason::kReserved:
      return "reserved";
    case WaitReason::kSessionCap:
      return "session-cap";
    case WaitReason::kSuspended:
      return "suspended";
  }
  return "unknown";
}

const char* ToText(LossOutcome outcome) {
  switch (outcome) {
    case LossOutcome::kRequeued:
      return "requeued";
    case LossOutcome::kFailedByPreemption:
      return "failed-by-preemption";
    case LossOutcome::kSuspended:
      return "suspended";
    case LossOutcome::kCancelled:
      return "cancelled";
  }
  return "unknown";
}

// Tuples in the order of the fields of the Python classes.
py::tuple ToTuple(const Decisions& d) {
  py::list starts;
  for (const Start& s : d.starts) {
    starts.append(py::make_tuple(s.workload.value(), s.run.value(), NodeValues(d.Nodes(s)),
                                 s.gpus_per_node.value()));
  }
  py::list stops;
  for (const Stop& s : d.stops) {
    const bool for_another = s.reason == StopReason::kPreempted || s.reason == StopReason::kPromise;
    const std::optional<std::uint64_t> beneficiary =
        for_another ? std::optional(s.beneficiary.value()) : std::nullopt;
    stops.append(py::make_tuple(s.workload.value(), s.run.value(), ToText(s.reason), beneficiary,
                                s.grace.count(), s.lost_work.value()));
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
  return py::make_tuple(starts, stops, holds, promises, UsOrNever(d.next_wakeup));
}

py::dict ToDict(const Explanation& e) {
  py::dict out;
  out["workload"] = e.workload.value();
  out["state"] = ToString(e.state);
  out["reason"] = ToText(e.reason);
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

class Face {
 public:
  virtual ~Face() = default;
  virtual std::unique_ptr<Face> Clone() const = 0;
  virtual const BudgetTree& tree() const = 0;
  virtual const Cluster& cluster() const = 0;
  virtual std::size_t workloads() const = 0;
  virtual bool dirty() const = 0;
  virtual absl::StatusOr<AllocationId> AddAllocation(std::string name, AllocationId parent,
                                                     Weight weight, TimePoint now) = 0;
  virtual absl::Status SetWeight(AllocationId id, Weight weight, TimePoint effective,
                                 std::string author, std::string reason, TimePoint now) = 0;
  virtual absl::Status CloseAllocation(AllocationId id, TimePoint now) = 0;
  virtual GpuTypeId InternGpuType(const std::string& name) = 0;
  virtual absl::StatusOr<DomainId> AddDomain(std::string name, DomainId parent) = 0;
  virtual absl::StatusOr<NodeId> AddNode(std::string name, GpuCount gpus, GpuTypeId type,
                                         DomainId domain, TimePoint now) = 0;
  virtual absl::Status SetNode(NodeId id, NodeHealth health, TimePoint since, TimePoint now) = 0;
  virtual bool Drained(NodeId id) const = 0;
  virtual absl::Status Submit(const WorkloadSpec& spec, TimePoint now) = 0;
  virtual absl::Status Cancel(WorkloadId id, TimePoint now) = 0;
  virtual absl::Status ReportStarted(WorkloadId id, RunNumber run, TimePoint at, TimePoint now) = 0;
  virtual absl::Status ReportStartFailed(WorkloadId id, RunNumber run, TimePoint now) = 0;
  virtual absl::Status ReportEnded(WorkloadId id, RunNumber run, TimePoint at, TimePoint now) = 0;
  virtual absl::StatusOr<LossOutcome> ReportStopped(WorkloadId id, RunNumber run, TimePoint at,
                                                    TimePoint now) = 0;
  virtual absl::Status ReportStopFailed(WorkloadId id, RunNumber run, TimePoint now) = 0;
  virtual absl::Status ReportCheckpoint(WorkloadId id, RunNumber run, TimePoint at,
                                        TimePoint now) = 0;
  virtual absl::Status ReportIdle(WorkloadId id, bool idle, TimePoint now) = 0;
  virtual absl::StatusOr<ReconcileReport> Reconcile(std::span<const RunRef> running,
                                                    TimePoint now) = 0;
  virtual absl::StatusOr<const Decisions*> Decide(TimePoint now) = 0;
  virtual absl::StatusOr<Explanation> Explain(WorkloadId id) const = 0;
  virtual absl::StatusOr<AllocationStanding> Standing(AllocationId id, TimePoint now) const = 0;
  virtual std::string Snapshot() const = 0;
  virtual absl::Status Restore(const std::string& snapshot) = 0;
  virtual std::uint64_t Digest() const = 0;
};

template <class Policy>
class FaceOf final : public Face {
 public:
  explicit FaceOf(Scheduler<Policy> scheduler) : s_(std::move(scheduler)) {}
  std::unique_ptr<Face> Clone() const override { return std::make_unique<FaceOf>(s_.Clone()); }
  const BudgetTree& tree() const override { return s_.tree(); }
  const Cluster& cluster() const override { return s_.cluster(); }
  std::size_t workloads() const override { return s_.workloads(); }
  bool dirty() const override { return s_.dirty(); }
  absl::StatusOr<AllocationId> AddAllocation(std::string name, AllocationId parent, Weight weight,
                                             TimePoint now) override {
    return s_.AddAllocation(std::move(name), parent, weight, now);
  }
  absl::Status SetWeight(AllocationId id, Weight weight, TimePoint effective, std::string author,
                         std::string reason, TimePoint now) override {
    return s_.SetWeight(id, weight, effective, std::move(author), std::move(reason), now);
  }
  absl::Status CloseAllocation(AllocationId id, TimePoint now) override {
    return s_.CloseAllocation(id, now);
  }
  GpuTypeId InternGpuType(const std::string& name) override { return s_.InternGpuType(name); }
  absl::StatusOr<DomainId> AddDomain(std::string name, DomainId parent) override {
    return s_.AddDomain(std::move(name), parent);
  }
  absl::StatusOr<NodeId> AddNode(std::string name, GpuCount gpus, GpuTypeId type, DomainId domain,
                                 TimePoint now) override {
    return s_.AddNode(std::move(name), gpus, type, domain, now);
  }
  absl::Status SetNode(NodeId id, NodeHealth health, TimePoint since, TimePoint now) override {
    return s_.SetNode(id, health, since, now);
  }
  bool Drained(NodeId id) const override { return s_.Drained(id); }
  absl::Status Submit(const WorkloadSpec& spec, TimePoint now) override {
    return s_.Submit(spec, now);
  }
  absl::Status Cancel(WorkloadId id, TimePoint now) override { return s_.Cancel(id, now); }
  absl::Status ReportStarted(WorkloadId id, RunNumber run, TimePoint at, TimePoint now) override {
    return s_.ReportStarted(id, run, at, now);
  }
  absl::Status ReportStartFailed(WorkloadId id, RunNumber run, TimePoint now) override {
    return s_.ReportStartFailed(id, run, now);
  }
  absl::Status ReportEnded(WorkloadId id, RunNumber run, TimePoint at, TimePoint now) override {
    return s_.ReportEnded(id, run, at, now);
  }
  absl::StatusOr<LossOutcome> ReportStopped(WorkloadId id, RunNumber run, TimePoint at,
                                            TimePoint now) override {
    return s_.ReportStopped(id, run, at, now);
  }
  absl::Status ReportStopFailed(WorkloadId id, RunNumber run, TimePoint now) override {
    return s_.ReportStopFailed(id, run, now);
  }
  absl::Status ReportCheckpoint(WorkloadId id, RunNumber run, TimePoint at,
                                TimePoint now) override {
    return s_.ReportCheckpoint(id, run, at, now);
  }
  absl::Status ReportIdle(WorkloadId id, bool idle, TimePoint now) override {
    return s_.ReportIdle(id, idle, now);
  }
  absl::StatusOr<ReconcileReport> Reconcile(std::span<const RunRef> running,
                                            TimePoint now) override {
    return s_.Reconcile(running, now);
  }
  absl::StatusOr<const Decisions*> Decide(TimePoint now) override { return s_.Decide(now); }
  absl::StatusOr<Explanation> Explain(WorkloadId id) const override { return s_.Explain(id); }
  absl::StatusOr<AllocationStanding> Standing(AllocationId id, TimePoint now) const override {
    return s_.Standing(id, now);
  }
  std::string Snapshot() const override { return s_.Snapshot(); }
  absl::Status Restore(const std::string& snapshot) override { return s_.Restore(snapshot); }
  std::uint64_t Digest() const override { return s_.Digest(); }

 private:
  Scheduler<Policy> s_;
};

template <class Policy>
std::unique_ptr<Face> Make(const SchedulerOptions& options, Policy policy) {
  ThrowIfError(Scheduler<Policy>::CheckOptions(options));
  return std::make_unique<FaceOf<Policy>>(Scheduler<Policy>(options, std::move(policy)));
}

std::unique_ptr<Face> MakeFace(const std::string& policy, const Parameters& parameters,
                               std::int64_t grace_us) {
  if (!IsPreset(policy)) {
    Throw(absl::InvalidArgumentError(
        absl::StrCat("no scheduler policy '", policy, "'; there are ai2, budget, hier")));
  }
  Preset preset = MakePreset(policy);
  preset.scheduler.grace = Duration(grace_us);  // a parameter of that name wins
  ThrowIfError(preset.Set(policy, parameters));
  if (preset.ai2) return Make(preset.scheduler, Ai2Policy());
  return Make(preset.scheduler, BudgetPolicy(preset.budget));
}

WorkloadId Workload(std::int64_t id) { return ToId<WorkloadId>("workload", id); }
AllocationId Allocation(std::int64_t id) { return ToId<AllocationId>("allocation", id); }
RunNumber RunOf(std::int64_t run) { return ToId<RunNumber>("run", run); }

void Submit(Face& s, std::int64_t id, std::int64_t allocation, std::int64_t nodes,
            std::int64_t gpus_per_node, std::int64_t minimum_us, const std::string& kind,
            std::int64_t user, std::string name, std::int32_t priority, bool resumable,
            std::int64_t checkpoint_us, std::int64_t restart_us,
            const std::optional<std::string>& gpu_type, bool topology_required,
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
  WorkloadSpec spec;
  spec.id = WorkloadId(static_cast<std::uint64_t>(id));
  spec.allocation = Allocation(allocation);
  spec.user = UserId(static_cast<std::uint32_t>(user));
  spec.name = std::move(name);
  spec.workload_class = ClassOf(kind);
  spec.priority = priority;
  spec.nodes = static_cast<std::uint32_t>(nodes);
  spec.gpus_per_node = GpuCount(gpus_per_node);
  if (gpu_type.has_value()) spec.gpu_type = s.InternGpuType(*gpu_type);
  spec.topology_rule = topology_required ? TopologyRule::kRequired : TopologyRule::kPreferred;
  if (topology_level.has_value()) {
    spec.topology_level = static_cast<std::uint8_t>(*topology_level);
  }
  spec.minimum = Duration(minimum_us);
  spec.resumable = resumable;
  spec.checkpoint_interval = Duration(checkpoint_us);
  spec.restart_overhead = Duration(restart_us);
  ThrowIfError(s.Submit(spec, At(now_us)));
}

py::tuple Decide(Face& s, std::int64_t now_us) {
  absl::StatusOr<const Decisions*> decisions;
  {
    const py::gil_scoped_release release;
    decisions = s.Decide(At(now_us));
  }
  return ToTuple(*ValueOrThrow(std::move(decisions)));
}

py::tuple Reconcile(Face& s, const std::vector<std::pair<std::int64_t, std::int64_t>>& running,
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
  py::class_<Face>(m, "Scheduler")
      .def(py::init(&MakeFace), py::kw_only(), py::arg("policy"), py::arg("parameters"),
           py::arg("grace_us"))
      .def("tree", [](const Face& s) { return BudgetTree(s.tree()); })
      .def_property_readonly("workloads", &Face::workloads)
      .def_property_readonly("dirty", &Face::dirty)
      .def("add_allocation",
           [](Face& s, std::string name, I parent, double weight, I now_us) {
             return ValueOrThrow(s.AddAllocation(std::move(name), Allocation(parent),
                                                 Weight{weight}, At(now_us)))
                 .value();
           })
      .def("set_weight",
           [](Face& s, I id, double weight, I effective_us, std::string author, std::string reason,
              I now_us) {
             ThrowIfError(s.SetWeight(Allocation(id), Weight{weight}, At(effective_us),
                                      std::move(author), std::move(reason), At(now_us)));
           })
      .def("close_allocation",
           [](Face& s, I id, I now_us) {
             ThrowIfError(s.CloseAllocation(Allocation(id), At(now_us)));
           })
      .def("add_domain",
           [](Face& s, std::string name, I parent) {
             return ValueOrThrow(
                        s.AddDomain(std::move(name), ToId<DomainId>("topology domain", parent)))
                 .value();
           })
      .def("add_node",
           [](Face& s, std::string name, I gpus, const std::string& gpu_type, I domain, I now_us) {
             return ValueOrThrow(s.AddNode(std::move(name), GpuCount(gpus),
                                           s.InternGpuType(gpu_type),
                                           ToId<DomainId>("topology domain", domain), At(now_us)))
                 .value();
           })
      .def("set_node",
           [](Face& s, I id, const std::string& health, I since_us, I now_us) {
             ThrowIfError(
                 s.SetNode(ToId<NodeId>("node", id), HealthOf(health), At(since_us), At(now_us)));
           })
      .def("drained", [](const Face& s, I id) { return s.Drained(ToId<NodeId>("node", id)); })
      .def("node_name",
           [](const Face& s, I id) {
             const auto node = ToId<NodeId>("node", id);
             if (!s.cluster().contains(node)) {
               Throw(absl::NotFoundError(absl::StrCat("node ", id, " is unknown")));
             }
             return s.cluster().node(node).name;
           })
      .def("submit", &Submit, py::kw_only(), py::arg("id"), py::arg("allocation"), py::arg("nodes"),
           py::arg("gpus_per_node"), py::arg("minimum_us"), py::arg("kind"), py::arg("user"),
           py::arg("name"), py::arg("priority"), py::arg("resumable"), py::arg("checkpoint_us"),
           py::arg("restart_us"), py::arg("gpu_type"), py::arg("topology_required"),
           py::arg("topology_level"), py::arg("now_us"))
      .def("cancel",
           [](Face& s, I id, I now_us) { ThrowIfError(s.Cancel(Workload(id), At(now_us))); })
      .def("report_started",
           [](Face& s, I id, I run, I at_us, I now_us) {
             ThrowIfError(s.ReportStarted(Workload(id), RunOf(run), At(at_us), At(now_us)));
           })
      .def("report_start_failed",
           [](Face& s, I id, I run, I now_us) {
             ThrowIfError(s.ReportStartFailed(Workload(id), RunOf(run), At(now_us)));
           })
      .def("report_ended",
           [](Face& s, I id, I run, I at_us, I now_us) {
             ThrowIfError(s.ReportEnded(Workload(id), RunOf(run), At(at_us), At(now_us)));
           })
      .def("report_stopped",
           [](Face& s, I id, I run, I at_us, I now_us) {
             return ToText(
                 ValueOrThrow(s.ReportStopped(Workload(id), RunOf(run), At(at_us), At(now_us))));
           })
      .def("report_stop_failed",
           [](Face& s, I id, I run, I now_us) {
             ThrowIfError(s.ReportStopFailed(Workload(id), RunOf(run), At(now_us)));
           })
      .def("report_checkpoint",
           [](Face& s, I id, I run, I at_us, I now_us) {
             ThrowIfError(s.ReportCheckpoint(Workload(id), RunOf(run), At(at_us), At(now_us)));
           })
      .def("report_idle",
           [](Face& s, I id, bool idle, I now_us) {
             ThrowIfError(s.ReportIdle(Workload(id), idle, At(now_us)));
           })
      .def("reconcile", &Reconcile)
      .def("decide", &Decide)
      .def("explain",
           [](const Face& s, I id) { return ToDict(ValueOrThrow(s.Explain(Workload(id)))); })
      .def("standing",
           [](const Face& s, I id, I now_us) {
             return ToDict(ValueOrThrow(s.Standing(Allocation(id), At(now_us))));
           })
      .def("clone", &Face::Clone)
      .def("snapshot", [](const Face& s) { return py::bytes(s.Snapshot()); })
      .def("restore",
           [](Face& s, const py::bytes& snapshot) {
             ThrowIfError(s.Restore(static_cast<std::string>(snapshot)));
           })
      .def("digest", &Face::Digest);
}

}  // namespace tenure::python
