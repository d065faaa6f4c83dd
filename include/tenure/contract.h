// SPDX-License-Identifier: Apache-2.0
//
// The scheduling contract: what a workload asks for, what it promises and what it is promised.
//
//   tenure::WorkloadSpec spec;
//   spec.id = tenure::WorkloadId(1);
//   spec.allocation = leaf;
//   spec.nodes = 4;
//   spec.gpus_per_node = tenure::GpuCount(8);
//   spec.minimum = std::chrono::hours(2);         // protected and charged for two hours
//   spec.checkpoint_interval = std::chrono::minutes(30);
//   absl::Status ok = tenure::ContractRules{}.Check(spec);
//
// A run is protected in [start, start + min(minimum, cap of its class)); the protection is granted
// anew at every run. What a run starts beyond the entitlement of its allocation may have a smaller
// cap. Minimum 0 is unfunded: free, never protected, stopped by any funded request.
// Source: the published budget policy (minimum runtime, resumable), with caps per class added.
#ifndef TENURE_CONTRACT_H_
#define TENURE_CONTRACT_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tenure/types.h"

namespace tenure {

enum class WorkloadClass : std::uint8_t {
  kDebug = 0,        // <= 8 GPUs and minimum <= 15 min: express lane
  kInteractive = 1,  // a person waits in it; volatile state, packed together, stopped last
  kTraining = 2,
  kServing = 3,  // has no end: inside its allocation's cap it is never stopped for others
  kSweep = 4,    // minimum 0: unfunded filler
};
inline constexpr std::size_t kWorkloadClasses = 5;

constexpr const char* ToString(WorkloadClass c) {
  constexpr std::array<const char*, kWorkloadClasses> kNames = {"debug", "interactive", "training",
                                                                "serving", "sweep"};
  return kNames[static_cast<std::size_t>(c)];
}

// Where the members of a gang must lie relative to each other.
enum class TopologyRule : std::uint8_t {
  kPreferred = 0,  // inside one domain of the level where one can hold it, else over few domains
  kRequired = 1,   // inside one domain of the level, or not at all
};

// Deepest level of the topology: the default of `WorkloadSpec::topology_level`.
inline constexpr std::uint8_t kDeepestLevel = 0xff;

// What is submitted: a gang of `nodes` members with `gpus_per_node` GPUs each (nodes = 1 is an
// ordinary job inside one node). Durations >= 0.
struct WorkloadSpec {
  WorkloadId id;
  AllocationId allocation;
  UserId user;
  std::string name;  // any bytes, up to kMaxNameBytes; never interpreted
  WorkloadClass workload_class = WorkloadClass::kTraining;
  std::int32_t priority = 0;  // larger first; compared only inside one allocation
  std::uint32_t nodes = 1;
  GpuCount gpus_per_node{1};
  GpuTypeId gpu_type = kAnyGpuType;
  TopologyRule topology_rule = TopologyRule::kPreferred;
  std::uint8_t topology_level = kDeepestLevel;  // 0 = whole cluster, 1 = below the root, ...
  Duration minimum{0};
  bool resumable = true;  // false: losing a run fails the workload
  // Saves all its work within the grace of a stop and goes on from there (a checkpoint on notice, a
  // session that is suspended and restored): being stopped costs it the restart only.
  bool restorable = false;
  Duration checkpoint_interval{0};  // 0 = unknown: a stopped run loses all its work
  Duration restart_overhead{0};     // time a resumed run needs before it makes progress

  GpuCount gpus() const { return GpuCount(gpus_per_node.value() * nodes); }
  bool funded() const { return minimum > Duration(0); }
  friend bool operator==(const WorkloadSpec&, const WorkloadSpec&) = default;
};

inline constexpr std::size_t kMaxNameBytes = 4096;
inline constexpr std::size_t kMaxHintBytes = 4096;

// A cap that caps nothing.
inline constexpr Duration kUncapped = kMaxLookback;

// What a site allows. Thread-compatible value type.
struct ContractRules {
  // Longest protection of one run, per class.
  std::array<Duration, kWorkloadClasses> cap = {std::chrono::minutes(15), std::chrono::hours(8),
                                                std::chrono::hours(8), std::chrono::hours(8),
                                                Duration(0)};
  // The same of a run that starts beyond what its allocation is entitled to, on GPUs that others
  // lend it.
  std::array<Duration, kWorkloadClasses> borrowed_cap = {kUncapped, kUncapped, kUncapped, kUncapped,
                                                         kUncapped};
  GpuCount debug_gpus{8};  // largest debug workload
  // GPUs that the funded work of one user may have at once, per class, in the whole cluster: more
  // waits (WaitReason::kUserCap), and a workload that asks for more is refused. 0: no cap.
  std::array<GpuCount, kWorkloadClasses> user_gpus{};
  // A minimum that cannot reach the next checkpoint would be stopped before it made progress, for
  // ever. true: refuse such a workload; false: accept (`HasLivelock` tells, for a warning).
  bool refuse_livelock = false;

