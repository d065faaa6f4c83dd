// SPDX-License-Identifier: Apache-2.0
//
// The runs that the contract lets a policy stop, so that a search for victims touches no others.
//
//   StoppableRuns stoppable;
//   stoppable.Update(policy, cluster, table, slot, now);  // anything about the run has changed
//   stoppable.Advance(policy, cluster, table, now);       // time has passed
//   for (std::uint32_t g : stoppable.occupied()) Look(stoppable.group(g));
//
// One invariant: after Advance(now) a run is in exactly the group that describes it if it is
// running and unfunded or past its protection, and in none otherwise. A group is what a policy can
// judge without looking at each run (PolicyDefaults::JudgeGroup).
//
// Complexity: Update and Advance O(log R) amortised for R running runs, the rest O(1). The order of
// the groups and of the runs in them carries no meaning. Copyable, thread-compatible.
#ifndef TENURE_STOPPABLE_RUNS_H_
#define TENURE_STOPPABLE_RUNS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tenure/cluster.h"
#include "tenure/index_map.h"
#include "tenure/placement.h"
#include "tenure/policy.h"
#include "tenure/types.h"
#include "tenure/workload_table.h"

namespace tenure {

class StoppableRuns {
 public:
  struct Member {
    RunSlot slot = kNoSlot;
    NodeId node = kNoNode;  // kNoNode: it has several
    std::int32_t gpus = 0;  // on each of them
  };
  struct Group {
    AllocationId leaf;
    bool funded = false;
    bool session = false;   // interactive, funded
    bool idle = false;      // sessions reported so
    bool lane = false;      // on a lane node
    bool quiet = false;     // funded, before PolicyDefaults::QuietUntil
    MilliGpu least_charge;  // of a run in it, or less
    std::vector<Member> members;
  };

  // What is in `table` at `now`. Also to be called when the lane has moved.
  template <class Policy>
  void Rebuild(const Policy& policy, const Cluster& cluster, const WorkloadTable& table,
               TimePoint now) {
    *this = StoppableRuns();
    for (RunSlot slot = 0; slot < table.slots(); ++slot) Update(policy, cluster, table, slot, now);
  }

  // To be called whenever state, funding, class, charge, idleness or protection of the run has
  // changed.
  template <class Policy>
  void Update(const Policy& policy, const Cluster& cluster, const WorkloadTable& table,
              RunSlot slot, TimePoint now) {
    const Run& run = table.run(slot);
    Remove(slot);
    if (run.state != WorkloadState::kRunning) return;
    if (positions_.size() <= slot) positions_.resize(slot + std::size_t{1});
    if (run.funded && now < run.protected_until) {
      LookAgain(slot, run.protected_until);
      return;
    }
    const bool quiet = run.funded && now < policy.QuietUntil(run);
    if (quiet) LookAgain(slot, policy.QuietUntil(run));
    Insert(cluster, run, table.workload(slot), slot, quiet);
  }

  // Protections and quiet times that end by `now` have ended.
  template <class Policy>
  void Advance(const Policy& policy, const Cluster& cluster, const WorkloadTable& table,
               TimePoint now) {
    while (!ends_.empty() && ends_.front().at <= now) {
      const End end = ends_.front();
      std::pop_heap(ends_.begin(), ends_.end());
      ends_.pop_back();
      if (positions_[end.slot].next == end.at) Update(policy, cluster, table, end.slot, now);
    }
  }

  // The run is over.
  void Remove(RunSlot slot) {
    if (slot >= positions_.size()) return;
    const Position p = positions_[slot];
    positions_[slot] = Position();
    if (p.group == kNoGroup) return;
    Slotted& s = groups_[p.group];
    idle_ -= s.group.idle;
    const Member last = s.group.members.back();
    s.group.members.pop_back();
    if (last.slot != slot) {
      s.group.members[p.index] = last;
      positions_[last.slot].index = p.index;
    }
    if (!s.group.members.empty()) return;
    std::uint32_t gap = s.place;
    if (gap < stirred_) {
      PutAt(gap, occupied_[--stirred_]);
      gap = stirred_;
    }
    if (gap + std::size_t{1} < occupied_.size()) PutAt(gap, occupied_.back());
    occupied_.pop_back();
  }

