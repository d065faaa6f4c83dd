// SPDX-License-Identifier: Apache-2.0
//
// Trials on real threads, to be run under ThreadSanitizer. With the argument "step" the barrier at
// the end of every step is left out, with "sync" every other one: the run must then be reported as
// racy.
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "plan_worlds.h"
#include "tenure/plan_teams.h"
#include "tenure/plan_trial.h"

int main(int argc, char** argv) {
  using namespace tenure::plan;  // NOLINT(google-build-using-namespace)
  const std::string name = argc > 1 ? argv[1] : "";
  const auto dropped = name == "step"   ? ThreadedTeam::Dropped::kStep
                       : name == "sync" ? ThreadedTeam::Dropped::kSync
                                        : ThreadedTeam::Dropped::kNothing;
  for (u32 seed = 1; seed <= 8; ++seed) {
    WorldShape shape;
    shape.nodes = 64;
    shape.percent_protected = 10;
    shape.percent_stoppable = 85;
    shape.jobs = 24;
    shape.irregular = shape.reservations = seed % 2 == 1;
    const WorldData data = WorldMaker(seed).Make(shape);
    const World world = data.View();
    Params params;
    params.seed = seed;
    std::vector<u64> memory(LayoutOf(world).bytes / 8 + 1);
    constexpr u32 kLanes = 3;
    ThreadedTeam::Shared shared(kLanes);
    std::vector<std::thread> threads;
    for (u32 lane = 0; lane < kLanes; ++lane) {
      threads.emplace_back([&, lane] {
        ThreadedTeam team(kLanes, lane, shared, dropped);
        Trial<ThreadedTeam>(world, params, team, seed % 2 * 20,
                            reinterpret_cast<u8*>(memory.data()))
            .Run();
      });
    }
    for (std::thread& t : threads) t.join();
  }
  std::puts("done");
  return 0;
}
