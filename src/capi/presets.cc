// SPDX-License-Identifier: Apache-2.0
//
// The schedulers of the presets are compiled here and nowhere else in this library.
#include "face.h"

namespace tenure::capi {

absl::StatusOr<std::unique_ptr<AnyScheduler>> MakeEngine(const tenure_options* options) {
  if (options == nullptr) return MakeScheduler("budget");
  const tenure_policy_hooks& h = options->hooks;
  if (h.rank_key != nullptr || h.tier != nullptr || h.may_preempt != nullptr ||
      h.victim_cost != nullptr || h.node_score != nullptr) {
    return MakeHooked(*options);
  }
  return MakeScheduler(options->policy, options->parameters);
}

}  // namespace tenure::capi
