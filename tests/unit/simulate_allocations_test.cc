// SPDX-License-Identifier: Apache-2.0
//
// Memory of a simulation: what the inner loop allocates, and what stays.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tenure/sim/institute.h"
#include "tenure/sim/live_jobs.h"
#include "tenure/sim/simulate.h"

// A sanitizer has its own allocator.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TENURE_IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TENURE_IS_SANITIZED 1
#endif
#endif
#ifndef TENURE_IS_SANITIZED
#define TENURE_COUNTS_ALLOCATIONS 1

namespace {
thread_local std::int64_t allocations = 0;
}  // namespace

// Inlined into its caller, one of a pair looks to the compiler as if it did not match the other.
__attribute__((noinline)) void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* p = std::malloc(bytes)) return p;
  throw std::bad_alloc();
}
__attribute__((noinline)) void operator delete(void* p) noexcept { std::free(p); }
__attribute__((noinline)) void operator delete(void* p, std::size_t) noexcept { std::free(p); }
#endif

namespace tenure::sim {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

TEST(LiveJobs, RoomIsUsedAgain) {
  LiveJobs<int> live(100);
  for (std::size_t job = 0; job < 100; ++job) {
    EXPECT_EQ(live.Add(job), 0);
    live[job] = static_cast<int>(job);
    if (job < 3) continue;
    EXPECT_EQ(live[job - 3], static_cast<int>(job - 3));
    live.Remove(job - 3);
    EXPECT_FALSE(live.contains(job - 3));
  }
  EXPECT_EQ(live.jobs(), 100u);
  EXPECT_EQ(live.capacity(), 4u);
}

#ifdef TENURE_COUNTS_ALLOCATIONS

// Starts single GPUs in order of arrival and stops the oldest run at every tenth pass. Once its
// lists have grown it allocates nothing itself.
class InTurn : public Engine {
 public:
  explicit InTurn(TimePoint from) : from_(from) {}

  absl::Status Submit(const WorkloadSpec& spec, Duration, TimePoint) override {
    queue_.push_back({spec.id, RunNumber(0)});
    dirty_ = true;
    return absl::OkStatus();
  }
  absl::Status Cancel(WorkloadId, TimePoint) override { return absl::OkStatus(); }
  absl::Status ReportStarted(WorkloadId, RunNumber, TimePoint) override { return absl::OkStatus(); }
  absl::Status ReportEnded(WorkloadId id, RunNumber, TimePoint) override {
    Take(id);
    return absl::OkStatus();
  }
  absl::Status ReportStopped(WorkloadId id, RunNumber, TimePoint) override {
    queue_.push_back(Take(id));
    return absl::OkStatus();
  }
  absl::Status ReportIdle(WorkloadId, bool, TimePoint) override { return absl::OkStatus(); }
  bool Dirty() const override { return dirty_; }

  absl::StatusOr<const Decisions*> Decide(TimePoint now) override {
    if (first_ < 0 && now >= from_) first_ = allocations;
    last_ = allocations;
    dirty_ = false;
    decisions_.Clear();
    decisions_.next_wakeup = kNever;
    if (++passes_ % 10 == 0 && !running_.empty()) {
      Stop stop;
      stop.workload = running_.front().id;
      stop.run = running_.front().run;
      decisions_.stops.push_back(stop);
    }
    while (!queue_.empty() && running_.size() < 8) {
      Entry e = queue_.front();
      queue_.erase(queue_.begin());
      e.run = RunNumber(e.run.value() + 1);
      running_.push_back(e);
      decisions_.starts.push_back({e.id, e.run, {0, 1}, GpuCount(1)});
      decisions_.node_pool.assign(1, NodeId(0));
      ++starts_;
    }
    return &decisions_;
  }

  // From the first pass at `from` to the last one.
  std::int64_t allocated() const { return last_ - first_; }
  std::int64_t starts() const { return starts_; }

 private:
  struct Entry {
    WorkloadId id;
    RunNumber run;
  };
  Entry Take(WorkloadId id) {
    dirty_ = true;
    for (auto it = running_.begin(); it != running_.end(); ++it) {
      if (it->id != id) continue;
      const Entry e = *it;
      running_.erase(it);
      return e;
    }
    ADD_FAILURE() << "not running";
    return {};
  }

  TimePoint from_;
  bool dirty_ = false;
  std::int64_t first_ = -1, last_ = 0, starts_ = 0, passes_ = 0;
  std::vector<Entry> queue_, running_;
  Decisions decisions_;
};

TEST(Simulation, TheInnerLoopAllocatesNothing) {
  World world;
  world.cluster = {.nodes = 1, .gpus_per_node = 8, .nodes_per_rack = 0};
  world.leaves = {{"a", {1}}, {"b", {1}}};
  constexpr Duration kEnd = hours(24 * 30);
  for (Duration t{0}; t < kEnd; t += minutes(1)) {
    JobRow job;
    job.submit_us = t.count();
    job.runtime_us = Duration(minutes(5)).count();
    job.minimum_us = Duration(minutes(1)).count();
    job.checkpoint_us = Duration(minutes(1)).count();
    job.leaf = static_cast<std::int32_t>(t / minutes(1) % 2);
    world.jobs.push_back(job);
  }
  BudgetTree tree;
  const std::vector<AllocationId> ids =
      AddLeaves(world, [&](const std::string& name, AllocationId parent, Weight weight) {
        return tree.Add(name, parent, weight);
      }).value();
  SimOptions options;
  options.end = kEnd;
  InTurn engine{TimePoint(kEnd / 2)};
  MetricsRecorder recorder(world, tree, ids, {.warmup = options.warmup, .end = options.end});
  const Metrics m = Simulation(world, engine, ids, recorder, options).Run({}).value();
  EXPECT_GT(m.jobs_done, 43'000);
  EXPECT_GT(m.preemptions, 4'000);
  EXPECT_GT(engine.starts(), m.jobs_done);
  EXPECT_EQ(engine.allocated(), 0);
}

// With the default policy, whose queues allocate as they grow and shrink.
TEST(Simulation, APassOfTheDefaultPolicyAllocatesSeldom) {
  InstituteOptions institute;
  institute.load = 1.7;
  const World world = GenerateInstitute(institute).value();
  SimOptions options;
  options.end = hours(24 * 6);
  std::vector<std::int64_t> at;  // every 4,096 passes
  at.reserve(1000);
  const auto note = [&](double part) {
    if (part > 0.5) at.push_back(allocations);
    return true;
  };
  ASSERT_TRUE(Simulate(world, "budget", {}, options, note).ok());
  ASSERT_GE(at.size(), 2u);
  const auto passes = 4'096 * static_cast<std::int64_t>(at.size() - 1);
  RecordProperty("per_pass_permille", static_cast<int>((at.back() - at.front()) * 1000 / passes));
  EXPECT_LT(at.back() - at.front(), passes * 2);
}

#endif

}  // namespace
}  // namespace tenure::sim
