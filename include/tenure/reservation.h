// SPDX-License-Identifier: Apache-2.0
//
// A start time that can be promised to a gang: the nodes that will be interruptible soonest, and
// the instant at which all of them are.
//
//   ReservationSearch search;
//   ReservationPlan plan;
//   search.Update(cluster, table);
//   if (search.Find(env, policy, shape, plan))  // plan.nodes are free at plan.at
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
#include <utility>
#include <vector>

#include "absl/numeric/int128.h"
#include "tenure/cheapest_nodes.h"
#include "tenure/cluster.h"
#include "tenure/placement.h"
#include "tenure/policy.h"
#include "tenure/protection_order.h"
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

// Chooses nodes for a reservation. For k nodes of c that are interruptible in time: what
// ProtectionOrder costs, for each domain, and CheapestNodes for the best. Deterministic.
class ReservationSearch {
 public:
  // To be called before Find if cluster or table have changed.
  void Update(Cluster& cluster, const WorkloadTable& table) { order_.Update(cluster, table); }
  const ProtectionOrder& order() const { return order_; }

  // False if fewer than shape.nodes healthy, unreserved nodes without holds can hold the members
  // past their protection, if they start up to `env.wait` after `plan.at`.
  template <class Policy>
  bool Find(const VictimEnv& env, const Policy& policy, const Shape& shape, ReservationPlan& plan) {
    plan.nodes.clear();
    Place best;
    bool found = false;
    const bool required = shape.rule == TopologyRule::kRequired;
    const std::uint8_t level = required ? internal::EffectiveLevel(env.cluster, shape) : 0;
    for (std::size_t p = 0; p < env.cluster.pools().size(); ++p) {
      const Pool& pool = env.cluster.pools()[p];
      if (shape.type != kAnyGpuType && shape.type != pool.type) continue;
      for (DomainId d : env.cluster.DomainsAt(level)) {
        const auto [begin, end] = pool.range[d.value()];
        Place place{p, begin, end};
        if (found && !MayBeBefore(place, shape, best.at)) continue;
        if (!Soonest(env, shape, place) || (found && place.at >= best.at)) continue;
        found = true;
        best = place;
        if (best.at == env.policy.now) break;
      }
      if (found && best.at == env.policy.now) break;
    }
    if (!found) return false;
    plan.at = best.at;
    Choose(env, policy, shape, best, plan.nodes);
    return true;
  }

 private:
  // A domain: slots of a pool.
  struct Place {
    std::size_t pool = 0;
    std::uint32_t begin = 0, end = 0;
    TimePoint at{};                     // enough nodes are interruptible then
    TimePoint open = TimePoint::min();  // counting those that close no earlier than this
  };

  // False if too few nodes are interruptible before `at`, whatever their sessions and windows.
  bool MayBeBefore(const Place& place, const Shape& shape, TimePoint at) const {
    std::int32_t missing = shape.nodes;
    order_.VisitEnding(place.pool, place.begin, place.end, at - Duration(1),
                       [&](std::uint32_t) { return --missing > 0; });
    return missing == 0;
  }

  static bool Usable(const Node& n, const Shape& shape, const Place& place) {
    return n.gpus >= shape.gpus && n.closes_at >= place.open;
  }

  // Fewest sessions first, then soonest; the k-th decides how long the gang waits.
  bool Soonest(const VictimEnv& env, const Shape& shape, Place& place) {
    const auto node = [&](std::uint32_t slot) -> const Node& {
      return env.cluster.node(env.cluster.pools()[place.pool].nodes[slot]);
    };
    const std::size_t k = static_cast<std::size_t>(shape.nodes);
    if (place.end - place.begin < k) return false;
    while (order_.First(
        place.pool, place.begin, place.end, k,
        [&](std::uint32_t slot) { return Usable(node(slot), shape, place); }, first_)) {
      place.at = env.policy.now;
      for (const ProtectionOrder::Slotted& s : first_) {
        place.at = std::max(place.at, s.entry.end);
      }
      // A node that closes before the gang is past its protection is none; without it the gang may
      // have to start later.
      place.open = std::max(place.open, shape.EndsBy(place.at + env.wait));
      if (std::all_of(first_.begin(), first_.end(), [&](const ProtectionOrder::Slotted& s) {
            return Usable(node(s.slot), shape, place);
          })) {
        return true;
      }
    }
    return false;
  }

