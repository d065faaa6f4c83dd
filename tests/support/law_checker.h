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
#include "random_world.h"
#include "shadow_model.h"
#include "tenure/scheduler.h"

namespace tenure::test {

// What happened in the stories checked, to show that the laws were put to the test.
struct LawCounts {
  std::int64_t events = 0, refused = 0, passes = 0, starts = 0, gang_starts = 0, holds = 0;
  std::int64_t hold_starts = 0, preempted = 0, preempted_funded = 0, drained = 0, cancelled = 0;
  std::int64_t lost = 0, inferred = 0, never_fits = 0, promises = 0, promised_starts = 0;
  std::int64_t lost_with_node = 0, closed_drains = 0, maintenance_waits = 0, session_caps = 0;
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
  void CheckSessionCap(const ShadowWorkload& w, const Response& r);
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
  bool SessionCapReached(const ShadowWorkload& w) {
    if (model_.options.session_cap == 0) return false;
    return model_.SessionCapReached(
        w, scheduler().Standing(instance_.Allocation(w.leaf), model_.now).value().entitlement);
  }
  bool Lane(int node) { return scheduler().cluster().node(instance_.Node(node)).lane; }

  // What CheckPolicy needs from before the pass.
  struct Before {
    std::vector<std::int64_t> placed;      // charge of placed runs, by allocation
    std::vector<std::int64_t> use, ahead;  // charged GPU-time
    std::vector<MilliGpu> fluid;
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
      before_.use.push_back(model_.Use(a, e.now, true) / 1000);
      before_.ahead.push_back(model_.Ahead(a, e.now));
      const AllocationStanding s = scheduler().Standing(instance_.Allocation(a), e.now).value();
      before_.fluid.push_back(s.fluid);
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
                       [&](const auto& s) { return s.workload == id; })) {
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
      const bool excused =
          std::any_of(model_.workloads.begin(), model_.workloads.end(), [&](const auto& entry) {
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
    for (auto& [other, x] : model_.workloads) {  // its nodes are taken whole
      if (x.state == WorkloadState::kHeld &&
          std::any_of(x.nodes.begin(), x.nodes.end(),
                      [&](int n) { return std::count(w.nodes.begin(), w.nodes.end(), n) > 0; })) {
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
    if (!promised) CheckSessionCap(*w, r);
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
}

// A new promise: whole nodes that nobody was promised, soon enough, and nothing this pass starts
// there is still protected then.
template <class Policy>
void LawChecker<Policy>::CheckPromise(const ShadowWorkload& w, const Response::Placed& p,
                                      const Response& r) {
  const std::uint64_t id = p.workload.value();
  ++counts_.promises;
  const ReservationOptions& o = model_.options.reservation;
  if (w.state != WorkloadState::kPending || !w.funded ||
      (w.gpus() < o.gang.value() && (o.block == GpuCount(0) || w.gpus() < o.block.value()))) {
    Broken(14, "promise to w", id);
    return;
  }
  Response::Placed nodes = p;
  nodes.gpus_per_node = w.spec.gpus_per_node.value();
  CheckNodes("promise", w, nodes);
  for (const auto& [other, x] : model_.workloads) {
    if (x.state == WorkloadState::kReserved && x.leaf == w.leaf &&
        (x.gpus() >= o.gang.value()) == (w.gpus() >= o.gang.value())) {
      Broken(14, "a second promise to the leaf of w", other.value());
    }
  }
  const TimePoint due = p.expires - model_.options.grace;
  const Duration cap =
      *std::max_element(model_.options.contract.cap.begin(), model_.options.contract.cap.end());
  if (due < model_.now || due > model_.now + cap) {
    Broken(14, "w", id, " is promised a start ", (p.expires - model_.now).count(), " us from now");
  }
  for (int n : p.nodes) {
    if (!model_.AdmitsBeforeClosing(n, w, due + model_.options.grace + model_.options.tick)) {
      Broken(16, "w", id, " is promised node ", n, ", which closes before it would be done");
    }
  }
  for (const auto* list : {&r.starts, &r.holds}) {
    for (const auto& q : *list) {
      if (q.workload == p.workload) return;  // due at once: the nodes are ordinary again
    }
  }
  for (const auto* list : {&r.starts, &r.holds}) {
    for (const auto& q : *list) {
      const ShadowWorkload& x = *model_.Find(q.workload);
      for (int n : q.nodes) {
        if (std::count(p.nodes.begin(), p.nodes.end(), n) > 0 &&
            model_.now + (x.funded ? model_.Protection(x.spec) : Duration(0)) > due) {
          Broken(14, "w", q.workload.value(), " is protected when w", id, " is due");
        }
      }
    }
  }
}

// Whether the run may be stopped at all, by what was reported of it.
template <class Policy>
void LawChecker<Policy>::CheckStop(const Response::Stopped& s, const Response& r) {
  const ShadowWorkload* w = model_.Find(s.workload);
  if (w == nullptr || w->state != WorkloadState::kRunning || w->run != s.run) {
    Broken(10, "stop of w", s.workload.value(), "/", s.run.value(), " which does not run");
    return;
  }
  if (s.grace != model_.options.grace) Broken(10, "grace of w", s.workload.value());
  switch (s.reason) {
    case StopReason::kCancelled:
      if (!w->cancel) Broken(5, "w", s.workload.value(), " was never cancelled");
      return;
    case StopReason::kDrain:
      if (std::none_of(w->nodes.begin(), w->nodes.end(), [&](int n) {
            return model_.nodes[static_cast<std::size_t>(n)].Leaving();
          })) {
        Broken(16, "w", s.workload.value(), " is on no draining node");
      }
      break;
    case StopReason::kPromise:
    case StopReason::kPreempted: {
      const auto hold = std::find_if(r.holds.begin(), r.holds.end(),
                                     [&](const auto& p) { return p.workload == s.beneficiary; });
      if (hold == r.holds.end()) {
        Broken(10, "w", s.workload.value(), " is stopped for w", s.beneficiary.value(),
               " which gets no place");
        return;
      }
      // Uncancelled work that has its owner's consent to stop would be counted as preempted.
      if (w->cancel) Broken(10, "cancelled w", s.workload.value(), " is preempted");
      break;
    }
  }
  if (w->funded && model_.now < w->protected_until) {
    Broken(5, "w", s.workload.value(), " is stopped at ", model_.now.time_since_epoch().count(),
           ", protected until ", w->protected_until.time_since_epoch().count());
  }
}

template <class Policy>
void LawChecker<Policy>::CheckNodes(const char* what, const ShadowWorkload& w,
                                    const Response::Placed& p) {
  const std::string name = absl::StrCat(what, " of w", p.workload.value(), ": ");
  if (model_.At(w.leaf).closed) Broken(4, name, "its allocation is closed");
  if (w.cancel) Broken(4, name, "it was cancelled");
  if (p.nodes.size() != w.spec.nodes || p.gpus_per_node != w.spec.gpus_per_node.value()) {
    Broken(13, name, p.nodes.size(), " x ", p.gpus_per_node);
  }
  std::set<int> distinct(p.nodes.begin(), p.nodes.end());
  if (distinct.size() != p.nodes.size()) Broken(13, name, "a node is named twice");
  std::set<int> types, places;
  for (int n : p.nodes) {
    const ShadowModel::Node& node = model_.nodes[static_cast<std::size_t>(n)];
    types.insert(node.spec.type);
    places.insert(model_.DomainOf(n, model_.RequiredLevel(w.spec)));
    if (!node.Up()) Broken(16, name, "node ", n, " is not up");
    if (!model_.AdmitsBeforeClosing(n, w, model_.now)) {
      Broken(16, name, "node ", n, " is announced to close before its minimum is over");
    }
    if (node.spec.gpus < p.gpus_per_node) Broken(13, name, "node ", n, " is too small");
    // A node that joins moves the lane; what was claimed before stays.
    if (Lane(n) && !model_.MayUseLane(w) && w.state != WorkloadState::kHeld && !w.due) {
      Broken(8, name, "node ", n, " is in the lane");
    }
    if (!model_.Admits(n, w)) Broken(14, name, "node ", n, " is promised to a gang");
    if (w.spec.nodes == 1 && n == w.avoid && w.avoid_until > model_.now) {
      Broken(16, name, "node ", n, " has just refused it");
    }
  }
  if (types.size() > 1) Broken(13, name, "two GPU types");
  if (w.spec.gpu_type != kAnyGpuType && !types.empty() &&
      *types.begin() != w.spec.gpu_type.value()) {
    Broken(13, name, "wrong GPU type");
  }
  if (model_.Required(w.spec) && (places.size() != 1 || *places.begin() == -2)) {
    Broken(13, name, "not inside one domain");
  }
}

// Preemption: for funded work only, feasible, every victim necessary, one set at a time.
template <class Policy>
void LawChecker<Policy>::CheckVictims(const Response& r) {
  for (const auto& p : r.holds) {
    ShadowWorkload* w = model_.Find(p.workload);
    if (w == nullptr || w->state != WorkloadState::kPending) {
      Broken(13, "hold for w", p.workload.value(), " which does not wait");
      return;
    }
    if (!w->funded) Broken(9, "hold for unfunded w", p.workload.value());
    CheckNodes("hold", *w, p);
    if (p.expires != model_.now + model_.options.grace + model_.options.tick) {
      Broken(11, "the hold of w", p.workload.value(), " expires at another time");
    }
    std::vector<const ShadowWorkload*> victims;
    for (const auto& s : r.stops) {
      if (s.beneficiary == p.workload && IsPreemption(s.reason)) {
        victims.push_back(model_.Find(s.workload));
      }
    }
    const auto on = [](const ShadowWorkload& v, int n) {
      return std::count(v.nodes.begin(), v.nodes.end(), n) > 0 ? v.spec.gpus_per_node.value() : 0;
    };
    // GPUs of a node that the victims but `spared` leave for the hold. Every start of the pass is
    // counted as made before, which can only make the victims more necessary.
    const auto left = [&](int n, const ShadowWorkload* spared) {
      std::int64_t gpus = model_.Soon(n);
      for (const ShadowWorkload* v : victims) gpus += v == spared ? 0 : on(*v, n);
      return gpus;
    };
    for (const ShadowWorkload* v : victims) {
      if (std::all_of(p.nodes.begin(), p.nodes.end(),
                      [&](int n) { return left(n, v) >= p.gpus_per_node; })) {
        Broken(10, "w", v->spec.id.value(), " is stopped for w", p.workload.value(), " needlessly");
      }
      ++counts_.preempted;
      counts_.preempted_funded += v->funded;
    }
    if (!victims.empty()) {
      if (model_.now < w->victims_until) {
        Broken(10, "a second set of victims for w", p.workload.value());
      }
      w->victims_until = model_.now + model_.options.grace;
    }
    model_.Hold(*w, p.nodes, p.expires);
    for (const ShadowWorkload* v : victims) {
      model_.Stop(*model_.Find(v->spec.id), StopReason::kPreempted);
    }
    if (!broken_.empty()) return;
  }
}

// The policy's rule for funded victims. Keys change during a pass as starts are charged; the
// requester's key is taken at its lowest and the victim's at its highest.
template <class Policy>
void LawChecker<Policy>::CheckPolicy(const Response& r) {
  const auto key_of = [&](int a, std::int64_t used) {
    return internal::HoursOfShare(
        GpuTime(used),
        scheduler().Standing(instance_.Allocation(a), model_.now).value().entitlement);
  };
  // Charge and protected GPU-time that the pass gives to an allocation.
  std::map<int, std::int64_t> gained, charged;
  const auto gains = [&](const Response::Placed& p) {
    const ShadowWorkload* w = model_.Find(p.workload);
    if (w == nullptr || !w->funded) return;
    const int type = model_.nodes[static_cast<std::size_t>(p.nodes[0])].spec.type;
    const std::int64_t charge = w->gpus() * model_.RateAt(type, model_.now);
    for (int a = w->leaf; a >= 0; a = model_.At(a).spec.parent) {
      gained[a] += charge;
      charged[a] += charge * model_.Protection(w->spec).count() / 1000 + 1;
    }
  };
  for (const auto& p : r.starts) gains(p);
  for (const auto& p : r.holds) gains(p);
  for (const auto& s : r.stops) {
    if (s.reason != StopReason::kPreempted) continue;
    const ShadowWorkload& v = *model_.Find(s.workload);
    const ShadowWorkload& w = *model_.Find(s.beneficiary);
    if (!v.funded) continue;
    const bool debug = w.spec.workload_class == WorkloadClass::kDebug;
    const bool session = v.spec.workload_class == WorkloadClass::kInteractive;
    // Where the two sides are siblings.
    int a = w.leaf, b = v.leaf;
    if (model_.options.ranking.level_by_level && a != b) {
      while (!model_.Inside(b, model_.At(a).spec.parent)) a = model_.At(a).spec.parent;
      while (model_.At(b).spec.parent != model_.At(a).spec.parent) b = model_.At(b).spec.parent;
    }
    // What was charged ahead for holds and runs that end in this pass does not count any more.
    std::int64_t withdrawn = 0;
    for (const auto& [id, x] : model_.workloads) {
      if (model_.Inside(x.leaf, a) &&
          (x.cancel || x.state == WorkloadState::kStopping || x.hold_number > 0)) {
        withdrawn += model_.Charge(x) * model_.Protection(x.spec).count() / 1000 + 1;
      }
    }
    const auto ia = static_cast<std::size_t>(a), ib = static_cast<std::size_t>(b);
    const Duration low =
        key_of(a, before_.use[ia] + std::max<std::int64_t>(0, before_.ahead[ia] - withdrawn));
    const Duration high = key_of(b, before_.use[ib] + before_.ahead[ib] + charged[b]);
    if constexpr (std::is_same_v<Policy, Ai2Policy>) {
      if (a == b || low >= high) {
        Broken(9, "w", s.workload.value(), " is stopped for w", s.beneficiary.value(),
               " which ranks no better: ", low.count(), " against ", high.count());
      }
    } else if constexpr (std::is_same_v<Policy, BudgetPolicy>) {
      const BudgetOptions& o = scheduler().policy().options();
      if (session && v.idle) continue;
      const bool lane = std::any_of(v.nodes.begin(), v.nodes.end(), [&](int n) { return Lane(n); });
      if (debug && lane && v.gpus() <= 8) continue;
      if (v.leaf == w.leaf) {
        if (!debug || session || v.spec.workload_class == WorkloadClass::kDebug) {
          Broken(9, "w", s.workload.value(), " is stopped for its own leaf");
        }
        continue;
      }
      const Duration keep = o.quantum * (std::int64_t{1} << std::min(v.stops, o.backoff));
      if (model_.now < v.protected_until + keep) {
        Broken(9, "w", s.workload.value(), " is stopped inside its quantum");
      }
      if (!before_.exact_fluid) continue;
      std::int64_t taken = 0;  // from the victim's leaf for the same beneficiary, at least
      for (const auto& t : r.stops) {
        const ShadowWorkload& x = *model_.Find(t.workload);
        if (t.workload == s.workload) taken += model_.Charge(x);
      }
      const auto il = static_cast<std::size_t>(w.leaf), iv = static_cast<std::size_t>(v.leaf);
      std::int64_t lost = 0;
      for (const auto& t : r.stops) {
        const ShadowWorkload& x = *model_.Find(t.workload);
        if (x.funded && x.leaf == w.leaf) lost += model_.Charge(x);
      }
      const bool entitled =
          before_.placed[il] - lost + model_.RequestCharge(w) <= before_.fluid[il].value() &&
          before_.placed[iv] + gained[v.leaf] - taken >= before_.fluid[iv].value();
      const bool gap =
          low == Duration::max() ? false : high == Duration::max() || high - low > o.big_gap;
      if (!entitled && !gap) {
        Broken(9, "w", s.workload.value(), " is stopped for w", s.beneficiary.value(),
               ": neither within the entitlements nor far over its budget");
      }
    }
  }
}

// The preemption budget: never more funded runs stopped for others than the burst and what has come
// in since.
template <class Policy>
void LawChecker<Policy>::CheckCaps(const Response& r) {
  const SchedulerOptions& o = model_.options;
  if (o.preemption_rate == 0) return;
  for (const auto& s : r.stops) {
    const ShadowWorkload* v = model_.Find(s.workload);
    if (s.reason == StopReason::kPreempted && v != nullptr && v->funded) {
      paid_.push_back(model_.now);
    }
  }
  for (std::size_t i = 0; i < paid_.size(); ++i) {
    const auto since = static_cast<std::int64_t>(paid_.size() - i);
    if (model_.now - paid_[i] > kHour * 1000) continue;
    if (since * kHour.count() >
        o.preemption_burst * kHour.count() + o.preemption_rate * (model_.now - paid_[i]).count()) {
      Broken(9, since, " funded runs stopped since ", paid_[i].time_since_epoch().count(),
             ", over the preemption budget");
      return;
    }
  }
}

// A session that has just started is the only one of its leaf, or all fit under the cap.
template <class Policy>
void LawChecker<Policy>::CheckSessionCap(const ShadowWorkload& w, const Response& r) {
  if (model_.options.session_cap == 0 || !w.funded ||
      w.spec.workload_class != WorkloadClass::kInteractive) {
    return;
  }
  std::int64_t sessions = model_.Sessions(w.leaf);
  for (const auto& s : r.stops) {  // may have been stopped before it started
    const ShadowWorkload& v = *model_.Find(s.workload);
    if (v.leaf == w.leaf && v.funded && v.Placed() &&
        v.spec.workload_class == WorkloadClass::kInteractive) {
      sessions -= model_.Charge(v);
    }
  }
  const MilliGpu entitlement =
      scheduler().Standing(instance_.Allocation(w.leaf), model_.now).value().entitlement;
  if (sessions > model_.Charge(w) &&
      sessions * 1000 > entitlement.value() * model_.options.session_cap) {
    Broken(8, "w", w.spec.id.value(), " starts beyond the session cap of its leaf");
  }
}

// Inside a leaf, requests of the same kind are served in order: priority, then first submission.
template <class Policy>
void LawChecker<Policy>::CheckOrder(const Response& r) {
  const auto alike = [](const ShadowWorkload& a, const ShadowWorkload& b) {
    return a.leaf == b.leaf && a.funded == b.funded && a.spec.nodes == b.spec.nodes &&
           a.spec.gpus_per_node == b.spec.gpus_per_node && a.spec.gpu_type == b.spec.gpu_type &&
           a.spec.topology_rule == b.spec.topology_rule &&
           a.spec.topology_level == b.spec.topology_level &&
           a.spec.workload_class == b.spec.workload_class && a.spec.minimum == b.spec.minimum;
  };
  std::set<WorkloadId> served;
  for (const auto& p : r.starts) served.insert(p.workload);
  for (const auto& p : r.holds) served.insert(p.workload);
  for (WorkloadId id : served) {
    const ShadowWorkload* w = model_.Find(id);
    if (w == nullptr || w->state != WorkloadState::kPending || w->renewing) continue;
    for (const auto& [other, x] : model_.workloads) {
      if (x.state != WorkloadState::kPending || served.count(other) > 0 || !alike(*w, x)) continue;
      if (x.avoid_until > model_.now) continue;
      const bool first = w->funded && x.spec.priority != w->spec.priority
                             ? x.spec.priority > w->spec.priority
                             : std::pair(x.submitted, other) < std::pair(w->submitted, id);
      if (first) Broken(12, "w", id.value(), " is served before w", other.value());
    }
  }
}

// A node that goes down names every run it takes along and what becomes of it.
template <class Policy>
void LawChecker<Policy>::CheckLost(const Event& e, const Response& r) {
  std::vector<LostRun> expected;
  const ShadowModel::Node& node = model_.nodes[static_cast<std::size_t>(e.index)];
  if (e.health == NodeHealth::kDown && node.health != NodeHealth::kDown) {
    for (const auto& [id, w] : model_.workloads) {
      if (!w.Occupies() || std::count(w.nodes.begin(), w.nodes.end(), e.index) == 0) continue;
      expected.push_back({id, w.run,
                          w.cancel           ? LossOutcome::kCancelled
                          : w.spec.resumable ? LossOutcome::kRequeued
                                             : LossOutcome::kFailedWithNode});
    }
  }
  counts_.lost_with_node += static_cast<std::int64_t>(expected.size());
  if (r.lost != expected) {
    Broken(7, "node ", e.index, " reports ", r.lost.size(), " lost runs, must be ",
           expected.size());
  }
}

template <class Policy>
void LawChecker<Policy>::CheckNothingIdle() {
  for (const auto& [id, w] : model_.workloads) {
    if ((w.state != WorkloadState::kPending && w.state != WorkloadState::kReserved) ||
        model_.At(w.leaf).closed) {
      continue;
    }
    if (w.avoid_until > model_.now || SessionCapReached(w)) continue;
    const bool fits = model_.Fits(w.spec, [&](int n) {
      return model_.nodes[static_cast<std::size_t>(n)].Up() && (model_.MayUseLane(w) || !Lane(n)) &&
             model_.AdmitsBeforeClosing(n, w, model_.now) &&
             ((model_.ReservedAt(n) == kNever || (w.spec.nodes == 1 && model_.Admits(n, w))) ||
              (w.state == WorkloadState::kReserved &&
               std::count(w.nodes.begin(), w.nodes.end(), n) > 0)) &&
             model_.Free(n) >= w.spec.gpus_per_node.value();
    });
    if (fits) Broken(8, "w", id.value(), " waits although it fits on free GPUs");
  }
}

template <class Policy>
void LawChecker<Policy>::CheckCluster() {
  for (int n = 0; n < static_cast<int>(model_.nodes.size()); ++n) {
    const ShadowModel::Node& node = model_.nodes[static_cast<std::size_t>(n)];
    const tenure::Node& real = scheduler().cluster().node(instance_.Node(n));
    const std::int64_t occupied = model_.Occupied(n), claimed = model_.Claimed(n),
                       stopping = model_.Stopping(n);
    if (real.occupied != occupied || real.claimed != claimed || real.stopping != stopping) {
      Broken(11, "node ", n, ": occupied ", real.occupied, "/", occupied, ", claimed ",
             real.claimed, "/", claimed, ", stopping ", real.stopping, "/", stopping);
    }
    if (occupied > node.spec.gpus) Broken(13, "node ", n, " is overbooked: ", occupied);
    if (model_.Soon(n) < 0) {
      Broken(11, "node ", n, ": GPUs of a hold were given away");
    }
    if (scheduler().Drained(instance_.Node(n)) != (node.Leaving() && occupied == 0)) {
      Broken(16, "node ", n, ": Drained() is wrong");
    }
    if (node.health == NodeHealth::kDown && occupied > 0) Broken(16, "node ", n, " is down");
  }
}

template <class Policy>
void LawChecker<Policy>::CheckBooks() {
  if (scheduler().workloads() != model_.workloads.size()) {
    Broken(7, scheduler().workloads(), " workloads instead of ", model_.workloads.size());
    return;
  }
  for (TimePoint at : {model_.now, model_.now + model_.options.lookback / 3}) {
    if (at > TimePoint(kTimeLimit)) break;
    for (int a = -1; a < static_cast<int>(model_.allocations.size()); ++a) {
      const AllocationStanding s = scheduler().Standing(instance_.Allocation(a), at).value();
      const auto check = [&](int law, const char* what, std::int64_t real, std::int64_t expected) {
        if (real != expected) {
          Broken(law, what, " of a", a, " at ", at.time_since_epoch().count(), " is ", real,
                 ", must be ", expected);
        }
      };
      check(1, "charged use in thousandths", s.used_in_window.value() * 1000 + s.used_rest,
            model_.Use(a, at, true));
      check(1, "unfunded use", s.unfunded_in_window.value(), model_.Use(a, at, false) / 1000);
      check(2, "committed ahead", s.committed_ahead.value(), model_.Ahead(a, at));
      check(1, "placed", s.placed.value(),
            model_.Gpus(a, [](const ShadowWorkload& w) { return w.funded && w.Placed(); }));
      check(1, "queued", s.queued.value(), model_.Gpus(a, [&](const ShadowWorkload& w) {
        return w.funded &&
               (w.state == WorkloadState::kStopping || w.state == WorkloadState::kReserved ||
                (w.state == WorkloadState::kPending && !model_.At(w.leaf).closed && EverFits(w)));
      }));
      if (a == -1) check(16, "entitlement", s.entitlement.value(), Capacity());
    }
  }
}

template <class Policy>
void LawChecker<Policy>::CheckExplanations() {
  for (const auto& [id, w] : model_.workloads) {
    const Explanation x = scheduler().Explain(id).value();
    if (x.state != WorkloadState::kUnplaceable && x.state != w.state) {
      Broken(15, "w", id.value(), " is ", tenure::ToString(x.state), ", must be ",
             tenure::ToString(w.state));
    }
    if (w.state == WorkloadState::kRunning && x.protected_until != w.protected_until) {
      Broken(5, "w", id.value(), " is protected until ",
             x.protected_until.time_since_epoch().count(), ", must be ",
             w.protected_until.time_since_epoch().count());
    }
    if (w.state == WorkloadState::kReserved) {
      if (x.reason != WaitReason::kReserved || x.promised_start != w.promised) {
        Broken(14, "w", id.value(), ": its promise is explained otherwise");
      }
      continue;
    }
    if (w.state != WorkloadState::kPending && w.state != WorkloadState::kHeld) continue;
    const bool ever = EverFits(w);
    counts_.never_fits += !ever;
    counts_.maintenance_waits += x.reason == WaitReason::kMaintenance;
    counts_.session_caps += x.reason == WaitReason::kSessionCap;
    const WaitReason expected = model_.At(w.leaf).closed          ? WaitReason::kClosed
                                : !ever                           ? WaitReason::kNeverFits
                                : w.state == WorkloadState::kHeld ? WaitReason::kWaitsForStop
                                : SessionCapReached(w)            ? WaitReason::kSessionCap
                                : FitsButForMaintenance(w)        ? WaitReason::kMaintenance
                                : w.funded                        ? WaitReason::kNoCapacity
                                                                  : WaitReason::kUnfundedWaits;
    const bool again = scheduler().dirty() && w.submitted == model_.now;  // one more pass
    if (x.reason != expected && !(again && x.reason == WaitReason::kNotConsidered)) {
      Broken(15, "w", id.value(), " waits for reason ", static_cast<int>(x.reason), ", must be ",
             static_cast<int>(expected));
    }
  }
}

}  // namespace tenure::test

#endif  // TENURE_TESTS_SUPPORT_LAW_CHECKER_H_