  Duration Cap(WorkloadClass c) const { return cap[static_cast<std::size_t>(c)]; }
  Duration BorrowedCap(WorkloadClass c) const { return borrowed_cap[static_cast<std::size_t>(c)]; }
  GpuCount UserGpus(WorkloadClass c) const { return user_gpus[static_cast<std::size_t>(c)]; }

  // The protection a run of `spec` gets. For unfunded work 0.
  Duration Protection(const WorkloadSpec& spec) const {
    return std::min(spec.minimum, Cap(spec.workload_class));
  }

  // True if a run stopped at the end of its protection has made no lasting progress.
  bool HasLivelock(const WorkloadSpec& spec) const {
    return spec.funded() && spec.resumable && !spec.restorable &&
           spec.checkpoint_interval > Duration(0) &&
           Protection(spec) < spec.checkpoint_interval + spec.restart_overhead;
  }

  // InvalidArgument naming the workload, the field and the value if `spec` can never be valid.
  absl::Status Check(const WorkloadSpec& spec) const;
};

inline absl::Status ContractRules::Check(const WorkloadSpec& spec) const {
  const auto bad = [&](auto&&... what) {
    return absl::InvalidArgumentError(absl::StrCat("workload ", spec.id.value(), ": ", what...));
  };
  if (spec.name.size() > kMaxNameBytes) {
    return bad("name of ", spec.name.size(), " bytes exceeds ", kMaxNameBytes);
  }
  if (static_cast<std::size_t>(spec.workload_class) >= kWorkloadClasses) {
    return bad("unknown class ", static_cast<int>(spec.workload_class));
  }
  if (spec.nodes == 0) return bad("nodes is 0");
  if (spec.gpus_per_node.value() <= 0) {
    return bad("gpus_per_node is ", spec.gpus_per_node.value(), ", must be positive");
  }
  if (spec.gpus_per_node.value() > kMaxClusterGpus ||
      spec.gpus_per_node.value() * std::int64_t{spec.nodes} > kMaxClusterGpus) {
    return bad(spec.nodes, " x ", spec.gpus_per_node.value(), " GPUs exceeds the limit of ",
               kMaxClusterGpus);
  }
  const auto check = [&](const char* field, Duration d) {
    if (d >= Duration(0) && d <= kMaxLookback * 12) return absl::OkStatus();
    return bad(field, " is ", d.count(), " us, must be in [0, ", (kMaxLookback * 12).count(), "]");
  };
  if (absl::Status s = check("minimum", spec.minimum); !s.ok()) return s;
  if (absl::Status s = check("checkpoint_interval", spec.checkpoint_interval); !s.ok()) return s;
  if (absl::Status s = check("restart_overhead", spec.restart_overhead); !s.ok()) return s;
  if (spec.workload_class == WorkloadClass::kDebug && spec.gpus() > debug_gpus) {
    return bad("class debug is for at most ", debug_gpus.value(), " GPUs, asked ",
               spec.gpus().value());
  }
  if (spec.workload_class == WorkloadClass::kSweep && spec.funded()) {
    return bad("class sweep has minimum 0, asked ", spec.minimum.count(), " us");
  }
  if (spec.restorable && !spec.resumable) return bad("restorable, but not resumable");
  const GpuCount most = UserGpus(spec.workload_class);
  if (spec.funded() && most > GpuCount(0) && spec.gpus() > most) {
    return bad("a user may have ", most.value(), " GPUs of class ", ToString(spec.workload_class),
               " at once, asked ", spec.gpus().value());
  }
  if (refuse_livelock && HasLivelock(spec)) {
    return bad("a protection of ", Protection(spec).count(), " us ends before checkpoint interval ",
               spec.checkpoint_interval.count(), " us + restart overhead ",
               spec.restart_overhead.count(), " us");
  }
  return absl::OkStatus();
}

}  // namespace tenure

#endif  // TENURE_CONTRACT_H_