  // Among all nodes that are ready by then, the ones whose work will be worth least at that time.
  template <class Policy>
  void Choose(const VictimEnv& env, const Policy& policy, const Shape& shape, const Place& place,
              std::vector<NodeId>& nodes) {
    const Pool& pool = env.cluster.pools()[place.pool];
    const PolicyContext then{env.policy.tree, env.policy.ranking, place.at};
    const auto cost = [&](const Run& run) { return policy.VictimCost(then, run); };
    cheapest_.Begin(env.table);
    order_.VisitEnding(place.pool, place.begin, place.end, place.at, [&](std::uint32_t slot) {
      const Node& n = env.cluster.node(pool.nodes[slot]);
      if (Usable(n, shape, place)) {
        const TimePoint end = order_.entry(place.pool, slot).end;
        cheapest_.Offer(pool.nodes[slot], n, std::max(end, env.policy.now), env.table, cost);
      }
      return true;
    });
    cheapest_.Take(shape.nodes, nodes);
  }

  ProtectionOrder order_;
  CheapestNodes cheapest_;
  std::vector<ProtectionOrder::Slotted> first_;
};

// The integral of every leaf's natural share over the lookback window, to 1/168 of it: by how much
// an allocation is behind what a fluid would have given it. Integer; 2.7 KB for each allocation
// that was ever owed anything. Advance and Owed O(1), Set O(1/168ths of the window since the last
// Set of that allocation).
class CreditMeter {
 public:
  explicit CreditMeter(Duration window = kDefaultLookback)
      : bucket_(std::max(Duration(1), window / kBuckets)) {}

  // Time passes.
  void Advance(TimePoint now) {
    now_ = std::max(now_, now);
    if (now_ > BeginOf(newest_ + 1)) SetWindow();
  }

  // From now on the share of `id` is `rate`.
  void Set(AllocationId id, MilliGpu rate) {
    const std::size_t i = id.value();
    if (i >= shares_.size()) {
      if (rate == MilliGpu(0)) return;
      shares_.resize(i + 1);
    }
    if (shares_[i].rate == rate) return;
    Settle(shares_[i]);
    shares_[i].rate = rate;
  }

  // Nothing is owed to `id` for the past: it was an inner node, whose share went to its children.
  void Forgive(AllocationId id) {
    if (id.value() < shares_.size()) shares_[id.value()] = Share();
  }

  // In the 1/168th of the window that has begun and the 167 before.
  GpuTime Owed(AllocationId id) const {
    if (id.value() >= shares_.size()) return GpuTime(0);
    const Share& share = shares_[id.value()];
    const absl::int128 owed = Sum(share, now_) - SumAt(share, first());
    const auto narrow = static_cast<std::int64_t>(owed);  // a 128-bit division is slow
    return GpuTime(owed == narrow ? narrow / 1000 : static_cast<std::int64_t>(owed / 1000));
  }

  template <class Archive>
  void Serialize(Archive& ar) {
    ar(bucket_, now_);
    // Whatever a damaged archive says, nothing overflows.
    if constexpr (Archive::kReading) {
      bucket_ = std::clamp(bucket_, Duration(1), kMaxLookback);
      now_ = std::clamp(now_, TimePoint(-kTimeLimit), TimePoint(kTimeLimit));
      SetWindow();
    }
    std::vector<MilliGpu> rates;
    std::vector<Parts> parts;
    if constexpr (!Archive::kReading) {
      for (const Share& share : shares_) {
        rates.push_back(share.rate);
        parts.push_back(PartsOf(share));
      }
    }
    ar(rates, parts);
    if constexpr (Archive::kReading) {
      parts.resize(rates.size());
      shares_.assign(rates.size(), Share());
      for (std::size_t i = 0; i < rates.size(); ++i) {
        SetParts(parts[i], shares_[i]);
        shares_[i].rate = rates[i];
      }
    }
  }

