// SPDX-License-Identifier: Apache-2.0
//
// The laws of scheduling, checked after every step of a story: LawChecker tells an event to a
// Scheduler, keeps a ShadowModel beside it and says which law the answer breaks. It knows nothing
// about how decisions are found, only what must never happen.
#ifndef TENURE_TESTS_SUPPORT_LAW_CHECKER_H_
#define TENURE_TESTS_SUPPORT_LAW_CHECKER_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "instance.h"
#include "shadow_model.h"
#include "tenure/scheduler.h"

namespace tenure::test {

// What happened in the stories checked, to show that the laws were put to the test.
struct LawCounts {
  std::int64_t events = 0, refused = 0, passes = 0, starts = 0, gang_starts = 0, holds = 0;
  std::int64_t hold_starts = 0, preempted = 0, preempted_funded = 0, drained = 0, cancelled = 0;
  std::int64_t lost = 0, inferred = 0, never_fits = 0, promises = 0, promised_starts = 0;
  std::int64_t lost_with_node = 0, closed_drains = 0, maintenance_waits = 0, class_caps = 0,
               serving_caps = 0, user_caps = 0, borrowed = 0, suspended = 0;
  std::int64_t boosted_passes = 0, rated_passes = 0;
};

template <class Policy>
class LawChecker {
 public:
  explicit LawChecker(const WorldSpec& world) : model_(world), instance_(world, nullptr) {}

  ShadowModel& model() { return model_; }
  Instance<Policy>& instance() { return instance_; }
  const Response& last() const { return last_; }
  LawCounts& counts() { return counts_; }

  // Empty, or which law the answer to `e` breaks.
  std::string Step(const Event& e);

 private:
  using List = std::vector<std::string>;
  template <class... T>
  void Broken(int law, T... what) {
    if (broken_.empty()) broken_ = absl::StrCat("law ", law, ": ", what...);
  }
  Scheduler<Policy>& scheduler() { return instance_.scheduler(); }

  void CheckPass(const Event& e, const Response& r, bool urgent);
  void CheckStop(const Response::Stopped& s, const Response& r);
  void CheckNodes(const char* what, const ShadowWorkload& w, const Response::Placed& p);
  void CheckVictims(const Response& r);
  void CheckPromise(const ShadowWorkload& w, const Response::Placed& p, const Response& r);
  void CheckPolicy(const Response& r);
  void CheckOrder(const Response& r);
  void CheckCaps(const Response& r);
  void SuspendIdle(const Response& r);
  void CheckClassCap(const ShadowWorkload& w, const Response& r);
  void CheckGranted(const Response& r);
  // Of a run or hold that the last pass decided.
  Duration Granted(WorkloadId id) {
    const WorkloadTable& table = scheduler().table();
    return table.run(table.Find(id)).protected_until - model_.now;
  }
  void CheckUserCaps(const std::set<WorkloadId>& waited, const Response& r);
  void CheckLost(const Event& e, const Response& r);
  void CheckNothingIdle();
  void CheckBooks();
  void CheckCluster();
  void CheckExplanations();
  bool EverFits(const ShadowWorkload& w) {
    return model_.Fits(w.spec, [&](int n) {
      return model_.nodes[static_cast<std::size_t>(n)].spec.gpus >= w.spec.gpus_per_node.value() &&
             (model_.MayUseLane(w) || !Lane(n));
    });
  }
  std::int64_t Capacity() const {
    std::int64_t sum = 0;
    for (const auto& n : model_.nodes) {
      sum += n.Up() ? n.spec.gpus * model_.RateAt(n.spec.type, model_.now) : 0;
    }
    return sum;
  }
  // Whether free GPUs hold it, were no maintenance announced.
  bool FitsButForMaintenance(const ShadowWorkload& w) {
    const bool any = std::any_of(model_.nodes.begin(), model_.nodes.end(),
                                 [](const auto& n) { return n.closes != kNever; });
    return any && model_.Fits(w.spec, [&](int n) {
      return model_.nodes[static_cast<std::size_t>(n)].health == NodeHealth::kUp &&
             (model_.MayUseLane(w) || !Lane(n)) &&
             !(w.avoid_until > model_.now && w.spec.nodes == 1 && n == w.avoid) &&
             (w.spec.nodes == 1 ? model_.Ends(w, model_.now) <= model_.ReservedAt(n)
                                : model_.ReservedAt(n) == kNever) &&
             model_.Free(n) >= w.spec.gpus_per_node.value();
    });
  }
  AllocationStanding Standing(int allocation) {
    return scheduler().Standing(instance_.Allocation(allocation), model_.now).value();
  }
  // Whether a leaf asks for more than a fluid would give it.
  bool Contended(int leaf) {
    const std::int64_t demand = model_.Charges(leaf, [&](const ShadowWorkload& w) {
      return w.funded &&
             (w.Placed() || w.state == WorkloadState::kStopping ||
              w.state == WorkloadState::kReserved ||
              (w.state == WorkloadState::kPending && !model_.At(w.leaf).closed && EverFits(w)));
    });
    return Standing(leaf).natural.value() < demand;
  }
  bool ClassCapReached(const ShadowWorkload& w) {
    return model_.ClassCap(w) > 0 && model_.OverClassCap(w, Standing(w.leaf).entitlement) &&
           (ShadowModel::Stays(w) || Contended(w.leaf));
  }
  bool Lane(int node) { return scheduler().cluster().node(instance_.Node(node)).lane; }

