// SPDX-License-Identifier: Apache-2.0
//
// Small random clusters and budget trees, and the events that can be told to a Scheduler, in a form
// that is independent of the ids the Scheduler hands out: everything is named by its position in
// the WorldSpec, so that one story can be told to several schedulers built in different order.
#ifndef TENURE_TESTS_SUPPORT_RANDOM_WORLD_H_
#define TENURE_TESTS_SUPPORT_RANDOM_WORLD_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tenure/scheduler.h"
#include "tenure/sim/random.h"

namespace tenure::test {

inline constexpr Duration kSecond = std::chrono::seconds(1);
inline constexpr Duration kMinute = std::chrono::minutes(1);
inline constexpr Duration kHour = std::chrono::hours(1);

struct WorldSpec {
  struct Domain {
    std::string name;
    int parent = -1;  // -1: the root
  };
  struct NodeSpec {
    std::string name;
    int gpus = 8;
    int type = 0;
    int domain = -1;
  };
  struct Allocation {
    std::string name;
    int parent = -1;
    double weight = 1;
  };
  std::vector<std::string> types;
  std::vector<Domain> domains;
  std::vector<NodeSpec> nodes;
  std::vector<Allocation> allocations;
  SchedulerOptions options;
};

inline double RandomWeight(sim::Rng& rng) {
  constexpr double kWeights[] = {1, 1, 1, 2, 3, 0.35, 35, 0, 1e-6, 1e9, 1.0 / 3};
  return kWeights[rng.Below(std::size(kWeights))];
}

inline WorldSpec::NodeSpec RandomNode(sim::Rng& rng, const WorldSpec& world, int number) {
  constexpr int kSizes[] = {1, 2, 4, 8, 8, 8, 3, 16};
  WorldSpec::NodeSpec node;
  node.name = absl::StrCat("n", rng.Below(1000), ".", number);
  node.gpus = kSizes[rng.Below(std::size(kSizes))];
  node.type = static_cast<int>(rng.Below(static_cast<std::int64_t>(world.types.size())));
  node.domain =
      static_cast<int>(rng.Below(static_cast<std::int64_t>(world.domains.size()) + 1)) - 1;
  return node;
}

// 1-12 nodes of 1-16 GPUs, 1-3 types, 0-3 topology levels, a tree of 1-4 levels. `base` holds the
// options of the policy; some are changed at random.
inline WorldSpec RandomWorld(sim::Rng& rng, const SchedulerOptions& base) {
  WorldSpec world;
  const std::int64_t types = rng.Chance(2, 3) ? 1 : 1 + rng.Below(3);
  for (std::int64_t i = 0; i < types; ++i) world.types.push_back(absl::StrCat("gpu-", 9 - i));
  const std::int64_t depth = rng.Below(4);
  std::vector<int> level = {-1};
  for (std::int64_t d = 0; d < depth; ++d) {
    std::vector<int> next;
    for (int parent : level) {
      for (std::int64_t i = 1 + rng.Below(2); i >= 0 && world.domains.size() < 10; --i) {
        next.push_back(static_cast<int>(world.domains.size()));
        world.domains.push_back(
            {absl::StrCat("d", rng.Below(100), ".", world.domains.size()), parent});
      }
    }
    if (next.empty()) break;
    level = next;
  }
  const bool uniform = rng.Chance(1, 2);
  const std::int64_t nodes = 1 + rng.Below(12);
  for (std::int64_t i = 0; i < nodes; ++i) {
    WorldSpec::NodeSpec node = RandomNode(rng, world, static_cast<int>(i));
    if (uniform) node.gpus = 8;
    // Mostly in deepest domains.
    if (rng.Chance(9, 10))
      node.domain =
          level[static_cast<std::size_t>(rng.Below(static_cast<std::int64_t>(level.size())))];
    world.nodes.push_back(node);
  }
  const std::int64_t allocations = 1 + rng.Below(9);
  const std::int64_t levels = 1 + rng.Below(4);
  std::vector<int> depth_of;
  for (std::int64_t i = 0; i < allocations; ++i) {
    int parent = static_cast<int>(rng.Below(i + 1)) - 1;
    while (parent >= 0 && depth_of[static_cast<std::size_t>(parent)] + 1 >= levels) {
      parent = world.allocations[static_cast<std::size_t>(parent)].parent;
    }
    depth_of.push_back(parent < 0 ? 0 : depth_of[static_cast<std::size_t>(parent)] + 1);
    world.allocations.push_back({absl::StrCat("a", rng.Below(100), ".", i), parent,
                                 rng.Chance(1, 2) ? 1 : RandomWeight(rng)});
  }
  SchedulerOptions& o = world.options;
  o = base;
  if (rng.Chance(1, 2)) o.lookback = kHour * (1 + rng.Below(200));
  o.reservation.gang = GpuCount(rng.Chance(1, 2) ? 0 : 2 + rng.Below(12));
  o.reservation.block = GpuCount(rng.Below(12));
  o.reservation.block_credit = kHour * rng.Below(6);
  o.reservation.first_credit = kMinute * rng.Below(60);
  o.reservation.restart_credit = kHour * rng.Below(4);
  o.grace = kSecond * rng.Below(120);
  o.tick = kSecond * rng.Below(20);
  o.express = rng.Chance(1, 2);
  if (rng.Chance(1, 3)) o.lane_permille = 300;
  if (rng.Chance(1, 4)) o.contract.refuse_livelock = true;
  if (rng.Chance(1, 3)) {
    for (Duration& cap : o.contract.cap) cap = kMinute * rng.Below(300);
  }
  if (rng.Chance(1, 3)) o.idle_after = kMinute * rng.Below(120);
  if (rng.Chance(1, 4)) {
    o.preemption_rate = 1 + rng.Below(4);
    o.preemption_burst = 1 + rng.Below(4);
  }
  if (rng.Chance(1, 4)) o.session_cap = 1 + rng.Below(600);
  return world;
}

struct Event {
  enum class Kind : std::uint8_t {
    kSubmit,
    kCancel,
    kStarted,
    kStartFailed,
    kEnded,
    kStopped,
    kStopFailed,
    kCheckpoint,
    kIdle,
    kSetNode,
    kAddNode,
    kAddAllocation,
    kSetWeight,
    kClose,
    kReconcile,
    kMove,
    kMaintenance,
    kCancelMaintenance,
    kBoost,
    kSetRate,
    kDecide,
  };
  Kind kind = Kind::kDecide;
  TimePoint now{};
  TimePoint at{};     // when it happened, or takes effect
  WorkloadSpec spec;  // kSubmit: its allocation and GPU type are positions in the world
  WorkloadId id;
  RunNumber run;
  int index = 0;           // of a node, an allocation or, in order of announcement, a window
  std::vector<int> nodes;  // of a window, which begins at `at`
  TimePoint until{};       // its end, or that of a boost, which begins at `at`
  std::int32_t rate = kStandardRate;
  NodeHealth health = NodeHealth::kUp;
  double weight = 1;
  bool idle = false;
  std::vector<RunRef> running;
  WorldSpec::NodeSpec node;
  WorldSpec::Allocation allocation;

