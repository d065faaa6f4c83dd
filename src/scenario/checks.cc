// SPDX-License-Identifier: Apache-2.0
//
// The laws, checked after every pass without asking.
#include <algorithm>

#include "runner.h"
#include "yaml.h"

namespace tenure::scenario {
namespace {

constexpr std::size_t kCheckAllTeams = 64;

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
    const ContractRules& rules = s_->options().contract;
    const TimePoint until =
        job->started + std::min(rules.Protection(job->entry.spec),
                                rules.BorrowedCap(job->entry.spec.workload_class));
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
    const bool reserved = std::any_of(nodes.begin(), nodes.end(), [&promise = promise](NodeId id) {
      return promise.nodes.contains(id);
    });
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
      if (!IsPreemption(stop.reason) || stop.beneficiary != hold.workload) continue;
      const Job* victim = FindJob(stop.workload);
      if (victim == nullptr) continue;  // a failure already
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

}  // namespace tenure::scenario
