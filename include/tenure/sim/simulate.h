// SPDX-License-Identifier: Apache-2.0
//
// The simulator: replays a World under a policy, from event to event.
//
//   tenure::sim::SimOptions options;
//   options.warmup = std::chrono::hours(24 * 7);
//   options.end = std::chrono::hours(24 * 37);
//   absl::StatusOr<tenure::sim::Metrics> m = tenure::sim::Simulate(world, "budget", {}, options);
//
// The engine sees what a resource manager would tell it; true runtimes stay here. Model: passes on
// a grid of `pass_interval`, only when something changed or the engine asked for one; a start takes
// effect at once; a stopped run works on for `grace` and then is gone; what it had saved is the
// last multiple of its checkpoint interval, or everything if it checkpoints on notice; a later run
// first spends the restart overhead. A user whose non-resumable run was stopped submits it again at
// once and it starts from zero. Waiting work whose patience ends before its first start is
// withdrawn. Hosts break and are repaired as in faults.h: a host that is down takes its runs along,
// which lose what they have not saved; a person who negotiates gives them the same notice as a
// stop.
//
// Deterministic: the same world and options give the same decisions (`decision_digest`). Complexity
// O(E log E + passes) for E events; memory O(jobs in the system at once) and 40 bytes a job of the
// trace, of which 36 are its times for the figures (metrics.h).
#ifndef TENURE_SIM_SIMULATE_H_
#define TENURE_SIM_SIMULATE_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenure/sim/engine.h"
#include "tenure/sim/faults.h"
#include "tenure/sim/live_jobs.h"
#include "tenure/sim/metrics.h"
#include "tenure/sim/policies.h"
#include "tenure/sim/result.h"
#include "tenure/sim/setup.h"
#include "tenure/sim/timeline.h"
#include "tenure/sim/workload.h"

namespace tenure::sim {

// What the engine says about one job at the end of the simulation.
struct Inspection {
  std::uint32_t job = 0;                   // index into World::jobs
  std::optional<Explanation> explanation;  // empty: it has not been submitted, or is over
};

struct SimOptions {
  Duration warmup{0};  // measured time is [warmup, end)
  Duration end{0};     // 0: the last submission
  Duration pass_interval = std::chrono::seconds(5);
  Duration grace = std::chrono::seconds(10);
  // Part of the resumable jobs that save their work within the grace of a stop, in thousandths.
  std::int64_t notice_permille = 0;
  // Whether those, and what is flagged so, are submitted as restorable.
  bool report_restorable = false;
  // Whether sessions flagged idle are reported so.
  bool report_idle = true;
  // Part of the other sessions, in thousandths, that are idle from 20:00 to 9:00 (time 0 is
  // midnight) and reported so, at once, and as active again in the morning.
  std::int64_t idle_nights_permille = 0;
  FaultOptions faults;
  // So often a waiting funded job, drawn at random, is looked at with Engine::Forecast, and the
  // answer kept with what came of it (Metrics::forecasts). 0: never. Changes no decision.
  Duration forecast_interval{0};
  // Whether such a forecast takes runs to last as long as was requested.
  bool forecast_limits = false;
  // Filled in at the end, if not null.
  Inspection* inspection = nullptr;
  // Where runs and promises are recorded, if anywhere.
  Timeline* timeline = nullptr;
};

// Called with the part done in [0, 1]; false cancels the simulation.
using ProgressFn = std::function<bool(double)>;

class Simulation {
 public:
  Simulation(const World& world, Engine& engine, std::vector<AllocationId> leaf_ids,
             MetricsRecorder& recorder, const SimOptions& options)
      : world_(world),
        engine_(engine),
        leaf_ids_(std::move(leaf_ids)),
        recorder_(recorder),
        options_(options),
        faults_(options.faults, 0),
        hosts_(options.faults, world.cluster, Patience(engine, options), engine.PlansMaintenance()),
        timeline_(options.timeline, world, engine.LongestProtection(), options.end),
        jobs_(world.jobs.size()) {
    if (options.forecast_interval > Duration(0)) next_forecast_ = TimePoint(options.warmup);
    if (!hosts_.active()) return;
    nodes_of_.resize(world.jobs.size());
    on_node_.resize(static_cast<std::size_t>(world.cluster.nodes));
  }

  // Cancelled if `progress` says so; any other error is an engine refusing a correct report.
  absl::StatusOr<Metrics> Run(const ProgressFn& progress);

 private:
  enum class Phase : std::uint8_t { kWaiting, kRunning };
  // Of a job that has been submitted and is not over.
  struct Job {
    std::int64_t saved_us = 0;  // productive time that is not lost any more
    TimePoint start{};
    Duration overhead{0};
    RunNumber run;
    std::uint32_t serial = 0;   // of the run, counted over all attempts
    std::uint32_t attempt = 0;  // resubmissions after a loss
    Phase phase = Phase::kWaiting;
    bool stopped_before = false;
    bool stopping = false;  // in its grace
  };
  enum class Kind : std::uint8_t { kFinish, kStopped, kWithdraw, kIdle, kNight, kWake };
  struct Event {
    TimePoint time;
    Kind kind;
    std::uint32_t job;
    std::uint32_t serial;  // of the run it belongs to
    // For a min-queue.
    friend bool operator<(const Event& a, const Event& b) {
      if (a.time != b.time) return a.time > b.time;
      if (a.kind != b.kind) return a.kind > b.kind;
      return a.job > b.job;
    }
  };

