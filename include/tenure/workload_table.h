// SPDX-License-Identifier: Apache-2.0
//
// Every workload the scheduler knows, in dense slots: `Run` is what the search for victims touches,
// `Workload` the rest. A slot is reused after its workload ended.
//
// One run at a time: the fields of `Run` speak of the current or planned placement.
#ifndef TENURE_WORKLOAD_TABLE_H_
#define TENURE_WORKLOAD_TABLE_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/inlined_vector.h"
#include "tenure/charge_rates.h"
#include "tenure/cluster.h"
#include "tenure/contract.h"
#include "tenure/decisions.h"
#include "tenure/index_map.h"
#include "tenure/stable_list.h"
#include "tenure/types.h"

namespace tenure {

enum class WorkloadState : std::uint8_t {
  kFree = 0,         // the slot is unused
  kPending = 1,      // in a queue
  kUnplaceable = 2,  // larger than the declared cluster: in no queue until nodes are added
  kHeld = 3,         // GPUs are claimed; victims are being stopped
  kStarting = 4,     // start decided, not confirmed
  kRunning = 5,
  kStopping = 6,   // stop decided, not confirmed
  kReserved = 7,   // waits for a promised start
  kSuspended = 8,  // an idle session that was stopped: waits for its owner, not for GPUs
};

constexpr const char* ToString(WorkloadState s) {
  constexpr const char* kNames[] = {"free",    "pending",  "unplaceable", "held",     "starting",
                                    "running", "stopping", "reserved",    "suspended"};
  return kNames[static_cast<std::size_t>(s)];
}

// What a policy and the victim search see of a run. Times as decided or, once confirmed, as
// reported.
struct Run {
  WorkloadId id;
  AllocationId leaf;
  WorkloadState state = WorkloadState::kFree;
  WorkloadClass workload_class = WorkloadClass::kTraining;
  bool funded = false;
  bool resumable = true;
  bool restorable = false;  // a stop costs the restart only
  bool idle = false;        // reported utilisation under the threshold
  std::int32_t gpus_per_node = 0;
  std::int32_t node_count = 0;
  std::int32_t rate = kStandardRate;  // charge rate: of its nodes, or while it waits of its request
  std::uint32_t stops = 0;            // runs of this workload that were preempted
  TimePoint start{};                  // of this run
  TimePoint protected_until{};
  TimePoint progress_since{};       // work done before this instant is saved or was overhead
  Duration checkpoint_interval{0};  // 0: unknown, nothing is saved
  Duration restart_overhead{0};

  GpuCount gpus() const { return GpuCount(std::int64_t{gpus_per_node} * node_count); }

  // What it takes of a share.
  MilliGpu charge() const { return MilliGpu(gpus().value() * rate); }

  // Wall time of work that a stop at `now` destroys, with the overhead of the next restart. Unless
  // it is restorable, a session's whole life is volatile. At most kMostLost.
  Duration LostIfStopped(TimePoint now) const {
    const Duration run = std::max(Duration(0), now - start);
    if (!resumable || (workload_class == WorkloadClass::kInteractive && !restorable)) {
      return std::min(kMostLost, run + restart_overhead);
    }
    const Duration progress = std::max(Duration(0), now - progress_since);
    const Duration overhead = std::min(run, std::max(Duration(0), progress_since - start));
    const Duration unsaved = restorable ? Duration(0)
                             : checkpoint_interval > Duration(0)
                                 ? Duration(progress.count() % checkpoint_interval.count())
                                 : progress;
    return std::min(kMostLost, unsaved + overhead + restart_overhead);
  }
  // 50 days: the product with any number of GPUs fits 63 bits.
  static constexpr Duration kMostLost =
      Duration(std::numeric_limits<std::int64_t>::max() / kMaxClusterGpus);

  template <class Archive>
  void Serialize(Archive& ar) {
    ar(id, leaf, state, workload_class, funded, resumable, restorable, idle, gpus_per_node,
       node_count, rate, stops, start, protected_until, progress_since, checkpoint_interval,
       restart_overhead);
  }
};

struct Workload {
  WorkloadSpec spec;
  RunNumber run;            // of the current or last run; 0 before the first
  TimePoint queued_since;   // of the first submission, kept over requeues
  std::uint32_t shape = 0;  // derived: interned by the scheduler
  bool ahead = false;       // its protection is in the ledger's committed sums
  bool charged = false;     // its occupancy is charged to the ledger
  bool cancel_requested = false;
  StopReason stop_reason = StopReason::kPreempted;
  TimePoint last_seen{};      // last time a report said that it runs
  TimePoint deadline{};       // of a hold; of a reservation the time at which it is due
  TimePoint promised{};       // latest start promised by the current reservation
  NodeId avoid{0xffffffffu};  // refused the launch: not used before `avoid_until`
  TimePoint avoid_until{};
  absl::InlinedVector<NodeId, 1> nodes;  // of the current run or hold

