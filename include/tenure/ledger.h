// SPDX-License-Identifier: Apache-2.0
//
// Who uses, runs, waits for and has been promised how much: one account per node of the budget
// tree.
//
//   ledger.Charge(tree, leaf, start, GpuCount(8));    // 8 GPUs are occupied from `start` on
//   ledger.Charge(tree, leaf, end, GpuCount(-8));     // and released at `end`
//   GpuTime used = ledger.Use(leaf, now);             // inside the lookback window
//
// Everything is charged to the leaf and all its ancestors in integers, so a parent is the exact sum
// of its children at any time. Complexity: O(depth) amortised per change. Copyable,
// thread-compatible.
//
// Amounts that shares are compared with are charged GPUs: GPUs x the rate of their type, as
// MilliGpu. Where a plain GpuCount is given, the rate is the standard one. Charges over time are
// kept in whole units of 1 / unit() of a GPU, 1 as long as all rates are multiples of it; so they
// are exact, and answers are in GPU-time, with the thousandths apart (UseRest).
#ifndef TENURE_LEDGER_H_
#define TENURE_LEDGER_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/numeric/int128.h"
#include "tenure/budget_tree.h"
#include "tenure/types.h"
#include "tenure/usage_meter.h"

namespace tenure {

class Ledger {
 public:
  explicit Ledger(Duration window = kDefaultLookback) : window_(window) {}

  Duration window() const { return window_; }
  // Opens accounts for allocations added to the tree since the last call.
  void Open(const BudgetTree& tree) {
    while (accounts_.size() < tree.size()) accounts_.emplace_back(window_);
  }

  // Funded (charged) and unfunded (free, reported apart) occupancy changes by `delta` at `at`.
  void Charge(const BudgetTree& tree, AllocationId leaf, TimePoint at, MilliGpu delta) {
    const GpuCount units(Units(delta));
    ForPath(tree, leaf, [&](Account& a) { a.funded.Change(at, units); });
  }
  void Charge(const BudgetTree& tree, AllocationId leaf, TimePoint at, GpuCount delta) {
    Charge(tree, leaf, at, ToMilli(delta));
  }
  void ChargeUnfunded(const BudgetTree& tree, AllocationId leaf, TimePoint at, GpuCount delta) {
    ForPath(tree, leaf, [&](Account& a) { a.unfunded.Change(at, delta); });
  }
  // Funded GPUs placed (running, starting or held) and funded GPUs waiting.
  void AddPlaced(const BudgetTree& tree, AllocationId leaf, GpuCount delta, MilliGpu charge) {
    ForPath(tree, leaf, [&](Account& a) {
      a.placed += delta;
      a.placed_charge += charge;
    });
  }
  void AddPlaced(const BudgetTree& tree, AllocationId leaf, GpuCount delta) {
    AddPlaced(tree, leaf, delta, ToMilli(delta));
  }
  void AddQueued(const BudgetTree& tree, AllocationId leaf, GpuCount delta, MilliGpu charge) {
    ForPath(tree, leaf, [&](Account& a) {
      a.queued += delta;
      a.queued_charge += charge;
    });
  }
  void AddQueued(const BudgetTree& tree, AllocationId leaf, GpuCount delta) {
    AddQueued(tree, leaf, delta, ToMilli(delta));
  }
  // A run that is charged `charge` is committed until `until`: the rest of its protection counts as
  // used at once.
  void Commit(const BudgetTree& tree, AllocationId leaf, MilliGpu charge, TimePoint until) {
    ForPath(tree, leaf, [&](Account& a) { a.Commit(Units(charge), until); });
  }
  void Uncommit(const BudgetTree& tree, AllocationId leaf, MilliGpu charge, TimePoint until) {
    ForPath(tree, leaf, [&](Account& a) { a.Commit(-Units(charge), until); });
  }

