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
#ifndef TENURE_LEDGER_H_
#define TENURE_LEDGER_H_

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
  void Charge(const BudgetTree& tree, AllocationId leaf, TimePoint at, GpuCount delta) {
    ForPath(tree, leaf, [&](Account& a) { a.funded.Change(at, delta); });
  }
  void ChargeUnfunded(const BudgetTree& tree, AllocationId leaf, TimePoint at, GpuCount delta) {
    ForPath(tree, leaf, [&](Account& a) { a.unfunded.Change(at, delta); });
  }
  // Funded GPUs placed (running, starting or held) and funded GPUs waiting.
  void AddPlaced(const BudgetTree& tree, AllocationId leaf, GpuCount delta) {
    ForPath(tree, leaf, [&](Account& a) { a.placed += delta; });
  }
  void AddQueued(const BudgetTree& tree, AllocationId leaf, GpuCount delta) {
    ForPath(tree, leaf, [&](Account& a) { a.queued += delta; });
  }
  // A run of `gpus` is committed until `until`: the rest of its protection counts as used at once.
  void Commit(const BudgetTree& tree, AllocationId leaf, GpuCount gpus, TimePoint until) {
    ForPath(tree, leaf, [&](Account& a) { a.Commit(gpus.value(), until); });
  }
  void Uncommit(const BudgetTree& tree, AllocationId leaf, GpuCount gpus, TimePoint until) {
    ForPath(tree, leaf, [&](Account& a) { a.Commit(-gpus.value(), until); });
  }

  GpuTime Use(AllocationId id, TimePoint now) { return At(id).funded.Use(now); }
  GpuTime UseAt(AllocationId id, TimePoint now) const { return At(id).funded.UseAt(now); }
  GpuTime UnfundedUseAt(AllocationId id, TimePoint now) const { return At(id).unfunded.UseAt(now); }
  // Committed GPU-time that lies after `now`. Exact if every commitment that ended was withdrawn.
  GpuTime Ahead(AllocationId id, TimePoint now) const {
    const Account& a = At(id);
    const absl::int128 ahead =
        a.committed_until - absl::int128(a.committed) * now.time_since_epoch().count();
    return GpuTime(static_cast<std::int64_t>(ahead));
  }
  GpuCount placed(AllocationId id) const { return At(id).placed; }
  GpuCount queued(AllocationId id) const { return At(id).queued; }
  GpuCount demand(AllocationId id) const { return At(id).placed + At(id).queued; }
  GpuCount charged_now(AllocationId id) const { return At(id).funded.rate(); }
  GpuCount unfunded_now(AllocationId id) const { return At(id).unfunded.rate(); }

  template <class Archive>
  void Serialize(Archive& ar) {
    ar(window_, accounts_);
  }

 private:
  struct Account {
    explicit Account(Duration window = kDefaultLookback) : funded(window), unfunded(window) {}
    void Commit(std::int64_t gpus, TimePoint until) {
      committed += gpus;
      committed_until += absl::int128(gpus) * until.time_since_epoch().count();
    }
    UsageMeter funded, unfunded;
    GpuCount placed, queued;
    std::int64_t committed = 0;        // GPUs under protection
    absl::int128 committed_until = 0;  // sum of GPUs x end of protection

    template <class Archive>
    void Serialize(Archive& ar) {
      auto high = absl::Int128High64(committed_until);
      auto low = absl::Int128Low64(committed_until);
      ar(funded, unfunded, placed, queued, committed, high, low);
      committed_until = absl::MakeInt128(high, low);
    }
  };

  template <class F>
  void ForPath(const BudgetTree& tree, AllocationId leaf, F&& f) {
    for (AllocationId a = leaf;; a = tree.parent(a)) {
      f(accounts_[a.value()]);
      if (a == kRootAllocation) break;
    }
  }
  Account& At(AllocationId id) { return accounts_[id.value()]; }
  const Account& At(AllocationId id) const { return accounts_[id.value()]; }

  Duration window_;
  std::vector<Account> accounts_;
};

}  // namespace tenure

#endif  // TENURE_LEDGER_H_
