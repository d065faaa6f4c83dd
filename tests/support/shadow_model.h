// SPDX-License-Identifier: Apache-2.0
//
// What a Scheduler has to know, kept a second time in the plainest form: lists that are scanned,
// every number recomputed from the history when it is asked for. It sees only the events and the
// answers. Names everything by its position in the WorldSpec.
#ifndef TENURE_TESTS_SUPPORT_SHADOW_MODEL_H_
#define TENURE_TESTS_SUPPORT_SHADOW_MODEL_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "story.h"

namespace tenure::test {

// GPUs occupied in [begin, end) by a run; open: end == kNever.
struct Occupation {
  WorkloadId workload;
  RunNumber run;
  int leaf = 0;
  std::int64_t gpus = 0;
  int type = 0;
  bool funded = false;
  TimePoint begin{}, end = kNever;
  bool inferred = false;  // closed without an end record, which may still come
};

struct ShadowWorkload {
  WorkloadSpec spec;
  int leaf = 0;
  WorkloadState state = WorkloadState::kPending;
  RunNumber run;
  bool funded = false;
  bool cancel = false;
  bool idle = false;
  bool committed = false;  // its protection counts ahead
  TimePoint submitted{}, start{}, last_seen{};
  TimePoint protected_until{};
  Duration ideal{0};                  // protection by the contract: min(minimum, cap)
  std::optional<Duration> granted{};  // what the pass granted, which may be less
  std::uint32_t stops = 0;
  StopReason stop_reason{};
  std::vector<int> nodes;  // of the run or hold
  TimePoint expires{};     // of a hold
  TimePoint promised{};    // start promised by a reservation
  bool renewing = false;   // its promise lost a node
  bool due = false;        // its promise is kept in this pass
  TimePoint decided{};     // of the start of the run
  std::int64_t hold_number = 0;
  TimePoint victims_until{-kTimeLimit};  // end of the grace of the victims stopped for it
  int avoid = -1;
  TimePoint avoid_until{-kTimeLimit};

  std::int64_t gpus() const { return spec.gpus_per_node.value() * spec.nodes; }
  bool Occupies() const {
    return state == WorkloadState::kStarting || state == WorkloadState::kRunning ||
           state == WorkloadState::kStopping;
  }
  bool Placed() const {
    return state == WorkloadState::kStarting || state == WorkloadState::kRunning ||
           state == WorkloadState::kHeld;
  }
  // Whether a stop that is under way suspends it.
  bool Suspends() const {
    return idle && spec.workload_class == WorkloadClass::kInteractive &&
           (IsPreemption(stop_reason) || stop_reason == StopReason::kIdle);
  }
};

class ShadowModel {
 public:
  struct Node {
    WorldSpec::NodeSpec spec;
    NodeHealth health = NodeHealth::kUp;
    TimePoint closes = kNever;  // for maintenance, as of the last pass
    bool closed = false;
    bool Up() const { return health == NodeHealth::kUp && !closed; }
    bool Leaving() const {
      return health == NodeHealth::kDraining || (closed && health == NodeHealth::kUp);
    }
  };
  struct Window {
    std::vector<int> nodes;
    TimePoint from{}, until{};
    bool over = false;  // or called off
  };
  struct Allocation {
    WorldSpec::Allocation spec;
    bool closed = false, charged = false;
    double base = spec.weight;                     // without boosts
    std::vector<std::pair<int, double>> boosts{};  // in force: number and weight
  };
  struct Edit {
    int allocation = 0;
    double weight = 0;
    TimePoint effective{};
    int boost = 0;  // its number; 0: a change for good
    bool ends = false;
  };
  struct Rate {
    int type = 0;
    TimePoint at{};  // from then on
    std::int64_t permille = kStandardRate;
  };

  explicit ShadowModel(const WorldSpec& world) : options(world.options), domains(world.domains) {
    types = static_cast<int>(world.types.size());
    for (const auto& n : world.nodes) nodes.push_back({n});
    for (const auto& a : world.allocations) allocations.push_back({a});
  }

  SchedulerOptions options;
  std::vector<WorldSpec::Domain> domains;
  int types = 0;
  std::vector<Node> nodes;
  std::vector<Allocation> allocations;
  std::vector<Edit> edits;  // planned
  std::vector<Rate> rates;  // as they were set
  int boosts = 0;
  std::vector<Window> windows;  // of maintenance, as they were announced
  std::map<WorkloadId, ShadowWorkload> workloads;
  std::vector<Occupation> history;
  TimePoint now{};
  std::int64_t holds_made = 0;

