// SPDX-License-Identifier: Apache-2.0
//
// The machine: nodes with GPUs, GPU types, topology domains of any depth, health, and who occupies
// what.
//
//   tenure::Cluster cluster;
//   tenure::DomainId rack = cluster.AddDomain("rack-1", tenure::kRootDomain).value();
//   tenure::GpuTypeId h100 = cluster.InternGpuType("h100");
//   tenure::NodeId n1 = cluster.AddNode("n1", tenure::GpuCount(8), h100, rack).value();
//
// Copyable value type, thread-compatible. Order of nodes: domains depth first by name, then node
// name; so no answer depends on the order of insertion. Complexity: occupancy updates O(depth of
// the topology + runs on the node); Reindex O(N log N), once after nodes or domains were added.
#ifndef TENURE_CLUSTER_H_
#define TENURE_CLUSTER_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenure/free_index.h"
#include "tenure/index_map.h"
#include "tenure/node.h"
#include "tenure/types.h"

namespace tenure {

inline constexpr std::uint8_t kMaxTopologyDepth = 16;

class Cluster {
 public:
  Cluster() { domains_.push_back({"", kRootDomain, 0}); }

  // --- Structure -----------------------------------------------------------------------------

  // InvalidArgument (depth beyond kMaxTopologyDepth), NotFound (parent), AlreadyExists (name under
  // that parent). A domain holds nodes or further domains.
  absl::StatusOr<DomainId> AddDomain(std::string name, DomainId parent) {
    if (parent.value() >= domains_.size()) {
      return absl::NotFoundError(absl::StrCat("topology domain ", parent.value(), " is unknown"));
    }
    if (domains_[parent.value()].level + 1 > kMaxTopologyDepth) {
      return absl::InvalidArgumentError(
          absl::StrCat("domain '", name, "' is deeper than ", int{kMaxTopologyDepth}, " levels"));
    }
    const DomainId id(static_cast<std::uint32_t>(domains_.size()));
    if (!domain_by_name_.emplace(std::pair(parent, name), id).second) {
      return absl::AlreadyExistsError(absl::StrCat("domain '", name, "' exists"));
    }
    const auto level = static_cast<std::uint8_t>(domains_[parent.value()].level + 1);
    domains_.push_back({std::move(name), parent, level});
    depth_ = std::max(depth_, level);
    stale_ = true;
    return id;
  }

  // The id of a GPU type by name, new if unknown. At most 65,535 types.
  GpuTypeId InternGpuType(const std::string& name) {
    const auto next = GpuTypeId(static_cast<std::uint16_t>(types_.size()));
    const auto [it, is_new] = type_by_name_.emplace(name, next);
    if (is_new) types_.push_back(name);
    return it->second;
  }
  // Nothing if no type has that name.
  std::optional<GpuTypeId> FindGpuType(const std::string& name) const {
    const auto it = type_by_name_.find(name);
    if (it == type_by_name_.end()) return std::nullopt;
    return it->second;
  }

  // InvalidArgument (gpus outside [1, kMaxGpusPerNode], total beyond kMaxClusterGpus), NotFound
  // (domain, type), AlreadyExists (name).
  absl::StatusOr<NodeId> AddNode(std::string name, GpuCount gpus, GpuTypeId type,
                                 DomainId domain = kRootDomain) {
    if (gpus.value() < 1 || gpus.value() > kMaxGpusPerNode) {
      return absl::InvalidArgumentError(absl::StrCat(
          "node '", name, "': ", gpus.value(), " GPUs, must be in [1, ", kMaxGpusPerNode, "]"));
    }
    if (declared_ + gpus > GpuCount(kMaxClusterGpus)) {
      return absl::InvalidArgumentError(absl::StrCat("node '", name, "' makes the cluster larger ",
                                                     "than ", kMaxClusterGpus, " GPUs"));
    }
    if (domain.value() >= domains_.size()) {
      return absl::NotFoundError(
          absl::StrCat("node '", name, "': topology domain ", domain.value(), " is unknown"));
    }
    if (type.value() >= types_.size()) {
      return absl::NotFoundError(
          absl::StrCat("node '", name, "': GPU type ", type.value(), " is unknown"));
    }
    const NodeId id(static_cast<std::uint32_t>(nodes_.size()));
    if (!by_name_.emplace(name, id).second) {
      return absl::AlreadyExistsError(absl::StrCat("node '", name, "' exists"));
    }
    Node node;
    node.name = std::move(name);
    node.gpus = static_cast<std::int32_t>(gpus.value());
    node.type = type;
    node.domain = domain;
    nodes_.push_back(std::move(node));
    declared_ += gpus;
    CountHealthy(nodes_.back(), +1);
    stale_ = true;
    return id;
  }

