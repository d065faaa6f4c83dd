// SPDX-License-Identifier: Apache-2.0
//
// Inputs that several benchmarks share: budget trees, clusters and schedulers of a given size. The
// same arguments give the same input on every machine.
#ifndef TENURE_BENCHMARKS_SCENES_H_
#define TENURE_BENCHMARKS_SCENES_H_

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tenure/budget_tree.h"
#include "tenure/ledger.h"
#include "tenure/policy.h"
#include "tenure/ranking.h"
#include "tenure/scheduler.h"
#include "tenure/sim/random.h"
#include "tenure/sim/setup.h"
#include "tenure/workload_table.h"

namespace tenure::bench {

using BudgetScheduler = Scheduler<BudgetPolicy>;

// A benchmark of a refused call measures nothing: ends the program.
inline void Require(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::abort();
}
inline void Require(bool holds, const char* what) {
  if (!holds) Require(absl::InternalError(what));
}

// Two levels below the root: 15 leaves in 5 programs, or `leaves` in about sqrt(leaves) programs.
// `add` is BudgetTree::Add or alike. Returns the leaves.
template <class Add>
std::vector<AllocationId> AddAllocations(std::int64_t leaves, Add&& add) {
  const std::int64_t programs =
      leaves <= 15 ? 5 : std::llround(std::sqrt(static_cast<double>(leaves)));
  std::vector<AllocationId> inner, out;
  for (std::int64_t i = 0; i < programs; ++i) {
    inner.push_back(
        add(absl::StrCat("program-", i), kRootAllocation, Weight{1.0 + static_cast<double>(i % 3)})
            .value());
  }
  for (std::int64_t i = 0; i < leaves; ++i) {
    out.push_back(add(absl::StrCat("project-", i), inner[static_cast<std::size_t>(i % programs)],
                      Weight{1.0 + static_cast<double>(i % 7)})
                      .value());
  }
  return out;
}

// Nodes of 8 GPUs in racks of 16.
inline Cluster MakeCluster(std::int64_t nodes) {
  Cluster cluster;
  const GpuTypeId type = cluster.InternGpuType("h100");
  sim::ClusterSpec spec;
  spec.nodes = static_cast<std::int32_t>(nodes);
  Require(sim::AddNodes(
      spec, [&](const std::string& name) { return cluster.AddDomain(name, kRootDomain); },
      [&](const std::string& name, GpuCount gpus, DomainId rack) {
        return cluster.AddNode(name, gpus, type, rack);
      }));
  cluster.Reindex();
  return cluster;
}

// A full cluster: every node runs 4 + 2 + 1 + 1 GPUs of 15 leaves. Of ten runs three are unfunded,
// three are past their minimum and may be stopped for the requester, four are protected.
struct FullCluster {
  BudgetTree tree;
  std::vector<AllocationId> leaves;
  Cluster cluster;
  Ledger ledger;
  WorkloadTable table;
  Ranking ranking;
  // A gap that all leaves exceed, so that every run past its minimum is a candidate.
  BudgetPolicy policy{BudgetOptions{.big_gap = std::chrono::hours(1)}};
  TimePoint now{std::chrono::hours(72)};
  Requester requester;

  explicit FullCluster(std::int64_t nodes)
      : leaves(AddAllocations(15, [&](auto&&... a) { return tree.Add(a...); })),
        cluster(MakeCluster(nodes)) {
    ledger.Open(tree);
    sim::Rng rng(9);
    std::uint64_t id = 0;
    for (std::uint32_t n = 0; n < cluster.size(); ++n) {
      for (const std::int64_t gpus : {4, 2, 1, 1}) {
        WorkloadSpec w;
        w.id = WorkloadId(++id);
        // The requester is leaves[0]; it runs nothing.
        w.allocation = leaves[1 + static_cast<std::size_t>(rng.Below(14))];
        w.gpus_per_node = GpuCount(gpus);
        w.checkpoint_interval = std::chrono::hours(4);
        const std::int64_t kind = rng.Below(10);
        if (kind >= 3) w.minimum = std::chrono::hours(8);
        const TimePoint start =
            now - std::chrono::hours(kind < 6 ? 60 : 1) - std::chrono::minutes(rng.Below(60));
        const RunSlot slot = table.Add(w, start);
        Run& run = table.run(slot);
        run.state = WorkloadState::kRunning;
        run.start = run.progress_since = start;
        run.protected_until = start + w.minimum;
        table.workload(slot).nodes.assign(1, NodeId(n));
        cluster.Occupy(NodeId(n), slot, static_cast<std::int32_t>(gpus), false);
        if (!w.funded()) continue;
        ledger.Charge(tree, w.allocation, start, w.gpus());
        ledger.AddPlaced(tree, w.allocation, w.gpus());
      }
    }
    ledger.AddQueued(tree, leaves[0], cluster.declared());
    ranking.Refresh(tree, ledger, cluster.healthy(), now,
                    [](AllocationId, GpuTime used, MilliGpu entitlement) {
                      return internal::HoursOfShare(used, entitlement);
                    });
    requester.leaf = leaves[0];
  }

