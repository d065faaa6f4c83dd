// SPDX-License-Identifier: Apache-2.0
//
// Whether a device gives the answers of the CPU, bit for bit. Needs nothing but the standard
// library.
#ifndef TENURE_TESTS_SUPPORT_PLAN_IDENTITY_H_
#define TENURE_TESTS_SUPPORT_PLAN_IDENTITY_H_

#include <algorithm>
#include <cstdio>
#include <string>
#include <thread>

#include "plan_worlds.h"
#include "tenure/plan_cpu.h"

namespace tenure::plan {

inline WorldShape IdentityShape(u32 seed) {
  WorldShape s;
  constexpr u32 kNodes[] = {16, 64, 200, 1000, 5000, 20000};
  s.nodes = kNodes[seed % 60 == 0 ? 5 : seed % 20 == 0 ? 4 : seed % 4];
  s.jobs = 10 + seed % 60;
  s.irregular = seed % 2 == 1;
  s.reservations = seed % 4 > 1;
  s.lanes = seed % 5 == 0;
  s.pools = 1 + seed % 3;
  s.bands = seed % 7 == 0 ? s.jobs : 6;
  if (seed % 11 == 0) s.domain_nodes = 150;
  return s;
}

inline std::string ShowPrice(u64 price) {
  if (price == kNone) return "none";
  return "trial " + std::to_string(price & (kMaxTrials - 1)) + " at " +
         std::to_string(price >> kTrialBits);
}

// Searches `worlds` random worlds on the device and here: many trials at once, and some one by one,
// where nothing cheaper ends them early. `load(data, world)` and `best(params, &price)` return
// what went wrong, or nothing. Prints each difference and one line at the end; true if all agree.
template <class Load, class Best>
bool AgreesWithCpu(const std::string& name, u32 worlds, const Load& load, const Best& best) {
  const u32 threads = std::max(1u, std::thread::hardware_concurrency());
  CpuTrials cpu;
  u32 searches = 0, differences = 0;
  for (u32 seed = 1; seed <= worlds; ++seed) {
    const WorldData data = WorldMaker(seed).Make(IdentityShape(seed));
    const World world = data.View();
    std::string error = load(data, world);
    const auto compare = [&](const Params& params) {
      u64 there = 0;
      if (error.empty()) error = best(params, &there);
      if (!error.empty()) return;
      const u64 here = cpu.Best(world, params, threads);
      ++searches;
      if (here == there) return;
      ++differences;
      std::printf("seed %u, %u trials from %u on: %s on the CPU, %s on the device\n", seed,
                  params.trials, params.first_trial, ShowPrice(here).c_str(),
                  ShowPrice(there).c_str());
    };
    Params params;
    params.seed = seed;
    params.trials = world.nodes > 2000 ? 16 : 64;
    compare(params);
    params.trials = 1;
    for (u32 trial : {0u, 1 + seed % 12, 13 + seed % 40}) {
      params.first_trial = trial;
      compare(params);
    }
    if (!error.empty()) {
      std::printf("seed %u: %s\n", seed, error.c_str());
      return false;
    }
  }
  std::printf("%s: %u worlds, %u searches, %u differences\n", name.c_str(), worlds, searches,
              differences);
  return differences == 0;
}

}  // namespace tenure::plan

#endif  // TENURE_TESTS_SUPPORT_PLAN_IDENTITY_H_
