// SPDX-License-Identifier: Apache-2.0
//
// The state machine: events in, decisions out.
//
//   tenure::Scheduler<tenure::BudgetPolicy> s;
//   auto h100 = s.InternGpuType("h100");
//   s.AddNode("n1", tenure::GpuCount(8), h100, tenure::kRootDomain, t0).value();
//   auto team = s.AddAllocation("vision", tenure::kRootAllocation, tenure::Weight{1.0},
//   t0).value(); tenure::WorkloadSpec job; job.id = tenure::WorkloadId(7); job.allocation = team;
//   job.minimum = std::chrono::hours(1);
//   s.Submit(job, t0);
//   const tenure::Decisions* d = s.Decide(t0).value();   // d->starts[0].workload == 7
//   s.ReportStarted(job.id, d->starts[0].run, t0);
//
// The caller reports what happens and carries out what Decide answers: launch `starts` and report
// them started, signal `stops` and report them stopped. GPUs of a stopped run are given away only
// after ReportStopped. `now` of every call must not be earlier than that of any call before
// (OutOfRange otherwise). A call that is refused changes nothing.
//
// No clock, no threads, no I/O, no randomness. Thread-compatible; a copy (`Clone`) is an
// independent scheduler for what-if questions. Decisions are a function of the events alone:
// independent of the insertion order of equal input, of hash order and of snapshot/restore.
// Complexity of a pass: O(L log L + M + S x N x R) for L leaves that wait, M allocations that run
// something or whose use leaves the window now, S distinct shapes that wait and N nodes with R runs
// each; independent of the number of requests that wait and do not start, and of all other
// allocations.
#ifndef TENURE_SCHEDULER_H_
#define TENURE_SCHEDULER_H_

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenure/answers.h"
#include "tenure/archive.h"
#include "tenure/budget_tree.h"
#include "tenure/charge_rates.h"
#include "tenure/cluster.h"
#include "tenure/contract.h"
#include "tenure/decisions.h"
#include "tenure/ledger.h"
#include "tenure/maintenance.h"
#include "tenure/pending_queue.h"
#include "tenure/placement.h"
#include "tenure/plan_search.h"
#include "tenure/policy.h"
#include "tenure/preemption.h"
#include "tenure/ranking.h"
#include "tenure/reservation.h"
#include "tenure/round_failures.h"
#include "tenure/scheduler_options.h"
#include "tenure/search_scene.h"
#include "tenure/serving_order.h"
#include "tenure/stoppable_runs.h"
#include "tenure/token_bucket.h"
#include "tenure/types.h"
#include "tenure/workload_table.h"

namespace tenure {

template <class Policy>
class Scheduler {
 public:
  explicit Scheduler(SchedulerOptions options = {}, Policy policy = Policy())
      : options_(std::move(options)),
        policy_(std::move(policy)),
        ledger_(options_.lookback),
        ranking_(options_.ranking),
        credit_(options_.lookback),
        preemptions_(options_.preemption_rate, options_.preemption_burst),
        plan_search_(options_.search) {
    cluster_.SetLane(options_.lane_permille);
    ledger_.Open(tree_);
  }

  // InvalidArgument if an option is out of range, Unavailable if plan search is to use a GPU and
  // there is none; construct only with options that pass.
  static absl::Status CheckOptions(const SchedulerOptions& options);

  // --- Budgets ---------------------------------------------------------------------------------
  absl::StatusOr<AllocationId> AddAllocation(std::string name, AllocationId parent, Weight weight,
                                             TimePoint now);
  // From `effective` on; in the past means now. History is not rescaled.
  absl::Status SetWeight(AllocationId id, Weight weight, TimePoint effective, std::string author,
                         std::string reason, TimePoint now);
  // `id` weighs `weight` in [from, until), then again what it weighed before, unless SetWeight has
  // changed it meanwhile (BudgetTree::ScheduleBoost has the rule for overlapping boosts). `from` in
  // the past means now. InvalidArgument also if that leaves no time.
  absl::Status Boost(AllocationId id, Weight weight, TimePoint from, TimePoint until,
                     std::string author, std::string reason, TimePoint now);
  // Puts `id` and all below it under another parent, at once, with its history: what it has used,
  // uses, waits for and is committed to leaves its old ancestors and enters the new ones exactly.
  // Running and promised work is not touched. Errors of BudgetTree::Move.
  absl::Status MoveAllocation(AllocationId id, AllocationId new_parent, TimePoint now,
                              std::string author, std::string reason);
  // No new starts below `id`; running work goes on and stays charged.
  absl::Status CloseAllocation(AllocationId id, TimePoint now);
  const BudgetTree& tree() const { return tree_; }

