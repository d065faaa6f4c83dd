// SPDX-License-Identifier: Apache-2.0
//
// What a scenario file expects.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_join.h"
#include "runner.h"
#include "tenure/sim/metrics.h"
#include "yaml.h"

namespace tenure::scenario {
namespace {

bool MustWait(WaitReason reason) {
  return reason != WaitReason::kNone && reason != WaitReason::kNeverFits &&
         reason != WaitReason::kClosed && reason != WaitReason::kNotConsidered;
}

}  // namespace

void Runner::Expect(const YAML::Node& expect) {
  for (const auto& entry : expect) {
    line_ = LineOf(entry.first);
    ExpectOne(ToText(entry.first), entry.second);
  }
}

void Runner::ForEach(const YAML::Node& value,
                     const std::function<void(const std::string&, const YAML::Node&)>& f) {
  if (!value.IsMap()) Fail(value, "expected a map of names to values");
  for (const auto& entry : value) {
    line_ = LineOf(entry.first);
    for (const std::string& name : ToNames(entry.first)) f(name, entry.second);
  }
}

// A value, or [least, most].
template <class T, class Parse>
void Runner::Compare(const YAML::Node& want, T got, const std::string& what, const Parse& parse) {
  const auto show = [](const T& v) {
    if constexpr (std::is_same_v<T, std::int64_t>) {
      return absl::StrCat(v);
    } else if constexpr (std::is_same_v<T, MilliGpu>) {
      return absl::StrCat(Gpus(v));
    } else {
      return Show(v);
    }
  };
  if (want.IsSequence()) {
    if (want.size() != 2) Fail(want, "expected [least, most]");
    const T low = parse(want[0]), high = parse(want[1]);
    Check(low <= got && got <= high, line_,
          absl::StrCat(what, " is ", show(got), ", expected ", show(low), " to ", show(high)));
    return;
  }
  const T value = parse(want);
  Check(got == value, line_, absl::StrCat(what, " is ", show(got), ", expected ", show(value)));
}

void Runner::ExpectOne(const std::string& key, const YAML::Node& value) {
  static const std::map<std::string, Phase> kPhases = {
      {"waiting", Phase::kWaiting},    {"starting", Phase::kStarting}, {"running", Phase::kRunning},
      {"stopping", Phase::kStopping},  {"done", Phase::kDone},         {"failed", Phase::kFailed},
      {"cancelled", Phase::kCancelled}};
  const auto time = [](const YAML::Node& n) {
    return ToText(n) == "never" ? kNever : TimePoint(ToDuration(n));
  };
  const auto standing = [&](const YAML::Node& at, const std::string& team) {
    const absl::StatusOr<AllocationStanding> s = s_->Standing(Team(at, team), now_);
    MustBeOk(line_, absl::StrCat("standing of ", team), s.status());
    return s.value_or(AllocationStanding{});
  };
  if (const auto phase = kPhases.find(key); phase != kPhases.end()) {
    for (const std::string& name : ToNames(value)) {
      const Job& job = JobOf(value, name);
      Check(job.phase == phase->second, line_,
            absl::StrCat(name, " is ", PhaseText(job.phase), ", expected ", key));
    }
  } else if (key == "only_running") {
    std::set<std::string> running;
    for (const auto& [name, job] : jobs_) {
      if (job.phase == Phase::kRunning) running.insert(name);
    }
    const std::vector<std::string> names = ToNames(value);
    Check(running == std::set<std::string>(names.begin(), names.end()), line_,
          absl::StrCat("running: ", absl::StrJoin(running, " "), "; expected ",
                       absl::StrJoin(names, " ")));
  } else if (key == "reason") {
    ForEach(value, [&](const std::string& name, const YAML::Node& want) {
      const absl::StatusOr<Explanation> e = s_->Explain(JobOf(value, name).entry.spec.id);
      const std::string text = ToText(want);
      Check(
          e.ok() && (text == "must-wait" ? MustWait(e->reason) : text == ToString(e->reason)),
          line_,
          absl::StrCat(name, " waits because of ",
                       e.ok() ? ToString(e->reason) : e.status().ToString(), ", expected ", text));
    });
  } else if (key == "resume_hint") {
    ForEach(value, [&](const std::string& name, const YAML::Node& want) {
      const absl::StatusOr<std::string_view> hint =
          s_->ResumeHint(JobOf(value, name).entry.spec.id);
      MustBeOk(line_, absl::StrCat("resume hint of ", name), hint.status());
      const std::string text(hint.value_or(""));
      Check(
          text == ToText(want), line_,
          absl::StrCat("resume hint of ", name, " is '", text, "', expected '", ToText(want), "'"));
    });
  } else if (key == "outcome") {
    ForEach(value, [&](const std::string& name, const YAML::Node& want) {
      const Job& job = JobOf(value, name);
      const std::string text = job.outcome.has_value() ? ToString(*job.outcome) : "none";
      Check(text == ToText(want), line_,
            absl::StrCat("outcome of ", name, " is ", text, ", expected ", ToText(want)));
    });
  } else if (key == "promised") {
    ForEach(value, [&](const std::string& name, const YAML::Node& want) {
      const absl::StatusOr<Explanation> e = s_->Explain(JobOf(want, name).entry.spec.id);
      MustBeOk(line_, absl::StrCat("explain ", name), e.status());
      if (!e.ok()) return;
      Compare(want, e->promised_start, absl::StrCat("promised start of ", name), time);
    });
  } else if (key == "on" || key == "within") {
    ForEach(value, [&](const std::string& name, const YAML::Node& want) {
      std::set<std::string> have, names;
      for (const NodeId n : JobOf(value, name).nodes) have.insert(NodeName(n));
      for (const std::string& n : ToNames(want)) names.insert(n);
      const bool ok = key == "on" ? have == names
                                  : !have.empty() && std::includes(names.begin(), names.end(),
                                                                   have.begin(), have.end());
      Check(ok, line_,
            absl::StrCat(name, " is on ", absl::StrJoin(have, " "), ", expected ", key, " ",
                         absl::StrJoin(names, " ")));
    });
  } else if (key == "together") {
    std::set<NodeId> nodes;
    for (const std::string& name : ToNames(value)) {
      for (const NodeId n : JobOf(value, name).nodes) nodes.insert(n);
    }
    Check(nodes.size() == 1, line_, absl::StrCat("together: on ", nodes.size(), " nodes"));
  } else if (key == "domains") {
    ForEach(value, [&](const std::string& name, const YAML::Node& want) {
      std::set<DomainId> domains;
      for (const NodeId n : JobOf(value, name).nodes) domains.insert(s_->cluster().node(n).domain);
      Compare(want, static_cast<std::int64_t>(domains.size()), absl::StrCat("domains of ", name),
              ToInt);
    });
  } else if (key == "first_start" || key == "last_start" || key == "ended_at") {
    ForEach(value, [&](const std::string& name, const YAML::Node& want) {
      const Job& job = JobOf(value, name);
      Compare(want,
              key == "first_start"  ? job.first_start
              : key == "last_start" ? job.last_start
                                    : job.ended,
              absl::StrCat(key, " of ", name), time);
    });
  } else if (key == "starts" || key == "stops_of") {
    ForEach(value, [&](const std::string& name, const YAML::Node& want) {
      const Job& job = JobOf(value, name);
      Compare(want, key == "starts" ? job.starts : job.stops, absl::StrCat(key, " ", name), ToInt);
    });
  } else if (key == "stops") {
    Compare(value, stops_, "number of preemptions", ToInt);
  } else if (key == "stopped") {
    const std::vector<std::string> names = ToNames(value);
    Check(stopped_ == std::set<std::string>(names.begin(), names.end()), line_,
          absl::StrCat("stopped: ", absl::StrJoin(stopped_, " "), "; expected ",
                       absl::StrJoin(names, " ")));
  } else if (key == "stopped_any_of") {
    bool ok = false;
    if (!value.IsSequence()) Fail(value, "expected a list of lists of names");
    for (const YAML::Node& item : value) {
      const std::vector<std::string> names = ToNames(item);
      ok = ok || stopped_ == std::set<std::string>(names.begin(), names.end());
    }
    Check(ok, line_, absl::StrCat("stopped: ", absl::StrJoin(stopped_, " ")));
  } else if (key == "start_order") {
    std::int64_t before = 0;
    for (const std::string& name : ToNames(value)) {
      const Job& job = JobOf(value, name);
      Check(job.starts > 0 && job.first_start_order > before, line_,
            absl::StrCat("start_order: ", name, job.starts > 0 ? " came earlier" : " not started"));
      before = job.first_start_order;
    }
  } else if (key == "running_jobs" || key == "done_jobs") {
    ForEach(value, [&](const std::string& team, const YAML::Node& want) {
      const AllocationId leaf = Team(want, team);
      std::int64_t n = 0;
      for (const auto& [name, job] : jobs_) {
        n += (leaf == kRootAllocation || job.leaf == leaf) &&
             job.phase == (key == "done_jobs" ? Phase::kDone : Phase::kRunning);
      }
      Compare(want, n, absl::StrCat(key, " of ", team), ToInt);
    });
  } else if (key == "used" || key == "unfunded_used") {
    ForEach(value, [&](const std::string& team, const YAML::Node& want) {
      const AllocationStanding s = standing(want, team);
      Compare(want, key == "used" ? s.used_in_window : s.unfunded_in_window,
              absl::StrCat(key, " of ", team), ToGpuTime);
    });
  } else if (key == "in_use" || key == "queued" || key == "unfunded") {
    ForEach(value, [&](const std::string& team, const YAML::Node& want) {
      const AllocationStanding s = standing(want, team);
      Compare(want,
              (key == "in_use"   ? s.placed
               : key == "queued" ? s.queued
                                 : s.unfunded)
                  .value(),
              absl::StrCat(key, " of ", team), ToInt);
    });
  } else if (key == "entitlement") {
    ForEach(value, [&](const std::string& team, const YAML::Node& want) {
      Compare(want, standing(want, team).entitlement, absl::StrCat(key, " of ", team), ToMilliGpu);
    });
  } else if (key == "rank") {
    const std::vector<std::string> teams = ToNames(value);
    for (std::size_t i = 1; i < teams.size(); ++i) {
      const AllocationStanding a = standing(value, teams[i - 1]), b = standing(value, teams[i]);
      Check(std::pair(a.key, a.used_in_window) < std::pair(b.key, b.used_in_window), line_,
            absl::StrCat("rank: ", teams[i - 1], " (", Show(a.key), ") is not before ", teams[i],
                         " (", Show(b.key), ")"));
    }
  } else if (key == "same_standing") {
    const std::vector<std::string> teams = ToNames(value);
    for (const std::string& team : teams) {
      const AllocationStanding a = standing(value, teams[0]), b = standing(value, team);
      Check(a.key == b.key && a.used_in_window == b.used_in_window, line_,
            absl::StrCat("standings of ", teams[0], " and ", team, " differ"));
    }
  } else if (key == "occupied") {
    ForEach(value, [&](const std::string& name, const YAML::Node& want) {
      Compare(want, std::int64_t{s_->cluster().node(NodeOf(want, name)).occupied},
              absl::StrCat("GPUs in use on ", name), ToInt);
    });
  } else if (key == "free") {
    Compare(value, s_->cluster().free().value(), "free GPUs", ToInt);
  } else if (key == "healthy") {
    Compare(value, s_->cluster().healthy().value(), "healthy GPUs", ToInt);
  } else if (key == "drained" || key == "not_drained") {
    for (const std::string& name : ToNames(value)) {
      Check(s_->Drained(NodeOf(value, name)) == (key == "drained"), line_,
            absl::StrCat(name, ": expected ", key));
    }
  } else if (key == "lookback") {
    Compare(value, s_->options().lookback, "lookback", ToDuration);
  } else if (key == "workloads") {
    Compare(value, static_cast<std::int64_t>(s_->workloads()), "number of workloads", ToInt);
  } else if (key == "name_bytes") {
    ForEach(value, [&](const std::string& name, const YAML::Node& want) {
      const RunSlot slot = s_->table().Find(JobOf(want, name).entry.spec.id);
      Check(slot != kNoSlot && s_->table().workload(slot).spec.name == ToBytes(want), line_,
            absl::StrCat("the name of ", name, " has other bytes"));
    });
  } else if (key == "metrics") {
    ExpectMetrics(value);
  } else {
    Fail(value, absl::StrCat("no expectation '", key, "'"));
  }
}

// Feeds the run to the recorder of the simulator: owed, credited and delivered as it defines them.
void Runner::ExpectMetrics(const YAML::Node& value) {
  constexpr Duration kLongest = std::chrono::hours(24 * 3650);  // owed is settled hour by hour
  if (now_.time_since_epoch() > kLongest) Fail(value, "metrics: not later than 3650d");
  sim::World world;
  world.cluster.nodes = 1;
  world.cluster.gpus_per_node = static_cast<std::int32_t>(s_->cluster().declared().value());
  std::vector<AllocationId> leaves;
  std::map<AllocationId, std::int32_t> index;
  for (const AllocationId leaf : s_->tree().leaves()) {
    index[leaf] = static_cast<std::int32_t>(leaves.size());
    leaves.push_back(leaf);
    world.leaves.push_back({s_->tree().path(leaf), {1}});
  }
  for (const Submission& submitted : submissions_) {
    sim::JobRow row;
    row.minimum_us = submitted.spec.minimum.count();
    row.leaf = index[submitted.leaf];
    row.nodes = static_cast<std::int32_t>(submitted.spec.nodes);
    row.gpus_per_node = static_cast<std::int32_t>(submitted.spec.gpus_per_node.value());
    row.workload_class = static_cast<std::uint32_t>(submitted.spec.workload_class);
    world.jobs.push_back(row);
  }
  sim::MetricsRecorder recorder(world, s_->tree(), leaves,
                                {.warmup = Duration(0), .end = now_.time_since_epoch()});
  std::vector<Change> changes = changes_;
  std::stable_sort(changes.begin(), changes.end(),
                   [](const Change& a, const Change& b) { return a.at < b.at; });
  for (const Change& c : changes) {
    const std::size_t row = c.submission;
    switch (c.kind) {
      case ChangeKind::kSubmitted:
        recorder.Submitted(row, c.at);
        break;
      case ChangeKind::kStarted:
        recorder.Started(row, c.at, Duration(0));
        break;
      case ChangeKind::kRequeued:
        recorder.Stopped(row, c.at, Duration(0), sim::StopOutcome::kRequeued);
        break;
      case ChangeKind::kFailed:
        recorder.Stopped(row, c.at, Duration(0), sim::StopOutcome::kFailed);
        break;
      case ChangeKind::kEnded:
        recorder.Finished(row, c.at);
        break;
    }
  }
  const sim::Metrics m = recorder.Finish(now_);
  ForEach(value, [&](const std::string& team, const YAML::Node& want) {
    const auto leaf = index.find(Team(want, team));
    if (leaf == index.end()) Fail(want, absl::StrCat("metrics: '", team, "' is no leaf"));
    const sim::LeafResult& r = m.leaf[static_cast<std::size_t>(leaf->second)];
    const auto seconds = [](double hours) {
      return GpuTime(std::llround(hours * 3600.0) * 1'000'000);
    };
    Fields f(want, absl::StrCat("metrics of ", team));
    const auto compare = [&](const char* what, double hours) {
      if (!f.Has(what)) return;
      Compare(f.Get(what), seconds(hours), absl::StrCat(what, " of ", team), ToGpuTime);
    };
    compare("owed", r.owed_gpu_h);
    compare("delivered", r.delivered_gpu_h);
    compare("credited", r.owed_strict.value_or(0) * r.owed_gpu_h);
    f.Finish();
  });
}

}  // namespace tenure::scenario