  // Every run, for 8 hours at most.
  void ProtectAll() {
    sim::Rng rng(10);
    for (RunSlot s = 0; s < table.slots(); ++s) {
      table.run(s).funded = true;
      table.run(s).protected_until = now + std::chrono::seconds(1 + rng.Below(8 * 3600));
    }
  }
};

// A scheduler with the nodes of MakeCluster and an empty queue.
struct Site {
  BudgetScheduler scheduler;
  std::vector<AllocationId> leaves;
  TimePoint now{};
  std::uint64_t last_id = 0;

  explicit Site(std::int64_t nodes, std::int64_t leaf_count = 15) {
    const GpuTypeId type = scheduler.InternGpuType("h100");
    sim::ClusterSpec spec;
    spec.nodes = static_cast<std::int32_t>(nodes);
    Require(sim::AddNodes(
        spec, [&](const std::string& name) { return scheduler.AddDomain(name, kRootDomain); },
        [&](const std::string& name, GpuCount gpus, DomainId rack) {
          return scheduler.AddNode(name, gpus, type, rack, now);
        }));
    leaves = AddAllocations(leaf_count, [&](std::string name, AllocationId parent, Weight weight) {
      return scheduler.AddAllocation(std::move(name), parent, weight, now);
    });
  }

  void Submit(WorkloadSpec spec) {
    spec.id = WorkloadId(++last_id);
    Require(scheduler.Submit(spec, now));
  }

  // One pass; all it starts is running afterwards, all it stops is gone.
  const Decisions& Pass() {
    const Decisions& d = *scheduler.Decide(now).value();
    for (const Start& s : d.starts) Require(scheduler.ReportStarted(s.workload, s.run, now));
    for (const Stop& s : d.stops) {
      Require(scheduler.ReportStopped(s.workload, s.run, now).status());
    }
    return d;
  }

  // Fills the cluster with runs of `gpus` GPUs inside one node, of leaves [first, last), that are
  // protected for `minimum`. Returns how many.
  std::int64_t Fill(std::int64_t gpus, Duration minimum, std::size_t first, std::size_t last) {
    const std::int64_t runs = scheduler.cluster().declared().value() / gpus;
    for (std::int64_t i = 0; i < runs; ++i) {
      WorkloadSpec w;
      w.allocation = leaves[first + static_cast<std::size_t>(i) % (last - first)];
      w.gpus_per_node = GpuCount(gpus);
      w.minimum = minimum;
      w.checkpoint_interval = std::chrono::minutes(30);
      Submit(w);
    }
    Pass();
    const std::int64_t running =
        scheduler.cluster().declared().value() - scheduler.cluster().free().value();
    return running / gpus;
  }

  // Queues `count` requests of leaves [first, last): 8 in 10 inside one node, a tenth gangs of 2 to
  // 16 nodes, a tenth unfunded.
  void Queue(std::int64_t count, std::size_t first, std::size_t last) {
    sim::Rng rng(7);
    for (std::int64_t i = 0; i < count; ++i) {
      WorkloadSpec w;
      w.allocation = leaves[first + static_cast<std::size_t>(i) % (last - first)];
      w.minimum = std::chrono::hours(1 + rng.Below(8));
      w.priority = static_cast<std::int32_t>(rng.Below(3));
      w.checkpoint_interval = std::chrono::minutes(30);
      const std::int64_t kind = rng.Below(10);
      w.gpus_per_node = GpuCount(std::int64_t{1} << rng.Below(4));
      if (kind == 0) {
        w.nodes = 2u << rng.Below(4);
        w.gpus_per_node = GpuCount(8);
      } else if (kind == 1) {
        w.minimum = Duration(0);
      } else if (kind == 2) {
        w.workload_class = WorkloadClass::kDebug;
        w.minimum = std::chrono::minutes(15);
      } else if (kind == 3) {
        w.workload_class = WorkloadClass::kInteractive;
        w.gpus_per_node = GpuCount(1);
      }
      Submit(w);
    }
  }
};

}  // namespace tenure::bench

#endif  // TENURE_BENCHMARKS_SCENES_H_