  absl::StatusOr<NodeId> Find(const std::string& name) const {
    const auto it = by_name_.find(name);
    if (it == by_name_.end()) return absl::NotFoundError(absl::StrCat("no node '", name, "'"));
    return it->second;
  }

  // Share of the nodes of each pool, in thousandths and rounded, that form the lane: the last ones
  // in topological order. They take only short protections (`lane_minimum`) and unfunded work.
  void SetLane(std::int64_t permille) {
    lane_permille_ = permille;
    stale_ = true;
  }

  std::size_t size() const { return nodes_.size(); }
  bool contains(NodeId id) const { return id.value() < nodes_.size(); }
  const Node& node(NodeId id) const { return nodes_[id.value()]; }
  const std::vector<Node>& nodes() const { return nodes_; }
  std::size_t domains() const { return domains_.size(); }
  DomainId parent(DomainId d) const { return domains_[d.value()].parent; }
  std::uint8_t level(DomainId d) const { return domains_[d.value()].level; }
  std::uint8_t depth() const { return depth_; }  // of the deepest domain; 0 = no domains
  const std::vector<std::string>& gpu_types() const { return types_; }

  GpuCount declared() const { return declared_; }  // all nodes
  GpuCount healthy() const { return healthy_; }    // nodes that are up, not in maintenance
  GpuCount healthy(GpuTypeId type) const {
    return type.value() < healthy_of_.size() ? healthy_of_[type.value()] : GpuCount(0);
  }
  GpuCount free() const { return free_; }  // may be given away now

  // --- Occupancy (the Scheduler keeps these exact) --------------------------------------------

  void SetHealth(NodeId id, NodeHealth health) {
    const Node& n = nodes_[id.value()];
    CountHealthy(n, -1);
    Change(id, [&](Node& x) { x.health = health; });
    CountHealthy(n, +1);
  }
  // See Node; kNever: no maintenance is announced.
  void SetMaintenance(NodeId id, TimePoint closes_at, bool closing, bool closed) {
    const Node& n = nodes_[id.value()];
    if (n.closes_at == closes_at && n.closing == closing && n.closed == closed) return;
    CountHealthy(n, -1);
    Change(id, [&](Node& x) {
      Unindex(x);
      x.closes_at = closes_at;
      x.closing = closing;
      x.closed = closed;
    });
    CountHealthy(n, +1);
  }
  void Occupy(NodeId id, RunSlot run, std::int32_t gpus, bool session) {
    Change(id, [&](Node& n) {
      n.occupied += gpus;
      n.sessions += session;
      n.runs.push_back({run, gpus});
    });
  }
  // `was_stopping` must say whether MarkStopping was called for this run.
  void Vacate(NodeId id, RunSlot run, std::int32_t gpus, bool session, bool was_stopping) {
    Change(id, [&](Node& n) {
      n.occupied -= gpus;
      n.sessions -= session;
      if (was_stopping) n.stopping -= gpus;
      EraseRun(n.runs, run);
    });
  }
  void MarkStopping(NodeId id, std::int32_t gpus) {
    Change(id, [&](Node& n) { n.stopping += gpus; });
  }
  void UnmarkStopping(NodeId id, std::int32_t gpus) {
    Change(id, [&](Node& n) { n.stopping -= gpus; });
  }
  void Claim(NodeId id, RunSlot run, std::int32_t gpus) {
    Change(id, [&](Node& n) {
      n.claimed += gpus;
      n.holds.push_back({run, gpus});
    });
  }
  void Unclaim(NodeId id, RunSlot run, std::int32_t gpus) {
    Change(id, [&](Node& n) {
      n.claimed -= gpus;
      EraseRun(n.holds, run);
    });
  }

