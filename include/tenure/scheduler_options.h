// SPDX-License-Identifier: Apache-2.0
//
// What a Scheduler can be told about how to work, besides its policy. The defaults are those of the
// `budget` preset (presets.h).
#ifndef TENURE_SCHEDULER_OPTIONS_H_
#define TENURE_SCHEDULER_OPTIONS_H_

#include <chrono>
#include <cstdint>

#include "tenure/contract.h"
#include "tenure/plan_search.h"
#include "tenure/ranking.h"
#include "tenure/reservation.h"
#include "tenure/types.h"

namespace tenure {

// An `idle_cap` that suspends nothing.
inline constexpr std::int64_t kNoIdleCap = 1'000'000'000;

struct SchedulerOptions {
  ContractRules contract;
  RankingOptions ranking;
  ReservationOptions reservation;
  Duration lookback = kDefaultLookback;       // in (0, kMaxLookback]
  Duration grace = std::chrono::seconds(10);  // given to a stopped run to save its work
  Duration tick = std::chrono::seconds(5);    // a hold outlives the grace of its victims by this
  Duration retry = std::chrono::seconds(60);  // funded work waits: look again at the latest then
  // Part of the nodes (thousandths of each pool, rounded) that takes only short and unfunded work.
  std::int64_t lane_permille = 15;
  Duration lane_minimum = std::chrono::minutes(15);
  GpuCount lane_gpus{8};
  bool express = true;                          // debug work is first in its leaf
  Duration idle_after = std::chrono::hours(1);  // an idle session is protected no longer than this
  // GPUs of a leaf's idle sessions that are not protected, in thousandths of its entitlement: those
  // beyond (resumable ones, the latest ids) are suspended while anything waits, whether or not it
  // fits where they are.
  std::int64_t idle_cap = 150;
  // Funded runs stopped for others: at most `burst` at once and `rate` an hour in the long run; 0:
  // no limit. Promised starts, drains and cancellations are not counted. A request that needs more
  // than `burst` of them waits for free GPUs or a promise.
  std::int64_t preemption_rate = 0;
  std::int64_t preemption_burst = 1;
  // GPUs of a leaf's funded interactive sessions, and of its funded debug work, in thousandths of
  // its entitlement. While the leaf is not offered all that it asks for, more of that class wait;
  // one may always run. 0: no cap.
  std::int64_t session_cap = 0;
  std::int64_t debug_cap = 400;
  // The same for its services, but always: they have no end, and those within the cap are never
  // stopped for others. 0: no cap, and they are stopped like training;
  // nodes with one are not promised to others all the same.
  std::int64_t serving_cap = 1000;
  // Plan search: `search.trials` plans of a pass are tried (0: none) and the best is kept. A plan
  // may change the order of requests whose leaves' keys differ by no more than `search_tolerance`;
  // 0: it may not change any.
  plan::SearchOptions search;
  Duration search_tolerance = std::chrono::hours(1);

  template <class Archive>
  void Serialize(Archive& ar) {
    for (Duration& d : contract.cap) ar(d);
    for (Duration& d : contract.borrowed_cap) ar(d);
    for (GpuCount& n : contract.user_gpus) ar(n);
    ar(contract.debug_gpus, contract.refuse_livelock, ranking.level_by_level, ranking.fluid,
       ranking.gain, ranking.limit, ranking.nominal_permille, lookback, grace, tick, retry,
       lane_permille, lane_minimum, lane_gpus, express, idle_after, idle_cap, reservation,
       preemption_rate, preemption_burst, session_cap, debug_cap, serving_cap, search,
       search_tolerance);
  }
};

}  // namespace tenure

#endif  // TENURE_SCHEDULER_OPTIONS_H_
