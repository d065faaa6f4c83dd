// SPDX-License-Identifier: Apache-2.0
//
// The same work through C++ and through tenure.h, side by side: what the C face costs. Names end in
// /nodes/queued as in scheduler_bench.cc; compare BM_Cpp_X with BM_C_X. `decided` must be equal.
//
// What is timed is in functions of their own, Timed*, so that its instructions can be counted:
//   valgrind --tool=callgrind --toggle-collect='*Timed*' capi_bench --benchmark_filter=BM_C_Decide
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "scenes.h"
#include "tenure/tenure.h"

namespace tenure::bench {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

std::int64_t Us(TimePoint t) { return t.time_since_epoch().count(); }

void Require(tenure_status status) {
  if (status != TENURE_OK) tenure::bench::Require(absl::InternalError(tenure_last_error_message()));
}

// A start or stop in the words of both.
struct Ref {
  std::uint64_t workload;
  std::uint32_t run;
};

class Cpp {
 public:
  explicit Cpp(std::int64_t nodes) : site_(nodes) {}
  Cpp(const Cpp& o) : site_(o.site_) {}
  std::uint32_t leaf(std::size_t i) const { return site_.leaves[i].value(); }

  void Submit(std::uint64_t id, std::uint32_t leaf, std::int64_t gpus, std::uint32_t nodes,
              Duration minimum, TimePoint now) {
    WorkloadSpec w;
    w.id = WorkloadId(id);
    w.allocation = AllocationId(leaf);
    w.gpus_per_node = GpuCount(gpus);
    w.nodes = nodes;
    w.minimum = minimum;
    bench::Require(site_.scheduler.Submit(w, now));
  }
  void Cancel(std::uint64_t id, TimePoint now) {
    bench::Require(site_.scheduler.Cancel(WorkloadId(id), now));
  }
  // One pass; `started` gets what it starts.
  std::size_t Decide(TimePoint now, std::vector<Ref>& started) {
    const Decisions& d = *site_.scheduler.Decide(now).value();
    started.clear();
    for (const Start& s : d.starts) started.push_back({s.workload.value(), s.run.value()});
    return d.starts.size() + d.stops.size();
  }
  void Started(Ref r, TimePoint now) {
    bench::Require(site_.scheduler.ReportStarted(WorkloadId(r.workload), RunNumber(r.run), now));
  }
  void Ended(Ref r, TimePoint now) {
    bench::Require(site_.scheduler.ReportEnded(WorkloadId(r.workload), RunNumber(r.run), now));
  }

 private:
  Site site_;
};

class C {
 public:
  explicit C(std::int64_t nodes) {
    Require(tenure_scheduler_create(nullptr, &s_));
    std::uint32_t type = 0;
    Require(tenure_gpu_type_add(s_, "h100", &type));
    sim::ClusterSpec spec;
    spec.nodes = static_cast<std::int32_t>(nodes);
    bench::Require(sim::AddNodes(
        spec,
        [&](const std::string& name) -> absl::StatusOr<DomainId> {
          std::uint32_t id = 0;
          Require(tenure_domain_add(s_, TENURE_ROOT, name.c_str(), &id));
          return DomainId(id);
        },
        [&](const std::string& name, GpuCount gpus, DomainId rack) -> absl::StatusOr<NodeId> {
          std::uint32_t id = 0;
          Require(tenure_node_add(s_, name.c_str(), static_cast<std::int32_t>(gpus.value()), type,
                                  rack.value(), 0, &id));
          return NodeId(id);
        }));
    leaves_ = AddAllocations(
        15,
        [&](const std::string& name, AllocationId parent,
            Weight weight) -> absl::StatusOr<AllocationId> {
          std::uint32_t id = 0;
          Require(tenure_allocation_add(s_, parent.value(), name.c_str(), weight.value, 0, &id));
          return AllocationId(id);
        });
    const std::size_t size = static_cast<std::size_t>(nodes) * 8;
    buffers_->starts.resize(size);
    buffers_->stops.resize(size);
    buffers_->nodes.resize(size * 4);
  }
  C(const C& o) : leaves_(o.leaves_), buffers_(o.buffers_) {
    Require(tenure_scheduler_clone(o.s_, &s_));
  }
  C& operator=(const C&) = delete;
  ~C() { tenure_scheduler_destroy(s_); }
  std::uint32_t leaf(std::size_t i) const { return leaves_[i].value(); }

