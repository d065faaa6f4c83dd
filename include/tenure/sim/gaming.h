// SPDX-License-Identifier: Apache-2.0
//
// What a team might do to get more than its budget.
//
//   tenure::sim::World world = ...;
//   auto leaves =
//       tenure::sim::Game(world, tenure::sim::kGamingLeaf, tenure::sim::GameStrategy::kHold);
//
// Simulate the world before and after, and compare what the team's leaves were delivered and how
// long its work and that of others waited.
//
//   inflate      every session, training and serving job declares the longest minimum
//   split        funded training of more than 8 GPUs becomes independent jobs of at most 8
//   pieces       the same, and each part becomes a series of pieces of 15 min, all submitted at
//                once; that a piece would have to load what the one before saved is ignored in
//                favour of the team
//   resubmit     training becomes a series of jobs as long as their minimum (at least an hour), all
//                submitted at once: whatever runs is protected until it ends
//   hold         with each session come 8 that hold a GPU for 7 days and do not use it
//   subaccounts  the leaf is divided into 4 children of equal weight; users are dealt among them
//   high         everything has the highest priority
//   lane         training declares minimums of 15 min, up to 8 GPUs as class debug
//
// Only funded work of the team changes (with `high` all of it); the amount of real work is the
// same. Deterministic. O(J) for J jobs of the result.
#ifndef TENURE_SIM_GAMING_H_
#define TENURE_SIM_GAMING_H_

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tenure/contract.h"
#include "tenure/sim/workload.h"
#include "tenure/types.h"