  // --- Nodes -----------------------------------------------------------------------------------
  GpuTypeId InternGpuType(const std::string& name) { return cluster_.InternGpuType(name); }
  absl::StatusOr<DomainId> AddDomain(std::string name, DomainId parent) {
    return cluster_.AddDomain(std::move(name), parent);
  }
  absl::StatusOr<NodeId> AddNode(std::string name, GpuCount gpus, GpuTypeId type, DomainId domain,
                                 TimePoint now);
  // kDown ends every run on the node at `since` (<= now), protected or not, a gang whole: charged
  // until then. The report says what became of each workload: requeued, or over because it is not
  // resumable or was cancelled. InvalidArgument (`since` in the future), NotFound.
  absl::StatusOr<NodeReport> SetNode(NodeId id, NodeHealth health, TimePoint now) {
    return SetNode(id, health, now, now);
  }
  absl::StatusOr<NodeReport> SetNode(NodeId id, NodeHealth health, TimePoint since, TimePoint now);
  // From `now` on a GPU of `type` is charged as `permille` / 1000 GPUs (1000 unless set), for
  // running work too; what was charged before stays. Entitlements divide the capacity weighted in
  // the same way, and a request is measured against them by the type it asks for, or by the dearest
  // if it names none. NotFound (type), InvalidArgument (not in [1, kMaxChargeRate]),
  // ResourceExhausted (the weighted cluster is too large to be counted exactly over the lookback
  // window; rates with a large common divisor, such as multiples of 50, allow larger clusters).
  absl::Status SetChargeRate(GpuTypeId type, std::int32_t permille, TimePoint now);
  std::int32_t charge_rate(GpuTypeId type) const { return rates_.rate(type); }
  // Healthy GPUs, weighted by their charge rates.
  MilliGpu Capacity() const;
  const Cluster& cluster() const { return cluster_; }
  // True once a node that drains or is closed for maintenance is empty.
  bool Drained(NodeId id) const {
    return cluster_.contains(id) && cluster_.node(id).leaving() && cluster_.node(id).runs.empty();
  }
  // `nodes` are out of service in [from, until), whatever their health; `from` in the past means
  // now. They close one grace and one tick before: from then on they take nothing, count as no
  // capacity, and whatever is unfunded or past its protection is stopped, so that they are empty at
  // `from`; only a protection that was granted before the announcement may last longer. Until then
  // they take what is protected no longer than they are open, and nothing is promised there beyond.
  // Windows may overlap: the union counts. After the last one a node is as its health says.
  // InvalidArgument (no nodes, or no time left in range), NotFound (a node).
  absl::StatusOr<MaintenanceId> AnnounceMaintenance(std::vector<NodeId> nodes, TimePoint from,
                                                    TimePoint until, std::string author,
                                                    std::string reason, TimePoint now);
  // Also of a window that has begun. NotFound: unknown or over.
  absl::Status CancelMaintenance(MaintenanceId id, TimePoint now);
  // What is announced or under way, in order of announcement.
  std::span<const MaintenanceWindow> maintenance() const { return calendar_.windows(); }

  // --- Workloads -------------------------------------------------------------------------------
  // InvalidArgument (ContractRules::Check), AlreadyExists, NotFound (allocation),
  // FailedPrecondition (allocation is closed or not a leaf).
  absl::Status Submit(const WorkloadSpec& spec, TimePoint now);
  // Waiting work is removed; a run is stopped in the next pass. NotFound.
  absl::Status Cancel(WorkloadId id, TimePoint now);