  std::string ToString() const {
    constexpr const char* kNames[] = {"submit",       "cancel",      "started",
                                      "start-failed", "ended",       "stopped",
                                      "stop-failed",  "checkpoint",  "idle",
                                      "set-node",     "add-node",    "add-allocation",
                                      "set-weight",   "close",       "reconcile",
                                      "move",         "maintenance", "cancel-maintenance",
                                      "boost",        "set-rate",    "decide"};
    const auto us = [](TimePoint t) { return t.time_since_epoch().count(); };
    std::string s = absl::StrCat("@", us(now), " ", kNames[static_cast<std::size_t>(kind)]);
    switch (kind) {
      case Kind::kDecide:
        break;
      case Kind::kSubmit:
        absl::StrAppend(
            &s, " w", spec.id.value(), " a", spec.allocation.value(), " ",
            tenure::ToString(spec.workload_class), " ", spec.nodes, "x", spec.gpus_per_node.value(),
            " min ", spec.minimum.count(), " type ", spec.gpu_type.value(), " prio ", spec.priority,
            spec.topology_rule == TopologyRule::kRequired ? " required " : " preferred ",
            int{spec.topology_level}, spec.resumable ? "" : " not resumable", " ckpt ",
            spec.checkpoint_interval.count(), " restart ", spec.restart_overhead.count());
        break;
      case Kind::kSetNode:
        absl::StrAppend(&s, " node ", index, " ", tenure::ToString(health), " since ", us(at));
        break;
      case Kind::kAddNode:
        absl::StrAppend(&s, " ", node.name, " gpus ", node.gpus, " type ", node.type, " domain ",
                        node.domain);
        break;
      case Kind::kAddAllocation:
        absl::StrAppend(&s, " ", allocation.name, " below ", allocation.parent, " weight ",
                        allocation.weight);
        break;
      case Kind::kSetWeight:
        absl::StrAppend(&s, " a", index, " weight ", weight, " from ", us(at));
        break;
      case Kind::kMove:
        absl::StrAppend(&s, " a", index, " below ", allocation.parent);
        break;
      case Kind::kBoost:
        absl::StrAppend(&s, " a", index, " weight ", weight, " from ", us(at), " until ",
                        us(until));
        break;
      case Kind::kSetRate:
        absl::StrAppend(&s, " type ", index, " ", rate);
        break;
      case Kind::kClose:
        absl::StrAppend(&s, " a", index);
        break;
      case Kind::kMaintenance:
        absl::StrAppend(&s, " of");
        for (int n : nodes) absl::StrAppend(&s, " ", n);
        absl::StrAppend(&s, " from ", us(at), " until ", us(until));
        break;
      case Kind::kCancelMaintenance:
        absl::StrAppend(&s, " ", index);
        break;
      case Kind::kReconcile:
        for (const RunRef& r : running) {
          absl::StrAppend(&s, " w", r.workload.value(), "/", r.run.value());
        }
        break;
      case Kind::kIdle:
        absl::StrAppend(&s, " w", id.value(), idle ? " idle" : " busy");
        break;
      default:
        absl::StrAppend(&s, " w", id.value(), "/", run.value(), " at ", us(at));
    }
    return s;
  }
};

inline std::string ToString(const WorldSpec& w) {
  std::string s = "world:";
  for (const auto& d : w.domains) absl::StrAppend(&s, " domain ", d.name, "<", d.parent, ";");
  for (const auto& n : w.nodes) {
    absl::StrAppend(&s, " node ", n.name, " ", n.gpus, " type ", n.type, " in ", n.domain, ";");
  }
  for (const auto& a : w.allocations) {
    absl::StrAppend(&s, " alloc ", a.name, " weight ", a.weight, " below ", a.parent, ";");
  }
  const SchedulerOptions& o = w.options;
  absl::StrAppend(&s, " lookback ", o.lookback.count(), " grace ", o.grace.count(), " tick ",
                  o.tick.count(), " gang ", o.reservation.gang.value(), " block ",
                  o.reservation.block.value(), " ", o.reservation.block_credit.count(), " credit ",
                  o.reservation.first_credit.count(), " ", o.reservation.restart_credit.count(),
                  " lane ", o.lane_permille, " express ", o.express, " refuse_livelock ",
                  o.contract.refuse_livelock, " idle_after ", o.idle_after.count(), " preemption ",
                  o.preemption_rate, " ", o.preemption_burst, " session_cap ", o.session_cap,
                  " caps");
  for (Duration cap : o.contract.cap) absl::StrAppend(&s, " ", cap.count());
  return s;
}

// What a Scheduler answered, in positions of the world.
struct Response {
  struct Placed {
    WorkloadId workload;
    RunNumber run;  // 0 for a hold
    std::vector<int> nodes;
    std::int64_t gpus_per_node = 0;
    TimePoint expires{};
    friend bool operator==(const Placed&, const Placed&) = default;
  };
  struct Stopped {
    WorkloadId workload;
    RunNumber run;
    StopReason reason{};
    WorkloadId beneficiary;
    Duration grace{};
    GpuTime lost_work;
    friend bool operator==(const Stopped&, const Stopped&) = default;
  };
  absl::StatusCode code = absl::StatusCode::kOk;
  std::vector<Placed> starts, holds, promises;  // `expires` of a promise: the start promised
  std::vector<Stopped> stops;
  TimePoint next_wakeup = kNever;
  LossOutcome outcome{};
  std::vector<std::pair<WorkloadId, RunNumber>> ended, unknown;
  std::vector<LostRun> lost;  // with a node
  friend bool operator==(const Response&, const Response&) = default;

