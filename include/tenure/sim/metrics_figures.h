// SPDX-License-Identifier: Apache-2.0
//
// MetricsRecorder: from what was recorded to figures. Included by metrics.h; not for direct use.
#ifndef TENURE_SIM_METRICS_FIGURES_H_
#define TENURE_SIM_METRICS_FIGURES_H_

#include "tenure/sim/metrics.h"

namespace tenure::sim {

inline void MetricsRecorder::CloseHour(TimePoint t) {
  const std::int64_t hour = hour_begin_.time_since_epoch() / kHour;
  for (Leaf& leaf : leaves_) {
    Integrate(leaf, t);
    const std::int64_t owed = std::min(leaf.entitled / 1000, leaf.demand);
    const std::int64_t credited = std::min(owed, leaf.delivered);
    leaf.entitled_sum += leaf.entitled;
    leaf.owed += owed;
    leaf.got += leaf.delivered;
    leaf.strict += credited;
    leaf.repaid += credited;
    Repay(leaf, hour, leaf.delivered - owed);
    if (leaf.program != kNoProgram) {
      Program& program = programs_[leaf.program];
      program.demand = AddProduct(program.demand, leaf.demand, 1);
      program.delivered = AddProduct(program.delivered, leaf.delivered, 1);
    }
    leaf.entitled = leaf.demand = leaf.delivered = 0;
  }
  for (Program& program : programs_) {
    Integrate(program, t);
    program.owed += std::min(program.entitled / 1000, program.demand);
    program.got += program.delivered;
    program.entitled = program.demand = program.delivered = 0;
  }
  hour_begin_ = t;
}

inline void MetricsRecorder::Repay(Leaf& leaf, std::int64_t hour, std::int64_t surplus) {
  std::vector<Shortfall>& due = leaf.shortfalls;
  auto first = due.begin();
  while (first != due.end() && first->hour + kRepayHours < hour) ++first;
  for (; surplus > 0 && first != due.end(); ++first) {
    const std::int64_t amount = std::min(surplus, first->amount);
    leaf.repaid += amount;
    surplus -= amount;
    first->amount -= amount;
    if (first->amount > 0) break;
  }
  due.erase(due.begin(), first);
  if (surplus < 0) due.push_back({hour, -surplus});
}

inline Quantiles MetricsRecorder::ToQuantiles(std::vector<Duration>& values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&](std::size_t percent) {
    const std::size_t n = values.size();
    const Duration d = values[std::min(n - 1, n * percent / 100)];
    return static_cast<double>(d.count()) / 1e6;
  };
  return {.p50 = at(50), .p90 = at(90), .p99 = at(99)};
}

inline Spread MetricsRecorder::ToSpread(std::vector<Duration>& values, double unit) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&](std::size_t percent) {
    const std::size_t n = values.size();
    return static_cast<double>(values[std::min(n - 1, n * percent / 100)].count()) / unit;
  };
  return {.p50 = at(50), .p90 = at(90), .max = at(100)};
}

inline void MetricsRecorder::ForecastFigures(Metrics& m) const {
  const auto seconds = [](Duration d) { return static_cast<double>(d.count()) / 1e6; };
  for (const OpenForecast& f : open_forecasts_) {
    ForecastSample sample;
    if (f.predicted != kNever) sample.predicted_s = seconds(f.predicted - f.made);
    sample.promised = f.promised;
    if (f.actual != kNever) sample.actual_s = seconds(f.actual - f.made);
    sample.until_end_s = seconds(end_ - f.made);
    m.forecasts.push_back(sample);
  }
}

inline void MetricsRecorder::CountJobs(Metrics& m) {
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    switch (jobs_[i].phase) {
      case Phase::kUnseen:
        break;
      case Phase::kQueued:
        ++m.jobs_queued;
        if (CountsPromise(live_[i]) && live_[i].start_by < end_) ++m.promises_broken;
        break;
      case Phase::kRunning: {
        ++m.jobs_running;
        // Of a run that goes on, the overhead it has spent so far is lost.
        const Live& j = live_[i];
        if (now_ >= warmup_) AddLost(i, std::clamp(end_ - j.start, Duration(0), j.overhead));
        break;
      }
      case Phase::kDone:
        ++m.jobs_done;
        break;
      case Phase::kFailed:
        ++m.jobs_failed;
        break;
      case Phase::kWithdrawn:
        ++m.jobs_withdrawn;
        break;
      case Phase::kNeverFits:
        ++m.jobs_never_fit;
        break;
    }
  }
}