  // Reports about a run name it by (workload, run number). NotFound: no such workload;
  // FailedPrecondition: that run is not in a state where this can happen (an old run, a duplicate);
  // InvalidArgument: a time after `now` or before the start of the run.
  absl::Status ReportStarted(WorkloadId id, RunNumber run, TimePoint now) {
    return ReportStarted(id, run, now, now);
  }
  absl::Status ReportStarted(WorkloadId id, RunNumber run, TimePoint started, TimePoint now);
  // The launch was refused; not charged. The node is avoided for one tick.
  absl::Status ReportStartFailed(WorkloadId id, RunNumber run, TimePoint now);
  absl::Status ReportEnded(WorkloadId id, RunNumber run, TimePoint now) {
    return ReportEnded(id, run, now, now);
  }
  absl::Status ReportEnded(WorkloadId id, RunNumber run, TimePoint ended, TimePoint now);
  absl::StatusOr<LossOutcome> ReportStopped(WorkloadId id, RunNumber run, TimePoint now) {
    return ReportStopped(id, run, now, now);
  }
  absl::StatusOr<LossOutcome> ReportStopped(WorkloadId id, RunNumber run, TimePoint stopped,
                                            TimePoint now);
  // The stop did not work, the run goes on. Holds that counted on it are released.
  absl::Status ReportStopFailed(WorkloadId id, RunNumber run, TimePoint now);
  // Work done before `at` is saved.
  absl::Status ReportCheckpoint(WorkloadId id, RunNumber run, TimePoint at, TimePoint now);
  // An interactive session does (not) use its GPUs. An idle run loses its protection; once stopped
  // it is suspended until it is reported not idle.
  absl::Status ReportIdle(WorkloadId id, bool idle, TimePoint now);
  // Bytes that the resource manager wants back when the workload starts again: an image to restore,
  // a checkpoint, an address. Never interpreted; part of the state; forgotten when the workload is
  // over. "" takes it back. NotFound, InvalidArgument (longer than kMaxHintBytes).
  absl::Status SetResumeHint(WorkloadId id, std::string hint, TimePoint now);
  // "" if none was set; valid until the next call that changes anything. NotFound.
  absl::StatusOr<std::string_view> ResumeHint(WorkloadId id) const;
  // The full list of running work: closes lost ends, names what is unknown.
  absl::StatusOr<ReconcileReport> Reconcile(std::span<const RunRef> running, TimePoint now);

  // --- Answers ---------------------------------------------------------------------------------
  // One pass. The result is valid until the next call of Decide on this object.
  absl::StatusOr<const Decisions*> Decide(TimePoint now);
  // True if something was reported since the last pass that may change the answer, or if that pass
  // has to be followed by another one at once.
  bool dirty() const { return dirty_; }
  // `now` of the last call that was not refused.
  TimePoint now() const { return now_; }

  absl::StatusOr<Explanation> Explain(WorkloadId id) const;
  absl::StatusOr<AllocationStanding> Standing(AllocationId id, TimePoint now) const;
  // Back ends of the plan search that failed or answered what their plan does not cost; the pass
  // then went on without them. Not part of the state.
  std::uint64_t search_faults() const { return plan_search_.faults(); }
  absl::Status last_search_fault() const { return plan_search_.last_fault(); }
  std::size_t workloads() const { return table_.size(); }
  const WorkloadTable& table() const { return table_; }
  // What the next pass may stop, as of the last one.
  const StoppableRuns& stoppable() const { return stoppable_; }
  // As of the last search for a promise; Pool::touched says where it may be of the past.
  const ProtectionOrder& protection_order() const { return reservation_search_.order(); }
  const SchedulerOptions& options() const { return options_; }
  const Policy& policy() const { return policy_; }

  Scheduler Clone() const { return *this; }
  // The whole state as bytes; Restore needs a scheduler made with the same options and policy.
  std::string Snapshot() const { return internal::Pack(const_cast<Scheduler&>(*this)); }
  // InvalidArgument (damaged), FailedPrecondition (other options); unchanged on error.
  absl::Status Restore(const std::string& snapshot);
  std::uint64_t Digest() const {
    const std::string bytes = Snapshot();
    return internal::HashBytes(bytes.data(), bytes.size());
  }

  template <class Archive>
  void Serialize(Archive& ar) {
    ar(options_, tree_, cluster_, calendar_, ledger_, credit_, preemptions_, rates_, peak_, table_,
       holds_, reservations_, renewals_, cancels_, parked_, inferred_, looks_, now_, last_pass_,
       dirty_, started_);
  }

 private:
  // A run closed without an end record, kept while a late record may still correct the charge.
  struct Inferred {
    WorkloadId workload;
    RunNumber run;
    AllocationId leaf;
    GpuTypeId type;
    GpuCount gpus;
    bool funded = false;
    TimePoint start{}, end{};
    template <class Archive>
    void Serialize(Archive& ar) {
      ar(workload, run, leaf, type, gpus, funded, start, end);
    }
  };
  struct Protection {
    TimePoint until;
    RunSlot slot;
    WorkloadId id;
    // Heap order: earliest first.
    friend bool operator<(const Protection& a, const Protection& b) {
      return a.until != b.until ? a.until > b.until : a.id > b.id;
    }
  };
  // What a walk over all shapes looks at.
  struct ShapeFacts {
    GpuCount gpus;          // in all
    bool capped = false;    // its class or user may be
    bool reserves = false;  // it may have a reservation
  };

