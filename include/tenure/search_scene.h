// SPDX-License-Identifier: Apache-2.0
//
// What a plan search inside a Scheduler is about: the world of the search and what its numbers mean
// to the scheduler. No promise; see scheduler_search.h.
#ifndef TENURE_SEARCH_SCENE_H_
#define TENURE_SEARCH_SCENE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "tenure/cluster.h"
#include "tenure/contract.h"
#include "tenure/pending_queue.h"
#include "tenure/placement.h"
#include "tenure/plan_data.h"
#include "tenure/types.h"

namespace tenure::internal {

inline constexpr std::size_t kMaxPlanJobs = 256;
inline constexpr std::size_t kMaxPlanJobsOfShape = 64;  // of one leaf

inline std::int64_t MinutesUp(Duration d) {  // kNeverHappens leaves no room for a sum
  return d.count() / 60'000'000 + (d.count() % 60'000'000 > 0 ? 1 : 0);
}
inline std::uint16_t Minutes16(std::int64_t minutes) {
  return static_cast<std::uint16_t>(std::clamp<std::int64_t>(minutes, 0, 0xfffe));
}

// What a search is about, and what its numbers mean to the scheduler.
struct SearchScene {
  plan::WorldData data;
  std::vector<NodeId> node;          // by node of the world
  std::vector<std::uint32_t> index;  // by NodeId
  std::vector<RunSlot> job, victim;
  std::vector<std::uint8_t> loss_class;  // by allocation
  std::vector<std::uint16_t> account;    // by allocation
  // Decisions of the pass before the search.
  std::size_t starts = 0, stops = 0, holds = 0, promises = 0;
};

// The kinds of requests seen so far: (leaf, tier, class) is a row of rights, (shape, row) a kind.
struct SearchKinds {
  struct Kind {
    Shape shape;
    std::uint32_t row;
    bool debug;
    bool stops_more;  // than others of its tier
  };
  absl::btree_map<std::tuple<AllocationId, int, WorkloadClass, bool>, std::uint32_t> rows;
  absl::btree_map<std::pair<ShapeId, std::uint32_t>, std::uint32_t> kinds;
  std::vector<Kind> list;
};

// What a pass came to.
struct PassScore {
  std::vector<std::uint64_t> waiting;  // GPUs, by band
  std::vector<std::uint64_t> lost;     // GPU-minutes of funded work, by loss class
  std::uint64_t sessions = 0;          // stopped
  std::uint64_t price = 0;             // GPU-minutes, as plan::Prices has it
};

}  // namespace tenure::internal

#endif  // TENURE_SEARCH_SCENE_H_