  static constexpr std::uint32_t kNoGroup = 0xffffffffu;

  // The groups that have runs, as arguments of group().
  std::span<const std::uint32_t> occupied() const { return occupied_; }
  // The same without those that are quiet and not idle (PolicyDefaults::StopsQuiet).
  std::span<const std::uint32_t> stirred() const { return occupied().first(stirred_); }
  std::size_t groups() const { return groups_.size(); }  // with and without runs
  // That of a run; kNoGroup: it may not be stopped.
  std::uint32_t GroupOf(RunSlot slot) const {
    return slot < positions_.size() ? positions_[slot].group : kNoGroup;
  }
  const Group& group(std::uint32_t i) const { return groups_[i].group; }
  std::size_t idle() const { return idle_; }  // runs in groups of idle sessions

 private:
  struct Slotted {
    Group group;
    std::uint32_t place = 0;  // in occupied_, while it has runs
  };
  struct Position {
    std::uint32_t group = kNoGroup;
    std::uint32_t index = 0;
    TimePoint next = kNever;  // time alone changes its group then
  };
  struct End {
    TimePoint at;
    RunSlot slot;
    // Heap order: earliest first.
    friend bool operator<(const End& a, const End& b) {
      return a.at != b.at ? a.at > b.at : a.slot > b.slot;
    }
  };

  void LookAgain(RunSlot slot, TimePoint at) {
    positions_[slot].next = at;
    ends_.push_back({at, slot});
    std::push_heap(ends_.begin(), ends_.end());
  }

  void Insert(const Cluster& cluster, const Run& run, const Workload& workload, RunSlot slot,
              bool quiet) {
    Group group;
    group.leaf = run.leaf;
    group.funded = run.funded;
    group.session = run.funded && run.workload_class == WorkloadClass::kInteractive;
    group.idle = group.session && run.idle;
    group.lane = std::any_of(workload.nodes.begin(), workload.nodes.end(),
                             [&](NodeId n) { return cluster.node(n).lane; });
    group.quiet = quiet;
    const std::uint32_t g = Intern(group);
    Slotted& s = groups_[g];
    if (s.group.members.empty()) {
      s.place = static_cast<std::uint32_t>(occupied_.size());
      occupied_.push_back(g);
      if (!group.quiet || group.idle) {
        const std::uint32_t other = occupied_[stirred_];
        PutAt(s.place, other);
        PutAt(stirred_++, g);
      }
      s.group.least_charge = run.charge();
    }
    s.group.least_charge = std::min(s.group.least_charge, run.charge());
    idle_ += group.idle;
    positions_[slot].group = g;
    positions_[slot].index = static_cast<std::uint32_t>(s.group.members.size());
    s.group.members.push_back(
        {slot, workload.nodes.size() == 1 ? workload.nodes[0] : kNoNode, run.gpus_per_node});
  }

  void PutAt(std::uint32_t place, std::uint32_t group) {
    occupied_[place] = group;
    groups_[group].place = place;
  }

  // The number of the group with these attributes.
  std::uint32_t Intern(const Group& group) {
    const std::size_t flags = std::size_t{group.funded} | std::size_t{group.session} << 1 |
                              std::size_t{group.idle} << 2 | std::size_t{group.lane} << 3 |
                              std::size_t{group.quiet} << 4;
    const std::size_t key = std::size_t{group.leaf.value()} << 5 | flags;
    const auto [it, added] = group_of_.emplace(key, static_cast<std::uint32_t>(groups_.size()));
    if (added) groups_.push_back({group, 0});
    return it->second;
  }

  std::vector<Slotted> groups_;          // never removed
  std::vector<std::uint32_t> occupied_;  // groups that have runs, the stirred ones in front
  std::uint32_t stirred_ = 0;
  internal::IndexMap<std::size_t, std::uint32_t> group_of_;
  std::vector<Position> positions_;  // by slot
  std::size_t idle_ = 0;
  std::vector<End> ends_;  // heap; may be stale
};

}  // namespace tenure

#endif  // TENURE_STOPPABLE_RUNS_H_
