// SPDX-License-Identifier: Apache-2.0
#include "runner.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "yaml.h"

namespace tenure::scenario {
namespace {

// The text of a node of an event: a name, or a map with more to say.
std::string NameIn(const YAML::Node& value) {
  if (value.IsScalar()) return ToText(value);
  const YAML::Node& map = value;
  if (!map.IsMap() || !map["name"].IsDefined()) Fail(value, "expected a name, or {name: ...}");
  return ToText(map["name"]);
}

}  // namespace

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
  while (true) {
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
    t = then;
    Instant(t, next);
  }
  line_ = 0;
  CheckBooks();
  CheckOverduePromises();
  return std::move(out_);
}

// --- Beginning -----------------------------------------------------------------------------------

void Runner::BuildScheduler() {
  absl::StatusOr<std::unique_ptr<AnyScheduler>> made =
      MakeScheduler(policy_, OptionsFor(case_, policy_));
  if (!made.ok()) throw BadScenario{0, std::string(made.status().message())};
  s_ = *std::move(made);

  TimePoint first{};
  for (const JobEntry& job : case_.running) first = std::min(first, job.start);

  // Work that runs at 0 has used something already; the rest of `used` lies before all of it.
  std::int64_t gpus = 0;
  for (const NodeEntry& node : case_.nodes) gpus += std::max<std::int64_t>(node.gpus, 0);
  const TimePoint window = TimePoint() - s_->options().lookback;
  std::vector<std::pair<std::string, std::int64_t>> history;
  std::int64_t seconds = 0;
  for (const auto& [team, used] : case_.used) {
    absl::int128 rest = used.value();
    for (const JobEntry& job : case_.running) {
      if (job.team != team || !job.spec.funded()) continue;
      rest -= absl::int128(job.spec.gpus().value()) *
              (TimePoint() - std::max(job.start, window)).count();
    }
    if (rest < 0 || rest % 1'000'000 != 0) {
      throw BadScenario{0, absl::StrCat("used: ", team, " has used ", Show(used),
                                        ", but its running work alone has used more, or not in "
                                        "whole GPU-seconds")};
    }
    const auto whole = static_cast<std::int64_t>(rest / 1'000'000);
    if (whole == 0) continue;
    history.emplace_back(team, whole);
    seconds += whole / gpus + (whole % gpus != 0);
  }
  now_ = first - std::chrono::seconds(seconds);
  if (now_ < window) {
    throw BadScenario{
        0, absl::StrCat("used: ", gpus, " GPUs need ", seconds, " s for it before ", Show(first),
                        ", the window has ", Show(s_->options().lookback))};
  }

  std::vector<NodeEntry> nodes = case_.nodes;
  Shuffle(nodes);
  for (const NodeEntry& node : nodes) AddNodeEntry(node, now_);
  std::vector<TeamEntry> teams = case_.teams;
  Shuffle(teams);
  std::stable_sort(teams.begin(), teams.end(), [](const TeamEntry& a, const TeamEntry& b) {
    return std::count(a.path.begin(), a.path.end(), '/') <
           std::count(b.path.begin(), b.path.end(), '/');
  });
  std::vector<std::pair<AllocationId, double>> weights;
  for (const TeamEntry& team : teams) {
    // An allocation of weight 0 that has used something had a weight when it did.
    const bool late = team.weight == 0 && !history.empty();
    const absl::StatusOr<AllocationId> id =
        s_->AddAllocation(team.name, team.parent.empty() ? kRootAllocation : teams_[team.parent],
                          Weight{late ? 1 : team.weight}, now_);
    if (!id.ok()) throw BadScenario{0, absl::StrCat("tree: ", id.status().message())};
    teams_[team.path] = *id;
    if (late) weights.emplace_back(*id, team.weight);
  }
  teams_["root"] = kRootAllocation;

  for (const auto& [team, whole] : history) {
    const auto leaf = teams_.find(team);
    if (leaf == teams_.end()) throw BadScenario{0, absl::StrCat("used: no allocation ", team)};
    if (whole / gpus > 0) OccupyFor(leaf->second, std::chrono::seconds(whole / gpus), 0);
    if (whole % gpus > 0) OccupyFor(leaf->second, std::chrono::seconds(1), whole % gpus);
  }
  for (const auto& [id, weight] : weights) {
    MustBeOk(0, "weight", s_->SetWeight(id, Weight{weight}, now_, "scenario", "beginning", now_));
  }
  if (!weights.empty()) MustBeOk(0, "decide", s_->Decide(now_).status());
  for (const JobEntry& job : case_.running) Place(job);
  now_ = TimePoint();
  for (const auto& [name, health] : case_.health) {
    const absl::StatusOr<NodeId> id = s_->cluster().Find(name);
    if (!id.ok()) throw BadScenario{0, absl::StrCat("health: no node ", name)};
    MustBeOk(0, "health", s_->SetNode(*id, health, now_, now_).status());
  }
  set_up_ = true;
  wakeup_ = now_;
}