  // --- Questions -------------------------------------------------------------------------------
  ShadowWorkload* Find(WorkloadId id) {
    const auto it = workloads.find(id);
    return it == workloads.end() ? nullptr : &it->second;
  }
  bool HasAllocation(int i) const {
    return i >= 0 && static_cast<std::size_t>(i) < allocations.size();
  }
  const Allocation& At(int i) const { return allocations[static_cast<std::size_t>(i)]; }
  bool IsLeaf(int i) const {
    return std::none_of(allocations.begin(), allocations.end(),
                        [&](const Allocation& a) { return a.spec.parent == i; });
  }
  bool Inside(int leaf, int ancestor) const {
    for (int a = leaf; a >= 0; a = At(a).spec.parent) {
      if (a == ancestor) return true;
    }
    return ancestor == -1;
  }
  Duration Protection(const WorkloadSpec& s) const {
    return std::min(s.minimum, options.contract.cap[static_cast<std::size_t>(s.workload_class)]);
  }
  bool Funded(const WorkloadSpec& s, int leaf) const {
    if (Protection(s) <= Duration(0)) return false;
    for (int a = leaf; a >= 0; a = At(a).spec.parent) {
      if (At(a).closed || At(a).spec.weight <= 0) return false;
    }
    return true;
  }
  // Charge of a GPU of `type` at `at`, thousandths.
  std::int64_t RateAt(int type, TimePoint at) const {
    std::int64_t rate = kStandardRate;
    for (const Rate& r : rates) {
      if (r.type == type && r.at <= at) rate = r.permille;
    }
    return rate;
  }
  // What a workload takes of a share: by its nodes, or by its request, for any type the dearest.
  std::int64_t Charge(const ShadowWorkload& w) const {
    if (!w.nodes.empty() && w.state != WorkloadState::kReserved) {
      return w.gpus() * RateAt(nodes[static_cast<std::size_t>(w.nodes[0])].spec.type, now);
    }
    return RequestCharge(w);
  }
  std::int64_t RequestCharge(const ShadowWorkload& w) const {
    if (w.spec.gpu_type != kAnyGpuType) return w.gpus() * RateAt(w.spec.gpu_type.value(), now);
    std::int64_t dearest = 0;
    for (int type = 0; type < types; ++type) dearest = std::max(dearest, RateAt(type, now));
    return w.gpus() * dearest;
  }
  // Charged GPU-time of `allocation` and all below in [to - lookback, to), in thousandths; unfunded
  // occupancy at the standard rate.
  std::int64_t Use(int allocation, TimePoint to, bool funded) const {
    const TimePoint from = to - options.lookback;
    std::int64_t sum = 0;
    for (const Occupation& o : history) {
      if (o.funded != funded || !Inside(o.leaf, allocation)) continue;
      TimePoint begin = std::max(o.begin, from);
      const TimePoint end = std::min(o.end, to);
      while (begin < end) {
        TimePoint next = end;  // until the rate changes
        for (const Rate& r : rates) {
          if (funded && r.type == o.type && r.at > begin) next = std::min(next, r.at);
        }
        sum += o.gpus * (next - begin).count() * (funded ? RateAt(o.type, begin) : kStandardRate);
        begin = next;
      }
    }
    return sum;
  }
  std::int64_t Ahead(int allocation, TimePoint at) const {
    std::int64_t sum = 0;
    for (const auto& [id, w] : workloads) {
      if (w.committed && w.protected_until > at && Inside(w.leaf, allocation)) {
        sum += Charge(w) * (w.protected_until - at).count();
      }
    }
    return sum / 1000;
  }
  // A funded service has no end: promised nodes and the lane do not take it.
  static bool Stays(const ShadowWorkload& w) {
    return w.funded && w.spec.workload_class == WorkloadClass::kServing;
  }
  // The cap on the class of `w` in its leaf, thousandths; 0: none.
  std::int64_t ClassCap(const ShadowWorkload& w) const {
    if (!w.funded) return 0;
    if (w.spec.workload_class == WorkloadClass::kInteractive) return options.session_cap;
    if (Stays(w)) return options.serving_cap;
    return w.spec.workload_class == WorkloadClass::kDebug ? options.debug_cap : 0;
  }
  // Charge of what is placed, funded, in the leaf and of the class of `w`; with `stopping` also of
  // what is being stopped.
  std::int64_t PlacedOfClass(const ShadowWorkload& w, bool stopping) const {
    return Charges(w.leaf, [&](const ShadowWorkload& x) {
      return x.funded && (x.Placed() || (stopping && x.state == WorkloadState::kStopping)) &&
             x.spec.workload_class == w.spec.workload_class;
    });
  }
  // Whether it would exceed the cap on its class in a leaf that is entitled to `entitlement`.
  bool OverClassCap(const ShadowWorkload& w, MilliGpu entitlement, bool stopping = false) const {
    const std::int64_t placed = ClassCap(w) == 0 ? 0 : PlacedOfClass(w, stopping);
    return placed > 0 && (placed + RequestCharge(w)) * 1000 > entitlement.value() * ClassCap(w);
  }
  // GPUs that a user may have of the class of `w`; 0: no cap.
  std::int64_t UserCap(const ShadowWorkload& w) const {
    return w.funded && w.spec.user != kNoUser
               ? options.contract.UserGpus(w.spec.workload_class).value()
               : 0;
  }
  // GPUs of its class that its user has placed or promised, funded, beside `w`; with `stopping`
  // also of what is being stopped.
  std::int64_t OthersOfUser(const ShadowWorkload& w, bool stopping) const {
    std::int64_t sum = 0;
    for (const auto& [id, x] : workloads) {
      const bool counts = x.Placed() || x.state == WorkloadState::kReserved ||
                          (stopping && x.state == WorkloadState::kStopping);
      if (counts && x.funded && id != w.spec.id && x.spec.user == w.spec.user &&
          x.spec.workload_class == w.spec.workload_class) {
        sum += x.gpus();
      }
    }
    return sum;
  }
  bool OverUserCap(const ShadowWorkload& w, bool stopping = false) const {
    return UserCap(w) > 0 && OthersOfUser(w, stopping) + w.gpus() > UserCap(w);
  }
  template <class Which>
  std::int64_t Charges(int allocation, Which which) const {
    std::int64_t sum = 0;
    for (const auto& [id, w] : workloads) {
      if (Inside(w.leaf, allocation) && which(w)) sum += Charge(w);
    }
    return sum;
  }
  template <class Which>
  std::int64_t Gpus(int allocation, Which which) const {
    std::int64_t sum = 0;
    for (const auto& [id, w] : workloads) {
      if (Inside(w.leaf, allocation) && which(w)) sum += w.gpus();
    }
    return sum;
  }
  // GPUs on a node of workloads that satisfy `which`.
  template <class Which>
  std::int64_t OnNode(int node, Which which) const {
    std::int64_t sum = 0;
    for (const auto& [id, w] : workloads) {
      if (!which(w)) continue;
      for (int n : w.nodes) sum += n == node ? w.spec.gpus_per_node.value() : 0;
    }
    return sum;
  }
  std::int64_t Occupied(int node) const {
    return OnNode(node, [](const ShadowWorkload& w) { return w.Occupies(); });
  }
  std::int64_t Stopping(int node) const {
    return OnNode(node,
                  [](const ShadowWorkload& w) { return w.state == WorkloadState::kStopping; });
  }
  std::int64_t Claimed(int node) const {
    return OnNode(node, [](const ShadowWorkload& w) { return w.state == WorkloadState::kHeld; });
  }
  std::int64_t Free(int node) const {
    return nodes[static_cast<std::size_t>(node)].spec.gpus - Occupied(node) -
           std::max<std::int64_t>(0, Claimed(node) - Stopping(node));
  }
  // GPUs that are neither taken nor promised to a hold once all stops are confirmed.
  std::int64_t Soon(int node) const {
    return nodes[static_cast<std::size_t>(node)].spec.gpus - Occupied(node) + Stopping(node) -
           Claimed(node);
  }
  // When a node is to be taken by a gang that was promised it; kNever if by none.
  TimePoint ReservedAt(int node) const {
    for (const auto& [id, w] : workloads) {
      if (w.state == WorkloadState::kReserved &&
          std::count(w.nodes.begin(), w.nodes.end(), node) > 0) {
        return w.promised - options.grace;
      }
    }
    return kNever;
  }
  // Whether a reserved node takes work of `w` now: its protection must be over in time.
  bool Admits(int node, const ShadowWorkload& w) const {
    const TimePoint reserved = ReservedAt(node);
    return (reserved == kNever || (!Stays(w) && Ends(w, now) <= reserved)) &&
           AdmitsBeforeClosing(node, w, now);
  }
  // The end of its protection after a start at `start`, rounded up as shapes are.
  TimePoint Ends(const ShadowWorkload& w, TimePoint start) const {
    return w.funded ? start + BandLimit(BandOf(Protection(w.spec))) : start;
  }
  bool AdmitsBeforeClosing(int node, const ShadowWorkload& w, TimePoint start) const {
    return Ends(w, start) <= nodes[static_cast<std::size_t>(node)].closes;
  }
  // Whether a reserved gang whose nodes are taken from `start` on is done when they close.
  bool KeepsPromise(const ShadowWorkload& w, TimePoint start) const {
    return std::all_of(w.nodes.begin(), w.nodes.end(), [&](int n) {
      return AdmitsBeforeClosing(n, w, start + options.grace + options.tick);
    });
  }
  int Depth() const {
    int depth = 0;
    for (std::size_t d = 0; d < domains.size(); ++d) {
      depth = std::max(depth, Level(static_cast<int>(d)));
    }
    return depth;
  }
  int Level(int domain) const {
    int level = 0;
    for (int d = domain; d >= 0; d = domains[static_cast<std::size_t>(d)].parent) ++level;
    return level;
  }
  // The domain of `level` that holds the node, or -2.
  int DomainOf(int node, int level) const {
    int d = nodes[static_cast<std::size_t>(node)].spec.domain;
    while (Level(d) > level) d = domains[static_cast<std::size_t>(d)].parent;
    return Level(d) == level ? d : -2;
  }
  bool Required(const WorkloadSpec& s) const {
    return s.nodes > 1 && s.topology_rule == TopologyRule::kRequired;
  }
  int RequiredLevel(const WorkloadSpec& s) const {
    return std::min<int>(s.topology_level, Depth());
  }
  // Whether nodes that satisfy `usable` hold the request, by trying every type and domain.
  template <class Usable>
  bool Fits(const WorkloadSpec& s, Usable usable) const {
    for (int type = 0; type < types; ++type) {
      if (s.gpu_type != kAnyGpuType && s.gpu_type.value() != type) continue;
      const int level = Required(s) ? RequiredLevel(s) : 0;
      for (int d = -1; d < static_cast<int>(domains.size()); ++d) {
        if (Level(d) != level) continue;
        std::uint32_t count = 0;
        for (int n = 0; n < static_cast<int>(nodes.size()); ++n) {
          const Node& node = nodes[static_cast<std::size_t>(n)];
          count += node.spec.type == type && DomainOf(n, level) == d && usable(n);
        }
        if (count >= s.nodes) return true;
      }
    }
    return false;
  }
  // Whether a request may use lane nodes.
  bool MayUseLane(const ShadowWorkload& w) const {
    return w.spec.nodes == 1 && (!w.funded || (w.gpus() <= options.lane_gpus.value() && !Stays(w) &&
                                               Protection(w.spec) <= options.lane_minimum));
  }
  bool HasLivelock(const WorkloadSpec& s) const {
    return s.minimum > Duration(0) && s.resumable && !s.restorable &&
           s.checkpoint_interval > Duration(0) &&
           Protection(s) < s.checkpoint_interval + s.restart_overhead;
  }

