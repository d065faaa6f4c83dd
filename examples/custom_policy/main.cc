// SPDX-License-Identifier: Apache-2.0
//
// A policy of one's own: four hooks, compiled into the engine. This one orders teams by *lag*, the
// GPU-time a team is behind its entitlement over the last day, and tests what follows from it.
// Exits with 0 if every expectation holds.
#include <chrono>
#include <cstdint>
#include <cstdio>

#include "tenure/scheduler.h"

namespace {

using std::chrono::hours;
using std::chrono::minutes;

class LagPolicy : public tenure::PolicyDefaults {
 public:
  // Lower is served first: use minus what the entitlement was worth in a day. A large team that is
  // 10 % behind lacks more GPU-time than a small one that got nothing, and goes first.
  tenure::Duration RankKey(const tenure::AllocationView& a) const {
    const tenure::GpuTime worth(a.entitlement.value() * tenure::Duration(hours(24)).count() / 1000);
    return tenure::Duration((a.used - worth).value() / 1000);  // GPU-milliseconds
  }

  // The engine asks only about runs that are past their minimum or unfunded.
  bool MayPreempt(const tenure::PolicyContext& ctx, const tenure::Requester& requester,
                  const tenure::Victim& victim) const {
    if (!victim.run.funded) return true;
    return ctx.ranking.Gap(ctx.tree, requester.leaf, victim.run.leaf) > kGap;
  }

  // The youngest run is stopped first: what has run longest is closest to its end.
  std::int64_t VictimCost(const tenure::PolicyContext& ctx, const tenure::Run& run) const {
    return (ctx.now - run.start).count() / 1000 + (run.funded ? kFundedCost : 0);
  }

  // Free GPUs are taken where as many as possible are free, so that heat spreads.
  static constexpr bool kUsesNodeScore = true;
  std::int64_t NodeScore(const tenure::Node& node, const tenure::Shape&) const {
    return node.free();
  }

 private:
  // One GPU-hour, in the unit of the key.
  static constexpr tenure::Duration kGap{3'600'000};
};
static_assert(tenure::SchedulingPolicy<LagPolicy>);

int failures = 0;
void Expect(bool holds, const char* what) {
  std::printf("%s  %s\n", holds ? "ok    " : "FAILED", what);
  failures += !holds;
}
void Expect(const absl::Status& status) {
  if (!status.ok()) Expect(false, status.ToString().c_str());
}

}  // namespace

int main() {
  tenure::SchedulerOptions options;
  options.lookback = hours(24);
  options.lane_permille = 0;
  options.ranking.fluid = false;  // LagPolicy does not ask for it
  tenure::Scheduler<LagPolicy> scheduler(options);
  tenure::TimePoint now{};
  const auto type = scheduler.InternGpuType("h100");
  for (const char* name : {"node-1", "node-2"}) {
    Expect(scheduler.AddNode(name, tenure::GpuCount(8), type, tenure::kRootDomain, now).status());
  }
  const auto team = [&](const char* name, double weight) {
    return scheduler.AddAllocation(name, tenure::kRootAllocation, tenure::Weight{weight}, now)
        .value();
  };
  const auto large = team("large", 3), small = team("small", 1);

  std::uint64_t last_id = 0;
  const auto submit = [&](tenure::AllocationId allocation, int gpus) {
    tenure::WorkloadSpec w;
    w.id = tenure::WorkloadId(++last_id);
    w.allocation = allocation;
    w.gpus_per_node = tenure::GpuCount(gpus);
    w.minimum = hours(1);
    Expect(scheduler.Submit(w, now));
    return w.id;
  };
  const auto pass = [&] {
    const tenure::Decisions d = **scheduler.Decide(now);
    for (const tenure::Start& s : d.starts) {
      Expect(scheduler.ReportStarted(s.workload, s.run, now));
    }
    return d;
  };

  // Node score: the second request goes to the emptier node although the first has room.
  const auto first = submit(small, 4), second = submit(small, 4);
  tenure::Decisions d = pass();
  Expect(d.starts.size() == 2 && d.starts[0].workload == first && d.starts[1].workload == second,
         "both requests start in queue order");
  Expect(d.Nodes(d.starts[0])[0] != d.Nodes(d.starts[1])[0], "spread over two nodes");
  submit(small, 4);
  now += minutes(10);
  pass();
  const auto youngest = submit(small, 4);
  now += minutes(10);
  pass();

  // Rank key: the large team has had nothing and is entitled to three quarters.
  now += minutes(30);
  const auto waits = submit(large, 4);
  d = pass();
  Expect(d.stops.empty() && d.starts.empty(), "nothing is stopped inside its minimum");

  // All are past their minimum now.
  now += hours(2);
  d = pass();
  Expect(d.stops.size() == 1, "one run is stopped, no more than is needed");
  Expect(!d.stops.empty() && d.stops[0].workload == youngest, "the youngest one");
  Expect(!d.stops.empty() && d.stops[0].beneficiary == waits, "for the large team");
  if (!d.stops.empty()) {
    Expect(scheduler.ReportStopped(d.stops[0].workload, d.stops[0].run, now).status());
  }
  d = pass();
  Expect(d.starts.size() == 1 && d.starts[0].workload == waits, "which then starts");

  // The stopped run must not take its place back: its team is ahead.
  now += hours(3);
  d = pass();
  Expect(d.stops.empty(), "no ping-pong");
  return failures == 0 ? 0 : 1;
}