DomainId Runner::Domain(const std::string& path) {
  if (path.empty()) return kRootDomain;
  if (const auto it = domains_.find(path); it != domains_.end()) return it->second;
  const std::size_t slash = path.rfind('/');
  const DomainId parent = slash == std::string::npos ? kRootDomain : Domain(path.substr(0, slash));
  const absl::StatusOr<DomainId> id =
      s_->AddDomain(slash == std::string::npos ? path : path.substr(slash + 1), parent);
  if (!id.ok()) throw BadScenario{line_, std::string(id.status().message())};
  return domains_[path] = *id;
}

void Runner::AddNodeEntry(const NodeEntry& entry, TimePoint now) {
  const DomainId domain = Domain(entry.domain);
  const GpuTypeId type = s_->InternGpuType(entry.type);
  const absl::StatusOr<NodeId> id =
      s_->AddNode(entry.name, GpuCount(entry.gpus), type, domain, now);
  if (!id.ok()) throw BadScenario{0, absl::StrCat("cluster: ", id.status().message())};
}

// Occupies all GPUs (or `single_gpus` of them) for `leaf` from now_ on and moves now_ to the end.
void Runner::OccupyFor(AllocationId leaf, Duration length, std::int64_t single_gpus) {
  std::int64_t left = single_gpus > 0 ? single_gpus : std::numeric_limits<std::int64_t>::max();
  std::size_t waiting = 0;
  for (const Node& node : s_->cluster().nodes()) {
    if (left == 0) break;
    WorkloadSpec spec;
    spec.id = WorkloadId(helper_++);
    spec.allocation = leaf;
    spec.gpu_type = node.type;
    spec.gpus_per_node = GpuCount(std::min<std::int64_t>(node.gpus, left));
    spec.minimum = std::chrono::seconds(1);
    left -= spec.gpus_per_node.value();
    MustBeOk(0, "used", s_->Submit(spec, now_));
    ++waiting;
  }
  const absl::StatusOr<const Decisions*> d = s_->Decide(now_);
  MustBeOk(0, "used", d.status());
  if ((*d)->starts.size() != waiting) {
    throw BadScenario{0,
                      "used: past work does not start on the empty cluster (a lane? set "
                      "lane_permille: 0)"};
  }
  const std::vector<Start> starts = (*d)->starts;
  for (const Start& start : starts) {
    MustBeOk(0, "used", s_->ReportStarted(start.workload, start.run, now_, now_));
    const GpuTypeId type = s_->cluster().node((*d)->Nodes(start)[0]).type;
    segments_.push_back(
        {leaf, now_, now_ + length, start.gpus_per_node.value(), type, true, kNoJob});
  }
  now_ += length;
  for (const Start& start : starts) {
    MustBeOk(0, "used", s_->ReportEnded(start.workload, start.run, now_, now_));
  }
}

// Unfunded helpers of one GPU on every free GPU.
std::vector<std::pair<WorkloadId, NodeId>> Runner::FillFree(AllocationId leaf) {
  std::int64_t free = 0;
  for (const Node& node : s_->cluster().nodes()) free += node.free();
  for (std::int64_t i = 0; i < free; ++i) {
    WorkloadSpec spec;
    spec.id = WorkloadId(helper_++);
    spec.allocation = leaf;
    MustBeOk(0, "running", s_->Submit(spec, now_));
  }
  std::vector<std::pair<WorkloadId, NodeId>> helpers;
  const absl::StatusOr<const Decisions*> d = s_->Decide(now_);
  MustBeOk(0, "running", d.status());
  const Decisions decisions = **d;
  for (const Start& start : decisions.starts) {
    helpers.emplace_back(start.workload, decisions.Nodes(start)[0]);
    MustBeOk(0, "running", s_->ReportStarted(start.workload, start.run, now_, now_));
  }
  return helpers;
}

