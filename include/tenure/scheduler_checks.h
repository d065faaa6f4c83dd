// SPDX-License-Identifier: Apache-2.0
//
// Scheduler: what every call checks before it changes anything. Included by scheduler.h; not for
// direct use.
#ifndef TENURE_SCHEDULER_CHECKS_H_
#define TENURE_SCHEDULER_CHECKS_H_

#include "tenure/scheduler.h"

namespace tenure {

template <class Policy>
absl::Status Scheduler<Policy>::CheckOptions(const SchedulerOptions& o) {
  const auto bad = [](auto&&... what) {
    return absl::InvalidArgumentError(absl::StrCat("option ", what...));
  };
  if (o.lookback <= Duration(0) || o.lookback > kMaxLookback) {
    return bad("lookback is ", o.lookback.count(), " us, must be in (0, ", kMaxLookback.count(),
               "]");
  }
  const auto within = [](Duration d) { return d >= Duration(0) && d <= kMaxLookback; };
  for (Duration cap : o.contract.cap) {
    if (!within(cap)) return bad("cap is ", cap.count(), " us");
  }
  for (Duration cap : o.contract.borrowed_cap) {
    if (!within(cap)) return bad("borrowed_cap is ", cap.count(), " us");
  }
  for (GpuCount most : o.contract.user_gpus) {
    if (most < GpuCount(0)) return bad("user_gpus is ", most.value());
  }
  if (!within(o.grace)) return bad("grace is ", o.grace.count(), " us");
  if (!within(o.tick)) return bad("tick is ", o.tick.count(), " us");
  if (!within(o.retry) || o.retry == Duration(0)) return bad("retry is ", o.retry.count(), " us");
  if (!within(o.lane_minimum)) return bad("lane_minimum is ", o.lane_minimum.count(), " us");
  if (!within(o.idle_after)) return bad("idle_after is ", o.idle_after.count(), " us");
  if (o.lane_permille < 0 || o.lane_permille > 1000) {
    return bad("lane_permille is ", o.lane_permille);
  }
  if (o.ranking.limit < 1 || o.ranking.limit > 1000) return bad("limit is ", o.ranking.limit);
  if (o.ranking.gain < Duration(0) || o.ranking.gain > kMaxLookback) {
    return bad("gain is ", o.ranking.gain.count(), " us");
  }
  if (o.ranking.nominal_permille < 0 || o.ranking.nominal_permille > 1000) {
    return bad("nominal_permille is ", o.ranking.nominal_permille);
  }
  const auto tokens = [](std::int64_t n) { return n >= 0 && n <= TokenBucket::kMaxTokens; };
  if (!tokens(o.preemption_rate)) return bad("preemption_rate is ", o.preemption_rate);
  if (!tokens(o.preemption_burst) || o.preemption_burst == 0) {
    return bad("preemption_burst is ", o.preemption_burst);
  }
  if (o.session_cap < 0 || o.session_cap > 1'000'000) {
    return bad("session_cap is ", o.session_cap);
  }
  if (o.idle_cap < 0 || o.idle_cap > kNoIdleCap) return bad("idle_cap is ", o.idle_cap);
  if (o.serving_cap < 0 || o.serving_cap > 1'000'000) {
    return bad("serving_cap is ", o.serving_cap);
  }
  if (o.debug_cap < 0 || o.debug_cap > 1'000'000) return bad("debug_cap is ", o.debug_cap);
  if (o.search.trials > plan::kMaxTrials) {
    return bad("search_trials is ", o.search.trials, ", must be at most ", plan::kMaxTrials);
  }
  if (o.search.threads < 1 || o.search.threads > 1024) {
    return bad("search_threads is ", o.search.threads, ", must be in [1, 1024]");
  }
  if (!within(o.search_tolerance)) {
    return bad("search_tolerance is ", o.search_tolerance.count(), " us");
  }
  if (o.search.trials > 0 && o.search.backend == plan::BackendKind::kCuda) {
    if (auto cuda = plan::OpenCuda(); !cuda.ok()) return cuda.status();
  }
  return absl::OkStatus();
}

template <class Policy>
absl::Status Scheduler<Policy>::CheckTime(TimePoint now) const {
  if (now.time_since_epoch() > kTimeLimit || now.time_since_epoch() < -kTimeLimit) {
    return absl::InvalidArgumentError(
        absl::StrCat("time ", now.time_since_epoch().count(), " us is out of range"));
  }
  if (started_ && now < now_) {
    return absl::OutOfRangeError(
        absl::StrCat("time went backwards: ", now.time_since_epoch().count(), " us after ",
                     now_.time_since_epoch().count(), " us"));
  }
  return absl::OkStatus();
}

template <class Policy>
absl::Status Scheduler<Policy>::CheckEventTime(const char* what, TimePoint at,
                                               TimePoint now) const {
  if (at <= now && at.time_since_epoch() >= -kTimeLimit) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(what, " at ", at.time_since_epoch().count(),
                                                 " us, reported at ",
                                                 now.time_since_epoch().count(), " us"));
}

template <class Policy>
absl::StatusOr<RunSlot> Scheduler<Policy>::FindRun(WorkloadId id, RunNumber run) const {
  const RunSlot slot = table_.Find(id);
  if (slot == kNoSlot) {
    return absl::NotFoundError(absl::StrCat("workload ", id.value(), " is unknown"));
  }
  if (table_.workload(slot).run != run) {
    return absl::FailedPreconditionError(absl::StrCat("workload ", id.value(), " is at run ",
                                                      table_.workload(slot).run.value(), ", not ",
                                                      run.value()));
  }
  return slot;
}

template <class Policy>
absl::Status Scheduler<Policy>::WrongState(RunSlot slot, RunNumber run, const char* what) const {
  return absl::FailedPreconditionError(
      absl::StrCat("run ", run.value(), " of workload ", table_.run(slot).id.value(), " is ",
                   ToString(table_.run(slot).state), ", cannot be ", what));
}

template <class Policy>
absl::Status Scheduler<Policy>::CheckAfterStart(RunSlot slot, const char* what,
                                                TimePoint at) const {
  const Run& run = table_.run(slot);
  if (at >= run.start) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("run ", table_.workload(slot).run.value(), " of workload ", run.id.value(), " ",
                   what, " at ", at.time_since_epoch().count(), " us, before its start at ",
                   run.start.time_since_epoch().count(), " us"));
}

}  // namespace tenure

#endif  // TENURE_SCHEDULER_CHECKS_H_
