// SPDX-License-Identifier: Apache-2.0
//
// Many trial plans of one pass, the best kept. Bit for bit the same on every back end.
//
//   tenure::plan::PlanSearch search({.trials = 64});
//   absl::StatusOr<tenure::plan::Result> best = search.Run(world_data);
//   // best->winner == 0: the plan without a search is the best one
//
// The budget is a number of trials, never a time, so the answer does not depend on the machine.
// Trials run in rounds of 16, 48, 192, 768, ...: a round that brings nothing ends the search. Only
// the number of the winner is taken from the back end; its plan is made anew on this core, and if
// its price is not the one that was reported, trial 0 is the answer and `faults` counts one more.
// Scheduler does all of this if SchedulerOptions::search.trials is not 0 (scheduler_search.h).
//
// Thread-compatible. A copy has the same options and opens a back end of its own when it is used.
#ifndef TENURE_PLAN_SEARCH_H_
#define TENURE_PLAN_SEARCH_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenure/plan_backend.h"
#include "tenure/plan_check.h"
#include "tenure/plan_data.h"
#include "tenure/plan_teams.h"
#include "tenure/plan_trial.h"

namespace tenure::plan {

struct SearchOptions {
  std::uint32_t trials = 0;  // of a pass, at most kMaxTrials; 0: no search
  std::uint32_t seed = 0;
  BackendKind backend = BackendKind::kAuto;
  std::uint32_t threads = 1;  // of the CPU back end
  bool On() const { return trials > 0 && backend != BackendKind::kOff; }

  // Everything that decides; back end and threads do not.
  template <class Archive>
  void Serialize(Archive& ar) {
    std::uint32_t effective = On() ? trials : 0;
    ar(effective, seed);
    if constexpr (Archive::kReading) trials = effective;
  }
};

// One job's part of a plan.
struct Placement {
  u32 job = 0;
  bool start = false;  // on GPUs that are free now; else a hold until the runs are stopped
  std::vector<u32> nodes, victims;
};

struct Result {
  std::uint32_t trials = 0;  // that were made
  std::uint32_t winner = 0;
  std::uint32_t placed = 0;                 // by trial 0
  std::uint64_t price = 0, price_zero = 0;  // GPU-minutes: of the winner and of trial 0
  BackendKind backend = BackendKind::kCpu;  // that made them
  std::vector<Placement> plan;              // of the winner, in the order it was made
};

class PlanSearch {
 public:
  explicit PlanSearch(const SearchOptions& options = {}) : options_(options) {}
  PlanSearch(const PlanSearch& other)
      : options_(other.options_), faults_(other.faults_), last_fault_(other.last_fault_) {}
  PlanSearch& operator=(const PlanSearch& other) {
    if (this == &other) return *this;
    options_ = other.options_;  // the open back end stays
    faults_ = other.faults_;
    last_fault_ = other.last_fault_;
    return *this;
  }
  const SearchOptions& options() const { return options_; }

  // InvalidArgument (CheckWorld), Unavailable (a CUDA back end was asked for and there is
  // none). A back end that fails later is a fault, not an error: the CPU takes over.
  absl::StatusOr<Result> Run(const WorldData& data);

  // Which of the jobs could have a place if it alone were served: the others need not be searched
  // for. `data` must pass CheckWorld.
  void Probe(const WorldData& data, std::vector<u8>& possible);

  // Runs that failed; back ends that failed or reported a price that is not that of the plan.
  std::uint64_t faults() const { return faults_; }
  // What the last of them was; ok if there was none.
  const absl::Status& last_fault() const { return last_fault_; }

  // Replaces the back end: for tests.
  void SetBackend(std::unique_ptr<Backend> backend) { backend_ = std::move(backend); }

 private:
  void Fault(absl::Status status) {
    ++faults_;
    last_fault_ = std::move(status);
  }
  absl::Status Open();
  u8* Scratch(const World& world) {
    scratch_.resize(LayoutOf(world).bytes / 8 + 1);
    return reinterpret_cast<u8*>(scratch_.data());
  }

