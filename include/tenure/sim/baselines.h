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

// ---- implementation ----

inline absl::Status BaselineEngine::Submit(const WorkloadSpec& spec, Duration limit,
                                           TimePoint now) {
  const auto name = [&] { return absl::StrCat("workload ", spec.id.value(), ": "); };
  if (absl::Status s = ContractRules{}.Check(spec); !s.ok()) return s;
  if (limit < Duration(0)) {
    return absl::InvalidArgumentError(absl::StrCat(name(), "limit is ", limit.count(), " us"));
  }
  if (!tree_.contains(spec.allocation) || !tree_.is_leaf(spec.allocation) ||
      spec.allocation == kRootAllocation) {
    return absl::InvalidArgumentError(
        absl::StrCat(name(), "allocation ", spec.allocation.value(), " is no leaf"));
  }
  if (tree_.closed(spec.allocation)) {
    return absl::FailedPreconditionError(
        absl::StrCat(name(), "allocation ", tree_.path(spec.allocation), " is closed"));
  }
  if (slots_.contains(spec.id)) {
    return absl::AlreadyExistsError(absl::StrCat(name(), "already waits or runs"));
  }
  if (absl::Status s = CheckTime(now); !s.ok()) return s;

  RunSlot slot;
  if (free_slots_.empty()) {
    slot = static_cast<RunSlot>(records_.size());
    records_.emplace_back();
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  slots_.emplace(spec.id, slot);
  Record& r = records_[slot];
  r = Record{};
  r.spec = spec;
  r.limit = limit;
  r.since = now;
  Shape shape;
  shape.nodes = static_cast<std::int32_t>(spec.nodes);
  shape.gpus = r.per_node();
  shape.type = spec.gpu_type;
  if (spec.nodes > 1) {
    shape.rule = spec.topology_rule;
    shape.level = spec.topology_level;
  }
  if (!EverFits(cluster_, shape)) {
    r.state = State::kUnplaceable;
    return absl::OkStatus();
  }
  // Whose it is matters only where teams differ: one queue for all needs far fewer streams.
  const bool by_leaf = !easy() || Ranked(spec.funded());
  const AllocationId leaf = by_leaf ? spec.allocation : kRootAllocation;
  const auto [it, inserted] = stream_of_.try_emplace({leaf, shape, spec.funded()}, streams_.size());
  if (inserted) {
    streams_.push_back({.leaf = leaf, .shape = shape, .funded = spec.funded(), .waiting = {}});
  }
  r.stream = it->second;
  Enqueue(slot);
  return absl::OkStatus();
}

inline absl::Status BaselineEngine::Cancel(WorkloadId id, TimePoint now) {
  const auto it = slots_.find(id);
  if (it == slots_.end()) {
    return absl::NotFoundError(absl::StrCat("workload ", id.value(), " is unknown"));
  }
  if (absl::Status s = CheckTime(now); !s.ok()) return s;
  const RunSlot slot = it->second;
  Record& r = records_[slot];
  switch (r.state) {
    case State::kQueued:
      Dequeue(slot);
      Remove(slot);
      break;
    case State::kHeld:
      for (NodeId n : r.nodes) cluster_.Unclaim(n, slot, r.per_node());
      Account(r, -1);
      held_.erase(std::find(held_.begin(), held_.end(), slot));
      Remove(slot);
      dirty_ = true;
      break;
    case State::kStarting:
    case State::kRunning:
      if (!r.cancelled) to_cancel_.push_back(slot);
      r.cancelled = true;
      dirty_ = true;
      break;
    case State::kStopping:
      r.cancelled = true;
      break;
    case State::kFree:
    case State::kUnplaceable:
      Remove(slot);
      break;
  }
  return absl::OkStatus();
}

inline absl::StatusOr<RunSlot> BaselineEngine::FindRun(WorkloadId id, RunNumber run,
                                                       std::initializer_list<State> states) const {
  const auto it = slots_.find(id);
  if (it == slots_.end()) {
    return absl::NotFoundError(absl::StrCat("workload ", id.value(), " is unknown"));
  }
  const Record& r = records_[it->second];
  if (r.run != run || std::find(states.begin(), states.end(), r.state) == states.end()) {
    return absl::FailedPreconditionError(absl::StrCat("workload ", id.value(), ": run ",
                                                      run.value(), " is not in this state, run ",
                                                      r.run.value(), " is the last"));
  }
  return it->second;
}

inline absl::Status BaselineEngine::ReportStarted(WorkloadId id, RunNumber run, TimePoint now) {
  // A run that is stopped before its start was confirmed goes on stopping.
  absl::StatusOr<RunSlot> slot = FindRun(id, run, {State::kStarting, State::kStopping});
  if (!slot.ok()) return slot.status();
  if (absl::Status s = CheckTime(now); !s.ok()) return s;
  Record& r = records_[*slot];
  if (r.state == State::kStarting) {
    r.state = State::kRunning;
    CountStoppable(r, +1);
    dirty_ = dirty_ || draining_ > 0;  // only now can it be stopped
  }
  r.start = now;
  r.expected_end = ExpectedEnd(r);
  return absl::OkStatus();
}

inline absl::Status BaselineEngine::ReportEnded(WorkloadId id, RunNumber run, TimePoint now) {
  absl::StatusOr<RunSlot> slot =
      FindRun(id, run, {State::kStarting, State::kRunning, State::kStopping});
  if (!slot.ok()) return slot.status();
  if (absl::Status s = CheckTime(now); !s.ok()) return s;
  CountStoppable(records_[*slot], -1);
  Vacate(*slot, records_[*slot].state == State::kStopping);
  Remove(*slot);
  return absl::OkStatus();
}

inline absl::Status BaselineEngine::ReportStopped(WorkloadId id, RunNumber run, TimePoint now) {
  absl::StatusOr<RunSlot> slot = FindRun(id, run, {State::kStopping});
  if (!slot.ok()) return slot.status();
  if (absl::Status s = CheckTime(now); !s.ok()) return s;
  Vacate(*slot, true);
  const Record& r = records_[*slot];
  if (r.cancelled || !r.spec.resumable) {
    Remove(*slot);
  } else {
    Enqueue(*slot);
  }
  return absl::OkStatus();
}

inline absl::Status BaselineEngine::SetNode(NodeId node, NodeHealth health, TimePoint /*since*/,
                                            TimePoint now) {
  if (!cluster_.contains(node)) {
    return absl::NotFoundError(absl::StrCat("node ", node.value(), " is unknown"));
  }
  if (absl::Status s = CheckTime(now); !s.ok()) return s;
  const NodeHealth before = cluster_.node(node).health;
  if (before == health) return absl::OkStatus();
  cluster_.SetHealth(node, health);
  tree_.Entitlements(ToMilli(cluster_.healthy()), entitlements_);
  draining_ += health == NodeHealth::kDraining;
  draining_ -= before == NodeHealth::kDraining;
  dirty_ = true;
  if (health == NodeHealth::kUp) return absl::OkStatus();
  while (!cluster_.node(node).holds.empty()) ReleaseHold(cluster_.node(node).holds.back().run);
  while (health == NodeHealth::kDown && !cluster_.node(node).runs.empty()) {
    const RunSlot slot = cluster_.node(node).runs.back().run;
    const Record& r = records_[slot];
    CountStoppable(r, -1);
    Vacate(slot, r.state == State::kStopping);
    if (r.cancelled || !r.spec.resumable) {
      Remove(slot);
    } else {
      Enqueue(slot);
    }
  }
  return absl::OkStatus();
}

// Back into the queue; what was claimed is free for others.
inline void BaselineEngine::ReleaseHold(RunSlot slot) {
  Record& r = records_[slot];
  for (NodeId n : r.nodes) cluster_.Unclaim(n, slot, r.per_node());
  Account(r, -1);
  r.is_protected = false;
  std::erase(held_, slot);
  Enqueue(slot);
}

inline void BaselineEngine::Enqueue(RunSlot slot) {
  Record& r = records_[slot];
  r.state = State::kQueued;
  r.nodes.clear();
  const std::int64_t priority = Ranked(r.spec.funded()) ? r.spec.priority : 0;
  streams_[r.stream].waiting.insert({-priority, r.since, r.spec.id, slot});
  ++queued_;
  if (r.spec.funded()) {
    for (AllocationId a = r.spec.allocation;; a = tree_.parent(a)) {
      ++waiting_[a.value()];
      if (a == kRootAllocation) break;
    }
  }
  dirty_ = true;
}

inline void BaselineEngine::Dequeue(RunSlot slot) {
  const Record& r = records_[slot];
  const std::int64_t priority = Ranked(r.spec.funded()) ? r.spec.priority : 0;
  streams_[r.stream].waiting.erase({-priority, r.since, r.spec.id, slot});
  --queued_;
  if (r.spec.funded()) {
    for (AllocationId a = r.spec.allocation;; a = tree_.parent(a)) {
      --waiting_[a.value()];
      if (a == kRootAllocation) break;
    }
  }
}

inline void BaselineEngine::Remove(RunSlot slot) {
  slots_.erase(records_[slot].spec.id);
  std::erase(to_cancel_, slot);
  records_[slot] = Record{};
  free_slots_.push_back(slot);
}

// A placement begins (+1, before the run starts or is held) or ends (-1).
inline void BaselineEngine::Account(const Record& r, std::int64_t sign) {
  const GpuCount gpus(sign * r.spec.gpus().value());
  if (r.is_protected) protected_gpus_[r.spec.allocation.value()] += gpus;
  if (Stoppable(r)) stoppable_ += gpus;
  if (fair_tree() && r.spec.funded()) {
    for (AllocationId a = r.spec.allocation;; a = tree_.parent(a)) {
      usage_[a.value()].Change(now_, gpus);
      if (a == kRootAllocation) break;
    }
  }
}

inline void BaselineEngine::Vacate(RunSlot slot, bool was_stopping) {
  Record& r = records_[slot];
  for (NodeId n : r.nodes) cluster_.Vacate(n, slot, r.per_node(), false, was_stopping);
  if (was_stopping && Stoppable(r)) stoppable_ += r.spec.gpus();  // Stop took them off already
  Account(r, -1);
  r.is_protected = false;
  dirty_ = true;
}

inline absl::StatusOr<const Decisions*> BaselineEngine::Decide(TimePoint now) {
  if (absl::Status s = CheckTime(now); !s.ok()) return s;
  decisions_.Clear();
  dirty_ = false;
  if (tree_.next_edit() <= now && tree_.ApplyEdits(now)) {
    tree_.Entitlements(ToMilli(cluster_.healthy()), entitlements_);
  }
  StopCancelled();
  if (draining_ > 0) StopOnDrainingNodes();
  StartHeld();
  Pass();
  return &decisions_;
}

inline NodeList BaselineEngine::AppendNodes(const absl::InlinedVector<NodeId, 1>& nodes) {
  const NodeList list{static_cast<std::uint32_t>(decisions_.node_pool.size()),
                      static_cast<std::uint32_t>(nodes.size())};
  decisions_.node_pool.insert(decisions_.node_pool.end(), nodes.begin(), nodes.end());
  return list;
}

inline void BaselineEngine::Stop(RunSlot slot, StopReason reason, WorkloadId beneficiary) {
  Record& r = records_[slot];
  for (NodeId n : r.nodes) cluster_.MarkStopping(n, r.per_node());
  if (Stoppable(r)) stoppable_ -= r.spec.gpus();
  CountStoppable(r, -1);
  r.state = State::kStopping;
  decisions_.stops.push_back({.workload = r.spec.id,
                              .run = r.run,
                              .reason = reason,
                              .beneficiary = beneficiary,
                              .grace = options_.grace,
                              .lost_work = r.spec.gpus() * (now_ - r.start)});
}

inline void BaselineEngine::StopCancelled() {
  for (RunSlot slot : to_cancel_) {
    const State state = records_[slot].state;
    if (state == State::kStarting || state == State::kRunning) {
      Stop(slot, StopReason::kCancelled, WorkloadId());
    }
  }
  to_cancel_.clear();
}

inline void BaselineEngine::StopOnDrainingNodes() {
  for (const Pool& pool : cluster_.pools()) {
    for (NodeId n : pool.nodes) {
      const Node& node = cluster_.node(n);
      if (node.health != NodeHealth::kDraining) continue;
      for (const Occupant& o : node.runs) {
        const Record& r = records_[o.run];
        if (r.state == State::kRunning && Stoppable(r)) {
          Stop(o.run, StopReason::kDrain, WorkloadId());
        }
      }
    }
  }
}

inline void BaselineEngine::Start(RunSlot slot, const std::vector<NodeId>& nodes) {
  Record& r = records_[slot];
  r.nodes.assign(nodes.begin(), nodes.end());
  for (NodeId n : r.nodes) cluster_.Occupy(n, slot, r.per_node(), false);
  r.state = State::kStarting;
  r.run = RunNumber(r.run.value() + 1);
  r.start = now_;
  r.expected_end = ExpectedEnd(r);
  decisions_.starts.push_back({.workload = r.spec.id,
                               .run = r.run,
                               .nodes = AppendNodes(r.nodes),
                               .gpus_per_node = r.spec.gpus_per_node});
}

inline void BaselineEngine::Hold(RunSlot slot, const std::vector<NodeId>& nodes,
                                 const std::vector<RunSlot>& victims) {
  Record& r = records_[slot];
  r.nodes.assign(nodes.begin(), nodes.end());
  for (NodeId n : r.nodes) cluster_.Claim(n, slot, r.per_node());
  r.state = State::kHeld;
  held_.push_back(slot);
  decisions_.holds.push_back({.workload = r.spec.id,
                              .nodes = AppendNodes(r.nodes),
                              .gpus_per_node = r.spec.gpus_per_node,
                              .expires = kNever});
  for (RunSlot v : victims) Stop(v, StopReason::kPreempted, r.spec.id);
}

// Starts what was held and whose GPUs are free now.
inline void BaselineEngine::StartHeld() {
  std::erase_if(held_, [&](RunSlot slot) {
    Record& r = records_[slot];
    const bool ready = std::all_of(r.nodes.begin(), r.nodes.end(), [&](NodeId n) {
      const Node& node = cluster_.node(n);
      return node.occupied + r.per_node() <= node.gpus;
    });
    if (!ready) return false;
    for (NodeId n : r.nodes) cluster_.Unclaim(n, slot, r.per_node());
    nodes_.assign(r.nodes.begin(), r.nodes.end());
    Start(slot, nodes_);
    return true;
  });
}

inline bool BaselineEngine::Failed(const Shape& shape, Reach reach) const {
  const std::vector<Shape>& failed = failed_[reach.index()];
  return std::any_of(failed.begin(), failed.end(),
                     [&](const Shape& f) { return shape.Dominates(f); });
}

inline void BaselineEngine::NoteFailure(const Shape& shape, Reach reach) {
  for (bool stops : {false, true}) {
    for (bool everywhere : {false, true}) {
      const Reach less{stops, everywhere};
      if ((stops && !reach.stops) || (everywhere && !reach.everywhere)) continue;
      std::vector<Shape>& failed = failed_[less.index()];
      std::erase_if(failed, [&](const Shape& f) { return f.Dominates(shape); });
      failed.push_back(shape);
    }
  }
}

// Ranks the leaves with waiting funded work: depth first, at each node the child with the least
// usage per weight first.
inline void BaselineEngine::RankLeaves() {
  struct Child {
    AllocationId id;
    std::int64_t use, units;
    std::uint32_t order;
  };
  std::vector<Child> children;
  std::vector<AllocationId> stack = {kRootAllocation};
  std::uint32_t next = 0;
  while (!stack.empty()) {
    const AllocationId node = stack.back();
    stack.pop_back();
    if (tree_.is_leaf(node)) {
      rank_[node.value()] = next++;
      continue;
    }
    children.clear();
    for (AllocationId c : tree_.children(node)) {
      if (waiting_[c.value()] == 0) continue;
      children.push_back({c, usage_[c.value()].Use(now_).value(), tree_.units(c), tree_.order(c)});
    }
    // The last one pushed is visited first: worst first.
    std::sort(children.begin(), children.end(), [](const Child& a, const Child& b) {
      if ((a.units == 0) != (b.units == 0)) return a.units == 0;
      const absl::int128 x = absl::int128(a.use) * b.units, y = absl::int128(b.use) * a.units;
      return x != y ? x > y : a.order > b.order;
    });
    for (const Child& c : children) stack.push_back(c.id);
  }
}

inline void BaselineEngine::Pass() {
  const auto full = [&] { return cluster_.free() <= GpuCount(0) && stoppable_ <= GpuCount(0); };
  if (queued_ == 0 || full()) return;
  if (fair_tree()) RankLeaves();
  for (std::vector<Shape>& failed : failed_) failed.clear();
  heap_.clear();
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    const Stream& s = streams_[i];
    if (s.waiting.empty()) continue;
    const bool filler = IsFiller(s.funded);
    heap_.push_back({.filler = filler,
                     .rank = Ranked(s.funded) ? rank_[s.leaf.value()] : 0,
                     .at = s.waiting.begin(),
                     .stream = i});
  }
  std::make_heap(heap_.begin(), heap_.end());

  for (std::int32_t looked_at = 0; !heap_.empty() && looked_at < options_.depth && !full();
       ++looked_at) {
    std::pop_heap(heap_.begin(), heap_.end());
    Cursor& cursor = heap_.back();
    const Stream& stream = streams_[cursor.stream];
    const RunSlot slot = cursor.at->slot;
    Record& r = records_[slot];
    ++cursor.at;  // before the workload leaves the set
    Reach reach;
    switch (options_.mode) {
      case BaselineMode::kPriority:
        r.is_protected =
            !cursor.filler && ToMilli(protected_gpus_[stream.leaf.value()] + r.spec.gpus()) <=
                                  entitlements_[stream.leaf.value()];
        reach.stops = r.is_protected;
        break;
      case BaselineMode::kFairTreePreempt:
        reach.stops = stream.funded;
        break;
      default:
        break;
    }
    // A run that can be stopped for the reserved workload is never in its way.
    const bool in_the_way = reserved_ && !Stoppable(r);
    reach.everywhere = !in_the_way || ExpectedEnd(r) <= reserved_at_;

    bool drop = false;
    if (Failed(stream.shape, reach)) {
      drop = reach.everywhere;
    } else if (!TryStart(slot, stream.shape, reach)) {
      NoteFailure(stream.shape, reach);
      // The rest of the stream has the same shape: only a shorter limit can help it. (Protection
      // is only lost during a pass.)
      drop = reach.everywhere;
      if (easy() && !reserved_ && !cursor.filler) Reserve(stream.shape);
    }
    if (r.state == State::kQueued) r.is_protected = false;
    if (drop || cursor.at == stream.waiting.end()) {
      heap_.pop_back();
    } else {
      std::push_heap(heap_.begin(), heap_.end());
    }
  }
  ClearReservation();
}

