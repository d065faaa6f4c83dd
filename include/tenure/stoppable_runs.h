// SPDX-License-Identifier: Apache-2.0
//
// The runs that the contract lets a policy stop, so that a search for victims touches no others.
//
//   StoppableRuns stoppable;
//   stoppable.Update(table, slot, now);   // after anything about the run has changed
//   stoppable.Advance(table, now);        // time has passed: protections have ended
//   for (std::uint32_t g : stoppable.occupied()) Look(stoppable.group(g).runs);  // slots
//
// One invariant: after Advance(now) a run is in exactly the group of its leaf and kind if it is
// running and unfunded or past its protection, and in none otherwise. Groups are what a policy can
// judge without looking at each run (VictimGroup).
//
// Complexity: Update and Advance O(log R) amortised for R running runs, the rest O(1). The order of
// the groups and of the runs in them carries no meaning. Copyable, thread-compatible.
#ifndef TENURE_STOPPABLE_RUNS_H_
#define TENURE_STOPPABLE_RUNS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tenure/policy.h"
#include "tenure/types.h"
#include "tenure/workload_table.h"

namespace tenure {

class StoppableRuns {
 public:
  struct Group {
    AllocationId leaf;
    bool funded = false;
    bool session = false;
    bool idle = false;
    std::vector<RunSlot> runs;
  };

  // What is in `table` at `now`.
  void Rebuild(const WorkloadTable& table, TimePoint now) {
    *this = StoppableRuns();
    for (RunSlot slot = 0; slot < table.slots(); ++slot) Update(table, slot, now);
  }

  // To be called whenever state, funding, class, idleness or protection of the run has changed.
  void Update(const WorkloadTable& table, RunSlot slot, TimePoint now) {
    const Run& run = table.run(slot);
    Remove(slot);
    if (run.state != WorkloadState::kRunning) return;
    if (run.funded && now < run.protected_until) {
      ends_.push_back({run.protected_until, slot});
      std::push_heap(ends_.begin(), ends_.end());
      return;
    }
    Insert(slot, run);
  }

  // Protections that end by `now` have ended.
  void Advance(const WorkloadTable& table, TimePoint now) {
    while (!ends_.empty() && ends_.front().at <= now) {
      const RunSlot slot = ends_.front().slot;
      std::pop_heap(ends_.begin(), ends_.end());
      ends_.pop_back();
      // The entry may be of an earlier run in this slot; what counts is what the slot holds now.
      const Run& run = table.run(slot);
      if (run.state != WorkloadState::kRunning || Contains(slot)) continue;
      if (!run.funded || run.protected_until <= now) Insert(slot, run);
    }
  }

  // The run is over.
  void Remove(RunSlot slot) {
    if (!Contains(slot)) return;
    const Position p = positions_[slot];
    positions_[slot].group = kNone;
    Slotted& s = groups_[p.group];
    const RunSlot last = s.group.runs.back();
    s.group.runs.pop_back();
    if (last != slot) {
      s.group.runs[p.index] = last;
      positions_[last].index = p.index;
    }
    --size_;
    if (!s.group.runs.empty()) return;
    const std::uint32_t moved = occupied_.back();
    occupied_.pop_back();
    if (moved != p.group) {
      occupied_[s.place] = moved;
      groups_[moved].place = s.place;
    }
  }

  bool Contains(RunSlot slot) const {
    return slot < positions_.size() && positions_[slot].group != kNone;
  }
  std::size_t size() const { return size_; }
  // Of those that have runs: indices into group().
  const std::vector<std::uint32_t>& occupied() const { return occupied_; }
  const Group& group(std::uint32_t i) const { return groups_[i].group; }

 private:
  static constexpr std::uint32_t kNone = 0xffffffffu;
  static constexpr std::size_t kKinds = 4;  // unfunded, funded work, sessions, idle sessions

  struct Slotted {
    Group group;
    std::uint32_t place = 0;  // in occupied_, while it has runs
  };
  struct Position {
    std::uint32_t group = kNone;
    std::uint32_t index = 0;
  };
  struct End {
    TimePoint at;
    RunSlot slot;
    // Heap order: earliest first.
    friend bool operator<(const End& a, const End& b) {
      return a.at != b.at ? a.at > b.at : a.slot > b.slot;
    }
  };

  static std::size_t Kind(const Run& run) {
    if (!run.funded) return 0;
    if (run.workload_class != WorkloadClass::kInteractive) return 1;
    return run.idle ? 3 : 2;
  }

  void Insert(RunSlot slot, const Run& run) {
    const std::size_t key = run.leaf.value() * kKinds + Kind(run);
    if (group_of_.size() <= key) group_of_.resize(key + 1, kNone);
    if (group_of_[key] == kNone) {
      group_of_[key] = static_cast<std::uint32_t>(groups_.size());
      const std::size_t kind = Kind(run);
      groups_.push_back({Group{run.leaf, kind > 0, kind > 1, kind == 3, {}}, 0});
    }
    const std::uint32_t g = group_of_[key];
    Slotted& s = groups_[g];
    if (s.group.runs.empty()) {
      s.place = static_cast<std::uint32_t>(occupied_.size());
      occupied_.push_back(g);
    }
    if (positions_.size() <= slot) positions_.resize(slot + std::size_t{1});
    positions_[slot] = {g, static_cast<std::uint32_t>(s.group.runs.size())};
    s.group.runs.push_back(slot);
    ++size_;
  }

  std::size_t size_ = 0;
  std::vector<Slotted> groups_;          // never removed
  std::vector<std::uint32_t> occupied_;  // groups that have runs
  std::vector<std::uint32_t> group_of_;  // by leaf and kind
  std::vector<Position> positions_;      // by slot
  std::vector<End> ends_;                // heap of protections that still hold; may be stale
};

}  // namespace tenure

#endif  // TENURE_STOPPABLE_RUNS_H_
