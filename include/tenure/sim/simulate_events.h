// SPDX-License-Identifier: Apache-2.0
//
// Simulation: what jobs, hosts and passes do. Included by simulate.h; not for direct use.
#ifndef TENURE_SIM_SIMULATE_EVENTS_H_
#define TENURE_SIM_SIMULATE_EVENTS_H_

#include "tenure/sim/simulate.h"

namespace tenure::sim {

inline absl::Status Simulation::SubmitJob(std::uint32_t job, TimePoint now) {
  const JobRow& row = world_.jobs[job];
  WorkloadSpec spec;
  spec.id = IdOf(job);
  spec.allocation = leaf_ids_[static_cast<std::size_t>(row.leaf)];
  spec.user = UserId(static_cast<std::uint32_t>(std::max(0, row.user)));
  spec.workload_class = row.klass();
  spec.priority = row.priority;
  spec.nodes = static_cast<std::uint32_t>(row.nodes);
  spec.gpus_per_node = GpuCount(row.gpus_per_node);
  spec.minimum = Us(row.minimum_us);
  spec.resumable = (row.flags & kResumable) != 0;
  spec.restorable = options_.report_restorable && spec.resumable && SavesOnNotice(job);
  spec.checkpoint_interval = Us(row.checkpoint_us);
  spec.restart_overhead = Us(row.restart_us);
  return engine_.Submit(spec, Us(row.limit_us), now);
}

inline absl::Status Simulation::Arrive(std::uint32_t job, TimePoint now) {
  const JobRow& row = world_.jobs[job];
  recorder_.Submitted(job, now);
  if (row.nodes > world_.cluster.nodes || row.gpus_per_node > world_.cluster.gpus_per_node) {
    recorder_.NeverFits(job, now);
    return absl::OkStatus();
  }
  jobs_.Add(job);
  if (row.patience_us > 0) {
    events_.push({now + Us(row.patience_us), Kind::kWithdraw, job, 0});
  }
  return SubmitJob(job, now);
}

inline absl::Status Simulation::Handle(const Event& e) {
  if (!jobs_.contains(e.job)) return absl::OkStatus();
  const Job j = jobs_[e.job];
  const WorkloadId id = IdOf(e.job);
  const JobRow& row = world_.jobs[e.job];
  switch (e.kind) {
    case Kind::kFinish:
      if (j.phase != Phase::kRunning || j.serial != e.serial) return absl::OkStatus();
      LeaveNodes(e.job);
      jobs_.Remove(e.job);
      timeline_.Ended(e.job, RunEnd::kFinished, e.time);
      recorder_.Finished(e.job, e.time);
      return engine_.ReportEnded(id, j.run, e.time);
    case Kind::kStopped:
      if (j.phase != Phase::kRunning || j.serial != e.serial) return absl::OkStatus();
      return Stopped(e.job, e.time);
    case Kind::kWithdraw:
      if (j.phase != Phase::kWaiting || j.serial != 0) return absl::OkStatus();
      jobs_.Remove(e.job);
      ForgetPromise(e.job);
      recorder_.Withdrawn(e.job, e.time);
      return engine_.Cancel(id, e.time);
    case Kind::kIdle:
      if (j.phase != Phase::kRunning || j.serial != e.serial || j.stopping ||
          row.klass() != WorkloadClass::kInteractive)
        return absl::OkStatus();
      return engine_.ReportIdle(id, true, e.time);
    case Kind::kWake:
      if (j.phase != Phase::kWaiting || j.serial != e.serial) return absl::OkStatus();
      return engine_.ReportIdle(id, false, e.time);
    case Kind::kNight:
      if (j.phase != Phase::kRunning || j.serial != e.serial || j.stopping) return absl::OkStatus();
      events_.push({NightOrDay(e.time), Kind::kNight, e.job, e.serial});
      return engine_.ReportIdle(id, IsNight(e.time), e.time);
  }
  return absl::InternalError("unknown event");
}

// The run of `job` is gone; what it has to do again, with the overhead it spent, is returned.
inline Duration Simulation::EndRun(std::uint32_t job, TimePoint now, bool notice) {
  Job& j = jobs_[job];
  const JobRow& row = world_.jobs[job];
  const Duration ran = now - j.start;
  const Duration overhead = std::min(ran, j.overhead);
  const std::int64_t progress = (ran - overhead).count();
  const std::int64_t total = j.saved_us + progress;
  const bool resumable = (row.flags & kResumable) != 0;
  std::int64_t saved = j.saved_us;
  if (!resumable) {
    saved = 0;
  } else if (notice && SavesOnNotice(job)) {
    saved = total;
  } else if (row.checkpoint_us > 0) {
    saved = std::max(saved, total / row.checkpoint_us * row.checkpoint_us);
  }
  const Duration lost = Us(total - saved) + overhead;
  j.saved_us = saved;
  j.phase = Phase::kWaiting;
  j.stopped_before = true;
  LeaveNodes(job);
  return lost;
}

inline absl::Status Simulation::Resubmit(std::uint32_t job, TimePoint now) {
  if (world_.jobs[job].flags & kResumable) return absl::OkStatus();
  ++jobs_[job].attempt;
  return SubmitJob(job, now);
}

inline absl::Status Simulation::Stopped(std::uint32_t job, TimePoint now) {
  const WorkloadId id = IdOf(job);
  const bool suspended = IsIdle(job, now);
  timeline_.Ended(job, suspended ? RunEnd::kSuspended : RunEnd::kStopped, now);
  recorder_.Stopped(job, now, EndRun(job, now, true),
                    suspended ? StopOutcome::kSuspended : StopOutcome::kRequeued);
  if (absl::Status s = engine_.ReportStopped(id, jobs_[job].run, now); !s.ok()) return s;
  // Suspended while its owner sleeps: the owner is back in the morning.
  if (SleepsAtNight(job) && IsNight(now)) {
    events_.push({NightOrDay(now), Kind::kWake, job, jobs_[job].serial});
  }
  return Resubmit(job, now);
}

inline absl::Status Simulation::Inspect() {
  if (options_.inspection == nullptr) return absl::OkStatus();
  const std::uint32_t job = options_.inspection->job;
  if (job >= jobs_.jobs()) {
    return absl::InvalidArgumentError(
        absl::StrCat("job is ", job, ", the world has ", jobs_.jobs()));
  }
  if (!jobs_.contains(job)) return absl::OkStatus();
  absl::StatusOr<Explanation> explanation = engine_.Explain(IdOf(job));
  if (!explanation.ok()) return explanation.status();
  options_.inspection->explanation = *explanation;
  return absl::OkStatus();
}

// Whether the running job is a session that has been reported idle.
inline bool Simulation::IsIdle(std::uint32_t job, TimePoint now) const {
  if (SleepsAtNight(job)) return IsNight(now);
  const JobRow& row = world_.jobs[job];
  return options_.report_idle && (row.flags & kIdle) != 0 &&
         row.klass() == WorkloadClass::kInteractive && now - jobs_[job].start >= kHoardSeen;
}

// Looks at one of the funded jobs that wait. O(jobs) and one forecast.
inline absl::Status Simulation::AskForecast(TimePoint now) {
  next_forecast_ = now + options_.forecast_interval;
  std::vector<std::uint32_t> waiting;
  for (std::uint32_t job = 0; job < jobs_.jobs(); ++job) {
    const bool waits = jobs_.contains(job) && jobs_[job].phase == Phase::kWaiting;
    if (waits && world_.jobs[job].funded()) waiting.push_back(job);
  }
  if (waiting.empty()) return absl::OkStatus();
  Rng rng(static_cast<std::uint64_t>(now.time_since_epoch().count()), waiting.size());
  const std::uint32_t job =
      waiting[static_cast<std::size_t>(rng.Below(static_cast<std::int64_t>(waiting.size())))];
  const absl::StatusOr<ForecastResult> forecast =
      engine_.Forecast(IdOf(job), options_.forecast_limits);
  if (!forecast.ok()) return forecast.status();
  // A hold that is about to become a start is no question any more.
  if (!forecast->started) recorder_.Forecast(job, now, forecast->start, forecast->promised);
  return absl::OkStatus();
}

inline void Simulation::LeaveNodes(std::uint32_t job) {
  if (!hosts_.active()) return;
  for (NodeId n : nodes_of_[job]) std::erase(on_node_[n.value()], job);
  nodes_of_[job].clear();
}

inline absl::Status Simulation::Change(const HostChange& change, TimePoint now) {
  if (change.announced.has_value()) {
    // Promises that may reach into the window do not bind: they are restated.
    const Duration reach = engine_.LongestProtection() * 2 + options_.grace * 2;
    if (change.announced->from < now + reach) VoidPromises(change.node);
    return engine_.AnnounceMaintenance(change.node, change.announced->from, change.announced->until,
                                       now);
  }
  if (absl::Status s = engine_.SetNode(change.node, change.health, now, now); !s.ok()) return s;
  if (change.health == NodeHealth::kDown) {
    const std::vector<std::uint32_t> runs = on_node_[change.node.value()];
    if (change.repair) recorder_.RepairBegins(now, change.notice && !runs.empty());
    for (std::uint32_t job : runs) {
      timeline_.Ended(job, RunEnd::kLost, now);
      recorder_.Lost(job, now, EndRun(job, now, change.notice), StopOutcome::kRequeued);
      if (absl::Status s = Resubmit(job, now); !s.ok()) return s;
    }
  }
  if (change.health != NodeHealth::kUp) VoidPromises(change.node);
  if (change.drain.has_value()) {
    recorder_.HostDrained(now, *change.drain, *change.drain >= options_.faults.negotiate_after);
  }
  recorder_.Capacity(now, hosts_.healthy(), hosts_.usable(), GpuCount(world_.cluster.gpus()));
  return absl::OkStatus();
}

inline void Simulation::VoidPromises(NodeId node) {
  for (const PromisedNodes& p : promised_) {
    if (std::find(p.nodes.begin(), p.nodes.end(), node) != p.nodes.end()) {
      recorder_.PromiseVoid(p.job);
    }
  }
}

inline absl::Status Simulation::RepairEmptyHosts(TimePoint now) {
  const std::vector<NodeId> unhealthy = hosts_.unhealthy();
  for (NodeId n : unhealthy) {
    if (!engine_.NodeEmpty(n)) continue;
    if (absl::Status s = Change(hosts_.Emptied(n, now), now); !s.ok()) return s;
  }
  return absl::OkStatus();
}

inline void Simulation::Promised(const Promise& promise, std::span<const NodeId> nodes,
                                 TimePoint now) {
  const std::uint32_t job = JobOf(promise.workload);
  const TimePoint latest = now + engine_.LongestProtection() + options_.grace;
  const TimePoint start_by = std::min(promise.start_by, latest) + GridDelay(options_);
  recorder_.Promised(job, now, start_by);
  timeline_.Promised(job, now, start_by);
  if (!hosts_.active()) return;
  ForgetPromise(job);
  promised_.push_back({job, std::vector<NodeId>(nodes.begin(), nodes.end())});
}

inline absl::Status Simulation::Begin(const Start& start, std::span<const NodeId> nodes,
                                      TimePoint now) {
  const std::uint32_t job = JobOf(start.workload);
  const JobRow& row = world_.jobs[job];
  Job& j = jobs_[job];
  j.phase = Phase::kRunning;
  j.stopping = false;
  j.run = start.run;
  ++j.serial;
  j.start = now;
  j.overhead = Duration(0);
  if (j.stopped_before && (row.flags & kResumable)) {
    const std::int64_t failed = faults_.FailedResumes(job, j.serial);
    if (failed > 0) recorder_.ResumeFailed(now, failed);
    j.overhead = Us(row.restart_us) * (1 + failed);
  }
  if (hosts_.active()) {
    nodes_of_[job].assign(nodes.begin(), nodes.end());
    for (NodeId n : nodes) on_node_[n.value()].push_back(job);
    ForgetPromise(job);
  }
  recorder_.Started(job, now, j.overhead);
  timeline_.Started(job, nodes, now);
  if (absl::Status s = engine_.ReportStarted(start.workload, start.run, now); !s.ok()) return s;
  events_.push({now + j.overhead + Us(row.runtime_us - j.saved_us), Kind::kFinish, job, j.serial});
  if (options_.report_idle && (row.flags & kIdle)) {
    events_.push({now + kHoardSeen, Kind::kIdle, job, j.serial});
  }
  if (SleepsAtNight(job)) {
    events_.push({IsNight(now) ? now : NightOrDay(now), Kind::kNight, job, j.serial});
  }
  return absl::OkStatus();
}

inline absl::Status Simulation::Pass(TimePoint now) {
  ++passes_;
  const absl::StatusOr<const Decisions*> decided = engine_.Decide(now);
  if (!decided.ok()) return decided.status();
  const Decisions& d = **decided;
  for (const Stop& s : d.stops) {
    Mix(static_cast<std::uint64_t>(now.time_since_epoch().count()));
    Mix(s.workload.value() * 2 + 1);
    Job& j = jobs_[JobOf(s.workload)];
    j.stopping = true;
    const bool for_another = s.reason == StopReason::kPreempted || s.reason == StopReason::kPromise;
    timeline_.StopDecided(JobOf(s.workload), for_another ? JobOf(s.beneficiary) + 1 : 0);
    events_.push({now + options_.grace, Kind::kStopped, JobOf(s.workload), j.serial});
  }
  // Before the starts: a gang may be promised its start and start in one pass.
  for (const Promise& p : d.promises) Promised(p, d.Nodes(p), now);
  for (const Start& s : d.starts) {
    Mix(static_cast<std::uint64_t>(now.time_since_epoch().count()));
    Mix(s.workload.value() * 2);
    for (NodeId n : d.Nodes(s)) Mix(n.value());
    if (absl::Status status = Begin(s, d.Nodes(s), now); !status.ok()) return status;
  }
  next_pass_ = d.next_wakeup;
  if (engine_.Dirty()) next_pass_ = now;
  if (now >= next_forecast_) return AskForecast(now);
  return absl::OkStatus();
}

}  // namespace tenure::sim

#endif  // TENURE_SIM_SIMULATE_EVENTS_H_
