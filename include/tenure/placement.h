// SPDX-License-Identifier: Apache-2.0
//
// Where a request goes when enough GPUs are free: the tightest fit inside a node; for gangs the
// smallest topology domain that holds them, tightest first.
//
//   std::vector<NodeId> nodes;
//   if (PlaceFree(cluster, shape, NoNodeScore{}, nodes)) { /* nodes has shape.nodes entries */ }
//
// Deterministic: ties are broken by topological order (domain, node name). Complexity: part of a
// node O(GPUs per node), independent of the number of nodes; a gang of k nodes O(D + k) for D
// domains at its level. Sources: best fit with free-count bitmaps; smallest enclosing domain as in
// HPC tree topologies.
#ifndef TENURE_PLACEMENT_H_
#define TENURE_PLACEMENT_H_

#include <algorithm>
#include <compare>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "tenure/cluster.h"
#include "tenure/contract.h"
#include "tenure/types.h"

namespace tenure {

// Protections in powers of two: whether a node that is promised to a gang may be used is decided by
// the upper limit of the band, so that all requests of a shape have the same answer.
constexpr Duration BandLimit(std::uint8_t band) {
  return std::chrono::minutes(15) * (std::int64_t{1} << band);
}
inline constexpr std::size_t kBands = 21;
constexpr std::uint8_t BandOf(Duration protection) {
  std::uint8_t band = 0;
  while (band < kBands - 1 && BandLimit(band) < protection) ++band;
  return band;
}

// All of a request that decides where it can go. Equal shapes have equal answers.
struct Shape {
  std::int32_t nodes = 1;
  std::int32_t gpus = 1;  // per node
  GpuTypeId type = kAnyGpuType;
  TopologyRule rule = TopologyRule::kPreferred;
  std::uint8_t level = kDeepestLevel;
  WorkloadClass workload_class = WorkloadClass::kTraining;
  bool lane = false;  // may use lane nodes
  bool funded = true;
  std::uint8_t band = 0;  // its protection is at most BandLimit(band)
  UserId user = kNoUser;  // where its user's GPUs are capped; says nothing about places

  GpuCount total() const { return GpuCount(std::int64_t{nodes} * gpus); }
  // The end of the protection of a start at `now`, rounded up to the band.
  TimePoint EndsBy(TimePoint now) const { return funded ? now + BandLimit(band) : now; }
  // Whether it has no foreseeable end: no node that is promised to a later start takes it.
  bool stays() const { return funded && workload_class == WorkloadClass::kServing; }
  friend auto operator<=>(const Shape&, const Shape&) = default;

