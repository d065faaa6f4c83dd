// SPDX-License-Identifier: Apache-2.0
//
// The Scheduler as a resource manager meets it: passes, events, verdicts, snapshots. Names end in
// /nodes/queued: nodes of 8 GPUs, requests in the queues of 15 leaves.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "scenes.h"

namespace tenure::bench {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

// All GPUs protected, so that nothing can start whatever waits.
std::unique_ptr<Site> Blocked(std::int64_t nodes, std::int64_t gpus_per_run, std::int64_t queued,
                              std::int64_t leaves = 15) {
  auto site = std::make_unique<Site>(nodes, leaves);
  site->Fill(gpus_per_run, hours(8), 0, 15);
  site->Queue(queued, 0, 15);
  site->now += minutes(1);
  // What the lane and leftovers still take.
  for (int i = 0; i < 3; ++i) site->Pass();
  return site;
}

// A full pass in which nothing can start.
void BM_Scheduler_DecideBlocked(benchmark::State& state) {
  const auto site = Blocked(state.range(0), state.range(0) > 10'000 ? 8 : 1, state.range(1));
  std::size_t decided = 0;
  for (auto _ : state) {
    const Decisions& d = *site->scheduler.Decide(site->now).value();
    decided += d.starts.size() + d.stops.size();
  }
  Require(decided == 0, "something started");
}
BENCHMARK(BM_Scheduler_DecideBlocked)
    ->Args({500, 4'000})
    ->Args({1'000, 320'000})
    ->Args({100'000, 1'000'000})
    ->Unit(benchmark::kMicrosecond);

// The same with so many leaf allocations, of which 15 run something and wait.
void BM_Scheduler_DecideLeaves(benchmark::State& state) {
  const auto site = Blocked(1'000, 1, 10'000, state.range(0));
  for (auto _ : state) {
    site->now += std::chrono::milliseconds(1);
    benchmark::DoNotOptimize(site->scheduler.Decide(site->now).value());
  }
}
BENCHMARK(BM_Scheduler_DecideLeaves)
    ->Arg(1'000)
    ->Arg(10'000)
    ->Arg(100'000)
    ->Arg(1'000'000)
    ->Unit(benchmark::kMicrosecond);

// 4,000 runs of seven leaves are past their minimum, eight leaves that have nothing want GPUs.
void BM_Scheduler_DecidePreempting(benchmark::State& state) {
  Site site(state.range(0));
  site.Fill(1, minutes(30), 0, 7);
  site.now += hours(10);
  site.Queue(state.range(1), 7, 15);
  std::size_t stops = 0;
  for (auto _ : state) {
    state.PauseTiming();
    auto copy = std::make_unique<BudgetScheduler>(site.scheduler.Clone());
    state.ResumeTiming();
    stops = copy->Decide(site.now).value()->stops.size();
    state.PauseTiming();
    copy.reset();
    state.ResumeTiming();
  }
  state.counters["stops"] = static_cast<double>(stops);
}
BENCHMARK(BM_Scheduler_DecidePreempting)->Args({500, 4'000})->Unit(benchmark::kMicrosecond);

// An empty cluster is filled from the queue.
void BM_Scheduler_DecideStarting(benchmark::State& state) {
  Site site(state.range(0));
  site.Queue(state.range(1), 0, 15);
  std::size_t starts = 0;
  for (auto _ : state) {
    state.PauseTiming();
    auto copy = std::make_unique<BudgetScheduler>(site.scheduler.Clone());
    state.ResumeTiming();
    starts = copy->Decide(site.now).value()->starts.size();
    state.PauseTiming();
    copy.reset();
    state.ResumeTiming();
  }
  state.counters["starts"] = static_cast<double>(starts);
}
BENCHMARK(BM_Scheduler_DecideStarting)
    ->Args({500, 4'000})
    ->Args({1'000, 320'000})
    ->Unit(benchmark::kMicrosecond);

WorkloadSpec OneGpu(const Site& site) {
  WorkloadSpec w;
  w.id = WorkloadId(1'000'000'000);
  w.allocation = site.leaves[3];
  w.minimum = hours(1);
  return w;
}

// Two events: a workload comes and is withdrawn.
void BM_Scheduler_SubmitCancel(benchmark::State& state) {
  const auto site = Blocked(state.range(0), 8, state.range(1));
  const WorkloadSpec w = OneGpu(*site);
  for (auto _ : state) {
    Require(site->scheduler.Submit(w, site->now));
    Require(site->scheduler.Cancel(w.id, site->now));
  }
}
BENCHMARK(BM_Scheduler_SubmitCancel)->Args({1'000, 10'000})->Args({100'000, 1'000'000});

// The same for a gang that the declared cluster could never hold: the verdict is immediate.
void BM_Scheduler_SubmitNeverFits(benchmark::State& state) {
  const auto site = Blocked(state.range(0), 8, state.range(1));
  WorkloadSpec w = OneGpu(*site);
  w.nodes = static_cast<std::uint32_t>(state.range(0) + 1);
  w.gpus_per_node = GpuCount(8);
  for (auto _ : state) {
    Require(site->scheduler.Submit(w, site->now));
    Require(site->scheduler.Cancel(w.id, site->now));
  }
}
BENCHMARK(BM_Scheduler_SubmitNeverFits)->Args({1'000, 10'000})->Args({100'000, 1'000'000});

// Up to `count` runs of the site.
std::vector<RunRef> Running(const Site& site, std::size_t count) {
  const WorkloadTable& table = site.scheduler.table();
  std::vector<RunRef> out;
  for (RunSlot s = 0; s < table.slots() && out.size() < count; ++s) {
    if (table.run(s).state != WorkloadState::kRunning) continue;
    out.push_back({table.run(s).id, table.workload(s).run});
  }
  return out;
}

// One event: a run of a whole node ends.
void BM_Scheduler_ReportEnded(benchmark::State& state) {
  const auto site = Blocked(state.range(0), 8, state.range(1));
  const std::vector<RunRef> running = Running(*site, state.max_iterations);
  std::size_t i = 0;
  for (auto _ : state) {
    Require(site->scheduler.ReportEnded(running[i].workload, running[i].run, site->now));
    ++i;
  }
}
BENCHMARK(BM_Scheduler_ReportEnded)->Args({100'000, 1'000'000})->Iterations(50'000);

// A run ends, the next request starts: three events and a pass.
void BM_Scheduler_EndAndRestart(benchmark::State& state) {
  const auto site = Blocked(state.range(0), 8, state.range(1));
  const std::vector<RunRef> running = Running(*site, state.max_iterations);
  std::size_t i = 0, starts = 0;
  for (auto _ : state) {
    Require(site->scheduler.ReportEnded(running[i].workload, running[i].run, site->now));
    starts += site->Pass().starts.size();
    ++i;
  }
  state.counters["starts"] =
      benchmark::Counter(static_cast<double>(starts), benchmark::Counter::kAvgIterations);
}
BENCHMARK(BM_Scheduler_EndAndRestart)
    ->Args({1'000, 320'000})
    ->Iterations(500)
    ->Unit(benchmark::kMicrosecond);

// One in 25 of the workloads runs (on count / 200 nodes), the rest is queued.
std::unique_ptr<Site> WithWorkloads(std::int64_t count) {
  auto site = std::make_unique<Site>(count / 200);
  site->Fill(1, hours(8), 0, 15);
  site->Queue(count - static_cast<std::int64_t>(site->scheduler.workloads()), 0, 15);
  return site;
}

void BM_Scheduler_Snapshot(benchmark::State& state) {
  const auto site = WithWorkloads(state.range(0));
  std::size_t bytes = 0;
  for (auto _ : state) {
    const std::string snapshot = site->scheduler.Snapshot();
    bytes = snapshot.size();
    benchmark::DoNotOptimize(snapshot.data());
  }
  state.counters["bytes"] = static_cast<double>(bytes);
}
BENCHMARK(BM_Scheduler_Snapshot)->Arg(10'000)->Arg(100'000)->Unit(benchmark::kMillisecond);

void BM_Scheduler_Restore(benchmark::State& state) {
  const std::string snapshot = WithWorkloads(state.range(0))->scheduler.Snapshot();
  BudgetScheduler restored;
  for (auto _ : state) Require(restored.Restore(snapshot));
  Require(restored.Snapshot() == snapshot, "restored another state");
}
BENCHMARK(BM_Scheduler_Restore)->Arg(10'000)->Arg(100'000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tenure::bench
