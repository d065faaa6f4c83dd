// SPDX-License-Identifier: Apache-2.0
//
// How a case begins: the cluster, the tree, past use and running work, all through ordinary calls.
#include <algorithm>
#include <limits>
#include <utility>

#include "runner.h"
#include "yaml.h"

namespace tenure::scenario {

void Runner::BuildScheduler() {
  absl::StatusOr<std::unique_ptr<AnyScheduler>> made = Make(OptionsFor(case_, policy_));
  if (!made.ok()) throw BadScenario{0, std::string(made.status().message())};
  s_ = *std::move(made);

  TimePoint first{};
  for (const JobEntry& job : case_.running) first = std::min(first, job.start);

  // Work that runs at 0 has used something already; the rest of `used` lies before all of it.
  std::int64_t gpus = 0;
  for (const NodeEntry& node : case_.nodes) {
    gpus += std::clamp<std::int64_t>(node.gpus, 0, kMaxClusterGpus);  // others are refused later
  }
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
    if (gpus == 0) throw BadScenario{0, absl::StrCat("used: ", team, " without a cluster")};
    history.emplace_back(team, whole);
    seconds += whole / gpus + (whole % gpus != 0);
  }
  const bool fits = first >= window && seconds <= (first - window) / std::chrono::seconds(1);
  now_ = fits ? first - std::chrono::seconds(seconds) : first;
  if (!fits) {
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
  DomainId domain = kRootDomain;
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const auto [known, is_new] = domains_.try_emplace(path.substr(0, end));
    if (is_new) {
      const absl::StatusOr<DomainId> id = s_->AddDomain(path.substr(begin, end - begin), domain);
      if (!id.ok()) throw BadScenario{line_, std::string(id.status().message())};
      known->second = *id;
    }
    domain = known->second;
    begin = end + 1;
  }
  return domain;
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
  if (!d.ok() || (*d)->starts.size() != waiting) {
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
  if (!d.ok()) throw BadScenario{entry.line, std::string(d.status().message())};
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
  Job& kept = Keep(std::move(job));
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

}  // namespace tenure::scenario
