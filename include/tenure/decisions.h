// SPDX-License-Identifier: Apache-2.0
//
// What a pass answers: start these, stop those, hold GPUs for the ones that wait for a stop.
//
//   const tenure::Decisions& d = scheduler.Decide(now).value();
//   for (const tenure::Stop& s : d.stops) resource_manager.Signal(s.workload, s.grace);
//   for (const tenure::Start& s : d.starts) resource_manager.Launch(s.workload, d.Nodes(s));
//
// Every list is in decision order, which is deterministic. Node lists live in one pool so that a
// pass allocates nothing in steady state.
#ifndef TENURE_DECISIONS_H_
#define TENURE_DECISIONS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tenure/contract.h"
#include "tenure/plan_world.h"
#include "tenure/types.h"

namespace tenure {

// Why a run is stopped.
enum class StopReason : std::uint8_t {
  kPreempted = 0,  // for `beneficiary`
  kDrain = 1,      // its node drains or closes for maintenance, and its protection is over
  kCancelled = 2,  // its owner cancelled it
  kPromise = 3,    // a promised start of `beneficiary` is due
  kIdle = 4,       // a session in which nobody works, while others wait; it is suspended
};

constexpr const char* ToString(StopReason r) {
  constexpr const char* kNames[] = {"preempted", "drain", "cancelled", "promise", "idle"};
  return kNames[static_cast<std::size_t>(r)];
}

// True if another workload gets the GPUs: `Stop::beneficiary` names it.
constexpr bool IsPreemption(StopReason r) {
  return r == StopReason::kPreempted || r == StopReason::kPromise;
}

// Why a workload waits. The order is the order of explanation: the first that applies.
enum class WaitReason : std::uint8_t {
  kNone = 0,           // not waiting
  kNotConsidered = 1,  // no pass since it was submitted
  kNeverFits = 2,      // larger than the declared cluster (drained and failed nodes counted)
  kClosed = 3,         // its allocation is closed to new starts
  kNoCapacity = 4,     // fits the cluster, but not what is free or may be stopped for it now
  kWaitsForStop = 5,   // GPUs are held for it; victims are being stopped
  kUnfundedWaits = 6,  // minimum 0: waits for GPUs nobody funded wants
  kReserved = 7,       // has a promised start
  kSessionCap = 8,     // its allocation's sessions have as many GPUs as they may (`session_cap`)
  kSuspended = 9,      // an idle session that was stopped; goes on when its owner is back
  kMaintenance = 10,   // fits on free GPUs, were it not for maintenance of their nodes
  kDebugCap = 11,      // the debug work of its allocation has as many as it may (`debug_cap`)
  kServingCap = 12,    // the services of its allocation have as many as they may (`serving_cap`)
  kUserCap = 13,       // its user has as many of its class as one may (`user_*_gpus`)
};

constexpr const char* ToString(WaitReason r) {
  constexpr const char* kNames[] = {"none",        "not-considered", "never-fits",     "closed",
                                    "no-capacity", "waits-for-stop", "unfunded-waits", "reserved",
                                    "session-cap", "suspended",      "maintenance",    "debug-cap",
                                    "serving-cap", "user-cap"};
  return kNames[static_cast<std::size_t>(r)];
}

// Why work of a class waits whose allocation has as much of it as it may.
constexpr WaitReason CapReason(WorkloadClass c) {
  return c == WorkloadClass::kDebug     ? WaitReason::kDebugCap
         : c == WorkloadClass::kServing ? WaitReason::kServingCap
                                        : WaitReason::kSessionCap;
}

// A slice of Decisions::node_pool.
struct NodeList {
  std::uint32_t begin = 0;
  std::uint32_t size = 0;
};

struct Start {
  WorkloadId workload;
  RunNumber run;
  NodeList nodes;
  GpuCount gpus_per_node;
};

struct Stop {
  WorkloadId workload;
  RunNumber run;
  StopReason reason = StopReason::kPreempted;
  WorkloadId beneficiary;  // for kPreempted and kPromise
  Duration grace{0};       // time the run may use to save its work
  GpuTime lost_work;       // estimate: work since the last checkpoint + restart overhead, x GPUs
};

// GPUs kept for `workload` until its victims are gone. Reported when the hold begins.
struct Hold {
  WorkloadId workload;
  NodeList nodes;
  GpuCount gpus_per_node;
  TimePoint expires;
};

// A gang is promised a start on these nodes by `start_by`. Reported when the promise is made or,
// after the failure of one of its nodes, restated.
struct Promise {
  WorkloadId workload;
  NodeList nodes;
  TimePoint start_by;
};

enum class SearchOutcome : std::uint8_t {
  kNone = 0,     // no search: it is off, or no waiting request could be placed
  kNoGain = 1,   // no trial was better than the pass without a search
  kTaken = 2,    // the decisions are those of the winner
  kRefused = 3,  // the winner broke a rule, or the whole pass was no better with it
  kFailed = 4,   // no back end could make the trials
};

constexpr const char* ToString(SearchOutcome outcome) {
  constexpr const char* kNames[] = {"none", "no-gain", "taken", "refused", "failed"};
  return kNames[static_cast<std::size_t>(outcome)];
}

// What the plan search of a pass did (plan_search.h). The decisions depend on trials and seed,
// never on the back end.
struct SearchRecord {
  SearchOutcome outcome = SearchOutcome::kNone;
  plan::BackendKind backend = plan::BackendKind::kOff;
  std::uint32_t trials = 0;  // that were made
  std::uint32_t seed = 0;
  std::uint32_t winner = 0;                   // 0: the pass without a search
  std::uint64_t price_before = 0, price = 0;  // GPU-minutes: of trial 0 and of the winner
  // So far: back ends that failed, or that answered what their plan does not cost.
  std::uint64_t faults = 0;
  friend bool operator==(const SearchRecord&, const SearchRecord&) = default;
};

struct Decisions {
  std::vector<Start> starts;
  std::vector<Stop> stops;
  std::vector<Hold> holds;
  std::vector<Promise> promises;
  std::vector<NodeId> node_pool;
  // Call Decide again at this time at the latest even if nothing is reported; kNever if time alone
  // changes nothing.
  TimePoint next_wakeup = kNever;
  SearchRecord search;

  std::span<const NodeId> Nodes(NodeList list) const {
    return std::span(node_pool).subspan(list.begin, list.size);
  }
  std::span<const NodeId> Nodes(const Start& s) const { return Nodes(s.nodes); }
  std::span<const NodeId> Nodes(const Hold& h) const { return Nodes(h.nodes); }
  std::span<const NodeId> Nodes(const Promise& p) const { return Nodes(p.nodes); }

  void Clear() {
    starts.clear();
    stops.clear();
    holds.clear();
    promises.clear();
    node_pool.clear();
    next_wakeup = kNever;
    search = {};
  }
};

}  // namespace tenure

#endif  // TENURE_DECISIONS_H_