inline bool BaselineEngine::TryStart(RunSlot slot, const Shape& shape, Reach reach) {
  nodes_.clear();
  victims_.clear();
  const bool now = PlaceInFree(shape, reach, nodes_);
  if (!now && !(reach.stops && PlaceByStops(shape, reach, nodes_, victims_))) return false;
  Dequeue(slot);
  Account(records_[slot], +1);
  if (!reach.everywhere) {
    for (NodeId n : nodes_) {
      if (spare_[n.value()] != kNotReserved) spare_[n.value()] -= shape.gpus;
    }
  }
  if (now) {
    Start(slot, nodes_);
  } else {
    Hold(slot, nodes_, victims_);
  }
  return true;
}

template <typename F>
void BaselineEngine::ForEachRange(const Shape& shape, F f) const {
  const std::uint8_t level = shape.nodes > 1 && shape.rule == TopologyRule::kRequired
                                 ? internal::EffectiveLevel(cluster_, shape)
                                 : std::uint8_t{0};
  for (const Pool& pool : cluster_.pools()) {
    if (shape.type != kAnyGpuType && shape.type != pool.type) continue;
    for (DomainId d : cluster_.DomainsAt(level)) {
      const auto [begin, end] = pool.range[d.value()];
      if (end - begin >= static_cast<std::uint32_t>(shape.nodes) && f(pool, begin, end)) return;
    }
  }
}

