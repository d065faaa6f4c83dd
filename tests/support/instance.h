// SPDX-License-Identifier: Apache-2.0
//
// A Scheduler of a world, to which stories can be told.
#ifndef TENURE_TESTS_SUPPORT_INSTANCE_H_
#define TENURE_TESTS_SUPPORT_INSTANCE_H_

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "random_world.h"
#include "story.h"
#include "tenure/scheduler.h"
#include "tenure/sim/random.h"

namespace tenure::test {

// A Scheduler of a world and what its ids stand for.
template <class Policy>
class Instance {
 public:
  // `shuffle`: order of insertion; null for the order of the world.
  Instance(const WorldSpec& world, sim::Rng* shuffle)
      : world_options_(world.options),
        policy_(PolicyOf(world)),
        scheduler_(world.options, policy_) {
    const auto order = [&](std::size_t n, auto parent) {
      std::vector<std::size_t> list;
      std::vector<bool> in(n, false);
      while (list.size() < n) {
        std::vector<std::size_t> ready;
        for (std::size_t i = 0; i < n; ++i) {
          const int p = parent(i);
          if (!in[i] && (p < 0 || in[static_cast<std::size_t>(p)])) ready.push_back(i);
        }
        const std::size_t pick =
            shuffle == nullptr
                ? 0
                : static_cast<std::size_t>(shuffle->Below(static_cast<std::int64_t>(ready.size())));
        in[ready[pick]] = true;
        list.push_back(ready[pick]);
      }
      return list;
    };
    types_.resize(world.types.size());
    for (std::size_t i : order(world.types.size(), [](std::size_t) { return -1; })) {
      types_[i] = scheduler_.InternGpuType(world.types[i]);
    }
    domains_.resize(world.domains.size());
    for (std::size_t i :
         order(world.domains.size(), [&](std::size_t d) { return world.domains[d].parent; })) {
      domains_[i] =
          scheduler_.AddDomain(world.domains[i].name, Domain(world.domains[i].parent)).value();
    }
    nodes_.resize(world.nodes.size());
    for (std::size_t i : order(world.nodes.size(), [](std::size_t) { return -1; })) {
      nodes_[i] = Add(world.nodes[i], TimePoint()).value();
    }
    allocations_.resize(world.allocations.size());
    for (std::size_t i : order(world.allocations.size(),
                               [&](std::size_t a) { return world.allocations[a].parent; })) {
      const WorldSpec::Allocation& a = world.allocations[i];
      allocations_[i] =
          scheduler_.AddAllocation(a.name, Allocation(a.parent), Weight{a.weight}, TimePoint())
              .value();
    }
  }

  Scheduler<Policy>& scheduler() { return scheduler_; }
  const Scheduler<Policy>& scheduler() const { return scheduler_; }

  // Ids by position; a position that does not exist gives an id that does not exist.
  AllocationId Allocation(int i) const {
    if (i == -1) return kRootAllocation;
    return Known(allocations_, i) ? allocations_[static_cast<std::size_t>(i)]
                                  : AllocationId(1'000'000);
  }
  NodeId Node(int i) const {
    return Known(nodes_, i) ? nodes_[static_cast<std::size_t>(i)] : NodeId(1'000'000);
  }
  DomainId Domain(int i) const {
    if (i == -1) return kRootDomain;
    return Known(domains_, i) ? domains_[static_cast<std::size_t>(i)] : DomainId(1'000'000);
  }

  Response Tell(const Event& e);

  // Goes on in a new Scheduler made from a snapshot of this one.
  absl::Status Restart() {
    Scheduler<Policy> fresh(world_options_, policy_);
    if (absl::Status s = fresh.Restore(scheduler_.Snapshot()); !s.ok()) return s;
    scheduler_ = std::move(fresh);
    return absl::OkStatus();
  }