  // --- Events ----------------------------------------------------------------------------------

  // Whether the Scheduler has to accept the event.
  bool Legal(const Event& e);
  // Takes an accepted event (all but Decide) into the books.
  void Apply(const Event& e);

  // Windows begin and end.
  void ApplyMaintenance() {
    for (Window& w : windows) w.over = w.over || w.until <= now;
    for (int n = 0; n < static_cast<int>(nodes.size()); ++n) {
      Node& node = nodes[static_cast<std::size_t>(n)];
      node.closes = kNever;
      for (const Window& w : windows) {
        if (w.over || std::count(w.nodes.begin(), w.nodes.end(), n) == 0) continue;
        node.closes = std::min(node.closes, w.from - options.grace - options.tick);
      }
      node.closed = node.closes <= now;
      if (node.closed) LeaveService(n);
    }
    for (auto& [id, w] : workloads) {
      if (w.state != WorkloadState::kReserved || KeepsPromise(w, w.promised - options.grace)) {
        continue;
      }
      ReleaseHold(w);
      w.renewing = true;
    }
  }
  // Nobody waits for the node any more.
  void LeaveService(int node) {
    for (auto& [id, x] : workloads) {
      if ((x.state != WorkloadState::kHeld && x.state != WorkloadState::kReserved) ||
          std::count(x.nodes.begin(), x.nodes.end(), node) == 0) {
        continue;
      }
      x.renewing = x.state == WorkloadState::kReserved;
      ReleaseHold(x);
      x.victims_until = TimePoint(-kTimeLimit);  // what it waited for is gone
    }
  }

