// SPDX-License-Identifier: Apache-2.0
//
// ShadowModel: which events are legal, and what they change. Included by shadow_model.h; not for
// direct use.
#ifndef TENURE_TESTS_SUPPORT_SHADOW_EVENTS_H_
#define TENURE_TESTS_SUPPORT_SHADOW_EVENTS_H_

#include "shadow_model.h"

namespace tenure::test {

inline bool ShadowModel::LegalSubmit(const WorkloadSpec& s) const {
  const int leaf = static_cast<int>(s.allocation.value()) - 1;
  if (workloads.count(s.id) > 0 || !HasAllocation(leaf) || At(leaf).closed || !IsLeaf(leaf)) {
    return false;
  }
  if (s.gpu_type != kAnyGpuType && s.gpu_type.value() >= types) return false;
  if (s.nodes < 1 || s.gpus_per_node.value() < 1) return false;
  if (s.gpus_per_node.value() > kMaxClusterGpus ||
      s.gpus_per_node.value() * s.nodes > kMaxClusterGpus) {
    return false;
  }
  for (Duration d : {s.minimum, s.checkpoint_interval, s.restart_overhead}) {
    if (d < Duration(0) || d > kMaxLookback * 12) return false;
  }
  if (s.workload_class == WorkloadClass::kDebug && s.gpus() > options.contract.debug_gpus) {
    return false;
  }
  if (s.workload_class == WorkloadClass::kSweep && s.minimum > Duration(0)) return false;
  if (s.restorable && !s.resumable) return false;
  const GpuCount most = options.contract.UserGpus(s.workload_class);
  if (s.minimum > Duration(0) && most > GpuCount(0) && s.gpus() > most) return false;
  return !(options.contract.refuse_livelock && HasLivelock(s));
}

inline bool ShadowModel::Legal(const Event& e) {
  if (e.now < now || e.now > TimePoint(kTimeLimit)) return false;
  const ShadowWorkload* w = Find(e.id);
  const bool current = w != nullptr && w->run == e.run;
  const bool past = e.at <= e.now && e.at >= TimePoint(-kTimeLimit);
  const auto in = [&](auto... states) { return current && ((w->state == states) || ...); };
  switch (e.kind) {
    case Event::Kind::kSubmit:
      return LegalSubmit(e.spec);
    case Event::Kind::kCancel:
      return w != nullptr;
    case Event::Kind::kStarted:
      return in(WorkloadState::kStarting) && past && e.at >= w->start;
    case Event::Kind::kStartFailed:
      return in(WorkloadState::kStarting);
    case Event::Kind::kEnded: {
      if (!past) return false;
      if (current) {
        return in(WorkloadState::kRunning, WorkloadState::kStopping) && e.at >= w->start;
      }
      const Occupation* o = Inferred(e.id, e.run);
      return o != nullptr && e.at >= o->begin;
    }
    case Event::Kind::kStopped:
      return in(WorkloadState::kStopping) && past && e.at >= w->start;
    case Event::Kind::kStopFailed:
      return in(WorkloadState::kStopping);
    case Event::Kind::kCheckpoint:
      return in(WorkloadState::kRunning, WorkloadState::kStopping) && past && e.at >= w->start;
    case Event::Kind::kIdle:
      return w != nullptr &&
             (w->state == WorkloadState::kRunning || w->state == WorkloadState::kSuspended) &&
             w->spec.workload_class == WorkloadClass::kInteractive;
    case Event::Kind::kSetNode:
      return past && e.index >= 0 && static_cast<std::size_t>(e.index) < nodes.size();
    case Event::Kind::kAddNode:
      return e.node.gpus >= 1 && e.node.gpus <= kMaxGpusPerNode && e.node.type >= 0 &&
             e.node.type < types && e.node.domain >= -1 &&
             e.node.domain < static_cast<int>(domains.size()) &&
             std::none_of(nodes.begin(), nodes.end(),
                          [&](const Node& n) { return n.spec.name == e.node.name; });
    case Event::Kind::kAddAllocation: {
      const int p = e.allocation.parent;
      if (e.allocation.name.empty() || !(e.allocation.weight >= 0) ||
          !std::isfinite(e.allocation.weight) || (p != -1 && !HasAllocation(p))) {
        return false;
      }
      if (p >= 0 && (At(p).closed || At(p).charged)) return false;
      return std::none_of(allocations.begin(), allocations.end(), [&](const Allocation& a) {
        return !a.closed && a.spec.parent == p && a.spec.name == e.allocation.name;
      });
    }
    case Event::Kind::kSetWeight:
      return HasAllocation(e.index) && !At(e.index).closed && e.weight >= 0 &&
             std::isfinite(e.weight) && e.at.time_since_epoch() <= kTimeLimit;
    case Event::Kind::kBoost:
      return HasAllocation(e.index) && !At(e.index).closed && e.weight >= 0 &&
             std::isfinite(e.weight) && e.until > std::max(e.at, e.now) &&
             e.until <= TimePoint(kTimeLimit);
    case Event::Kind::kSetRate:
      return e.index >= 0 && e.index < types && e.rate >= 1 && e.rate <= kMaxChargeRate;
    case Event::Kind::kMove: {
      const int to = e.allocation.parent;
      if (!HasAllocation(e.index) || (to != -1 && !HasAllocation(to))) return false;
      if (to != -1 && (Inside(to, e.index) || At(to).closed || At(to).charged)) return false;
      if (At(e.index).closed || At(e.index).spec.parent == to) return false;
      return std::none_of(allocations.begin(), allocations.end(), [&](const Allocation& a) {
        return !a.closed && a.spec.parent == to && a.spec.name == At(e.index).spec.name;
      });
    }
    case Event::Kind::kClose:
      return HasAllocation(e.index) && !At(e.index).closed;
    case Event::Kind::kMaintenance:
      return !e.nodes.empty() && e.until > std::max(e.at, e.now) &&
             e.until <= TimePoint(kTimeLimit) &&
             std::all_of(e.nodes.begin(), e.nodes.end(), [&](int n) {
               return n >= 0 && static_cast<std::size_t>(n) < nodes.size();
             });
    case Event::Kind::kCancelMaintenance:
      return e.index >= 0 && static_cast<std::size_t>(e.index) < windows.size() &&
             !windows[static_cast<std::size_t>(e.index)].over;
    case Event::Kind::kReconcile:
    case Event::Kind::kDecide:
      return true;
  }
  return false;
}

inline void ShadowModel::Apply(const Event& e) {
  now = e.now;
  ShadowWorkload* w = Find(e.id);
  const auto drop = [&](WorkloadId id) { workloads.erase(id); };
  switch (e.kind) {
    case Event::Kind::kSubmit: {
      ShadowWorkload& added = workloads[e.spec.id];
      added.spec = e.spec;
      added.leaf = static_cast<int>(e.spec.allocation.value()) - 1;
      added.submitted = now;
      added.funded = Funded(added.spec, added.leaf);
      allocations[static_cast<std::size_t>(added.leaf)].charged = true;
      break;
    }
    case Event::Kind::kCancel:
      w->cancel = true;
      if (!w->Occupies()) drop(e.id);
      break;
    case Event::Kind::kStarted:
      w->state = WorkloadState::kRunning;
      w->start = e.at;
      w->last_seen = now;
      w->protected_until = e.at + w->ideal;
      w->committed = w->funded;
      history.push_back({e.id, e.run, w->leaf, w->gpus(),
                         nodes[static_cast<std::size_t>(w->nodes[0])].spec.type, w->funded, e.at,
                         kNever, false});
      break;
    case Event::Kind::kStartFailed: {
      if (w->spec.nodes == 1) {
        w->avoid = w->nodes[0];
        w->avoid_until = now + options.tick;
      }
      const bool resumable = w->spec.resumable;
      w->spec.resumable = true;  // nothing is lost
      if (Lose(*w, now, false)) {
        drop(e.id);
      } else {
        w->spec.resumable = resumable;
      }
      break;
    }
    case Event::Kind::kEnded:
      if (w != nullptr && w->run == e.run) {
        EndOccupation(*w, e.at);
        drop(e.id);
      } else {
        Occupation* o = Inferred(e.id, e.run);
        o->end = e.at;
        o->inferred = false;
      }
      break;
    case Event::Kind::kStopped:
      if (Lose(*w, e.at, true)) drop(e.id);
      break;
    case Event::Kind::kStopFailed:
      w->state = WorkloadState::kRunning;
      w->last_seen = now;
      // The latest holds counted on these GPUs.
      for (int n : w->nodes) {
        while (Soon(n) < 0) {
          ShadowWorkload* last = nullptr;
          for (auto& [id, h] : workloads) {
            if (h.state == WorkloadState::kHeld &&
                std::count(h.nodes.begin(), h.nodes.end(), n) > 0 &&
                (last == nullptr || h.hold_number > last->hold_number)) {
              last = &h;
            }
          }
          ReleaseHold(*last);
          last->victims_until = TimePoint(-kTimeLimit);
        }
      }
      break;
    case Event::Kind::kCheckpoint:
      w->last_seen = std::max(w->last_seen, e.at);
      break;
    case Event::Kind::kIdle: {
      w->idle = e.idle;
      if (w->state == WorkloadState::kSuspended) {
        if (e.idle) break;
        w->state = WorkloadState::kPending;
        w->funded = Funded(w->spec, w->leaf);
        break;
      }
      w->last_seen = now;
      const TimePoint until = std::max(now, w->start + options.idle_after);
      if (e.idle && until < w->protected_until) w->protected_until = until;
      break;
    }
    case Event::Kind::kSetNode: {
      Node& n = nodes[static_cast<std::size_t>(e.index)];
      if (n.health == e.health) break;
      n.health = e.health;
      if (e.health == NodeHealth::kUp) break;
      LeaveService(e.index);
      std::vector<WorkloadId> over;
      for (auto& [id, x] : workloads) {
        if (e.health == NodeHealth::kDown && x.Occupies() &&
            std::count(x.nodes.begin(), x.nodes.end(), e.index) > 0 && Lose(x, e.at, false)) {
          over.push_back(id);
        }
      }
      for (WorkloadId id : over) drop(id);
      break;
    }
    case Event::Kind::kAddNode:
      nodes.push_back({e.node});
      break;
    case Event::Kind::kAddAllocation:
      allocations.push_back({e.allocation});
      Reclassify();
      break;
    case Event::Kind::kSetWeight:
      edits.push_back({e.index, e.weight, std::max(e.at, now)});
      break;
    case Event::Kind::kBoost:
      ++boosts;
      edits.push_back({e.index, e.weight, std::max(e.at, now), boosts, false});
      edits.push_back({e.index, e.weight, e.until, boosts, true});
      break;
    case Event::Kind::kSetRate:
      rates.push_back({e.index, now, e.rate});
      break;
    case Event::Kind::kMove:
      allocations[static_cast<std::size_t>(e.index)].spec.parent = e.allocation.parent;
      Reclassify();
      break;
    case Event::Kind::kClose:
      for (std::size_t a = 0; a < allocations.size(); ++a) {
        if (Inside(static_cast<int>(a), e.index)) allocations[a].closed = true;
      }
      Reclassify();
      break;
    case Event::Kind::kReconcile: {
      for (const RunRef& r : e.running) {
        ShadowWorkload* x = Find(r.workload);
        if (x != nullptr && x->run == r.run &&
            (x->state == WorkloadState::kRunning || x->state == WorkloadState::kStopping)) {
          x->last_seen = now;
        }
      }
      std::vector<WorkloadId> over;
      for (auto& [id, x] : workloads) {
        if (x.state != WorkloadState::kRunning && x.state != WorkloadState::kStopping) continue;
        const bool seen = std::any_of(
            e.running.begin(), e.running.end(),
            [&id = id, &x = x](const RunRef& r) { return r.workload == id && r.run == x.run; });
        if (seen) continue;
        for (Occupation& o : history) {
          if (o.workload == id && o.run == x.run && o.end == kNever) o.inferred = true;
        }
        EndOccupation(x, x.last_seen);
        over.push_back(id);
      }
      for (WorkloadId id : over) drop(id);
      for (Occupation& o : history) {
        if (o.inferred && o.end + options.lookback < now) o.inferred = false;
      }
      break;
    }
    case Event::Kind::kMaintenance:
      windows.push_back({e.nodes, std::max(e.at, now), e.until});
      break;
    case Event::Kind::kCancelMaintenance:
      windows[static_cast<std::size_t>(e.index)].over = true;
      break;
    case Event::Kind::kDecide:
      break;
  }
}

}  // namespace tenure::test

#endif  // TENURE_TESTS_SUPPORT_SHADOW_EVENTS_H_
