// SPDX-License-Identifier: Apache-2.0
//
// Turns what happens in a simulated run into the figures of result.h.
//
//   tenure::sim::MetricsRecorder recorder(world, tree, leaf_ids, {.warmup = hours(168), .end =
//   end}); recorder.Submitted(0, t0); recorder.Started(0, t1, tenure::Duration(0));
//   recorder.Finished(0, t2);
//   tenure::sim::Metrics metrics = recorder.Finish(end);
//
// Definitions. Time is measured in [warmup, end) and cut into hours aligned to time 0 (the first
// and last may be part of an hour). A leaf with entitlement E is owed, in an hour, the smaller of
// the integral of E and the integral of its running and queued funded GPUs; what it was delivered
// is the integral of its running funded GPUs. Over the sums of the hours:
//   owed_strict  sum of min(delivered, owed) of each leaf and hour / sum of owed
//   owed_win7    the same, but a short hour may be repaid, oldest first, by what the leaf gets
//                beyond what it is owed in one of the following 168 hours
//   owed_cum     per leaf min(sum delivered, sum owed) / sum of owed
// Funded means a minimum above 0. A gang is a funded training workload of at least 64 GPUs.
// Waits, gangs and the denominator of preemptions_per_job are those of workloads submitted in
// [warmup, end - tail), so that each had some time to start; workloads that never fit are left out.
// A wait ends at the first start, or is cut at the patience or the end. Of n sorted values the
// quantile p is number floor(p n).
//
// Entitlements, and so what is owed, follow the healthy capacity; occupancy and goodput are parts
// of the usable one, which includes hosts that drain: their runs still count.
//
// Units: integrals are exact integers in GPU-microseconds; doubles appear only in the quotients at
// the end. Not thread-safe. Deterministic. A call is O(1) amortised, plus O(A) for every simulated
// hour and every change of capacity (A leaves and programs); memory O(J + 168 A), independent of
// the simulated time. Source of owed and delivered: the published budget policy's measure of
// impact.
#ifndef TENURE_SIM_METRICS_H_
#define TENURE_SIM_METRICS_H_

#include <algorithm>
#include <array>
#include <cassert>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "absl/numeric/int128.h"
#include "tenure/budget_tree.h"
#include "tenure/sim/live_jobs.h"
#include "tenure/sim/result.h"
#include "tenure/sim/workload.h"
#include "tenure/types.h"

namespace tenure::sim {

inline constexpr GpuCount kGangGpus{64};

// What became of a workload whose run was stopped.
enum class StopOutcome : std::uint8_t {
  kRequeued,   // resumable: waits again
  kSuspended,  // the same for an idle session, which waits for its owner
  kFailed,     // not resumable: it is over
};

class MetricsRecorder {
 public:
  struct Options {
    Duration warmup{0};
    Duration end{0};
    Duration tail = std::chrono::hours(2);
  };

  // Measures `world` with all its GPUs healthy at time 0. leaf_ids[i] is the allocation of
  // World::leaves[i]. `world` and `tree` must outlive the recorder; the tree is read here and at
  // every call of Capacity.
  MetricsRecorder(const World& world, const BudgetTree& tree,
                  std::span<const AllocationId> leaf_ids, const Options& options)
      : world_(world),
        tree_(tree),
        warmup_(TimePoint(options.warmup)),
        end_(TimePoint(options.end)),
        tail_(options.tail),
        leaves_(leaf_ids.size()),
        jobs_(world.jobs.size()),
        live_(world.jobs.size()) {
    assert(leaf_ids.size() == world.leaves.size());
    std::vector<std::size_t> program_of(tree.size(), kNoProgram);
    for (std::size_t i = 0; i < leaf_ids.size(); ++i) {
      leaves_[i].id = leaf_ids[i];
      AllocationId node = leaf_ids[i];
      while (node != kRootAllocation && tree.parent(node) != kRootAllocation) {
        node = tree.parent(node);
      }
      if (node == leaf_ids[i]) continue;  // a leaf below the root is in no program
      std::size_t& program = program_of[node.value()];
      if (program == kNoProgram) {
        program = programs_.size();
        programs_.emplace_back();
        programs_.back().id = node;
      }
      leaves_[i].program = program;
    }
    Capacity(TimePoint(Duration(0)), GpuCount(world.cluster.gpus()),
             GpuCount(world.cluster.gpus()));
  }