void Runner::EndHelper(WorkloadId id) {
  MustBeOk(0, "running", s_->ReportEnded(id, RunNumber(1), now_, now_));
}

// Starts a workload in the past on the nodes it is to run on: for that instant everything else is
// full.
void Runner::Place(const JobEntry& entry) {
  now_ = std::max(now_, entry.start);
  Job job;
  job.entry = entry;
  const auto leaf = teams_.find(entry.team);
  if (leaf == teams_.end()) throw BadScenario{entry.line, absl::StrCat("no team ", entry.team)};
  job.leaf = leaf->second;
  job.left = entry.runtime;
  job.phase = Phase::kWaiting;
  job.submitted = now_;
  WorkloadSpec spec = entry.spec;
  spec.allocation = job.leaf;
  if (!entry.type.empty()) spec.gpu_type = s_->InternGpuType(entry.type);
  std::set<NodeId> targets;
  for (const std::string& name : entry.on) {
    const absl::StatusOr<NodeId> id = s_->cluster().Find(name);
    if (!id.ok()) throw BadScenario{entry.line, std::string(id.status().message())};
    targets.insert(*id);
  }
  std::vector<std::pair<WorkloadId, NodeId>> helpers;
  if (!targets.empty()) helpers = FillFree(job.leaf);
  for (auto& [id, node] : helpers) {
    if (targets.contains(node)) EndHelper(id);
  }
  MustBeOk(entry.line, absl::StrCat("submit ", entry.name), s_->Submit(spec, now_));
  const absl::StatusOr<const Decisions*> d = s_->Decide(now_);
  MustBeOk(entry.line, "decide", d.status());
  const Decisions decisions = **d;
  if (decisions.starts.size() != 1 || decisions.starts[0].workload != spec.id) {
    throw BadScenario{entry.line,
                      absl::StrCat("running: ", entry.name, " does not start at ", Show(now_),
                                   targets.empty() ? "" : " on these nodes")};
  }
  const auto nodes = decisions.Nodes(decisions.starts[0]);
  if (!targets.empty() && targets != std::set<NodeId>(nodes.begin(), nodes.end())) {
    throw BadScenario{entry.line, absl::StrCat("running: ", entry.name, " starts on ",
                                               NodeNames(nodes), " instead")};
  }
  for (auto& [id, node] : helpers) {
    if (!targets.contains(node)) EndHelper(id);
  }
  names_[spec.id.value()] = entry.name;
  Job& kept = jobs_[entry.name] = std::move(job);
  changes_.push_back({TimePoint(), ChangeKind::kSubmitted, entry.name});
  kept.phase = Phase::kStarting;
  kept.run = decisions.starts[0].run;
  kept.decided = now_;
  kept.first_start = kept.last_start = now_;
  kept.starts = 1;
  kept.first_start_order = ++start_order_;
  kept.nodes.assign(nodes.begin(), nodes.end());
  occupied_.resize(s_->cluster().size());
  for (const NodeId n : nodes) occupied_[n.value()] += spec.gpus_per_node.value();
  ConfirmStart(kept, now_);
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

void Runner::ConfirmStart(Job& job, TimePoint at) {
  const WorkloadId id = job.entry.spec.id;
  MustBeOk(line_, absl::StrCat("start of ", job.entry.name),
           s_->ReportStarted(id, job.run, at, now_));
  const RunSlot slot = s_->table().Find(id);
  job.phase = Phase::kRunning;
  job.started = job.last_start = at;
  if (job.starts == 1) job.first_start = at;
  job.last_seen = now_;
  job.segment = segments_.size();
  segments_.push_back({job.leaf, at, kNever, job.entry.spec.gpus().value(),
                       s_->cluster().node(job.nodes[0]).type,
                       slot != kNoSlot && s_->table().run(slot).funded, job.segment});
  changes_.push_back({std::max(at, TimePoint()), ChangeKind::kStarted, job.entry.name});
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
  changes_.push_back({at, ChangeKind::kEnded, job.entry.name});
}

void Runner::AfterLoss(Job& job, LossOutcome outcome) {
  job.outcome = outcome;
  switch (outcome) {
    case LossOutcome::kRequeued:
    case LossOutcome::kSuspended:
      job.phase = Phase::kWaiting;
      changes_.push_back({now_, ChangeKind::kRequeued, job.entry.name});
      break;
    case LossOutcome::kFailedByPreemption:
    case LossOutcome::kFailedWithNode:
      job.phase = Phase::kFailed;
      job.ended = now_;
      changes_.push_back({now_, ChangeKind::kFailed, job.entry.name});
      break;
    case LossOutcome::kCancelled:
      job.phase = Phase::kCancelled;
      job.ended = now_;
      changes_.push_back({now_, ChangeKind::kEnded, job.entry.name});
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
  return it == names_.end() ? nullptr : &jobs_.at(it->second);
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

template <class T>
void Runner::Shuffle(std::vector<T>& list) {
  if (variant_.shuffle == 0) return;
  for (std::size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[Random() % i]);
}

void Runner::DoSubmit(const TimelineEntry& entry, const JobEntry& submitted) {
  Job job;
  job.entry = submitted;
  job.left = submitted.runtime;
  job.phase = Phase::kWaiting;
  job.submitted = Now(entry);
  WorkloadSpec spec = submitted.spec;
  // A name that is no allocation becomes an id that is none.
  const auto team = teams_.find(submitted.team);
  spec.allocation = team == teams_.end() ? AllocationId(0xfffffff0u) : team->second;
  job.leaf = spec.allocation;
  if (!submitted.type.empty()) spec.gpu_type = s_->InternGpuType(submitted.type);
  const bool done = Call(submitted.line, entry.refused, absl::StrCat("submit ", submitted.name),
                         [&] { return s_->Submit(spec, Now(entry)); });
  if (!done) {
    // Refused against expectation: what is expected of it later fails by name.
    job.phase = Phase::kNone;
    if (!entry.refused.has_value()) jobs_.emplace(submitted.name, std::move(job));
    return;
  }
  names_[spec.id.value()] = submitted.name;
  jobs_[submitted.name] = std::move(job);
  changes_.push_back({now_, ChangeKind::kSubmitted, submitted.name});
}

void Runner::Do(const TimelineEntry& entry) {
  const std::string& action = entry.action;
  const YAML::Node& value = entry.value;
  const TimePoint now = Now(entry);
  const auto call = [&](const std::string& what, const std::function<absl::Status()>& f) {
    return Call(entry.line, entry.refused, what, f);
  };
  if (action.empty()) return;
  if (action == "submit") {
    for (const JobEntry& job : entry.submits) DoSubmit(entry, job);
  } else if (action == "list") {
    DoList(entry);
  } else if (action == "restore") {
    DoRestore(entry);
  } else if (action == "decide") {
    DoDecide(entry);
  } else if (action == "make") {
    Case other;
    for (const auto& option : value) {
      other.options[ToText(option.first)] = ToText(option.second);
    }
    call("make", [&] { return MakeScheduler(policy_, other.options).status(); });
  } else if (action == "drain" || action == "up" || action == "fail") {
    TimePoint since = now;
    if (value.IsMap() && value["since"].IsDefined()) since = TimePoint(ToDuration(value["since"]));
    const YAML::Node& names = value.IsMap() ? value["name"] : value;
    for (const std::string& name : ToNames(names)) {
      const absl::StatusOr<NodeId> found = s_->cluster().Find(name);
      const NodeId id = found.ok() ? *found : NodeId(0xfffffff0u);
      const NodeHealth health = action == "drain"  ? NodeHealth::kDraining
                                : action == "fail" ? NodeHealth::kDown
                                                   : NodeHealth::kUp;
      NodeReport report;
      if (!call(absl::StrCat(action, " ", name), [&] {
            absl::StatusOr<NodeReport> answer = s_->SetNode(id, health, since, now);
            if (answer.ok()) report = *std::move(answer);
            return answer.status();
          })) {
        continue;
      }
      Log(absl::StrCat(action, " ", name));
      last_node_change_ = now_;
      CheckLost(name, id, health, report);
      for (const LostRun& lost : report.lost) {
        Job* job = FindJob(lost.workload);
        if (job == nullptr || !job->OnNodes()) continue;
        LeaveNodes(*job, since);
        AfterLoss(*job, lost.outcome);
      }
    }
  } else if (action == "maintenance") {
    DoMaintenance(entry);
  } else if (action == "cancel_maintenance") {
    const std::string name = ToText(value);
    const auto window = windows_.find(name);
    const MaintenanceId id =
        window == windows_.end() ? MaintenanceId(0xfffffff0u) : window->second.id;
    if (call(absl::StrCat("cancel_maintenance ", name),
             [&] { return s_->CancelMaintenance(id, now); })) {
      Log(absl::StrCat("cancel_maintenance ", name));
      windows_.erase(name);
    }
  } else if (action == "add_node") {
    const NodeEntry node = ReadNode(value);
    const DomainId domain = Domain(node.domain);
    const GpuTypeId type = s_->InternGpuType(node.type);
    call(absl::StrCat("add_node ", node.name),
         [&] { return s_->AddNode(node.name, GpuCount(node.gpus), type, domain, now).status(); });
    occupied_.resize(s_->cluster().size());
  } else if (action == "add_team") {
    Fields f(value, "add_team");
    const std::string name = ToText(f.Require("name")), parent = f.Text("parent", "");
    const double weight = f.Has("weight") ? ToDouble(f.Get("weight")) : 1;
    const std::string as = f.Text("as", parent.empty() ? name : absl::StrCat(parent, "/", name));
    f.Finish();
    const auto above = teams_.find(parent);
    const AllocationId parent_id = parent.empty()          ? kRootAllocation
                                   : above == teams_.end() ? AllocationId(0xfffffff0u)
                                                           : above->second;
    call(absl::StrCat("add_team ", name), [&] {
      const absl::StatusOr<AllocationId> id =
          s_->AddAllocation(name, parent_id, Weight{weight}, now);
      if (id.ok()) teams_[as] = *id;
      return id.status();
    });
  } else if (action == "weight") {
    Fields f(value, "weight");
    const AllocationId team = Team(value, ToText(f.Require("team")));
    const double weight = ToDouble(f.Require("weight"));
    const TimePoint effective =
        f.Has("effective") ? TimePoint(ToDuration(f.Get("effective"))) : now;
    const std::string by = f.Text("by", "scenario"), why = f.Text("why", "");
    f.Finish();
    call("weight", [&] { return s_->SetWeight(team, Weight{weight}, effective, by, why, now); });
  } else if (action == "boost") {
    Fields f(value, "boost");
    const AllocationId team = Team(value, ToText(f.Require("team")));
    const double weight = ToDouble(f.Require("weight"));
    const TimePoint from(f.Time("from", now.time_since_epoch()));
    const TimePoint until(ToDuration(f.Require("until")));
    const std::string by = f.Text("by", "scenario"), why = f.Text("why", "");
    f.Finish();
    call("boost", [&] { return s_->Boost(team, Weight{weight}, from, until, by, why, now); });
  } else if (action == "charge_rate") {
    Fields f(value, "charge_rate");
    const std::string name = ToText(f.Require("type"));
    const std::int64_t permille = ToInt(f.Require("permille"));
    f.Finish();
    const std::vector<std::string>& types = s_->cluster().gpu_types();
    const auto at = std::find(types.begin(), types.end(), name) - types.begin();
    const GpuTypeId type(static_cast<std::uint16_t>(at));
    const auto rate = static_cast<std::int32_t>(
        std::clamp<std::int64_t>(permille, std::numeric_limits<std::int32_t>::min(),
                                 std::numeric_limits<std::int32_t>::max()));
    if (call(absl::StrCat("charge_rate ", name),
             [&] { return s_->SetChargeRate(type, rate, now); })) {
      rates_.push_back({type, now, rate});
    }
  } else if (action == "move") {
    Fields f(value, "move");
    const AllocationId team = Team(value, ToText(f.Require("team")));
    const AllocationId to = Team(value, ToText(f.Require("to")));
    const std::string by = f.Text("by", "scenario"), why = f.Text("why", "");
    f.Finish();
    call("move", [&] { return s_->MoveAllocation(team, to, now, by, why); });
  } else if (action == "close") {
    const AllocationId team = Team(value, ToText(value));
    call("close", [&] { return s_->CloseAllocation(team, now); });
  } else {
    // A report about a workload. An unknown name is an id that was never submitted.
    const std::string name = NameIn(value);
    const auto found = jobs_.find(name);
    Job* job = found == jobs_.end() ? nullptr : &found->second;
    const WorkloadId id = job == nullptr ? WorkloadId(helper_++) : job->entry.spec.id;
    RunNumber run = job == nullptr ? RunNumber(1) : job->run;
    TimePoint at = now;
    bool idle = true;
    if (value.IsMap()) {
      Fields f(value, action);
      f.Require("name");
      at = TimePoint(f.Time("at", now.time_since_epoch()));
      if (f.Has("run")) run = RunNumber(static_cast<std::uint32_t>(f.Int("run", 1)));
      if (action == "idle") idle = f.Bool("idle", true);
      f.Finish();
    }
    const std::string what = absl::StrCat(action, " ", name);
    if (action == "cancel") {
      if (!call(what, [&] { return s_->Cancel(id, now); }) || job == nullptr) return;
      job->cancelled = true;
      promised_.erase(id.value());
      if (job->phase == Phase::kWaiting) {
        AfterLoss(*job, LossOutcome::kCancelled);
      }
    } else if (action == "started") {
      if (entry.refused.has_value()) {
        call(what, [&] { return s_->ReportStarted(id, run, at, now); });
      } else if (job != nullptr) {
        ConfirmStart(*job, at);
      }
    } else if (action == "start_failed") {
      if (!call(what, [&] { return s_->ReportStartFailed(id, run, now); }) || !job) return;
      LeaveNodes(*job, now);
      AfterLoss(*job, LossOutcome::kRequeued);
    } else if (action == "ended") {
      if (!call(what, [&] { return s_->ReportEnded(id, run, at, now); }) || !job) return;
      if (job->phase == Phase::kRunning || job->phase == Phase::kStopping) {
        EndRun(*job, at, Phase::kDone);
      } else if (job->inferred && run == job->run) {
        segments_[job->segment].end = at;
      }
    } else if (action == "stopped") {
      if (entry.refused.has_value()) {
        call(what, [&] { return s_->ReportStopped(id, run, at, now).status(); });
      } else if (job != nullptr) {
        ConfirmStop(*job, at);
      }
    } else if (action == "stop_failed") {
      if (!call(what, [&] { return s_->ReportStopFailed(id, run, now); }) || !job) return;
      job->phase = Phase::kRunning;
      Log(absl::StrCat("stop failed ", name));
      for (auto& signalled : signalled_) signalled.second.victims.erase(id.value());
    } else if (action == "checkpoint") {
      call(what, [&] { return s_->ReportCheckpoint(id, run, at, now); });
    } else if (action == "idle") {
      if (call(what, [&] { return s_->ReportIdle(id, idle, now); }) && job) job->idle = idle;
    }
  }
}

void Runner::DoMaintenance(const TimelineEntry& entry) {
  const TimePoint now = Now(entry);
  Fields f(entry.value, "maintenance");
  Window window;
  std::vector<NodeId> ids;
  const std::vector<std::string> names = ToNames(f.Require("nodes"));
  for (const std::string& name : names) {
    const absl::StatusOr<NodeId> found = s_->cluster().Find(name);
    ids.push_back(found.ok() ? *found : NodeId(0xfffffff0u));
  }
  window.nodes.insert(ids.begin(), ids.end());
  window.from = f.Has("from") ? TimePoint(ToDuration(f.Get("from"))) : now;
  window.until = TimePoint(ToDuration(f.Require("until")));
  const std::string name = f.Text("as", names.empty() ? "" : names[0]);
  const std::string by = f.Text("by", "scenario"), why = f.Text("why", "");
  f.Finish();
  if (!Call(entry.line, entry.refused, absl::StrCat("maintenance ", name), [&] {
        const absl::StatusOr<MaintenanceId> id =
            s_->AnnounceMaintenance(ids, window.from, window.until, by, why, now);
        if (id.ok()) window.id = *id;
        return id.status();
      })) {
    return;
  }
  Log(absl::StrCat("maintenance ", name, " from ", Show(window.from), " until ",
                   Show(window.until)));
  windows_[name] = std::move(window);
  last_node_change_ = now_;
}

void Runner::DoList(const TimelineEntry& entry) {
  std::vector<RunRef> running;
  std::optional<std::vector<std::string>> want_ended, want_unknown;
  const YAML::Node& value = entry.value;
  const auto refs = [&](const YAML::Node& names) {
    for (const std::string& name : ToNames(names)) {
      const auto it = jobs_.find(name);
      running.push_back(it == jobs_.end() ? RunRef{WorkloadId(helper_++), RunNumber(1)}
                                          : RunRef{it->second.entry.spec.id, it->second.run});
    }
  };
  if (value.IsMap()) {
    Fields f(value, "list");
    refs(f.Require("running"));
    if (f.Has("ended")) want_ended = ToNames(f.Get("ended"));
    if (f.Has("unknown")) want_unknown = ToNames(f.Get("unknown"));
    f.Finish();
  } else {
    refs(value);
  }
  Shuffle(running);
  const absl::StatusOr<ReconcileReport> report = s_->Reconcile(running, Now(entry));
  MustBeOk(entry.line, "list", report.status());
  if (!report.ok()) return;
  for (const RunRef& r : running) {
    Job* job = FindJob(r.workload);
    if (job != nullptr && job->phase != Phase::kWaiting) job->last_seen = now_;
  }
  std::set<std::string> ended;
  for (const RunRef& r : report->ended) {
    Job* job = FindJob(r.workload);
    if (job == nullptr) continue;
    ended.insert(job->entry.name);
    job->inferred = true;
    EndRun(*job, job->last_seen, Phase::kDone);
  }
  if (want_ended.has_value()) {
    Check(ended == std::set<std::string>(want_ended->begin(), want_ended->end()), entry.line,
          absl::StrCat("list: ended ", absl::StrJoin(*want_ended, " "), " expected, came ",
                       absl::StrJoin(ended, " ")));
  }
  if (want_unknown.has_value()) {
    Check(report->unknown.size() == want_unknown->size(), entry.line,
          absl::StrCat("list: ", want_unknown->size(), " unknown expected, came ",
                       report->unknown.size()));
  }
}

void Runner::DoDecide(const TimelineEntry& entry) {
  if (entry.refused.has_value()) {
    Call(entry.line, entry.refused, "decide", [&] { return s_->Decide(Now(entry)).status(); });
    return;
  }
  Pass();
}

void Runner::DoRestore(const TimelineEntry& entry) {
  const std::string how = ToText(entry.value);
  std::string bytes = s_->Snapshot();
  if (how == "true") {
    RestoreFresh(entry.line);
    return;
  }
  if (how == "empty") {
    bytes.clear();
  } else if (how == "cut") {
    bytes.resize(bytes.size() / 2);
  } else if (how == "flipped") {
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  } else {
    Fail(entry.value, "restore: true, empty, cut or flipped");
  }
  Call(entry.line, entry.refused, absl::StrCat("restore ", how),
       [&] { return s_->Restore(bytes); });
}

void Runner::RestoreFresh(int line) {
  absl::StatusOr<std::unique_ptr<AnyScheduler>> fresh =
      MakeScheduler(policy_, OptionsFor(case_, policy_));
  if (!fresh.ok()) return;
  const std::string bytes = s_->Snapshot();
  MustBeOk(line, "restore", (*fresh)->Restore(bytes));
  Check((*fresh)->Snapshot() == bytes, line, "a restored scheduler has another state");
  Check((*fresh)->dirty() == s_->dirty(), line, "a restored scheduler is dirty in another way");
  s_ = *std::move(fresh);
}

}  // namespace tenure::scenario