  bool ok() const { return code == absl::StatusCode::kOk; }
  bool quiet() const {
    return starts.empty() && stops.empty() && holds.empty() && promises.empty();
  }
  std::string ToString() const {
    std::string s = absl::StrCat("  -> ", absl::StatusCodeToString(code));
    const auto placed = [&](const char* what, const Placed& p) {
      absl::StrAppend(&s, "; ", what, " w", p.workload.value(), "/", p.run.value(), " on");
      for (int n : p.nodes) absl::StrAppend(&s, " ", n);
    };
    for (const Stopped& x : stops) {
      absl::StrAppend(&s, "; stop w", x.workload.value(), "/", x.run.value(), " reason ",
                      static_cast<int>(x.reason), " for w", x.beneficiary.value());
    }
    for (const Placed& p : holds) placed("hold", p);
    for (const Placed& p : starts) placed("start", p);
    for (const Placed& p : promises) {
      placed("promise", p);
      absl::StrAppend(&s, " by ", p.expires.time_since_epoch().count());
    }
    return s;
  }
};

// A Scheduler of a world and what its ids stand for.
template <class Policy>
class Instance {
 public:
  // `shuffle`: order of insertion; null for the order of the world.
  Instance(const WorldSpec& world, sim::Rng* shuffle)
      : world_options_(world.options), scheduler_(world.options) {
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
    Scheduler<Policy> fresh(world_options_);
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

  SchedulerOptions world_options_;
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
      break;
    }
  }
  return r;
}

}  // namespace tenure::test

#endif  // TENURE_TESTS_SUPPORT_RANDOM_WORLD_H_
