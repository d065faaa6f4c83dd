// SPDX-License-Identifier: Apache-2.0
//
// The workload of a synthetic research institute: 15 projects in 5 programs, about 150 users, five
// kinds of work that together ask for more than twice the cluster. The same work can be given to a
// budget tree of another shape and to a cluster of another size.
//
//   tenure::sim::InstituteOptions options;
//   options.load = 1.7;
//   options.seed = 3;
//   absl::StatusOr<tenure::sim::World> world = tenure::sim::GenerateInstitute(options);
//
// Each project moves between idle, normal and bursting (x 0.1, 0.8, 2.5), independently of the
// others, and submits, as thinned Poisson streams:
//   training     8-64 GPUs, median 6 h, minimum 15 min - 8 h, more by day
//   gangs        128-512 GPUs, 4-22 h, minimum 4 or 8 h; only projects with at least 5 % of the
//                cluster (256 GPUs from 7 %, 512 from 12 %). Class training, like the above.
//   interactive  1 GPU, median 24 h, minimum 4 or 8 h, in working hours. A stopped session keeps
//                its work (kCheckpointOnNotice) and needs 15 min to come back.
//   debug        1-8 GPUs, median 8 min, minimum 10 or 15 min, in working hours, not resumable
//   sweep        1-8 GPUs, median 3 h, minimum 0, the same rate at all times
// Time 0 is a Monday, 0:00. At load 1.3 the funded work offered is about 0.9 of the capacity, at
// 1.7 about 1.2, sweeps add 1.35; a seed differs from the next by 0.1.
#ifndef TENURE_SIM_INSTITUTE_H_
#define TENURE_SIM_INSTITUTE_H_

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/numeric/int128.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenure/contract.h"
#include "tenure/sim/random.h"
#include "tenure/sim/tree_shape.h"
#include "tenure/sim/workload.h"
#include "tenure/types.h"

namespace tenure::sim {

struct InstituteOptions {
  double load = 1.3;      // peak factor of funded work, [0, 100], in steps of 0.001
  double freeload = 1.5;  // the same for sweeps
  std::uint64_t seed = 1;
  std::int32_t days = 30;            // after the warm-up, >= 1
  std::int32_t warmup_days = 7;      // >= 0; jobs are submitted in [0, warmup_days + days)
  std::int32_t debug_per_day = 450;  // debug jobs in an average day's working hours, [0, 10^6]
  std::int32_t nodes = 128;
  std::int32_t gpus_per_node = 8;    // a power of two
  std::int32_t nodes_per_rack = 16;  // 0 = no racks
  // Longest minimum that users declare, > 0: those above are cut to it; if it is longer than 8 h,
  // those who else declare 8 h declare it.
  Duration mincap = std::chrono::hours(8);
  TreeShape tree{};
};

}  // namespace tenure::sim

namespace tenure::internal {

// The generator of one leaf after the other. All arithmetic on integers, see random.h.
class InstituteGenerator {
 public:
  InstituteGenerator(const sim::InstituteOptions& options,
                     const std::vector<sim::ShapedLeaf>& leaves)
      : options_(options),
        leaves_(leaves),
        capacity_(std::int64_t{options.nodes} * options.gpus_per_node),
        load_milli_(ToThousandths(options.load)),
        freeload_milli_(ToThousandths(options.freeload)),
        end_(std::chrono::hours(24) * (std::int64_t{options.warmup_days} + options.days)) {
    for (const sim::ShapedLeaf& leaf : leaves_) whole_ += leaf.parts;
    // Users and debug jobs grow with the square root of the share. In Q20 for parts that are per
    // cent; the shift keeps larger ones within 64 bits.
    const int shift = whole_ < (std::int64_t{1} << 20) ? 40 : 24;
    for (const sim::ShapedLeaf& leaf : leaves_) {
      root_.push_back(
          static_cast<std::int64_t>(IntegerSqrt(static_cast<std::uint64_t>(leaf.parts) << shift)));
      root_sum_ += root_.back();
    }
  }