  void Submit(std::uint64_t id, std::uint32_t leaf, std::int64_t gpus, std::uint32_t nodes,
              Duration minimum, TimePoint now) {
    tenure_workload w = TENURE_WORKLOAD_INIT;
    w.id = id;
    w.allocation = leaf;
    w.gpus_per_node = static_cast<std::int32_t>(gpus);
    w.nodes = nodes;
    w.minimum_us = minimum.count();
    Require(tenure_workload_submit(s_, &w, Us(now)));
  }
  void Cancel(std::uint64_t id, TimePoint now) { Require(tenure_workload_cancel(s_, id, Us(now))); }
  std::size_t Decide(TimePoint now, std::vector<Ref>& started) {
    Buffers& b = *buffers_;
    tenure_decisions d = TENURE_DECISIONS_INIT;
    d.starts = b.starts.data(), d.start_capacity = b.starts.size();
    d.stops = b.stops.data(), d.stop_capacity = b.stops.size();
    d.nodes = b.nodes.data(), d.node_capacity = b.nodes.size();
    Require(tenure_scheduler_decide(s_, Us(now), &d));
    started.clear();
    for (std::size_t i = 0; i < d.start_count; ++i) {
      started.push_back({b.starts[i].workload, b.starts[i].run});
    }
    return d.start_count + d.stop_count;
  }
  void Started(Ref r, TimePoint now) {
    Require(tenure_run_started(s_, r.workload, r.run, Us(now), Us(now)));
  }
  void Ended(Ref r, TimePoint now) {
    Require(tenure_run_ended(s_, r.workload, r.run, Us(now), Us(now)));
  }

 private:
  // What a caller keeps from pass to pass. Clones share it: filling fresh buffers between the
  // making of a scheduler and its first pass would push its state out of the cache.
  struct Buffers {
    std::vector<tenure_start> starts;
    std::vector<tenure_stop> stops;
    std::vector<std::uint32_t> nodes;
  };

  tenure_scheduler* s_ = nullptr;
  std::vector<AllocationId> leaves_;
  std::shared_ptr<Buffers> buffers_ = std::make_shared<Buffers>();
};

#define TENURE_TIMED    \
  template <class Face> \
  __attribute__((noinline))

TENURE_TIMED std::size_t TimedPass(Face& face, TimePoint now, std::vector<Ref>& started) {
  return face.Decide(now, started);
}

// A run ends, the next request is submitted, a pass, and what it starts is reported.
TENURE_TIMED std::size_t TimedEvents(Face& face, Ref ended, std::uint64_t id, TimePoint now,
                                     std::vector<Ref>& started) {
  face.Ended(ended, now);
  face.Submit(id, face.leaf(id % 15), 1, 1, hours(1), now);
  const std::size_t decided = face.Decide(now, started);
  for (const Ref r : started) face.Started(r, now);
  return decided;
}

TENURE_TIMED void TimedSubmitCancel(Face& face) {
  face.Submit(10'000'000, face.leaf(3), 1, 1, hours(1), TimePoint{});
  face.Cancel(10'000'000, TimePoint{});
}

// Requests of 1 to 8 GPUs, a tenth of them gangs.
template <class Face>
void Queue(Face& face, std::int64_t count, TimePoint now, std::uint64_t first_id) {
  sim::Rng rng(7);
  for (std::int64_t i = 0; i < count; ++i) {
    const bool gang = rng.Below(10) == 0;
    face.Submit(first_id + static_cast<std::uint64_t>(i),
                face.leaf(static_cast<std::size_t>(i) % 15),
                gang ? 8 : std::int64_t{1} << rng.Below(4), gang ? 2u << rng.Below(3) : 1u,
                hours(1 + rng.Below(8)), now);
  }
}

// A pass in which nothing can start: the fixed cost.
template <class Face>
void DecideBlocked(benchmark::State& state) {
  Face face(state.range(0));
  std::vector<Ref> started;
  TimePoint now{};
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    face.Submit(static_cast<std::uint64_t>(i), face.leaf(static_cast<std::size_t>(i) % 15), 8, 1,
                hours(8), now);
  }
  for (int i = 0; i < 3; ++i) {
    face.Decide(now, started);
    for (const Ref r : started) face.Started(r, now);
  }
  Queue(face, state.range(1), now, 1'000'000);
  now += minutes(1);
  for (int i = 0; i < 3; ++i) {
    face.Decide(now, started);
    for (const Ref r : started) face.Started(r, now);
  }
  std::size_t decided = 0;
  for (auto _ : state) decided += TimedPass(face, now, started);
  bench::Require(decided == 0, "something started");
}

