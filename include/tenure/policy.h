// SPDX-License-Identifier: Apache-2.0
//
// What a policy decides, and the two that come with the library.
//
// A policy is a small class with four hooks; everything else (feasibility, contract, gangs, holds)
// is the engine's and cannot be broken by a policy:
//
//   struct MyPolicy : tenure::PolicyDefaults {
//     Duration RankKey(const AllocationView& a) const;                  // lower is served first
//     bool MayPreempt(const PolicyContext&, const Requester&, const Victim&) const;
//     std::int64_t VictimCost(const PolicyContext&, const Run&) const;  // lower is stopped first
//     std::int64_t NodeScore(const Node&, const Shape&) const;          // if kUsesNodeScore
//   };
//
// MayPreempt must not become true because more of the victim's leaf is in the plan, and VictimCost
// is not negative.
// JudgeGroup, StopsQuiet and QuietUntil may say the same as MayPreempt for many runs at once; they
// change no decision, but save the engine from asking about each. The engine asks MayPreempt only
// for funded requesters and victims that are unfunded or past their protection. Hooks must be pure
// functions of their arguments; integers only.
#ifndef TENURE_POLICY_H_
#define TENURE_POLICY_H_

#include <algorithm>
#include <concepts>
#include <cstdint>

#include "tenure/budget_tree.h"
#include "tenure/cluster.h"
#include "tenure/contract.h"
#include "tenure/fixed_math.h"
#include "tenure/placement.h"
#include "tenure/ranking.h"
#include "tenure/types.h"
#include "tenure/workload_table.h"

namespace tenure {

// What a rank key is made of.
struct AllocationView {
  AllocationId id;
  GpuTime used;  // in the window, with the committed rest of running protections
  MilliGpu entitlement;
  GpuTime owed{};  // what a fluid would have given it in the window, if the policy CountsOwed
};

struct PolicyContext {
  const BudgetTree& tree;
  const Ranking& ranking;
  TimePoint now;
};

// A pending workload that wants GPUs.
struct Requester {
  AllocationId leaf;
  WorkloadClass workload_class = WorkloadClass::kTraining;
  GpuCount gpus;
  MilliGpu charge;       // what it takes of a share: GPUs x charge rate
  MilliGpu leaf_charge;  // what its leaf has placed already takes (funded)
  int tier = 1;
};

// A run that could be stopped for it.
struct Victim {
  const Run& run;
  bool lane = false;       // on a lane node
  MilliGpu leaf_charge;    // what its leaf has placed takes of a share, less victims in the plan
  MilliGpu leaf_sessions;  // the part of its leaf's interactive sessions
  MilliGpu leaf_serving;   // and of its services
};

// Runs of one leaf that are alike in what a policy usually judges by.
struct VictimGroup {
  AllocationId leaf;
  bool funded = false;
  bool session = false;    // interactive, funded
  bool idle = false;       // sessions reported so
  bool lane = false;       // at least one of its nodes is in the lane
  bool quiet = false;      // funded, before QuietUntil
  MilliGpu least_charge;   // each of its runs takes at least this
  MilliGpu leaf_charge;    // what its leaf has placed takes of a share
  MilliGpu leaf_sessions;  // the part of its leaf's interactive sessions
};

// MayPreempt of all runs of a group.
enum class GroupVerdict : std::uint8_t {
  kNone,  // false for each, whatever else is stopped with it
  kEach,  // each has to be asked about
  kAll,   // true for each
};

struct PolicyDefaults {
  // Number of tiers; requests of tier 1 are all served before those of tier 2.
  static constexpr int kTiers = 1;
  // Whether Tier depends on nothing of a request but its charge, and does not fall as that grows.
  static constexpr bool kTierGrowsWithCharge = false;
  static constexpr bool kUsesNodeScore = false;
  // Whether a failed attempt of a leaf also fails for every leaf served after it in the tier: true
  // if a later leaf may never stop a run that an earlier one may not. Debug requests are always
  // tried per leaf.
  static constexpr bool kSharedFailures = false;
  // With kSharedFailures: whether a leaf that has nothing placed may stop runs that one served
  // before it, which has, may not. It is tried all the same then.
  static constexpr bool kFirstStopsMore = false;
  // Whether VictimCost depends on nothing but the run and the time, so not on keys or entitlements.
  static constexpr bool kCostsIgnoreKeys = false;

