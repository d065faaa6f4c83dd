// SPDX-License-Identifier: Apache-2.0

#include "tenure/sim/institute.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace tenure::sim {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

World Generate(const InstituteOptions& options) {
  absl::StatusOr<World> world = GenerateInstitute(options);
  EXPECT_TRUE(world.ok()) << world.status();
  return world.ok() ? *std::move(world) : World{};
}

// FNV-1a over every field of every row.
std::uint64_t Digest(const std::vector<JobRow>& jobs) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  const auto add = [&](std::int64_t value) {
    for (int shift = 0; shift < 64; shift += 8) {
      hash = (hash ^ ((static_cast<std::uint64_t>(value) >> shift) & 0xffu)) * 0x100000001b3u;
    }
  };
  for (const JobRow& j : jobs) {
    for (std::int64_t v : {j.submit_us, j.runtime_us, j.minimum_us, j.limit_us, j.checkpoint_us,
                           j.restart_us, j.patience_us}) {
      add(v);
    }
    for (std::int32_t v : {j.leaf, j.user, j.nodes, j.gpus_per_node, j.priority}) add(v);
    for (std::uint32_t v : {j.workload_class, j.flags, j.source_row}) add(v);
  }
  return hash;
}

bool IsGang(const JobRow& j) { return j.klass() == WorkloadClass::kTraining && j.gpus() > 64; }

// GPU-time of the chosen jobs over the capacity of the trace.
template <typename Chosen>
double Offered(const World& world, int days, Chosen chosen) {
  double work = 0;
  for (const JobRow& j : world.jobs) {
    if (chosen(j)) work += static_cast<double>(j.runtime_us) * static_cast<double>(j.gpus());
  }
  return work / (static_cast<double>(world.cluster.gpus()) * days * 86400e6);
}

TEST(Institute, TheSameOptionsGiveTheSameTableForEver) {
  const World a = Generate({});
  const World b = Generate({});
  EXPECT_EQ(Digest(a.jobs), Digest(b.jobs));
  EXPECT_EQ(a.jobs.size(), 94003u);
  EXPECT_EQ(Digest(a.jobs), 16001029941451693346u);
  EXPECT_NE(Digest(Generate({.seed = 2}).jobs), Digest(a.jobs));
}

TEST(Institute, EveryRowIsValidAndSorted) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const World world = Generate({.load = 1.7, .seed = seed});
    EXPECT_TRUE(CheckWorld(world).ok());
    ContractRules rules;
    rules.refuse_livelock = true;
    for (std::size_t i = 0; i < world.jobs.size(); ++i) {
      const JobRow& j = world.jobs[i];
      ASSERT_LT(j.submit_us, Duration(hours(37 * 24)).count());
      if (i > 0) {
        ASSERT_GE(j.submit_us, world.jobs[i - 1].submit_us);
      }
      ASSERT_GE(j.limit_us, j.runtime_us * 11 / 10);
      ASSERT_LT(j.limit_us, j.runtime_us * 3);
      WorkloadSpec spec;
      spec.id = WorkloadId(i + 1);
      spec.workload_class = j.klass();
      spec.nodes = static_cast<std::uint32_t>(j.nodes);
      spec.gpus_per_node = GpuCount(j.gpus_per_node);
      spec.minimum = Duration(j.minimum_us);
      spec.resumable = (j.flags & kResumable) != 0;
      ASSERT_TRUE(rules.Check(spec).ok()) << rules.Check(spec);
    }
  }
}

TEST(Institute, OffersTheLoadOfThePolicyStudy) {
  constexpr int kSeeds = 8;
  for (const auto& [load, low, high] : {std::tuple(1.3, 0.83, 0.97), std::tuple(1.7, 1.08, 1.27)}) {
    double funded = 0, free = 0;
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      const World world = Generate({.load = load, .seed = seed});
      funded += Offered(world, 37, [](const JobRow& j) { return j.funded(); }) / kSeeds;
      free += Offered(world, 37, [](const JobRow& j) { return !j.funded(); }) / kSeeds;
    }
    EXPECT_GT(funded, low) << load;
    EXPECT_LT(funded, high) << load;
    EXPECT_NEAR(free, 1.354, 0.02) << load;
  }
}