  std::int64_t unit() const { return unit_; }
  // Makes the unit finer: a divisor of 1000 and a multiple of the present one. Nothing else
  // changes.
  void Refine(std::int64_t unit) {
    const std::int64_t factor = unit / unit_;
    unit_ = unit;
    for (Account& a : accounts_) a.Scale(factor);
    ++mark_;  // something else is cut off of all
  }

  // `id` has gone from the parent `from` to its present one: all that its account holds, history
  // included, leaves the old ancestors and enters the new ones. O(depth x segments).
  void Move(const BudgetTree& tree, AllocationId id, AllocationId from) {
    const Account moved = At(id);
    ForPath(tree, from, [&](Account& a) { a.Add(moved, -1); });
    ForPath(tree, tree.parent(id), [&](Account& a) { a.Add(moved, +1); });
  }

  GpuTime Use(AllocationId id, TimePoint now) {
    asked_ = std::max(asked_, now);
    return Whole(At(id).funded.Use(now).value());
  }
  GpuTime UseAt(AllocationId id, TimePoint now) const {
    return Whole(At(id).funded.UseAt(now).value());
  }
  // Thousandths of a GPU-microsecond that UseAt leaves out.
  std::int64_t UseRestAt(AllocationId id, TimePoint now) const {
    return At(id).funded.UseAt(now).value() % unit_ * (1000 / unit_);
  }
  GpuTime UnfundedUseAt(AllocationId id, TimePoint now) const { return At(id).unfunded.UseAt(now); }
  // Committed GPU-time that lies after `now`. Exact if every commitment that ended was withdrawn.
  GpuTime Ahead(AllocationId id, TimePoint now) const {
    const Account& a = At(id);
    const absl::int128 ahead =
        a.committed_until - absl::int128(a.committed) * now.time_since_epoch().count();
    return Whole(static_cast<std::int64_t>(ahead));
  }
  // Until when Use + Ahead stay what they were at the last Use, if nothing changes; the least time
  // there is if they move.
  TimePoint StandsUntil(AllocationId id) const {
    const Account& a = At(id);
    const std::int64_t slope = a.funded.slope().value();
    // Where a unit is less than a GPU, each is cut off alone.
    const bool moves = unit_ == 1 ? slope != a.committed : slope != 0 || a.committed != 0;
    return moves ? TimePoint(-kTimeLimit) : a.funded.slope_until();
  }
  // The accounts about which anything has changed since the call before, for whoever keeps
  // something about each. `all`: it may be any, because others have asked in between, or nobody.
  struct Changes {
    bool all = true;
    std::vector<AllocationId> ids;
    std::uint64_t mark = 0;  // of the call before
  };
  void TakeChanges(Changes& changes, TimePoint now) {
    asked_ = std::max(asked_, now);  // whoever takes them knows the use of the others
    changes.all = changes.mark != mark_;
    changes.mark = ++mark_;
    changes.ids.swap(changed_);
    changed_.clear();
    for (AllocationId id : changes.ids) At(id).changed = false;
  }

  GpuCount placed(AllocationId id) const { return At(id).placed; }
  MilliGpu placed_charge(AllocationId id) const { return At(id).placed_charge; }
  // The parts of `placed_charge` that belong to classes that may be capped.
  void AddSessions(const BudgetTree& tree, AllocationId leaf, MilliGpu delta) {
    ForPath(tree, leaf, [&](Account& a) { a.sessions += delta; });
  }
  void AddDebug(const BudgetTree& tree, AllocationId leaf, MilliGpu delta) {
    ForPath(tree, leaf, [&](Account& a) { a.debug += delta; });
  }
  void AddServing(const BudgetTree& tree, AllocationId leaf, MilliGpu delta) {
    ForPath(tree, leaf, [&](Account& a) { a.serving += delta; });
  }
  MilliGpu sessions(AllocationId id) const { return At(id).sessions; }
  MilliGpu debug(AllocationId id) const { return At(id).debug; }
  MilliGpu serving(AllocationId id) const { return At(id).serving; }
  GpuCount queued(AllocationId id) const { return At(id).queued; }
  GpuCount demand(AllocationId id) const { return At(id).placed + At(id).queued; }
  MilliGpu demand_charge(AllocationId id) const {
    return At(id).placed_charge + At(id).queued_charge;
  }
  GpuCount unfunded_now(AllocationId id) const { return At(id).unfunded.rate(); }

