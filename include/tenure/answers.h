// SPDX-License-Identifier: Apache-2.0
//
// What a scheduler answers besides decisions: what became of a lost run, what a list of running
// work showed, why a workload waits, where an allocation stands.
//
//   tenure::Explanation e = scheduler.Explain(id).value();
//   Show(ToString(e.reason), e.leaves_ahead, e.requests_ahead, e.promised_start);
//
// Plain values, valid as long as the caller keeps them.
#ifndef TENURE_ANSWERS_H_
#define TENURE_ANSWERS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tenure/decisions.h"
#include "tenure/types.h"
#include "tenure/workload_table.h"

namespace tenure {

// What became of a workload whose run was stopped or lost.
enum class LossOutcome : std::uint8_t {
  kRequeued = 0,            // resumable: waits again, with its first queue time
  kFailedByPreemption = 1,  // not resumable: it is over
  kCancelled = 2,           // its owner had cancelled it
  kSuspended = 3,           // an idle session: goes on when ReportIdle says that it is used again
  kFailedWithNode = 4,      // not resumable, and its node went down: it is over
};

constexpr const char* ToString(LossOutcome o) {
  constexpr const char* kNames[] = {"requeued", "failed-by-preemption", "cancelled", "suspended",
                                    "failed-with-node"};
  return kNames[static_cast<std::size_t>(o)];
}

// A run as the resource manager sees it.
struct RunRef {
  WorkloadId workload;
  RunNumber run;
};

// A run that was lost with its node.
struct LostRun {
  WorkloadId workload;
  RunNumber run;
  LossOutcome outcome = LossOutcome::kRequeued;
  friend bool operator==(const LostRun&, const LostRun&) = default;
};

// What a change of a node's health did at once.
struct NodeReport {
  std::vector<LostRun> lost;  // by workload id
};

struct ReconcileReport {
  std::vector<RunRef> ended;    // running here, not in the list: closed at the last sign of life
  std::vector<RunRef> unknown;  // in the list, not running here: the caller must decide
};

// A workload's standing with the numbers that decide about it. Times and keys as of the last pass.
struct Explanation {
  WorkloadId workload;
  WorkloadState state = WorkloadState::kFree;
  WaitReason reason = WaitReason::kNone;
  AllocationId allocation;
  MilliGpu entitlement;               // of its leaf
  MilliGpu fluid;                     // F: what the leaf is due right now
  GpuCount placed, queued;            // funded GPUs of its leaf
  GpuTime used;                       // in the window, with committed minimums
  Duration key{0};                    // used / entitlement: lower is served first
  std::int32_t tier = 0;              // 1: within F
  std::size_t leaves_ahead = 0;       // leaves with waiting funded work that rank before its leaf
  std::size_t requests_ahead = 0;     // requests of its own leaf before it
  TimePoint protected_until{};        // of the current run
  TimePoint promised_start = kNever;  // if it has a reservation
  TimePoint next_protection_end = kNever;  // earliest end of any protection in the cluster
  std::uint32_t stops = 0;                 // how often it was preempted
};

// An allocation's standing as of `Standing`'s `now`.
struct AllocationStanding {
  AllocationId allocation;
  MilliGpu entitlement, natural, fluid;
  GpuTime used_in_window;  // charged: GPU-time x charge rate
  // Thousandths of a GPU-microsecond beyond `used_in_window`; with them a parent is the exact sum
  // of its children under any charge rates.
  std::int64_t used_rest = 0;
  GpuTime committed_ahead;  // rest of running protections
  GpuTime unfunded_in_window;
  Duration key{0};
  GpuCount placed, queued, unfunded;
};

}  // namespace tenure

#endif  // TENURE_ANSWERS_H_
