// SPDX-License-Identifier: Apache-2.0
//
// LawChecker: what a pass decided. Included by law_checker.h; not for direct use.
#ifndef TENURE_TESTS_SUPPORT_LAW_DECISIONS_H_
#define TENURE_TESTS_SUPPORT_LAW_DECISIONS_H_

#include "law_checker.h"

namespace tenure::test {

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
            model_.now + (x.funded ? Granted(q.workload) : Duration(0)) > due) {
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
    case StopReason::kIdle:
      if (!w->idle || !w->funded || !w->spec.resumable ||
          w->spec.workload_class != WorkloadClass::kInteractive) {
        Broken(10, "w", s.workload.value(), " is no idle session");
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
      if (s.reason == StopReason::kPromise && ShadowModel::Stays(*w)) {
        Broken(14, "the service w", s.workload.value(), " was on a promised node");
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
  std::map<int, std::int64_t> gained, charged, served;
  const auto gains = [&](const Response::Placed& p) {
    const ShadowWorkload* w = model_.Find(p.workload);
    if (w == nullptr || !w->funded) return;
    const int type = model_.nodes[static_cast<std::size_t>(p.nodes[0])].spec.type;
    const std::int64_t charge = w->gpus() * model_.RateAt(type, model_.now);
    if (ShadowModel::Stays(*w)) served[w->leaf] += charge;
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
      if (ShadowModel::Stays(v) &&
          (before_.serving[static_cast<std::size_t>(v.leaf)] + served[v.leaf]) * 1000 <=
              Standing(v.leaf).entitlement.value() * o.serving_permille) {
        Broken(9, "the service w", s.workload.value(), " is stopped inside its cap");
      }
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
      // The model does not integrate what was owed, which the keys of `lag` are made of.
      const bool gap = before_.placed[il] <= lost &&
                       (o.lag || (low != Duration::max() &&
                                  (high == Duration::max() || high - low > o.big_gap)));
      if (!entitled && (session || !gap)) {
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

// While anything waits, the idle sessions of a leaf that are not protected and can be resumed hold
// no more than its cap, and none is suspended that fits under it.
template <class Policy>
void LawChecker<Policy>::SuspendIdle(const Response& r) {
  const bool waits =
      std::any_of(model_.workloads.begin(), model_.workloads.end(), [&](const auto& entry) {
        const ShadowWorkload& w = entry.second;
        return w.state == WorkloadState::kPending && !model_.At(w.leaf).closed && EverFits(w);
      });
  std::map<int, std::int64_t> kept;
  for (auto& [id, w] : model_.workloads) {  // by id
    if (w.state != WorkloadState::kRunning || !w.idle || !w.funded ||
        w.spec.workload_class != WorkloadClass::kInteractive || model_.now < w.protected_until) {
      continue;
    }
    const bool stopped = std::any_of(r.stops.begin(), r.stops.end(), [&id = id](const auto& s) {
      return s.workload == id && s.reason == StopReason::kIdle;
    });
    const std::int64_t cap = Standing(w.leaf).entitlement.value() * model_.options.idle_cap;
    const bool fits =
        model_.options.idle_cap == kNoIdleCap || (kept[w.leaf] + model_.Charge(w)) * 1000 <= cap;
    if (stopped != (waits && !fits && w.spec.resumable)) {
      Broken(10, "idle w", id.value(), stopped ? " is suspended" : " is not suspended",
             ", its leaf's ", "other idle sessions hold ", kept[w.leaf]);
    }
    if (!stopped) {
      kept[w.leaf] += model_.Charge(w);
      continue;
    }
    model_.Stop(w, StopReason::kIdle);
    ++counts_.suspended;
  }
}

// A session, debug run or service that has just started is the only one of its leaf, or all fit
// under the cap, or it is no service and the leaf is offered all that it asks for.
template <class Policy>
void LawChecker<Policy>::CheckClassCap(const ShadowWorkload& w, const Response& r) {
  if (model_.ClassCap(w) == 0) return;
  std::int64_t placed = model_.PlacedOfClass(w, false);
  for (const auto& s : r.stops) {  // may have been stopped before it started
    const ShadowWorkload& v = *model_.Find(s.workload);
    if (v.leaf == w.leaf && v.funded && v.Placed() &&
        v.spec.workload_class == w.spec.workload_class) {
      placed -= model_.Charge(v);
    }
  }
  if (placed > model_.Charge(w) &&
      placed * 1000 > Standing(w.leaf).entitlement.value() * model_.ClassCap(w) &&
      (ShadowModel::Stays(w) ||
       (before_.contended[static_cast<std::size_t>(w.leaf)] && Contended(w.leaf)))) {
    Broken(8, "w", w.spec.id.value(), " starts beyond the cap of its class in its leaf");
  }
}

// What was placed is protected as its contract says; where the site caps what is borrowed, by that
// cap if its leaf was beyond its entitlement. Which of the two is exact where the order in which
// the pass placed and stopped the runs of the leaf does not matter, and taken over elsewhere.
template <class Policy>
void LawChecker<Policy>::CheckGranted(const Response& r) {
  std::map<int, std::int64_t> most;  // that a leaf may have had placed
  const auto each = [&](const auto& placed, const auto& use) {
    for (const auto& p : placed) {
      const ShadowWorkload* w = model_.Find(p.workload);
      if (w == nullptr || !w->funded || !w->Placed()) continue;
      use(*w);
    }
  };
  const auto count = [&](const ShadowWorkload& w) {
    most.try_emplace(w.leaf, before_.placed[static_cast<std::size_t>(w.leaf)]);
    most[w.leaf] += model_.Charge(w);
  };
  const auto check = [&](const ShadowWorkload& w) {
    const Duration whole = model_.Protection(w.spec);
    const Duration borrowed = model_.options.contract.BorrowedCap(w.spec.workload_class);
    const Duration granted = Granted(w.spec.id);
    const std::int64_t entitled = Standing(w.leaf).entitlement.value();
    const bool may_be_whole = whole <= borrowed || model_.Charge(w) <= entitled;
    const bool may_be_less = whole > borrowed && most[w.leaf] > entitled;
    if (!(may_be_whole && granted == whole) && !(may_be_less && granted == borrowed)) {
      Broken(5, "w", w.spec.id.value(), " is granted ", granted.count(), " us of ", whole.count());
    }
    counts_.borrowed += granted < whole;
  };
  each(r.starts, count);
  each(r.holds, count);
  each(r.starts, check);
  each(r.holds, check);
}

// Whoever waited before the pass and does not any more leaves its user within the cap.
template <class Policy>
void LawChecker<Policy>::CheckUserCaps(const std::set<WorkloadId>& waited, const Response& r) {
  const auto check = [&](const auto& placed) {
    for (const auto& p : placed) {
      const ShadowWorkload* w = model_.Find(p.workload);
      if (w == nullptr || waited.count(p.workload) == 0 || !model_.OverUserCap(*w)) continue;
      Broken(8, "w", p.workload.value(), " is placed beyond the cap of its user");
    }
  };
  check(r.starts);
  check(r.holds);
  check(r.promises);
}

// Inside a leaf, requests of the same kind are served in order: priority, then first submission. A
// gang that was stopped saves up for its next promise; those behind it may have theirs meanwhile.
template <class Policy>
void LawChecker<Policy>::CheckOrder(const Response& r) {
  const auto alike = [](const ShadowWorkload& a, const ShadowWorkload& b) {
    return a.leaf == b.leaf && a.funded == b.funded && a.spec.nodes == b.spec.nodes &&
           a.spec.gpus_per_node == b.spec.gpus_per_node && a.spec.gpu_type == b.spec.gpu_type &&
           a.spec.topology_rule == b.spec.topology_rule &&
           a.spec.topology_level == b.spec.topology_level &&
           a.spec.workload_class == b.spec.workload_class && a.spec.minimum == b.spec.minimum;
  };
  const auto capped = [&](const ShadowWorkload& a, const ShadowWorkload& b) {  // each by their own
    return model_.options.contract.UserGpus(a.spec.workload_class) > GpuCount(0) &&
           a.spec.user != b.spec.user;
  };
  std::set<WorkloadId> served, promised;
  for (const auto& p : r.promises) promised.insert(p.workload);
  for (const auto& p : r.starts) served.insert(p.workload);
  for (const auto& p : r.holds) served.insert(p.workload);
  for (WorkloadId id : served) {
    const ShadowWorkload* w = model_.Find(id);
    if (w == nullptr || w->state != WorkloadState::kPending || w->renewing) continue;
    for (const auto& [other, x] : model_.workloads) {
      if (x.state != WorkloadState::kPending || served.count(other) > 0 || !alike(*w, x)) continue;
      if (capped(*w, x)) continue;
      if (x.avoid_until > model_.now || (x.stops > 0 && promised.count(id) > 0)) continue;
      const bool first = w->funded && x.spec.priority != w->spec.priority
                             ? x.spec.priority > w->spec.priority
                             : std::pair(x.submitted, other) < std::pair(w->submitted, id);
      if (first) Broken(12, "w", id.value(), " is served before w", other.value());
    }
  }
}

}  // namespace tenure::test

#endif  // TENURE_TESTS_SUPPORT_LAW_DECISIONS_H_