  // True if whatever place holds `this` also holds `smaller`: if `smaller` found no place, neither
  // does this shape.
  bool Dominates(const Shape& smaller) const {
    return gpus >= smaller.gpus && nodes >= smaller.nodes && type == smaller.type &&
           (smaller.lane || !lane) && funded == smaller.funded && band >= smaller.band &&
           (workload_class == WorkloadClass::kDebug) ==
               (smaller.workload_class == WorkloadClass::kDebug) &&
           (stays() || !smaller.stays()) &&
           (smaller.nodes == 1 || smaller.rule == TopologyRule::kPreferred ||
            (rule == smaller.rule && level == smaller.level));
  }
};

// Stands for "no preference between nodes": placement answers from the indices alone.
struct NoNodeScore {
  static constexpr bool kNone = true;
  std::int64_t operator()(const Node&) const { return 0; }
};

namespace internal {

inline std::uint8_t EffectiveLevel(const Cluster& cluster, const Shape& shape) {
  return std::min(shape.level, cluster.depth());
}

// Writes k nodes of `domain` with >= gpus free in `index`, which has as many, to `out`: best node
// score first if there is a score, else tightest first. Returns the end of what was written.
template <class Score>
NodeId* TakeNodes(const Cluster& cluster, const Pool& pool, const FreeIndex& index,
                  const Shape& shape, DomainId domain, std::int64_t k, const Score& score,
                  NodeId* out) {
  if (k <= 0) return out;
  const auto [begin, end] = pool.range[domain.value()];
  NodeId* const last = out + k;
  if constexpr (Score::kNone) {
    index.VisitTightest(shape.gpus, begin, end, [&](std::size_t slot) {
      *out++ = pool.nodes[slot];
      return out != last;
    });
  } else {
    std::vector<std::pair<std::int64_t, NodeId>> best;
    index.VisitTightest(shape.gpus, begin, end, [&](std::size_t slot) {
      best.emplace_back(-score(cluster.node(pool.nodes[slot])), pool.nodes[slot]);
      return true;
    });
    std::stable_sort(best.begin(), best.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (auto next = best.begin(); out != last; ++next) *out++ = next->second;
  }
  return last;
}

inline constexpr std::int32_t kMany = std::numeric_limits<std::int32_t>::max();

// Counts are looked at in blocks: one without a branch inside, and what is known of it skips it.
class CountBlocks {
 public:
  explicit CountBlocks(std::span<const std::int32_t> counts) : counts_(counts) {}
  static constexpr std::size_t kSize = 32, kPart = 8;
  std::size_t size() const { return (counts_.size() + kSize - 1) / kSize; }
  std::span<const std::int32_t> operator[](std::size_t b) const {
    return counts_.subspan(b * kSize, std::min(kSize, counts_.size() - b * kSize));
  }
  // The largest count of block `b`, or 0; of those below `limit`.
  std::int32_t Largest(std::size_t b) const {
    return Fold(b, 0, [](std::int32_t x, std::int32_t n) { return std::max(x, n); });
  }
  std::int32_t LargestBelow(std::size_t b, std::int32_t limit) const {
    return Fold(b, 0,
                [&](std::int32_t x, std::int32_t n) { return std::max(x, n < limit ? n : 0); });
  }
  // The smallest that is >= need, or kMany.
  std::int32_t SmallestFrom(std::size_t b, std::int32_t need) const {
    return Fold(b, kMany,
                [&](std::int32_t x, std::int32_t n) { return std::min(x, n >= need ? n : kMany); });
  }
  // Calls `visit(i)` for the positions in block `b` that have this count until it returns false.
  template <class Visit>
  bool VisitEqual(std::size_t b, std::int32_t count, const Visit& visit) const {
    const std::size_t end = std::min((b + 1) * kSize, counts_.size());
    for (std::size_t i = b * kSize; i < end;) {
      if (i + kPart <= end) {  // most parts have none: that is seen without a branch for each
        std::int32_t equal = 0;
        for (std::size_t j = 0; j < kPart; ++j) equal |= counts_[i + j] == count;
        if (equal == 0) {
          i += kPart;
          continue;
        }
      }
      for (const std::size_t part = std::min(i + kPart, end); i < part; ++i) {
        if (counts_[i] == count && !visit(i)) return false;
      }
    }
    return true;
  }

 private:
  // A whole block has a size that the compiler knows.
  template <class F>
  std::int32_t Fold(std::size_t b, std::int32_t x, const F& f) const {
    const auto block = (*this)[b];
    if (block.size() == kSize) {
      for (std::size_t i = 0; i < kSize; ++i) x = f(x, block[i]);
    } else {
      for (std::int32_t n : block) x = f(x, n);
    }
    return x;
  }

  std::span<const std::int32_t> counts_;
};

enum class OfEquals : std::uint8_t { kFirst, kLast };

// The position of the smallest count that is >= need, the first or last of equals, or -1.
inline std::int64_t SmallestFrom(std::span<const std::int32_t> counts, std::int32_t need,
                                 OfEquals which = OfEquals::kFirst) {
  const CountBlocks blocks(counts);
  std::int32_t smallest = kMany;
  std::size_t found = 0;
  for (std::size_t i = 0; i < blocks.size() && smallest != need; ++i) {
    const std::size_t b = which == OfEquals::kFirst ? i : blocks.size() - 1 - i;
    const std::int32_t here = blocks.SmallestFrom(b, need);
    if (here >= smallest) continue;
    smallest = here;
    found = b;
  }
  if (smallest == kMany) return -1;
  const auto block = blocks[found];
  const auto at = which == OfEquals::kFirst
                      ? std::find(block.begin(), block.end(), smallest) - block.begin()
                      : block.rend() - std::find(block.rbegin(), block.rend(), smallest) - 1;
  return static_cast<std::int64_t>(found * CountBlocks::kSize) + at;
}

// Spreads k nodes over as few domains as possible: the largest are taken whole, first ones first,
// until the rest fits into one; of those that hold the rest the smallest takes it, the last one of
// equals. `take(position, nodes)`. Requires that all counts together reach k > 0.
template <class Take>
void Spread(std::span<const std::int32_t> counts, std::int32_t k, const Take& take) {
  const CountBlocks blocks(counts);
  absl::InlinedVector<std::int32_t, 64> largest_in(blocks.size());  // of what is not taken
  for (std::size_t b = 0; b < blocks.size(); ++b) largest_in[b] = blocks.Largest(b);
  while (true) {
    const std::int32_t largest = *std::max_element(largest_in.begin(), largest_in.end());
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      if (largest_in[b] != largest) continue;
      const bool more = blocks.VisitEqual(b, largest, [&](std::size_t i) {
        if (largest >= k) return false;
        take(i, largest);
        k -= largest;
        return true;
      });
      if (!more) {
        take(static_cast<std::size_t>(SmallestFrom(counts, k, OfEquals::kLast)), k);
        return;
      }
      largest_in[b] = blocks.LargestBelow(b, largest);
    }
  }
}

// Places a gang on nodes of `index` inside one pool; nothing is appended when it does not fit.
template <class Score>
bool PlaceGang(const Cluster& cluster, const Pool& pool, const FreeIndex& index, const Shape& shape,
               const Score& score, std::vector<NodeId>& out) {
  if (index.CountAtLeast(kRootDomain, shape.gpus) < shape.nodes) return false;
  const std::uint8_t wanted = EffectiveLevel(cluster, shape);
  for (int l = wanted; l >= 0; --l) {
    const auto level = static_cast<std::uint8_t>(l);
    const auto domains = cluster.DomainsAt(level);
    const auto counts = index.CountsAtLeast(shape.gpus, cluster.FirstColumn(level), domains.size());
    const std::int64_t best =
        pool.widest[level] < shape.nodes ? -1 : SmallestFrom(counts, shape.nodes);
    if (best < 0 && shape.rule == TopologyRule::kRequired) return false;
    if (best < 0) continue;
    const DomainId domain = domains[static_cast<std::size_t>(best)];
    const std::size_t before = out.size();
    out.resize(before + static_cast<std::size_t>(shape.nodes));
    NodeId* next = out.data() + before;
    const auto take = [&](DomainId d, std::int64_t n) {
      next = TakeNodes(cluster, pool, index, shape, d, n, score, next);
    };
    // Spread inside `domain` over domains of the wanted level, unless it is one or has nodes of its
    // own, among which there is no finer choice.
    const auto [first, last] = cluster.Inside(domain, wanted);
    const auto parts = cluster.DomainsAt(wanted).subspan(first, last - first);
    const auto sizes =
        index.CountsAtLeast(shape.gpus, cluster.FirstColumn(wanted) + first, parts.size());
    const bool divided = pool.shallowest[domain.value()] >= wanted ||
                         std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}) ==
                             counts[static_cast<std::size_t>(best)];
    if (level == wanted || !divided) {
      take(domain, shape.nodes);
    } else {
      Spread(sizes, shape.nodes, [&](std::size_t i, std::int64_t n) { take(parts[i], n); });
    }
    return true;
  }
  return false;
}