  int Tier(const PolicyContext&, const Requester&) const { return 1; }
  GroupVerdict JudgeGroup(const PolicyContext&, const Requester&, const VictimGroup&) const {
    return GroupVerdict::kEach;
  }
  // Whether the request may stop any run that is in a quiet group, idle sessions aside; if so,
  // JudgeGroup is asked about each.
  bool StopsQuiet(const Requester&) const { return true; }
  // Until then a funded run that is past its protection is in a quiet group. A function of the
  // run's fields except `progress_since`.
  TimePoint QuietUntil(const Run& run) const { return run.protected_until; }
  Duration RankKey(const AllocationView& a) const {
    return internal::HoursOfShare(a.used, a.entitlement);
  }
  // Whether RankKey looks at `owed`.
  bool CountsOwed() const { return false; }
  // Unfunded runs before funded ones, then the fewest funded GPUs, then the least lost work
  // (GPU-milliseconds).
  std::int64_t VictimCost(const PolicyContext& ctx, const Run& run) const {
    const std::int64_t lost = run.gpus().value() * (run.LostIfStopped(ctx.now).count() / 1000);
    return 1 + lost + (run.funded ? run.gpus().value() * kFundedCost : 0);
  }
  std::int64_t NodeScore(const Node&, const Shape&) const { return 0; }

  // Per GPU; sums over the largest cluster stay within 63 bits.
  static constexpr std::int64_t kFundedCost = 250'000'000'000;
};

template <class P>
concept SchedulingPolicy = requires(const P p, const PolicyContext& ctx, const Requester& r,
                                    const Victim& v, const VictimGroup& g, const Run& run,
                                    const AllocationView& a, const Node& node, const Shape& shape) {
  { p.Tier(ctx, r) } -> std::same_as<int>;
  { p.RankKey(a) } -> std::same_as<Duration>;
  { p.CountsOwed() } -> std::same_as<bool>;
  { p.MayPreempt(ctx, r, v) } -> std::same_as<bool>;
  { p.JudgeGroup(ctx, r, g) } -> std::same_as<GroupVerdict>;
  { p.StopsQuiet(r) } -> std::same_as<bool>;
  { p.QuietUntil(run) } -> std::same_as<TimePoint>;
  { p.VictimCost(ctx, run) } -> std::same_as<std::int64_t>;
  { p.NodeScore(node, shape) } -> std::same_as<std::int64_t>;
  { P::kTiers } -> std::convertible_to<int>;
};

// The published policy, as written: whoever has used less of its budget over the window, compared
// level by level, may stop whoever has used more once the minimum is over. No guards.
class Ai2Policy : public PolicyDefaults {
 public:
  static constexpr bool kSharedFailures = true;

