// SPDX-License-Identifier: Apache-2.0
//
// A start time that can be promised to a gang: the nodes that will be interruptible soonest, and
// the instant at which all of them are.
//
//   ReservationPlan plan;
//   if (ReservationSearch().Find(env, policy, shape, plan))  // plan.nodes are free at plan.at
//
// Why the promise holds: every protection in the cluster ends within the largest cap from now, so
// the k nodes chosen are all interruptible at `at` <= now + cap. From then on a reserved node
// admits only work whose protection ends by `at`; a protection is never extended; so at `at`
// nothing on the nodes is protected and the gang takes them whole. Until then they keep working.
//
// Also here: the credit that entitles a leaf to a reservation.
#ifndef TENURE_RESERVATION_H_
#define TENURE_RESERVATION_H_

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/numeric/int128.h"
#include "tenure/cheapest_nodes.h"
#include "tenure/cluster.h"
#include "tenure/placement.h"
#include "tenure/policy.h"
#include "tenure/types.h"
#include "tenure/workload_table.h"
#include "tenure/yield_survey.h"

namespace tenure {

struct ReservationOptions {
  GpuCount gang{64};  // workloads of at least this size get reservations; 0: none do
  // GPU-time, in hours of its own entitlement, by which a leaf must be behind its natural share in
  // the window: before a first run, and, beyond the whole next minimum, before a further one.
  Duration first_credit = std::chrono::hours(11);
  Duration restart_credit = std::chrono::hours(10);
  // The same for smaller workloads of at least this many GPUs, which need whole nodes that a stream
  // of smaller protected work would never leave free together; 0 GPUs: none do.
  GpuCount block{8};
  Duration block_credit = std::chrono::hours(36);

  template <class Archive>
  void Serialize(Archive& ar) {
    ar(gang, first_credit, restart_credit, block, block_credit);
  }
};

struct ReservationPlan {
  std::vector<NodeId> nodes;
  TimePoint at{};
};

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

// Chooses nodes for a reservation. O(N R) and what CheapestNodes costs for k of c candidate nodes.
// Deterministic.
class ReservationSearch {
 public:
  // False if fewer than shape.nodes healthy, unreserved nodes without holds can hold the members
  // past their protection, if they start up to `env.wait` after `plan.at`.
  template <class Policy>
  bool Find(const VictimEnv& env, const Policy& policy, const Shape& shape, ReservationPlan& plan) {
    plan.nodes.clear();
    bool found = false;
    for (const Pool& pool : env.cluster.pools()) {
      if (shape.type != kAnyGpuType && shape.type != pool.type) continue;
      const bool required = shape.rule == TopologyRule::kRequired;
      const std::uint8_t level = required ? internal::EffectiveLevel(env.cluster, shape) : 0;
      for (DomainId d : env.cluster.DomainsAt(level)) {
        ReservationPlan candidate;
        if (!FindIn(env, policy, shape, pool, d, candidate)) continue;
        if (!found || candidate.at < plan.at) plan = std::move(candidate);
        found = true;
      }
    }
    return found;
  }

 private:
  struct Candidate {
    std::int32_t sessions;
    TimePoint at;
    NodeId node;
  };

  template <class Policy>
  bool FindIn(const VictimEnv& env, const Policy& policy, const Shape& shape, const Pool& pool,
              DomainId domain, ReservationPlan& plan) {
    const TimePoint now = env.policy.now;
    const auto [begin, end] = pool.range[domain.value()];
    candidates_.clear();
    for (std::uint32_t slot = begin; slot < end; ++slot) {
      const Node& n = env.cluster.node(pool.nodes[slot]);
      if (!n.up() || n.lane || n.reserved_for != kNoSlot || !n.holds.empty() ||
          n.gpus < shape.gpus) {
        continue;
      }
      const TimePoint at = InterruptibleAt(n, env.table, now);
      if (at < kNever) candidates_.push_back({n.sessions, at, pool.nodes[slot]});
    }
    const std::size_t k = static_cast<std::size_t>(shape.nodes);
    if (candidates_.size() < k) return false;
    // Fewest sessions first, then soonest; the k-th decides how long the gang waits.
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [](const Candidate& a, const Candidate& b) {
                       return std::tie(a.sessions, a.at) < std::tie(b.sessions, b.at);
                     });
    while (true) {
      plan.at = now;
      for (std::size_t i = 0; i < k; ++i) plan.at = std::max(plan.at, candidates_[i].at);
      // A node that closes before the gang is past its protection is none; without it the gang may
      // have to start later.
      const TimePoint ends = shape.EndsBy(plan.at + env.wait);
      if (std::erase_if(candidates_, [&](const Candidate& c) {
            return env.cluster.node(c.node).closes_at < ends;
          }) == 0) {
        break;
      }
      if (candidates_.size() < k) return false;
    }
    candidates_.erase(std::remove_if(candidates_.begin(), candidates_.end(),
                                     [&](const Candidate& c) { return c.at > plan.at; }),
                      candidates_.end());
    // Among all nodes that are ready by then, the ones whose work will be worth least at that time.
    const PolicyContext then{env.policy.tree, env.policy.ranking, plan.at};
    cheapest_.Begin(env.table);
    for (const Candidate& c : candidates_) {
      cheapest_.Offer(c.node, env.cluster.node(c.node), c.at, env.table,
                      [&](const Run& run) { return policy.VictimCost(then, run); });
    }
    cheapest_.Take(shape.nodes, plan.nodes);
    return true;
  }

