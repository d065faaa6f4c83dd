// SPDX-License-Identifier: Apache-2.0
//
// The trials of a plan search on CPU threads. Needs nothing but the standard library.
//
//   tenure::plan::CpuTrials cpu;
//   std::uint64_t price = cpu.Best(world, params, 4);  // on at most four threads
#ifndef TENURE_PLAN_CPU_H_
#define TENURE_PLAN_CPU_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

#include "tenure/plan_teams.h"
#include "tenure/plan_trial.h"

namespace tenure::plan {

// Keeps the scratch memory from call to call. Thread-compatible.
class CpuTrials {
 public:
  // The least price below `params.beat` of `params.trials` trials from `params.first_trial` on, or
  // kNone; the same for any number of threads.
  u64 Best(const World& world, const Params& params, u32 threads) {
    // A thread costs as much as some trials.
    threads = std::max(1u, std::min(threads, params.trials / 8));
    scratch_.resize(std::max<std::size_t>(scratch_.size(), threads));
    std::vector<u64> best(threads, kNone);
    std::atomic<u32> next{0};
    const auto work = [&](u32 thread) {
      scratch_[thread].resize(LayoutOf(world).bytes / 8 + 1);
      SerialTeam team;
      Params own = params;
      for (u32 i = 0; (i = next.fetch_add(1, std::memory_order_relaxed)) < params.trials;) {
        Trial<SerialTeam> trial(world, own, team, params.first_trial + i,
                                reinterpret_cast<u8*>(scratch_[thread].data()));
        own.beat = std::min(own.beat, trial.Run());
      }
      best[thread] = own.beat < params.beat ? own.beat : kNone;
    };
    std::vector<std::thread> others;
    for (u32 t = 1; t < threads; ++t) others.emplace_back(work, t);
    work(0);
    for (std::thread& t : others) t.join();
    return *std::min_element(best.begin(), best.end());
  }

 private:
  std::vector<std::vector<u64>> scratch_;  // by thread
};

}  // namespace tenure::plan

#endif  // TENURE_PLAN_CPU_H_