  bool MayPreempt(const PolicyContext& ctx, const Requester& r, const Victim& v) const {
    return !v.run.funded || ctx.ranking.Gap(ctx.tree, r.leaf, v.run.leaf) > Duration(0);
  }
  GroupVerdict JudgeGroup(const PolicyContext& ctx, const Requester& r,
                          const VictimGroup& g) const {
    return !g.funded || ctx.ranking.Gap(ctx.tree, r.leaf, g.leaf) > Duration(0)
               ? GroupVerdict::kAll
               : GroupVerdict::kNone;
  }
  // The most over-served allocation pays first; among its runs the least lost work.
  std::int64_t VictimCost(const PolicyContext& ctx, const Run& run) const {
    const std::int64_t lost =
        1 + run.gpus().value() * (run.LostIfStopped(ctx.now).count() / 1'000'000'000);
    if (!run.funded) return lost;
    const auto top = std::chrono::hours(100'000);
    const Duration key = std::min<Duration>(ctx.ranking.key(run.leaf), top);
    return kFundedCost + (top - key).count() / 1'000 + lost;
  }
};

struct BudgetOptions {
  Duration big_gap = std::chrono::hours(42);
  Duration quantum = std::chrono::minutes(60);
  std::uint32_t backoff = 3;
  Duration checkpoint_wait = std::chrono::minutes(15);
  std::int64_t session_permille = 50;
  std::int64_t serving_permille = 1000;
  bool express = true;
  bool lag = false;  // rank by what was used less what a fluid would have given
};

// Whether `r` may stop more than others of its tier: see PolicyDefaults::kFirstStopsMore.
template <class Policy>
constexpr bool StopsMore(const Requester& r) {
  return Policy::kFirstStopsMore && r.leaf_charge == MilliGpu(0);
}

// The default. Two tiers around the fluid entitlement F: a request that keeps its leaf within F is
// served first and may stop any run whose leaf stays at or above its own F. Runs do not divide, so
// a leaf that has nothing placed may also stop runs, but no session, of one whose key is more than
// `big_gap` larger: a job larger than F comes to its turn. A run keeps `quantum` x 2^min(stops,
// backoff) after its protection, and is left alone when it is about to write a checkpoint. Sessions
// are stopped last, and not at all while those of their leaf fit in `session_permille` of its
// entitlement; nor are services while those of their leaf fit in `serving_permille`.
class BudgetPolicy : public PolicyDefaults {
 public:
  static constexpr int kTiers = 2;
  static constexpr bool kTierGrowsWithCharge = true;
  static constexpr bool kSharedFailures = true;
  static constexpr bool kFirstStopsMore = true;
  static constexpr bool kCostsIgnoreKeys = true;

  explicit BudgetPolicy(const BudgetOptions& options = {}) : options_(options) {}
  const BudgetOptions& options() const { return options_; }

  bool CountsOwed() const { return options_.lag; }
  Duration RankKey(const AllocationView& a) const {
    return internal::HoursOfShare(options_.lag ? a.used - a.owed : a.used, a.entitlement);
  }

  int Tier(const PolicyContext& ctx, const Requester& r) const {
    return r.leaf_charge + r.charge <= ctx.ranking.fluid(r.leaf) ? 1 : 2;
  }

  // Sessions last: their state is volatile and a person waits in them.
  std::int64_t VictimCost(const PolicyContext& ctx, const Run& run) const {
    const std::int64_t cost = PolicyDefaults::VictimCost(ctx, run);
    const bool session = run.workload_class == WorkloadClass::kInteractive && !run.idle;
    return session && run.funded ? cost + run.gpus().value() * kSessionCost : cost;
  }
  static constexpr std::int64_t kSessionCost = 16 * kFundedCost;

  bool MayPreempt(const PolicyContext& ctx, const Requester& r, const Victim& v) const {
    const Run& run = v.run;
    if (!run.funded) return true;
    const bool debug = r.workload_class == WorkloadClass::kDebug;
    const bool session = run.workload_class == WorkloadClass::kInteractive;
    if (session && run.idle) return true;
    if (run.workload_class == WorkloadClass::kServing &&
        Fits(ctx, run.leaf, v.leaf_serving, options_.serving_permille)) {
      return false;
    }
    if (debug && v.lane && run.gpus() <= GpuCount(8)) return true;
    if (run.leaf == r.leaf) {
      return options_.express && debug && !session && run.workload_class != WorkloadClass::kDebug;
    }
    if (ctx.now < QuietUntil(run)) return false;
    if (session && SessionsStay(ctx, run.leaf, v.leaf_sessions)) return false;
    const bool entitled =
        r.tier == 1 && v.leaf_charge - run.charge() >= ctx.ranking.fluid(run.leaf);
    if (!entitled && (session || !FarBehind(ctx, r, run.leaf))) return false;
    return debug || session || !AboutToCheckpoint(run, ctx.now);
  }

  GroupVerdict JudgeGroup(const PolicyContext& ctx, const Requester& r,
                          const VictimGroup& g) const {
    if (!g.funded || g.idle) return GroupVerdict::kAll;
    const bool debug = r.workload_class == WorkloadClass::kDebug;
    if (debug && (g.lane || g.leaf == r.leaf)) return GroupVerdict::kEach;
    if (g.quiet || g.leaf == r.leaf) return GroupVerdict::kNone;
    if (g.session && SessionsStay(ctx, g.leaf, g.leaf_sessions)) return GroupVerdict::kNone;
    const bool entitled =
        r.tier == 1 && g.leaf_charge - g.least_charge >= ctx.ranking.fluid(g.leaf);
    return entitled || (!g.session && FarBehind(ctx, r, g.leaf)) ? GroupVerdict::kEach
                                                                 : GroupVerdict::kNone;
  }

  bool StopsQuiet(const Requester& r) const { return r.workload_class == WorkloadClass::kDebug; }

  TimePoint QuietUntil(const Run& run) const {
    return run.protected_until +
           options_.quantum * (std::int64_t{1} << std::min(run.stops, options_.backoff));
  }

 private:
  bool FarBehind(const PolicyContext& ctx, const Requester& r, AllocationId victim) const {
    return r.leaf_charge == MilliGpu(0) &&
           ctx.ranking.Gap(ctx.tree, r.leaf, victim) > options_.big_gap;
  }

  bool SessionsStay(const PolicyContext& ctx, AllocationId leaf, MilliGpu sessions) const {
    return Fits(ctx, leaf, sessions, options_.session_permille);
  }
  static bool Fits(const PolicyContext& ctx, AllocationId leaf, MilliGpu part,
                   std::int64_t permille) {
    return part.value() * 1'000 <= ctx.ranking.entitlement(leaf).value() * permille;
  }

  bool AboutToCheckpoint(const Run& run, TimePoint now) const {
    if (!run.resumable || run.restorable || run.checkpoint_interval <= Duration(0)) return false;
    const Duration progress = now - run.progress_since;
    if (progress <= Duration(0)) return false;
    const Duration next =
        run.checkpoint_interval - Duration(progress.count() % run.checkpoint_interval.count());
    // Half of the time at most: nobody is left alone for ever by saving often.
    return next <= std::min(options_.checkpoint_wait, run.checkpoint_interval / 2);
  }

  BudgetOptions options_;
};

static_assert(SchedulingPolicy<Ai2Policy>);
static_assert(SchedulingPolicy<BudgetPolicy>);

}  // namespace tenure

#endif  // TENURE_POLICY_H_