  // Events (scheduler_checks.h, _world.h, _maintenance.h, _queues.h, _runs.h).
  absl::Status CheckTime(TimePoint now) const;
  absl::Status CheckEventTime(const char* what, TimePoint at, TimePoint now) const;
  absl::Status CheckAfterStart(RunSlot slot, const char* what, TimePoint at) const;
  absl::StatusOr<RunSlot> FindRun(WorkloadId id, RunNumber run) const;
  absl::Status WrongState(RunSlot slot, RunNumber run, const char* what) const;
  void Advance(TimePoint now) { now_ = now, started_ = true; }
  bool Funded(const WorkloadSpec& spec) const;
  std::int32_t RateOf(GpuTypeId type) const;
  MilliGpu WeightedDeclared(GpuTypeId type, std::int32_t permille) const;
  absl::Status CheckCountable(MilliGpu declared, std::int64_t unit) const;
  void Rerate(RunSlot slot, TimePoint now);
  // Maintenance (scheduler_maintenance.h).
  Duration Notice() const { return options_.grace + options_.tick; }
  void ReviewMaintenance();
  void CloseNode(NodeId id, TimePoint at);
  void LeaveService(NodeId id);
  bool KeepsPromise(RunSlot slot, TimePoint start) const;
  void RestatePromise(RunSlot slot);
  bool Banded() const { return Reserves() || !calendar_.empty(); }
  void Reshape();
  Duration LongestProtection() const;
  bool WaitsForMaintenance(RunSlot slot) const;
  ShapeId Intern(const Shape& shape);
  Shape ShapeOf(const Run& run, const WorkloadSpec& spec) const;
  QueueKey KeyOf(RunSlot slot) const;
  void Admit(RunSlot slot);
  void Enqueue(RunSlot slot, bool count_demand);
  void Dequeue(RunSlot slot);
  void Reconsider();
  void Forget(RunSlot slot) { table_.Remove(slot); }
  void Restock(RunSlot slot) { stoppable_.Update(policy_, cluster_, table_, slot, now_); }
  void Commit(RunSlot slot, TimePoint until);
  void Uncommit(RunSlot slot);
  Ledger LedgerAt(TimePoint now) const;
  void Place(RunSlot slot, std::int64_t sign);
  void CountForUser(RunSlot slot, std::int64_t sign);
  void Queue(const Run& run, std::int64_t sign);
  void Charge(AllocationId leaf, GpuTypeId type, TimePoint at, GpuCount delta);
  GpuTypeId TypeOf(const Workload& w) const { return cluster_.node(w.nodes[0]).type; }
  void EndCharge(RunSlot slot, TimePoint at);
  void LeaveNodes(RunSlot slot);
  void LeaveStopping(RunSlot slot);
  enum class LossCause : std::uint8_t {
    kOther,      // a refused launch, a drain, an end
    kPreempted,  // stopped because others want the GPUs
    kNodeDown,
  };
  LossOutcome Lose(RunSlot slot, TimePoint at, LossCause cause);
  void ReleaseHold(RunSlot slot);
  void ReleaseReservation(RunSlot slot);
  void RemoveFromList(std::vector<RunSlot>& list, RunSlot slot) {
    list.erase(std::remove(list.begin(), list.end(), slot), list.end());
  }
  void LookAgainAt(TimePoint at) {
    looks_.insert(std::upper_bound(looks_.begin(), looks_.end(), at), at);
  }
  bool AnythingWaits() const {
    return waiting_funded_ > 0 || !unfunded_.empty() || !holds_.empty() || !reservations_.empty();
  }

