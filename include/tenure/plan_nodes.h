// SPDX-License-Identifier: Apache-2.0
//
// Trial: what it knows of the nodes. Included by plan_trial.h; not for direct use.
//
// For each group of nodes, which of them hold a gang member and which numbers of GPUs occur;
// counted, so that a change of one node costs no look at the others.
#ifndef TENURE_PLAN_NODES_H_
#define TENURE_PLAN_NODES_H_

#include "tenure/plan_trial.h"

namespace tenure::plan {

template <class Team, class Record>
TENURE_PLAN_FUNCTION void Trial<Team, Record>::Init() {
  t_.ForEach(0, w_.nodes, [&](u32 n) {
    idle_[n] = w_.idle[n];
    soon_[n] = w_.soon[n];
    most_[n] = w_.most[n];
    free_[n] = static_cast<u8>(Min32(w_.idle[n], w_.soon[n]));
    release_[n] = w_.release[n];
  });
  t_.ForEach(0, w_.groups, [&](u32 g) {
    mask_[g] = reach_[g] = stale_[g] = 0;
    for (u32 i = 0; i < w_.sizes; ++i) free_count_[g * w_.sizes + i] = 0;
    for (u32 i = 0; i < w_.sizes; ++i) most_count_[g * w_.sizes + i] = 0;
    for (u32 i = 0; i < w_.widths; ++i) fit_[i * w_.groups + g] = able_[i * w_.groups + g] = 0;
    for (u32 n = w_.group_begin[g]; n < w_.group_begin[g + 1]; ++n) {
      CountFree(g, n);
      CountMost(g, n);
    }
  });
  t_.ForEach(0, w_.victims, [&](u32 v) { killed_[v] = kAlive; });
  t_.ForEach(0, w_.jobs, [&](u32 j) { done_[j] = 0; });
  t_.ForEach(0, w_.accounts, [&](u32 a) { spare_[a] = w_.spare[a]; });
  t_.ForEach(0, kLossClasses, [&](u32 c) { loss_[c] = 0; });
  t_.ForEach(0, kKindWords, [&](u32 i) { failed_[i] = 0; });
  stops_ = w_.stops;
  row_ = kNone32;
}

// Node `n` of group `g` has free_[n] GPUs free now. One lane a group.
template <class Team, class Record>
TENURE_PLAN_FUNCTION void Trial<Team, Record>::CountFree(u32 g, u32 n) {
  const u32 free = free_[n];
  if (!(w_.node_flags[n] & kReservedNode)) {
    ++free_count_[g * w_.sizes + free];
    mask_[g] |= u64{1} << free;
  }
  for (u32 i = 0; i < w_.widths; ++i) {  // whether a gang member of that width may start on it
    SetBit(fit_[i * w_.groups + g], n - w_.group_begin[g],
           w_.node_flags[n] == 0 && free >= w_.width_gpus[i]);
  }
}

// The same of most_[n].
template <class Team, class Record>
TENURE_PLAN_FUNCTION void Trial<Team, Record>::CountMost(u32 g, u32 n) {
  const u32 most = most_[n];
  ++most_count_[g * w_.sizes + most];
  reach_[g] |= u64{1} << most;
  for (u32 i = 0; i < w_.widths; ++i) {
    SetBit(able_[i * w_.groups + g], n - w_.group_begin[g], most >= w_.width_gpus[i]);
  }
}

// Brings what is known of `n` and its group up to date after idle_, soon_ or, by `taken` GPUs,
// most_ changed. One lane a group.
template <class Team, class Record>
TENURE_PLAN_FUNCTION void Trial<Team, Record>::Recount(u32 g, u32 n, u32 taken) {
  stale_[g] |= u64{1} << (n - w_.group_begin[g]);
  const u32 free = Min32(idle_[n], soon_[n]), before = free_[n], most = most_[n] + taken;
  if (free != before) {
    if (!(w_.node_flags[n] & kReservedNode) && --free_count_[g * w_.sizes + before] == 0) {
      mask_[g] &= ~(u64{1} << before);
    }
    free_[n] = static_cast<u8>(free);
    CountFree(g, n);
  }
  if (taken != 0) {
    if (--most_count_[g * w_.sizes + most] == 0) reach_[g] &= ~(u64{1} << most);
    CountMost(g, n);
  }
}

// `nodes` of group `g` are given to `q`; a hold claims only what will be free.
template <class Team, class Record>
TENURE_PLAN_FUNCTION void Trial<Team, Record>::Take(const Job& q, u32 g, u64 nodes, bool start) {
  const u32 first = w_.group_begin[g], b = first + TENURE_PLAN_LOWEST(nodes),
            e = first + TENURE_PLAN_HIGHEST(nodes) + 1;
  const auto taken = [&](u32 n) { return (nodes >> (n - first)) & 1; };
  delay_ = Add32(delay_, t_.Sum(b, e, [&](u32 n) {
    return taken(n) && q.protect > release_[n] ? w_.gpus[n] * u32(q.protect - release_[n]) : 0u;
  }));
  t_.ForEach(b, e, [&](u32 n) {
    if (!taken(n)) return;
    record_.Take(n);
    if (start) idle_[n] = static_cast<u8>(idle_[n] - q.gpus);
    soon_[n] = static_cast<u8>(soon_[n] - q.gpus);
    most_[n] = static_cast<u8>(most_[n] - q.gpus);
    if (release_[n] < q.protect) release_[n] = q.protect;
  });
  t_.ForEach(0, 1, [&](u32) {
    for (u64 left = nodes; left != 0; left &= left - 1) {
      Recount(g, first + TENURE_PLAN_LOWEST(left), q.gpus);
    }
  });
}

}  // namespace tenure::plan

#endif  // TENURE_PLAN_NODES_H_