  SearchOptions options_;
  std::uint64_t faults_ = 0;
  absl::Status last_fault_;
  std::unique_ptr<Backend> backend_;  // the one asked for; nullptr: the CPU
  CpuBackend cpu_;
  std::vector<u64> scratch_;
  bool opened_ = false;
};

// --- Implementation ------------------------------------------------------------------------------

namespace internal {

struct Recorder {
  std::vector<Placement>* plan = nullptr;
  std::vector<u32>* unplaced = nullptr;
  void Begin(u32 job) {
    if (plan == nullptr) return;
    plan->emplace_back();
    plan->back().job = job;
  }
  void Take(u32 node) {
    if (plan != nullptr) plan->back().nodes.push_back(node);
  }
  void Kill(u32 victim) {
    if (plan != nullptr) plan->back().victims.push_back(victim);
  }
  void End(bool placed, bool start) {
    if (plan == nullptr) return;
    plan->back().start = start;
    if (!placed) plan->pop_back();
  }
  void Waits(u32 band, u32 weight) {
    if (unplaced != nullptr) (*unplaced)[band] += weight;
  }
};

}  // namespace internal

inline absl::Status PlanSearch::Open() {
  if (opened_) return absl::OkStatus();
  if (backend_ == nullptr && options_.backend != BackendKind::kCpu) {
    absl::StatusOr<std::unique_ptr<Backend>> cuda = OpenCuda();
    if (cuda.ok()) {
      backend_ = *std::move(cuda);
    } else if (options_.backend == BackendKind::kCuda) {
      return cuda.status();
    }
  }
  cpu_.SetThreads(options_.threads);
  opened_ = true;
  return absl::OkStatus();
}

inline void PlanSearch::Probe(const WorldData& data, std::vector<u8>& possible) {
  const World world = data.View();
  const Params params;
  SerialTeam team;
  u8* scratch = Scratch(world);
  possible.assign(data.job.size(), 0);
  Trial<SerialTeam>(world, params, team, 0, scratch).Probe(possible.data());
}

inline absl::StatusOr<Result> PlanSearch::Run(const WorldData& data) {
  if (absl::Status s = CheckWorld(data); !s.ok()) {
    Fault(s);
    return s;
  }
  if (options_.trials == 0 || options_.trials > kMaxTrials) {
    return absl::InvalidArgumentError(absl::StrCat("plan search of ", options_.trials, " trials"));
  }
  if (absl::Status s = Open(); !s.ok()) {
    Fault(s);
    return s;
  }
  const World world = data.View();
  Params params;
  params.seed = options_.seed;
  SerialTeam team;
  u8* scratch = Scratch(world);
  Result result;
  std::vector<u32> unplaced(data.bands + 1, 0), lost(kLossClasses, 0);
  {
    Trial<SerialTeam, internal::Recorder> zero(world, params, team, 0, scratch,
                                               {&result.plan, &unplaced});
    result.price_zero = zero.Run();
    result.placed = zero.placed();
    std::copy_n(zero.loss(), kLossClasses, lost.begin());
  }
  result.trials = 1;
  u64 best = result.price_zero;
  // A world where the plain plan places nothing stays as it is under every order.
  if (result.placed > 0) {
    params.guard = {unplaced.data(), lost.data()};
    Backend* backend = backend_ != nullptr ? backend_.get() : &cpu_;
    result.backend = backend->kind();
    bool loaded = false;
    for (u32 first = 1, size = 15; first < options_.trials; first += size, size = first * 3) {
      params.first_trial = first;
      params.trials = std::min(size, options_.trials - first);
      params.beat = best;
      if (options_.backend == BackendKind::kAuto && backend_ != nullptr) {
        Backend* faster = backend_->Faster(world, params.trials, options_.threads)
                              ? backend_.get()
                              : static_cast<Backend*>(&cpu_);
        loaded = loaded && faster == backend;
        backend = faster;
        result.backend = backend->kind();
      }
      u64 price = kNone;
      absl::Status s = loaded ? absl::OkStatus() : backend->Load(data, world);
      if (s.ok()) s = backend->Best(params, &price);
      if (!s.ok()) {  // a lost device: the CPU computes the same
        Fault(std::move(s));
        backend = &cpu_;
        result.backend = backend->kind();
        backend->Load(data, world).IgnoreError();
        backend->Best(params, &price).IgnoreError();
      }
      loaded = true;
      result.trials += params.trials;
      if (price >= best) break;
      best = price;
    }
  }
  const auto number = [](u64 price) { return static_cast<u32>(price & (kMaxTrials - 1)); };
  // A gain below one GPU-minute is none.
  if ((best >> kTrialBits) < (result.price_zero >> kTrialBits)) {
    std::vector<Placement> plan;
    params.beat = kNone;
    Trial<SerialTeam, internal::Recorder> again(world, params, team, number(best), scratch,
                                                {&plan, nullptr});
    if (again.Run() == best) {
      result.winner = number(best);
      result.plan = std::move(plan);
    } else {
      Fault(absl::InternalError(absl::StrCat("plan search: back end ", ToString(result.backend),
                                             " reported trial ", number(best), " at ",
                                             best >> kTrialBits, " GPU-minutes, which it is not")));
      best = result.price_zero;
    }
  }
  result.price = best >> kTrialBits;
  result.price_zero >>= kTrialBits;
  return result;
}

}  // namespace tenure::plan

#endif  // TENURE_PLAN_SEARCH_H_
