// SPDX-License-Identifier: Apache-2.0
//
// The queue of benchmarks/slurm/run.sh: 64 nodes of 8 GPUs, all busy, and N requests of 1, 2 or 4
// GPUs and 60 to 659 minutes of 150 accounts in 15 teams.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "scenes.h"

namespace tenure::bench {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

class Queue {
 public:
  Queue(std::int64_t waiting, const SchedulerOptions& options) : scheduler_(options) {
    const GpuTypeId type = scheduler_.InternGpuType("h100");
    sim::ClusterSpec spec;
    spec.nodes = 64;
    Require(sim::AddNodes(
        spec, [&](const std::string& name) { return scheduler_.AddDomain(name, kRootDomain); },
        [&](const std::string& name, GpuCount gpus, DomainId rack) {
          return scheduler_.AddNode(name, gpus, type, rack, now_);
        }));
    const AllocationId org = Add("org", kRootAllocation);
    for (int team = 0; team < 15; ++team) {
      const AllocationId parent = Add(absl::StrCat("t", team), org);
      for (int i = 0; i < 10; ++i) accounts_.push_back(Add(absl::StrCat("a", team, i), parent));
    }
    for (std::size_t i = 0; i < 64; ++i) Submit(i, GpuCount(8), hours(8));
    const Decisions& d = *scheduler_.Decide(now_).value();
    Require(d.starts.size() == 64, "all nodes must be busy");
    for (const Start& s : d.starts) Require(scheduler_.ReportStarted(s.workload, s.run, now_));
    std::uint32_t random = 12345;  // as in slurm/submit.c
    for (std::int64_t i = 0; i < waiting; ++i) {
      random = random * 1103515245u + 12345u;
      Submit(static_cast<std::size_t>(i), GpuCount(1 << ((random >> 16) % 3)),
             minutes(60 + (random >> 20) % 600));
    }
    now_ += minutes(1);
  }

  // An hour later accounts that run nothing are behind.
  void WaitAnHour() {
    Require(scheduler_.Decide(now_).status());
    now_ += hours(1);
  }

  BudgetScheduler& scheduler() { return scheduler_; }
  TimePoint now() const { return now_; }

 private:
  AllocationId Add(std::string name, AllocationId parent) {
    return scheduler_.AddAllocation(std::move(name), parent, Weight{1.0}, now_).value();
  }
  void Submit(std::size_t i, GpuCount gpus, Duration minimum) {
    WorkloadSpec w;
    w.id = WorkloadId(++last_id_);
    w.allocation = accounts_[i % accounts_.size()];
    w.gpus_per_node = gpus;
    w.minimum = minimum;
    Require(scheduler_.Submit(w, now_));
  }

  BudgetScheduler scheduler_;
  std::vector<AllocationId> accounts_;
  TimePoint now_{};
  std::uint64_t last_id_ = 0;
};

SchedulerOptions NoLane() {
  SchedulerOptions options;
  options.lane_permille = 0;
  return options;
}

// Shares, order and places of the whole queue, again and again: nothing can start.
void BM_QueueBeside_Pass(benchmark::State& state) {
  Queue queue(state.range(0), NoLane());
  Require(queue.scheduler().Decide(queue.now()).status());
  for (auto _ : state) {
    const Decisions& d = *queue.scheduler().Decide(queue.now()).value();
    Require(d.starts.empty() && d.stops.empty(), "something started");
  }
}

// One pass, on a copy each time.
void Once(benchmark::State& state, Queue& queue) {
  std::size_t promises = 0;
  for (auto _ : state) {
    state.PauseTiming();
    auto copy = std::make_unique<BudgetScheduler>(queue.scheduler().Clone());
    state.ResumeTiming();
    promises = copy->Decide(queue.now()).value()->promises.size();
    state.PauseTiming();
    copy.reset();
    state.ResumeTiming();
  }
  state.counters["promises"] = static_cast<double>(promises);
}

// The first pass after all requests were submitted.
void BM_QueueBeside_First(benchmark::State& state) {
  Queue queue(state.range(0), NoLane());
  Once(state, queue);
}

// As many starts are promised as there are nodes: one an account, each on a node of its own.
void BM_QueueBeside_Promises(benchmark::State& state) {
  SchedulerOptions options = NoLane();
  options.reservation.gang = GpuCount(1);
  options.reservation.first_credit = options.reservation.restart_credit = Duration(1);
  Queue queue(state.range(0), options);
  queue.WaitAnHour();
  Once(state, queue);
  Require(state.counters["promises"] > 0, "nothing was promised");
}

#define TENURE_QUEUE(name) \
  BENCHMARK(name)->Arg(1'000)->Arg(10'000)->Arg(30'000)->Unit(benchmark::kMicrosecond)
TENURE_QUEUE(BM_QueueBeside_Pass);
TENURE_QUEUE(BM_QueueBeside_First);
TENURE_QUEUE(BM_QueueBeside_Promises);

}  // namespace
}  // namespace tenure::bench
