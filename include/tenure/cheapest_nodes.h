// SPDX-License-Identifier: Apache-2.0
//
// The k nodes whose work costs least to stop, one after the other. A run over several nodes is paid
// once: its cost is spread over the nodes still needed, and nothing once one of its nodes is taken.
//
//   CheapestNodes cheapest;
//   cheapest.Begin(table);
//   cheapest.Offer(id, node, at, table, cost);  // node is interruptible at `at`; cost(run) >= 0
//   cheapest.Take(k, nodes);                    // appends k of the nodes offered
//
// One invariant: of every node that is not taken the heap has an entry that is at most what the
// node costs now. So the first entry that is exact is the cheapest node: a cost grows as fewer
// nodes are needed, which is seen when the entry comes up, and falls only when a run is paid, which
// makes a new entry for each of its nodes.
//
// Complexity for c nodes with R runs each: Begin O(1) amortised, Offer O(R) and one call of `cost`
// for every run, Take O(c + (k + u) log c), where u entries of runs over several nodes have to be
// made anew: few unless many of them are larger than what is needed. Of equal costs the fewest
// sessions first, then the soonest, then the first offered. Deterministic.
#ifndef TENURE_CHEAPEST_NODES_H_
#define TENURE_CHEAPEST_NODES_H_

#include <algorithm>
#include <compare>
#include <cstdint>
#include <functional>
#include <vector>

#include "tenure/node.h"
#include "tenure/types.h"
#include "tenure/workload_table.h"

namespace tenure {

class CheapestNodes {
 public:
  void Begin(const WorkloadTable& table) {
    candidates_.clear();
    parts_.clear();
    shared_.clear();
    shared_of_.resize(table.slots(), 0);
  }

  template <class Cost>
  void Offer(NodeId id, const Node& node, TimePoint at, const WorkloadTable& table,
             const Cost& cost) {
    const auto first_part = static_cast<std::uint32_t>(parts_.size());
    Candidate c{id, node.sessions, at, 0, first_part, first_part};
    for (const Occupant& o : node.runs) {
      const Run& run = table.run(o.run);
      if (run.state == WorkloadState::kStopping) continue;
      if (run.node_count <= 1) {
        c.own += cost(run);
        continue;
      }
      std::uint32_t& s = shared_of_[o.run];
      if (s >= shared_.size() || shared_[s].run != o.run) {
        s = static_cast<std::uint32_t>(shared_.size());
        shared_.push_back({o.run, run.node_count, cost(run)});
      }
      parts_.push_back({s, static_cast<std::uint32_t>(candidates_.size()), shared_[s].last_part});
      shared_[s].last_part = static_cast<std::uint32_t>(parts_.size() - 1);
    }
    c.end_part = static_cast<std::uint32_t>(parts_.size());
    candidates_.push_back(c);
  }

  // Once after Begin. Requires that at least k nodes were offered.
  void Take(std::int32_t k, std::vector<NodeId>& nodes) {
    heap_.clear();
    for (std::uint32_t c = 0; c < candidates_.size(); ++c) heap_.push_back(EntryOf(c, k));
    std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
    while (k > 0) {
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
      const Entry least = heap_.back();
      heap_.pop_back();
      Candidate& c = candidates_[least.candidate];
      if (c.taken) continue;
      if (const Entry now = EntryOf(least.candidate, k); now.cost > least.cost) {
        Push(now);
        continue;
      }
      c.taken = true;
      nodes.push_back(c.node);
      if (--k > 0) Pay(c, k);
    }
  }

 private:
  struct Candidate {
    NodeId node;
    std::int32_t sessions;
    TimePoint at;
    std::int64_t own;                    // cost of its runs that have no other node
    std::uint32_t first_part, end_part;  // in parts_
    bool taken = false;
  };
  // A run over several nodes.
  struct Shared {
    RunSlot run;
    std::int32_t nodes;
    std::int64_t cost;
    std::uint32_t last_part = kNoPart;
    bool paid = false;
  };
  // Such a run on one of the candidates.
  struct Part {
    std::uint32_t shared, candidate;
    std::uint32_t before;  // of the same run
  };
  struct Entry {
    std::int64_t cost;
    std::int32_t sessions;
    TimePoint at;
    std::uint32_t candidate;
    friend auto operator<=>(const Entry&, const Entry&) = default;
  };
  static constexpr std::uint32_t kNoPart = 0xffffffffu;

  // What it costs if `needed` more nodes are to be taken.
  Entry EntryOf(std::uint32_t candidate, std::int32_t needed) const {
    const Candidate& c = candidates_[candidate];
    std::int64_t cost = c.own;
    for (std::uint32_t p = c.first_part; p < c.end_part; ++p) {
      const Shared& s = shared_[parts_[p].shared];
      if (!s.paid) cost += s.cost / std::min(s.nodes, needed);
    }
    return {cost, c.sessions, c.at, candidate};
  }

  void Push(const Entry& e) {
    heap_.push_back(e);
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  }

  // The runs of `c` are paid: their other nodes cost less.
  void Pay(const Candidate& c, std::int32_t needed) {
    for (std::uint32_t p = c.first_part; p < c.end_part; ++p) {
      Shared& s = shared_[parts_[p].shared];
      if (s.paid) continue;
      s.paid = true;
      for (std::uint32_t q = s.last_part; q != kNoPart; q = parts_[q].before) {
        const std::uint32_t other = parts_[q].candidate;
        if (!candidates_[other].taken) Push(EntryOf(other, needed));
      }
    }
  }

  std::vector<Candidate> candidates_;
  std::vector<Part> parts_;
  std::vector<Shared> shared_;
  std::vector<std::uint32_t> shared_of_;  // by slot of a run: its place in shared_, if it is there
  std::vector<Entry> heap_;
};

}  // namespace tenure

#endif  // TENURE_CHEAPEST_NODES_H_
