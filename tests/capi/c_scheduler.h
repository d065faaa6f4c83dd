// SPDX-License-Identifier: Apache-2.0
//
// An AnyScheduler that does everything through tenure.h, so that what is tested in C++ can be
// tested through the C face with the same code.
//
//   auto s = test::MakeCScheduler("budget", {{"grace", "2m"}}).value();
//
// Calls, answers and decisions go through the C functions only. What C++ callers see by reference
// (tree, cluster, table, options) comes from a mirror: a C++ scheduler restored from the C face's
// snapshot when it is asked for after a change.
#ifndef TENURE_TESTS_CAPI_C_SCHEDULER_H_
#define TENURE_TESTS_CAPI_C_SCHEDULER_H_

#define TENURE_EXPERIMENTAL

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tenure/any_scheduler.h"
#include "tenure/tenure.h"

namespace tenure::test {

inline absl::Status ToStatus(tenure_status status) {
  const char* message = tenure_last_error_message();
  switch (status) {
    case TENURE_OK:
      return absl::OkStatus();
    case TENURE_ERROR_INVALID_ARGUMENT:
      return absl::InvalidArgumentError(message);
    case TENURE_ERROR_NOT_FOUND:
      return absl::NotFoundError(message);
    case TENURE_ERROR_ALREADY_EXISTS:
      return absl::AlreadyExistsError(message);
    case TENURE_ERROR_FAILED_PRECONDITION:
      return absl::FailedPreconditionError(message);
    case TENURE_ERROR_RESOURCE_EXHAUSTED:
      return absl::ResourceExhaustedError(message);
    case TENURE_ERROR_OUT_OF_RANGE:
      return absl::OutOfRangeError(message);
    default:
      return absl::InternalError(absl::StrCat(tenure_status_name(status), ": ", message));
  }
}

class CScheduler final : public AnyScheduler {
 public:
  // `handle` and `mirror` are made with the same options.
  CScheduler(tenure_scheduler* handle, std::unique_ptr<AnyScheduler> mirror)
      : s_(handle), mirror_(std::move(mirror)) {}
  ~CScheduler() override { tenure_scheduler_destroy(s_); }

  std::unique_ptr<AnyScheduler> Clone() const override {
    tenure_scheduler* copy = nullptr;
    if (tenure_scheduler_clone(s_, &copy) != TENURE_OK) return nullptr;
    return std::make_unique<CScheduler>(copy, Mirror().Clone());
  }
  const BudgetTree& tree() const override { return Mirror().tree(); }
  const Cluster& cluster() const override { return Mirror().cluster(); }
  const WorkloadTable& table() const override { return Mirror().table(); }
  const SchedulerOptions& options() const override { return mirror_->options(); }
  std::size_t workloads() const override { return Info().workload_count; }
  bool dirty() const override { return Info().dirty != 0; }
  TimePoint now() const override { return At(Info().now_us); }

  absl::StatusOr<AllocationId> AddAllocation(std::string name, AllocationId parent, Weight weight,
                                             TimePoint now) override {
    std::uint32_t id = 0;
    const absl::Status s = Changed(
        tenure_allocation_add(s_, parent.value(), name.c_str(), weight.value, Us(now), &id));
    if (!s.ok()) return s;
    return AllocationId(id);
  }
  absl::Status SetWeight(AllocationId id, Weight weight, TimePoint effective, std::string author,
                         std::string reason, TimePoint now) override {
    return Changed(tenure_allocation_set_weight(s_, id.value(), weight.value, Us(effective),
                                                author.c_str(), reason.c_str(), Us(now)));
  }
  absl::Status Boost(AllocationId id, Weight weight, TimePoint from, TimePoint until,
                     std::string author, std::string reason, TimePoint now) override {
    return Changed(tenure_allocation_boost(s_, id.value(), weight.value, Us(from), Us(until),
                                           author.c_str(), reason.c_str(), Us(now)));
  }
  absl::Status MoveAllocation(AllocationId id, AllocationId new_parent, TimePoint now,
                              std::string author, std::string reason) override {
    return Changed(tenure_allocation_move(s_, id.value(), new_parent.value(), author.c_str(),
                                          reason.c_str(), Us(now)));
  }
  absl::Status CloseAllocation(AllocationId id, TimePoint now) override {
    return Changed(tenure_allocation_close(s_, id.value(), Us(now)));
  }