  static std::int64_t ToThousandths(double x) { return static_cast<std::int64_t>(x * 1000 + 0.5); }

  std::vector<sim::JobRow> Generate() {
    for (std::size_t leaf = 0; leaf < leaves_.size(); ++leaf) {
      leaf_ = leaf;
      parts_ = leaves_[leaf].parts;
      users_ = std::max<std::int64_t>(2, (2 * kUsers * root_[leaf] + root_sum_) / (2 * root_sum_));
      MakeStates();
      Training();
      Gangs();
      Interactive();
      Debug();
      Sweeps();
      first_user_ += users_;
    }
    std::stable_sort(jobs_.begin(), jobs_.end(), [](const sim::JobRow& a, const sim::JobRow& b) {
      return a.submit_us < b.submit_us;
    });
    return std::move(jobs_);
  }

 private:
  static constexpr std::int64_t kUsers = 150;
  static constexpr Duration kHour = std::chrono::hours(1);
  static constexpr Duration kMinute = std::chrono::minutes(1);
  enum Stream : std::uint64_t { kStates, kTraining, kGangs, kInteractive, kDebug, kSweeps };
  struct State {
    Duration begin;
    int tenths;  // factor of the demand
  };

  sim::Rng Random(Stream stream) const { return sim::Rng(options_.seed, 1 + leaf_ * 8 + stream); }

  // numerator / denominator as a mean time between submissions; kNone if the rate is 0.
  static constexpr Duration kNone = Duration::max();
  static Duration Mean(absl::int128 numerator, absl::int128 denominator) {
    if (denominator == 0) return kNone;
    const absl::int128 mean = numerator / denominator;
    return mean >= Duration::max().count() ? kNone : Duration(static_cast<std::int64_t>(mean));
  }

  // Calls f(time) at the points of a Poisson process with the given mean gap.
  template <typename F>
  void ForEachPoint(sim::Rng& rng, Duration mean, F f) const {
    if (mean == kNone) return;
    for (Duration t(0); (t += rng.Exponential(mean)) < end_;) f(t);
  }

  void MakeStates() {
    static constexpr std::array<int, 3> kWeights = {3, 4, 2};
    static constexpr std::array<std::int64_t, 3> kMeanHours = {36, 48, 24};
    static constexpr std::array<int, 3> kTenths = {1, 8, 25};
    sim::Rng rng = Random(kStates);
    states_.clear();
    for (Duration t(0); t < end_;) {
      const std::size_t s = rng.Pick(kWeights);
      states_.push_back({t, kTenths[s]});
      t += rng.Exponential(kHour * kMeanHours[s]) + 4 * kHour;
    }
  }

  int DemandTenths(Duration t) const {
    const auto after = std::upper_bound(states_.begin(), states_.end(), t,
                                        [](Duration x, const State& s) { return x < s.begin; });
    return std::prev(after)->tenths;
  }

  static std::int64_t HourOfDay(Duration t) { return t / kHour % 24; }
  static bool WorkingHours(Duration t) {
    return HourOfDay(t) >= 9 && HourOfDay(t) < 19 && t / (24 * kHour) % 7 < 5;
  }

  // Whether the leaf's share is at least `percent`.
  bool HasPercent(std::int64_t percent) const { return parts_ * 100 >= percent * whole_; }
  // Per cent of the funded load that is gangs; 0 where the cluster is too small for one.
  int GangPercent() const { return HasPercent(5) && capacity_ >= 128 ? 30 : 0; }