  template <class Archive>
  void Serialize(Archive& ar) {
    ar(window_, unit_);
    if constexpr (Archive::kReading) {
      ar(accounts_);
      if (unit_ < 1 || 1000 % unit_ != 0) unit_ = 1;
    } else {
      // As if all had been asked at once, so that the bytes do not depend on who was. The root has
      // seen every change.
      const TimePoint asked =
          accounts_.empty() ? asked_ : std::max(asked_, accounts_[0].funded.now());
      auto count = static_cast<std::int64_t>(accounts_.size());
      ar(count);
      for (const Account& account : accounts_) {
        Account copy = account;
        copy.funded.Use(asked);
        ar(copy);
      }
    }
  }

 private:
  struct Account {
    explicit Account(Duration window = kDefaultLookback) : funded(window), unfunded(window) {}
    void Commit(std::int64_t units, TimePoint until) {
      committed += units;
      committed_until += absl::int128(units) * until.time_since_epoch().count();
    }
    void Scale(std::int64_t factor) {
      funded.Scale(factor);
      committed *= factor;
      committed_until *= factor;
    }
    void Add(const Account& other, std::int64_t sign) {
      funded.Add(other.funded, sign);
      unfunded.Add(other.unfunded, sign);
      placed += GpuCount(sign * other.placed.value());
      queued += GpuCount(sign * other.queued.value());
      placed_charge += MilliGpu(sign * other.placed_charge.value());
      queued_charge += MilliGpu(sign * other.queued_charge.value());
      sessions += MilliGpu(sign * other.sessions.value());
      debug += MilliGpu(sign * other.debug.value());
      serving += MilliGpu(sign * other.serving.value());
      committed += sign * other.committed;
      committed_until += absl::int128(sign) * other.committed_until;
    }
    UsageMeter funded, unfunded;
    GpuCount placed, queued;
    MilliGpu placed_charge, queued_charge, sessions, debug, serving;
    bool changed = false;              // it is in changed_
    std::int64_t committed = 0;        // units under protection
    absl::int128 committed_until = 0;  // sum of units x end of protection

    template <class Archive>
    void Serialize(Archive& ar) {
      auto high = absl::Int128High64(committed_until);
      auto low = absl::Int128Low64(committed_until);
      ar(funded, unfunded, placed, queued, placed_charge, queued_charge, sessions, debug, serving,
         committed, high, low);
      // A snapshot writes nothing: others may read at the same time.
      if constexpr (Archive::kReading) committed_until = absl::MakeInt128(high, low);
    }
  };

  template <class F>
  void ForPath(const BudgetTree& tree, AllocationId leaf, F&& f) {
    for (AllocationId a = leaf;; a = tree.parent(a)) {
      Account& account = At(a);
      f(account);
      if (!account.changed) changed_.push_back(a);
      account.changed = true;
      if (a == kRootAllocation) break;
    }
  }
  std::int64_t Units(MilliGpu charge) const { return charge.value() / (1000 / unit_); }
  GpuTime Whole(std::int64_t units) const { return GpuTime(unit_ == 1 ? units : units / unit_); }
  Account& At(AllocationId id) { return accounts_[id.value()]; }
  const Account& At(AllocationId id) const { return accounts_[id.value()]; }

  Duration window_;
  std::int64_t unit_ = 1;
  std::vector<Account> accounts_;
  TimePoint asked_{-kTimeLimit};       // the latest time at which the use of all was known
  std::vector<AllocationId> changed_;  // since mark_
  std::uint64_t mark_ = 1;
};

}  // namespace tenure

#endif  // TENURE_LEDGER_H_