  template <class Archive>
  void Serialize(Archive& ar) {
    ar(spec.id, spec.allocation, spec.user, spec.name, spec.workload_class, spec.priority,
       spec.nodes, spec.gpus_per_node, spec.gpu_type, spec.topology_rule, spec.topology_level,
       spec.minimum, spec.resumable, spec.restorable, spec.checkpoint_interval,
       spec.restart_overhead, run, queued_since, ahead, charged, cancel_requested, stop_reason,
       last_seen, deadline, promised, avoid, avoid_until, nodes);
  }
};

// Thread-compatible value type. O(1) look-up; memory O(live workloads).
class WorkloadTable {
 public:
  RunSlot Find(WorkloadId id) const {
    const auto it = slots_.find(id);
    return it == slots_.end() ? kNoSlot : it->second;
  }
  RunSlot Add(const WorkloadSpec& spec, TimePoint now) {
    RunSlot slot;
    if (free_.empty()) {
      slot = static_cast<RunSlot>(runs_.size());
      runs_.emplace_back();
      workloads_.emplace_back();
    } else {
      slot = free_.back();
      free_.pop_back();
    }
    slots_.emplace(spec.id, slot);
    Workload& w = workloads_[slot];
    w = Workload{};
    w.spec = spec;
    w.queued_since = now;
    Run& r = runs_[slot];
    r = Run{};
    r.id = spec.id;
    r.leaf = spec.allocation;
    r.state = WorkloadState::kPending;
    r.workload_class = spec.workload_class;
    r.funded = spec.funded();
    r.resumable = spec.resumable;
    r.restorable = spec.restorable;
    r.gpus_per_node = static_cast<std::int32_t>(spec.gpus_per_node.value());
    r.node_count = static_cast<std::int32_t>(spec.nodes);
    r.checkpoint_interval = spec.checkpoint_interval;
    r.restart_overhead = spec.restart_overhead;
    return slot;
  }
  void Remove(RunSlot slot) {
    slots_.erase(runs_[slot].id);
    hints_.erase(runs_[slot].id);
    runs_[slot].state = WorkloadState::kFree;
    workloads_[slot] = Workload{};
    free_.push_back(slot);
  }

  // What a resource manager wants to be told at the next start of `id`, which must be known; ""
  // forgets it. Kept until the workload is over.
  void SetHint(WorkloadId id, std::string hint) {
    if (hint.empty()) {
      hints_.erase(id);
    } else {
      hints_[id] = std::move(hint);
    }
  }
  std::string_view Hint(WorkloadId id) const {
    const auto it = hints_.find(id);
    return it == hints_.end() ? std::string_view() : it->second;
  }

  std::size_t slots() const { return runs_.size(); }
  std::size_t size() const { return slots_.size(); }
  Run& run(RunSlot s) { return runs_[s]; }
  const Run& run(RunSlot s) const { return runs_[s]; }
  Workload& workload(RunSlot s) { return workloads_[s]; }
  const Workload& workload(RunSlot s) const { return workloads_[s]; }

  template <class Archive>
  void Serialize(Archive& ar) {
    ar(runs_, workloads_, free_);
    std::vector<HintEntry> hints;
    if constexpr (!Archive::kReading) {
      for (const auto& [id, hint] : hints_) hints.push_back({id, hint});
    }
    ar(hints);
    if constexpr (Archive::kReading) {
      hints_.clear();
      for (HintEntry& h : hints) hints_[h.id] = std::move(h.hint);
      slots_.clear();
      for (std::size_t s = 0; s < runs_.size(); ++s) {
        if (runs_[s].state == WorkloadState::kFree) continue;
        slots_.emplace(runs_[s].id, static_cast<RunSlot>(s));
      }
    }
  }

 private:
  struct HintEntry {
    WorkloadId id;
    std::string hint;
    template <class Archive>
    void Serialize(Archive& ar) {
      ar(id, hint);
    }
  };

  std::vector<Run> runs_;
  internal::StableList<Workload> workloads_;
  std::vector<RunSlot> free_;
  internal::IndexMap<WorkloadId, RunSlot> slots_;
  absl::btree_map<WorkloadId, std::string> hints_;  // of the few that have one
};

}  // namespace tenure

#endif  // TENURE_WORKLOAD_TABLE_H_
