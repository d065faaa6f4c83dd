// SPDX-License-Identifier: Apache-2.0
//
// A preset with hooks of the caller's: what `tenure_options_set_hooks` asks for.
#include "face.h"
#include "tenure/policy.h"
#include "tenure/presets.h"

namespace tenure::capi {
namespace {

// The policy of a preset, where a hook that is set takes the place of its own. `kScores`: there is
// a node_score hook; without one placement answers from its indices, as it does for the preset.
// Which preset it is costs a branch and not a further engine to compile.
template <bool kScores>
class HookedPolicy : public PolicyDefaults {
 public:
  static constexpr int kTiers = 2;
  static constexpr bool kUsesNodeScore = kScores;
  // Nothing is known about what the hooks refuse.
  static constexpr bool kSharedFailures = false;

  HookedPolicy(const Preset& preset, const tenure_policy_hooks& hooks)
      : budget_(preset.budget), published_(preset.ai2), hooks_(hooks) {}

  Duration RankKey(const AllocationView& a) const {
    if (hooks_.rank_key == nullptr) {
      return published_ ? ai2_.RankKey(a) : budget_.RankKey(a);
    }
    const tenure_allocation_view view = {sizeof(view), a.id.value(), a.used.value(),
                                         a.entitlement.value()};
    return Duration(std::clamp<std::int64_t>(hooks_.rank_key(hooks_.user, &view), 0, kLargest));
  }

  int Tier(const PolicyContext& ctx, const Requester& r) const {
    if (hooks_.tier == nullptr) return published_ ? ai2_.Tier(ctx, r) : budget_.Tier(ctx, r);
    const tenure_requester_view requester = View(ctx, r);
    return hooks_.tier(hooks_.user, &requester) == 1 ? 1 : 2;
  }

  bool MayPreempt(const PolicyContext& ctx, const Requester& r, const Victim& v) const {
    if (hooks_.may_preempt == nullptr) {
      return published_ ? ai2_.MayPreempt(ctx, r, v) : budget_.MayPreempt(ctx, r, v);
    }
    const tenure_requester_view requester = View(ctx, r);
    tenure_run_view victim = View(ctx, v.run);
    victim.lane = v.lane;
    victim.allocation_placed_mgpu = v.leaf_charge.value();
    victim.gap_us = ctx.ranking.Gap(ctx.tree, r.leaf, v.run.leaf).count();
    return hooks_.may_preempt(hooks_.user, &requester, &victim) != 0;
  }

  std::int64_t VictimCost(const PolicyContext& ctx, const Run& run) const {
    if (hooks_.victim_cost == nullptr) {
      return published_ ? ai2_.VictimCost(ctx, run) : budget_.VictimCost(ctx, run);
    }
    const tenure_run_view view = View(ctx, run);
    // So that the costs of all runs of the largest cluster together fit 63 bits.
    const std::int64_t most = run.gpus().value() << 41;
    return std::clamp<std::int64_t>(hooks_.victim_cost(hooks_.user, &view), 0, most);
  }
  static_assert(kMaxClusterGpus <= std::int64_t{1} << 21);

  std::int64_t NodeScore(const Node& n, const Shape& shape) const {
    if (hooks_.node_score == nullptr) return 0;
    const tenure_node_view view = {sizeof(view),     static_cast<std::uint32_t>(shape.nodes),
                                   shape.gpus,       n.gpus,
                                   n.free(),         n.type.value(),
                                   n.domain.value(), static_cast<std::int32_t>(n.runs.size()),
                                   n.name.c_str()};
    return std::clamp(hooks_.node_score(hooks_.user, &view), -kLargest, kLargest);
  }

 private:
  static constexpr std::int64_t kLargest = std::int64_t{1} << 61;

  static tenure_requester_view View(const PolicyContext& ctx, const Requester& r) {
    return {sizeof(tenure_requester_view),
            r.leaf.value(),
            static_cast<std::int32_t>(r.workload_class),
            r.tier,
            r.gpus.value(),
            r.charge.value(),
            r.leaf_charge.value(),
            ctx.ranking.entitlement(r.leaf).value(),
            ctx.ranking.fluid(r.leaf).value(),
            ctx.ranking.key(r.leaf).count()};
  }

  static tenure_run_view View(const PolicyContext& ctx, const Run& run) {
    tenure_run_view v = {};
    v.struct_size = sizeof(v);
    v.allocation = run.leaf.value();
    v.workload = run.id.value();
    v.workload_class = static_cast<std::int32_t>(run.workload_class);
    v.funded = run.funded;
    v.resumable = run.resumable;
    v.idle = run.idle;
    v.gpus = run.gpus().value();
    v.charge_mgpu = run.charge().value();
    v.stops = run.stops;
    v.now_us = Us(ctx.now);
    v.start_us = Us(run.start);
    v.protected_until_us = Us(run.protected_until);
    v.progress_since_us = Us(run.progress_since);
    v.checkpoint_interval_us = run.checkpoint_interval.count();
    v.lost_us = run.LostIfStopped(ctx.now).count();
    v.entitlement_mgpu = ctx.ranking.entitlement(run.leaf).value();
    v.fluid_mgpu = ctx.ranking.fluid(run.leaf).value();
    v.key_us = ctx.ranking.key(run.leaf).count();
    return v;
  }

  BudgetPolicy budget_;
  Ai2Policy ai2_;
  bool published_;
  tenure_policy_hooks hooks_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<AnyScheduler>> MakeHooked(const tenure_options& options) {
  Preset preset = MakePreset(options.policy);
  if (absl::Status s = preset.Set(options.policy, options.parameters); !s.ok()) return s;
  preset.scheduler.ranking.fluid = true;  // the hooks may ask for it
  const tenure_policy_hooks& hooks = options.hooks;
  if (hooks.node_score == nullptr) {
    return MakeScheduler(preset.scheduler, HookedPolicy<false>(preset, hooks));
  }
  return MakeScheduler(preset.scheduler, HookedPolicy<true>(preset, hooks));
}

}  // namespace tenure::capi