inline bool BaselineEngine::PlaceInFree(const Shape& shape, Reach reach,
                                        std::vector<NodeId>& nodes) const {
  if (reach.everywhere) return PlaceFree(cluster_, shape, NoNodeScore{}, kNoNode, nodes);
  if (cluster_.free() < shape.total()) return false;
  const auto k = static_cast<std::size_t>(shape.nodes);
  ForEachRange(shape, [&](const Pool& pool, std::size_t begin, std::size_t end) {
    nodes.clear();
    pool.general.VisitTightest(shape.gpus, begin, end, [&](std::size_t slot) {
      if (Admits(pool.nodes[slot], shape.gpus, reach)) nodes.push_back(pool.nodes[slot]);
      return nodes.size() < k;
    });
    return nodes.size() == k;
  });
  return nodes.size() == k;
}

// The cheapest nodes to empty, then the victims on them without those that are not needed.
inline bool BaselineEngine::PlaceByStops(const Shape& shape, Reach reach,
                                         std::vector<NodeId>& nodes,
                                         std::vector<RunSlot>& victims) const {
  struct Candidate {
    std::int64_t cost;
    std::size_t slot;
    std::vector<Victim> victims;
  };
  const auto k = static_cast<std::size_t>(shape.nodes);
  std::vector<Candidate> best;
  std::int64_t best_cost = 0;
  std::vector<Victim> on_node;
  ForEachRange(shape, [&](const Pool& pool, std::size_t begin, std::size_t end) {
    std::vector<Candidate> candidates;
    for (std::size_t slot = begin; slot < end; ++slot) {
      const Node& node = cluster_.node(pool.nodes[slot]);
      if (node.health != NodeHealth::kUp || node.gpus < shape.gpus) continue;
      if (!Admits(pool.nodes[slot], shape.gpus, reach)) continue;
      std::int32_t room = node.soon();
      if (room + stoppable_on_[pool.nodes[slot].value()] < shape.gpus) continue;
      on_node.clear();
      for (const Occupant& o : node.runs) {
        const Record& r = records_[o.run];
        if (r.state != State::kRunning || !Stoppable(r)) continue;
        // A run over several nodes costs each of them its part.
        const std::int64_t part = StopCost(r) / static_cast<std::int64_t>(r.nodes.size());
        on_node.push_back({part, r.spec.id, o.run, o.gpus});
      }
      std::sort(on_node.begin(), on_node.end());
      Candidate c{0, slot, {}};
      for (std::size_t i = 0; i < on_node.size() && room < shape.gpus; ++i) {
        room += on_node[i].gpus;
        c.victims.push_back(on_node[i]);
      }
      std::erase_if(c.victims, [&](const Victim& v) {
        if (room - v.gpus < shape.gpus) return false;
        room -= v.gpus;
        return true;
      });
      for (const Victim& v : c.victims) c.cost += v.cost;
      candidates.push_back(std::move(c));
    }
    if (candidates.size() < k) return false;
    std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
      return std::tie(a.cost, a.slot) < std::tie(b.cost, b.slot);
    });
    candidates.resize(k);
    std::int64_t cost = 0;
    for (const Candidate& c : candidates) cost += c.cost;
    if (best.empty() || cost < best_cost) {
      best_cost = cost;
      best = std::move(candidates);
      nodes.clear();
      for (const Candidate& c : best) nodes.push_back(pool.nodes[c.slot]);
    }
    return false;
  });
  if (best.empty()) return false;

  std::vector<Victim> all;
  for (const Candidate& c : best) {
    for (const Victim& v : c.victims) {
      all.push_back({StopCost(records_[v.slot]), v.id, v.slot, v.gpus});
    }
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  // A victim taken for one node may make another superfluous: dearest first.
  std::vector<std::pair<NodeId, std::int32_t>> room;
  for (NodeId n : nodes) {
    std::int32_t free = cluster_.node(n).soon();
    for (const Victim& v : all) {
      const auto& on = records_[v.slot].nodes;
      if (std::find(on.begin(), on.end(), n) != on.end()) free += v.gpus;
    }
    room.emplace_back(n, free);
  }
  for (auto v = all.rbegin(); v != all.rend(); ++v) {
    const auto& on = records_[v->slot].nodes;
    const auto hit = [&](NodeId n) { return std::find(on.begin(), on.end(), n) != on.end(); };
    const bool needed = std::any_of(room.begin(), room.end(), [&](const auto& x) {
      return hit(x.first) && x.second - v->gpus < shape.gpus;
    });
    if (needed) {
      victims.push_back(v->slot);
      continue;
    }
    for (auto& [n, free] : room) {
      if (hit(n)) free -= v->gpus;
    }
  }
  std::reverse(victims.begin(), victims.end());
  return true;
}