  // The events, in time order (an earlier time counts as the latest one reported). `job` indexes
  // World::jobs. A workload is submitted once; then it is started and stopped or finished in turn,
  // or withdrawn before its first start.

  void Submitted(std::size_t job, TimePoint t) {
    Advance(t);
    Job& j = jobs_[job];
    assert(j.phase == Phase::kUnseen);
    j.phase = Phase::kQueued;
    j.submit = now_;
    live_.Add(job);
    ++metrics_.jobs;
    AddQueued(job, +1);
  }

  // `overhead` is the restart overhead of this run, which lies at its beginning.
  void Started(std::size_t job, TimePoint t, Duration overhead) {
    Advance(t);
    Job& j = jobs_[job];
    assert(j.phase == Phase::kQueued);
    AddQueued(job, -1);
    AddRunning(job, +1);
    j.phase = Phase::kRunning;
    if (j.first_start == kNever) j.first_start = now_;
    Live& live = live_[job];
    live.start = now_;
    live.overhead = overhead;
    ++metrics_.starts;
    if (live.forecast) {
      for (OpenForecast& f : open_forecasts_) {
        if (f.job == job && f.actual == kNever) f.actual = now_;
      }
      live.forecast = false;
    }
    if (live.promised != kNever) {
      if (CountsPromise(live)) {
        from_reservation_.push_back(now_ - live.promised);
        if (now_ > live.start_by) ++metrics_.promises_broken;
        if (live.start_by != kNever) lateness_.push_back(now_ - live.start_by);
      }
      live.promised = live.start_by = kNever;
    }
  }

  // The workload, which waits, is promised a start by `start_by`. A promise restated while the one
  // before stands does not move it.
  void Promised(std::size_t job, TimePoint t, TimePoint start_by) {
    Advance(t);
    const Job& j = jobs_[job];
    assert(j.phase == Phase::kQueued);
    Live& live = live_[job];
    if (live.promised == kNever) {
      live.promised = now_;
      if (Measured()) {
        ++metrics_.promises;
        if (j.first_start == kNever) to_reservation_.push_back(now_ - j.submit);
      }
    }
    if (live.start_by == kNever) live.start_by = start_by;
  }

  // What was promised to the workload does not bind any more (a node of it is gone).
  void PromiseVoid(std::size_t job) {
    if (live_.contains(job)) live_[job].start_by = kNever;
  }

  // A forecast for the workload, which waits: a start at `predicted`, kNever if none is in sight;
  // `promised`: it is the latest start of a reservation.
  void Forecast(std::size_t job, TimePoint t, TimePoint predicted, bool promised) {
    Advance(t);
    assert(jobs_[job].phase == Phase::kQueued);
    if (!Measured()) return;
    live_[job].forecast = true;
    open_forecasts_.push_back({job, now_, predicted, kNever, promised});
  }

  // `attempts` to resume a run failed.
  void ResumeFailed(TimePoint t, std::int64_t attempts) {
    Advance(t);
    if (Measured()) metrics_.failed_resumes += attempts;
  }

  // A host that was unhealthy for `drain` is empty or down.
  void HostDrained(TimePoint t, Duration drain, bool late) {
    Advance(t);
    if (!Measured()) return;
    drains_.push_back(drain);
    if (late) ++metrics_.drains_late;
  }

  // The repair of a host begins; `human`: a person had to make somebody leave.
  void RepairBegins(TimePoint t, bool human) {
    Advance(t);
    if (!Measured()) return;
    ++metrics_.repairs;
    if (human) ++metrics_.repairs_human;
  }

