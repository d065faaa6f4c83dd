// SPDX-License-Identifier: Apache-2.0
//
// What a simulation measures. `Metrics` holds the figures of one run; a figure that has nothing to
// measure (no gang submitted, nothing owed) is empty, never NaN.
#ifndef TENURE_SIM_RESULT_H_
#define TENURE_SIM_RESULT_H_

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "tenure/types.h"

namespace tenure::sim {

using Figure = std::optional<double>;

struct Quantiles {
  Figure p50, p90, p99;
};

struct Spread {
  Figure p50, p90, max;
};

// Groups of workloads whose waits are reported.
enum class WaitGroup : std::uint8_t { kAll, kDebug, kTraining, kGang, kInteractive, kSweep };
inline constexpr std::size_t kWaitGroups = 6;
inline constexpr std::array<const char*, kWaitGroups> kWaitGroupNames = {
    "all", "debug", "training", "gang", "interactive", "sweep"};

struct LeafResult {
  double share = 0;            // entitlement / capacity
  double owed_gpu_h = 0;       // sum over hours of min(entitlement, demand)
  double delivered_gpu_h = 0;  // funded occupied
  double lost_gpu_h = 0;       // of what was delivered: recomputation + restart overhead
  Figure owed_cum, owed_strict, owed_win7;
  Quantiles wait_s;  // of its funded work, as Metrics::wait_s
};

// A forecast made while a workload waited, and what came of it; times from when it was made.
struct ForecastSample {
  Figure predicted_s;      // empty: no start within its horizon
  bool promised = false;   // it was the latest start of a reservation
  Figure actual_s;         // empty: withdrawn, or still waiting at the end
  double until_end_s = 0;  // a bound for what is empty
};

struct Metrics {
  Figure owed_cum, owed_cum_worst;  // sum_l min(delivered_l, owed_l) / sum owed; worst leaf
  Figure owed_strict, owed_win7, owed_win7_worst;
  Figure owed_cum_worst_program;              // worst inner node below the root
  std::int64_t leaves = 0, leaves_ge_95 = 0;  // leaves with something owed; owed_cum >= 0.95
  Figure goodput;                             // (funded occupied - funded lost) / capacity
  Figure waste;  // lost GPU-h (recomputation + restart overhead) / all occupied GPU-h
  Figure occupancy, availability;
  Figure unfunded_share;                      // of delivered time
  std::array<Quantiles, kWaitGroups> wait_s;  // from submit; unstarted censored at patience or end
  Figure preemptions_per_job;                 // funded runs stopped / funded jobs
  Figure repreempted_1h_share;          // of funded preemptions: victim had restarted < 1 h before
  std::int64_t sessions_killed = 0;     // stopped while somebody used them
  std::int64_t sessions_suspended = 0;  // stopped while reported idle; they wait for their owner
  Figure gangs_done_share;              // gangs (>= 64 GPUs) finished inside the measured time
  Quantiles gang_turnaround_s;          // finish - submit of gangs; unfinished counted to the end
  std::int64_t jobs = 0, jobs_done = 0, jobs_running = 0, jobs_queued = 0, jobs_withdrawn = 0;
  std::int64_t jobs_failed = 0;  // non-resumable, stopped (not resubmitted)
  std::int64_t jobs_never_fit = 0;
  std::int64_t events = 0, passes = 0, starts = 0, preemptions = 0;
  std::uint64_t decision_digest = 0;  // hash of every decision in order
  std::vector<LeafResult> leaf;
  // Promised starts. `promises` and `promises_broken` count promises made in the measured time;
  // broken: started later than promised although the nodes stayed healthy.
  std::int64_t promises = 0, promises_broken = 0;
  Spread promise_lateness_s;       // start - promised start, of promises that bound; < 0: earlier
  Spread gang_from_reservation_s;  // first promise -> start, for each time the gang waited
  Spread gang_to_reservation_s;    // submit -> first promise (eligibility)
  // Hosts. A repair begins when the host is down; `repairs_human`: somebody had to be talked into
  // leaving first; `drains_late`: unhealthy hosts occupied for FaultOptions::negotiate_after or
  // longer.
  std::int64_t repairs = 0, repairs_human = 0, drains_late = 0;
  Spread host_drain_h;         // unhealthy -> empty
  std::int64_t runs_lost = 0;  // with their host, by a fault or for its repair; no preemptions
  std::int64_t failed_resumes = 0;
  std::vector<ForecastSample> forecasts;  // where SimOptions::forecast_interval asks for them
};

}  // namespace tenure::sim

#endif  // TENURE_SIM_RESULT_H_
