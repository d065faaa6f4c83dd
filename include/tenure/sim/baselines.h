// SPDX-License-Identifier: Apache-2.0
//
// The schedulers to compare with, behind the simulator's Engine.
//
//   tenure::sim::BaselineOptions options;
//   options.mode = tenure::sim::BaselineMode::kFairTree;
//   tenure::sim::BaselineEngine engine(cluster, tree, options);
//   absl::Status ok = engine.Submit(spec, /*limit=*/std::chrono::hours(12), now);
//   const tenure::Decisions* decisions = engine.Decide(now).value();
//
// priority: first come, first served over all teams; whatever fits starts, blocked work is passed
//   over. While a team has room under its entitlement, what it starts is protected (never stopped)
//   and may stop unprotected runs of anybody, youngest and smallest first; above its entitlement a
//   team gets free GPUs only and its runs may be stopped. Priority labels mean nothing: everything
//   is HIGH. With `sweeps_high` off unfunded work is LOW instead: after everything else, never
//   protected, stopped first.
// fifo-easy: first come, first served with EASY backfill: the first blocked workload gets a
//   reservation on nodes, at the earliest time the declared limits promise; others start before it
//   only if they end by then, or use what it leaves of those nodes, or other nodes. Nothing is ever
//   stopped. `sweeps_high` off: unfunded work after everything else.
// fairtree: funded work in the order of Fair Tree (level by level from the root: the child with the
//   least decayed usage per weight first, all of it before the next), then by priority and age,
//   with EASY backfill; unfunded work, not charged, fills the rest without a reservation.
// fairtree-preempt: the same, and unfunded runs are stopped for funded workloads that find no room;
//   the cheapest set by GPUs x time run.
//
// On a draining node whatever may be stopped is stopped at once; the rest stays until it ends.
//
// A workload that needs stops is held on its nodes until they are gone. A stopped resumable
// workload waits again with its first submission time. Limits of 0 never end: such work is
// backfilled only where it cannot be in the way, and a reservation that depends on its end protects
// nobody.
//
// Deterministic: ties by canonical order of allocations, workload id, topological order. Not
// thread-safe. Pass: O(S + D log S) for S streams (distinct pairs of leaf and shape waiting) and
// D <= depth workloads looked at, plus O(N R) for N nodes of R runs per distinct shape that fails
// to find victims and for the reservation; independent of the length of the queue.
// Sources: Lifka 1995 (EASY); Fair Tree of Slurm (Cox, Morrison 2014) with its default half-life.
#ifndef TENURE_SIM_BASELINES_H_
#define TENURE_SIM_BASELINES_H_

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/numeric/int128.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenure/budget_tree.h"
#include "tenure/cluster.h"
#include "tenure/contract.h"
#include "tenure/decisions.h"
#include "tenure/placement.h"
#include "tenure/sim/engine.h"
#include "tenure/types.h"
#include "tenure/usage_meter.h"

namespace tenure::sim {

enum class BaselineMode : std::uint8_t { kPriority, kFifoEasy, kFairTree, kFairTreePreempt };
inline constexpr std::array<const char*, 4> kBaselineNames = {"priority", "fifo-easy", "fairtree",
                                                              "fairtree-preempt"};

constexpr const char* ToString(BaselineMode m) {
  return kBaselineNames[static_cast<std::size_t>(m)];
}

struct BaselineOptions {
  BaselineMode mode = BaselineMode::kPriority;
  bool sweeps_high = true;    // priority, fifo-easy: unfunded work queues like any other
  std::int32_t depth = 1000;  // workloads looked at in one pass
  Duration half_life = std::chrono::hours(24 * 7);  // fairtree: of past usage
  Duration grace = std::chrono::seconds(10);        // reported with a stop
};

class BaselineEngine : public Engine {
 public:
  // `cluster` must be unoccupied. Its lane is switched off: the baselines have none.
  BaselineEngine(Cluster cluster, BudgetTree tree, const BaselineOptions& options)
      : options_(options), cluster_(std::move(cluster)), tree_(std::move(tree)) {
    cluster_.SetLane(0);
    cluster_.Reindex();
    tree_.Entitlements(ToMilli(cluster_.healthy()), entitlements_);
    protected_gpus_.resize(tree_.size());
    waiting_.resize(tree_.size());
    rank_.resize(tree_.size());
    if (fair_tree()) usage_.assign(tree_.size(), DecayMeter(options_.half_life));
    spare_.assign(cluster_.size(), kNotReserved);
    stoppable_on_.assign(cluster_.size(), 0);
  }