namespace tenure::sim {

enum class GameStrategy : std::uint8_t {
  kNone,
  kInflate,
  kSplit,
  kPieces,
  kResubmit,
  kHold,
  kSubaccounts,
  kHigh,
  kLane,
};
inline constexpr std::array<const char*, 9> kGameNames = {
    "none", "inflate", "split", "pieces", "resubmit", "hold", "subaccounts", "high", "lane"};

constexpr const char* ToString(GameStrategy s) { return kGameNames[static_cast<std::size_t>(s)]; }

// InvalidArgument naming the strategies there are.
inline absl::StatusOr<GameStrategy> ParseGame(const std::string& name) {
  for (std::size_t i = 0; i < kGameNames.size(); ++i) {
    if (name == kGameNames[i]) return static_cast<GameStrategy>(i);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no gaming strategy '", name, "'; there are ", absl::StrJoin(kGameNames, ", ")));
}

// The leaf of 7 % of the generated institute.
inline constexpr std::int32_t kGamingLeaf = 4;

}  // namespace tenure::sim

namespace tenure::internal {

inline constexpr std::int64_t kGamePartGpus = 8;
inline constexpr std::int64_t kGameLongestSeries = 96;
inline constexpr int kGameHoards = 8;
inline constexpr std::int32_t kGameChildren = 4;
inline constexpr Duration kGamePiece = std::chrono::minutes(15);
inline constexpr Duration kGameHoardTime = std::chrono::hours(168);

inline bool IsFundedTraining(const sim::JobRow& job) {
  return job.funded() && job.klass() == WorkloadClass::kTraining;
}

// The parts of at most 8 GPUs that `job` can be cut into, itself if it is no larger.
inline std::vector<sim::JobRow> SplitJob(const sim::JobRow& job) {
  std::vector<sim::JobRow> parts;
  sim::JobRow part = job;
  part.nodes = 1;
  for (std::int32_t node = 0; node < job.nodes; ++node) {
    for (std::int64_t left = job.gpus_per_node; left > 0; left -= part.gpus_per_node) {
      part.gpus_per_node = static_cast<std::int32_t>(std::min(left, kGamePartGpus));
      parts.push_back(part);
    }
  }
  return parts;
}

// Appends `job` as a series of at most kGameLongestSeries jobs, each about as long as `piece`; the
// last microseconds are dealt out so that the sum is the work of the job.
inline void AppendSeries(const sim::JobRow& job, Duration piece, std::vector<sim::JobRow>& out) {
  const std::int64_t pieces =
      std::clamp(job.runtime_us / piece.count(), std::int64_t{1}, kGameLongestSeries);
  sim::JobRow part = job;
  part.limit_us = (job.limit_us + pieces - 1) / pieces;
  for (std::int64_t i = 0; i < pieces; ++i) {
    part.runtime_us = job.runtime_us / pieces + (i < job.runtime_us % pieces ? 1 : 0);
    out.push_back(part);
  }
}

// Appends what the team submits instead of `job`.
inline void AppendGamed(const sim::JobRow& job, sim::GameStrategy strategy,
                        std::vector<sim::JobRow>& out) {
  const ContractRules rules;
  sim::JobRow changed = job;
  switch (strategy) {
    case sim::GameStrategy::kNone:
    case sim::GameStrategy::kSubaccounts:
      break;
    case sim::GameStrategy::kInflate:
      if (job.funded() && job.klass() != WorkloadClass::kDebug) {
        changed.minimum_us = rules.Cap(job.klass()).count();
      }
      break;
    case sim::GameStrategy::kSplit:
      if (!IsFundedTraining(job) || job.gpus() <= kGamePartGpus) break;
      for (const sim::JobRow& part : SplitJob(job)) out.push_back(part);
      return;
    case sim::GameStrategy::kPieces:
      if (!IsFundedTraining(job)) break;
      for (sim::JobRow part : SplitJob(job)) {
        part.minimum_us = kGamePiece.count();
        AppendSeries(part, kGamePiece, out);
      }
      return;
    case sim::GameStrategy::kResubmit: {
      if (!IsFundedTraining(job)) break;
      const Duration shortest = std::chrono::hours(1);
      const Duration longest = rules.Cap(job.klass());
      const Duration piece = std::clamp(Duration(job.minimum_us), shortest, longest);
      changed.minimum_us = piece.count();
      AppendSeries(changed, piece, out);
      return;
    }
    case sim::GameStrategy::kHold: {
      out.push_back(job);
      if (!job.funded() || job.klass() != WorkloadClass::kInteractive) return;
      changed.runtime_us = kGameHoardTime.count();
      changed.limit_us = std::max(job.limit_us, changed.runtime_us);
      changed.minimum_us = rules.Cap(job.klass()).count();
      changed.flags |= sim::kIdle;
      out.insert(out.end(), kGameHoards, changed);
      return;
    }
    case sim::GameStrategy::kHigh:
      changed.priority = std::numeric_limits<std::int32_t>::max();
      break;
    case sim::GameStrategy::kLane:
      if (!IsFundedTraining(job)) break;
      changed.minimum_us = std::min(job.minimum_us, kGamePiece.count());
      if (GpuCount(job.gpus()) <= rules.debug_gpus) {
        changed.workload_class = static_cast<std::uint32_t>(WorkloadClass::kDebug);
      }
      break;
  }
  out.push_back(changed);
}

}  // namespace tenure::internal

namespace tenure::sim {

// Lets the team of leaf `leaf` play; returns its leaves afterwards, `leaf` itself first.
// InvalidArgument (no such leaf; `world` is unchanged).
inline absl::StatusOr<std::vector<std::int32_t>> Game(World& world, std::int32_t leaf,
                                                      GameStrategy strategy) {
  if (leaf < 0 || static_cast<std::size_t>(leaf) >= world.leaves.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("leaf is ", leaf, ", the world has ", world.leaves.size()));
  }
  std::vector<std::int32_t> leaves = {leaf};
  if (strategy == GameStrategy::kSubaccounts) {
    const LeafSpec whole = world.leaves[static_cast<std::size_t>(leaf)];
    for (std::int32_t i = 0; i < tenure::internal::kGameChildren; ++i) {
      LeafSpec child = whole;
      absl::StrAppend(&child.path, "/", i);
      child.weights.push_back(1);
      if (i == 0) {
        world.leaves[static_cast<std::size_t>(leaf)] = std::move(child);
      } else {
        leaves.push_back(static_cast<std::int32_t>(world.leaves.size()));
        world.leaves.push_back(std::move(child));
      }
    }
    for (JobRow& job : world.jobs) {
      if (job.leaf != leaf) continue;
      job.leaf = leaves[static_cast<std::size_t>(std::max(0, job.user)) % leaves.size()];
    }
  } else if (strategy != GameStrategy::kNone) {
    std::vector<JobRow> jobs;
    jobs.reserve(world.jobs.size());
    for (const JobRow& job : world.jobs) {
      if (job.leaf == leaf) {
        tenure::internal::AppendGamed(job, strategy, jobs);
      } else {
        jobs.push_back(job);
      }
    }
    world.jobs = std::move(jobs);
  }
  if (strategy != GameStrategy::kNone) {
    world.assumptions.push_back(absl::StrCat(
        "leaf ", leaf, " games the scheduler: ", kGameNames[static_cast<std::size_t>(strategy)]));
  }
  return leaves;
}

}  // namespace tenure::sim

#endif  // TENURE_SIM_GAMING_H_
