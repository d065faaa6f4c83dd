// SPDX-License-Identifier: Apache-2.0
//
// When the runs of every node may be stopped, kept so that the nodes of a topology domain that are
// interruptible first are found without looking at all of them.
//
//   ProtectionOrder order;
//   order.Update(cluster, table);  // after any change to cluster or table
//   order.First(pool, begin, end, k, usable, first);
//
// One invariant: after Update the entry of a node is its number of sessions and the latest end of
// protection of its runs, or kNone if nobody may be promised the node; and every block of kBlock
// slots has the least of its entries and the soonest of their ends.
//
// Complexity: Update O(runs + kBlock) for each node touched since the last one (Cluster::Touch), so
// that runs that start and end between two searches cost next to nothing; the others look at the
// blocks of the domain and at the nodes of those that may contain what is asked for.
#ifndef TENURE_PROTECTION_ORDER_H_
#define TENURE_PROTECTION_ORDER_H_

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "tenure/cluster.h"
#include "tenure/contract.h"
#include "tenure/types.h"
#include "tenure/workload_table.h"

namespace tenure {

// The latest end of protection on a node; `now` if none, kNever if a service runs there, which has
// no end.
inline TimePoint InterruptibleAt(const Node& node, const WorkloadTable& table, TimePoint now) {
  TimePoint at = now;
  for (const Occupant& o : node.runs) {
    const Run& run = table.run(o.run);
    if (!run.funded) continue;
    if (run.workload_class == WorkloadClass::kServing) return kNever;
    at = std::max(at, run.protected_until);
  }
  return at;
}

class ProtectionOrder {
 public:
  // In the order in which nodes are to be promised.
  struct Entry {
    std::int32_t sessions;
    TimePoint end;
    friend constexpr auto operator<=>(const Entry&, const Entry&) = default;
  };
  static constexpr Entry kNone{std::numeric_limits<std::int32_t>::max(), kNever};
  struct Slotted {
    Entry entry;
    std::uint32_t slot;
  };

  static Entry EntryOf(const Node& n, const WorkloadTable& table) {
    if (!n.up() || n.lane || n.reserved_for != kNoSlot || !n.holds.empty()) return kNone;
    const TimePoint end = InterruptibleAt(n, table, TimePoint::min());
    return end == kNever ? kNone : Entry{n.sessions, end};
  }

  // Requires an up to date index (Cluster::Reindex).
  void Update(Cluster& cluster, const WorkloadTable& table) {
    pools_.resize(cluster.pools().size());
    for (std::size_t p = 0; p < pools_.size(); ++p) {
      const std::vector<NodeId>& nodes = cluster.pools()[p].nodes;
      OfPool& pool = pools_[p];
      if (pool.entries.size() != nodes.size()) pool.Reset(nodes.size());
      std::size_t block = 0;
      bool changed = false;  // something in `block`
      cluster.TakeTouched(p, [&](std::size_t slot) {
        const Entry e = EntryOf(cluster.node(nodes[slot]), table);
        if (e == pool.entries[slot]) return;
        if (changed && slot / kBlock != block) pool.Summarise(block);
        block = slot / kBlock;
        changed = true;
        pool.entries[slot] = e;
      });
      if (changed) pool.Summarise(block);
    }
  }

  // Puts those k of slots [begin, end) with `usable(slot)` whose entries are least into `first`, in
  // no particular order. False: there are fewer.
  template <class Usable>
  bool First(std::size_t p, std::uint32_t begin, std::uint32_t end, std::size_t k,
             const Usable& usable, std::vector<Slotted>& first) {
    const OfPool& pool = pools_[p];
    const auto before = [](const Slotted& a, const Slotted& b) { return a.entry < b.entry; };
    heads_.clear();
    pool.VisitBlocks(begin, end, [&](std::uint32_t from, std::uint32_t to) {
      const Entry least = pool.Least(from, to);
      if (least != kNone) heads_.push_back({least, from});
      return true;
    });
    // The k least are in the k blocks with the least heads, up to the last of these. If some are
    // not usable, more blocks are needed.
    for (std::size_t blocks = k;; blocks *= 4) {
      const bool all = blocks >= heads_.size();
      auto last = heads_.end();
      Entry limit = kNone;
      if (!all) {
        last = heads_.begin() + static_cast<std::ptrdiff_t>(blocks);
        std::nth_element(heads_.begin(), last - 1, heads_.end(), before);
        limit = last[-1].entry;
      }
      first.clear();
      for (auto head = heads_.begin(); head != last; ++head) {
        const std::uint32_t to = std::min(end, EndOfBlock(head->slot));
        for (std::uint32_t slot = head->slot; slot < to; ++slot) {
          const Entry& e = pool.entries[slot];
          if (e <= limit && e != kNone && usable(slot)) first.push_back({e, slot});
        }
      }
      if (first.size() >= k) break;
      if (all) return false;
    }
    std::nth_element(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(k - 1), first.end(),
                     before);
    first.erase(first.begin() + static_cast<std::ptrdiff_t>(k), first.end());
    return true;
  }

  // Calls `visit(slot)` for the slots in [begin, end) whose protections end by `at`, ascending,
  // until it returns false.
  template <class Visit>
  void VisitEnding(std::size_t p, std::uint32_t begin, std::uint32_t end, TimePoint at,
                   const Visit& visit) const {
    const OfPool& pool = pools_[p];
    pool.VisitBlocks(begin, end, [&](std::uint32_t from, std::uint32_t to) {
      if (pool.soonest[from / kBlock] > at) return true;
      for (std::uint32_t slot = from; slot < to; ++slot) {
        if (pool.entries[slot].end <= at && !visit(slot)) return false;
      }
      return true;
    });
  }

  const Entry& entry(std::size_t p, std::size_t slot) const { return pools_[p].entries[slot]; }

 private:
  static constexpr std::uint32_t kBlock = 32;
  static std::uint32_t EndOfBlock(std::uint32_t slot) { return (slot / kBlock + 1) * kBlock; }

  struct OfPool {
    std::vector<Entry> entries;      // by slot
    std::vector<Entry> least;        // by block
    std::vector<TimePoint> soonest;  // by block

    void Reset(std::size_t slots) {
      entries.assign(slots, kNone);
      least.assign((slots + kBlock - 1) / kBlock, kNone);
      soonest.assign(least.size(), kNever);
    }
    void Summarise(std::size_t block) {
      const auto from = entries.begin() + static_cast<std::ptrdiff_t>(block * kBlock);
      const auto to = from + std::min<std::ptrdiff_t>(kBlock, entries.end() - from);
      least[block] = *std::min_element(from, to);
      soonest[block] = kNever;
      for (auto e = from; e != to; ++e) soonest[block] = std::min(soonest[block], e->end);
    }
    // Of slots inside one block.
    Entry Least(std::uint32_t from, std::uint32_t to) const {
      const auto first = entries.begin();
      if (to - from == kBlock) return least[from / kBlock];
      return *std::min_element(first + from, first + to);
    }
    // Calls `visit(from, to)` for the parts of [begin, end) that lie in one block each, until it
    // returns false.
    template <class Visit>
    static void VisitBlocks(std::uint32_t begin, std::uint32_t end, const Visit& visit) {
      while (begin < end) {
        const std::uint32_t to = std::min(end, EndOfBlock(begin));
        if (!visit(begin, to)) return;
        begin = to;
      }
    }
  };

  std::vector<OfPool> pools_;
  std::vector<Slotted> heads_;  // scratch: of every part of a range in one block
};

}  // namespace tenure

#endif  // TENURE_PROTECTION_ORDER_H_