  // The pass (scheduler_pass.h, _holds.h, _serve.h, _promises.h).
  PolicyContext Context() const { return {tree_, ranking_, now_}; }
  auto KeyFn() const {
    return [this](AllocationId id, GpuTime used, MilliGpu entitlement) {
      const GpuTime owed = policy_.CountsOwed() ? credit_.Owed(id) : GpuTime(0);
      return policy_.RankKey(AllocationView{id, used, entitlement, owed});
    };
  }
  void ExpireProtections();
  void StopCancelled();
  void StopOnDrainingNodes();
  void SuspendIdleSessions();
  bool ExpireHolds();
  void StartReadyHolds();
  bool Reserves() const { return options_.reservation.gang > GpuCount(0); }
  bool CountsCredit() const { return Reserves() || policy_.CountsOwed(); }
  void FireReservations();
  bool StartEarly(RunSlot slot);
  bool Fire(RunSlot slot);
  void RenewReservations();
  bool MayReserve(const Shape& shape) const {
    const ReservationOptions& o = options_.reservation;
    return Reserves() &&
           (shape.total() >= o.gang || (o.block > GpuCount(0) && shape.total() >= o.block));
  }
  // What a leaf may have reservations for.
  struct Credit {
    bool gangs = false, blocks = false;  // kinds that it has none of
    GpuTime behind;                      // what it is owed less what it has used
    bool some = false;                   // enough for the kind and request that need least
  };
  Credit CreditOf(AllocationId leaf) const;
  bool Suffices(const Credit& credit, RunSlot slot) const;
  RunSlot FirstWith(const Credit& credit, const PendingQueue::Bucket& bucket) const;
  bool Reserve(RunSlot slot);
  void BeginRound();
  void Serve();
  void ServeTier(int tier);
  bool ServeLeaf(AllocationId leaf, int tier);
  bool TryPlace(RunSlot slot, ShapeId shape, const Requester& requester);
  bool PlaceByStopping(RunSlot slot, const Shape& shape, const Requester& requester);
  std::int64_t FundedVictims(const Plan& plan) const {
    return std::count_if(plan.victims.begin(), plan.victims.end(),
                         [&](RunSlot v) { return table_.run(v).funded; });
  }
  static bool SharesFailures(const Shape& shape);
  bool KnownToFail(const Requester& requester, ShapeId shape);
  bool RuledOut(const Requester& requester, ShapeId shape);
  const PendingQueue::Summary& SummaryOf(PendingQueue& queue) const;
  bool MayBeOfTier(const PendingQueue::Summary& all, Requester requester) const;
  static bool AsksForAll(const PendingQueue::Summary& all, const Requester& requester);
  bool NothingFits(const PendingQueue::Summary& all, const Requester& requester);
  void FailAll(const PendingQueue::Summary& all, const Requester& requester);
  void ForgetSurvey();
  // GPUs of that class in a leaf, in thousandths of its entitlement; 0: no cap.
  std::int64_t ClassCap(WorkloadClass c) const {
    if (c == WorkloadClass::kInteractive) return options_.session_cap;
    if (c == WorkloadClass::kServing) return options_.serving_cap;
    return c == WorkloadClass::kDebug ? options_.debug_cap : 0;
  }
  bool ClassCapReached(AllocationId leaf, WorkloadClass workload_class, MilliGpu charge,
                       const Ranking& ranking) const;
  bool UserCapReached(const Shape& shape) const;
  void FillUnfunded();
  // A node has just refused it.
  bool Avoids(RunSlot slot) const { return Avoided(slot) != kNoNode; }
  NodeId Avoided(RunSlot slot) const {
    if (looks_.empty()) return kNoNode;  // the end of every avoidance is in it
    const Workload& w = table_.workload(slot);
    return w.avoid_until > now_ ? w.avoid : kNoNode;
  }
  bool FindFree(RunSlot slot, const Shape& shape);
  bool PlaceOnFree(RunSlot slot, const Shape& shape);
  void StartOn(RunSlot slot, const std::vector<NodeId>& nodes);
  void HoldFor(RunSlot slot, const Plan& plan);
  Duration Granted(RunSlot slot) const;
  MilliGpu EntitlementNow(AllocationId leaf) const;
  void StopRun(RunSlot slot, StopReason reason, WorkloadId beneficiary);
  NodeList Record(const Workload& w);
  TimePoint NextWakeup();