  // InvalidArgument (the contract is broken, no such leaf allocation), FailedPrecondition (the
  // allocation is closed), AlreadyExists (the id waits or runs).
  absl::Status Submit(const WorkloadSpec& spec, Duration limit, TimePoint now) override;
  // Waiting work is removed; a run is stopped in the next pass. NotFound.
  absl::Status Cancel(WorkloadId id, TimePoint now) override;
  // Reports about runs: NotFound (no such workload), FailedPrecondition (that run is not in a state
  // where this can happen).
  absl::Status ReportStarted(WorkloadId id, RunNumber run, TimePoint now) override;
  absl::Status ReportEnded(WorkloadId id, RunNumber run, TimePoint now) override;
  absl::Status ReportStopped(WorkloadId id, RunNumber run, TimePoint now) override;
  // The baselines do not look at utilisation.
  absl::Status ReportIdle(WorkloadId /*id*/, bool /*idle*/, TimePoint now) override {
    return CheckTime(now);
  }
  // NotFound (no such node). Usage is charged until `now`, whatever `since` says.
  absl::Status SetNode(NodeId node, NodeHealth health, TimePoint since, TimePoint now) override;
  bool NodeEmpty(NodeId node) const override { return cluster_.node(node).runs.empty(); }
  bool Dirty() const override { return dirty_; }
  absl::StatusOr<const Decisions*> Decide(TimePoint now) override;
  // All calls: OutOfRange if `now` is earlier than in a call before.

  std::size_t queued() const { return queued_; }
  const Cluster& cluster() const { return cluster_; }

 private:
  static constexpr std::int32_t kNotReserved = -1;

  enum class State : std::uint8_t {
    kFree,
    kQueued,
    kUnplaceable,  // larger than the cluster
    kHeld,         // its nodes are claimed; victims are being stopped
    kStarting,
    kRunning,
    kStopping,
  };

  struct Record {
    WorkloadSpec spec;
    Duration limit{0};
    TimePoint since{};         // of the first submission
    TimePoint start{};         // of the run
    TimePoint expected_end{};  // by its limit
    RunNumber run;
    State state = State::kFree;
    bool is_protected = false;  // priority: the run may not be stopped
    bool cancelled = false;
    std::size_t stream = 0;
    absl::InlinedVector<NodeId, 1> nodes;

    std::int32_t per_node() const { return static_cast<std::int32_t>(spec.gpus_per_node.value()); }
  };

  // Waiting workloads of one leaf (the root: of any) and shape, in the order of the queue: what
  // keeps the first of them waiting keeps all of them waiting.
  struct Waiting {
    std::int64_t minus_priority;
    TimePoint since;
    WorkloadId id;
    RunSlot slot;
    friend auto operator<=>(const Waiting&, const Waiting&) = default;
  };
  struct Stream {
    AllocationId leaf;
    Shape shape;
    bool funded = true;
    std::set<Waiting> waiting;
  };
  // A position in a stream during a pass.
  struct Cursor {
    bool filler;  // after all others
    std::uint32_t rank;
    std::set<Waiting>::const_iterator at;
    std::size_t stream;
    bool operator<(const Cursor& o) const {  // of a max-heap: the first in order is the largest
      return std::tie(o.filler, o.rank, *o.at) < std::tie(filler, rank, *at);
    }
  };
  // How far a request reaches. Whatever fails with more reach fails with less.
  struct Reach {
    bool stops = false;      // may stop runs
    bool everywhere = true;  // not bound by the reservation
    std::size_t index() const { return (stops ? 2u : 0u) + (everywhere ? 1u : 0u); }
  };
  struct Victim {
    std::int64_t cost = 0;
    WorkloadId id;
    RunSlot slot = kNoSlot;
    std::int32_t gpus = 0;
    friend auto operator<=>(const Victim&, const Victim&) = default;
  };

  bool fair_tree() const {
    return options_.mode == BaselineMode::kFairTree ||
           options_.mode == BaselineMode::kFairTreePreempt;
  }
  bool easy() const { return options_.mode != BaselineMode::kPriority; }
  bool IsFiller(bool funded) const { return !funded && (fair_tree() || !options_.sweeps_high); }
  // Ordered by Fair Tree.
  bool Ranked(bool funded) const { return fair_tree() && funded; }
  bool Stoppable(const Record& r) const {
    switch (options_.mode) {
      case BaselineMode::kPriority:
        return !r.is_protected;
      case BaselineMode::kFairTreePreempt:
        return !r.spec.funded();
      default:
        return false;
    }
  }

  absl::Status CheckTime(TimePoint now) {
    if (now < now_) {
      return absl::OutOfRangeError(
          absl::StrCat("time went backwards: ", now.time_since_epoch().count(), " us after ",
                       now_.time_since_epoch().count(), " us"));
    }
    now_ = now;
    return absl::OkStatus();
  }
  // The slot of run `run` of `id`, which must be in one of `states`.
  absl::StatusOr<RunSlot> FindRun(WorkloadId id, RunNumber run,
                                  std::initializer_list<State> states) const;

