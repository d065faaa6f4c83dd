// SPDX-License-Identifier: Apache-2.0
//
// Whole simulations: 37 days of a research institute (1,024 GPUs, 15 leaves), of which 30 are
// measured. `load_percent` is the peak demand of funded work: 130 or 170.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>

#include "scenes.h"
#include "tenure/sim/institute.h"
#include "tenure/sim/simulate.h"

namespace tenure::bench {
namespace {

sim::World Institute(std::int64_t load_percent) {
  sim::InstituteOptions options;
  options.load = static_cast<double>(load_percent) / 100;
  options.seed = 11;
  return sim::GenerateInstitute(options).value();
}

void BM_Institute_Generate(benchmark::State& state) {
  std::int64_t jobs = 0;
  for (auto _ : state) jobs += static_cast<std::int64_t>(Institute(state.range(0)).jobs.size());
  state.SetItemsProcessed(jobs);
}
BENCHMARK(BM_Institute_Generate)->Arg(170)->Unit(benchmark::kMillisecond);

void BM_Simulation_Run(benchmark::State& state, const char* policy) {
  const sim::World world = Institute(state.range(0));
  sim::SimOptions options;
  options.warmup = kDefaultLookback;
  options.end = std::chrono::hours(24 * 37);
  std::int64_t events = 0, passes = 0, jobs = 0;
  for (auto _ : state) {
    const sim::Metrics m = sim::Simulate(world, policy, {}, options).value();
    events += m.events;
    passes += m.passes;
    jobs += static_cast<std::int64_t>(world.jobs.size());
  }
  using benchmark::Counter;
  state.counters["jobs"] = static_cast<double>(world.jobs.size());
  state.counters["jobs/s"] = Counter(static_cast<double>(jobs), Counter::kIsRate);
  state.counters["events/s"] = Counter(static_cast<double>(events), Counter::kIsRate);
  state.counters["passes/s"] = Counter(static_cast<double>(passes), Counter::kIsRate);
}

#define TENURE_SIMULATION(name, policy)              \
  BENCHMARK_CAPTURE(BM_Simulation_Run, name, policy) \
      ->ArgName("load_percent")                      \
      ->Arg(130)                                     \
      ->Arg(170)                                     \
      ->Iterations(1)                                \
      ->Unit(benchmark::kMillisecond)
TENURE_SIMULATION(budget, "budget");
TENURE_SIMULATION(hier, "hier");
TENURE_SIMULATION(ai2, "ai2");
TENURE_SIMULATION(priority, "priority");
TENURE_SIMULATION(fifo_easy, "fifo-easy");
TENURE_SIMULATION(fairtree, "fairtree");
TENURE_SIMULATION(fairtree_preempt, "fairtree-preempt");
#undef TENURE_SIMULATION

}  // namespace
}  // namespace tenure::bench
