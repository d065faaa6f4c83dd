// SPDX-License-Identifier: Apache-2.0
//
// A resource manager in a hundred lines: it keeps the clock and the processes, Tenure decides. One
// node of 8 GPUs, two teams with equal budgets, a story in simulated time:
//
//   10:00  vision starts two runs on all GPUs, each protected for its minimum of one hour
//   10:05  robots, which has had nothing, asks for 4 GPUs and waits
//   12:00  the hour and another of margin against thrashing are over: one of vision's runs,
//          one and no more, is stopped for robots and waits again
//   12:30  the node drains: vision leaves at once, robots when its own hour is over
//
// Exits with 0 if the story goes like that.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>

#include "tenure/scheduler.h"

namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

// Every call below is correct by construction; a real caller logs the message and goes on.
void Must(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

class ResourceManager {
 public:
  tenure::Scheduler<tenure::BudgetPolicy> scheduler;
  tenure::TimePoint now{hours(10)};

  // Time passes until `end`: Tenure is asked when it wants to be, and after every event.
  void RunUntil(tenure::TimePoint end) {
    while (true) {
      Pass();
      tenure::TimePoint next = std::min(end, wakeup_);
      for (const auto& [id, stopping] : stopping_) next = std::min(next, stopping.second);
      now = next;
      // What was stopped has saved its work and is gone.
      for (auto it = stopping_.begin(); it != stopping_.end();) {
        const auto [id, stopping] = *it;
        if (stopping.second > now) {
          ++it;
          continue;
        }
        const auto outcome = scheduler.ReportStopped(id, stopping.first, now);
        Must(outcome.status());
        const bool again = *outcome == tenure::LossOutcome::kRequeued;
        Say(id, again ? "is stopped, waits again" : "is gone");
        it = stopping_.erase(it);
      }
      if (now == end) return Pass();
    }
  }

  void Submit(const tenure::WorkloadSpec& spec) {
    Must(scheduler.Submit(spec, now));
    names_[spec.id] = spec.name;
    Say(spec.id, "is submitted");
  }

  void Say(tenure::WorkloadId id, const std::string& what) { Say(names_[id] + " " + what); }
  void Say(const std::string& what) {
    const auto minute = std::chrono::duration_cast<minutes>(now.time_since_epoch()).count();
    const auto second = std::chrono::duration_cast<seconds>(now.time_since_epoch()).count() % 60;
    std::printf("%02d:%02d:%02d  %s\n", static_cast<int>(minute / 60),
                static_cast<int>(minute % 60), static_cast<int>(second), what.c_str());
  }

 private:
  // Asks for decisions and carries them out. Launching takes no time here.
  void Pass() {
    const absl::StatusOr<const tenure::Decisions*> decided = scheduler.Decide(now);
    Must(decided.status());
    for (const tenure::Stop& stop : (*decided)->stops) {
      const bool drain = stop.reason == tenure::StopReason::kDrain;
      Say(stop.workload, drain ? "must leave the draining node"
                               : "must make room for " + names_[stop.beneficiary]);
      stopping_[stop.workload] = {stop.run, now + stop.grace};
    }
    for (const tenure::Start& start : (*decided)->starts) {
      const std::string& node = scheduler.cluster().node((*decided)->Nodes(start).front()).name;
      Say(start.workload, "starts on " + node);
      Must(scheduler.ReportStarted(start.workload, start.run, now));
    }
    wakeup_ = (*decided)->next_wakeup;
  }

  tenure::TimePoint wakeup_ = tenure::kNever;
  std::map<tenure::WorkloadId, std::string> names_;
  std::map<tenure::WorkloadId, std::pair<tenure::RunNumber, tenure::TimePoint>> stopping_;
};

}  // namespace

int main() {
  ResourceManager rm;
  auto& scheduler = rm.scheduler;
  const auto h100 = scheduler.InternGpuType("h100");
  const auto node =
      scheduler.AddNode("node-1", tenure::GpuCount(8), h100, tenure::kRootDomain, rm.now);
  Must(node.status());
  const auto team = [&](const char* name) {
    return scheduler.AddAllocation(name, tenure::kRootAllocation, tenure::Weight{1}, rm.now);
  };
  const auto vision = team("vision"), robots = team("robots");
  Must(vision.status());
  Must(robots.status());

  tenure::WorkloadSpec job;
  job.gpus_per_node = tenure::GpuCount(4);
  job.minimum = hours(1);
  const auto submit = [&](std::uint64_t id, const char* name, tenure::AllocationId allocation) {
    job.id = tenure::WorkloadId(id);
    job.name = name;
    job.allocation = allocation;
    rm.Submit(job);
  };
  submit(1, "vision-a", *vision);
  submit(2, "vision-b", *vision);
  rm.RunUntil(rm.now + minutes(5));
  submit(3, "robots-a", *robots);
  rm.RunUntil(tenure::TimePoint(hours(12) + minutes(30)));

  // Why does vision-a wait? The numbers that decide.
  const auto why = scheduler.Explain(tenure::WorkloadId(1));
  Must(why.status());
  std::printf(
      "          vision: entitled to %.1f GPUs, due now %.1f, has %d; used %.1f GPU-hours\n",
      tenure::Gpus(why->entitlement), tenure::Gpus(why->fluid),
      static_cast<int>(why->placed.value()), tenure::Hours(why->used));
  const auto state = [&](std::uint64_t id) {
    return scheduler.Explain(tenure::WorkloadId(id)).value().state;
  };
  const bool shared = state(1) == tenure::WorkloadState::kPending &&
                      state(2) == tenure::WorkloadState::kRunning &&
                      state(3) == tenure::WorkloadState::kRunning;

  rm.Say("node-1 drains");
  Must(scheduler.SetNode(*node, tenure::NodeHealth::kDraining, rm.now).status());
  rm.RunUntil(rm.now + minutes(1));
  const bool early = scheduler.Drained(*node);
  rm.RunUntil(rm.now + hours(1));
  const bool drained = scheduler.Drained(*node);
  if (drained) rm.Say("node-1 is drained");
  return shared && !early && drained ? 0 : 1;
}
