// SPDX-License-Identifier: Apache-2.0
//
// Plan search: one trial, and a whole search.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "plan_worlds.h"
#include "tenure/plan_search.h"

namespace tenure::plan {
namespace {

WorldData MakeWorld(std::int64_t nodes, std::int64_t jobs, std::int64_t seed = 7) {
  WorldShape s;
  s.nodes = static_cast<u32>(nodes);
  s.jobs = static_cast<u32>(jobs);
  s.spine_domains = 16;
  return WorldMaker(static_cast<std::uint32_t>(seed)).Make(s);
}

// One complete plan, with noise; unguarded, so it runs to the end.
void BM_Plan_Trial(benchmark::State& state) {
  const WorldData data = MakeWorld(state.range(0), state.range(1));
  const World world = data.View();
  std::vector<u64> scratch(LayoutOf(world).bytes / 8 + 1);
  Params params;
  SerialTeam team;
  u32 number = 0;
  for (auto _ : state) {
    Trial<SerialTeam> trial(world, params, team, number++ % 64,
                            reinterpret_cast<u8*>(scratch.data()));
    benchmark::DoNotOptimize(trial.Run());
  }
  state.counters["scratch_bytes"] = static_cast<double>(LayoutOf(world).bytes);
}
BENCHMARK(BM_Plan_Trial)
    ->ArgNames({"nodes", "jobs"})
    ->Args({128, 60})
    ->Args({1024, 64})
    ->Args({1024, 256})
    ->Args({4096, 256})
    ->Args({16384, 256})
    ->Args({100000, 256});

// What a pass pays: check, trial 0, the rounds, the winner made again. A round that brings nothing
// ends a search, as in world 7; in worlds 4 and 6 all 64 trials are made.
void BM_Plan_Search(benchmark::State& state) {
  const WorldData data = MakeWorld(state.range(0), state.range(1), state.range(3));
  PlanSearch search({static_cast<u32>(state.range(2)), 1, BackendKind::kCpu, 1});
  Result result;
  for (auto _ : state) {
    result = search.Run(data).value();
    benchmark::DoNotOptimize(result);
  }
  state.counters["trials"] = result.trials;
  state.counters["price_before"] = static_cast<double>(result.price_zero);
  state.counters["price"] = static_cast<double>(result.price);
}
BENCHMARK(BM_Plan_Search)
    ->ArgNames({"nodes", "jobs", "trials", "world"})
    ->Args({128, 60, 64, 7})
    ->Args({128, 60, 1024, 7})
    ->Args({1024, 64, 64, 7})
    ->Args({1024, 256, 64, 7})
    ->Args({1024, 256, 64, 4})
    ->Args({1024, 256, 64, 6})
    ->Args({1024, 256, 1024, 6})
    ->Args({4096, 256, 64, 7})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tenure::plan