  // The run was lost with its host. `lost` as for Stopped.
  void Lost(std::size_t job, TimePoint t, Duration lost, StopOutcome outcome) {
    Advance(t);
    assert(jobs_[job].phase == Phase::kRunning);
    if (Measured()) {
      ++metrics_.runs_lost;
      AddLost(job, lost);
    }
    Leave(job, outcome);
  }

  // The run was stopped by the scheduler. `lost` is the time of work that has to be done again plus
  // the restart overhead spent in this run.
  void Stopped(std::size_t job, TimePoint t, Duration lost, StopOutcome outcome) {
    Advance(t);
    assert(jobs_[job].phase == Phase::kRunning);
    Live& live = live_[job];
    ++metrics_.preemptions;
    if (Measured()) {
      AddLost(job, lost);
      if (row(job).klass() == WorkloadClass::kInteractive) {
        ++(outcome == StopOutcome::kSuspended ? metrics_.sessions_suspended
                                              : metrics_.sessions_killed);
      }
      if (row(job).funded()) {
        ++funded_stops_;
        if (live.stopped_before && now_ - live.start < std::chrono::hours(1)) ++quick_stops_;
      }
    }
    live.stopped_before = true;
    Leave(job, outcome);
  }

  void Finished(std::size_t job, TimePoint t) {
    Advance(t);
    Job& j = jobs_[job];
    assert(j.phase == Phase::kRunning);
    AddRunning(job, -1);
    if (Measured()) AddLost(job, std::min(live_[job].overhead, now_ - live_[job].start));
    j.phase = Phase::kDone;
    j.finish = now_;
    live_.Remove(job);
  }

  // Its patience ran out before it ever started.
  void Withdrawn(std::size_t job, TimePoint t) {
    Advance(t);
    assert(jobs_[job].phase == Phase::kQueued);
    AddQueued(job, -1);
    jobs_[job].phase = Phase::kWithdrawn;
    live_.Remove(job);
  }

  // The cluster can never hold it; instead of Submitted, or later.
  void NeverFits(std::size_t job, TimePoint t) {
    Advance(t);
    Job& j = jobs_[job];
    assert(j.phase == Phase::kUnseen || j.phase == Phase::kQueued);
    if (j.phase == Phase::kQueued) {
      AddQueued(job, -1);
      live_.Remove(job);
    } else {
      ++metrics_.jobs;
    }
    j.phase = Phase::kNeverFits;
  }

  // Healthy and declared capacity from `t` on; also to be called when the budgets have changed.
  void Capacity(TimePoint t, GpuCount healthy, GpuCount total) {
    Capacity(t, healthy, healthy, total);
  }
  // The same with the usable capacity: healthy hosts and draining ones.
  void Capacity(TimePoint t, GpuCount healthy, GpuCount usable, GpuCount total) {
    Advance(t);
    healthy_ = healthy;
    usable_ = usable;
    total_ = total;
    tree_.Entitlements(ToMilli(healthy), entitlements_);
    for (Leaf& leaf : leaves_) {
      Integrate(leaf, now_);
      leaf.entitlement = entitlements_[leaf.id.value()];
    }
    for (Program& program : programs_) {
      Integrate(program, now_);
      program.entitlement = entitlements_[program.id.value()];
    }
  }

  // The figures of the run that ended at `end` (measured until then if that is before
  // Options::end). `events`, `passes` and `decision_digest` are left 0. To be called once.
  Metrics Finish(TimePoint end) {
    Advance(end);
    end_ = std::min(end_, std::max(end, now_));
    if (hour_begin_ < now_) CloseHour(now_);
    Metrics m = std::move(metrics_);
    CountJobs(m);
    LeafFigures(m);
    OccupancyFigures(m);
    WaitFigures(m);
    m.repreempted_1h_share = Ratio(quick_stops_, funded_stops_);
    m.promise_lateness_s = ToSpread(lateness_, 1e6);
    ForecastFigures(m);
    m.gang_from_reservation_s = ToSpread(from_reservation_, 1e6);
    m.gang_to_reservation_s = ToSpread(to_reservation_, 1e6);
    m.host_drain_h = ToSpread(drains_, 3.6e9);
    return m;
  }

