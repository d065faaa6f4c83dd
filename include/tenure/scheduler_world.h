// SPDX-License-Identifier: Apache-2.0
//
// Scheduler: budgets, nodes and charge rates. Included by
// scheduler.h; not for direct use. Every function checks everything before it changes anything.
#ifndef TENURE_SCHEDULER_WORLD_H_
#define TENURE_SCHEDULER_WORLD_H_

#include "tenure/scheduler.h"

namespace tenure {

// --- Budgets -------------------------------------------------------------------------------------

template <class Policy>
absl::StatusOr<AllocationId> Scheduler<Policy>::AddAllocation(std::string name, AllocationId parent,
                                                              Weight weight, TimePoint now) {
  if (absl::Status s = CheckTime(now); !s.ok()) return s;
  absl::StatusOr<AllocationId> id = tree_.Add(std::move(name), parent, weight);
  if (!id.ok()) return id;
  Advance(now);
  ledger_.Open(tree_);
  queues_.resize(tree_.size());
  ranking_.Invalidate();
  Reconsider();
  return id;
}

template <class Policy>
absl::Status Scheduler<Policy>::SetWeight(AllocationId id, Weight weight, TimePoint effective,
                                          std::string author, std::string reason, TimePoint now) {
  if (absl::Status s = CheckTime(now); !s.ok()) return s;
  if (absl::Status s = tree_.ScheduleWeight(id, weight, std::max(effective, now), std::move(author),
                                            std::move(reason));
      !s.ok()) {
    return s;
  }
  Advance(now);
  dirty_ = true;
  return absl::OkStatus();
}

template <class Policy>
absl::Status Scheduler<Policy>::Boost(AllocationId id, Weight weight, TimePoint from,
                                      TimePoint until, std::string author, std::string reason,
                                      TimePoint now) {
  if (absl::Status s = CheckTime(now); !s.ok()) return s;
  if (absl::Status s = tree_.ScheduleBoost(id, weight, std::max(from, now), until,
                                           std::move(author), std::move(reason));
      !s.ok()) {
    return s;
  }
  Advance(now);
  dirty_ = true;
  return absl::OkStatus();
}

template <class Policy>
absl::Status Scheduler<Policy>::MoveAllocation(AllocationId id, AllocationId new_parent,
                                               TimePoint now, std::string author,
                                               std::string reason) {
  if (absl::Status s = CheckTime(now); !s.ok()) return s;
  const AllocationId from = tree_.contains(id) ? tree_.parent(id) : kRootAllocation;
  if (absl::Status s = tree_.Move(id, new_parent, now, std::move(author), std::move(reason));
      !s.ok()) {
    return s;
  }
  Advance(now);
  ledger_.Move(tree_, id, from);
  if (tree_.is_leaf(from)) credit_.Forgive(from);
  ranking_.Invalidate();
  Reconsider();
  return absl::OkStatus();
}

template <class Policy>
absl::Status Scheduler<Policy>::CloseAllocation(AllocationId id, TimePoint now) {
  if (absl::Status s = CheckTime(now); !s.ok()) return s;
  if (absl::Status s = tree_.Close(id); !s.ok()) return s;
  Advance(now);
  ranking_.Invalidate();
  Reconsider();
  return absl::OkStatus();
}

// --- Nodes ---------------------------------------------------------------------------------------

template <class Policy>
absl::StatusOr<NodeId> Scheduler<Policy>::AddNode(std::string name, GpuCount gpus, GpuTypeId type,
                                                  DomainId domain, TimePoint now) {
  if (absl::Status s = CheckTime(now); !s.ok()) return s;
  MilliGpu weighted;
  if (!rates_.standard() && gpus >= GpuCount(1) && gpus <= GpuCount(kMaxGpusPerNode)) {
    weighted =
        WeightedDeclared(type, rates_.rate(type)) + MilliGpu(gpus.value() * rates_.rate(type));
    if (absl::Status s = CheckCountable(weighted, ledger_.unit()); !s.ok()) return s;
  }
  absl::StatusOr<NodeId> id = cluster_.AddNode(std::move(name), gpus, type, domain);
  if (!id.ok()) return id;
  Advance(now);
  peak_ = std::max(peak_, weighted);
  // Another node may make room for what was too large, and it moves the lane.
  if (table_.size() > 0) {
    Reconsider();
    stoppable_.Rebuild(policy_, cluster_, table_, now_);
  }
  dirty_ = true;
  return id;
}

template <class Policy>
absl::StatusOr<NodeReport> Scheduler<Policy>::SetNode(NodeId id, NodeHealth health, TimePoint since,
                                                      TimePoint now) {
  if (absl::Status s = CheckTime(now); !s.ok()) return s;
  if (!cluster_.contains(id)) {
    return absl::NotFoundError(absl::StrCat("node ", id.value(), " is unknown"));
  }
  if (absl::Status s = CheckEventTime("node change", since, now); !s.ok()) return s;
  Advance(now);
  cluster_.Reindex();
  const NodeHealth before = cluster_.node(id).health;
  const bool was_leaving = cluster_.node(id).leaving();
  NodeReport report;
  if (before == health) return report;
  cluster_.SetHealth(id, health);
  draining_ += cluster_.node(id).leaving();
  draining_ -= was_leaving;
  if (health != NodeHealth::kUp) LeaveService(id);
  if (health == NodeHealth::kDown) {
    while (!cluster_.node(id).runs.empty()) {
      const RunSlot slot = cluster_.node(id).runs.back().run;
      LostRun lost{table_.run(slot).id, table_.workload(slot).run};
      lost.outcome = Lose(slot, since, LossCause::kNodeDown);
      report.lost.push_back(lost);
    }
    std::sort(report.lost.begin(), report.lost.end(),
              [](const LostRun& a, const LostRun& b) { return a.workload < b.workload; });
  }
  dirty_ = true;
  return report;
}

template <class Policy>
MilliGpu Scheduler<Policy>::Capacity() const {
  if (rates_.standard()) return ToMilli(cluster_.healthy());
  MilliGpu sum;
  for (std::uint16_t t = 0; t < cluster_.gpu_types().size(); ++t) {
    const GpuTypeId type(t);
    sum += MilliGpu(cluster_.healthy(type).value() * rates_.rate(type));
  }
  return sum;
}

// All nodes, were the rate of `type` `permille`.
template <class Policy>
MilliGpu Scheduler<Policy>::WeightedDeclared(GpuTypeId type, std::int32_t permille) const {
  MilliGpu sum;
  for (const Node& n : cluster_.nodes()) {
    sum += MilliGpu(std::int64_t{n.gpus} * (n.type == type ? permille : rates_.rate(n.type)));
  }
  return sum;
}

// Whether use of a cluster of this weight, and of any there was, fits into 64 bits.
template <class Policy>
absl::Status Scheduler<Policy>::CheckCountable(MilliGpu declared, std::int64_t unit) const {
  const absl::int128 most = std::max(declared, peak_).value();
  const absl::int128 limit = absl::int128(kMaxClusterGpus) * kMaxLookback.count();
  if (most <= absl::int128(kMaxClusterGpus) * 1000 &&
      most * unit / 1000 * options_.lookback.count() <= limit) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "the cluster weighs ", static_cast<std::int64_t>(most), " thousandths of a GPU, too many to ",
      "be counted exactly in units of 1/", unit, " GPU over ", options_.lookback.count(), " us"));
}