 private:
  static constexpr std::int64_t kBuckets = 168;

  struct Share {
    MilliGpu rate;  // since `since`
    TimePoint since{};
    absl::int128 sum = 0;  // owed until `since`
    // The same at the beginnings of the buckets before `since`, a ring; empty: always 0.
    std::vector<absl::int128> sums;
  };

  // What was owed in each bucket of the window, which says the same whenever a sum began: two rings
  // of 64 bits each, empty if nothing was.
  struct Parts {
    std::vector<std::int64_t> high, low;
    std::int64_t newest = 0;
    template <class Archive>
    void Serialize(Archive& ar) {
      ar(high, low, newest);
    }
  };

  std::int64_t IndexOf(TimePoint t) const {  // of the bucket it is in
    const std::int64_t us = t.time_since_epoch().count(), b = bucket_.count();
    return us >= 0 ? us / b : -((-us + b - 1) / b);
  }
  TimePoint BeginOf(std::int64_t index) const { return TimePoint(bucket_ * index); }
  void SetWindow() { newest_ = IndexOf(now_ - Duration(1)); }
  std::int64_t first() const { return newest_ - kBuckets + 1; }  // bucket of the window
  static std::size_t Ring(std::int64_t index) {
    return static_cast<std::size_t>(((index % kBuckets) + kBuckets) % kBuckets);
  }

  // Owed until t >= since.
  static absl::int128 Sum(const Share& share, TimePoint t) {
    if (share.rate == MilliGpu(0)) return share.sum;
    return share.sum + absl::int128(share.rate.value()) * (t - share.since).count();
  }
  // Owed until the beginning of a bucket of the window, or until now if it is in the future.
  absl::int128 SumAt(const Share& share, std::int64_t index) const {
    const TimePoint t = std::min(now_, BeginOf(index));
    if (t >= share.since) return Sum(share, t);
    return share.sums.empty() ? 0 : share.sums[Ring(index)];
  }

  // Makes now its `since`.
  void Settle(Share& share) const {
    if (share.sums.empty() && Sum(share, now_) != 0) share.sums.resize(kBuckets);
    if (!share.sums.empty()) {
      std::int64_t index = std::max(IndexOf(share.since - Duration(1)) + 1, first());
      for (; BeginOf(index) < now_; ++index) {
        share.sums[Ring(index)] = SumAt(share, index);
      }
    }
    share.sum = Sum(share, now_);
    share.since = now_;
  }

  Parts PartsOf(const Share& share) const {
    Parts parts;
    if (SumAt(share, first()) == Sum(share, now_)) return parts;
    parts.high.resize(kBuckets);
    parts.low.resize(kBuckets);
    parts.newest = newest_;
    for (std::int64_t i = first(); i <= newest_; ++i) {
      const absl::int128 part = SumAt(share, i + 1) - SumAt(share, i);
      parts.high[Ring(i)] = absl::Int128High64(part);
      parts.low[Ring(i)] = static_cast<std::int64_t>(absl::Int128Low64(part));
    }
    return parts;
  }
  void SetParts(const Parts& parts, Share& share) const {
    share.since = now_;
    // No part of the largest cluster is as large as 2^96.
    const auto plausible = [](std::int64_t high) { return high >= 0 && high >> 32 == 0; };
    if (parts.high.size() != kBuckets || parts.low.size() != kBuckets || parts.newest != newest_ ||
        !std::all_of(parts.high.begin(), parts.high.end(), plausible)) {
      return;
    }
    share.sums.resize(kBuckets);
    for (std::int64_t i = first(); i <= newest_; ++i) {
      share.sums[Ring(i)] = share.sum;
      share.sum +=
          absl::MakeInt128(parts.high[Ring(i)], static_cast<std::uint64_t>(parts.low[Ring(i)]));
    }
  }

  Duration bucket_;
  TimePoint now_{-kTimeLimit};
  std::int64_t newest_ = IndexOf(now_ - Duration(1));  // the last bucket with any time before now
  std::vector<Share> shares_;                          // by id
};

}  // namespace tenure

#endif  // TENURE_RESERVATION_H_