  WorkloadId IdOf(std::uint32_t job) const {
    return WorkloadId(std::uint64_t{jobs_[job].attempt} * world_.jobs.size() + job);
  }
  std::uint32_t JobOf(WorkloadId id) const {
    return static_cast<std::uint32_t>(id.value() % world_.jobs.size());
  }
  static Duration Us(std::int64_t us) { return Duration(us); }
  bool SavesOnNotice(std::uint32_t job) const {
    const JobRow& row = world_.jobs[job];
    if (row.flags & kCheckpointOnNotice) return true;
    return (row.flags & kResumable) &&
           IsAmong(job * std::uint64_t{0x9e3779b97f4a7c15}, options_.notice_permille);
  }
  bool SleepsAtNight(std::uint32_t job) const {
    const JobRow& row = world_.jobs[job];
    return options_.report_idle && row.klass() == WorkloadClass::kInteractive &&
           !(row.flags & kIdle) &&
           IsAmong((job + std::uint64_t{1}) * 0xd1342543de82ef95, options_.idle_nights_permille);
  }
  // A fixed pseudo-random part of all numbers.
  static bool IsAmong(std::uint64_t hash, std::int64_t permille) {
    return static_cast<std::int64_t>(hash >> 32) % 1000 < permille;
  }
  static bool IsNight(TimePoint t) {
    const Duration clock = t.time_since_epoch() % kDay;
    return clock < kMorning || clock >= kEvening;
  }
  // The next 9:00 or 20:00 after t.
  static TimePoint NightOrDay(TimePoint t) {
    const Duration clock = t.time_since_epoch() % kDay;
    const Duration next = clock < kMorning   ? kMorning
                          : clock < kEvening ? kEvening
                                             : kDay + kMorning;
    return t + (next - clock);
  }
  // How long an unhealthy host is occupied before a person is called. Where protection is bounded
  // every run is stopped in time; whoever stays longer overstays it.
  static Duration Patience(const Engine& engine, const SimOptions& options) {
    const Duration bound = engine.LongestProtection();
    if (bound == Duration(0)) return options.faults.negotiate_after;
    return std::max(options.faults.negotiate_after, bound + options.grace + GridDelay(options));
  }
  // Both a stop and the pass that sees the run gone wait for the grid.
  static Duration GridDelay(const SimOptions& options) { return 2 * options.pass_interval; }

  absl::Status Arrive(std::uint32_t job, TimePoint now);
  absl::Status SubmitJob(std::uint32_t job, TimePoint now);
  absl::Status Handle(const Event& e);
  absl::Status Pass(TimePoint now);
  absl::Status Stopped(std::uint32_t job, TimePoint now);
  absl::Status Begin(const Start& start, std::span<const NodeId> nodes, TimePoint now);
  void Promised(const Promise& promise, std::span<const NodeId> nodes, TimePoint now);
  void ForgetPromise(std::uint32_t job) {
    std::erase_if(promised_, [&](const PromisedNodes& p) { return p.job == job; });
  }
  Duration EndRun(std::uint32_t job, TimePoint now, bool notice);
  absl::Status Inspect();
  bool IsIdle(std::uint32_t job, TimePoint now) const;
  absl::Status AskForecast(TimePoint now);
  absl::Status Resubmit(std::uint32_t job, TimePoint now);
  void LeaveNodes(std::uint32_t job);
  absl::Status Change(const HostChange& change, TimePoint now);
  void VoidPromises(NodeId node);
  absl::Status RepairEmptyHosts(TimePoint now);
  void Mix(std::uint64_t word) { digest_ = (digest_ ^ word) * 1099511628211ull; }

  static constexpr Duration kDay = std::chrono::hours(24);
  static constexpr Duration kMorning = std::chrono::hours(9);
  static constexpr Duration kEvening = std::chrono::hours(20);
  static constexpr Duration kHoardSeen = std::chrono::hours(1);  // a hoard is reported idle then

  struct PromisedNodes {
    std::uint32_t job;
    std::vector<NodeId> nodes;
  };

