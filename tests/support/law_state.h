// SPDX-License-Identifier: Apache-2.0
//
// LawChecker: what must be so after every event. Included by law_checker.h; not for direct use.
#ifndef TENURE_TESTS_SUPPORT_LAW_STATE_H_
#define TENURE_TESTS_SUPPORT_LAW_STATE_H_

#include "law_checker.h"

namespace tenure::test {

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
    if (w.avoid_until > model_.now) continue;
    // One that the pass stopped may have counted when this one was looked at.
    if (model_.OverClassCap(w, Standing(w.leaf).entitlement, true) &&
        (ShadowModel::Stays(w) || before_.contended[static_cast<std::size_t>(w.leaf)] ||
         Contended(w.leaf))) {
      continue;
    }
    if (model_.OverUserCap(w, true)) continue;
    const bool fits = model_.Fits(w.spec, [&, &w = w](int n) {
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
    counts_.class_caps += x.reason == WaitReason::kSessionCap || x.reason == WaitReason::kDebugCap;
    counts_.serving_caps += x.reason == WaitReason::kServingCap;
    counts_.user_caps += x.reason == WaitReason::kUserCap;
    const WaitReason cap = ShadowModel::Stays(w) ? WaitReason::kServingCap
                           : w.spec.workload_class == WorkloadClass::kDebug
                               ? WaitReason::kDebugCap
                               : WaitReason::kSessionCap;
    const WaitReason expected = model_.At(w.leaf).closed          ? WaitReason::kClosed
                                : !ever                           ? WaitReason::kNeverFits
                                : w.state == WorkloadState::kHeld ? WaitReason::kWaitsForStop
                                : ClassCapReached(w)              ? cap
                                : model_.OverUserCap(w)           ? WaitReason::kUserCap
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

#endif  // TENURE_TESTS_SUPPORT_LAW_STATE_H_