 private:
  using Int128 = absl::int128;
  static constexpr std::size_t kNoProgram = std::numeric_limits<std::size_t>::max();
  static constexpr Duration kHour = std::chrono::hours(1);
  static constexpr std::int64_t kRepayHours = 168;

  enum class Phase : std::uint8_t {
    kUnseen,
    kQueued,
    kRunning,
    kDone,
    kFailed,
    kWithdrawn,
    kNeverFits,
  };

  // Kept to the end.
  struct Job {
    TimePoint submit{}, first_start = kNever, finish = kNever;
    Phase phase = Phase::kUnseen;
  };
  // Of a job that is queued or running.
  struct Live {
    TimePoint start{};
    // Since it last waited: the first promise, and what it may be held to.
    TimePoint promised = kNever, start_by = kNever;
    Duration overhead{0};
    bool stopped_before = false;
    bool forecast = false;  // an open forecast is about its next start
  };

  // Integrals over the current hour up to `until`. GPU-microseconds, of the entitlement thousandths
  // of them: at most 2^21 GPUs x 1 h x 1000 < 2^63.
  struct Hourly {
    AllocationId id;
    MilliGpu entitlement;
    TimePoint until{};
    std::int64_t entitled = 0, demand = 0, delivered = 0;
  };

  struct OpenForecast {
    std::size_t job;
    TimePoint made, predicted, actual;
    bool promised;
  };

  struct Shortfall {
    std::int64_t hour, amount;
  };

  struct Leaf : Hourly {
    std::size_t program = kNoProgram;
    std::int64_t running = 0, queued = 0;  // funded GPUs
    std::vector<Shortfall> shortfalls;     // of the last 168 hours, oldest first
    Int128 entitled_sum = 0, owed = 0, got = 0, strict = 0, repaid = 0, lost = 0;
  };

  struct Program : Hourly {
    Int128 owed = 0, got = 0;
  };

  const JobRow& row(std::size_t job) const { return world_.jobs[job]; }
  bool Measured() const { return now_ >= warmup_ && now_ < end_; }
  bool CountsPromise(const Live& j) const { return j.promised >= warmup_ && j.promised < end_; }

  // a * b and a + b for values >= 0, saturating: a demand beyond any entitlement is just large.
  static std::int64_t AddProduct(std::int64_t sum, std::int64_t a, std::int64_t b) {
    constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
    const Int128 result = Int128(a) * b + sum;
    return result > kMax ? kMax : static_cast<std::int64_t>(result);
  }

  Duration MeasuredPart(TimePoint from, TimePoint to) const {
    return std::max(Duration(0), std::min(to, end_) - std::max(from, warmup_));
  }

  void Integrate(Hourly& h, TimePoint t) {
    h.entitled = AddProduct(h.entitled, h.entitlement.value(), MeasuredPart(h.until, t).count());
    h.until = t;
  }

  void Integrate(Leaf& leaf, TimePoint t) {
    const std::int64_t dt = MeasuredPart(leaf.until, t).count();
    leaf.demand = AddProduct(leaf.demand, leaf.running + leaf.queued, dt);
    leaf.delivered = AddProduct(leaf.delivered, leaf.running, dt);
    Integrate(static_cast<Hourly&>(leaf), t);
  }

  void Advance(TimePoint t) {
    // Nothing is measured after the end; the clock goes on for the waits.
    while (hour_begin_ + kHour <= std::min(t, end_)) {
      Occupy(hour_begin_ + kHour);
      CloseHour(hour_begin_ + kHour);
    }
    Occupy(std::max(t, now_));
  }