// When `node` has `gpus` GPUs for the first blocked workload if every run ends at its limit.
inline TimePoint BaselineEngine::FreeFrom(const Node& node, std::int32_t gpus) const {
  absl::InlinedVector<std::pair<TimePoint, std::int32_t>, 16> ends;
  std::int32_t free = node.gpus;
  const auto add = [&](const Record& r, TimePoint end, std::int32_t n) {
    if (r.state == State::kStopping || (r.state != State::kHeld && Stoppable(r))) return;
    free -= n;
    ends.emplace_back(std::max(end, now_ + Duration(1)), n);
  };
  for (const Occupant& o : node.runs) add(records_[o.run], records_[o.run].expected_end, o.gpus);
  for (const Occupant& o : node.holds) add(records_[o.run], ExpectedEnd(records_[o.run]), o.gpus);
  if (free >= gpus) return now_;
  std::sort(ends.begin(), ends.end());
  for (const auto& [end, n] : ends) {
    free += n;
    if (free >= gpus) return end;
  }
  return kNever;
}

// GPUs of `node` that are free at `t` if every run ends at its limit.
inline std::int32_t BaselineEngine::FreeAt(const Node& node, TimePoint t) const {
  std::int32_t free = node.gpus;
  for (const Occupant& o : node.runs) {
    const Record& r = records_[o.run];
    if (r.state == State::kStopping || Stoppable(r)) continue;
    if (std::max(r.expected_end, now_ + Duration(1)) > t) free -= o.gpus;
  }
  for (const Occupant& o : node.holds) {
    if (ExpectedEnd(records_[o.run]) > t) free -= o.gpus;
  }
  return free;
}