  void Training() {
    static constexpr std::array<std::int64_t, 4> kSizes = {8, 16, 32, 64};
    static constexpr std::array<int, 4> kSizeWeights = {40, 25, 20, 15};
    static constexpr std::array<std::int64_t, 6> kMinimumMinutes = {15, 30, 60, 120, 240, 480};
    static constexpr std::array<int, 6> kMinimumWeights = {10, 15, 20, 20, 20, 15};
    sim::Rng rng = Random(kTraining);
    const auto draw = [&] {
      std::int64_t gpus;
      do {
        gpus = kSizes[rng.Pick(kSizeWeights)];
      } while (gpus > 16 && gpus * whole_ > parts_ * capacity_);
      return std::pair(gpus, rng.LogNormal(6 * kHour, 1100, kHour * 3 / 10, 96 * kHour));
    };
    // The mean work of a job, from a sample: GPU-microseconds.
    constexpr std::int64_t kSample = 4000;
    std::int64_t work = 0;
    for (std::int64_t i = 0; i < kSample; ++i) {
      const auto [gpus, runtime] = draw();
      work += gpus * runtime.count();
    }
    // Peak rate = load * (1 - gangs - 0.08 interactive) * 2.5 * E / mean work.
    const absl::int128 rate =
        absl::int128(load_milli_) * (92 - GangPercent()) * 25 * parts_ * capacity_;
    const Duration mean = Mean(absl::int128(work / kSample) * 1'000'000 * whole_, rate);
    ForEachPoint(rng, mean, [&](Duration t) {
      const bool day = HourOfDay(t) >= 9 && HourOfDay(t) < 21;  // 1.4 by day, 0.6 by night
      if (!rng.Chance(DemandTenths(t) * (day ? 7 : 3), 25 * 7)) return;
      const auto [gpus, runtime] = draw();
      Add(rng, WorkloadClass::kTraining, gpus, runtime,
          kMinute * kMinimumMinutes[rng.Pick(kMinimumWeights)], t);
    });
  }