TEST(Institute, KindsHaveTheirShapes) {
  const World world = Generate({});
  std::map<WorkloadClass, std::int64_t> count;
  std::map<std::int64_t, int> gang_sizes, training_sizes;
  std::vector<std::int64_t> session_hours;
  std::int64_t debug_in_hours = 0, sessions = 0, gangs = 0;
  for (const JobRow& j : world.jobs) {
    ++count[j.klass()];
    const std::int64_t hour = j.submit_us / Duration(hours(1)).count();
    const bool working = hour % 24 >= 9 && hour % 24 < 19 && hour / 24 % 7 < 5;
    switch (j.klass()) {
      case WorkloadClass::kDebug:
        debug_in_hours += working ? 1 : 0;
        ASSERT_LE(j.gpus(), 8);
        ASSERT_EQ(j.flags & kResumable, 0u);
        ASSERT_EQ(j.patience_us, Duration(hours(12)).count());
        ASSERT_LE(j.runtime_us, Duration(hours(1)).count());
        break;
      case WorkloadClass::kInteractive:
        sessions += j.submit_us >= Duration(hours(7 * 24)).count() ? 1 : 0;
        session_hours.push_back(j.runtime_us);
        ASSERT_EQ(j.gpus(), 1);
        ASSERT_EQ(j.restart_us, Duration(minutes(15)).count());
        break;
      case WorkloadClass::kSweep:
        ASSERT_EQ(j.minimum_us, 0);
        ASSERT_LE(j.gpus(), 8);
        ASSERT_EQ(j.checkpoint_us, Duration(minutes(30)).count());
        break;
      default:
        if (IsGang(j)) {
          ++gangs;
          ++gang_sizes[j.gpus()];
          ASSERT_EQ(j.patience_us, Duration(hours(168)).count());
          ASSERT_GE(world.leaves[static_cast<std::size_t>(j.leaf)].weights[1], 0.05);
          ASSERT_TRUE(j.minimum_us == Duration(hours(4)).count() ||
                      j.minimum_us == Duration(hours(8)).count());
        } else {
          ++training_sizes[j.gpus()];
          ASSERT_EQ(j.patience_us, Duration(hours(72)).count());
        }
        ASSERT_EQ(j.gpus_per_node, 8);
    }
  }
  EXPECT_NEAR(static_cast<double>(world.jobs.size()), 93600, 2000);
  EXPECT_NEAR(static_cast<double>(count[WorkloadClass::kDebug]), 18950, 600);
  EXPECT_NEAR(static_cast<double>(debug_in_hours), 0.917 * 18950, 600);
  EXPECT_NEAR(static_cast<double>(sessions), 1720, 180);
  EXPECT_NEAR(static_cast<double>(count[WorkloadClass::kSweep]), 70000, 1100);
  EXPECT_NEAR(static_cast<double>(gangs), 103, 45);
  std::sort(session_hours.begin(), session_hours.end());
  EXPECT_NEAR(static_cast<double>(session_hours[session_hours.size() / 2]) / 3.6e9, 24, 2.5);
  ASSERT_EQ(gang_sizes.size(), 3u);
  EXPECT_GT(gang_sizes[128], gang_sizes[256]);
  EXPECT_GT(gang_sizes[256], gang_sizes[512]);
  EXPECT_EQ(training_sizes.size(), 4u);
}

TEST(Institute, HasFifteenProjectsWhoseWeightsAddUp) {
  const World world = Generate({.days = 1, .warmup_days = 0});
  ASSERT_EQ(world.leaves.size(), 15u);
  std::map<std::string, double> program, sum;
  std::set<std::string> paths;
  for (const LeafSpec& leaf : world.leaves) {
    const std::string name = leaf.path.substr(0, leaf.path.find('/'));
    ASSERT_EQ(leaf.weights.size(), 2u);
    program[name] = leaf.weights[0];
    sum[name] += leaf.weights[1];
    paths.insert(leaf.path);
  }
  EXPECT_EQ(paths.size(), 15u);
  ASSERT_EQ(program.size(), 5u);
  double total = 0;
  for (const auto& [name, weight] : program) {
    EXPECT_NEAR(weight, sum[name], 1e-12) << name;
    total += weight;
  }
  EXPECT_NEAR(total, 1, 1e-12);
}

TEST(Institute, UsersBelongToOneProject) {
  const World world = Generate({});
  std::map<std::int32_t, std::int32_t> leaf_of;
  for (const JobRow& j : world.jobs) {
    const auto [it, inserted] = leaf_of.emplace(j.user, j.leaf);
    ASSERT_EQ(it->second, j.leaf) << "user " << j.user;
  }
  EXPECT_NEAR(static_cast<double>(leaf_of.size()), 150, 5);
}

