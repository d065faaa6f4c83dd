// SPDX-License-Identifier: Apache-2.0
//
// Finding GPUs: free ones and ones to be taken. Nodes have 8 GPUs, racks 16 nodes; the last number
// of a name is the number of nodes.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <vector>

#include "scenes.h"
#include "tenure/free_index.h"
#include "tenure/placement.h"
#include "tenure/policy.h"
#include "tenure/preemption.h"
#include "tenure/reservation.h"
#include "tenure/workload_table.h"

namespace tenure::bench {
namespace {

constexpr RunSlot kOther = 0, kOurs = 1;

// Six nodes in ten are free, the others are used in part.
Cluster HalfUsed(std::int64_t nodes) {
  Cluster cluster = MakeCluster(nodes);
  sim::Rng rng(5);
  for (std::uint32_t i = 0; i < cluster.size(); ++i) {
    if (rng.Below(10) < 6) continue;
    cluster.Occupy(NodeId(i), kOther, static_cast<std::int32_t>(1 + rng.Below(8)), false);
  }
  return cluster;
}

void BM_FreeIndex_Set(benchmark::State& state) {
  internal::FreeIndex index;
  const auto n = static_cast<std::size_t>(state.range(0));
  index.Reset(9, std::vector<DomainId>(n, kRootDomain), {kRootDomain}, {0});
  sim::Rng rng(1);
  std::vector<std::pair<std::size_t, std::int16_t>> edits;
  for (int i = 0; i < 4096; ++i) {
    edits.emplace_back(rng.Below(state.range(0)), static_cast<std::int16_t>(rng.Below(9)));
  }
  std::size_t i = 0;
  for (auto _ : state) {
    const auto [slot, level] = edits[i++ % edits.size()];
    index.Set(slot, level);
  }
  benchmark::DoNotOptimize(index.FindTightest(1));
}
BENCHMARK(BM_FreeIndex_Set)->Arg(1'000)->Arg(10'000)->Arg(100'000);

void BM_FreeIndex_FindTightest(benchmark::State& state) {
  const Cluster cluster = HalfUsed(state.range(0));
  const internal::FreeIndex& index = cluster.pools()[0].general;
  std::int64_t want = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(index.FindTightest(want + 1));
    want = (want + 1) % 8;
  }
}
BENCHMARK(BM_FreeIndex_FindTightest)->Arg(1'000)->Arg(10'000)->Arg(100'000);

// Place 3 GPUs, occupy, release.
void BM_Placement_PartNode(benchmark::State& state) {
  Cluster cluster = HalfUsed(state.range(0));
  Shape shape;
  shape.gpus = 3;
  std::vector<NodeId> nodes;
  for (auto _ : state) {
    nodes.clear();
    Require(PlaceFree(cluster, shape, NoNodeScore{}, kNoNode, nodes), "must fit");
    cluster.Occupy(nodes[0], kOurs, 3, false);
    cluster.Vacate(nodes[0], kOurs, 3, false, false);
  }
}
BENCHMARK(BM_Placement_PartNode)->Arg(1'000)->Arg(10'000)->Arg(100'000);

// Choose the nodes of a gang of k whole nodes: the search alone.
void BM_Placement_Gang(benchmark::State& state) {
  const Cluster cluster = HalfUsed(state.range(1));
  Shape shape;
  shape.nodes = static_cast<std::int32_t>(state.range(0));
  shape.gpus = 8;
  std::vector<NodeId> nodes;
  for (auto _ : state) {
    nodes.clear();
    Require(PlaceFree(cluster, shape, NoNodeScore{}, kNoNode, nodes), "must fit");
  }
}
BENCHMARK(BM_Placement_Gang)->ArgsProduct({{8, 128, 512}, {1'000, 10'000, 100'000}});

// The same with occupying and releasing all its nodes.
void BM_Placement_GangStartEnd(benchmark::State& state) {
  Cluster cluster = HalfUsed(state.range(1));
  Shape shape;
  shape.nodes = static_cast<std::int32_t>(state.range(0));
  shape.gpus = 8;
  std::vector<NodeId> nodes;
  for (auto _ : state) {
    nodes.clear();
    Require(PlaceFree(cluster, shape, NoNodeScore{}, kNoNode, nodes), "must fit");
    for (NodeId n : nodes) cluster.Occupy(n, kOurs, 8, false);
    for (NodeId n : nodes) cluster.Vacate(n, kOurs, 8, false, false);
  }
}
BENCHMARK(BM_Placement_GangStartEnd)->ArgsProduct({{8, 128, 512}, {10'000}});

// "Can never fit": a gang larger than the cluster, and one that no rack can hold.
void BM_Placement_NeverFits(benchmark::State& state) {
  const Cluster cluster = MakeCluster(state.range(0));
  Shape large, rack;
  large.nodes = static_cast<std::int32_t>(state.range(0) + 1);
  large.gpus = 8;
  rack.nodes = 17;
  rack.gpus = 8;
  rack.rule = TopologyRule::kRequired;
  for (auto _ : state) {
    Require(!EverFits(cluster, large) && !EverFits(cluster, rack), "must not fit");
  }
}
BENCHMARK(BM_Placement_NeverFits)->Arg(1'000)->Arg(10'000)->Arg(100'000);

// A search of a new round, in a pass that has stopped runs before: it knows nothing about keys and
// verdicts, but may have the order of the nodes.
void FindVictims(benchmark::State& state, const FullCluster& full, const Shape& shape,
                 bool expected) {
  const PolicyContext context{full.tree, full.ranking, full.now};
  StoppableRuns stoppable;
  stoppable.Rebuild(full.policy, full.cluster, full.table, full.now);
  const VictimEnv env{full.cluster, full.table, full.ledger, stoppable, context};
  Requester requester = full.requester;
  requester.gpus = shape.total();
  VictimSearch search;
  Plan plan;
  for (auto _ : state) {
    search.BeginRound();
    const bool found = search.Find(env, full.policy, requester, shape, kNoNode, plan);
    Require(found == expected, "unexpected answer of the victim search");
  }
  state.counters["victims"] = static_cast<double>(plan.victims.size());
}

void BM_VictimSearch_PartNode(benchmark::State& state) {
  const FullCluster full(state.range(0));
  Shape shape;
  shape.gpus = 4;
  FindVictims(state, full, shape, true);
}
BENCHMARK(BM_VictimSearch_PartNode)->Arg(128)->Arg(1'000)->Arg(10'000);

void BM_VictimSearch_Gang(benchmark::State& state) {
  const FullCluster full(state.range(1));
  Shape shape;
  shape.nodes = static_cast<std::int32_t>(state.range(0));
  shape.gpus = 4;
  FindVictims(state, full, shape, true);
}
BENCHMARK(BM_VictimSearch_Gang)->ArgsProduct({{8, 64}, {128, 1'000, 10'000}});

// A promised start for k whole nodes; between two searches something changes on 16 nodes.
void FindReservation(benchmark::State& state, FullCluster& full) {
  const PolicyContext context{full.tree, full.ranking, full.now};
  const StoppableRuns stoppable;
  const VictimEnv env{full.cluster, full.table, full.ledger, stoppable, context};
  Shape shape;
  shape.nodes = static_cast<std::int32_t>(state.range(0));
  shape.gpus = 8;
  ReservationSearch search;
  search.Update(full.cluster, full.table);
  ReservationPlan plan;
  std::size_t next = 0;
  for (auto _ : state) {
    for (int i = 0; i < 16; ++i) {
      full.cluster.Touch(NodeId(static_cast<std::uint32_t>(next++ * 61 % full.cluster.size())));
    }
    search.Update(full.cluster, full.table);
    Require(search.Find(env, full.policy, shape, plan), "must find nodes");
  }
}

// All runs are protected, up to 8 hours more.
void BM_Placement_Reservation(benchmark::State& state) {
  FullCluster full(state.range(1));
  full.ProtectAll();
  FindReservation(state, full);
}
BENCHMARK(BM_Placement_Reservation)->ArgsProduct({{8, 64}, {1'000, 10'000, 100'000}});

// One node in eight has no protected run: which of them cost least?
void BM_Placement_ReservationNow(benchmark::State& state) {
  FullCluster full(state.range(1));
  FindReservation(state, full);
}
BENCHMARK(BM_Placement_ReservationNow)->ArgsProduct({{8, 64}, {1'000, 10'000, 100'000}});

// Nothing may be stopped: every node is looked at in vain.
void BM_VictimSearch_None(benchmark::State& state) {
  FullCluster full(state.range(0));
  for (RunSlot s = 0; s < full.table.slots(); ++s) {
    full.table.run(s).funded = true;
    full.table.run(s).protected_until = full.now + std::chrono::hours(1);
  }
  Shape shape;
  shape.gpus = 4;
  FindVictims(state, full, shape, false);
}
BENCHMARK(BM_VictimSearch_None)->Arg(128)->Arg(1'000)->Arg(10'000);

}  // namespace
}  // namespace tenure::bench