  // Planned edits take effect. True if there was one.
  bool ApplyEdits(TimePoint at) {
    bool any = false;
    std::stable_sort(edits.begin(), edits.end(),
                     [](const Edit& a, const Edit& b) { return a.effective < b.effective; });
    while (!edits.empty() && edits.front().effective <= at) {
      const Edit edit = edits.front();
      edits.erase(edits.begin());
      Allocation& a = allocations[static_cast<std::size_t>(edit.allocation)];
      if (edit.boost == 0) {
        a.base = edit.weight;
        a.boosts.clear();
      } else if (edit.ends) {
        std::erase_if(a.boosts, [&](const auto& b) { return b.first == edit.boost; });
      } else {
        a.boosts.emplace_back(edit.boost, edit.weight);
      }
      const double weight = a.boosts.empty() ? a.base : a.boosts.back().second;
      any = any || a.spec.weight != weight;
      a.spec.weight = weight;
    }
    if (any) Reclassify();
    return any;
  }
  // The tree changed: what waits is funded or not by the tree as it is; a hold that lost its ground
  // is given up.
  void Reclassify() {
    for (auto& [id, w] : workloads) {
      if (w.state != WorkloadState::kPending && w.state != WorkloadState::kHeld &&
          w.state != WorkloadState::kReserved) {
        continue;
      }
      const bool funded = Funded(w.spec, w.leaf);
      if (w.state != WorkloadState::kPending && (At(w.leaf).closed || funded != w.funded)) {
        ReleaseHold(w);
      }
      w.funded = funded;
    }
  }
  void ReleaseHold(ShadowWorkload& w) {
    w.state = WorkloadState::kPending;
    w.nodes.clear();
    w.committed = false;
  }
  void Hold(ShadowWorkload& w, const std::vector<int>& on, TimePoint expires) {
    w.state = WorkloadState::kHeld;
    w.nodes = on;
    w.expires = expires;
    w.hold_number = ++holds_made;
    w.committed = true;
    w.protected_until = now + TakeGranted(w);
  }
  void Start(ShadowWorkload& w, const std::vector<int>& on, RunNumber run) {
    w.state = WorkloadState::kStarting;
    w.nodes = on;
    w.run = run;
    w.start = now;
    w.decided = now;
    w.victims_until = TimePoint(-kTimeLimit);
    w.committed = w.funded;
    w.ideal = w.funded ? TakeGranted(w) : Duration(0);
    w.protected_until = now + w.ideal;
  }
  void Stop(ShadowWorkload& w, StopReason reason) {
    w.state = WorkloadState::kStopping;
    w.stop_reason = reason;
    w.committed = false;
  }