// The same with the nodes that close for maintenance, but only after `ends`. O(nodes of the pool).
template <class Score>
bool PlaceGangBeforeClosing(const Cluster& cluster, const Pool& pool, const Shape& shape,
                            const Score& score, TimePoint ends, std::vector<NodeId>& out) {
  if (pool.closing.empty()) return false;
  FreeIndex index = pool.general;
  bool more = false;
  for (std::int64_t s = pool.closing.NextFrom(0); s >= 0;
       s = pool.closing.NextFrom(static_cast<std::size_t>(s) + 1)) {
    const auto slot = static_cast<std::size_t>(s);
    const Node& n = cluster.node(pool.nodes[slot]);
    if (n.lane || !n.up() || n.reserved_for != kNoSlot || !n.Admits(ends, false)) continue;
    index.Set(slot, pool.reserved.level(slot));
    more = true;
  }
  return more && PlaceGang(cluster, pool, index, shape, score, out);
}

// The best single node of a pool and how tight it is (free - asked), or -1.
template <class Score>
std::int64_t PlaceOne(const Cluster& cluster, const Pool& pool, const Shape& shape,
                      const Score& score, TimePoint ends, NodeId avoid, NodeId& out) {
  if (shape.workload_class == WorkloadClass::kInteractive && shape.funded) {
    // Sessions live for days and are lost when stopped: packed on few nodes they leave whole nodes
    // to everybody else.
    std::int32_t best = 0;
    for (std::int64_t s = pool.sessions.NextFrom(0); s >= 0;
         s = pool.sessions.NextFrom(static_cast<std::size_t>(s) + 1)) {
      const auto slot = static_cast<std::size_t>(s);
      const Node& n = cluster.node(pool.nodes[slot]);
      if (n.lane || !n.up() || n.free() < shape.gpus || !n.Admits(ends, false) ||
          pool.nodes[slot] == avoid) {
        continue;
      }
      if (n.sessions > best) {
        best = n.sessions;
        out = pool.nodes[slot];
      }
    }
    if (best > 0) return 0;
  }
  const auto usable = [&](NodeId id) {
    return id != avoid && cluster.node(id).Admits(ends, shape.stays());
  };
  const auto search = [&](const FreeIndex& index) -> std::int64_t {
    std::int64_t tight = -1;
    if constexpr (Score::kNone) {
      index.VisitTightest(shape.gpus, 0, pool.nodes.size(), [&](std::size_t slot) {
        if (!usable(pool.nodes[slot])) return true;
        out = pool.nodes[slot];
        tight = index.level(slot) - shape.gpus;
        return false;
      });
    } else {
      std::int64_t best = 0;
      index.VisitTightest(shape.gpus, 0, pool.nodes.size(), [&](std::size_t slot) {
        if (!usable(pool.nodes[slot])) return true;
        const std::int64_t s = score(cluster.node(pool.nodes[slot]));
        if (tight < 0 || s > best) {
          best = s;
          out = pool.nodes[slot];
          tight = index.level(slot) - shape.gpus;
        }
        return true;
      });
    }
    return tight;
  };
  const bool lane_first = shape.lane && shape.workload_class == WorkloadClass::kDebug;
  if (lane_first) {
    if (const std::int64_t t = search(pool.lane); t >= 0) return t;
  }
  if (const std::int64_t t = search(pool.general); t >= 0) return t;
  if (const std::int64_t t = search(pool.reserved); t >= 0) return t;
  return shape.lane && !lane_first ? search(pool.lane) : -1;
}

}  // namespace internal

