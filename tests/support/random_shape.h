// SPDX-License-Identifier: Apache-2.0
#ifndef TENURE_TESTS_SUPPORT_RANDOM_SHAPE_H_
#define TENURE_TESTS_SUPPORT_RANDOM_SHAPE_H_

#include <cstdint>

#include "tenure/placement.h"
#include "tenure/sim/random.h"
#include "tenure/types.h"

namespace tenure::test {

// Half of them gangs, of up to two GPU types and three levels of domains; funded training.
inline Shape RandomShape(sim::Rng& rng) {
  Shape s;
  s.nodes = rng.Chance(1, 2) ? 1 : static_cast<std::int32_t>(1 + rng.Below(5));
  s.gpus = static_cast<std::int32_t>(1 + rng.Below(8));
  if (rng.Chance(1, 3)) s.type = GpuTypeId(static_cast<std::uint16_t>(rng.Below(2)));
  if (s.nodes > 1) {
    s.rule = rng.Chance(1, 2) ? TopologyRule::kRequired : TopologyRule::kPreferred;
    s.level = rng.Chance(1, 3) ? kDeepestLevel : static_cast<std::uint8_t>(rng.Below(4));
  }
  s.lane = s.nodes == 1 && rng.Chance(1, 3);
  return s;
}

}  // namespace tenure::test

#endif  // TENURE_TESTS_SUPPORT_RANDOM_SHAPE_H_