// An empty cluster is filled from the queue: a pass with thousands of decisions to hand over.
template <class Face>
void DecideStarting(benchmark::State& state) {
  Face full(state.range(0));
  Queue(full, state.range(1), TimePoint{}, 1);
  std::vector<Ref> started;
  std::size_t decided = 0;
  for (auto _ : state) {
    state.PauseTiming();
    auto face = std::make_unique<Face>(full);
    state.ResumeTiming();
    decided = TimedPass(*face, TimePoint{}, started);
    state.PauseTiming();
    face.reset();
    state.ResumeTiming();
  }
  state.counters["decided"] = static_cast<double>(decided);
}

// What a resource manager does all day.
template <class Face>
void EndAndRestart(benchmark::State& state) {
  Face face(state.range(0));
  std::vector<Ref> started, running;
  TimePoint now{};
  Queue(face, state.range(1), now, 1);
  for (int i = 0; i < 3; ++i) {
    face.Decide(now, started);
    for (const Ref r : started) face.Started(r, now);
    running.insert(running.end(), started.begin(), started.end());
  }
  std::uint64_t id = 10'000'000;
  std::size_t next = 0, decided = 0;
  for (auto _ : state) {
    now += std::chrono::milliseconds(10);
    decided += TimedEvents(face, running[next++], ++id, now, started);
    running.insert(running.end(), started.begin(), started.end());
  }
  state.counters["decided"] =
      benchmark::Counter(static_cast<double>(decided), benchmark::Counter::kAvgIterations);
}

// Two calls that do little: the cost of the face itself shows most.
template <class Face>
void SubmitCancel(benchmark::State& state) {
  Face face(state.range(0));
  Queue(face, state.range(1), TimePoint{}, 1);
  for (auto _ : state) TimedSubmitCancel(face);
}

BENCHMARK_TEMPLATE(DecideBlocked, Cpp)
    ->Name("BM_Cpp_DecideBlocked")
    ->Args({500, 4'000})
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_TEMPLATE(DecideBlocked, C)
    ->Name("BM_C_DecideBlocked")
    ->Args({500, 4'000})
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_TEMPLATE(DecideStarting, Cpp)
    ->Name("BM_Cpp_DecideStarting")
    ->Args({500, 4'000})
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_TEMPLATE(DecideStarting, C)
    ->Name("BM_C_DecideStarting")
    ->Args({500, 4'000})
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_TEMPLATE(EndAndRestart, Cpp)
    ->Name("BM_Cpp_EndAndRestart")
    ->Args({500, 4'000})
    ->Iterations(500)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_TEMPLATE(EndAndRestart, C)
    ->Name("BM_C_EndAndRestart")
    ->Args({500, 4'000})
    ->Iterations(500)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_TEMPLATE(SubmitCancel, Cpp)->Name("BM_Cpp_SubmitCancel")->Args({500, 4'000});
BENCHMARK_TEMPLATE(SubmitCancel, C)->Name("BM_C_SubmitCancel")->Args({500, 4'000});

}  // namespace
}  // namespace tenure::bench
