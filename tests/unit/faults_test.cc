// SPDX-License-Identifier: Apache-2.0

#include "tenure/sim/faults.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "tenure/sim/institute.h"
#include "tenure/sim/policies.h"
#include "tenure/sim/simulate.h"

namespace tenure::sim {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr ClusterSpec kFour = {.nodes = 4, .gpus_per_node = 8, .nodes_per_rack = 0};

TimePoint At(Duration d) { return TimePoint(d); }

TEST(CheckFaults, NamesTheOptionAndItsValue) {
  EXPECT_TRUE(CheckFaults({}, kFour).ok());
  const auto error = [](auto&& edit) {
    FaultOptions o;
    edit(o);
    const absl::Status s = CheckFaults(o, kFour);
    EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument);
    return std::string(s.message());
  };
  EXPECT_EQ(error([](FaultOptions& o) { o.mean_uptime = seconds(59); }),
            "mean_uptime is 59000000, must be 0 us or from a minute to 100 years");
  EXPECT_EQ(error([](FaultOptions& o) { o.mean_repair = -seconds(1); }),
            "mean_repair is -1000000, must be from 0 us to 100 years");
  EXPECT_NE(error([](FaultOptions& o) { o.mean_unhealthy = Duration::max(); }).find("unhealthy"),
            std::string::npos);
  EXPECT_NE(error([](FaultOptions& o) { o.negotiate_after = -Duration(1); }).find("negotiate"),
            std::string::npos);
  EXPECT_EQ(error([](FaultOptions& o) { o.hard_permille = 1001; }),
            "hard_permille is 1001, must be in [0, 1000]");
  EXPECT_EQ(error([](FaultOptions& o) { o.failed_resume_permille = 901; }),
            "failed_resume_permille is 901, must be in [0, 900]");
  EXPECT_EQ(error([](FaultOptions& o) {
              o.maintenance = {{.first_node = 3, .nodes = 2, .begin = hours(1), .end = hours(2)}};
            }),
            "maintenance of 2 nodes from node 3 on, of 4");
  EXPECT_NE(error([](FaultOptions& o) {
              o.maintenance = {{.first_node = 0, .nodes = 4, .begin = hours(2), .end = hours(2)}};
            }).find("7200000000, 7200000000"),
            std::string::npos);
}

TEST(FaultModel, EachHostHasItsOwnNumbers) {
  const FaultOptions o = {.mean_uptime = hours(100), .seed = 7};
  FaultModel one(o, 4), other(o, 400);
  for (int i = 0; i < 5; ++i) other.Next(NodeId(1));  // does not disturb the others
  for (int i = 0; i < 50; ++i) {
    const Fault a = one.Next(NodeId(2)), b = other.Next(NodeId(2));
    EXPECT_EQ(a.uptime, b.uptime);
    EXPECT_EQ(a.hard, b.hard);
    EXPECT_EQ(a.unhealthy, b.unhealthy);
    EXPECT_EQ(a.repair, b.repair);
    EXPECT_NE(a.uptime, one.Next(NodeId(3)).uptime);
  }
  EXPECT_FALSE(FaultModel({}, 4).breaks());
}

TEST(FaultModel, KeepsItsMeans) {
  const FaultOptions o = {.mean_uptime = hours(100), .hard_permille = 250, .mean_repair = hours(8)};
  FaultModel model(o, 1);
  Duration uptime{0}, unhealthy{0}, repair{0};
  int hard = 0;
  constexpr int kDraws = 20'000;
  for (int i = 0; i < kDraws; ++i) {
    const Fault f = model.Next(NodeId(0));
    ASSERT_GT(f.uptime, Duration(0));
    uptime += f.uptime;
    unhealthy += f.unhealthy;
    repair += f.repair;
    hard += f.hard;
  }
  EXPECT_NEAR(Hours(uptime / kDraws), 100, 3);
  EXPECT_NEAR(Hours(unhealthy / kDraws), 24, 1);
  EXPECT_NEAR(Hours(repair / kDraws), 8, 0.3);
  EXPECT_NEAR(hard, kDraws / 4, 250);
}

