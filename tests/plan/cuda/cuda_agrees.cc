// SPDX-License-Identifier: Apache-2.0
//
// With a device: plan searches on it and on this core give the same answers, and so do some of
// their trials one by one. Without one: opening the back end says Unavailable, and why. Exit code 1
// otherwise.
//
//   cuda_agrees [WORLDS]    default 600
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "plan_worlds.h"

namespace {

using namespace tenure::plan;  // NOLINT(google-build-using-namespace)

WorldShape ShapeOf(u32 seed) {
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

std::string Show(u64 price) {
  if (price == kNone) return "none";
  return "trial " + std::to_string(price & (kMaxTrials - 1)) + " at " +
         std::to_string(price >> kTrialBits);
}

}  // namespace

int main(int argc, char** argv) {
  const u32 last = argc > 1 ? static_cast<u32>(std::atoi(argv[1])) : 600;
  auto cuda = OpenCuda();
  if (!cuda.ok()) {
    std::printf("%s\n", cuda.status().ToString().c_str());
    return cuda.status().code() == absl::StatusCode::kUnavailable ? 0 : 1;
  }
  CpuBackend cpu(std::max(1u, std::thread::hardware_concurrency()));
  int worlds = 0, searches = 0, differences = 0;
  for (u32 seed = 1; seed <= last; ++seed, ++worlds) {
    const WorldData data = WorldMaker(seed).Make(ShapeOf(seed));
    const World world = data.View();
    absl::Status made = (*cuda)->Load(data, world);
    if (!cpu.Load(data, world).ok()) return 1;
    const auto compare = [&](const Params& params) {
      u64 here = 0, there = 0;
      cpu.Best(params, &here).IgnoreError();
      if (made.ok()) made = (*cuda)->Best(params, &there);
      ++searches;
      if (!made.ok() || here == there) return;
      ++differences;
      std::printf("seed %u, %u trials from %u on: %s on the CPU, %s on the device\n", seed,
                  params.trials, params.first_trial, Show(here).c_str(), Show(there).c_str());
    };
    Params params;
    params.seed = seed;
    params.trials = world.nodes > 2000 ? 16 : 64;
    compare(params);
    params.trials = 1;  // the whole of it: nothing cheaper ends it early
    for (u32 trial : {0u, 1 + seed % 12, 13 + seed % 40}) {
      params.first_trial = trial;
      compare(params);
    }
    if (!made.ok()) {
      std::printf("seed %u: %s\n", seed, made.ToString().c_str());
      return 1;
    }
  }
  std::printf("%s: %d worlds, %d searches, %d differences\n", (*cuda)->name().c_str(), worlds,
              searches, differences);
  return differences == 0 ? 0 : 1;
}
