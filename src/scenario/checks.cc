// SPDX-License-Identifier: Apache-2.0
//
// What is checked: the laws after every pass, the expectations where the file asks.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_join.h"
#include "runner.h"
#include "tenure/sim/metrics.h"
#include "yaml.h"

namespace tenure::scenario {
namespace {

constexpr std::size_t kCheckAllTeams = 64;

bool MustWait(WaitReason reason) {
  return reason != WaitReason::kNone && reason != WaitReason::kNeverFits &&
         reason != WaitReason::kClosed && reason != WaitReason::kNotConsidered;
}

}  // namespace

void Runner::Check(bool ok, int line, const std::string& what) {
  ++out_.checks;
  if (ok) return;
  std::string message = absl::StrCat(file_, ":", line, ": ");
  if (!case_.name.empty()) absl::StrAppend(&message, "case ", case_.name, ", ");
  absl::StrAppend(&message, policy_, " at ", Show(now_), ": ", what);
  out_.failures.push_back(std::move(message));
}

// --- Laws ----------------------------------------------------------------------------------------

void Runner::CheckStop(const Stop& stop, const std::set<std::uint64_t>& held) {
  Job* job = FindJob(stop.workload);
  const std::string& name = job->entry.name;
  Check(job->phase == Phase::kRunning && job->run == stop.run, line_,
        absl::StrCat("law: stop of ", name, ", which is ", PhaseText(job->phase)));
  const RunSlot slot = s_->table().Find(stop.workload);
  const bool funded = slot != kNoSlot && s_->table().run(slot).funded;
  if (funded && !job->idle && stop.reason != StopReason::kCancelled) {
    const TimePoint until = job->started + s_->options().contract.Protection(job->entry.spec);
    Check(now_ >= until, line_,
          absl::StrCat("law: ", name, " is stopped, protected until ", Show(until)));
  }
  if (!IsPreemption(stop.reason)) return;
  const Job* winner = FindJob(stop.beneficiary);
  Check(winner != nullptr && winner->entry.spec.funded(), line_,
        absl::StrCat("law: ", name, " is stopped for unfunded work"));
  Check(held.contains(stop.beneficiary.value()), line_,
        absl::StrCat("law: ", name, " is stopped for ", NameOf(stop.beneficiary),
                     ", which gets no place"));
  Signalled& signalled = signalled_[stop.beneficiary.value()];
  Check(signalled.victims.empty() || signalled.pass == pass_ ||
            now_ >= signalled.at + s_->options().grace,
        line_,
        absl::StrCat("law: a second set of victims for ", NameOf(stop.beneficiary),
                     " while the first is in its grace"));
  if (signalled.pass != pass_) {
    signalled.victims.clear();
    signalled.pass = pass_;
    signalled.at = now_;
  }
  signalled.victims.insert(stop.workload.value());
}

void Runner::CheckStart(const Start& start, std::span<const NodeId> nodes, const Job& job) {
  const std::string& name = job.entry.name;
  const WorkloadSpec& spec = job.entry.spec;
  Check(job.phase == Phase::kWaiting, line_,
        absl::StrCat("law: start of ", name, ", which is ", PhaseText(job.phase)));
  Check(
      start.run.value() == job.run.value() + 1, line_,
      absl::StrCat("law: run ", start.run.value(), " of ", name, " follows run ", job.run.value()));
  Check(nodes.size() == spec.nodes &&
            std::set<NodeId>(nodes.begin(), nodes.end()).size() == nodes.size(),
        line_, absl::StrCat("law: ", name, " gets ", nodes.size(), " nodes of ", spec.nodes));
  Check(!s_->tree().closed(job.leaf), line_,
        absl::StrCat("law: start of ", name, " in a closed allocation"));
  if (const auto own = promised_.find(start.workload.value()); own != promised_.end()) {
    Check(!own->second.binding || now_ <= own->second.start_by, line_,
          absl::StrCat("law: ", name, " starts after its promise of ", Show(own->second.start_by)));
  }
  for (const auto& [other, promise] : promised_) {
    if (other == start.workload.value() || !spec.funded()) continue;
    const bool reserved = std::any_of(nodes.begin(), nodes.end(),
                                      [&](NodeId id) { return promise.nodes.contains(id); });
    Check(!reserved || now_ + s_->options().contract.Protection(spec) <= promise.start_by, line_,
          absl::StrCat("law: ", name, " starts on nodes promised by ", Show(promise.start_by),
                       " to ", NameOf(WorkloadId(other))));
  }
  std::set<GpuTypeId> types;
  for (const NodeId id : nodes) {
    const Node& node = s_->cluster().node(id);
    types.insert(node.type);
    Check(node.health == NodeHealth::kUp, line_,
          absl::StrCat("law: start of ", name, " on ", node.name, ", which is ",
                       ToString(node.health)));
    for (const auto& [title, window] : windows_) {
      if (!window.nodes.contains(id) || now_ >= window.until) continue;
      const TimePoint ends = now_ + s_->options().contract.Protection(spec);
      Check(ends <= window.from - s_->options().grace - s_->options().tick, line_,
            absl::StrCat("law: start of ", name, " on ", node.name, ", protected until ",
                         Show(ends), ", in maintenance from ", Show(window.from)));
    }
    Check(occupied_[id.value()] + spec.gpus_per_node.value() <= node.gpus, line_,
          absl::StrCat("law: start of ", name, " on ", node.name, ", where ", occupied_[id.value()],
                       " of ", node.gpus, " GPUs are occupied"));
    if (!job.entry.type.empty()) {
      Check(s_->cluster().gpu_types()[node.type.value()] == job.entry.type, line_,
            absl::StrCat("law: start of ", name, " on ", node.name, " of another type"));
    }
  }
  Check(types.size() <= 1, line_, absl::StrCat("law: ", name, " is spread over GPU types"));
  if (nodes.size() > 1 && spec.topology_rule == TopologyRule::kRequired) {
    const Cluster& cluster = s_->cluster();
    std::set<DomainId> domains;
    for (const NodeId id : nodes) {
      DomainId d = cluster.node(id).domain;
      while (cluster.level(d) > std::min(spec.topology_level, cluster.depth())) {
        d = cluster.parent(d);
      }
      domains.insert(d);
    }
    Check(domains.size() == 1, line_,
          absl::StrCat("law: ", name, " must be in one domain, gets ", domains.size()));
  }
}

// Only a node that changes may move a promise to a later time.
// A node that goes down takes exactly the runs on it along.
void Runner::CheckLost(const std::string& name, NodeId id, NodeHealth health,
                       const NodeReport& report) {
  std::map<std::uint64_t, LossOutcome> expected;
  for (const auto& [job_name, job] : jobs_) {
    if (health != NodeHealth::kDown || !job.OnNodes() ||
        std::find(job.nodes.begin(), job.nodes.end(), id) == job.nodes.end()) {
      continue;
    }
    expected[job.entry.spec.id.value()] = job.cancelled              ? LossOutcome::kCancelled
                                          : job.entry.spec.resumable ? LossOutcome::kRequeued
                                                                     : LossOutcome::kFailedWithNode;
  }
  for (const LostRun& lost : report.lost) {
    const auto it = expected.find(lost.workload.value());
    Check(it != expected.end() && it->second == lost.outcome, line_,
          absl::StrCat("law: ", name, " loses ", NameOf(lost.workload), ", reported as ",
                       ToString(lost.outcome)));
    if (it != expected.end()) expected.erase(it);
  }
  for (const auto& [workload, outcome] : expected) {
    Check(false, line_,
          absl::StrCat("law: ", name, " lost ", NameOf(WorkloadId(workload)),
                       ", which is not reported"));
  }
}

void Runner::CheckPromise(const Promise& promise, std::span<const NodeId> nodes) {
  const auto before = promised_.find(promise.workload.value());
  if (before != promised_.end() && last_node_change_ < before->second.made) {
    Check(promise.start_by <= before->second.start_by, line_,
          absl::StrCat("law: the promise to ", NameOf(promise.workload), " moves from ",
                       Show(before->second.start_by), " to ", Show(promise.start_by)));
  }
  // A host that takes longer than the grace, or a start it never confirms, breaks it, not the
  // scheduler.
  bool binding = true;
  for (const auto& [name, job] : jobs_) {
    binding = binding && job.entry.start_takes == Duration(0) &&
              job.entry.stop_takes.value_or(Duration(0)) <= s_->options().grace;
  }
  promised_[promise.workload.value()] = {
      promise.start_by, now_, {nodes.begin(), nodes.end()}, binding};
}

void Runner::CheckOverduePromises() {
  for (const auto& [id, promise] : promised_) {
    Check(!promise.binding || now_ <= promise.start_by, line_,
          absl::StrCat("law: ", NameOf(WorkloadId(id)), " was promised a start by ",
                       Show(promise.start_by)));
  }
}

// Feasible once exactly the victims are gone, and not without any of them.
void Runner::CheckVictims(const Decisions& d) {
  for (const Hold& hold : d.holds) {
    const std::span<const NodeId> nodes = d.Nodes(hold);
    for (const NodeId id : nodes) {
      Check(s_->cluster().node(id).soon() >= 0, line_,
            absl::StrCat("law: ", NodeName(id), " cannot hold ", NameOf(hold.workload),
                         " when its victims are gone"));
    }
    for (const Stop& stop : d.stops) {
      if (stop.reason == StopReason::kDrain || stop.reason == StopReason::kCancelled ||
          stop.beneficiary != hold.workload) {
        continue;
      }
      const Job* victim = FindJob(stop.workload);
      const bool needed = std::any_of(nodes.begin(), nodes.end(), [&](NodeId id) {
        const bool there =
            std::find(victim->nodes.begin(), victim->nodes.end(), id) != victim->nodes.end();
        return there && s_->cluster().node(id).soon() < victim->entry.spec.gpus_per_node.value();
      });
      Check(needed, line_,
            absl::StrCat("law: ", victim->entry.name, " is stopped for ", NameOf(hold.workload),
                         ", which fits without that"));
    }
  }
}

// The scheduler's books against those of the resource manager.
// What a GPU of `type` is charged in [begin, end), in thousandths of a microsecond.
absl::int128 Runner::Charged(GpuTypeId type, TimePoint begin, TimePoint end) const {
  absl::int128 sum = 0;
  std::int64_t rate = kStandardRate;
  for (const RateChange& change : rates_) {  // by time
    if (change.type != type || change.at >= end) continue;
    if (change.at > begin) {
      sum += absl::int128(rate) * (change.at - begin).count();
      begin = change.at;
    }
    rate = change.permille;
  }
  return sum + absl::int128(rate) * (end - begin).count();
}

void Runner::CheckBooks() {
  if (!variant_.plain()) return;
  occupied_.resize(s_->cluster().size());
  for (std::size_t i = 0; i < occupied_.size(); ++i) {
    const Node& node = s_->cluster().node(NodeId(static_cast<std::uint32_t>(i)));
    Check(node.occupied == occupied_[i] && node.occupied >= 0 && node.occupied <= node.gpus, line_,
          absl::StrCat("law: ", node.occupied, " GPUs of ", node.name, " are in use, ",
                       occupied_[i], " are occupied"));
  }
  const BudgetTree& tree = s_->tree();
  const TimePoint window = now_ - s_->options().lookback;
  std::vector<absl::int128> funded(tree.size()), unfunded(tree.size());
  for (const Segment& s : segments_) {
    const TimePoint begin = std::max(s.begin, window), end = std::min(s.end, now_);
    if (end <= begin) continue;
    if (s.funded) {
      funded[s.leaf.value()] += absl::int128(s.gpus) * Charged(s.type, begin, end);
    } else {
      unfunded[s.leaf.value()] += absl::int128(s.gpus) * (end - begin).count();
    }
  }
  const std::span<const AllocationId> preorder = tree.preorder();
  for (std::size_t i = preorder.size(); i-- > 1;) {
    const AllocationId id = preorder[i], parent = tree.parent(id);
    funded[parent.value()] += funded[id.value()];
    unfunded[parent.value()] += unfunded[id.value()];
  }
  for (std::uint32_t i = 0; i < tree.size(); ++i) {
    if (i > 0 && tree.size() > kCheckAllTeams) break;
    const AllocationId id(i);
    const absl::StatusOr<AllocationStanding> s = s_->Standing(id, now_);
    MustBeOk(line_, "standing", s.status());
    if (!s.ok()) continue;
    const std::string name = i == 0 ? "the root" : tree.path(id);
    const auto show = [](absl::int128 v) { return Show(Duration(static_cast<std::int64_t>(v))); };
    Check(funded[i] == absl::int128(s->used_in_window.value()) * 1000 + s->used_rest, line_,
          absl::StrCat("law: ", name, " is charged ", Show(s->used_in_window), ", occupied ",
                       show(funded[i] / 1000), " by charge rates"));
    Check(unfunded[i] == s->unfunded_in_window.value(), line_,
          absl::StrCat("law: ", name, " has unfunded ", Show(s->unfunded_in_window), ", occupied ",
                       show(unfunded[i])));
  }
}

// --- Expectations --------------------------------------------------------------------------------

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
  std::map<std::string, std::size_t> rows;
  for (const auto& [name, job] : jobs_) {
    rows[name] = world.jobs.size();
    sim::JobRow row;
    row.minimum_us = job.entry.spec.minimum.count();
    row.leaf = index[job.leaf];
    row.nodes = static_cast<std::int32_t>(job.entry.spec.nodes);
    row.gpus_per_node = static_cast<std::int32_t>(job.entry.spec.gpus_per_node.value());
    row.workload_class = static_cast<std::uint32_t>(job.entry.spec.workload_class);
    world.jobs.push_back(row);
  }
  sim::MetricsRecorder recorder(world, s_->tree(), leaves,
                                {.warmup = Duration(0), .end = now_.time_since_epoch()});
  std::vector<Change> changes = changes_;
  std::stable_sort(changes.begin(), changes.end(),
                   [](const Change& a, const Change& b) { return a.at < b.at; });
  for (const Change& c : changes) {
    const std::size_t row = rows[c.job];
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
    const sim::LeafResult& r = m.leaf[static_cast<std::size_t>(index[Team(want, team)])];
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
