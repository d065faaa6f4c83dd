// SPDX-License-Identifier: Apache-2.0
//
// The leaves that have something waiting, and which of them a round serves next.
//
//   ServingOrder order;
//   order.Add(leaf);                                   // something of it waits
//   for (order.Begin(tree, ranking, waits); !order.empty();) {
//     const bool again = Serve(order.first());
//     order.Served(tree, ranking, again);              // its keys may have moved
//   }
//
// One invariant: first() is, of the leaves that wait and have not been served for the last time in
// this round, the one before all others (Ranking::Before) - as of the keys that Begin found, and
// Served for the leaf in question and its ancestors.
//
// A tree of queues: under a ranking level by level every inner node keeps its children that have
// such leaves, otherwise the root keeps all leaves. Complexity for L leaves that wait: Begin O(L)
// if their order is that of the last round, else O(L log L); first O(depth); Served O(depth log
// family). Leaves that do not wait cost nothing. Copyable, thread-compatible.
#ifndef TENURE_SERVING_ORDER_H_
#define TENURE_SERVING_ORDER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tenure/budget_tree.h"
#include "tenure/ranking.h"
#include "tenure/types.h"

namespace tenure {

class ServingOrder {
 public:
  // `leaf` may wait from now on. Until a Begin finds that it does not, it need not be added again.
  void Add(AllocationId leaf) {
    if (listed_.size() <= leaf.value()) listed_.resize(leaf.value() + std::size_t{1}, false);
    if (listed_[leaf.value()]) return;
    listed_[leaf.value()] = true;
    leaves_.push_back(leaf);
  }

  // A round of the leaves for which `waits(leaf)` is true.
  template <class Waits>
  void Begin(const BudgetTree& tree, const Ranking& ranking, const Waits& waits) {
    std::erase_if(leaves_, [&](AllocationId leaf) {
      if (waits(leaf)) return false;
      listed_[leaf.value()] = false;
      return true;
    });
    by_level_ = ranking.options().level_by_level;
    for (std::size_t i = 0; i < used_; ++i) queue_of_[queues_[i].node.value()] = kNoQueue;
    used_ = 0;
    if (queue_of_.size() < tree.size()) queue_of_.resize(tree.size(), kNoQueue);
    Queue* root = &Open(kRootAllocation);
    if (!by_level_) {
      for (AllocationId leaf : leaves_) root->ranked.push_back(EntryOf(tree, ranking, leaf));
      // Time moves the keys, but seldom past each other: the next round finds them in order.
      if (root->Sort()) {
        std::transform(root->ranked.begin(), root->ranked.end(), leaves_.begin(),
                       [](const Entry& e) { return e.id; });
      }
      return;
    }
    for (AllocationId leaf : leaves_) {
      for (AllocationId id = leaf; id != kRootAllocation;) {
        const AllocationId parent = tree.parent(id);
        const bool first = queue_of_[parent.value()] == kNoQueue;
        Open(parent).ranked.push_back(EntryOf(tree, ranking, id));
        if (!first) break;
        id = parent;
      }
    }
    for (std::size_t i = 0; i < used_; ++i) queues_[i].Sort();
  }

  bool empty() const { return queues_[0].empty(); }
  AllocationId first() const {
    AllocationId id = queues_[0].first().id;
    while (by_level_ && queue_of_[id.value()] != kNoQueue) {
      id = queues_[queue_of_[id.value()]].first().id;
    }
    return id;
  }
  // The first leaf has been served; it has its turn `again` or is done. Its keys and those of its
  // ancestors may have changed.
  void Served(const BudgetTree& tree, const Ranking& ranking, bool again) {
    if (!by_level_) {
      queues_[0].Replace(tree, ranking, again);
      return;
    }
    for (AllocationId id = tree.parent(first());; id = tree.parent(id)) {
      Queue& family = queues_[queue_of_[id.value()]];
      family.Replace(tree, ranking, again);
      if (id == kRootAllocation) return;
      again = !family.empty();
    }
  }

 private:
  struct Entry {
    Duration key;
    GpuTime used;
    std::uint32_t order;
    AllocationId id;
    friend bool operator<(const Entry& a, const Entry& b) {
      if (a.key != b.key) return a.key < b.key;
      if (a.used != b.used) return a.used < b.used;
      return a.order < b.order;
    }
  };
  static Entry EntryOf(const BudgetTree& tree, const Ranking& ranking, AllocationId id) {
    return {ranking.key(id), ranking.used(id), tree.order(id), id};
  }
  // Most are asked once, in order; those that have another turn wait in a heap.
  struct Queue {
    AllocationId node;  // whose children these are
    std::vector<Entry> ranked, again;
    std::size_t next = 0;  // of ranked

    bool empty() const { return next == ranked.size() && again.empty(); }
    bool FromHeap() const {
      return !again.empty() && (next == ranked.size() || again.front() < ranked[next]);
    }
    const Entry& first() const { return FromHeap() ? again.front() : ranked[next]; }
    // The first leaves; if it comes `again`, then with its present keys.
    void Replace(const BudgetTree& tree, const Ranking& ranking, bool comes_again) {
      if (!FromHeap()) {
        const AllocationId id = ranked[next++].id;
        if (!comes_again) return;
        again.push_back(EntryOf(tree, ranking, id));
      } else {
        std::pop_heap(again.begin(), again.end(), After);
        if (!comes_again) {
          again.pop_back();
          return;
        }
        again.back() = EntryOf(tree, ranking, again.back().id);
      }
      std::push_heap(again.begin(), again.end(), After);
    }
    // False: it was sorted.
    bool Sort() {
      if (std::is_sorted(ranked.begin(), ranked.end())) return false;
      std::sort(ranked.begin(), ranked.end());
      return true;
    }
    static bool After(const Entry& a, const Entry& b) { return b < a; }
  };

  // The queue of `node`; new ones are empty.
  Queue& Open(AllocationId node) {
    std::uint32_t& at = queue_of_[node.value()];
    if (at != kNoQueue) return queues_[at];
    at = static_cast<std::uint32_t>(used_);
    if (used_ == queues_.size()) queues_.emplace_back();
    Queue& queue = queues_[used_++];
    queue.node = node;
    queue.ranked.clear();
    queue.again.clear();
    queue.next = 0;
    return queue;
  }

  static constexpr std::uint32_t kNoQueue = 0xffffffffu;

  std::vector<AllocationId> leaves_;  // in the order of the last round, new ones at the end
  std::vector<bool> listed_;          // in leaves_, by id
  bool by_level_ = false;
  std::vector<Queue> queues_;  // the first used_ are of this round, the root's first
  std::size_t used_ = 0;
  std::vector<std::uint32_t> queue_of_;  // by id of the inner node
};

}  // namespace tenure

#endif  // TENURE_SERVING_ORDER_H_