  // Integrates the figures of the whole cluster up to t.
  void Occupy(TimePoint t) {
    const std::int64_t dt = MeasuredPart(now_, t).count();
    funded_time_ += Int128(funded_gpus_) * dt;
    unfunded_time_ += Int128(unfunded_gpus_) * dt;
    healthy_time_ += Int128(healthy_.value()) * dt;
    usable_time_ += Int128(usable_.value()) * dt;
    total_time_ += Int128(total_.value()) * dt;
    now_ = t;
  }

  void CloseHour(TimePoint t);
  static void Repay(Leaf& leaf, std::int64_t hour, std::int64_t surplus);

  void AddQueued(std::size_t job, std::int64_t sign) {
    if (!row(job).funded()) return;
    Leaf& leaf = leaves_[static_cast<std::size_t>(row(job).leaf)];
    Integrate(leaf, now_);
    leaf.queued += sign * row(job).gpus();
  }

  void AddRunning(std::size_t job, std::int64_t sign) {
    const std::int64_t gpus = sign * row(job).gpus();
    if (!row(job).funded()) {
      unfunded_gpus_ += gpus;
      return;
    }
    Leaf& leaf = leaves_[static_cast<std::size_t>(row(job).leaf)];
    Integrate(leaf, now_);
    leaf.running += gpus;
    funded_gpus_ += gpus;
  }

  // The run is gone; the workload waits again or is over.
  void Leave(std::size_t job, StopOutcome outcome) {
    AddRunning(job, -1);
    if (outcome != StopOutcome::kFailed) {
      jobs_[job].phase = Phase::kQueued;
      AddQueued(job, +1);
    } else {
      jobs_[job].phase = Phase::kFailed;
      live_.Remove(job);
    }
  }

  void AddLost(std::size_t job, Duration lost) {
    const Int128 amount = Int128(lost.count()) * row(job).gpus();
    lost_time_ += amount;
    if (!row(job).funded()) return;
    funded_lost_time_ += amount;
    leaves_[static_cast<std::size_t>(row(job).leaf)].lost += amount;
  }

  static Figure Ratio(Int128 numerator, Int128 denominator) {
    if (denominator <= 0) return std::nullopt;
    return static_cast<double>(numerator) / static_cast<double>(denominator);
  }

  static void TakeWorst(Figure& worst, Figure value) {
    if (value.has_value() && (!worst.has_value() || *value < *worst)) worst = value;
  }

  static Quantiles ToQuantiles(std::vector<Duration>& values);
  static Spread ToSpread(std::vector<Duration>& values, double unit);
  void ForecastFigures(Metrics& m) const;
  void CountJobs(Metrics& m);
  void LeafFigures(Metrics& m) const;
  void OccupancyFigures(Metrics& m) const;
  void WaitFigures(Metrics& m) const;

  const World& world_;
  const BudgetTree& tree_;
  const TimePoint warmup_;
  TimePoint end_;
  const Duration tail_;
  TimePoint now_{}, hour_begin_{};
  std::vector<Leaf> leaves_;
  std::vector<Program> programs_;
  std::vector<Job> jobs_;
  LiveJobs<Live> live_;
  std::vector<MilliGpu> entitlements_;
  GpuCount healthy_, usable_, total_;
  std::int64_t funded_gpus_ = 0, unfunded_gpus_ = 0;  // running
  std::int64_t funded_stops_ = 0, quick_stops_ = 0;
  Int128 funded_time_ = 0, unfunded_time_ = 0, healthy_time_ = 0, total_time_ = 0;
  Int128 usable_time_ = 0;
  Int128 lost_time_ = 0, funded_lost_time_ = 0;
  std::vector<Duration> to_reservation_, from_reservation_, lateness_, drains_;
  std::vector<OpenForecast> open_forecasts_;
  Metrics metrics_;
};

}  // namespace tenure::sim

#include "tenure/sim/metrics_figures.h"  // IWYU pragma: export

#endif  // TENURE_SIM_METRICS_H_