  GpuTypeId InternGpuType(const std::string& name) override {
    std::uint32_t id = 0;
    (void)Changed(tenure_gpu_type_add(s_, name.c_str(), &id));
    return GpuTypeId(static_cast<std::uint16_t>(id));
  }
  absl::StatusOr<DomainId> AddDomain(std::string name, DomainId parent) override {
    std::uint32_t id = 0;
    const absl::Status s = Changed(tenure_domain_add(s_, parent.value(), name.c_str(), &id));
    if (!s.ok()) return s;
    return DomainId(id);
  }
  absl::StatusOr<NodeId> AddNode(std::string name, GpuCount gpus, GpuTypeId type, DomainId domain,
                                 TimePoint now) override {
    std::uint32_t id = 0;
    const absl::Status s =
        Changed(tenure_node_add(s_, name.c_str(), static_cast<std::int32_t>(gpus.value()),
                                type.value(), domain.value(), Us(now), &id));
    if (!s.ok()) return s;
    return NodeId(id);
  }
  absl::StatusOr<NodeReport> SetNode(NodeId id, NodeHealth health, TimePoint since,
                                     TimePoint now) override {
    std::vector<tenure_loss> losses;
    std::size_t count = 0;
    const auto set = [&] {
      return tenure_node_set_health(s_, id.value(), static_cast<std::int32_t>(health), Us(since),
                                    Us(now), losses.data(), losses.size(), &count);
    };
    tenure_status status = set();
    if (status == TENURE_ERROR_BUFFER_TOO_SMALL) {
      losses.resize(count);
      status = set();
    }
    if (const absl::Status s = Changed(status); !s.ok()) return s;
    NodeReport report;
    for (std::size_t i = 0; i < count; ++i) {
      report.lost.push_back({WorkloadId(losses[i].workload), RunNumber(losses[i].run),
                             static_cast<LossOutcome>(losses[i].outcome)});
    }
    return report;
  }
  bool Drained(NodeId id) const override {
    tenure_node_info info = TENURE_NODE_INFO_INIT;
    return tenure_node_describe(s_, id.value(), &info) == TENURE_OK && info.drained != 0;
  }
  absl::StatusOr<MaintenanceId> AnnounceMaintenance(std::vector<NodeId> nodes, TimePoint from,
                                                    TimePoint until, std::string author,
                                                    std::string reason, TimePoint now) override {
    std::vector<std::uint32_t> ids;
    for (const NodeId n : nodes) ids.push_back(n.value());
    std::uint64_t id = 0;
    const absl::Status s =
        Changed(tenure_maintenance_announce(s_, ids.data(), ids.size(), Us(from), Us(until),
                                            author.c_str(), reason.c_str(), Us(now), &id));
    if (!s.ok()) return s;
    return MaintenanceId(id);
  }
  absl::Status CancelMaintenance(MaintenanceId id, TimePoint now) override {
    return Changed(tenure_maintenance_cancel(s_, id.value(), Us(now)));
  }
  std::span<const MaintenanceWindow> maintenance() const override { return Mirror().maintenance(); }
  absl::Status SetChargeRate(GpuTypeId type, std::int32_t permille, TimePoint now) override {
    return Changed(tenure_gpu_type_set_rate(s_, type.value(), permille, Us(now)));
  }
  std::int32_t charge_rate(GpuTypeId type) const override { return Mirror().charge_rate(type); }
  MilliGpu Capacity() const override { return Mirror().Capacity(); }