  std::vector<Candidate> candidates_;
  CheapestNodes cheapest_;
};

// The integral of every leaf's natural share over the lookback window, in buckets of 1/168 of it:
// by how much an allocation is behind what a fluid would have given it. Integer; memory O(168 A).
class CreditMeter {
 public:
  explicit CreditMeter(Duration window = kDefaultLookback)
      : bucket_(std::max(Duration(1), window / kBuckets)) {}

  // From `now` on the shares are `rates[id]`.
  void Set(TimePoint now, const std::vector<MilliGpu>& rates) {
    if (rates_.empty()) last_ = now;
    sums_.resize(rates.size());
    if (now - last_ > bucket_ * (kBuckets + 1)) {  // everything so far is out of the window
      sums_.assign(sums_.size(), Sums());
      last_ = now - bucket_ * kBuckets;
    }
    while (last_ < now) {
      const std::int64_t index = IndexOf(last_);
      const TimePoint end = std::min(now, TimePoint(bucket_ * (index + 1)));
      for (std::size_t i = 0; i < rates_.size(); ++i) {
        sums_[i].Add(index, absl::int128(rates_[i].value()) * (end - last_).count());
      }
      last_ = end;
    }
    rates_ = rates;
  }

  // Nothing is owed to `id` for the past: it was an inner node, whose share went to its children.
  void Forgive(AllocationId id) {
    if (id.value() >= sums_.size()) return;
    sums_[id.value()] = Sums();
    rates_[id.value()] = MilliGpu(0);
  }

  GpuTime Owed(AllocationId id) const {
    if (id.value() >= sums_.size()) return GpuTime(0);
    const absl::int128 total = sums_[id.value()].total;
    const auto narrow = static_cast<std::int64_t>(total);  // a 128-bit division is slow
    return GpuTime(total == narrow ? narrow / 1000 : static_cast<std::int64_t>(total / 1000));
  }

  template <class Archive>
  void Serialize(Archive& ar) {
    ar(bucket_, last_, rates_, sums_);
  }

 private:
  static constexpr std::int64_t kBuckets = 168;

  struct Sums {
    std::vector<std::int64_t> high, low;  // ring of buckets, 128-bit sums
    std::int64_t newest = 0;
    absl::int128 total = 0;

    void Add(std::int64_t index, absl::int128 amount) {
      if (high.empty()) {
        high.assign(kBuckets, 0);
        low.assign(kBuckets, 0);
        newest = index;
      }
      for (; newest < index; ++newest) {
        total -= Get(newest + 1);
        Put(newest + 1, 0);
      }
      total += amount;
      Put(index, Get(index) + amount);
    }
    absl::int128 Get(std::int64_t index) const {
      const std::size_t i = Ring(index);
      return absl::MakeInt128(high[i], static_cast<std::uint64_t>(low[i]));
    }
    void Put(std::int64_t index, absl::int128 value) {
      const std::size_t i = Ring(index);
      high[i] = absl::Int128High64(value);
      low[i] = static_cast<std::int64_t>(absl::Int128Low64(value));
    }
    static std::size_t Ring(std::int64_t index) {
      return static_cast<std::size_t>(((index % kBuckets) + kBuckets) % kBuckets);
    }
    template <class Archive>
    void Serialize(Archive& ar) {
      ar(high, low, newest);
      if constexpr (Archive::kReading) {
        if (high.size() != low.size() || (!high.empty() && high.size() != kBuckets)) {
          high.clear();
          low.clear();
        }
        total = 0;
        for (std::size_t i = 0; i < high.size(); ++i) {
          total += absl::MakeInt128(high[i], static_cast<std::uint64_t>(low[i]));
        }
      }
    }
  };

  std::int64_t IndexOf(TimePoint t) const {
    const std::int64_t us = t.time_since_epoch().count(), b = bucket_.count();
    return us >= 0 ? us / b : -((-us + b - 1) / b);
  }

  Duration bucket_;
  TimePoint last_{};
  std::vector<MilliGpu> rates_;
  std::vector<Sums> sums_;
};

}  // namespace tenure

#endif  // TENURE_RESERVATION_H_