TEST(FaultModel, FailedResumesAreGeometricAndFixedByTheRun) {
  const FaultModel model({.failed_resume_permille = 500, .seed = 3}, 0);
  std::int64_t sum = 0;
  for (std::uint32_t job = 0; job < 10'000; ++job) {
    sum += model.FailedResumes(job, 2);
    EXPECT_EQ(model.FailedResumes(job, 2), model.FailedResumes(job, 2));
  }
  EXPECT_NEAR(static_cast<double>(sum), 10'000, 500);
  EXPECT_EQ(FaultModel({}, 0).FailedResumes(1, 2), 0);
}

TEST(Hosts, NothingChangesByDefault) {
  const Hosts hosts({}, kFour, hours(4));
  EXPECT_FALSE(hosts.active());
  EXPECT_EQ(hosts.next(), kNever);
  EXPECT_EQ(hosts.healthy(), GpuCount(32));
  EXPECT_EQ(hosts.usable(), GpuCount(32));
}

constexpr ClusterSpec kOne = {.nodes = 1, .gpus_per_node = 8, .nodes_per_rack = 0};

TEST(Hosts, AHardFaultTakesTheHostDownUntilItIsRepaired) {
  const FaultOptions o = {.mean_uptime = hours(100), .hard_permille = 1000};
  const Fault first = FaultModel(o, 1).Next(NodeId(0));
  Hosts hosts(o, kOne, hours(4));
  ASSERT_TRUE(hosts.active());
  EXPECT_EQ(hosts.next(), At(first.uptime));
  const std::optional<HostChange> down = hosts.Step();
  ASSERT_TRUE(down.has_value());
  EXPECT_EQ(down->health, NodeHealth::kDown);
  EXPECT_TRUE(down->repair);
  EXPECT_FALSE(down->notice);
  EXPECT_EQ(down->drain, std::nullopt);
  EXPECT_EQ(hosts.healthy(), GpuCount(0));
  EXPECT_EQ(hosts.usable(), GpuCount(0));
  EXPECT_EQ(hosts.next(), At(first.uptime + first.repair));
  EXPECT_EQ(hosts.Step()->health, NodeHealth::kUp);
  EXPECT_EQ(hosts.healthy(), GpuCount(8));
  EXPECT_GT(hosts.next(), At(first.uptime + first.repair));
}

class UnhealthyHost : public ::testing::Test {
 protected:
  // Brings the host to its first fault, which leaves it unhealthy.
  void Break(Duration patience) {
    const FaultOptions o = {.mean_uptime = hours(100), .hard_permille = 0};
    fault_ = FaultModel(o, 1).Next(NodeId(0));
    hosts_.emplace(o, kOne, patience);
    broken_at_ = hosts_->next();
    const std::optional<HostChange> change = hosts_->Step();
    ASSERT_TRUE(change.has_value());
    EXPECT_EQ(change->health, NodeHealth::kDraining);
    EXPECT_FALSE(change->repair);
    EXPECT_EQ(hosts_->healthy(), GpuCount(0));
    EXPECT_EQ(hosts_->usable(), GpuCount(8));
    EXPECT_EQ(hosts_->unhealthy(), std::vector<NodeId>{NodeId(0)});
  }
  Fault fault_{};
  TimePoint broken_at_{};
  std::optional<Hosts> hosts_;
};

TEST_F(UnhealthyHost, IsRepairedOnceItIsEmpty) {
  Break(hours(10'000));
  const HostChange change = hosts_->Emptied(NodeId(0), broken_at_ + minutes(1));
  EXPECT_EQ(change.health, NodeHealth::kDown);
  EXPECT_EQ(change.drain, minutes(1));
  EXPECT_TRUE(change.repair);
  EXPECT_FALSE(change.notice);
  EXPECT_TRUE(hosts_->unhealthy().empty());
  // What would have happened otherwise is out of date.
  const TimePoint ready = broken_at_ + minutes(1) + fault_.repair;
  int ups = 0;
  while (hosts_->next() <= std::max(ready, broken_at_ + fault_.unhealthy)) {
    const TimePoint at = hosts_->next();
    const std::optional<HostChange> next = hosts_->Step();
    if (!next.has_value()) continue;
    EXPECT_EQ(next->health, NodeHealth::kUp);
    EXPECT_EQ(at, ready);
    if (++ups == 1) break;
  }
  EXPECT_EQ(ups, 1);
}

TEST_F(UnhealthyHost, FailsByItselfIfNobodyDrainsIt) {
  Break(hours(10'000));
  EXPECT_EQ(hosts_->next(), broken_at_ + fault_.unhealthy);
  const std::optional<HostChange> change = hosts_->Step();
  ASSERT_TRUE(change.has_value());
  EXPECT_EQ(change->health, NodeHealth::kDown);
  EXPECT_EQ(change->drain, fault_.unhealthy);
  EXPECT_FALSE(change->notice);
  EXPECT_TRUE(change->repair);
}

TEST_F(UnhealthyHost, APersonIsCalledAfterThePatience) {
  Break(seconds(1));
  ASSERT_GT(fault_.unhealthy, seconds(1));
  EXPECT_EQ(hosts_->next(), broken_at_ + seconds(1));
  const std::optional<HostChange> change = hosts_->Step();
  ASSERT_TRUE(change.has_value());
  EXPECT_TRUE(change->notice);
  EXPECT_TRUE(change->repair);
  EXPECT_EQ(change->drain, seconds(1));
}

TEST(Hosts, MaintenanceIsAnnouncedAndEnds) {
  const FaultOptions o = {.maintenance = {{.first_node = 1,
                                           .nodes = 2,
                                           .begin = hours(20),
                                           .end = hours(26),
                                           .announced = hours(8)}}};
  Hosts hosts(o, kFour, hours(4));
  std::vector<std::string> seen;
  while (hosts.next() != kNever) {
    const TimePoint at = hosts.next();
    const std::optional<HostChange> c = hosts.Step();
    ASSERT_TRUE(c.has_value());
    seen.push_back(absl::StrCat(at.time_since_epoch() / hours(1), "h node ", c->node.value(), " ",
                                ToString(c->health), c->notice ? " notice" : "",
                                c->repair ? " repair" : ""));
  }
  EXPECT_EQ(seen, (std::vector<std::string>{
                      "12h node 1 draining", "12h node 2 draining", "20h node 1 down notice repair",
                      "20h node 2 down notice repair", "26h node 1 up", "26h node 2 up"}));
  EXPECT_EQ(hosts.healthy(), GpuCount(32));
}

TEST(Hosts, StayInUseUntilMaintenanceThatIsPlannedFor) {
  const FaultOptions o = {.maintenance = {{1, 1, hours(20), hours(26), hours(8)}}};
  Hosts hosts(o, kFour, hours(4), true);
  const std::optional<HostChange> told = hosts.Step();
  ASSERT_TRUE(told.has_value() && told->announced.has_value());
  EXPECT_EQ(told->health, NodeHealth::kUp);
  EXPECT_EQ(told->announced->from, TimePoint(hours(20)));
  EXPECT_EQ(told->announced->until, TimePoint(hours(26)));
  EXPECT_EQ(hosts.healthy(), GpuCount(32));
  EXPECT_EQ(hosts.Step()->health, NodeHealth::kDown);
  EXPECT_EQ(hosts.Step()->health, NodeHealth::kUp);
  EXPECT_EQ(hosts.next(), kNever);
}

TEST(Hosts, RollingMaintenanceTakesOneRackAfterTheOther) {
  ClusterSpec cluster;
  cluster.nodes = 5;
  cluster.nodes_per_rack = 2;
  const auto windows = RollingMaintenance(cluster, hours(10), hours(2), hours(12));
  ASSERT_EQ(windows.size(), 3u);
  EXPECT_EQ(windows[1].first_node, 2);
  EXPECT_EQ(windows[1].nodes, 2);
  EXPECT_EQ(windows[1].begin, hours(12));
  EXPECT_EQ(windows[2].nodes, 1);
  EXPECT_EQ(windows[2].end, hours(16));
  EXPECT_EQ(windows[2].announced, hours(12));
}

TEST(Hosts, OverlappingWindowsEndWithTheLast) {
  const FaultOptions o = {.maintenance = {{0, 1, hours(10), hours(20), hours(1)},
                                          {0, 1, hours(15), hours(18), hours(1)},
                                          {0, 1, hours(22), hours(23), hours(3)}}};
  Hosts hosts(o, kFour, hours(4));
  std::vector<std::pair<std::int64_t, NodeHealth>> seen;
  std::int64_t repairs = 0;
  while (hosts.next() != kNever) {
    const TimePoint at = hosts.next();
    const std::optional<HostChange> c = hosts.Step();
    if (!c.has_value()) continue;
    seen.emplace_back(at.time_since_epoch() / hours(1), c->health);
    repairs += c->repair;
  }
  // Ready at 20, but the window of 22 h is already announced.
  EXPECT_EQ(seen, (std::vector<std::pair<std::int64_t, NodeHealth>>{{9, NodeHealth::kDraining},
                                                                    {10, NodeHealth::kDown},
                                                                    {15, NodeHealth::kDown},
                                                                    {20, NodeHealth::kDraining},
                                                                    {22, NodeHealth::kDown},
                                                                    {23, NodeHealth::kUp}}));
  EXPECT_EQ(repairs, 2);
}

// --- Engines ---------------------------------------------------------------------------------

World TinyWorld(std::int32_t nodes) {
  World world;
  world.cluster = {.nodes = nodes, .gpus_per_node = 8, .nodes_per_rack = 0};
  world.leaves = {{"a", {1}}, {"b", {1}}};
  return world;
}

WorkloadSpec Spec(std::uint64_t id, bool resumable, Duration minimum = hours(1)) {
  WorkloadSpec spec;
  spec.id = WorkloadId(id);
  spec.allocation = AllocationId(1);
  spec.gpus_per_node = GpuCount(8);
  spec.minimum = minimum;
  spec.resumable = resumable;
  return spec;
}

std::unique_ptr<Engine> Make(const std::string& policy, const World& world,
                             const Parameters& parameters = {}) {
  absl::StatusOr<std::unique_ptr<Engine>> engine =
      MakeEngine(policy, parameters, world, seconds(10));
  EXPECT_TRUE(engine.ok()) << engine.status();
  return std::move(*engine);
}

// Starts what can start now; the nodes are those of the last start.
std::vector<std::uint64_t> Started(Engine& engine, TimePoint now, NodeId* node = nullptr) {
  const Decisions* d = engine.Decide(now).value();
  std::vector<std::uint64_t> ids;
  std::vector<std::pair<WorkloadId, RunNumber>> runs;
  for (const Start& s : d->starts) {
    ids.push_back(s.workload.value());
    runs.emplace_back(s.workload, s.run);
    if (node != nullptr) *node = d->Nodes(s)[0];
  }
  for (const auto& [id, run] : runs) EXPECT_TRUE(engine.ReportStarted(id, run, now).ok());
  return ids;
}

class EveryEngine : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryEngine, ADownNodeLosesItsRunsAndResumableOnesWaitAgain) {
  const World world = TinyWorld(1);
  for (const bool resumable : {true, false}) {
    const std::unique_ptr<Engine> e = Make(GetParam(), world);
    ASSERT_TRUE(e->Submit(Spec(1, resumable), hours(2), At(hours(0))).ok());
    EXPECT_EQ(Started(*e, At(hours(0))), std::vector<std::uint64_t>{1});
    EXPECT_FALSE(e->NodeEmpty(NodeId(0)));
    ASSERT_TRUE(e->SetNode(NodeId(0), NodeHealth::kDown, At(hours(1)), At(hours(1))).ok());
    EXPECT_TRUE(e->NodeEmpty(NodeId(0)));
    EXPECT_TRUE(Started(*e, At(hours(1))).empty());
    ASSERT_TRUE(e->SetNode(NodeId(0), NodeHealth::kUp, At(hours(3)), At(hours(3))).ok());
    EXPECT_TRUE(e->Dirty());
    EXPECT_EQ(Started(*e, At(hours(3))).size(), resumable ? 1u : 0u);
    // A finished workload may be submitted again, one that waits or runs may not.
    EXPECT_EQ(e->Submit(Spec(1, resumable), hours(2), At(hours(3))).ok(), !resumable);
  }
}

TEST_P(EveryEngine, ADrainingNodeTakesNothingNew) {
  const World world = TinyWorld(2);
  const std::unique_ptr<Engine> e = Make(GetParam(), world, {});
  NodeId first;
  ASSERT_TRUE(e->Submit(Spec(1, true), hours(2), At(hours(0))).ok());
  ASSERT_EQ(Started(*e, At(hours(0)), &first).size(), 1u);
  const NodeId other(1 - first.value());
  EXPECT_TRUE(e->NodeEmpty(other));
  ASSERT_TRUE(e->SetNode(other, NodeHealth::kDraining, At(hours(0)), At(hours(0))).ok());
  ASSERT_TRUE(e->Submit(Spec(2, true), hours(2), At(minutes(1))).ok());
  EXPECT_TRUE(Started(*e, At(minutes(1))).empty());
  ASSERT_TRUE(e->SetNode(other, NodeHealth::kUp, At(minutes(2)), At(minutes(2))).ok());
  EXPECT_EQ(Started(*e, At(minutes(2))), std::vector<std::uint64_t>{2});
}

TEST_P(EveryEngine, UnknownNodesAndEarlierTimesAreRefused) {
  const World world = TinyWorld(1);
  const std::unique_ptr<Engine> e = Make(GetParam(), world);
  EXPECT_EQ(e->SetNode(NodeId(1), NodeHealth::kDown, At(hours(0)), At(hours(0))).code(),
            absl::StatusCode::kNotFound);
  ASSERT_TRUE(e->Decide(At(hours(1))).ok());
  EXPECT_EQ(e->SetNode(NodeId(0), NodeHealth::kDown, At(hours(0)), At(hours(0))).code(),
            absl::StatusCode::kOutOfRange);
}

INSTANTIATE_TEST_SUITE_P(Policies, EveryEngine, ::testing::ValuesIn(PolicyNames()),
                         [](const auto& instance) {
                           std::string name = instance.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(BaselineEngine, ADrainStopsWhatMayBeStopped) {
  const World world = TinyWorld(2);
  const struct {
    const char* policy;
    Duration minimum;
    bool stopped;
  } cases[] = {
      {"priority", hours(1), false},          // under its entitlement: protected
      {"priority", Duration(0), false},       // sweeps are HIGH as well
      {"fifo-easy", Duration(0), false},      // stops nothing
      {"fairtree-preempt", hours(1), false},  // funded
      {"fairtree-preempt", Duration(0), true},
  };
  for (const auto& c : cases) {
    const std::unique_ptr<Engine> e = Make(c.policy, world);
    ASSERT_TRUE(e->Submit(Spec(1, true, c.minimum), hours(2), At(hours(0))).ok());
    NodeId node;
    ASSERT_EQ(Started(*e, At(hours(0)), &node).size(), 1u);
    ASSERT_TRUE(e->SetNode(node, NodeHealth::kDraining, At(hours(1)), At(hours(1))).ok());
    const Decisions* d = e->Decide(At(hours(1))).value();
    ASSERT_EQ(d->stops.size(), c.stopped ? 1u : 0u) << c.policy << " " << c.minimum.count();
    if (!c.stopped) continue;
    EXPECT_EQ(d->stops[0].reason, StopReason::kDrain);
    const RunNumber run = d->stops[0].run;
    ASSERT_TRUE(e->ReportStopped(WorkloadId(1), run, At(hours(2))).ok());
    EXPECT_TRUE(e->NodeEmpty(node));
    NodeId next;
    ASSERT_EQ(Started(*e, At(hours(2)), &next).size(), 1u);
    EXPECT_NE(next, node);
  }
}

TEST(BaselineEngine, AHoldOnANodeThatDrainsIsReleased) {
  const World world = TinyWorld(1);
  const std::unique_ptr<Engine> e = Make("fairtree-preempt", world);
  ASSERT_TRUE(e->Submit(Spec(1, true, Duration(0)), hours(2), At(hours(0))).ok());
  ASSERT_EQ(Started(*e, At(hours(0))).size(), 1u);
  ASSERT_TRUE(e->Submit(Spec(2, true), hours(2), At(hours(1))).ok());
  const Decisions* d = e->Decide(At(hours(1))).value();
  ASSERT_EQ(d->holds.size(), 1u);
  ASSERT_EQ(d->stops.size(), 1u);
  const RunNumber run = d->stops[0].run;
  ASSERT_TRUE(e->SetNode(NodeId(0), NodeHealth::kDraining, At(hours(1)), At(hours(1))).ok());
  ASSERT_TRUE(e->ReportStopped(WorkloadId(1), run, At(hours(2))).ok());
  EXPECT_TRUE(Started(*e, At(hours(2))).empty());
  EXPECT_TRUE(e->NodeEmpty(NodeId(0)));
  ASSERT_TRUE(e->SetNode(NodeId(0), NodeHealth::kUp, At(hours(3)), At(hours(3))).ok());
  EXPECT_EQ(Started(*e, At(hours(3))), std::vector<std::uint64_t>{2});
}

TEST(BaselineEngine, EntitlementsFollowTheHealthyNodes) {
  // Half of 16 GPUs: a run of 8 is protected; half of 8: it is not.
  for (const bool drained : {false, true}) {
    const World world = TinyWorld(2);
    const std::unique_ptr<Engine> e = Make("priority", world);
    if (drained) {
      ASSERT_TRUE(e->SetNode(NodeId(1), NodeHealth::kDraining, At(hours(0)), At(hours(0))).ok());
    }
    ASSERT_TRUE(e->Submit(Spec(1, true), hours(2), At(hours(0))).ok());
    NodeId node;
    ASSERT_EQ(Started(*e, At(hours(0)), &node).size(), 1u);
    ASSERT_TRUE(e->SetNode(node, NodeHealth::kDraining, At(hours(1)), At(hours(1))).ok());
    EXPECT_EQ(e->Decide(At(hours(1))).value()->stops.size(), drained ? 1u : 0u);
  }
}

TEST(SchedulerEngine, ProtectionIsBoundedByTheLargestCap) {
  const World world = TinyWorld(1);
  EXPECT_EQ(Make("budget", world)->LongestProtection(), hours(8));
  EXPECT_EQ(Make("budget", world, {{"cap", "3h"}})->LongestProtection(), hours(3));
  EXPECT_EQ(Make("priority", world)->LongestProtection(), Duration(0));
}

// --- Simulations -----------------------------------------------------------------------------

JobRow LongJob() {
  JobRow row;
  row.runtime_us = Duration(hours(10)).count();
  row.minimum_us = Duration(hours(1)).count();
  row.checkpoint_us = Duration(hours(1)).count();
  row.restart_us = Duration(minutes(10)).count();
  row.gpus_per_node = 8;
  return row;
}

TEST(SimulatedFaults, MaintenanceSendsAwayWhoIsLeft) {
  // One host, down in [2:30, 3:00) without warning. The job has saved two hours; it comes back with
  // ten minutes of overhead and has eight hours to go: 11:10.
  World world = TinyWorld(1);
  world.jobs = {LongJob()};
  SimOptions o;
  o.end = hours(12);
  o.faults.maintenance = {{0, 1, minutes(150), hours(3), Duration(0)}};
  for (const char* policy : {"fifo-easy", "priority", "budget"}) {
    const Metrics m = Simulate(world, policy, {}, o).value();
    EXPECT_EQ(m.jobs_done, 1) << policy;
    EXPECT_EQ(m.runs_lost, 1);
    EXPECT_EQ(m.preemptions, 0);
  }
  const Metrics m = Simulate(world, "fifo-easy", {}, o).value();
  const double occupied = 2.5 + 8 + 1.0 / 6;
  EXPECT_DOUBLE_EQ(m.waste.value(), (0.5 + 1.0 / 6) / occupied);
  EXPECT_DOUBLE_EQ(m.availability.value(), 11.5 / 12);
  EXPECT_DOUBLE_EQ(m.occupancy.value(), occupied / 11.5);
  EXPECT_EQ(m.repairs, 1);
  EXPECT_EQ(m.repairs_human, 1);
  EXPECT_EQ(m.host_drain_h.max, std::nullopt);  // it was not unhealthy

  world.jobs[0].flags = kResumable | kCheckpointOnNotice;  // loses the overhead only
  EXPECT_DOUBLE_EQ(Simulate(world, "fifo-easy", {}, o)->waste.value(),
                   (1.0 / 6) / (2.5 + 7.5 + 1.0 / 6));
  world.jobs[0].flags = 0;  // starts anew at 3:00
  const Metrics anew = Simulate(world, "fifo-easy", {}, o).value();
  EXPECT_EQ(anew.jobs_running, 1);
  EXPECT_DOUBLE_EQ(anew.waste.value(), 2.5 / 11.5);
}

TEST(SimulatedFaults, AnAnnouncedWindowNeedsNobodyWhereRunsEndWithTheirMinimum) {
  World world = TinyWorld(2);  // the job is within its entitlement
  world.jobs = {LongJob()};
  SimOptions o;
  o.end = hours(24);
  o.faults.maintenance = {{0, 2, hours(3), hours(4), hours(1)}};
  const Metrics budget = Simulate(world, "budget", {}, o).value();
  EXPECT_EQ(budget.repairs, 2);
  EXPECT_EQ(budget.repairs_human, 0);
  EXPECT_EQ(budget.runs_lost, 0);
  EXPECT_EQ(budget.preemptions, 1);
  EXPECT_EQ(budget.jobs_done, 1);
  // It works until just before the window instead of draining for an hour.
  EXPECT_GT(budget.occupancy.value(), Simulate(world, "fairtree", {}, o)->occupancy.value());
  const Metrics priority = Simulate(world, "priority", {}, o).value();
  EXPECT_EQ(priority.repairs, 2);
  EXPECT_EQ(priority.repairs_human, 1);
  EXPECT_EQ(priority.runs_lost, 1);
  EXPECT_EQ(priority.preemptions, 0);
}

TEST(SimulatedFaults, FailedResumesSpendTheOverheadAgain) {
  World world = TinyWorld(1);
  world.jobs.assign(1, LongJob());
  SimOptions o;
  o.end = hours(24);
  o.faults.failed_resume_permille = 900;
  o.faults.maintenance = {{0, 1, hours(2), hours(3), Duration(0)}};
  const std::int64_t failed = FaultModel(o.faults, 0).FailedResumes(0, 2);
  ASSERT_GT(failed, 0);
  const Metrics m = Simulate(world, "fifo-easy", {}, o).value();
  EXPECT_EQ(m.failed_resumes, failed);
  const double overhead = static_cast<double>(1 + failed) / 6;
  EXPECT_NEAR(m.waste.value(), overhead / (10 + overhead), 1e-9);
}

World SmallInstitute() {
  InstituteOptions o;
  o.load = 1.6;
  o.nodes = 32;
  o.days = 5;
  o.warmup_days = 1;
  return GenerateInstitute(o).value();
}

class FaultyCluster : public ::testing::TestWithParam<std::string> {};

TEST_P(FaultyCluster, LosesNobodyAndMeasuresItsRepairs) {
  const World world = SmallInstitute();
  SimOptions o;
  o.warmup = hours(24);
  o.end = hours(24 * 6);
  const Metrics healthy = Simulate(world, GetParam(), {}, o).value();
  o.faults.mean_uptime = hours(24 * 6);
  o.faults.failed_resume_permille = 50;
  o.faults.maintenance = {{0, 4, hours(60), hours(66), hours(10)}};
  const Metrics m = Simulate(world, GetParam(), {}, o).value();
  const Metrics again = Simulate(world, GetParam(), {}, o).value();
  EXPECT_EQ(m.decision_digest, again.decision_digest);
  EXPECT_NE(m.decision_digest, healthy.decision_digest);
  for (const Metrics* x : {&healthy, &m}) {
    EXPECT_EQ(x->jobs, static_cast<std::int64_t>(world.jobs.size()));
    EXPECT_EQ(x->jobs, x->jobs_done + x->jobs_running + x->jobs_queued + x->jobs_withdrawn +
                           x->jobs_failed + x->jobs_never_fit);
    EXPECT_LE(x->occupancy.value(), 1.0);
    EXPECT_EQ(x->promises_broken, 0);
  }
  EXPECT_EQ(healthy.repairs + healthy.runs_lost + healthy.drains_late + healthy.failed_resumes, 0);
  EXPECT_EQ(healthy.availability, 1.0);
  EXPECT_LT(m.availability.value(), 0.98);
  EXPECT_GT(m.availability.value(), 0.8);
  EXPECT_GE(m.repairs, 10);
  EXPECT_GT(m.runs_lost, 0);
  EXPECT_LE(m.repairs_human, m.repairs);
  const bool budgets = IsPreset(GetParam());
  if (budgets) {
    EXPECT_EQ(m.repairs_human, 0);
    EXPECT_LE(m.host_drain_h.max.value(), 8.01);
  } else {
    EXPECT_GT(m.repairs_human, 0);
    EXPECT_LE(m.host_drain_h.max.value(), 4.0);  // then somebody has negotiated
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, FaultyCluster, ::testing::ValuesIn(PolicyNames()),
                         [](const auto& instance) {
                           std::string name = instance.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(SimulatedFaults, SweepsAreStoppedOnAnUnhealthyHost) {
  // Under fairtree-preempt a sweep leaves an unhealthy host at once: nobody has to negotiate.
  World world = TinyWorld(2);
  JobRow sweep;
  sweep.runtime_us = Duration(hours(24 * 300)).count();
  sweep.gpus_per_node = 8;
  sweep.workload_class = static_cast<std::uint32_t>(WorkloadClass::kSweep);
  sweep.checkpoint_us = Duration(minutes(30)).count();
  world.jobs = {sweep, sweep};
  SimOptions o;
  o.end = hours(24 * 60);
  o.faults.mean_uptime = hours(24 * 5);
  o.faults.hard_permille = 0;
  const Metrics fairtree = Simulate(world, "fairtree", {}, o).value();
  EXPECT_GT(fairtree.repairs, 5);
  EXPECT_GT(fairtree.repairs_human, fairtree.repairs / 2);
  const Metrics preempt = Simulate(world, "fairtree-preempt", {}, o).value();
  EXPECT_GT(preempt.repairs, 5);
  EXPECT_EQ(preempt.repairs_human, 0);
  EXPECT_EQ(preempt.drains_late, 0);
  EXPECT_LE(preempt.host_drain_h.max.value(), 0.01);
}

TEST(SimulatedFaults, AnEngineThatIgnoresHealthCannotMeetThem) {
  class Deaf : public Engine {
   public:
    absl::Status Submit(const WorkloadSpec&, Duration, TimePoint) override {
      return absl::OkStatus();
    }
    absl::Status Cancel(WorkloadId, TimePoint) override { return absl::OkStatus(); }
    absl::Status ReportStarted(WorkloadId, RunNumber, TimePoint) override {
      return absl::OkStatus();
    }
    absl::Status ReportEnded(WorkloadId, RunNumber, TimePoint) override { return absl::OkStatus(); }
    absl::Status ReportStopped(WorkloadId, RunNumber, TimePoint) override {
      return absl::OkStatus();
    }
    absl::Status ReportIdle(WorkloadId, bool, TimePoint) override { return absl::OkStatus(); }
    bool Dirty() const override { return false; }
    absl::StatusOr<const Decisions*> Decide(TimePoint) override { return &decisions_; }

   private:
    Decisions decisions_;
  };
  const World world = TinyWorld(1);
  Deaf engine;
  BudgetTree tree;
  const std::vector<AllocationId> ids =
      AddLeaves(world, [&](const std::string& name, AllocationId parent, Weight w) {
        return tree.Add(name, parent, w);
      }).value();
  SimOptions o;
  o.end = hours(10);
  o.faults.maintenance = {{0, 1, hours(1), hours(2), Duration(0)}};
  MetricsRecorder recorder(world, tree, ids, {.end = o.end});
  EXPECT_EQ(Simulation(world, engine, ids, recorder, o).Run({}).status().code(),
            absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace tenure::sim