  absl::Status Submit(const WorkloadSpec& spec, TimePoint now) override {
    const tenure_workload w = ToC(spec);
    return Changed(tenure_workload_submit(s_, &w, Us(now)));
  }
  absl::Status Cancel(WorkloadId id, TimePoint now) override {
    return Changed(tenure_workload_cancel(s_, id.value(), Us(now)));
  }
  absl::Status ReportStarted(WorkloadId id, RunNumber run, TimePoint started,
                             TimePoint now) override {
    return Changed(tenure_run_started(s_, id.value(), run.value(), Us(started), Us(now)));
  }
  absl::Status ReportStartFailed(WorkloadId id, RunNumber run, TimePoint now) override {
    return Changed(tenure_run_start_failed(s_, id.value(), run.value(), Us(now)));
  }
  absl::Status ReportEnded(WorkloadId id, RunNumber run, TimePoint ended, TimePoint now) override {
    return Changed(tenure_run_ended(s_, id.value(), run.value(), Us(ended), Us(now)));
  }
  absl::StatusOr<LossOutcome> ReportStopped(WorkloadId id, RunNumber run, TimePoint stopped,
                                            TimePoint now) override {
    std::int32_t outcome = -1;
    const absl::Status s =
        Changed(tenure_run_stopped(s_, id.value(), run.value(), Us(stopped), Us(now), &outcome));
    if (!s.ok()) return s;
    return static_cast<LossOutcome>(outcome);
  }
  absl::Status ReportStopFailed(WorkloadId id, RunNumber run, TimePoint now) override {
    return Changed(tenure_run_stop_failed(s_, id.value(), run.value(), Us(now)));
  }
  absl::Status ReportCheckpoint(WorkloadId id, RunNumber run, TimePoint at,
                                TimePoint now) override {
    return Changed(tenure_run_checkpointed(s_, id.value(), run.value(), Us(at), Us(now)));
  }
  absl::Status ReportIdle(WorkloadId id, bool idle, TimePoint now) override {
    return Changed(tenure_workload_idle(s_, id.value(), idle, Us(now)));
  }
  absl::Status SetResumeHint(WorkloadId id, std::string hint, TimePoint now) override {
    return Changed(
        tenure_workload_set_resume_hint(s_, id.value(), hint.data(), hint.size(), Us(now)));
  }
  absl::StatusOr<std::string_view> ResumeHint(WorkloadId id) const override {
    std::size_t size = 0;
    hint_.resize(8);  // small at first, as the others
    tenure_status status =
        tenure_workload_resume_hint(s_, id.value(), hint_.data(), hint_.size(), &size);
    hint_.resize(size);
    if (status == TENURE_ERROR_BUFFER_TOO_SMALL) {
      status = tenure_workload_resume_hint(s_, id.value(), hint_.data(), hint_.size(), &size);
    }
    if (status != TENURE_OK) return ToStatus(status);
    return std::string_view(hint_);
  }
  absl::StatusOr<ReconcileReport> Reconcile(std::span<const RunRef> running,
                                            TimePoint now) override {
    std::vector<tenure_run_ref> list, ended, unknown;
    for (const RunRef& r : running) list.push_back({r.workload.value(), r.run.value(), 0});
    tenure_reconcile_report report = TENURE_RECONCILE_REPORT_INIT;
    const auto call = [&] {
      report.ended = ended.data(), report.ended_capacity = ended.size();
      report.unknown = unknown.data(), report.unknown_capacity = unknown.size();
      return tenure_scheduler_reconcile(s_, list.data(), list.size(), Us(now), &report);
    };
    tenure_status status = call();
    if (status == TENURE_ERROR_BUFFER_TOO_SMALL) {
      ended.resize(report.ended_count);
      unknown.resize(report.unknown_count);
      status = call();
    }
    if (const absl::Status s = Changed(status); !s.ok()) return s;
    ReconcileReport out;
    for (std::size_t i = 0; i < report.ended_count; ++i) {
      out.ended.push_back({WorkloadId(ended[i].workload), RunNumber(ended[i].run)});
    }
    for (std::size_t i = 0; i < report.unknown_count; ++i) {
      out.unknown.push_back({WorkloadId(unknown[i].workload), RunNumber(unknown[i].run)});
    }
    return out;
  }

