// SPDX-License-Identifier: Apache-2.0
//
// Small random clusters and budget trees, in a form from which schedulers can be built in different
// order: everything is named by its position.
#ifndef TENURE_TESTS_SUPPORT_RANDOM_WORLD_H_
#define TENURE_TESTS_SUPPORT_RANDOM_WORLD_H_

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tenure/scheduler.h"
#include "tenure/sim/random.h"

namespace tenure::test {

// How many worlds a test looks at that normally looks at `normal`. The environment may say
// TENURE_LONG=N, N times as many, or TENURE_SHORT=N, one in N (the tests of a sanitizer build do).
inline std::uint64_t Worlds(std::uint64_t normal) {
  const auto number = [](const char* name) {
    const char* text = std::getenv(name);
    std::uint64_t n = 0;
    return text != nullptr && absl::SimpleAtoi(text, &n) && n > 0 ? n : 1;
  };
  return std::max<std::uint64_t>(1, normal * number("TENURE_LONG") / number("TENURE_SHORT"));
}

inline constexpr Duration kSecond = std::chrono::seconds(1);
inline constexpr Duration kMinute = std::chrono::minutes(1);
inline constexpr Duration kHour = std::chrono::hours(1);

struct WorldSpec {
  struct Domain {
    std::string name;
    int parent = -1;  // -1: the root
  };
  struct NodeSpec {
    std::string name;
    int gpus = 8;
    int type = 0;
    int domain = -1;
  };
  struct Allocation {
    std::string name;
    int parent = -1;
    double weight = 1;
  };
  std::vector<std::string> types;
  std::vector<Domain> domains;
  std::vector<NodeSpec> nodes;
  std::vector<Allocation> allocations;
  SchedulerOptions options;
  BudgetOptions budget;  // of BudgetPolicy
};

inline double RandomWeight(sim::Rng& rng) {
  constexpr double kWeights[] = {1, 1, 1, 2, 3, 0.35, 35, 0, 1e-6, 1e9, 1.0 / 3};
  return kWeights[rng.Below(std::size(kWeights))];
}

inline WorldSpec::NodeSpec RandomNode(sim::Rng& rng, const WorldSpec& world, int number) {
  constexpr int kSizes[] = {1, 2, 4, 8, 8, 8, 3, 16};
  WorldSpec::NodeSpec node;
  node.name = absl::StrCat("n", rng.Below(1000), ".", number);
  node.gpus = kSizes[rng.Below(std::size(kSizes))];
  node.type = static_cast<int>(rng.Below(static_cast<std::int64_t>(world.types.size())));
  node.domain =
      static_cast<int>(rng.Below(static_cast<std::int64_t>(world.domains.size()) + 1)) - 1;
  return node;
}

// 1-12 nodes of 1-16 GPUs, 1-3 types, 0-3 topology levels, a tree of 1-4 levels. `base` holds the
// options of the policy; some are changed at random.
inline WorldSpec RandomWorld(sim::Rng& rng, const SchedulerOptions& base) {
  WorldSpec world;
  const std::int64_t types = rng.Chance(2, 3) ? 1 : 1 + rng.Below(3);
  for (std::int64_t i = 0; i < types; ++i) world.types.push_back(absl::StrCat("gpu-", 9 - i));
  const std::int64_t depth = rng.Below(4);
  std::vector<int> level = {-1};
  for (std::int64_t d = 0; d < depth; ++d) {
    std::vector<int> next;
    for (int parent : level) {
      for (std::int64_t i = 1 + rng.Below(2); i >= 0 && world.domains.size() < 10; --i) {
        next.push_back(static_cast<int>(world.domains.size()));
        world.domains.push_back(
            {absl::StrCat("d", rng.Below(100), ".", world.domains.size()), parent});
      }
    }
    if (next.empty()) break;
    level = next;
  }
  const bool uniform = rng.Chance(1, 2);
  const std::int64_t nodes = 1 + rng.Below(12);
  for (std::int64_t i = 0; i < nodes; ++i) {
    WorldSpec::NodeSpec node = RandomNode(rng, world, static_cast<int>(i));
    if (uniform) node.gpus = 8;
    // Mostly in deepest domains.
    if (rng.Chance(9, 10))
      node.domain =
          level[static_cast<std::size_t>(rng.Below(static_cast<std::int64_t>(level.size())))];
    world.nodes.push_back(node);
  }
  const std::int64_t allocations = 1 + rng.Below(9);
  const std::int64_t levels = 1 + rng.Below(4);
  std::vector<int> depth_of;
  for (std::int64_t i = 0; i < allocations; ++i) {
    int parent = static_cast<int>(rng.Below(i + 1)) - 1;
    while (parent >= 0 && depth_of[static_cast<std::size_t>(parent)] + 1 >= levels) {
      parent = world.allocations[static_cast<std::size_t>(parent)].parent;
    }
    depth_of.push_back(parent < 0 ? 0 : depth_of[static_cast<std::size_t>(parent)] + 1);
    world.allocations.push_back({absl::StrCat("a", rng.Below(100), ".", i), parent,
                                 rng.Chance(1, 2) ? 1 : RandomWeight(rng)});
  }
  SchedulerOptions& o = world.options;
  o = base;
  if (rng.Chance(1, 2)) o.lookback = kHour * (1 + rng.Below(200));
  o.reservation.gang = GpuCount(rng.Chance(1, 2) ? 0 : 2 + rng.Below(12));
  o.reservation.block = GpuCount(rng.Below(12));
  o.reservation.block_credit = kHour * rng.Below(6);
  o.reservation.first_credit = kMinute * rng.Below(60);
  o.reservation.restart_credit = kHour * rng.Below(4);
  o.grace = kSecond * rng.Below(120);
  o.tick = kSecond * rng.Below(20);
  o.express = rng.Chance(1, 2);
  if (rng.Chance(1, 3)) o.lane_permille = 300;
  if (rng.Chance(1, 4)) o.contract.refuse_livelock = true;
  if (rng.Chance(1, 3)) {
    for (Duration& cap : o.contract.cap) cap = kMinute * rng.Below(300);
  }
  if (rng.Chance(1, 3)) o.idle_after = kMinute * rng.Below(120);
  if (rng.Chance(1, 4)) {
    o.preemption_rate = 1 + rng.Below(4);
    o.preemption_burst = 1 + rng.Below(4);
  }
  o.idle_cap = rng.Chance(1, 3) ? kNoIdleCap : rng.Below(200);
  if (rng.Chance(1, 4)) o.session_cap = 1 + rng.Below(600);
  if (rng.Chance(1, 4)) o.debug_cap = 1 + rng.Below(600);
  if (rng.Chance(1, 3)) o.serving_cap = rng.Below(1500);
  if (rng.Chance(1, 4)) {
    for (Duration& cap : o.contract.borrowed_cap) cap = kMinute * rng.Below(120);
  }
  if (rng.Chance(1, 4)) {
    for (GpuCount& most : o.contract.user_gpus) most = GpuCount(rng.Below(24));
  }
  return world;
}

inline std::string ToString(const WorldSpec& w) {
  std::string s = "world:";
  for (const auto& d : w.domains) absl::StrAppend(&s, " domain ", d.name, "<", d.parent, ";");
  for (const auto& n : w.nodes) {
    absl::StrAppend(&s, " node ", n.name, " ", n.gpus, " type ", n.type, " in ", n.domain, ";");
  }
  for (const auto& a : w.allocations) {
    absl::StrAppend(&s, " alloc ", a.name, " weight ", a.weight, " below ", a.parent, ";");
  }
  const SchedulerOptions& o = w.options;
  absl::StrAppend(&s, " lookback ", o.lookback.count(), " grace ", o.grace.count(), " tick ",
                  o.tick.count(), " gang ", o.reservation.gang.value(), " block ",
                  o.reservation.block.value(), " ", o.reservation.block_credit.count(), " credit ",
                  o.reservation.first_credit.count(), " ", o.reservation.restart_credit.count(),
                  " lane ", o.lane_permille, " express ", o.express, " refuse_livelock ",
                  o.contract.refuse_livelock, " idle_after ", o.idle_after.count(), " preemption ",
                  o.preemption_rate, " ", o.preemption_burst, " idle_cap ", o.idle_cap,
                  " session_cap ", o.session_cap, " debug_cap ", o.debug_cap, " serving_cap ",
                  o.serving_cap, " caps");
  for (Duration cap : o.contract.cap) absl::StrAppend(&s, " ", cap.count());
  absl::StrAppend(&s, " borrowed");
  for (Duration cap : o.contract.borrowed_cap) absl::StrAppend(&s, " ", cap.count());
  absl::StrAppend(&s, " user");
  for (GpuCount most : o.contract.user_gpus) absl::StrAppend(&s, " ", most.value());
  return s;
}

}  // namespace tenure::test

#endif  // TENURE_TESTS_SUPPORT_RANDOM_WORLD_H_