  // Plan search (scheduler_scene.h, scheduler_search.h).
  void SearchAndServe();
  void DescribeNodes(internal::SearchScene& scene) const;
  void DescribeVictims(internal::SearchScene& scene) const;
  bool DescribeRequests(internal::SearchScene& scene);
  bool DescribeJob(internal::SearchScene& scene, internal::SearchKinds& kinds, const Requester& r,
                   ShapeId id, Duration protection, std::uint16_t band) const;
  void DescribeKinds(internal::SearchScene& scene, const internal::SearchKinds& kinds) const;
  Requester RequesterFor(AllocationId leaf, const Shape& shape, MilliGpu leaf_charge) const;
  void FirstComeFirst(const internal::SearchScene& scene,
                      std::vector<plan::Placement>& places) const;
  bool CarryOut(const internal::SearchScene& scene, const plan::Placement& placement);
  bool MayStopAll(const Requester& r, const Shape& shape, const Plan& plan) const;
  internal::PassScore Score(const internal::SearchScene& scene) const;
  bool IsBeatenBy(const Scheduler& other, const internal::SearchScene& scene) const;

  SchedulerOptions options_;
  Policy policy_;
  BudgetTree tree_;
  Cluster cluster_;
  MaintenanceCalendar calendar_;
  Ledger ledger_;
  Ranking ranking_;
  CreditMeter credit_;
  ChargeRates rates_;
  MilliGpu peak_;            // largest weighted size of the declared cluster since a rate was set
  TokenBucket preemptions_;  // of funded runs, for requests without a promise
  WorkloadTable table_;
  std::vector<RunSlot> holds_;         // in order of creation
  std::vector<RunSlot> reservations_;  // in order of creation
  std::vector<RunSlot> renewals_;      // lost a node; reserved anew in the next pass
  std::vector<RunSlot> cancels_;       // runs to be stopped for their owner
  std::vector<RunSlot> parked_;        // cannot be placed whatever is free
  std::vector<Inferred> inferred_;
  // When a refused launch may use its node again, or an idle session loses its protection: waiting
  // work is looked at then. Ascending.
  std::vector<TimePoint> looks_;
  TimePoint now_{};
  TimePoint last_pass_{Duration::min()};
  bool dirty_ = false;
  bool started_ = false;  // some call has set now_

  // Derived from the above; rebuilt by Restore.
  // Funded GPUs placed or promised, where users are capped.
  absl::btree_map<std::pair<UserId, WorkloadClass>, GpuCount> user_gpus_;
  std::vector<PendingQueue> queues_;  // funded, by leaf
  ServingOrder order_;                // of the leaves that have some
  PendingQueue unfunded_;
  std::size_t waiting_funded_ = 0;
  std::vector<Shape> shapes_;
  std::vector<ShapeFacts> shape_facts_;  // by ShapeId, too
  absl::btree_map<Shape, ShapeId> shape_ids_;
  std::vector<Protection> protections_;   // heap; entries may be stale
  StoppableRuns stoppable_;               // as of the last pass
  std::size_t draining_ = 0;              // nodes that something may have to leave
  std::vector<NodeId> in_calendar_;       // nodes with a window, ascending
  TimePoint review_at_{Duration::min()};  // when time changes something about them

  // Of the current pass.
  // Nodes became ordinary again after some request had been tried: the pass must be followed by
  // another one.
  bool look_again_ = false;
  internal::RoundFailures failures_;
  std::vector<NodeId> scratch_nodes_;
  Plan plan_;
  VictimSearch search_;
  ReservationSearch reservation_search_;
  ReservationPlan reservation_plan_;
  Decisions decisions_;
  plan::PlanSearch plan_search_;
};

}  // namespace tenure

#include "tenure/scheduler_answers.h"      // IWYU pragma: export
#include "tenure/scheduler_checks.h"       // IWYU pragma: export
#include "tenure/scheduler_holds.h"        // IWYU pragma: export
#include "tenure/scheduler_maintenance.h"  // IWYU pragma: export
#include "tenure/scheduler_pass.h"         // IWYU pragma: export
#include "tenure/scheduler_promises.h"     // IWYU pragma: export
#include "tenure/scheduler_queues.h"       // IWYU pragma: export
#include "tenure/scheduler_runs.h"         // IWYU pragma: export
#include "tenure/scheduler_scene.h"        // IWYU pragma: export
#include "tenure/scheduler_search.h"       // IWYU pragma: export
#include "tenure/scheduler_serve.h"        // IWYU pragma: export
#include "tenure/scheduler_world.h"        // IWYU pragma: export

#ifdef TENURE_PRESETS_ARE_COMPILED  // elsewhere: CMake target tenure::presets
namespace tenure {
extern template class Scheduler<Ai2Policy>;
extern template class Scheduler<BudgetPolicy>;
}  // namespace tenure
#endif

#endif  // TENURE_SCHEDULER_H_