  absl::StatusOr<const Decisions*> Decide(TimePoint now) override;
  absl::StatusOr<Explanation> Explain(WorkloadId id) const override;
  absl::StatusOr<AllocationStanding> Standing(AllocationId id, TimePoint now) const override;
  absl::StatusOr<ForecastResult> Forecast(WorkloadId id,
                                          const ForecastOptions& options) const override;
  absl::StatusOr<WhatIfResult> WhatIf(const WorkloadSpec& spec, TimePoint now) const override;

  std::string Snapshot() const override {
    std::string bytes(4096, '\0');
    std::size_t size = 0;
    if (tenure_scheduler_snapshot(s_, bytes.data(), bytes.size(), &size) ==
        TENURE_ERROR_BUFFER_TOO_SMALL) {
      bytes.resize(size);
      (void)tenure_scheduler_snapshot(s_, bytes.data(), bytes.size(), &size);
    }
    bytes.resize(size);
    return bytes;
  }
  absl::Status Restore(const std::string& snapshot) override {
    return Changed(tenure_scheduler_restore(s_, snapshot.data(), snapshot.size()));
  }
  std::uint64_t Digest() const override {
    std::uint64_t digest = 0;
    (void)tenure_scheduler_digest(s_, &digest);
    return digest;
  }

 private:
  static TimePoint At(std::int64_t us) { return TimePoint(Duration(us)); }
  static std::int64_t Us(TimePoint t) { return t.time_since_epoch().count(); }
  static NodeList ToList(std::uint32_t begin, std::uint32_t size) { return {begin, size}; }
  static Stop ToStop(const tenure_stop& s) {
    Stop stop;
    stop.workload = WorkloadId(s.workload);
    stop.run = RunNumber(s.run);
    stop.reason = static_cast<StopReason>(s.reason);
    stop.beneficiary = WorkloadId(s.beneficiary);
    stop.grace = Duration(s.grace_us);
    stop.lost_work = GpuTime(s.lost_gpu_us);
    return stop;
  }
  static tenure_workload ToC(const WorkloadSpec& spec) {
    tenure_workload w = TENURE_WORKLOAD_INIT;
    w.allocation = spec.allocation.value();
    w.id = spec.id.value();
    w.name = spec.name.data();
    w.name_size = static_cast<std::uint32_t>(spec.name.size());
    w.user = spec.user.value();
    w.workload_class = static_cast<std::int32_t>(spec.workload_class);
    w.priority = spec.priority;
    w.nodes = spec.nodes;
    w.gpus_per_node = static_cast<std::int32_t>(spec.gpus_per_node.value());
    w.gpu_type = spec.gpu_type == kAnyGpuType ? TENURE_ANY_GPU_TYPE : spec.gpu_type.value();
    w.topology = static_cast<std::int32_t>(spec.topology_rule);
    w.topology_level = spec.topology_level;
    w.resumable = spec.resumable;
    w.restorable = spec.restorable;
    w.minimum_us = spec.minimum.count();
    w.checkpoint_interval_us = spec.checkpoint_interval.count();
    w.restart_overhead_us = spec.restart_overhead.count();
    return w;
  }

  tenure_scheduler_info Info() const {
    tenure_scheduler_info info = TENURE_SCHEDULER_INFO_INIT;
    (void)tenure_scheduler_describe(s_, &info);
    return info;
  }
  absl::Status Changed(tenure_status status) {
    stale_ = true;
    return ToStatus(status);
  }
  const AnyScheduler& Mirror() const {
    if (stale_ && mirror_->Restore(Snapshot()).ok()) stale_ = false;
    return *mirror_;
  }