inline constexpr NodeId kNoNode{0xffffffffu};

// Appends the nodes for `shape` to `out` and returns true if free GPUs hold it now; else false and
// `out` is unchanged. Nodes that close for maintenance are used last, by requests whose protection
// ends in time, and so are nodes reserved for a gang, by such single-node requests. A request for
// any GPU type goes to the type where it fits tightest (gangs: the first type that holds them),
// never over two types. `avoid`: a node not to be used by a single-node request. `now` matters only
// where nodes are reserved or closing. Requires an up to date index (Cluster::Reindex).
template <class Score>
bool PlaceFree(const Cluster& cluster, const Shape& shape, const Score& score, NodeId avoid,
               std::vector<NodeId>& out, TimePoint now = TimePoint()) {
  if (cluster.free() < shape.total()) return false;
  std::int64_t best = -1;
  NodeId best_node = kNoNode;
  for (const Pool& pool : cluster.pools()) {
    if (shape.type != kAnyGpuType && shape.type != pool.type) continue;
    if (shape.nodes > 1) {
      if (internal::PlaceGang(cluster, pool, pool.general, shape, score, out) ||
          internal::PlaceGangBeforeClosing(cluster, pool, shape, score, shape.EndsBy(now), out)) {
        return true;
      }
      continue;
    }
    NodeId node = kNoNode;
    const std::int64_t tight =
        internal::PlaceOne(cluster, pool, shape, score, shape.EndsBy(now), avoid, node);
    if (tight >= 0 && (best < 0 || tight < best)) {
      best = tight;
      best_node = node;
    }
  }
  if (best < 0) return false;
  out.push_back(best_node);
  return true;
}

// True if the declared cluster (drained and failed nodes counted, all of it empty) holds `shape`,
// outside the lane if it may not use the lane.
inline bool EverFits(const Cluster& cluster, const Shape& shape) {
  const std::uint8_t level = shape.nodes > 1 && shape.rule == TopologyRule::kRequired
                                 ? internal::EffectiveLevel(cluster, shape)
                                 : std::uint8_t{0};
  for (const Pool& pool : cluster.pools()) {
    if (shape.type != kAnyGpuType && shape.type != pool.type) continue;
    if (static_cast<std::size_t>(shape.gpus) >= pool.declared.levels()) continue;
    const std::size_t first = cluster.FirstColumn(level), n = cluster.DomainsAt(level).size();
    const auto nodes = pool.declared.CountsAtLeast(shape.gpus, first, n);
    const auto lane = pool.declared_lane.CountsAtLeast(shape.gpus, first, n);
    std::int32_t most = 0;
    for (std::size_t d = 0; d < n; ++d)
      most = std::max(most, nodes[d] + (shape.lane ? lane[d] : 0));
    if (most >= shape.nodes) return true;
  }
  return false;
}

}  // namespace tenure

#endif  // TENURE_PLACEMENT_H_