  // What CheckPolicy needs from before the pass.
  struct Before {
    std::vector<std::int64_t> placed;      // charge of placed runs, by allocation
    std::vector<std::int64_t> serving;     // the part of services
    std::vector<std::int64_t> use, ahead;  // charged GPU-time
    std::vector<MilliGpu> fluid;
    std::vector<bool> contended;
    bool exact_fluid = false;
  };
  Before before_;

  ShadowModel model_;
  Instance<Policy> instance_;
  Response last_;
  LawCounts counts_;
  std::string broken_;
  std::vector<TimePoint> paid_;  // when funded runs were stopped for others
  TimePoint wakeup_ = kNever;
  bool passed_ = false;
};

template <class Policy>
std::string LawChecker<Policy>::Step(const Event& e) {
  broken_.clear();
  ++counts_.events;
  const bool legal = model_.Legal(e);
  const std::uint64_t digest = legal ? 0 : scheduler().Digest();
  const bool pass = e.kind == Event::Kind::kDecide && legal;
  const bool urgent = scheduler().dirty() || !passed_ || e.now >= wakeup_;
  if (pass) {
    model_.now = e.now;
    model_.ApplyMaintenance();
    const bool edited = model_.ApplyEdits(e.now);
    before_ = {};
    bool settled = !edited;
    for (const auto& [id, w] : model_.workloads) {
      settled = settled && !w.cancel && (w.state != WorkloadState::kHeld);
    }
    for (const auto& n : model_.nodes) settled = settled && !n.Leaving();
    settled = settled && Capacity() == scheduler().Capacity().value();
    before_.exact_fluid = settled;
    for (int a = 0; a < static_cast<int>(model_.allocations.size()); ++a) {
      before_.placed.push_back(
          model_.Charges(a, [](const ShadowWorkload& w) { return w.funded && w.Placed(); }));
      before_.serving.push_back(model_.Charges(
          a, [](const ShadowWorkload& w) { return ShadowModel::Stays(w) && w.Placed(); }));
      before_.use.push_back(model_.Use(a, e.now, true) / 1000);
      before_.ahead.push_back(model_.Ahead(a, e.now));
      const AllocationStanding s = scheduler().Standing(instance_.Allocation(a), e.now).value();
      before_.fluid.push_back(s.fluid);
      before_.contended.push_back(Contended(a));
    }
  }
  last_ = instance_.Tell(e);
  if (last_.ok() != legal) {
    Broken(18, "answered ", absl::StatusCodeToString(last_.code), ", must be ",
           legal ? "accepted" : "refused");
    return broken_;
  }
  if (!legal) {
    ++counts_.refused;
    if (scheduler().Digest() != digest) Broken(18, "a refused call changed the state");
    return broken_;
  }
  if (pass) {
    ++counts_.passes;
    counts_.rated_passes += !model_.rates.empty();
    counts_.boosted_passes +=
        std::any_of(model_.allocations.begin(), model_.allocations.end(),
                    [](const ShadowModel::Allocation& a) { return !a.boosts.empty(); });
    CheckPass(e, last_, urgent);
    wakeup_ = last_.next_wakeup;
    passed_ = true;
  } else {
    if (e.kind == Event::Kind::kStopped) {
      const ShadowWorkload& w = *model_.Find(e.id);
      const LossOutcome expected = w.cancel            ? LossOutcome::kCancelled
                                   : !w.spec.resumable ? LossOutcome::kFailedByPreemption
                                   : w.Suspends()      ? LossOutcome::kSuspended
                                                       : LossOutcome::kRequeued;
      if (last_.outcome != expected) Broken(7, "outcome ", static_cast<int>(last_.outcome));
      ++counts_.lost;
    }
    if (e.kind == Event::Kind::kSetNode) CheckLost(e, last_);
    std::set<std::pair<WorkloadId, RunNumber>> open;
    if (e.kind == Event::Kind::kReconcile) {
      for (const auto& [id, w] : model_.workloads) {
        if (w.state == WorkloadState::kRunning || w.state == WorkloadState::kStopping) {
          open.emplace(id, w.run);
        }
      }
      std::set<std::pair<WorkloadId, RunNumber>> listed;
      for (const RunRef& r : e.running) listed.emplace(r.workload, r.run);
      for (const auto& o : open) {
        const bool ended = std::count(last_.ended.begin(), last_.ended.end(), o) == 1;
        if (ended == (listed.count(o) > 0)) Broken(3, "reconcile: w", o.first.value());
      }
      for (const auto& l : last_.unknown) {
        if (open.count(l) > 0) Broken(3, "a running run is unknown: w", l.first.value());
      }
      counts_.inferred += static_cast<std::int64_t>(last_.ended.size());
    }
    model_.Apply(e);
    if (e.kind == Event::Kind::kAddNode) {  // it moves the lane
      for (auto& [id, w] : model_.workloads) {
        if ((w.state == WorkloadState::kHeld || w.state == WorkloadState::kReserved) &&
            !EverFits(w)) {
          model_.ReleaseHold(w);
        }
      }
    }
  }
  CheckCluster();
  CheckBooks();
  if (pass) {
    if (!scheduler().dirty()) CheckNothingIdle();
    CheckExplanations();
  }
  return broken_;
}

template <class Policy>
void LawChecker<Policy>::CheckPass(const Event& e, const Response& r, bool urgent) {
  counts_.starts += static_cast<std::int64_t>(r.starts.size());
  counts_.holds += static_cast<std::int64_t>(r.holds.size());
  if (!urgent && !r.starts.empty()) {
    Broken(18, "neither dirty() nor next_wakeup announced the start of w",
           r.starts[0].workload.value());
  }
  std::set<WorkloadId> touched;
  for (const auto& s : r.stops) {
    if (!touched.insert(s.workload).second) Broken(10, "stopped twice: w", s.workload.value());
    const bool promised = std::any_of(r.promises.begin(), r.promises.end(),
                                      [&](const auto& p) { return p.workload == s.beneficiary; });
    if (!urgent && s.reason != StopReason::kPreempted && !promised) {
      Broken(18, "neither dirty() nor next_wakeup announced the stop of w", s.workload.value());
    }
  }
  for (const auto& p : r.starts) {
    if (!touched.insert(p.workload).second) Broken(13, "decided twice: w", p.workload.value());
  }
  for (const auto& p : r.holds) {
    if (!touched.insert(p.workload).second) Broken(13, "decided twice: w", p.workload.value());
  }
  CheckOrder(r);
  CheckCaps(r);
  for (const auto* placed : {&r.starts, &r.holds}) {
    for (const auto& p : *placed) {
      if (ShadowWorkload* w = model_.Find(p.workload)) w->granted = Granted(p.workload);
    }
  }
  std::set<WorkloadId> waited;
  for (const auto& [id, w] : model_.workloads) {
    if (w.state == WorkloadState::kPending && !w.renewing) waited.insert(id);
  }
  // 1. Stops that owners and draining nodes asked for.
  for (const auto& s : r.stops) {
    CheckStop(s, r);
    if (!broken_.empty()) return;
  }
  for (const auto& s : r.stops) {
    if (s.reason == StopReason::kDrain || s.reason == StopReason::kCancelled) {
      model_.Stop(*model_.Find(s.workload), s.reason);
      (s.reason == StopReason::kDrain ? counts_.drained : counts_.cancelled) += 1;
      for (int n : model_.Find(s.workload)->nodes) {
        if (s.reason != StopReason::kDrain) break;
        counts_.closed_drains += model_.nodes[static_cast<std::size_t>(n)].closed;
      }
    }
  }
  for (auto& [id, w] : model_.workloads) {
    if (w.state != WorkloadState::kRunning) continue;
    if (w.cancel) Broken(16, "w", id.value(), " is cancelled and goes on");
    for (int n : w.nodes) {
      if (model_.nodes[static_cast<std::size_t>(n)].Leaving() && e.now >= w.protected_until &&
          std::none_of(r.stops.begin(), r.stops.end(),
                       [&, &id = id](const auto& s) { return s.workload == id; })) {
        Broken(16, "w", id.value(), " is not stopped on draining node ", n);
      }
    }
  }
  // 2. Holds: ready ones start, old ones are given up.
  std::vector<ShadowWorkload*> held;
  for (auto& [id, w] : model_.workloads) {
    if (w.state == WorkloadState::kHeld) held.push_back(&w);
  }
  std::sort(held.begin(), held.end(), [](const ShadowWorkload* a, const ShadowWorkload* b) {
    return a->hold_number < b->hold_number;
  });
  const auto start_ready = [&] {
    std::map<int, std::int64_t> earlier;
    for (ShadowWorkload* w : held) {
      if (w->state != WorkloadState::kHeld) continue;
      const bool ready = std::all_of(w->nodes.begin(), w->nodes.end(), [&](int n) {
        return model_.nodes[static_cast<std::size_t>(n)].spec.gpus - model_.Occupied(n) -
                   earlier[n] >=
               w->spec.gpus_per_node.value();
      });
      const auto start = std::find_if(r.starts.begin(), r.starts.end(),
                                      [&](const auto& p) { return p.workload == w->spec.id; });
      if (!ready) {
        for (int n : w->nodes) earlier[n] += w->spec.gpus_per_node.value();
        continue;
      }
      if (std::any_of(w->nodes.begin(), w->nodes.end(),
                      [&](int n) { return !model_.Admits(n, *w); })) {
        model_.ReleaseHold(*w);  // too late: it would still be protected when a promise is due
        continue;
      }
      if (start == r.starts.end() || start->nodes != w->nodes) {
        Broken(11, "the hold of w", w->spec.id.value(), " is ready and does not start");
        return;
      }
      ++counts_.hold_starts;
      CheckNodes("start", *w, *start);
      model_.Start(*w, start->nodes, start->run);
    }
  };
  start_ready();
  for (ShadowWorkload* w : held) {
    if (w->state == WorkloadState::kHeld && w->expires <= e.now) model_.ReleaseHold(*w);
  }
  start_ready();
  if (!broken_.empty()) return;
  // 3. Promised starts that are due.
  std::set<WorkloadId> restated;
  for (auto& [id, w] : model_.workloads) {
    if (w.state != WorkloadState::kReserved) continue;
    const auto mine = [&, workload = id](const Response::Placed& p) {
      return p.workload == workload;
    };
    const auto start = std::find_if(r.starts.begin(), r.starts.end(), mine);
    const auto hold = std::find_if(r.holds.begin(), r.holds.end(), mine);
    if (start == r.starts.end() && hold == r.holds.end()) {
      if (w.promised - model_.options.grace > e.now) continue;
      // Only a start that was confirmed late, or not yet, may be in the way.
      const bool excused = std::any_of(
          model_.workloads.begin(), model_.workloads.end(), [&, &w = w](const auto& entry) {
            const ShadowWorkload& x = entry.second;
            const bool on = std::any_of(x.nodes.begin(), x.nodes.end(), [&](int n) {
              return std::count(w.nodes.begin(), w.nodes.end(), n) > 0;
            });
            return on && (x.state == WorkloadState::kStarting ||
                          (x.state == WorkloadState::kRunning && x.start > x.decided &&
                           x.protected_until > e.now));
          });
      if (!model_.KeepsPromise(w, e.now)) {  // so late that its nodes close too soon: restated
        model_.ReleaseHold(w);
        restated.insert(id);
      } else if (!excused) {
        Broken(14, "the promise to w", id.value(), " is due and not kept");
      }
      continue;
    }
    ++counts_.promised_starts;
    const bool elsewhere = start != r.starts.end() && start->nodes != w.nodes;  // early
    for (auto& [other, x] : model_.workloads) {  // its nodes are taken whole
      if (!elsewhere && x.state == WorkloadState::kHeld &&
          std::any_of(x.nodes.begin(), x.nodes.end(), [&w = w](int n) {
            return std::count(w.nodes.begin(), w.nodes.end(), n) > 0;
          })) {
        model_.ReleaseHold(x);
      }
    }
    model_.ReleaseHold(w);
    w.due = true;
  }
  for (const auto& p : r.promises) {  // one that is due at once starts below
    ShadowWorkload* w = model_.Find(p.workload);
    if (w != nullptr) CheckPromise(*w, p, r);
    if (!broken_.empty()) return;
  }
  // 4. What is placed now.
  for (const auto& p : r.starts) {
    ShadowWorkload* w = model_.Find(p.workload);
    if (w == nullptr) {
      Broken(13, "start of unknown w", p.workload.value());
      return;
    }
    if (w->state == WorkloadState::kStarting && w->run == p.run) continue;  // was held
    if (w->state != WorkloadState::kPending || p.run.value() != w->run.value() + 1) {
      Broken(13, "start of w", p.workload.value(), " which is ", tenure::ToString(w->state));
      return;
    }
    CheckNodes("start", *w, p);
    counts_.gang_starts += w->spec.nodes > 1;
    const bool promised = w->due;
    model_.Start(*w, p.nodes, p.run);
    if (!promised) CheckClassCap(*w, r);
  }
  CheckPolicy(r);
  CheckVictims(r);
  for (auto& [id, w] : model_.workloads) {
    w.renewing = restated.count(id) > 0;
    w.due = false;
  }
  for (const auto& p : r.promises) {
    ShadowWorkload* w = model_.Find(p.workload);
    if (w == nullptr || w->state != WorkloadState::kPending) continue;
    w->state = WorkloadState::kReserved;
    w->nodes = p.nodes;
    w->promised = p.expires;
  }
  SuspendIdle(r);
  CheckUserCaps(waited, r);
  CheckGranted(r);
}

}  // namespace tenure::test

#include "law_decisions.h"  // IWYU pragma: export
#include "law_state.h"      // IWYU pragma: export

#endif  // TENURE_TESTS_SUPPORT_LAW_CHECKER_H_
