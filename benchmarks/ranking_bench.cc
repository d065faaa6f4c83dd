// SPDX-License-Identifier: Apache-2.0
//
// Standings: who ranks first and what each is due. `size` = leaf allocations (15 leaves in 5
// programs are the 21 allocations of a research institute).
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <vector>

#include "scenes.h"
#include "tenure/budget_tree.h"
#include "tenure/fixed_math.h"
#include "tenure/ledger.h"
#include "tenure/ranking.h"

namespace tenure::bench {
namespace {

// Capacity for every leaf to have 4 GPUs, demand of 0 to 10.
struct Demand {
  BudgetTree tree;
  std::vector<AllocationId> leaves;
  Ledger ledger;
  GpuCount capacity;
  TimePoint now{};

  explicit Demand(std::int64_t count)
      : leaves(AddAllocations(count, [&](auto&&... a) { return tree.Add(a...); })),
        capacity(std::min(kMaxClusterGpus, 4 * count)) {
    ledger.Open(tree);
    sim::Rng rng(3);
    for (AllocationId leaf : leaves) {
      const GpuCount placed(rng.Below(6)), queued(rng.Below(6));
      ledger.Charge(tree, leaf, now, placed);
      ledger.AddPlaced(tree, leaf, placed);
      ledger.AddQueued(tree, leaf, queued);
    }
    now += std::chrono::hours(24);
  }
};

void BM_BudgetTree_WaterFill(benchmark::State& state) {
  const Demand d(state.range(0));
  std::vector<MilliGpu> demand(d.tree.size()), out;
  for (AllocationId leaf : d.leaves) demand[leaf.value()] = ToMilli(d.ledger.demand(leaf));
  WaterFillScratch scratch;
  for (auto _ : state) {
    d.tree.WaterFill(ToMilli(d.capacity), demand, {}, scratch, out);
    benchmark::DoNotOptimize(out.data());
  }
}
BENCHMARK(BM_BudgetTree_WaterFill)->Arg(15)->Arg(1'000)->Arg(100'000)->Arg(1'000'000);

// What every pass computes: use, keys, controller, both fills.
void BM_Ranking_Refresh(benchmark::State& state) {
  Demand d(state.range(0));
  Ranking ranking;
  const auto key = [](AllocationId, GpuTime used, MilliGpu entitlement) {
    return internal::HoursOfShare(used, entitlement);
  };
  ranking.Refresh(d.tree, d.ledger, d.capacity, d.now, key);
  for (auto _ : state) {
    d.now += std::chrono::seconds(1);
    ranking.Refresh(d.tree, d.ledger, d.capacity, d.now, key);
    benchmark::DoNotOptimize(ranking.fluid(d.leaves[0]));
  }
}
BENCHMARK(BM_Ranking_Refresh)->Arg(15)->Arg(1'000)->Arg(100'000)->Arg(1'000'000);

// After every placement: the leaf and its ancestors.
void BM_Ranking_Recharge(benchmark::State& state) {
  Demand d(state.range(0));
  Ranking ranking;
  const auto key = [](AllocationId, GpuTime used, MilliGpu entitlement) {
    return internal::HoursOfShare(used, entitlement);
  };
  ranking.Refresh(d.tree, d.ledger, d.capacity, d.now, key);
  std::size_t i = 0;
  for (auto _ : state) {
    ranking.Recharge(d.tree, d.ledger, d.leaves[i++ % d.leaves.size()], d.now, key);
  }
}
BENCHMARK(BM_Ranking_Recharge)->Arg(15)->Arg(100'000);

}  // namespace
}  // namespace tenure::bench
