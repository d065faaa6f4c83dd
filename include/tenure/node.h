// SPDX-License-Identifier: Apache-2.0
//
// One node of a Cluster, and the pool of all nodes of its GPU type.
//
// Of every node: occupied (GPUs of runs, also of runs being stopped), stopping (the part of
// occupied that is being stopped), claimed (held for workloads that wait for a stop). GPUs that may
// be given away now: free = total - occupied - max(0, claimed - stopping). GPUs that are free once
// the stops are confirmed: soon = total - occupied + stopping - claimed.
#ifndef TENURE_NODE_H_
#define TENURE_NODE_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "tenure/free_index.h"
#include "tenure/types.h"

namespace tenure {

enum class NodeHealth : std::uint8_t {
  kUp = 0,
  kDraining = 1,  // takes nothing new; runs leave at the end of their protection
  kDown = 2,      // failed: nothing runs on it
};

constexpr const char* ToString(NodeHealth h) {
  return h == NodeHealth::kUp ? "up" : h == NodeHealth::kDraining ? "draining" : "down";
}

inline constexpr std::int64_t kMaxGpusPerNode = 1024;

// Dense number of a workload inside a Scheduler: the position of its record.
using RunSlot = std::uint32_t;
inline constexpr RunSlot kNoSlot = 0xffffffffu;

struct Occupant {
  RunSlot run = kNoSlot;
  std::int32_t gpus = 0;
  template <class Archive>
  void Serialize(Archive& ar) {
    ar(run, gpus);
  }
};

struct Node {
  std::string name;
  std::int32_t gpus = 0;
  GpuTypeId type;
  DomainId domain;
  NodeHealth health = NodeHealth::kUp;
  bool lane = false;       // reserved for short protections and unfunded work
  std::uint32_t slot = 0;  // position in its pool
  std::int32_t occupied = 0;
  std::int32_t stopping = 0;
  std::int32_t claimed = 0;
  std::int32_t sessions = 0;       // interactive runs
  RunSlot reserved_for = kNoSlot;  // a gang that will take the node at `reserved_at`
  TimePoint reserved_at{};
  TimePoint closes_at = kNever;            // for maintenance that is announced or under way
  bool closing = false;                    // so soon that protections may last longer
  bool closed = false;                     // takes nothing, whatever its health
  absl::InlinedVector<Occupant, 8> runs;   // in order of arrival
  absl::InlinedVector<Occupant, 1> holds;  // in order of creation

  std::int32_t free() const { return gpus - occupied - std::max(0, claimed - stopping); }
  std::int32_t soon() const { return gpus - occupied + stopping - claimed; }
  bool vacating() const { return stopping > claimed; }  // soon() > free()
  // Takes work and counts as capacity.
  bool up() const { return health == NodeHealth::kUp && !closed; }
  // Whatever may be stopped has to leave.
  bool leaving() const {
    return health == NodeHealth::kDraining || (closed && health == NodeHealth::kUp);
  }
  // Whether work that is protected until `ends` may start here; `stays`: it will not be stopped for
  // others then.
  bool Admits(TimePoint ends, bool stays) const {
    return (reserved_for == kNoSlot || (!stays && ends <= reserved_at)) && ends <= closes_at;
  }

  template <class Archive>
  void Serialize(Archive& ar) {
    ar(name, gpus, type, domain, health, occupied, stopping, claimed, sessions, reserved_for,
       reserved_at, closes_at, closing, closed, runs, holds);
  }
};

// The nodes of one GPU type, in topological order, with their indices.
struct Pool {
  GpuTypeId type;
  std::vector<NodeId> nodes;                                   // by slot
  std::vector<std::pair<std::uint32_t, std::uint32_t>> range;  // of slots, by domain
  std::vector<std::uint8_t> shallowest;  // by domain: least level at which it has nodes
  std::vector<std::int32_t> widest;      // by level: nodes of the largest domain
  // level = GPUs of the node, whatever its health
  internal::FreeIndex declared, declared_lane;
  // level = free GPUs, nodes that are up only; reserved: also those that are closing
  internal::FreeIndex general, lane, reserved;
  internal::Bitmap sessions;  // slots of nodes with interactive runs
  internal::Bitmap closing;   // slots of nodes that are closing
  internal::Bitmap vacating;  // slots of nodes with more GPUs soon than free
  internal::Bitmap touched;   // slots of nodes that changed: Cluster::TakeTouched
};

}  // namespace tenure

#endif  // TENURE_NODE_H_