 private:
  Duration TakeGranted(ShadowWorkload& w) const {
    const Duration granted = w.granted.value_or(Protection(w.spec));
    w.granted.reset();
    return granted;
  }
  bool LegalSubmit(const WorkloadSpec& s) const;
  // The run is over, stopped as decided or lost otherwise. True if the workload is over, too.
  bool Lose(ShadowWorkload& w, TimePoint at, bool stopped) {
    EndOccupation(w, at);
    w.committed = false;
    w.nodes.clear();
    if (w.cancel || !w.spec.resumable) return true;
    w.stops += stopped && (IsPreemption(w.stop_reason) || w.stop_reason == StopReason::kIdle);
    if (stopped && w.Suspends()) {
      w.state = WorkloadState::kSuspended;
      return false;
    }
    w.idle = false;
    w.state = WorkloadState::kPending;
    w.funded = Funded(w.spec, w.leaf);
    return false;
  }
  void EndOccupation(const ShadowWorkload& w, TimePoint at) {
    for (Occupation& o : history) {
      if (o.workload == w.spec.id && o.run == w.run && o.end == kNever) {
        o.end = std::max(o.begin, at);
      }
    }
  }
  Occupation* Inferred(WorkloadId id, RunNumber run) {
    for (Occupation& o : history) {
      if (o.inferred && o.workload == id && o.run == run) return &o;
    }
    return nullptr;
  }
};

}  // namespace tenure::test

#include "shadow_events.h"  // IWYU pragma: export

#endif  // TENURE_TESTS_SUPPORT_SHADOW_MODEL_H_
