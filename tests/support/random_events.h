// SPDX-License-Identifier: Apache-2.0
//
// Random stories: what users, nodes and a resource manager of some diligence could tell a
// Scheduler next, with wrong and repeated calls mixed in.
#ifndef TENURE_TESTS_SUPPORT_RANDOM_EVENTS_H_
#define TENURE_TESTS_SUPPORT_RANDOM_EVENTS_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "random_world.h"
#include "shadow_model.h"
#include "story.h"
#include "tenure/sim/random.h"

namespace tenure::test {

class RandomEvents {
 public:
  explicit RandomEvents(sim::Rng rng) : rng_(rng) {
    hurry_ = rng_.Chance(1, 4);
    nonsense_ = static_cast<int>(rng_.Below(8));
    crowd_ = 10 + static_cast<int>(rng_.Below(25));
    failures_ = static_cast<int>(rng_.Below(5));
    rates_ = rng_.Chance(1, 3) ? 1 : 0;
    windows_ = rng_.Chance(1, 3) ? 1 + static_cast<int>(rng_.Below(3)) : 0;
  }

  Event Next(ShadowModel& model) {
    Event e = Make(model);
    if (e.kind != Event::Kind::kDecide) past_.push_back(e);
    return e;
  }

  // A request of any class and shape for an open leaf.
  WorkloadSpec Spec(ShadowModel& model) {
    WorkloadSpec s;
    s.id = WorkloadId(++last_id_);
    if (rng_.Chance(1, 2)) s.id = WorkloadId((last_id_ * 7919) % 100'003 + 1'000'000);
    std::vector<int> leaves;
    for (int a = 0; a < static_cast<int>(model.allocations.size()); ++a) {
      if (model.IsLeaf(a) && !model.At(a).closed) leaves.push_back(a);
    }
    const int leaf = leaves.empty() ? 0 : leaves[static_cast<std::size_t>(Below(leaves.size()))];
    s.allocation = AllocationId(static_cast<std::uint32_t>(leaf + 1));
    s.user = UserId(static_cast<std::uint32_t>(rng_.Below(3)));
    s.workload_class = static_cast<WorkloadClass>(rng_.Below(5));
    if (rng_.Chance(1, 2)) s.workload_class = WorkloadClass::kTraining;
    s.priority = rng_.Chance(2, 3) ? 0 : static_cast<std::int32_t>(rng_.Below(3)) - 1;
    if (rng_.Chance(1, 40)) s.priority = rng_.Chance(1, 2) ? INT32_MIN : INT32_MAX;
    constexpr int kGpus[] = {1, 1, 2, 4, 8, 8, 3, 5, 16};
    s.gpus_per_node = GpuCount(kGpus[Below(std::size(kGpus))]);
    if (rng_.Chance(1, 4)) s.nodes = static_cast<std::uint32_t>(1 + rng_.Below(5));
    if (s.workload_class == WorkloadClass::kDebug) s.nodes = 1;
    if (rng_.Chance(1, 4)) {
      s.gpu_type =
          GpuTypeId(static_cast<std::uint16_t>(Below(static_cast<std::size_t>(model.types))));
    }
    if (rng_.Chance(1, 2)) s.topology_rule = TopologyRule::kRequired;
    if (rng_.Chance(1, 2)) s.topology_level = static_cast<std::uint8_t>(rng_.Below(4));
    constexpr int kMinutes[] = {0, 0, 1, 10, 15, 30, 60, 60, 120, 480, 1000};
    s.minimum = kMinute * kMinutes[Below(std::size(kMinutes))];
    if (s.workload_class == WorkloadClass::kSweep) s.minimum = Duration(0);
    s.resumable = rng_.Chance(4, 5);
    if (rng_.Chance(1, 5)) s.restorable = s.resumable || rng_.Chance(1, 10);
    if (rng_.Chance(1, 10)) s.user = kNoUser;
    if (rng_.Chance(1, 2)) s.checkpoint_interval = kMinute * (1 + rng_.Below(60));
    if (rng_.Chance(1, 2)) s.restart_overhead = kMinute * rng_.Below(20);
    return s;
  }

 private:
  using Kind = Event::Kind;

  std::int64_t Below(std::size_t n) { return rng_.Below(static_cast<std::int64_t>(n)); }

  TimePoint Later(TimePoint now) {
    if (rng_.Chance(1, 3000)) return std::max(now, TimePoint(kTimeLimit - kHour * 1000));
    switch (rng_.Below(hurry_ ? 6 : 9)) {
      case 0:
      case 1:
      case 2:
        return now;
      case 3:
        return now + kSecond * rng_.Below(30);
      case 4:
        return now + kMinute * rng_.Below(20) + Duration(rng_.Below(1000));
      case 5:
        return now + kMinute * rng_.Below(90);
      case 6:
        return now + kHour * rng_.Below(5);
      case 7:
        return now + (rng_.Chance(1, 3) ? kHour * rng_.Below(60) : kHour);
      default:
        return now + (rng_.Chance(1, 20) ? kHour * 24 * rng_.Below(40) : kMinute);
    }
  }

  // A workload in one of the states, or null.
  template <class... States>
  const ShadowWorkload* Pick(ShadowModel& model, States... states) {
    std::vector<const ShadowWorkload*> list;
    for (const auto& [id, w] : model.workloads) {
      if (((w.state == states) || ...)) list.push_back(&w);
    }
    return list.empty() ? nullptr : list[static_cast<std::size_t>(Below(list.size()))];
  }

  Event Submit(ShadowModel& model) {
    Event e;
    e.kind = Kind::kSubmit;
    e.spec = Spec(model);
    // Often something seen before, so that queues of equal shapes form.
    if (!specs_.empty() && rng_.Chance(1, 2)) {
      const WorkloadSpec& old = specs_[static_cast<std::size_t>(Below(specs_.size()))];
      const WorkloadId id = e.spec.id;
      e.spec = old;
      e.spec.id = id;
    }
    specs_.push_back(e.spec);
    return e;
  }

  Event About(Kind kind, const ShadowWorkload* w) {
    Event e;
    if (w == nullptr) return e;  // look again
    e.kind = kind;
    e.id = w->spec.id;
    e.run = w->run;
    return e;
  }

  Event Make(ShadowModel& model);
  Event Nonsense(ShadowModel& model);

  sim::Rng rng_;
  bool hurry_ = false;
  int nonsense_ = 0, crowd_ = 20, failures_ = 1, windows_ = 0, rates_ = 0;
  std::uint64_t last_id_ = 0;
  int added_ = 0;
  std::vector<WorkloadSpec> specs_;
  std::vector<Event> past_;
};

inline Event RandomEvents::Make(ShadowModel& model) {
  if (rng_.Below(100) < nonsense_) return Nonsense(model);
  using S = WorkloadState;
  const TimePoint now = Later(model.now);
  const bool full = model.workloads.size() >= static_cast<std::size_t>(crowd_);
  Event e;
  const std::array<int, 21> weights = {full ? 3 : 22,
                                       3,
                                       18,
                                       2,
                                       full ? 14 : 6,
                                       14,
                                       2,
                                       3,
                                       3,
                                       failures_,
                                       failures_ > 2 ? 1 : 0,
                                       1,
                                       2,
                                       rng_.Chance(1, 10) ? 1 : 0,
                                       2,
                                       1,
                                       windows_,
                                       windows_ > 0 ? 1 : 0,
                                       1,
                                       rates_,
                                       30};
  switch (static_cast<Kind>(rng_.Pick(weights))) {
    case Kind::kSubmit:
      e = Submit(model);
      break;
    case Kind::kCancel:
      e = About(Kind::kCancel, Pick(model, S::kPending, S::kHeld, S::kStarting, S::kRunning,
                                    S::kStopping, S::kReserved));
      break;
    case Kind::kStarted: {
      const ShadowWorkload* w = Pick(model, S::kStarting);
      e = About(Kind::kStarted, w);
      if (w != nullptr) {
        e.at = rng_.Chance(1, 2) ? now : w->start + Duration(rng_.Below((now - w->start).count()));
      }
      break;
    }
    case Kind::kStartFailed:
      e = About(Kind::kStartFailed, Pick(model, S::kStarting));
      break;
    case Kind::kEnded: {
      const ShadowWorkload* w = Pick(model, S::kRunning, S::kStopping);
      e = About(Kind::kEnded, w);
      if (w != nullptr) {
        e.at = rng_.Chance(2, 3) ? now : w->start + Duration(rng_.Below((now - w->start).count()));
      }
      // Or the end of a run that was thought to be lost.
      for (const Occupation& o : model.history) {
        if (!o.inferred || !rng_.Chance(1, 3)) continue;
        e.kind = Kind::kEnded;
        e.id = o.workload;
        e.run = o.run;
        e.at = o.begin + Duration(rng_.Below((now - o.begin).count()));
      }
      break;
    }
    case Kind::kStopped: {
      const ShadowWorkload* w = Pick(model, S::kStopping);
      e = About(Kind::kStopped, w);
      if (w != nullptr) {
        e.at = rng_.Chance(2, 3) ? now : w->start + Duration(rng_.Below((now - w->start).count()));
      }
      break;
    }
    case Kind::kStopFailed:
      e = About(Kind::kStopFailed, Pick(model, S::kStopping));
      break;
    case Kind::kCheckpoint: {
      const ShadowWorkload* w = Pick(model, S::kRunning, S::kStopping);
      e = About(Kind::kCheckpoint, w);
      if (w != nullptr) e.at = w->start + Duration(rng_.Below((now - w->start).count()));
      break;
    }
    case Kind::kIdle: {
      std::vector<const ShadowWorkload*> sessions;
      for (const auto& [id, w] : model.workloads) {
        if ((w.state == S::kRunning || w.state == S::kSuspended) &&
            w.spec.workload_class == WorkloadClass::kInteractive) {
          sessions.push_back(&w);
        }
      }
      if (sessions.empty()) break;
      e = About(Kind::kIdle, sessions[static_cast<std::size_t>(Below(sessions.size()))]);
      e.idle = rng_.Chance(3, 4);
      break;
    }
    case Kind::kSetNode:
      e.kind = Kind::kSetNode;
      e.index = static_cast<int>(Below(model.nodes.size()));
      e.health = rng_.Chance(1, 2)   ? NodeHealth::kUp
                 : rng_.Chance(1, 2) ? NodeHealth::kDraining
                                     : NodeHealth::kDown;
      e.at = rng_.Chance(2, 3) ? now : now - kMinute * rng_.Below(30);
      break;
    case Kind::kAddNode: {
      e.kind = Kind::kAddNode;
      WorldSpec like;
      like.types.resize(static_cast<std::size_t>(model.types));
      like.domains = model.domains;
      e.node = RandomNode(rng_, like, 1000 + ++added_);
      break;
    }
    case Kind::kAddAllocation:
      e.kind = Kind::kAddAllocation;
      e.allocation = {absl::StrCat("new", rng_.Below(50), ".", ++added_),
                      static_cast<int>(Below(model.allocations.size() + 1)) - 1,
                      RandomWeight(rng_)};
      break;
    case Kind::kSetWeight:
      e.kind = Kind::kSetWeight;
      e.index = static_cast<int>(Below(model.allocations.size()));
      e.weight = RandomWeight(rng_);
      e.at = rng_.Chance(1, 2) ? now : now + kMinute * (rng_.Below(200) - 50);
      break;
    case Kind::kMove:
      e.kind = Kind::kMove;
      e.index = static_cast<int>(Below(model.allocations.size()));
      e.allocation.parent = static_cast<int>(Below(model.allocations.size() + 1)) - 1;
      break;
    case Kind::kClose:
      e.kind = Kind::kClose;
      e.index = static_cast<int>(Below(model.allocations.size()));
      break;
    case Kind::kBoost:
      e.kind = Kind::kBoost;
      e.index = static_cast<int>(Below(model.allocations.size()));
      e.weight = RandomWeight(rng_);
      e.at = now + kMinute * (rng_.Below(200) - 50);
      e.until = std::max(e.at, now) + kMinute * (rng_.Below(200) - 5);
      break;
    case Kind::kSetRate: {
      constexpr std::int32_t kRates[] = {1000, 500, 250, 2000, 1500, 50};
      e.kind = Kind::kSetRate;
      e.index = static_cast<int>(Below(static_cast<std::size_t>(model.types)));
      e.rate = kRates[Below(std::size(kRates))];
      break;
    }
    case Kind::kMaintenance:
      e.kind = Kind::kMaintenance;
      for (std::int64_t i = rng_.Below(3); i >= 0; --i) {
        e.nodes.push_back(static_cast<int>(Below(model.nodes.size())));
      }
      e.at = now + kMinute * (rng_.Below(400) - 20);
      e.until = std::max(e.at, now) + kMinute * (1 + rng_.Below(300));
      break;
    case Kind::kCancelMaintenance:
      if (model.windows.empty()) break;
      e.kind = Kind::kCancelMaintenance;
      e.index = static_cast<int>(Below(model.windows.size()));
      break;
    case Kind::kReconcile:
      e.kind = Kind::kReconcile;
      for (const auto& [id, w] : model.workloads) {
        if (w.Occupies() && rng_.Chance(9, 10)) e.running.push_back({id, w.run});
      }
      if (rng_.Chance(1, 4)) e.running.push_back({WorkloadId(999'999'999), RunNumber(1)});
      break;
    case Kind::kDecide:
      break;
  }
  e.now = now;
  return e;
}

// A call that is wrong more often than not: an event again, or with a field that is off.
inline Event RandomEvents::Nonsense(ShadowModel& model) {
  Event e = past_.empty() || rng_.Chance(1, 4)
                ? Submit(model)
                : past_[static_cast<std::size_t>(Below(past_.size()))];
  e.now = model.now;
  switch (rng_.Below(14)) {
    case 0:
      e.now = model.now - Duration(1);
      break;
    case 1:
      e.run = RunNumber(e.run.value() + 1);
      break;
    case 2:
      e.id = WorkloadId(123'456'789);
      break;
    case 3:
      e.at = e.now + Duration(1);
      break;
    case 4:
      e.at = TimePoint(Duration::min());
      e.until = e.now;
      break;
    case 5:
      e.now = TimePoint(Duration::max());
      break;
    case 6:
      e.index = -1;
      e.nodes = {-1};
      e.rate = 0;
      e.allocation.parent = 77;
      e.spec.allocation = AllocationId(0);
      break;
    case 7:
      e.index = 1'000;
      e.nodes.clear();
      e.rate = kMaxChargeRate + 1;
      e.spec.allocation = AllocationId(1'000);
      e.node.domain = 55;
      break;
    case 8:
      e.spec.gpus_per_node = GpuCount(-1);
      e.weight = -1;
      e.node.gpus = 0;
      break;
    case 9:
      e.spec.gpus_per_node = GpuCount(kMaxClusterGpus + 1);
      e.weight = std::nan("");
      e.node.gpus = kMaxGpusPerNode + 1;
      break;
    case 10:
      e.spec.minimum = Duration(-1);
      e.allocation.weight = HUGE_VAL;
      break;
    case 11:
      e.spec.nodes = 0;
      e.spec.restart_overhead = Duration::max();
      break;
    case 12:
      e.spec.gpu_type = GpuTypeId(77);
      e.node.type = 77;
      break;
    default:
      break;
  }
  return e;
}

}  // namespace tenure::test

#endif  // TENURE_TESTS_SUPPORT_RANDOM_EVENTS_H_