template <class Policy>
absl::Status Scheduler<Policy>::SetChargeRate(GpuTypeId type, std::int32_t permille,
                                              TimePoint now) {
  if (absl::Status s = CheckTime(now); !s.ok()) return s;
  if (type.value() >= cluster_.gpu_types().size()) {
    return absl::NotFoundError(absl::StrCat("GPU type ", type.value(), " is unknown"));
  }
  if (permille < 1 || permille > kMaxChargeRate) {
    return absl::InvalidArgumentError(absl::StrCat("charge rate of GPU type ", type.value(), " is ",
                                                   permille, ", must be in [1, ", kMaxChargeRate,
                                                   "]"));
  }
  const std::int64_t unit =
      std::lcm(ledger_.unit(), std::int64_t{kStandardRate} / std::gcd(kStandardRate, permille));
  MilliGpu weighted = WeightedDeclared(type, permille);
  weighted = std::max(weighted, WeightedDeclared(type, rates_.rate(type)));
  if (absl::Status s = CheckCountable(weighted, unit); !s.ok()) return s;
  Advance(now);
  if (unit != ledger_.unit()) ledger_.Refine(unit);
  peak_ = std::max(peak_, weighted);
  rates_.Set(type, permille, now, now - options_.lookback);
  for (RunSlot slot = 0; slot < table_.slots(); ++slot) Rerate(slot, now);
  ranking_.Invalidate();
  dirty_ = true;
  return absl::OkStatus();
}

// Brings a workload to the rates in force from `now` on.
template <class Policy>
void Scheduler<Policy>::Rerate(RunSlot slot, TimePoint now) {
  Run& run = table_.run(slot);
  const Workload& w = table_.workload(slot);
  if (run.state == WorkloadState::kFree || run.state == WorkloadState::kUnplaceable ||
      run.state == WorkloadState::kSuspended) {
    return;
  }
  const bool waits = run.state == WorkloadState::kPending || run.state == WorkloadState::kReserved;
  const std::int32_t rate = waits ? RateOf(w.spec.gpu_type) : rates_.rate(TypeOf(w));
  if (rate == run.rate) return;
  const auto count = [&](std::int64_t sign) {
    if (waits || run.state == WorkloadState::kStopping) {
      Queue(run, sign);
    } else {
      Place(slot, sign);
    }
    if (w.ahead) {
      ledger_.Commit(tree_, run.leaf, MilliGpu(sign * run.charge().value()), run.protected_until);
    }
    if (w.charged) {
      ledger_.Charge(tree_, run.leaf, now, MilliGpu(sign * run.charge().value()));
    }
  };
  if (run.funded) count(-1);
  run.rate = rate;
  if (run.funded) count(+1);
  Restock(slot);
}

}  // namespace tenure

#endif  // TENURE_SCHEDULER_WORLD_H_
