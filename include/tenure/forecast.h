// SPDX-License-Identifier: Apache-2.0
//
// Two questions to a scheduler that change nothing in it: when will this workload start, and what
// would happen if that one were submitted.
//
//   tenure::ForecastResult f = tenure::Forecast(scheduler, tenure::WorkloadId(7)).value();
//   if (f.promised) Show("starts by", f.start);           // the engine keeps it
//   else if (f.start != tenure::kNever) Show("about", f.start);
//   tenure::WhatIfResult w = tenure::WhatIf(scheduler, spec, now).value();
//   for (const tenure::AllocationLoss& l : w.losses) Show(l.allocation, l.lost_work);
//
// Both work on a clone: O(state) to copy, then one pass (WhatIf) or as many as it takes (Forecast).
// The scheduler that is asked stays as it is, to the byte. Deterministic; thread-compatible.
#ifndef TENURE_FORECAST_H_
#define TENURE_FORECAST_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenure/contract.h"
#include "tenure/decisions.h"
#include "tenure/scheduler.h"
#include "tenure/types.h"
#include "tenure/workload_table.h"

namespace tenure {

// How a forecast looks ahead. It assumes that
//   - a run ends at its declared limit, if `limit` knows one; else when its protection is over, or
//     at once if that is past; unfunded runs declare nothing and last `unfunded`;
//   - starts are confirmed at once, stops after the grace, nothing fails, nobody submits anything.
// So it is an estimate on the optimistic side where runs last longer than they declared.
struct ForecastOptions {
  Duration horizon = std::chrono::hours(24 * 14);  // look no further than this
  Duration unfunded = std::chrono::hours(1);
  // Longest time of one run; 0 or less: not declared. Must be a pure function.
  std::function<Duration(const WorkloadSpec&)> limit;
  // The answer is accurate to this: passes that only time asks for are not closer together.
  Duration step = std::chrono::minutes(5);
  std::size_t max_passes = 10'000;
};

struct ForecastResult {
  TimePoint start = kNever;  // kNever: not within the horizon or the passes allowed
  bool promised = false;     // `start` is the latest start of a reservation, not an estimate
  bool started = false;      // it has been placed already, at `start`
  WaitReason reason = WaitReason::kNone;  // why it waits now
  TimePoint searched_until{};             // how far the future was played
  std::size_t passes = 0;
};

struct AllocationLoss {
  AllocationId allocation;
  GpuTime lost_work;
  friend bool operator==(const AllocationLoss&, const AllocationLoss&) = default;
};

// What one pass right after the submission would do for it. If neither `starts_now` nor `held` nor
// `reserved`, it would wait; `reason` says why.
struct WhatIfResult {
  bool starts_now = false;
  bool held = false;            // GPUs are kept for it until runs that are being stopped are gone
  bool reserved = false;        // a start would be promised
  TimePoint promised = kNever;  // latest start, if reserved
  std::vector<NodeId> nodes;    // where, if any of the above
  std::vector<Stop> victims;    // runs stopped for it, in decision order
  std::vector<AllocationLoss> losses;  // of the victims, by allocation, ascending
  WaitReason reason = WaitReason::kNone;
};

namespace internal {

// Plays the resource manager to a clone.
template <class Policy>
class Rehearsal {
 public:
  Rehearsal(const Scheduler<Policy>& scheduler, const ForecastOptions& options)
      : s_(scheduler.Clone()), options_(options), now_(scheduler.now()) {}

  // Plays until `id` starts. Internal if the clone refuses a correct report.
  absl::Status Play(WorkloadId id, ForecastResult& result);

 private:
  struct Event {
    TimePoint time;
    bool stopped;  // by the scheduler, else at its end
    WorkloadId workload;
    RunNumber run;
    // For a min-queue.
    friend bool operator<(const Event& a, const Event& b) {
      if (a.time != b.time) return a.time > b.time;
      if (a.stopped != b.stopped) return a.stopped < b.stopped;
      return a.workload > b.workload;
    }
  };