  const World& world_;
  Engine& engine_;
  std::vector<AllocationId> leaf_ids_;
  MetricsRecorder& recorder_;
  SimOptions options_;
  FaultModel faults_;  // for what does not depend on hosts
  Hosts hosts_;
  TimelineRecorder timeline_;
  LiveJobs<Job> jobs_;
  // Only where hosts change: who runs where, and what is promised on which nodes.
  std::vector<std::vector<NodeId>> nodes_of_;
  std::vector<std::vector<std::uint32_t>> on_node_;
  std::vector<PromisedNodes> promised_;
  std::priority_queue<Event> events_;
  TimePoint next_pass_ = kNever;
  TimePoint next_forecast_ = kNever;
  std::int64_t event_count_ = 0, passes_ = 0;
  std::uint64_t digest_ = 14695981039346656037ull;
};

inline absl::StatusOr<Metrics> Simulation::Run(const ProgressFn& progress) {
  const TimePoint end(options_.end);
  const Duration step = options_.pass_interval;
  const auto on_grid = [&](TimePoint t) {  // the first grid point not before t
    const std::int64_t n = (t.time_since_epoch().count() + step.count() - 1) / step.count();
    return TimePoint(step * n);
  };
  std::size_t arrived = 0;
  while (true) {
    TimePoint next = kNever;
    if (arrived < world_.jobs.size()) next = TimePoint(Us(world_.jobs[arrived].submit_us));
    const bool queued_event = !events_.empty() && events_.top().time <= next;
    if (queued_event) next = events_.top().time;
    const bool host_event = hosts_.next() != kNever && hosts_.next() <= next;
    if (host_event) next = hosts_.next();
    if (std::min(next, next_pass_) >= end) break;
    if (next_pass_ < next) {
      const TimePoint now = next_pass_;
      next_pass_ = kNever;
      if (absl::Status s = Pass(now); !s.ok()) return s;
      if (next_pass_ != kNever) next_pass_ = on_grid(std::max(next_pass_, now + step));
      if (progress && passes_ % 4096 == 0 &&
          !progress(static_cast<double>(now.time_since_epoch().count()) /
                    static_cast<double>(options_.end.count()))) {
        return absl::CancelledError("simulation cancelled");
      }
      continue;
    }
    ++event_count_;
    if (host_event) {
      const std::optional<HostChange> change = hosts_.Step();
      if (change.has_value()) {
        if (absl::Status s = Change(*change, next); !s.ok()) return s;
      }
    } else if (queued_event) {
      const Event e = events_.top();
      events_.pop();
      if (absl::Status s = Handle(e); !s.ok()) return s;
    } else {
      if (absl::Status s = Arrive(static_cast<std::uint32_t>(arrived++), next); !s.ok()) return s;
    }
    if (!hosts_.unhealthy().empty()) {
      if (absl::Status s = RepairEmptyHosts(next); !s.ok()) return s;
    }
    if (engine_.Dirty()) next_pass_ = std::min(next_pass_, on_grid(next));
  }
  if (absl::Status s = Inspect(); !s.ok()) return s;
  Metrics m = recorder_.Finish(end);
  m.events = event_count_;
  m.passes = passes_;
  m.decision_digest = digest_;
  return m;
}

// Runs `policy` over `world`. InvalidArgument (world, policy, parameter, option), Cancelled.
inline absl::StatusOr<Metrics> Simulate(const World& world, const std::string& policy,
                                        const Parameters& parameters, SimOptions options,
                                        const ProgressFn& progress = {}) {
  if (absl::Status s = CheckWorld(world); !s.ok()) return s;
  if (options.end <= Duration(0) && !world.jobs.empty()) {
    options.end = Duration(world.jobs.back().submit_us + 1);
  }
  if (options.pass_interval <= Duration(0) || options.grace < Duration(0) ||
      options.warmup < Duration(0) || options.end <= options.warmup ||
      std::max({options.pass_interval, options.grace, options.end}) > kLongestTrace) {
    return absl::InvalidArgumentError(
        absl::StrCat("simulation of [", options.warmup.count(), ", ", options.end.count(),
                     ") us with passes every ", options.pass_interval.count(),
                     " us and a grace of ", options.grace.count(), " us"));
  }
  for (const auto& [name, permille] :
       {std::pair("notice_permille", options.notice_permille),
        std::pair("idle_nights_permille", options.idle_nights_permille)}) {
    if (permille < 0 || permille > 1000) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " is ", permille, ", must be in [0, 1000]"));
    }
  }
  if (absl::Status s = CheckFaults(options.faults, world.cluster); !s.ok()) return s;
  BudgetTree tree;
  absl::StatusOr<std::vector<AllocationId>> ids =
      AddLeaves(world, [&](const std::string& name, AllocationId parent, Weight weight) {
        return tree.Add(name, parent, weight);
      });
  if (!ids.ok()) return ids.status();
  absl::StatusOr<std::unique_ptr<Engine>> engine =
      MakeEngine(policy, parameters, world, options.grace);
  if (!engine.ok()) return engine.status();
  MetricsRecorder recorder(world, tree, *ids, {.warmup = options.warmup, .end = options.end});
  Simulation simulation(world, **engine, *ids, recorder, options);
  return simulation.Run(progress);
}

}  // namespace tenure::sim

#include "tenure/sim/simulate_events.h"  // IWYU pragma: export

#endif  // TENURE_SIM_SIMULATE_H_