  // From now on only work whose protection ends by `at` starts on the node.
  void Reserve(NodeId id, RunSlot run, TimePoint at) {
    Change(id, [&](Node& n) {
      Unindex(n);
      n.reserved_for = run;
      n.reserved_at = at;
    });
  }
  void Unreserve(NodeId id) {
    Change(id, [&](Node& n) {
      Unindex(n);
      n.reserved_for = kNoSlot;
    });
  }

  // To be called when the protection of a run on the node has changed. All of the above does it,
  // too.
  void Touch(NodeId id) {
    if (!stale_) pools_[PoolOf(id)].touched.Set(node(id).slot, true);
  }
  // Calls `visit(slot)` for the nodes of a pool that were touched since the last call, ascending:
  // there is one index that needs to know (ProtectionOrder). Valid after Reindex, which touches all
  // nodes if anything was added.
  template <class Visit>
  void TakeTouched(std::size_t pool, const Visit& visit) {
    internal::Bitmap& touched = pools_[pool].touched;
    for (std::int64_t s = touched.NextFrom(0); s >= 0; s = touched.NextFrom(0)) {
      touched.Erase(static_cast<std::size_t>(s));
      visit(static_cast<std::size_t>(s));
    }
  }

  // --- Indices --------------------------------------------------------------------------------

  // Brings the indices up to date after AddNode, AddDomain or SetLane. Cheap when nothing changed.
  void Reindex() {
    if (stale_) Rebuild();
  }
  // One per GPU type that has nodes, in order of type name. Valid after Reindex.
  const std::vector<Pool>& pools() const { return pools_; }
  // The position in pools() of a node's pool. Valid after Reindex.
  std::size_t PoolOf(NodeId id) const { return pool_of_type_[node(id).type.value()]; }
  // Domains of a level in topological order (level 0: the root). Valid after Reindex.
  std::span<const DomainId> DomainsAt(std::uint8_t level) const {
    return std::span(by_column_)
        .subspan(first_column_[level], first_column_[level + 1u] - first_column_[level]);
  }
  // Those inside `domain`, itself included: [first, last) of DomainsAt(level). Valid after Reindex.
  std::pair<std::size_t, std::size_t> Inside(DomainId domain, std::uint8_t level) const {
    const auto all = DomainsAt(level);
    const auto from = [&](std::uint32_t rank) {
      return static_cast<std::size_t>(
          std::lower_bound(all.begin(), all.end(), rank,
                           [&](DomainId d, std::uint32_t r) { return rank_[d.value()] < r; }) -
          all.begin());
    };
    return {from(rank_[domain.value()]), from(end_rank_[domain.value()])};
  }
  // Where the counts of DomainsAt(level) begin in a FreeIndex of a pool. Valid after Reindex.
  std::size_t FirstColumn(std::uint8_t level) const { return first_column_[level]; }

  template <class Archive>
  void Serialize(Archive& ar) {
    ar(domains_, types_, nodes_, lane_permille_);
    if constexpr (Archive::kReading) {
      depth_ = 0;
      domain_by_name_.clear();
      for (std::size_t d = 1; d < domains_.size(); ++d) {
        depth_ = std::max(depth_, domains_[d].level);
        domain_by_name_.emplace(std::pair(domains_[d].parent, domains_[d].name),
                                DomainId(static_cast<std::uint32_t>(d)));
      }
      type_by_name_.clear();
      for (std::size_t i = 0; i < types_.size(); ++i) {
        type_by_name_.emplace(types_[i], GpuTypeId(static_cast<std::uint16_t>(i)));
      }
      by_name_.clear();
      declared_ = healthy_ = GpuCount(0);
      healthy_of_.clear();
      for (std::size_t i = 0; i < nodes_.size(); ++i) {
        const Node& n = nodes_[i];
        by_name_.emplace(n.name, NodeId(static_cast<std::uint32_t>(i)));
        declared_ += GpuCount(n.gpus);
        CountHealthy(n, +1);
      }
      stale_ = true;
    }
  }

 private:
  struct Domain {
    std::string name;
    DomainId parent;
    std::uint8_t level = 0;
    template <class Archive>
    void Serialize(Archive& ar) {
      ar(name, parent, level);
    }
  };

  void CountHealthy(const Node& n, std::int64_t sign) {
    if (!n.up()) return;
    if (healthy_of_.size() <= n.type.value()) healthy_of_.resize(n.type.value() + std::size_t{1});
    healthy_of_[n.type.value()] += GpuCount(sign * n.gpus);
    healthy_ += GpuCount(sign * n.gpus);
  }