  absl::Status Adopt();
  absl::Status Confirm(WorkloadId id, RunNumber run);
  void PlanEnd(RunSlot slot);
  absl::Status Happen(const Event& e);

  Scheduler<Policy> s_;
  const ForecastOptions& options_;
  TimePoint now_;
  std::priority_queue<Event> events_;
};

template <class Policy>
void Rehearsal<Policy>::PlanEnd(RunSlot slot) {
  const Run& run = s_.table().run(slot);
  const Workload& w = s_.table().workload(slot);
  const Duration limit = options_.limit ? options_.limit(w.spec) : Duration(0);
  TimePoint end = run.funded ? run.protected_until : run.start + options_.unfunded;
  if (limit > Duration(0)) end = run.start + std::min(limit, kMaxLookback * 12);
  events_.push({std::max(end, now_), false, run.id, w.run});
}

template <class Policy>
absl::Status Rehearsal<Policy>::Confirm(WorkloadId id, RunNumber run) {
  if (absl::Status s = s_.ReportStarted(id, run, now_); !s.ok()) return s;
  PlanEnd(s_.table().Find(id));
  return absl::OkStatus();
}

// What is under way when the forecast begins.
template <class Policy>
absl::Status Rehearsal<Policy>::Adopt() {
  const SchedulerOptions& o = s_.options();
  for (RunSlot slot = 0; slot < s_.table().slots(); ++slot) {
    const Run& run = s_.table().run(slot);
    const Workload& w = s_.table().workload(slot);
    if (run.state == WorkloadState::kRunning) PlanEnd(slot);
    if (run.state == WorkloadState::kStarting) {
      if (absl::Status s = Confirm(run.id, w.run); !s.ok()) return s;
    }
    if (run.state != WorkloadState::kStopping) continue;
    // When it was told to stop is known only from the holds that wait for it.
    TimePoint gone = now_ + o.grace;
    for (NodeId n : w.nodes) {
      for (const Occupant& hold : s_.cluster().node(n).holds) {
        gone = std::min(gone, s_.table().workload(hold.run).deadline - o.tick);
      }
    }
    events_.push({std::max(gone, now_), true, run.id, w.run});
  }
  return absl::OkStatus();
}

template <class Policy>
absl::Status Rehearsal<Policy>::Happen(const Event& e) {
  const RunSlot slot = s_.table().Find(e.workload);
  if (slot == kNoSlot || s_.table().workload(slot).run != e.run) return absl::OkStatus();
  const WorkloadState state = s_.table().run(slot).state;
  if (state != WorkloadState::kRunning && state != WorkloadState::kStopping) {
    return absl::OkStatus();  // it waits again
  }
  if (e.stopped) return s_.ReportStopped(e.workload, e.run, now_).status();
  return s_.ReportEnded(e.workload, e.run, now_);
}

template <class Policy>
absl::Status Rehearsal<Policy>::Play(WorkloadId id, ForecastResult& result) {
  if (absl::Status s = Adopt(); !s.ok()) return s;
  const TimePoint last = now_ + options_.horizon;
  while (result.passes < options_.max_passes) {
    const absl::StatusOr<const Decisions*> decided = s_.Decide(now_);
    if (!decided.ok()) return decided.status();
    const Decisions& d = **decided;
    ++result.passes;
    result.searched_until = now_;
    for (const Stop& stop : d.stops) {
      events_.push({now_ + stop.grace, true, stop.workload, stop.run});
    }
    for (const Start& start : d.starts) {
      if (start.workload == id) {
        result.start = now_;
        return absl::OkStatus();
      }
      if (absl::Status s = Confirm(start.workload, start.run); !s.ok()) return s;
    }
    TimePoint wake = d.next_wakeup;
    if (wake != kNever && wake <= now_ + s_.options().retry) {
      wake = std::max(wake, now_ + options_.step);
    }
    // A confirmation may have been what another decision waited for.
    if (s_.dirty()) wake = std::min(wake, now_ + std::chrono::seconds(1));
    do {
      const TimePoint next = events_.empty() ? wake : std::min(wake, events_.top().time);
      if (next > last) {
        result.searched_until = last;
        return absl::OkStatus();
      }
      now_ = next;
      while (!events_.empty() && events_.top().time <= now_) {
        const Event e = events_.top();
        events_.pop();
        if (absl::Status s = Happen(e); !s.ok()) return s;
      }
    } while (!s_.dirty() && now_ < wake);
  }
  return absl::OkStatus();
}

}  // namespace internal

// When `id` starts, seen from the last call of the scheduler: the start of its run if it has one;
// the promised start if it has a reservation; else an estimate (see ForecastOptions). NotFound;
// InvalidArgument (an option is negative or beyond a year, or `step` is 0).
template <class Policy>
absl::StatusOr<ForecastResult> Forecast(const Scheduler<Policy>& scheduler, WorkloadId id,
                                        const ForecastOptions& options = {}) {
  const auto within = [](Duration d) { return d >= Duration(0) && d <= kMaxLookback * 12; };
  if (!within(options.horizon) || !within(options.unfunded) || !within(options.step) ||
      options.step == Duration(0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("forecast with horizon ", options.horizon.count(), " us, unfunded ",
                     options.unfunded.count(), " us and step ", options.step.count(), " us"));
  }
  const absl::StatusOr<Explanation> why = scheduler.Explain(id);
  if (!why.ok()) return why.status();
  ForecastResult result;
  result.reason = why->reason;
  result.searched_until = scheduler.now();
  switch (why->state) {
    case WorkloadState::kRunning:
    case WorkloadState::kStarting:
      result.started = true;
      result.start = scheduler.table().run(scheduler.table().Find(id)).start;
      return result;
    case WorkloadState::kReserved:
      result.promised = true;
      result.start = why->promised_start;
      return result;
    case WorkloadState::kUnplaceable:
    case WorkloadState::kSuspended:
      return result;  // whatever ends, it does not start
    default:
      break;
  }
  internal::Rehearsal<Policy> rehearsal(scheduler, options);
  if (absl::Status s = rehearsal.Play(id, result); !s.ok()) return s;
  return result;
}

// What submitting `spec` at `now` would lead to. The errors of Scheduler::Submit.
template <class Policy>
absl::StatusOr<WhatIfResult> WhatIf(const Scheduler<Policy>& scheduler, const WorkloadSpec& spec,
                                    TimePoint now) {
  Scheduler<Policy> clone = scheduler.Clone();
  if (absl::Status s = clone.Submit(spec, now); !s.ok()) return s;
  const absl::StatusOr<const Decisions*> decided = clone.Decide(now);
  if (!decided.ok()) return decided.status();
  const Decisions& d = **decided;
  WhatIfResult result;
  const auto take = [&](NodeList list) {
    const auto nodes = d.Nodes(list);
    result.nodes.assign(nodes.begin(), nodes.end());
  };
  for (const Promise& p : d.promises) {
    if (p.workload != spec.id) continue;
    result.reserved = true;
    result.promised = p.start_by;
    take(p.nodes);
  }
  // A promise that is due at once has already become a hold or a start.
  for (const Hold& h : d.holds) {
    if (h.workload != spec.id) continue;
    result.held = true;
    take(h.nodes);
  }
  for (const Start& s : d.starts) {
    if (s.workload != spec.id) continue;
    result.starts_now = true;
    take(s.nodes);
  }
  if (!result.starts_now) result.reason = clone.Explain(spec.id)->reason;
  for (const Stop& s : d.stops) {
    if (!IsPreemption(s.reason) || s.beneficiary != spec.id) continue;
    result.victims.push_back(s);
    const AllocationId leaf = clone.table().run(clone.table().Find(s.workload)).leaf;
    const auto at = std::lower_bound(
        result.losses.begin(), result.losses.end(), leaf,
        [](const AllocationLoss& l, AllocationId id) { return l.allocation < id; });
    if (at != result.losses.end() && at->allocation == leaf) {
      at->lost_work += s.lost_work;
    } else {
      result.losses.insert(at, {leaf, s.lost_work});
    }
  }
  return result;
}

}  // namespace tenure

#endif  // TENURE_FORECAST_H_
