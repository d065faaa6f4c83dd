// SPDX-License-Identifier: Apache-2.0
//
// A story: events that can be told to a Scheduler, and its answers, in a form that is independent
// of the ids it hands out: everything is named by its position in the WorldSpec.
#ifndef TENURE_TESTS_SUPPORT_STORY_H_
#define TENURE_TESTS_SUPPORT_STORY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "random_world.h"
#include "tenure/scheduler.h"

namespace tenure::test {

struct Event {
  enum class Kind : std::uint8_t {
    kSubmit,
    kCancel,
    kStarted,
    kStartFailed,
    kEnded,
    kStopped,
    kStopFailed,
    kCheckpoint,
    kIdle,
    kSetNode,
    kAddNode,
    kAddAllocation,
    kSetWeight,
    kClose,
    kReconcile,
    kMove,
    kMaintenance,
    kCancelMaintenance,
    kBoost,
    kSetRate,
    kDecide,
  };
  Kind kind = Kind::kDecide;
  TimePoint now{};
  TimePoint at{};     // when it happened, or takes effect
  WorkloadSpec spec;  // kSubmit: its allocation and GPU type are positions in the world
  WorkloadId id;
  RunNumber run;
  int index = 0;           // of a node, an allocation or, in order of announcement, a window
  std::vector<int> nodes;  // of a window, which begins at `at`
  TimePoint until{};       // its end, or that of a boost, which begins at `at`
  std::int32_t rate = kStandardRate;
  NodeHealth health = NodeHealth::kUp;
  double weight = 1;
  bool idle = false;
  std::vector<RunRef> running;
  WorldSpec::NodeSpec node;
  WorldSpec::Allocation allocation;

  std::string ToString() const {
    constexpr const char* kNames[] = {"submit",       "cancel",      "started",
                                      "start-failed", "ended",       "stopped",
                                      "stop-failed",  "checkpoint",  "idle",
                                      "set-node",     "add-node",    "add-allocation",
                                      "set-weight",   "close",       "reconcile",
                                      "move",         "maintenance", "cancel-maintenance",
                                      "boost",        "set-rate",    "decide"};
    const auto us = [](TimePoint t) { return t.time_since_epoch().count(); };
    std::string s = absl::StrCat("@", us(now), " ", kNames[static_cast<std::size_t>(kind)]);
    switch (kind) {
      case Kind::kDecide:
        break;
      case Kind::kSubmit:
        absl::StrAppend(
            &s, " w", spec.id.value(), " a", spec.allocation.value(), " ",
            tenure::ToString(spec.workload_class), " ", spec.nodes, "x", spec.gpus_per_node.value(),
            " min ", spec.minimum.count(), " type ", spec.gpu_type.value(), " prio ", spec.priority,
            spec.topology_rule == TopologyRule::kRequired ? " required " : " preferred ",
            int{spec.topology_level}, spec.resumable ? "" : " not resumable",
            spec.restorable ? " restorable" : "", " user ", spec.user.value(), " ckpt ",
            spec.checkpoint_interval.count(), " restart ", spec.restart_overhead.count());
        break;
      case Kind::kSetNode:
        absl::StrAppend(&s, " node ", index, " ", tenure::ToString(health), " since ", us(at));
        break;
      case Kind::kAddNode:
        absl::StrAppend(&s, " ", node.name, " gpus ", node.gpus, " type ", node.type, " domain ",
                        node.domain);
        break;
      case Kind::kAddAllocation:
        absl::StrAppend(&s, " ", allocation.name, " below ", allocation.parent, " weight ",
                        allocation.weight);
        break;
      case Kind::kSetWeight:
        absl::StrAppend(&s, " a", index, " weight ", weight, " from ", us(at));
        break;
      case Kind::kMove:
        absl::StrAppend(&s, " a", index, " below ", allocation.parent);
        break;
      case Kind::kBoost:
        absl::StrAppend(&s, " a", index, " weight ", weight, " from ", us(at), " until ",
                        us(until));
        break;
      case Kind::kSetRate:
        absl::StrAppend(&s, " type ", index, " ", rate);
        break;
      case Kind::kClose:
        absl::StrAppend(&s, " a", index);
        break;
      case Kind::kMaintenance:
        absl::StrAppend(&s, " of");
        for (int n : nodes) absl::StrAppend(&s, " ", n);
        absl::StrAppend(&s, " from ", us(at), " until ", us(until));
        break;
      case Kind::kCancelMaintenance:
        absl::StrAppend(&s, " ", index);
        break;
      case Kind::kReconcile:
        for (const RunRef& r : running) {
          absl::StrAppend(&s, " w", r.workload.value(), "/", r.run.value());
        }
        break;
      case Kind::kIdle:
        absl::StrAppend(&s, " w", id.value(), idle ? " idle" : " busy");
        break;
      default:
        absl::StrAppend(&s, " w", id.value(), "/", run.value(), " at ", us(at));
    }
    return s;
  }
};

// What a Scheduler answered, in positions of the world.
struct Response {
  struct Placed {
    WorkloadId workload;
    RunNumber run;  // 0 for a hold
    std::vector<int> nodes;
    std::int64_t gpus_per_node = 0;
    TimePoint expires{};
    friend bool operator==(const Placed&, const Placed&) = default;
  };
  struct Stopped {
    WorkloadId workload;
    RunNumber run;
    StopReason reason{};
    WorkloadId beneficiary;
    Duration grace{};
    GpuTime lost_work;
    friend bool operator==(const Stopped&, const Stopped&) = default;
  };
  absl::StatusCode code = absl::StatusCode::kOk;
  std::vector<Placed> starts, holds, promises;  // `expires` of a promise: the start promised
  std::vector<Stopped> stops;
  TimePoint next_wakeup = kNever;
  SearchRecord search;  // of a pass
  LossOutcome outcome{};
  std::vector<std::pair<WorkloadId, RunNumber>> ended, unknown;
  std::vector<LostRun> lost;  // with a node
  friend bool operator==(const Response&, const Response&) = default;

  bool ok() const { return code == absl::StatusCode::kOk; }
  bool quiet() const {
    return starts.empty() && stops.empty() && holds.empty() && promises.empty();
  }
  std::string ToString() const {
    std::string s = absl::StrCat("  -> ", absl::StatusCodeToString(code));
    const auto placed = [&](const char* what, const Placed& p) {
      absl::StrAppend(&s, "; ", what, " w", p.workload.value(), "/", p.run.value(), " on");
      for (int n : p.nodes) absl::StrAppend(&s, " ", n);
    };
    for (const Stopped& x : stops) {
      absl::StrAppend(&s, "; stop w", x.workload.value(), "/", x.run.value(), " reason ",
                      static_cast<int>(x.reason), " for w", x.beneficiary.value());
    }
    for (const Placed& p : holds) placed("hold", p);
    for (const Placed& p : starts) placed("start", p);
    for (const Placed& p : promises) {
      placed("promise", p);
      absl::StrAppend(&s, " by ", p.expires.time_since_epoch().count());
    }
    return s;
  }
};

}  // namespace tenure::test

#endif  // TENURE_TESTS_SUPPORT_STORY_H_
