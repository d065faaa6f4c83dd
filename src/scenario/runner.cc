// SPDX-License-Identifier: Apache-2.0
//
// The resource manager of a case: time, passes, starts and stops.
#include "runner.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "yaml.h"

namespace tenure::scenario {

const char* Runner::PhaseText(Phase phase) {
  switch (phase) {
    case Phase::kNone:
      return "unknown";
    case Phase::kWaiting:
      return "waiting";
    case Phase::kStarting:
      return "starting";
    case Phase::kRunning:
      return "running";
    case Phase::kStopping:
      return "stopping";
    case Phase::kDone:
      return "done";
    case Phase::kFailed:
      return "failed";
    case Phase::kCancelled:
      return "cancelled";
  }
  return "?";
}

Outcome Runner::Execute() {
  random_ = variant_.shuffle;
  BuildScheduler();
  std::size_t next = 0;
  TimePoint t{};
  Instant(t, next);
  for (std::int64_t instants = 1;; ++instants) {
    TimePoint then = wakeup_;
    if (next < case_.timeline.size()) then = std::min(then, case_.timeline[next].at);
    if (!due_.empty()) then = std::min(then, due_.begin()->at);
    if (case_.pass_every > Duration(0)) {
      const std::int64_t every = case_.pass_every.count();
      then =
          std::min(then, TimePoint(Duration((t.time_since_epoch().count() / every + 1) * every)));
    }
    if (t < case_.until) then = std::min(then, case_.until);
    if (then > case_.until) break;
    if (instants >= max_instants_) {
      throw BadScenario{0, absl::StrCat("more than ", max_instants_, " instants")};
    }
    t = then;
    Instant(t, next);
  }
  line_ = 0;
  CheckBooks();
  CheckOverduePromises();
  return std::move(out_);
}

// --- Resource manager ----------------------------------------------------------------------------

void Runner::Instant(TimePoint t, std::size_t& next_entry) {
  now_ = t;
  line_ = 0;
  RunDue();
  const std::size_t begin = next_entry;
  while (next_entry < case_.timeline.size() && case_.timeline[next_entry].at == t) {
    const TimelineEntry& entry = case_.timeline[next_entry++];
    line_ = entry.line;
    if (entry.action != "submit" || entry.refused.has_value()) {
      Do(entry);
      continue;
    }
    // What is submitted in a row in one instant is equal input.
    std::vector<std::pair<const TimelineEntry*, const JobEntry*>> submits;
    for (const JobEntry& job : entry.submits) submits.emplace_back(&entry, &job);
    while (next_entry < case_.timeline.size()) {
      const TimelineEntry& more = case_.timeline[next_entry];
      if (more.at != t || more.action != "submit" || more.refused.has_value()) break;
      for (const JobEntry& job : more.submits) submits.emplace_back(&more, &job);
      ++next_entry;
    }
    Shuffle(submits);
    for (const auto& [from, job] : submits) DoSubmit(*from, *job);
  }
  const bool periodic = case_.pass_every > Duration(0) &&
                        t.time_since_epoch().count() % case_.pass_every.count() == 0;
  if (s_->dirty() || wakeup_ <= t || periodic) Pass();
  if (variant_.restore) RestoreFresh(line_);
  if (!variant_.plain() || (begin == next_entry && t != case_.until)) return;
  CheckBooks();
  for (std::size_t i = begin; i < next_entry; ++i) {
    line_ = case_.timeline[i].line;
    Expect(case_.timeline[i].expect);
  }
}

void Runner::RunDue() {
  while (!due_.empty() && due_.begin()->at <= now_) {
    const Due due = *due_.begin();
    due_.erase(due_.begin());
    Job* job = FindJob(WorkloadId(due.id));
    if (job == nullptr || job->run.value() != due.run) continue;
    switch (due.kind) {
      case DueKind::kEnd:
        if (job->phase != Phase::kRunning && job->phase != Phase::kStopping) break;
        MustBeOk(line_, absl::StrCat("end of ", job->entry.name),
                 s_->ReportEnded(job->entry.spec.id, job->run, due.at, now_));
        EndRun(*job, due.at, Phase::kDone);
        break;
      case DueKind::kStopped:
        if (job->phase == Phase::kStopping) ConfirmStop(*job, due.at);
        break;
      case DueKind::kStarted:
        if (job->phase == Phase::kStarting) ConfirmStart(*job, due.at);
        break;
    }
  }
}

void Runner::Pass() {
  for (int i = 0; i < 1000; ++i) {
    const absl::StatusOr<const Decisions*> d = s_->Decide(now_);
    MustBeOk(line_, "decide", d.status());
    if (!d.ok()) return;
    wakeup_ = (*d)->next_wakeup;
    Apply(Decisions(**d));
    RunDue();
    if (wakeup_ <= now_ && !s_->dirty()) {
      // What is due now must have been decided now, unless a victim's end is awaited.
      wakeup_ = now_ + Duration(1);
    }
    if (!s_->dirty()) return;
  }
  Check(false, line_, "the passes of one instant do not come to an end");
}

void Runner::Apply(const Decisions& d) {
  ++pass_;
  occupied_.resize(s_->cluster().size());
  std::set<std::uint64_t> held;
  for (const Hold& hold : d.holds) {
    held.insert(hold.workload.value());
    Log(absl::StrCat("hold ", NodeNames(d.Nodes(hold)), " for ", NameOf(hold.workload), " until ",
                     Show(hold.expires)));
  }
  for (const Promise& promise : d.promises) {
    Log(absl::StrCat("promise ", NodeNames(d.Nodes(promise)), " to ", NameOf(promise.workload),
                     " by ", Show(promise.start_by)));
    CheckPromise(promise, d.Nodes(promise));
  }
  for (const Stop& stop : d.stops) {
    Job* job = FindJob(stop.workload);
    if (job == nullptr) {
      Check(false, line_, absl::StrCat("stop of unknown workload ", stop.workload.value()));
      continue;
    }
    Log(absl::StrCat(
        "stop ", job->entry.name, " (", ToString(stop.reason),
        IsPreemption(stop.reason) ? absl::StrCat(" for ", NameOf(stop.beneficiary)) : "", ")"));
    CheckStop(stop, held);
    job->phase = Phase::kStopping;
    if (IsPreemption(stop.reason)) {
      ++stops_;
      ++job->stops;
    }
    if (stop.reason != StopReason::kCancelled) stopped_.insert(job->entry.name);
    const Duration takes = job->entry.stop_takes.value_or(stop.grace);
    if (takes != kNeverHappens) {
      due_.insert({now_ + takes, DueKind::kStopped, stop.workload.value(), job->run.value()});
    }
  }
  if (variant_.plain()) CheckVictims(d);
  for (const Start& start : d.starts) {
    Job* job = FindJob(start.workload);
    const std::span<const NodeId> nodes = d.Nodes(start);
    if (job == nullptr) {
      Check(false, line_, absl::StrCat("start of unknown workload ", start.workload.value()));
      continue;
    }
    Log(absl::StrCat("start ", job->entry.name, " on ", NodeNames(nodes)));
    CheckStart(start, nodes, *job);
    signalled_.erase(start.workload.value());
    promised_.erase(start.workload.value());
    job->phase = Phase::kStarting;
    job->run = start.run;
    job->decided = now_;
    job->last_start = now_;
    if (job->starts++ == 0) {
      job->first_start = now_;
      job->first_start_order = ++start_order_;
    }
    job->nodes.assign(nodes.begin(), nodes.end());
    for (const NodeId n : nodes) occupied_[n.value()] += job->entry.spec.gpus_per_node.value();
    if (job->entry.start_takes != kNeverHappens) {
      due_.insert({now_ + job->entry.start_takes, DueKind::kStarted, start.workload.value(),
                   start.run.value()});
    }
  }
}

// An accepted workload, under its name.
Runner::Job& Runner::Keep(Job job) {
  job.submission = submissions_.size();
  submissions_.push_back({job.entry.spec, job.leaf});
  Note(now_, ChangeKind::kSubmitted, job);
  names_[job.entry.spec.id.value()] = job.entry.name;
  Job& kept = jobs_[job.entry.name];
  kept = std::move(job);
  return kept;
}

// The metrics begin at 0.
void Runner::Note(TimePoint at, ChangeKind kind, const Job& job) {
  changes_.push_back({std::max(at, TimePoint()), kind, job.submission});
}

void Runner::ConfirmStart(Job& job, TimePoint at) {
  const WorkloadId id = job.entry.spec.id;
  const absl::Status started = s_->ReportStarted(id, job.run, at, now_);
  MustBeOk(line_, absl::StrCat("start of ", job.entry.name), started);
  if (!started.ok()) return;
  const RunSlot slot = s_->table().Find(id);
  job.phase = Phase::kRunning;
  job.started = job.last_start = at;
  if (job.starts == 1) job.first_start = at;
  job.last_seen = now_;
  job.segment = segments_.size();
  segments_.push_back({job.leaf, at, kNever, job.entry.spec.gpus().value(),
                       s_->cluster().node(job.nodes[0]).type,
                       slot != kNoSlot && s_->table().run(slot).funded, job.segment});
  Note(at, ChangeKind::kStarted, job);
  if (job.left != kNeverHappens) {
    due_.insert({at + job.left, DueKind::kEnd, id.value(), job.run.value()});
  }
}

void Runner::ConfirmStop(Job& job, TimePoint at) {
  const absl::StatusOr<LossOutcome> outcome =
      s_->ReportStopped(job.entry.spec.id, job.run, at, now_);
  MustBeOk(line_, absl::StrCat("stop of ", job.entry.name), outcome.status());
  if (!outcome.ok()) return;
  LeaveNodes(job, at);
  AfterLoss(job, *outcome);
}

void Runner::LeaveNodes(Job& job, TimePoint at) {
  for (const NodeId n : job.nodes) occupied_[n.value()] -= job.entry.spec.gpus_per_node.value();
  for (auto& entry : signalled_) entry.second.victims.erase(job.entry.spec.id.value());
  if (job.phase == Phase::kStarting) return;  // was never confirmed
  at = std::max(at, job.started);
  segments_[job.segment].end = at;
  if (job.left != kNeverHappens && job.entry.keeps_work) job.left -= at - job.started;
}

void Runner::EndRun(Job& job, TimePoint at, Phase phase) {
  LeaveNodes(job, at);
  job.phase = phase;
  job.ended = at;
  Log(absl::StrCat("end ", job.entry.name));
  Note(at, ChangeKind::kEnded, job);
}

void Runner::AfterLoss(Job& job, LossOutcome outcome) {
  job.outcome = outcome;
  switch (outcome) {
    case LossOutcome::kRequeued:
    case LossOutcome::kSuspended:
      job.phase = Phase::kWaiting;
      Note(now_, ChangeKind::kRequeued, job);
      break;
    case LossOutcome::kFailedByPreemption:
    case LossOutcome::kFailedWithNode:
      job.phase = Phase::kFailed;
      job.ended = now_;
      Note(now_, ChangeKind::kFailed, job);
      break;
    case LossOutcome::kCancelled:
      job.phase = Phase::kCancelled;
      job.ended = now_;
      Note(now_, ChangeKind::kEnded, job);
      break;
  }
  Log(absl::StrCat("gone ", job.entry.name, ", ", PhaseText(job.phase)));
}

// --- Events --------------------------------------------------------------------------------------

bool Runner::Call(int line, const std::optional<absl::StatusCode>& refused, const std::string& what,
                  const std::function<absl::Status()>& call) {
  const std::uint64_t before = refused.has_value() ? s_->Digest() : 0;
  const absl::Status status = call();
  if (!refused.has_value()) {
    MustBeOk(line, what, status);
    return status.ok();
  }
  Check(status.code() == *refused, line,
        absl::StrCat(what, ": must be refused with ", CodeText(*refused), ", came ",
                     status.ok() ? "ok" : status.ToString()));
  if (!status.ok()) {
    Check(s_->Digest() == before, line, absl::StrCat(what, ": was refused and changed the state"));
  }
  return status.ok();
}

void Runner::MustBeOk(int line, const std::string& what, const absl::Status& status) {
  if (!status.ok()) Check(false, line, absl::StrCat(what, ": ", status.ToString()));
}

Runner::Job* Runner::FindJob(WorkloadId id) {
  const auto it = names_.find(id.value());
  if (it == names_.end()) return nullptr;
  // A later workload may have taken the name.
  const auto job = jobs_.find(it->second);
  return job == jobs_.end() || job->second.entry.spec.id != id ? nullptr : &job->second;
}

Runner::Job& Runner::JobOf(const YAML::Node& at, const std::string& name) {
  const auto it = jobs_.find(name);
  if (it == jobs_.end()) Fail(at, absl::StrCat("no workload '", name, "'"));
  return it->second;
}

AllocationId Runner::Team(const YAML::Node& at, const std::string& path) const {
  const auto it = teams_.find(path);
  if (it == teams_.end()) Fail(at, absl::StrCat("no allocation '", path, "'"));
  return it->second;
}

NodeId Runner::NodeOf(const YAML::Node& at, const std::string& name) const {
  const absl::StatusOr<NodeId> id = s_->cluster().Find(name);
  if (!id.ok()) Fail(at, std::string(id.status().message()));
  return *id;
}

std::string Runner::NodeNames(std::span<const NodeId> nodes) const {
  return absl::StrJoin(nodes, " ", [&](std::string* out, NodeId n) { *out += NodeName(n); });
}

std::string Runner::NameOf(WorkloadId id) {
  const Job* job = FindJob(id);
  return job == nullptr ? absl::StrCat("#", id.value()) : job->entry.name;
}

void Runner::Log(const std::string& what) {
  if (set_up_) out_.log.push_back(absl::StrCat(Show(now_), " ", what));
}

std::uint64_t Runner::Random() {
  random_ += 0x9e3779b97f4a7c15u;
  std::uint64_t x = random_;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace tenure::scenario