  template <class List>
  static void EraseRun(List& list, RunSlot run) {
    for (auto it = list.begin(); it != list.end(); ++it) {
      if (it->run == run) {
        list.erase(it);
        return;
      }
    }
  }

  // Applies `edit` to the node and brings free_ and the indices along.
  template <class Edit>
  void Change(NodeId id, Edit&& edit) {
    Node& n = nodes_[id.value()];
    const Marks before = MarksOf(n);
    edit(n);
    const Marks now = MarksOf(n);
    free_ += GpuCount(now.available - before.available);
    if (!stale_) Index(n, before, now);
  }

  // What the indices say of a node.
  struct Marks {
    std::int32_t available = 0;  // free GPUs, if it is up
    bool sessions = false, closing = false, vacating = false;
  };
  static Marks MarksOf(const Node& n) {
    return {n.up() ? std::max(0, n.free()) : 0, n.sessions > 0, n.closing, n.vacating()};
  }

  static internal::FreeIndex& IndexOf(Pool& pool, const Node& n) {
    if (n.lane) return pool.lane;
    return n.reserved_for != kNoSlot || n.closing ? pool.reserved : pool.general;
  }
  // Before the node changes from one index to another.
  void Unindex(const Node& n) {
    if (stale_) return;
    IndexOf(pools_[pool_of_type_[n.type.value()]], n).Set(n.slot, internal::FreeIndex::kAbsent);
  }

  // `before`: the marks under which it was indexed last.
  void Index(const Node& n, const Marks& before, const Marks& now) {
    Pool& pool = pools_[pool_of_type_[n.type.value()]];
    IndexOf(pool, n).Set(
        n.slot, n.up() ? static_cast<std::int16_t>(now.available) : internal::FreeIndex::kAbsent);
    pool.touched.Set(n.slot, true);
    if (now.sessions != before.sessions) pool.sessions.Set(n.slot, now.sessions);
    if (now.closing != before.closing) pool.closing.Set(n.slot, now.closing);
    if (now.vacating != before.vacating) pool.vacating.Set(n.slot, now.vacating);
  }

  void Rebuild();