  tenure_scheduler* s_;
  mutable std::unique_ptr<AnyScheduler> mirror_;
  mutable bool stale_ = true;
  mutable std::string hint_;
  Decisions decisions_;
  // Small at first, so that the way over a full buffer is taken, too.
  std::vector<tenure_start> starts_;
  std::vector<tenure_stop> stops_;
  std::vector<tenure_hold> holds_;
  std::vector<tenure_promise> promises_;
  std::vector<std::uint32_t> nodes_;
};

inline absl::StatusOr<const Decisions*> CScheduler::Decide(TimePoint now) {
  tenure_decisions d = TENURE_DECISIONS_INIT;
  const auto connect = [&] {
    d.starts = starts_.data(), d.start_capacity = starts_.size();
    d.stops = stops_.data(), d.stop_capacity = stops_.size();
    d.holds = holds_.data(), d.hold_capacity = holds_.size();
    d.promises = promises_.data(), d.promise_capacity = promises_.size();
    d.nodes = nodes_.data(), d.node_capacity = nodes_.size();
  };
  connect();
  tenure_status status = tenure_scheduler_decide(s_, Us(now), &d);
  if (status == TENURE_ERROR_BUFFER_TOO_SMALL || d.hold_count > holds_.size() ||
      d.promise_count > promises_.size()) {
    starts_.resize(std::max(starts_.size(), d.start_count));
    stops_.resize(std::max(stops_.size(), d.stop_count));
    holds_.resize(std::max(holds_.size(), d.hold_count));
    promises_.resize(std::max(promises_.size(), d.promise_count));
    nodes_.resize(std::max(nodes_.size(), d.node_count));
    connect();
    status = tenure_scheduler_decisions(s_, &d);
  }
  if (const absl::Status s = Changed(status); !s.ok()) return s;
  decisions_.Clear();
  for (std::size_t i = 0; i < d.start_count; ++i) {
    const tenure_start& s = starts_[i];
    decisions_.starts.push_back({WorkloadId(s.workload), RunNumber(s.run),
                                 ToList(s.node_begin, s.node_count), GpuCount(s.gpus_per_node)});
  }
  for (std::size_t i = 0; i < d.stop_count; ++i) decisions_.stops.push_back(ToStop(stops_[i]));
  for (std::size_t i = 0; i < d.hold_count; ++i) {
    const tenure_hold& h = holds_[i];
    decisions_.holds.push_back({WorkloadId(h.workload), ToList(h.node_begin, h.node_count),
                                GpuCount(h.gpus_per_node), At(h.expires_us)});
  }
  for (std::size_t i = 0; i < d.promise_count; ++i) {
    const tenure_promise& p = promises_[i];
    decisions_.promises.push_back(
        {WorkloadId(p.workload), ToList(p.node_begin, p.node_count), At(p.start_by_us)});
  }
  for (std::size_t i = 0; i < d.node_count; ++i) decisions_.node_pool.emplace_back(nodes_[i]);
  decisions_.next_wakeup = At(d.next_wakeup_us);
  tenure_search_record r = TENURE_SEARCH_RECORD_INIT;
  if (const absl::Status s = ToStatus(tenure_scheduler_search(s_, &r)); !s.ok()) return s;
  decisions_.search = {static_cast<SearchOutcome>(r.outcome),
                       static_cast<plan::BackendKind>(r.backend),
                       r.trials,
                       r.seed,
                       r.winner,
                       r.price_before_gpu_min,
                       r.price_gpu_min,
                       r.faults};
  return &decisions_;
}

inline absl::StatusOr<Explanation> CScheduler::Explain(WorkloadId id) const {
  tenure_explanation c = TENURE_EXPLANATION_INIT;
  if (const absl::Status s = ToStatus(tenure_workload_explain(s_, id.value(), &c)); !s.ok()) {
    return s;
  }
  Explanation e;
  e.workload = WorkloadId(c.workload);
  e.state = static_cast<WorkloadState>(c.state);
  e.reason = static_cast<WaitReason>(c.reason);
  e.allocation = AllocationId(c.allocation);
  e.entitlement = MilliGpu(c.entitlement_mgpu);
  e.fluid = MilliGpu(c.fluid_mgpu);
  e.placed = GpuCount(c.placed_gpus);
  e.queued = GpuCount(c.queued_gpus);
  e.used = GpuTime(c.used_gpu_us);
  e.key = Duration(c.key_us);
  e.tier = c.tier;
  e.leaves_ahead = c.leaves_ahead;
  e.requests_ahead = c.requests_ahead;
  if (c.protected_until_us != TENURE_NEVER) e.protected_until = At(c.protected_until_us);
  e.promised_start = At(c.promised_start_us);
  e.next_protection_end = At(c.next_protection_end_us);
  e.stops = c.stops;
  return e;
}

inline absl::StatusOr<AllocationStanding> CScheduler::Standing(AllocationId id,
                                                               TimePoint now) const {
  tenure_standing c = TENURE_STANDING_INIT;
  if (const absl::Status s = ToStatus(tenure_allocation_standing(s_, id.value(), Us(now), &c));
      !s.ok()) {
    return s;
  }
  AllocationStanding s;
  s.allocation = AllocationId(c.allocation);
  s.entitlement = MilliGpu(c.entitlement_mgpu);
  s.natural = MilliGpu(c.natural_mgpu);
  s.fluid = MilliGpu(c.fluid_mgpu);
  s.used_in_window = GpuTime(c.used_gpu_us);
  s.used_rest = c.used_rest;
  s.committed_ahead = GpuTime(c.committed_gpu_us);
  s.unfunded_in_window = GpuTime(c.unfunded_gpu_us);
  s.key = Duration(c.key_us);
  s.placed = GpuCount(c.placed_gpus);
  s.queued = GpuCount(c.queued_gpus);
  s.unfunded = GpuCount(c.unfunded_gpus);
  return s;
}

inline absl::StatusOr<ForecastResult> CScheduler::Forecast(WorkloadId id,
                                                           const ForecastOptions& options) const {
  tenure_forecast c = TENURE_FORECAST_INIT;
  if (const absl::Status s =
          ToStatus(tenure_workload_forecast(s_, id.value(), options.horizon.count(), &c));
      !s.ok()) {
    return s;
  }
  ForecastResult f;
  f.start = At(c.start_us);
  f.promised = c.promised != 0;
  f.started = c.started != 0;
  f.reason = static_cast<WaitReason>(c.reason);
  f.searched_until = At(c.searched_until_us);
  return f;
}

inline absl::StatusOr<WhatIfResult> CScheduler::WhatIf(const WorkloadSpec& spec,
                                                       TimePoint now) const {
  std::vector<std::uint32_t> nodes(Info().node_count);
  std::vector<tenure_stop> stops(Info().workload_count);
  tenure_what_if c = TENURE_WHAT_IF_INIT;
  c.nodes = nodes.data(), c.node_capacity = nodes.size();
  c.stops = stops.data(), c.stop_capacity = stops.size();
  const tenure_workload w = ToC(spec);
  if (const absl::Status s = ToStatus(tenure_workload_what_if(s_, &w, Us(now), &c)); !s.ok()) {
    return s;
  }
  WhatIfResult r;
  r.starts_now = c.starts_now != 0;
  r.held = c.held != 0;
  r.reserved = c.reserved != 0;
  r.promised = At(c.promised_start_us);
  for (std::size_t i = 0; i < c.node_count; ++i) r.nodes.emplace_back(nodes[i]);
  for (std::size_t i = 0; i < c.stop_count; ++i) r.victims.push_back(ToStop(stops[i]));
  r.reason = static_cast<WaitReason>(c.reason);
  return r;
}

inline absl::StatusOr<std::unique_ptr<AnyScheduler>> MakeCScheduler(const std::string& policy,
                                                                    const Parameters& parameters) {
  absl::StatusOr<std::unique_ptr<AnyScheduler>> mirror = MakeScheduler(policy, parameters);
  tenure_options* options = nullptr;
  tenure_scheduler* handle = nullptr;
  absl::Status s = ToStatus(tenure_options_create(policy.c_str(), &options));
  for (const auto& [name, value] : parameters) {
    if (s.ok()) s = ToStatus(tenure_options_set(options, name.c_str(), value.c_str()));
  }
  if (s.ok()) s = ToStatus(tenure_scheduler_create(options, &handle));
  tenure_options_destroy(options);
  // The C face tells an unknown name from a bad value.
  if (absl::IsNotFound(s)) s = absl::InvalidArgumentError(s.message());
  if (!s.ok()) return s;
  if (!mirror.ok()) return absl::InternalError("C++ refuses what C accepts");
  return std::make_unique<CScheduler>(handle, *std::move(mirror));
}

}  // namespace tenure::test

#endif  // TENURE_TESTS_CAPI_C_SCHEDULER_H_
