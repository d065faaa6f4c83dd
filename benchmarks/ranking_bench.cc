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
#include "tenure/serving_order.h"

namespace tenure::bench {
namespace {

// Capacity for every leaf to have 4 GPUs, demand of 0 to 10.
struct Demand {
  BudgetTree tree;
  std::vector<AllocationId> leaves;
  Ledger ledger;
  GpuCount capacity;
  TimePoint now{};

  explicit Demand(std::int64_t count, bool busy = true)
      : leaves(AddAllocations(count, [&](auto&&... a) { return tree.Add(a...); })),
        capacity(std::min(kMaxClusterGpus, 4 * count)) {
    ledger.Open(tree);
    sim::Rng rng(3);
    for (AllocationId leaf : leaves) {
      if (!busy) break;
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

// The same where 100 leaves run something, protected or not, and the others did so yesterday.
void BM_Ranking_RefreshFew(benchmark::State& state) {
  Demand d(state.range(0), false);
  for (std::size_t i = 0; i < d.leaves.size(); ++i) {
    d.ledger.Charge(d.tree, d.leaves[i], d.now - std::chrono::hours(10), GpuCount(1));
    d.ledger.Charge(d.tree, d.leaves[i], d.now - std::chrono::hours(9), GpuCount(-1));
  }
  for (std::size_t i = 0; i < 100; ++i) {
    const AllocationId leaf = d.leaves[i * d.leaves.size() / 100];
    d.ledger.Charge(d.tree, leaf, d.now, GpuCount(8));
    d.ledger.AddPlaced(d.tree, leaf, GpuCount(8));
    d.ledger.AddQueued(d.tree, leaf, GpuCount(8));
    if (i % 2 == 0) d.ledger.Commit(d.tree, leaf, MilliGpu(8000), d.now + std::chrono::hours(72));
  }
  Ranking ranking;
  const auto key = [](AllocationId, GpuTime used, MilliGpu entitlement) {
    return internal::HoursOfShare(used, entitlement);
  };
  ranking.Refresh(d.tree, d.ledger, GpuCount(1024), d.now, key);
  for (auto _ : state) {
    d.now += std::chrono::milliseconds(1);
    ranking.Refresh(d.tree, d.ledger, GpuCount(1024), d.now, key);
    benchmark::DoNotOptimize(ranking.fluid(d.leaves[0]));
  }
}
BENCHMARK(BM_Ranking_RefreshFew)->Arg(1'000)->Arg(10'000)->Arg(100'000)->Arg(1'000'000);

// One start among so many leaves that wait: whose turn it is next, compared by the leaves
// themselves (0) or level by level (1).
void BM_ServingOrder_Served(benchmark::State& state) {
  Demand d(state.range(1));
  RankingOptions options;
  options.level_by_level = state.range(0) != 0;
  Ranking ranking(options);
  const auto key = [](AllocationId, GpuTime used, MilliGpu entitlement) {
    return internal::HoursOfShare(used, entitlement);
  };
  ranking.Refresh(d.tree, d.ledger, d.capacity, d.now, key);
  ServingOrder order;
  for (AllocationId leaf : d.leaves) order.Add(leaf);
  order.Begin(d.tree, ranking, [](AllocationId) { return true; });
  for (auto _ : state) {
    const AllocationId leaf = order.first();
    d.ledger.Charge(d.tree, leaf, d.now - std::chrono::hours(1), GpuCount(1));
    ranking.Recharge(d.tree, d.ledger, leaf, d.now, key);
    order.Served(d.tree, ranking, true);
  }
}
BENCHMARK(BM_ServingOrder_Served)
    ->ArgsProduct({{0, 1}, {1'000, 10'000, 100'000}})
    ->Iterations(20'000);

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