  std::vector<Domain> domains_;
  std::vector<std::string> types_;
  std::vector<Node> nodes_;
  internal::IndexMap<std::pair<DomainId, std::string>, DomainId> domain_by_name_;  // of its parent
  internal::IndexMap<std::string, GpuTypeId> type_by_name_;
  internal::IndexMap<std::string, NodeId> by_name_;
  std::int64_t lane_permille_ = 0;
  std::uint8_t depth_ = 0;
  GpuCount declared_, healthy_, free_;
  std::vector<GpuCount> healthy_of_;  // by type
  // Derived by Rebuild.
  bool stale_ = true;
  std::vector<Pool> pools_;
  std::vector<std::size_t> pool_of_type_;
  std::vector<DomainId> by_column_;        // level by level, each in topological order
  std::vector<std::size_t> first_column_;  // by level, and the end
  std::vector<std::uint32_t> rank_;        // by domain: position in the depth-first walk
  std::vector<std::uint32_t> end_rank_;    // by domain: first rank after all that is inside
};

inline void Cluster::Rebuild() {
  stale_ = false;
  // Depth-first order of the domains by name.
  std::vector<std::vector<DomainId>> children(domains_.size());
  for (std::size_t d = 1; d < domains_.size(); ++d) {
    children[domains_[d].parent.value()].push_back(DomainId(static_cast<std::uint32_t>(d)));
  }
  for (auto& c : children) {
    std::sort(c.begin(), c.end(), [&](DomainId a, DomainId b) {
      return domains_[a.value()].name < domains_[b.value()].name;
    });
  }
  std::vector<DomainId> walk, stack = {kRootDomain};
  rank_.assign(domains_.size(), 0);
  while (!stack.empty()) {
    const DomainId d = stack.back();
    stack.pop_back();
    rank_[d.value()] = static_cast<std::uint32_t>(walk.size());
    walk.push_back(d);
    const auto& c = children[d.value()];
    stack.insert(stack.end(), c.rbegin(), c.rend());
  }
  end_rank_.assign(domains_.size(), 0);
  for (auto it = walk.rbegin(); it != walk.rend(); ++it) {
    std::uint32_t& end = end_rank_[it->value()];
    end = std::max(end, rank_[it->value()] + 1);
    std::uint32_t& above = end_rank_[domains_[it->value()].parent.value()];
    above = std::max(above, end);
  }
  by_column_ = walk;
  std::stable_sort(by_column_.begin(), by_column_.end(), [&](DomainId a, DomainId b) {
    return domains_[a.value()].level < domains_[b.value()].level;
  });
  first_column_.assign(std::size_t{kMaxTopologyDepth} + 2, by_column_.size());
  std::vector<std::uint32_t> column(domains_.size());
  for (std::size_t c = by_column_.size(); c-- > 0;) {
    column[by_column_[c].value()] = static_cast<std::uint32_t>(c);
    first_column_[domains_[by_column_[c].value()].level] = c;
  }

  std::vector<NodeId> order(nodes_.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = NodeId(static_cast<std::uint32_t>(i));
  std::sort(order.begin(), order.end(), [&](NodeId a, NodeId b) {
    const Node &x = node(a), &y = node(b);
    if (x.type != y.type) return types_[x.type.value()] < types_[y.type.value()];
    if (x.domain != y.domain) return rank_[x.domain.value()] < rank_[y.domain.value()];
    return x.name < y.name;
  });

  std::vector<DomainId> parent(domains_.size());
  for (std::size_t d = 0; d < domains_.size(); ++d) parent[d] = domains_[d].parent;
  pools_.clear();
  pool_of_type_.assign(types_.size(), 0);
  free_ = GpuCount(0);
  for (std::size_t i = 0; i < order.size();) {
    Pool pool;
    pool.type = node(order[i]).type;
    std::int32_t largest = 0;
    std::vector<DomainId> domain_of_slot;
    pool.range.assign(domains_.size(), {0, 0});
    pool.shallowest.assign(domains_.size(), kMaxTopologyDepth);
    pool.widest.assign(std::size_t{depth_} + 1, 0);
    for (; i < order.size() && node(order[i]).type == pool.type; ++i) {
      Node& n = nodes_[order[i].value()];
      n.slot = static_cast<std::uint32_t>(pool.nodes.size());
      largest = std::max(largest, n.gpus);
      for (DomainId d = n.domain;; d = parent[d.value()]) {
        auto& [begin, end] = pool.range[d.value()];
        if (begin == end) begin = n.slot;
        end = n.slot + 1;
        std::uint8_t& shallowest = pool.shallowest[d.value()];
        shallowest = std::min(shallowest, domains_[n.domain.value()].level);
        std::int32_t& widest = pool.widest[domains_[d.value()].level];
        widest = std::max(widest, static_cast<std::int32_t>(end - begin));
        if (d == kRootDomain) break;
      }
      pool.nodes.push_back(order[i]);
      domain_of_slot.push_back(n.domain);
    }
    const auto levels = static_cast<std::size_t>(largest) + 1;
    for (auto* index :
         {&pool.declared, &pool.declared_lane, &pool.general, &pool.lane, &pool.reserved}) {
      index->Reset(levels, domain_of_slot, parent, column);
    }
    pool.sessions.Reset(pool.nodes.size());
    pool.closing.Reset(pool.nodes.size());
    pool.vacating.Reset(pool.nodes.size());
    pool.touched.Reset(pool.nodes.size());
    const std::int64_t n = static_cast<std::int64_t>(pool.nodes.size());
    const std::int64_t lane = (n * lane_permille_ + 500) / 1000;
    pool_of_type_[pool.type.value()] = pools_.size();
    pools_.push_back(std::move(pool));
    Pool& p = pools_.back();
    for (std::int64_t s = 0; s < n; ++s) {
      Node& x = nodes_[p.nodes[static_cast<std::size_t>(s)].value()];
      x.lane = s >= n - lane;
      (x.lane ? p.declared_lane : p.declared).Set(x.slot, static_cast<std::int16_t>(x.gpus));
      const Marks now = MarksOf(x);
      free_ += GpuCount(now.available);
      Index(x, Marks(), now);
    }
  }
}

}  // namespace tenure

#endif  // TENURE_CLUSTER_H_
