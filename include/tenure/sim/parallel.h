// SPDX-License-Identifier: Apache-2.0
//
// Many simulations at once, one a thread: seeds, policies or parameters of a study.
//
//   std::vector<tenure::sim::Case> cases = {{&world, "budget", {}, options}, {&world, "ai2"}};
//   auto results = tenure::sim::SimulateAll(cases, /*threads=*/8);   // results[i] is of cases[i]
//
// Each result is the one that Simulate gives for the case alone: simulations share nothing but
// their worlds, which are only read, so neither the number of threads nor the order in which they
// are taken changes anything. Memory: that of `threads` simulations at a time.
#ifndef TENURE_SIM_PARALLEL_H_
#define TENURE_SIM_PARALLEL_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenure/sim/simulate.h"

namespace tenure::sim {

struct Case {
  const World* world = nullptr;  // outlives the call; not changed during it
  std::string policy = "budget";
  Parameters parameters;
  SimOptions options;
};

// Runs all cases on up to `threads` threads, the calling one included; 0: as many as the machine
// has. Where no further thread is to be had, those that there are do the rest. An error of a case
// is its result: those of Simulate, InvalidArgument if it has no world.
inline std::vector<absl::StatusOr<Metrics>> SimulateAll(std::span<const Case> cases,
                                                        unsigned threads = 0) {
  std::vector<absl::StatusOr<Metrics>> results(cases.size(), absl::UnknownError("not run"));
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < cases.size(); i = next++) {
      const Case& c = cases[i];
      if (c.world == nullptr) {
        results[i] = absl::InvalidArgumentError("case without a world");
      } else {
        results[i] = Simulate(*c.world, c.policy, c.parameters, c.options);
      }
    }
  };
  if (threads == 0) threads = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> others;
  for (std::size_t t = 1; t < std::min<std::size_t>(threads, cases.size()); ++t) {
    try {
      others.emplace_back(work);
    } catch (const std::system_error&) {
      break;
    }
  }
  work();
  for (std::thread& t : others) t.join();
  return results;
}

}  // namespace tenure::sim

#endif  // TENURE_SIM_PARALLEL_H_
