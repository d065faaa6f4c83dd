// SPDX-License-Identifier: Apache-2.0
//
// With a device: plan searches on it and on this core give the same answers. Without one: opening
// the back end says Unavailable, and why. Exit code 1 otherwise.
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

}  // namespace

int main(int argc, char** argv) {
  const u32 last = argc > 1 ? static_cast<u32>(std::atoi(argv[1])) : 600;
  auto cuda = OpenCuda();
  if (!cuda.ok()) {
    std::printf("%s\n", cuda.status().ToString().c_str());
    return cuda.status().code() == absl::StatusCode::kUnavailable ? 0 : 1;
  }
  CpuBackend cpu(std::max(1u, std::thread::hardware_concurrency()));
  int worlds = 0, differences = 0;
  for (u32 seed = 1; seed <= last; ++seed, ++worlds) {
    const WorldData data = WorldMaker(seed).Make(ShapeOf(seed));
    const World world = data.View();
    Params params;
    params.seed = seed;
    params.trials = world.nodes > 2000 ? 16 : 64;
    u64 here = 0, there = 0;
    if (!cpu.Load(data, world).ok() || !cpu.Best(params, &here).ok()) return 1;
    const absl::Status loaded = (*cuda)->Load(data, world);
    const absl::Status made = loaded.ok() ? (*cuda)->Best(params, &there) : loaded;
    if (!made.ok()) {
      std::printf("seed %u: %s\n", seed, made.ToString().c_str());
      return 1;
    }
    if (here != there) {
      ++differences;
      std::printf("seed %u: trial %u at %llu on the CPU, %u at %llu on the device\n", seed,
                  static_cast<u32>(here & (kMaxTrials - 1)),
                  static_cast<unsigned long long>(here >> kTrialBits),
                  static_cast<u32>(there & (kMaxTrials - 1)),
                  static_cast<unsigned long long>(there >> kTrialBits));
    }
  }
  std::printf("%s: %d worlds, %d differences\n", (*cuda)->name().c_str(), worlds, differences);
  return differences == 0 ? 0 : 1;
}
