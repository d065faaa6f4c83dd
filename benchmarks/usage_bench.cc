// SPDX-License-Identifier: Apache-2.0
//
// Metering GPU time. `size` = pieces of constant rate inside the 7-day window.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>

#include "scenes.h"
#include "tenure/budget_tree.h"
#include "tenure/ledger.h"
#include "tenure/usage_meter.h"

namespace tenure::bench {
namespace {

// Changes `step` apart, alternately +8 and -8 GPUs, up to `now` (the next one is +8).
template <class Meter>
Meter Filled(std::int64_t size, Duration step, TimePoint& now) {
  Meter meter;
  for (std::int64_t i = 0; i < size + 2 + size % 2; ++i) {
    now += step;
    meter.Change(now, GpuCount(i % 2 == 0 ? 8 : -8));
  }
  return meter;
}

template <class Meter>
void Change(benchmark::State& state) {
  const Duration step = kDefaultLookback / state.range(0);
  TimePoint now{};
  Meter meter = Filled<Meter>(state.range(0), step, now);
  std::int64_t delta = 8;
  for (auto _ : state) {
    now += step;
    meter.Change(now, GpuCount(delta));
    delta = -delta;
  }
  benchmark::DoNotOptimize(meter.Use(now));
}
void BM_UsageMeter_Change(benchmark::State& state) { Change<UsageMeter>(state); }
void BM_DecayMeter_Change(benchmark::State& state) { Change<DecayMeter>(state); }
BENCHMARK(BM_UsageMeter_Change)->Arg(100)->Arg(10'000)->Arg(1'000'000);
BENCHMARK(BM_DecayMeter_Change)->Arg(10'000);

// A pass asks every 5 s.
template <class Meter>
void Use(benchmark::State& state) {
  const Duration step = kDefaultLookback / state.range(0);
  const Duration pass = std::chrono::seconds(5);
  TimePoint now{};
  Meter meter = Filled<Meter>(state.range(0), step, now);
  TimePoint change = now + step;
  std::int64_t delta = 8;
  for (auto _ : state) {
    now += pass;
    if (now >= change) {
      meter.Change(change, GpuCount(delta));
      delta = -delta;
      change += std::max(step, pass);
    }
    benchmark::DoNotOptimize(meter.Use(now));
  }
}
void BM_UsageMeter_Use(benchmark::State& state) { Use<UsageMeter>(state); }
void BM_DecayMeter_Use(benchmark::State& state) { Use<DecayMeter>(state); }
BENCHMARK(BM_UsageMeter_Use)->Arg(100)->Arg(10'000)->Arg(1'000'000);
BENCHMARK(BM_DecayMeter_Use)->Arg(10'000);

// Reports that come an hour late: one pair that cancels out, an iteration.
void BM_UsageMeter_LateChange(benchmark::State& state) {
  TimePoint now{};
  UsageMeter meter = Filled<UsageMeter>(state.range(0), kDefaultLookback / state.range(0), now);
  const TimePoint late = now - std::chrono::hours(1);
  for (auto _ : state) {
    meter.Change(late, GpuCount(4));
    meter.Change(late, GpuCount(-4));
  }
  benchmark::DoNotOptimize(meter.Use(now));
}
BENCHMARK(BM_UsageMeter_LateChange)->Arg(10'000)->Arg(1'000'000);

// A start or an end: charged to the leaf, its program and the root.
void BM_Ledger_Charge(benchmark::State& state) {
  BudgetTree tree;
  const auto leaves = AddAllocations(state.range(0), [&](auto&&... a) { return tree.Add(a...); });
  Ledger ledger;
  ledger.Open(tree);
  TimePoint now{};
  std::size_t i = 0;
  for (auto _ : state) {
    now += std::chrono::seconds(5);
    const AllocationId leaf = leaves[i++ % leaves.size()];
    ledger.Charge(tree, leaf, now, GpuCount(8));
    ledger.Charge(tree, leaf, now + std::chrono::seconds(1), GpuCount(-8));
  }
  benchmark::DoNotOptimize(ledger.Use(kRootAllocation, now));
}
BENCHMARK(BM_Ledger_Charge)->Arg(15)->Arg(1'000);

}  // namespace
}  // namespace tenure::bench