  void Enqueue(RunSlot slot);
  void Dequeue(RunSlot slot);
  void Remove(RunSlot slot);
  void Vacate(RunSlot slot, bool was_stopping);
  void Account(const Record& r, std::int64_t sign);
  // A run that is confirmed and may be stopped appears (+1) or is gone (-1).
  void CountStoppable(const Record& r, std::int32_t sign) {
    if (r.state != State::kRunning || !Stoppable(r)) return;
    for (NodeId n : r.nodes) stoppable_on_[n.value()] += sign * r.per_node();
  }
  TimePoint ExpectedEnd(const Record& r) const {
    return r.limit > Duration(0) ? now_ + r.limit : kNever;
  }

  void ReleaseHold(RunSlot slot);
  void StopCancelled();
  void StopOnDrainingNodes();
  void StartHeld();
  void Pass();
  void RankLeaves();
  bool TryStart(RunSlot slot, const Shape& shape, Reach reach);
  bool Failed(const Shape& shape, Reach reach) const;
  void NoteFailure(const Shape& shape, Reach reach);
  bool Admits(NodeId node, std::int32_t gpus, Reach reach) const {
    return reach.everywhere || spare_[node.value()] == kNotReserved || spare_[node.value()] >= gpus;
  }
  bool PlaceInFree(const Shape& shape, Reach reach, std::vector<NodeId>& nodes) const;
  bool PlaceByStops(const Shape& shape, Reach reach, std::vector<NodeId>& nodes,
                    std::vector<RunSlot>& victims) const;
  void Start(RunSlot slot, const std::vector<NodeId>& nodes);
  void Hold(RunSlot slot, const std::vector<NodeId>& nodes, const std::vector<RunSlot>& victims);
  void Stop(RunSlot slot, StopReason reason, WorkloadId beneficiary);
  NodeList AppendNodes(const absl::InlinedVector<NodeId, 1>& nodes);
  void Reserve(const Shape& shape);
  void ClearReservation();
  TimePoint FreeFrom(const Node& node, std::int32_t gpus) const;
  std::int32_t FreeAt(const Node& node, TimePoint t) const;
  // GPU-seconds of the run; beside LOW work HIGH work counts a thousandfold.
  std::int64_t StopCost(const Record& r) const {
    const std::int64_t work = (now_ - r.start) / std::chrono::seconds(1) * r.spec.gpus().value();
    const bool high =
        options_.mode == BaselineMode::kPriority && !options_.sweeps_high && r.spec.funded();
    return (std::min(work, std::int64_t{1} << 40) + 1) * (high ? 1024 : 1);
  }
  // Calls f(pool, begin, end) for the ranges of slots that may hold all nodes of `shape` until it
  // returns true.
  template <typename F>
  void ForEachRange(const Shape& shape, F f) const;

  BaselineOptions options_;
  Cluster cluster_;
  BudgetTree tree_;
  TimePoint now_{-kTimeLimit};
  bool dirty_ = false;
  std::vector<Record> records_;
  std::vector<RunSlot> free_slots_;
  absl::flat_hash_map<WorkloadId, RunSlot> slots_;  // look-up only, never iterated
  std::vector<Stream> streams_;
  std::map<std::tuple<AllocationId, Shape, bool>, std::size_t> stream_of_;
  std::size_t queued_ = 0;
  std::vector<RunSlot> held_;       // in order of decision
  std::vector<RunSlot> to_cancel_;  // runs
  std::size_t draining_ = 0;        // nodes
  std::vector<MilliGpu> entitlements_;
  std::vector<GpuCount> protected_gpus_;  // priority: by leaf
  std::vector<std::int64_t> waiting_;     // fairtree: funded workloads queued below, by allocation
  std::vector<DecayMeter> usage_;         // fairtree: funded, by allocation
  std::vector<std::uint32_t> rank_;       // fairtree: of leaves with waiting work in this pass
  GpuCount stoppable_;                    // of placements that may be stopped
  std::vector<std::int32_t> stoppable_on_;  // the same by node, of confirmed runs only
  // Of a pass.
  bool reserved_ = false;
  TimePoint reserved_at_{};
  std::vector<std::int32_t> spare_;  // by node: GPUs the reservation leaves, or kNotReserved
  std::array<std::vector<Shape>, 4> failed_;  // by Reach::index
  std::vector<Cursor> heap_;
  std::vector<NodeId> nodes_;
  std::vector<RunSlot> victims_;
  Decisions decisions_;
};

}  // namespace tenure::sim

#include "tenure/sim/baseline_events.h"  // IWYU pragma: export
#include "tenure/sim/baseline_pass.h"    // IWYU pragma: export
#include "tenure/sim/baseline_place.h"   // IWYU pragma: export

#endif  // TENURE_SIM_BASELINES_H_