inline void MetricsRecorder::LeafFigures(Metrics& m) const {
  Int128 owed = 0, cum = 0, strict = 0, repaid = 0;
  m.leaf.resize(leaves_.size());
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    const Leaf& leaf = leaves_[i];
    const Int128 clipped = std::min(leaf.got, leaf.owed);
    LeafResult& r = m.leaf[i];
    r.share = Ratio(leaf.entitled_sum, healthy_time_ * 1000).value_or(0);
    r.owed_gpu_h = static_cast<double>(leaf.owed) / 3.6e9;
    r.delivered_gpu_h = static_cast<double>(leaf.got) / 3.6e9;
    r.lost_gpu_h = static_cast<double>(leaf.lost) / 3.6e9;
    r.owed_cum = Ratio(clipped, leaf.owed);
    r.owed_strict = Ratio(leaf.strict, leaf.owed);
    r.owed_win7 = Ratio(leaf.repaid, leaf.owed);
    TakeWorst(m.owed_cum_worst, r.owed_cum);
    TakeWorst(m.owed_win7_worst, r.owed_win7);
    if (leaf.owed > 0) {
      ++m.leaves;
      if (clipped * 100 >= leaf.owed * 95) ++m.leaves_ge_95;
    }
    owed += leaf.owed;
    cum += clipped;
    strict += leaf.strict;
    repaid += leaf.repaid;
  }
  m.owed_cum = Ratio(cum, owed);
  m.owed_strict = Ratio(strict, owed);
  m.owed_win7 = Ratio(repaid, owed);
  for (const Program& p : programs_) {
    TakeWorst(m.owed_cum_worst_program, Ratio(std::min(p.got, p.owed), p.owed));
  }
}

inline void MetricsRecorder::OccupancyFigures(Metrics& m) const {
  const Int128 occupied = funded_time_ + unfunded_time_;
  m.goodput = Ratio(funded_time_ - funded_lost_time_, usable_time_);
  m.waste = Ratio(lost_time_, occupied);
  m.occupancy = Ratio(occupied, usable_time_);
  m.availability = Ratio(healthy_time_, total_time_);
  m.unfunded_share = Ratio(unfunded_time_, occupied);
}

inline void MetricsRecorder::WaitFigures(Metrics& m) const {
  std::array<std::vector<Duration>, kWaitGroups> waits;
  std::vector<std::vector<Duration>> leaf_waits(leaves_.size());
  std::vector<Duration> turnarounds;
  std::int64_t funded = 0, gangs_done = 0;
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    const Job& j = jobs_[i];
    if (j.phase == Phase::kUnseen || j.phase == Phase::kNeverFits) continue;
    if (j.submit < warmup_ || j.submit >= end_ - tail_) continue;
    const Duration to_end = end_ - j.submit;
    const Duration patience =
        row(i).patience_us > 0 ? Duration(row(i).patience_us) : Duration::max();
    const Duration wait =
        j.first_start != kNever ? j.first_start - j.submit : std::min(patience, to_end);
    const auto add = [&](WaitGroup group) {
      waits[static_cast<std::size_t>(group)].push_back(wait);
    };
    if (!row(i).funded()) {
      add(WaitGroup::kSweep);
      continue;
    }
    ++funded;
    add(WaitGroup::kAll);
    leaf_waits[static_cast<std::size_t>(row(i).leaf)].push_back(wait);
    switch (row(i).klass()) {
      case WorkloadClass::kDebug:
        add(WaitGroup::kDebug);
        break;
      case WorkloadClass::kInteractive:
        add(WaitGroup::kInteractive);
        break;
      case WorkloadClass::kTraining:
        if (GpuCount(row(i).gpus()) < kGangGpus) {
          add(WaitGroup::kTraining);
        } else {
          add(WaitGroup::kGang);
          const bool done = j.finish != kNever && j.finish <= end_;
          gangs_done += done ? 1 : 0;
          turnarounds.push_back(done                           ? j.finish - j.submit
                                : j.phase == Phase::kWithdrawn ? patience
                                                               : to_end);
        }
        break;
      case WorkloadClass::kServing:
      case WorkloadClass::kSweep:
        break;
    }
  }
  m.gangs_done_share = Ratio(gangs_done, static_cast<std::int64_t>(turnarounds.size()));
  m.gang_turnaround_s = ToQuantiles(turnarounds);
  m.preemptions_per_job = Ratio(funded_stops_, funded);
  for (std::size_t g = 0; g < kWaitGroups; ++g) m.wait_s[g] = ToQuantiles(waits[g]);
  for (std::size_t l = 0; l < leaves_.size(); ++l) m.leaf[l].wait_s = ToQuantiles(leaf_waits[l]);
}

}  // namespace tenure::sim

#endif  // TENURE_SIM_METRICS_FIGURES_H_