// Reserves for the first blocked workload the earliest time at which enough nodes are free, and of
// the nodes that are free by then those that become so last: the others stay open to everybody.
inline void BaselineEngine::Reserve(const Shape& shape) {
  const auto k = static_cast<std::size_t>(shape.nodes);
  std::vector<std::pair<TimePoint, std::size_t>> candidates;
  std::vector<NodeId> chosen;
  ForEachRange(shape, [&](const Pool& pool, std::size_t begin, std::size_t end) {
    candidates.clear();
    for (std::size_t slot = begin; slot < end; ++slot) {
      const Node& node = cluster_.node(pool.nodes[slot]);
      if (node.health != NodeHealth::kUp || node.gpus < shape.gpus) continue;
      candidates.emplace_back(FreeFrom(node, shape.gpus), slot);
    }
    if (candidates.size() < k) return false;
    std::sort(candidates.begin(), candidates.end());
    const TimePoint at = candidates[k - 1].first;
    if (!chosen.empty() && at >= reserved_at_) return false;
    reserved_at_ = at;
    chosen.clear();
    std::size_t last = k;
    while (last < candidates.size() && candidates[last].first == at) ++last;
    for (std::size_t i = last - k; i < last; ++i) {
      chosen.push_back(pool.nodes[candidates[i].second]);
    }
    return false;
  });
  reserved_ = !chosen.empty();
  for (NodeId n : chosen) {
    spare_[n.value()] = std::max(0, FreeAt(cluster_.node(n), reserved_at_) - shape.gpus);
  }
}

inline void BaselineEngine::ClearReservation() {
  if (!reserved_) return;
  std::fill(spare_.begin(), spare_.end(), kNotReserved);
  reserved_ = false;
}

}  // namespace tenure::sim

#endif  // TENURE_SIM_BASELINES_H_