  void Gangs() {
    if (GangPercent() == 0) return;
    static constexpr std::array<std::int64_t, 3> kSizes = {128, 256, 512};
    const std::array<int, 3> weights = {4, HasPercent(7) && capacity_ >= 256 ? 2 : 0,
                                        HasPercent(12) && capacity_ >= 512 ? 1 : 0};
    std::int64_t gpus_sum = 0, weight_sum = 0;
    for (std::size_t i = 0; i < kSizes.size(); ++i) {
      gpus_sum += kSizes[i] * weights[i];
      weight_sum += weights[i];
    }
    sim::Rng rng = Random(kGangs);
    // Peak rate = load * gangs * E / mean work * 2.5 / 0.94; the mean runtime is 13 h.
    const absl::int128 work = absl::int128((13 * kHour).count()) * gpus_sum;
    const absl::int128 rate =
        absl::int128(load_milli_) * GangPercent() * parts_ * capacity_ * weight_sum * 25;
    const Duration mean = Mean(work * 100'000 * whole_ * 94 / 10, rate);
    ForEachPoint(rng, mean, [&](Duration t) {
      if (!rng.Chance(DemandTenths(t), 25)) return;
      const std::int64_t gpus = kSizes[rng.Pick(weights)];
      const Duration runtime = rng.Uniform(4 * kHour, 22 * kHour);
      const Duration minimum = (rng.Chance(1, 2) ? 4 : 8) * kHour;
      Add(rng, WorkloadClass::kTraining, gpus, runtime, minimum, t);
    });
  }

  void Interactive() {
    sim::Rng rng = Random(kInteractive);
    // Peak rate = load * 0.08 * 2.4 * E / 40 h.
    const absl::int128 rate = absl::int128(load_milli_) * 192 * parts_ * capacity_;
    const Duration mean = Mean(absl::int128((40 * kHour).count()) * 1'000'000 * whole_, rate);
    ForEachPoint(rng, mean, [&](Duration t) {
      if (!WorkingHours(t) && !rng.Chance(1, 10)) return;
      const Duration runtime = rng.LogNormal(24 * kHour, 1100, 2 * kHour, 168 * kHour);
      const Duration minimum = (rng.Chance(3, 10) ? 4 : 8) * kHour;
      Add(rng, WorkloadClass::kInteractive, 1, runtime, minimum, t);
    });
  }

  void Debug() {
    static constexpr std::array<int, 4> kSizeWeights = {50, 20, 15, 15};
    sim::Rng rng = Random(kDebug);
    // Peak rate = debug_per_day * 24/10 * 7/5, so that the nominal number is reached
    // although work is submitted in 10 of 24 hours and 5 of 7 days; off-hours (5 %) come on top.
    const absl::int128 rate = absl::int128(options_.debug_per_day) * 336 * root_[leaf_];
    const Duration mean = Mean(absl::int128((24 * kHour).count()) * 100 * root_sum_, rate);
    ForEachPoint(rng, mean, [&](Duration t) {
      if (!WorkingHours(t) && !rng.Chance(1, 20)) return;
      const std::int64_t gpus = std::int64_t{1} << rng.Pick(kSizeWeights);
      const Duration runtime = rng.LogNormal(8 * kMinute, 800, kMinute, kHour);
      const Duration minimum = (rng.Chance(1, 2) ? 15 : 10) * kMinute;
      Add(rng, WorkloadClass::kDebug, gpus, runtime, minimum, t);
    });
  }

  void Sweeps() {
    static constexpr std::array<int, 4> kSizeWeights = {30, 15, 25, 30};
    sim::Rng rng = Random(kSweeps);
    // Rate = freeload * E / (3.9 GPUs * 5.0 h).
    const absl::int128 rate = absl::int128(freeload_milli_) * parts_ * capacity_;
    const Duration mean = Mean(absl::int128((kHour * 195 / 10).count()) * 1000 * whole_, rate);
    ForEachPoint(rng, mean, [&](Duration t) {
      const std::int64_t gpus = std::int64_t{1} << rng.Pick(kSizeWeights);
      const Duration runtime = rng.LogNormal(3 * kHour, 900, kHour / 5, 24 * kHour);
      Add(rng, WorkloadClass::kSweep, gpus, runtime, Duration(0), t);
    });
  }

  void Add(sim::Rng& rng, WorkloadClass klass, std::int64_t gpus, Duration runtime,
           Duration minimum, Duration submit) {
    const bool sweep = klass == WorkloadClass::kSweep;
    minimum = minimum < 8 * kHour ? std::min(minimum, options_.mincap) : options_.mincap;
    sim::JobRow row;
    row.submit_us = submit.count();
    row.runtime_us = runtime.count();
    row.minimum_us = minimum.count();
    row.limit_us = rng.Uniform(runtime * 11 / 10, runtime * 3).count();
    // About two checkpoints fit into a minimum, or no protected run would make lasting progress.
    const Duration checkpoint = std::min((rng.Chance(1, 2) ? 30 : 60) * kMinute,
                                         std::max(10 * kMinute, minimum * 67 / 100));
    row.checkpoint_us = (sweep ? 30 * kMinute : checkpoint).count();
    row.restart_us = (klass == WorkloadClass::kInteractive ? 15 * kMinute
                                                           : rng.Uniform(5 * kMinute, 10 * kMinute))
                         .count();
    row.patience_us = (PatienceHours(klass, gpus) * kHour).count();
    row.leaf = static_cast<std::int32_t>(leaf_);
    row.user = static_cast<std::int32_t>(first_user_ + rng.Below(users_));
    row.nodes = static_cast<std::int32_t>(std::max<std::int64_t>(1, gpus / options_.gpus_per_node));
    row.gpus_per_node =
        static_cast<std::int32_t>(std::min<std::int64_t>(gpus, options_.gpus_per_node));
    row.workload_class = static_cast<std::uint32_t>(klass);
    row.flags = klass == WorkloadClass::kDebug         ? 0u
                : klass == WorkloadClass::kInteractive ? sim::kResumable | sim::kCheckpointOnNotice
                                                       : std::uint32_t{sim::kResumable};
    jobs_.push_back(row);
  }

  static std::int64_t PatienceHours(WorkloadClass klass, std::int64_t gpus) {
    switch (klass) {
      case WorkloadClass::kDebug:
        return 12;
      case WorkloadClass::kInteractive:
        return 24;
      default:
        return gpus >= 128 ? 168 : 72;
    }
  }

  const sim::InstituteOptions& options_;
  const std::vector<sim::ShapedLeaf>& leaves_;
  const std::int64_t capacity_, load_milli_, freeload_milli_;
  const Duration end_;
  std::vector<std::int64_t> root_;
  std::int64_t whole_ = 0, root_sum_ = 0, users_ = 0, first_user_ = 0;
  std::size_t leaf_ = 0;
  std::int64_t parts_ = 0;  // of leaf_
  std::vector<State> states_;
  std::vector<sim::JobRow> jobs_;
};

}  // namespace tenure::internal

namespace tenure::sim {

// The world of `options`: the same table for the same options, on any machine. Demand scales with
// the cluster; sizes that a small one could never hold are not drawn. O(J log J) for J jobs
// (93,000 with the defaults). InvalidArgument naming the option.
inline absl::StatusOr<World> GenerateInstitute(const InstituteOptions& options) {
  const auto bad = [](const char* option, auto value, const char* rule) {
    return absl::InvalidArgumentError(absl::StrCat(option, " is ", value, ", must be ", rule));
  };
  // Written so that NaN fails.
  if (!(options.load >= 0 && options.load <= 100)) return bad("load", options.load, "in [0, 100]");
  if (!(options.freeload >= 0 && options.freeload <= 100)) {
    return bad("freeload", options.freeload, "in [0, 100]");
  }
  if (options.days < 1 || options.days > 3660) return bad("days", options.days, "in [1, 3660]");
  if (options.warmup_days < 0 || options.warmup_days > 3660) {
    return bad("warmup_days", options.warmup_days, "in [0, 3660]");
  }
  if (options.debug_per_day < 0 || options.debug_per_day > 1'000'000) {
    return bad("debug_per_day", options.debug_per_day, "in [0, 1000000]");
  }
  if (options.gpus_per_node < 1 || options.gpus_per_node > 512 ||
      !std::has_single_bit(static_cast<std::uint32_t>(options.gpus_per_node))) {
    return bad("gpus_per_node", options.gpus_per_node, "a power of two in [1, 512]");
  }
  if (options.nodes < 1 || std::int64_t{options.nodes} * options.gpus_per_node < 16 ||
      std::int64_t{options.nodes} * options.gpus_per_node > kMaxClusterGpus) {
    return bad("nodes", options.nodes, "such that the cluster has 16 to 2097152 GPUs");
  }
  if (options.nodes_per_rack < 0) return bad("nodes_per_rack", options.nodes_per_rack, ">= 0");
  if (options.mincap <= Duration(0)) return bad("mincap", options.mincap.count(), "positive");

  World world;
  world.cluster = {.nodes = options.nodes,
                   .gpus_per_node = options.gpus_per_node,
                   .nodes_per_rack = options.nodes_per_rack};
  const absl::StatusOr<std::vector<ShapedLeaf>> leaves = ShapeTree(options.tree);
  if (!leaves.ok()) return leaves.status();
  for (const ShapedLeaf& leaf : *leaves) world.leaves.push_back(leaf.spec);
  world.jobs = tenure::internal::InstituteGenerator(options, *leaves).Generate();
  world.assumptions.push_back(absl::StrCat("synthetic workload: institute, load ", options.load,
                                           ", freeload ", options.freeload, ", seed ",
                                           options.seed));
  if (absl::Status status = CheckWorld(world); !status.ok()) return status;
  return world;
}

}  // namespace tenure::sim

#endif  // TENURE_SIM_INSTITUTE_H_