TEST(Institute, PartsOfTheWorkloadAreIndependent) {
  // Another debug rate leaves every other job as it was.
  const auto others = [](const World& world) {
    std::vector<JobRow> rows;
    for (const JobRow& j : world.jobs) {
      if (j.klass() != WorkloadClass::kDebug) rows.push_back(j);
    }
    return Digest(rows);
  };
  const World more = Generate({.debug_per_day = 900});
  EXPECT_EQ(others(more), others(Generate({})));
  EXPECT_GT(more.jobs.size(), Generate({}).jobs.size() + 15000);
}

TEST(Institute, ScalesWithTheCluster) {
  // A quarter of the machine is offered a quarter of the work; too large gangs are not drawn.
  const World world = Generate({.nodes = 32});
  std::int64_t largest = 0;
  for (const JobRow& j : world.jobs) largest = std::max(largest, j.gpus());
  EXPECT_EQ(largest, 256);
  double funded = 0;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const World w = Generate({.seed = seed, .nodes = 32});
    funded +=
        Offered(w, 37,
                [](const JobRow& j) { return j.funded() && j.klass() != WorkloadClass::kDebug; }) /
        6;
  }
  EXPECT_NEAR(funded, 0.89, 0.12);
  // Other node sizes: the same GPUs in other shapes.
  for (int gpus_per_node : {1, 4, 16}) {
    const World w = Generate({.nodes = 1024 / gpus_per_node, .gpus_per_node = gpus_per_node});
    ASSERT_EQ(w.jobs.size(), Generate({}).jobs.size());
    for (const JobRow& j : w.jobs) {
      ASSERT_LE(j.gpus_per_node, gpus_per_node);
      ASSERT_TRUE(j.nodes == 1 || j.gpus_per_node == gpus_per_node);
    }
    EXPECT_NEAR(Offered(w, 37, [](const JobRow&) { return true; }),
                Offered(Generate({}), 37, [](const JobRow&) { return true; }), 1e-12);
  }
  // The smallest cluster.
  const World tiny = Generate({.days = 2, .nodes = 2});
  for (const JobRow& j : tiny.jobs) ASSERT_LE(j.gpus(), 16);
}

TEST(Institute, ZeroLoadsLeaveOnlyWhatIsAsked) {
  const World world = Generate({.load = 0, .freeload = 0, .debug_per_day = 0});
  EXPECT_TRUE(world.jobs.empty());
  for (const JobRow& j : Generate({.load = 0, .debug_per_day = 0}).jobs) ASSERT_FALSE(j.funded());
}

TEST(Institute, MincapCutsMinimums) {
  for (const JobRow& j : Generate({.mincap = hours(1)}).jobs) {
    ASSERT_LE(j.minimum_us, Duration(hours(1)).count());
    ASSERT_LE(j.checkpoint_us, Duration(hours(1)).count());
  }
}

TEST(Institute, RefusesBadOptions) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto message = [](const InstituteOptions& options) {
    const absl::StatusOr<World> world = GenerateInstitute(options);
    EXPECT_EQ(world.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(world.status().message());
  };
  EXPECT_EQ(message({.load = -1}), "load is -1, must be in [0, 100]");
  EXPECT_EQ(message({.load = nan}), "load is nan, must be in [0, 100]");
  EXPECT_EQ(message({.freeload = 1e9}), "freeload is 1e+09, must be in [0, 100]");
  EXPECT_EQ(message({.days = 0}), "days is 0, must be in [1, 3660]");
  EXPECT_EQ(message({.warmup_days = -1}), "warmup_days is -1, must be in [0, 3660]");
  EXPECT_EQ(message({.debug_per_day = -3}), "debug_per_day is -3, must be in [0, 1000000]");
  EXPECT_EQ(message({.gpus_per_node = 6}),
            "gpus_per_node is 6, must be a power of two in [1, 512]");
  EXPECT_EQ(message({.nodes = 1}),
            "nodes is 1, must be such that the cluster has 16 to 2097152 GPUs");
  EXPECT_EQ(message({.nodes_per_rack = -2}), "nodes_per_rack is -2, must be >= 0");
  EXPECT_EQ(message({.mincap = Duration(0)}), "mincap is 0, must be positive");
}

}  // namespace
}  // namespace tenure::sim