 private:
  template <class List>
  static bool Known(const List& list, int i) {
    return i >= 0 && static_cast<std::size_t>(i) < list.size();
  }
  absl::StatusOr<NodeId> Add(const WorldSpec::NodeSpec& n, TimePoint now) {
    return scheduler_.AddNode(
        n.name, GpuCount(n.gpus),
        Known(types_, n.type) ? types_[static_cast<std::size_t>(n.type)] : GpuTypeId(60'000),
        Domain(n.domain), now);
  }
  int Position(NodeId id) const {
    return static_cast<int>(std::find(nodes_.begin(), nodes_.end(), id) - nodes_.begin());
  }

  static Policy PolicyOf(const WorldSpec& world) {
    if constexpr (std::is_same_v<Policy, BudgetPolicy>) return Policy(world.budget);
    return Policy();
  }

  SchedulerOptions world_options_;
  Policy policy_;
  Scheduler<Policy> scheduler_;
  std::vector<GpuTypeId> types_;
  std::vector<DomainId> domains_;
  std::vector<NodeId> nodes_;
  std::vector<AllocationId> allocations_;
  std::vector<MaintenanceId> windows_;
};

template <class Policy>
Response Instance<Policy>::Tell(const Event& e) {
  Response r;
  Scheduler<Policy>& s = scheduler_;
  const auto say = [&](const absl::Status& status) { r.code = status.code(); };
  switch (e.kind) {
    case Event::Kind::kSubmit: {
      WorkloadSpec spec = e.spec;
      spec.allocation = Allocation(static_cast<int>(spec.allocation.value()) - 1);
      if (spec.gpu_type != kAnyGpuType) {
        const int type = spec.gpu_type.value();
        spec.gpu_type =
            Known(types_, type) ? types_[static_cast<std::size_t>(type)] : GpuTypeId(60'000);
      }
      say(s.Submit(spec, e.now));
      break;
    }
    case Event::Kind::kCancel:
      say(s.Cancel(e.id, e.now));
      break;
    case Event::Kind::kStarted:
      say(s.ReportStarted(e.id, e.run, e.at, e.now));
      break;
    case Event::Kind::kStartFailed:
      say(s.ReportStartFailed(e.id, e.run, e.now));
      break;
    case Event::Kind::kEnded:
      say(s.ReportEnded(e.id, e.run, e.at, e.now));
      break;
    case Event::Kind::kStopped: {
      const absl::StatusOr<LossOutcome> outcome = s.ReportStopped(e.id, e.run, e.at, e.now);
      say(outcome.status());
      if (outcome.ok()) r.outcome = *outcome;
      break;
    }
    case Event::Kind::kStopFailed:
      say(s.ReportStopFailed(e.id, e.run, e.now));
      break;
    case Event::Kind::kCheckpoint:
      say(s.ReportCheckpoint(e.id, e.run, e.at, e.now));
      break;
    case Event::Kind::kIdle:
      say(s.ReportIdle(e.id, e.idle, e.now));
      break;
    case Event::Kind::kSetNode: {
      const absl::StatusOr<NodeReport> report = s.SetNode(Node(e.index), e.health, e.at, e.now);
      say(report.status());
      if (report.ok()) r.lost = report->lost;
      break;
    }
    case Event::Kind::kAddNode: {
      const absl::StatusOr<NodeId> id = Add(e.node, e.now);
      say(id.status());
      if (id.ok()) nodes_.push_back(*id);
      break;
    }
    case Event::Kind::kAddAllocation: {
      const absl::StatusOr<AllocationId> id = s.AddAllocation(
          e.allocation.name, Allocation(e.allocation.parent), Weight{e.allocation.weight}, e.now);
      say(id.status());
      if (id.ok()) allocations_.push_back(*id);
      break;
    }
    case Event::Kind::kSetWeight:
      say(s.SetWeight(Allocation(e.index), Weight{e.weight}, e.at, "test", "because", e.now));
      break;
    case Event::Kind::kMove:
      say(s.MoveAllocation(Allocation(e.index), Allocation(e.allocation.parent), e.now, "test",
                           "because"));
      break;
    case Event::Kind::kBoost:
      say(s.Boost(Allocation(e.index), Weight{e.weight}, e.at, e.until, "test", "because", e.now));
      break;
    case Event::Kind::kSetRate:
      say(s.SetChargeRate(
          Known(types_, e.index) ? types_[static_cast<std::size_t>(e.index)] : GpuTypeId(60'000),
          e.rate, e.now));
      break;
    case Event::Kind::kClose:
      say(s.CloseAllocation(Allocation(e.index), e.now));
      break;
    case Event::Kind::kMaintenance: {
      std::vector<NodeId> nodes;
      for (int n : e.nodes) nodes.push_back(Node(n));
      const absl::StatusOr<MaintenanceId> id =
          s.AnnounceMaintenance(std::move(nodes), e.at, e.until, "test", "because", e.now);
      say(id.status());
      if (id.ok()) windows_.push_back(*id);
      break;
    }
    case Event::Kind::kCancelMaintenance:
      say(s.CancelMaintenance(Known(windows_, e.index) ? windows_[static_cast<std::size_t>(e.index)]
                                                       : MaintenanceId(1'000'000),
                              e.now));
      break;
    case Event::Kind::kReconcile: {
      const absl::StatusOr<ReconcileReport> report = s.Reconcile(e.running, e.now);
      say(report.status());
      if (!report.ok()) break;
      for (const RunRef& x : report->ended) r.ended.emplace_back(x.workload, x.run);
      for (const RunRef& x : report->unknown) r.unknown.emplace_back(x.workload, x.run);
      break;
    }
    case Event::Kind::kDecide: {
      const absl::StatusOr<const Decisions*> decided = s.Decide(e.now);
      say(decided.status());
      if (!decided.ok()) break;
      const Decisions& d = **decided;
      const auto nodes = [&](const auto& x) {
        std::vector<int> list;
        for (NodeId n : d.Nodes(x)) list.push_back(Position(n));
        return list;
      };
      for (const Start& x : d.starts) {
        r.starts.push_back({x.workload, x.run, nodes(x), x.gpus_per_node.value(), TimePoint()});
      }
      for (const Hold& x : d.holds) {
        r.holds.push_back({x.workload, RunNumber(0), nodes(x), x.gpus_per_node.value(), x.expires});
      }
      for (const Promise& x : d.promises) {
        r.promises.push_back({x.workload, RunNumber(0), nodes(x), 0, x.start_by});
      }
      for (const Stop& x : d.stops) {
        r.stops.push_back({x.workload, x.run, x.reason, x.beneficiary, x.grace, x.lost_work});
      }
      r.next_wakeup = d.next_wakeup;
      r.search = d.search;
      break;
    }
  }
  return r;
}

}  // namespace tenure::test

#endif  // TENURE_TESTS_SUPPORT_INSTANCE_H_
