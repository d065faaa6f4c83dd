// SPDX-License-Identifier: Apache-2.0
//
// The events of a timeline, each one call of the scheduler.
#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_join.h"
#include "runner.h"
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
  Keep(std::move(job));
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
    call("make", [&] { return Make(other.options).status(); });
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
    std::string hint;
    if (value.IsMap()) {
      Fields f(value, action);
      f.Require("name");
      at = TimePoint(f.Time("at", now.time_since_epoch()));
      if (f.Has("run")) {
        run = RunNumber(static_cast<std::uint32_t>(
            ToIntIn(f.Get("run"), 0, std::numeric_limits<std::uint32_t>::max())));
      }
      if (action == "idle") idle = f.Bool("idle", true);
      if (action == "resume_hint") hint = ToText(f.Require("hint"));
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
    } else if (action == "resume_hint") {
      call(what, [&] { return s_->SetResumeHint(id, hint, now); });
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
  absl::StatusOr<std::unique_ptr<AnyScheduler>> fresh = Make(OptionsFor(case_, policy_));
  if (!fresh.ok()) return;
  const std::string bytes = s_->Snapshot();
  MustBeOk(line, "restore", (*fresh)->Restore(bytes));
  Check((*fresh)->Snapshot() == bytes, line, "a restored scheduler has another state");
  Check((*fresh)->dirty() == s_->dirty(), line, "a restored scheduler is dirty in another way");
  s_ = *std::move(fresh);
}

}  // namespace tenure::scenario
