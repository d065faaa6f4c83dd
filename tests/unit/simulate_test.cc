// SPDX-License-Identifier: Apache-2.0

#include "tenure/sim/simulate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tenure/sim/institute.h"
#include "tenure/sim/random.h"

namespace tenure::sim {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

std::int64_t Us(Duration d) { return d.count(); }
TimePoint At(Duration d) { return TimePoint(d); }

// Two leaves of equal weight.
World TinyWorld(std::int32_t nodes = 1) {
  World world;
  world.cluster = {.nodes = nodes, .gpus_per_node = 8, .nodes_per_rack = 0};
  world.leaves = {{"a", {1}}, {"b", {1}}};
  return world;
}

JobRow Job(Duration submit, Duration runtime, Duration minimum = minutes(10),
           std::int32_t gpus = 8) {
  JobRow row;
  row.submit_us = Us(submit);
  row.runtime_us = Us(runtime);
  row.minimum_us = Us(minimum);
  row.gpus_per_node = gpus;
  row.workload_class = static_cast<std::uint32_t>(minimum > Duration(0) ? WorkloadClass::kTraining
                                                                        : WorkloadClass::kSweep);
  return row;
}

World SmallInstitute() {
  InstituteOptions o;
  o.load = 1.6;
  o.nodes = 32;
  o.days = 4;
  o.warmup_days = 1;
  return GenerateInstitute(o).value();
}

SimOptions SmallOptions() {
  SimOptions o;
  o.warmup = hours(24);
  o.end = hours(24 * 5);
  return o;
}

// --- Hand-computed worlds ------------------------------------------------------------------------

TEST(Simulate, TwoJobsOnOneHost) {
  // A in [0:00, 1:00). B arrives at 0:10 and runs in [1:00, 1:30). C arrives at 1:40:07 and starts
  // with the pass of 1:40:10; it would run for an hour.
  World world = TinyWorld();
  world.jobs = {Job(hours(0), hours(1)), Job(minutes(10), minutes(30)),
                Job(minutes(100) + seconds(7), hours(1))};
  SimOptions o;
  o.end = hours(2);
  for (const std::string& policy : PolicyNames()) {
    if (IsPreset(policy)) continue;  // they would preempt
    const Metrics m = Simulate(world, policy, {}, o).value();
    EXPECT_EQ(m.jobs, 3) << policy;
    EXPECT_EQ(m.jobs_done, 2);
    EXPECT_EQ(m.jobs_running, 1);
    EXPECT_EQ(m.starts, 3);
    EXPECT_EQ(m.preemptions, 0);
    const double third = 20 * 60 - 10;  // s, of C
    EXPECT_DOUBLE_EQ(m.occupancy.value(), (5400 + third) / 7200) << policy;
    EXPECT_DOUBLE_EQ(m.goodput.value(), m.occupancy.value());
    EXPECT_EQ(m.waste, 0.0);
    EXPECT_EQ(m.availability, 1.0);
  }
  // Waits are those of work submitted two hours before the end.
  o.end = hours(5);
  const Metrics m = Simulate(world, "fifo-easy", {}, o).value();
  EXPECT_EQ(m.wait_s[0].p50, 3.0);
  EXPECT_EQ(m.wait_s[0].p90, 3000.0);
  EXPECT_EQ(m.jobs_done, 3);
  EXPECT_EQ(m.events, 3 + 3);
}

TEST(Simulate, AStopTakesItsGraceAndLosesWhatIsNotSaved) {
  // A sweep of 3 h with a checkpoint every 30 min starts at 0:00. A funded job comes at 1:10, the
  // sweep is stopped then and gone 10 s later, having saved 1 h. The job runs for one hour; then
  // the sweep spends 6 min on its restart and has 2 h to go: over at 4:16:10.
  World world = TinyWorld();
  world.jobs = {Job(hours(0), hours(3), Duration(0)), Job(minutes(70), hours(1))};
  world.jobs[0].checkpoint_us = Us(minutes(30));
  world.jobs[0].restart_us = Us(minutes(6));
  SimOptions o;
  o.end = hours(4) + minutes(16) + seconds(10);
  EXPECT_EQ(Simulate(world, "budget", {}, o)->jobs_running, 1);
  o.end += Duration(1);
  const Metrics m = Simulate(world, "budget", {}, o).value();
  EXPECT_EQ(m.jobs_done, 2);
  EXPECT_EQ(m.preemptions, 1);
  EXPECT_EQ(m.starts, 3);
  EXPECT_EQ(m.preemptions_per_job, 0.0);  // of funded ones
  const double lost = 10 * 60 + 10 + 6 * 60, occupied = 4 * 3600 + 16 * 60 + 10;
  EXPECT_NEAR(m.waste.value(), lost / occupied, 1e-9);
  EXPECT_NEAR(m.unfunded_share.value(), 1 - 3600 / occupied, 1e-9);

  o.notice_permille = 1000;  // saves everything: 1:10:10 done, over at 4:06
  o.end = hours(4) + minutes(6) + Duration(1);
  const Metrics notice = Simulate(world, "budget", {}, o).value();
  EXPECT_EQ(notice.jobs_done, 2);
  EXPECT_NEAR(notice.waste.value(), 360.0 / (4 * 3600 + 360), 1e-9);
}

TEST(Simulate, AStoppedRunThatCannotResumeIsSubmittedAgain) {
  World world = TinyWorld();
  world.jobs = {Job(hours(0), hours(2), Duration(0)), Job(hours(1), hours(1))};
  world.jobs[0].flags = 0;
  SimOptions o;
  o.end = hours(4) + seconds(11);
  const Metrics m = Simulate(world, "budget", {}, o).value();
  EXPECT_EQ(m.jobs, 2);
  EXPECT_EQ(m.jobs_done, 2);
  EXPECT_EQ(m.jobs_failed, 0);
  EXPECT_EQ(m.starts, 3);
  EXPECT_NEAR(m.waste.value(), 3610.0 / (4 * 3600 + 10), 1e-4);
}

TEST(Simulate, ImpatientAndOversizedWork) {
  World world = TinyWorld();
  world.jobs = {Job(hours(0), hours(5)), Job(hours(1), hours(1)), Job(hours(2), hours(1))};
  world.jobs[0].minimum_us = Us(hours(8));
  world.jobs[1].patience_us = Us(hours(1));  // gives up at 2:00
  world.jobs[2].nodes = 2;
  SimOptions o;
  o.end = hours(10);
  for (const std::string& policy : PolicyNames()) {
    const Metrics m = Simulate(world, policy, {}, o).value();
    EXPECT_EQ(m.jobs_done, 1) << policy;
    EXPECT_EQ(m.jobs_withdrawn, 1);
    EXPECT_EQ(m.jobs_never_fit, 1);
    EXPECT_EQ(m.wait_s[0].p90, 3600.0);
  }
}

TEST(Simulate, TheEndIsTheLastSubmissionUnlessGiven) {
  World world = TinyWorld();
  world.jobs = {Job(hours(0), minutes(30)), Job(hours(3), hours(1))};
  const Metrics m = Simulate(world, "budget", {}, {}).value();
  EXPECT_EQ(m.jobs, 2);
  EXPECT_EQ(m.jobs_done, 1);
  EXPECT_EQ(m.jobs_running, 1);  // for a microsecond
}

// --- Laws ----------------------------------------------------------------------------------------

class EveryPolicy : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryPolicy, CountsEveryJobOnceAndDecidesTheSameTwice) {
  const World world = SmallInstitute();
  SimOptions o = SmallOptions();
  o.notice_permille = 300;
  o.idle_nights_permille = 200;
  const Metrics m = Simulate(world, GetParam(), {}, o).value();
  EXPECT_EQ(m.jobs, static_cast<std::int64_t>(world.jobs.size()));
  EXPECT_EQ(m.jobs, m.jobs_done + m.jobs_running + m.jobs_queued + m.jobs_withdrawn +
                        m.jobs_failed + m.jobs_never_fit);
  EXPECT_GT(m.jobs_done, m.jobs / 4);
  EXPECT_GE(m.starts, m.jobs_done + m.jobs_running);
  EXPECT_EQ(m.starts, m.jobs_done + m.jobs_running + m.preemptions);
  EXPECT_GT(m.occupancy.value(), 0.9);
  EXPECT_LE(m.occupancy.value(), 1.0);
  EXPECT_LE(m.goodput.value(), m.occupancy.value());
  EXPECT_LE(m.promises_broken, 0);
  double delivered = 0;
  for (const LeafResult& leaf : m.leaf) delivered += leaf.delivered_gpu_h;
  EXPECT_NEAR(delivered, (1 - m.unfunded_share.value()) * m.occupancy.value() * 256 * 96, 1e-3);

  const Metrics again = Simulate(world, GetParam(), {}, o).value();
  EXPECT_EQ(m.decision_digest, again.decision_digest);
  EXPECT_EQ(m.passes, again.passes);
  EXPECT_EQ(m.owed_win7, again.owed_win7);
}

TEST_P(EveryPolicy, TheOrderOfTheLeavesDoesNotMatter) {
  const World world = SmallInstitute();
  std::vector<std::int32_t> order(world.leaves.size());  // new index -> old index
  std::iota(order.begin(), order.end(), 0);
  Rng rng(5);
  for (std::size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1],
              order[static_cast<std::size_t>(rng.Below(static_cast<std::int64_t>(i)))]);
  }
  World shuffled = world;
  std::vector<std::int32_t> index(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto from = static_cast<std::size_t>(order[i]);
    shuffled.leaves[i] = world.leaves[from];
    index[from] = static_cast<std::int32_t>(i);
  }
  for (JobRow& job : shuffled.jobs) job.leaf = index[static_cast<std::size_t>(job.leaf)];
  const Metrics a = Simulate(world, GetParam(), {}, SmallOptions()).value();
  const Metrics b = Simulate(shuffled, GetParam(), {}, SmallOptions()).value();
  EXPECT_EQ(a.decision_digest, b.decision_digest);
  EXPECT_EQ(a.owed_strict, b.owed_strict);
  for (std::size_t i = 0; i < order.size(); ++i) {
    EXPECT_EQ(b.leaf[i].delivered_gpu_h,
              a.leaf[static_cast<std::size_t>(order[i])].delivered_gpu_h);
  }
}

TEST_P(EveryPolicy, IsCancelledByItsProgress) {
  const World world = SmallInstitute();
  int calls = 0;
  double last = 0;
  const auto progress = [&](double part) {
    EXPECT_GE(part, last);
    EXPECT_LE(part, 1.0);
    last = part;
    return ++calls < 2;
  };
  EXPECT_EQ(Simulate(world, GetParam(), {}, SmallOptions(), progress).status().code(),
            absl::StatusCode::kCancelled);
  EXPECT_EQ(calls, 2);
}

INSTANTIATE_TEST_SUITE_P(Policies, EveryPolicy, ::testing::ValuesIn(PolicyNames()),
                         [](const auto& instance) {
                           std::string name = instance.param;
                           std::erase(name, '-');
                           return name;
                         });

// --- Errors --------------------------------------------------------------------------------------

TEST(CheckWorld, NamesTheRowAndTheField) {
  const auto error = [](auto&& edit) {
    World world = TinyWorld();
    world.jobs = {Job(hours(0), hours(1)), Job(hours(1), hours(1))};
    edit(world);
    const absl::Status s = CheckWorld(world);
    EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(Simulate(world, "budget", {}, {}).status(), s);
    return std::string(s.message());
  };
  EXPECT_EQ(error([](World& w) { w.cluster.nodes = 0; }), "cluster of 0 x 8 GPUs");
  EXPECT_EQ(error([](World& w) { w.cluster.nodes = 1 << 20; }), "cluster of 1048576 x 8 GPUs");
  EXPECT_EQ(error([](World& w) { w.leaves.clear(); }), "no leaf allocation");
  EXPECT_EQ(error([](World& w) { w.jobs[0].submit_us = -1; }), "job 0: submit_us is -1");
  EXPECT_EQ(error([](World& w) { w.jobs[1].submit_us = 0, w.jobs[0].submit_us = 1; }),
            "job 1: not sorted by submit_us");
  EXPECT_EQ(error([](World& w) { w.jobs[1].runtime_us = 0; }), "job 1: runtime_us is 0");
  EXPECT_EQ(error([](World& w) { w.jobs[1].minimum_us = -5; }), "job 1: minimum_us is -5");
  EXPECT_EQ(error([](World& w) { w.jobs[1].limit_us = -5; }), "job 1: limit_us is -5");
  EXPECT_EQ(error([](World& w) { w.jobs[1].checkpoint_us = -5; }), "job 1: checkpoint_us is -5");
  EXPECT_EQ(error([](World& w) { w.jobs[1].restart_us = -5; }), "job 1: restart_us is -5");
  EXPECT_EQ(error([](World& w) { w.jobs[1].patience_us = -5; }), "job 1: patience_us is -5");
  EXPECT_EQ(error([](World& w) { w.jobs[1].nodes = 0; }), "job 1: nodes is 0");
  EXPECT_EQ(error([](World& w) { w.jobs[1].gpus_per_node = -1; }), "job 1: gpus_per_node is -1");
  EXPECT_EQ(error([](World& w) { w.jobs[1].workload_class = 5; }), "job 1: workload_class is 5");
  EXPECT_EQ(error([](World& w) { w.jobs[1].leaf = 2; }), "job 1: leaf is 2");
  EXPECT_EQ(error([](World& w) { w.jobs[1].leaf = -1; }), "job 1: leaf is -1");
  // Whatever could overflow a sum of times.
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(error([](World& w) { w.jobs[1].runtime_us = kMax; }),
            absl::StrCat("job 1: runtime_us is ", kMax));
  EXPECT_EQ(error([](World& w) { w.jobs[1].submit_us = kMax; }),
            absl::StrCat("job 1: submit_us is ", kMax));
  EXPECT_EQ(error([](World& w) { w.jobs[1].restart_us = kMax; }),
            absl::StrCat("job 1: restart_us is ", kMax));
}

TEST(Simulate, NamesTheOptionThatIsWrong) {
  World world = TinyWorld();
  world.jobs = {Job(hours(0), hours(1))};
  const auto error = [&](auto&& edit) {
    SimOptions o;
    o.end = hours(1);
    edit(o);
    const absl::Status s = Simulate(world, "budget", {}, o).status();
    EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument);
    return std::string(s.message());
  };
  EXPECT_EQ(error([](SimOptions& o) { o.warmup = hours(1); }),
            "simulation of [3600000000, 3600000000) us with passes every 5000000 us and a grace of "
            "10000000 us");
  error([](SimOptions& o) { o.warmup = -Duration(1); });
  error([](SimOptions& o) { o.pass_interval = Duration(0); });
  error([](SimOptions& o) { o.grace = -Duration(1); });
  error([](SimOptions& o) { o.end = Duration::max(); });
  EXPECT_EQ(error([](SimOptions& o) { o.notice_permille = 1001; }),
            "notice_permille is 1001, must be in [0, 1000]");
  EXPECT_EQ(error([](SimOptions& o) { o.idle_nights_permille = -1; }),
            "idle_nights_permille is -1, must be in [0, 1000]");
  EXPECT_EQ(error([](SimOptions& o) { o.faults.hard_permille = -1; }),
            "hard_permille is -1, must be in [0, 1000]");

  SimOptions o;
  o.end = hours(1);
  EXPECT_EQ(Simulate(world, "best", {}, o).status().message(),
            "no policy 'best'; there are priority, fifo-easy, fairtree, fairtree-preempt, ai2, "
            "budget, hier, responsive, lag");
  EXPECT_EQ(Simulate(world, "budget", {{"no_such", "1"}}, o).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Simulate(TinyWorld(), "budget", {}, {}).status().code(),
            absl::StatusCode::kInvalidArgument);  // nothing to simulate
  world.leaves.push_back({"a", {1}});
  EXPECT_EQ(Simulate(world, "budget", {}, o).status().message(), "allocation 'a' is given twice");
}

// --- What the engine is told -------------------------------------------------------------------

// Starts everything at once, stops at `stop_at`, promises what it is told to, and writes down what
// it hears.
class Recording : public Engine {
 public:
  absl::Status Submit(const WorkloadSpec& spec, Duration, TimePoint) override {
    waiting_.push_back(spec.id);
    return absl::OkStatus();
  }
  absl::Status Cancel(WorkloadId, TimePoint) override { return absl::OkStatus(); }
  absl::Status ReportStarted(WorkloadId, RunNumber, TimePoint) override { return absl::OkStatus(); }
  absl::Status ReportEnded(WorkloadId, RunNumber, TimePoint now) override {
    Note("ended", now);
    return absl::OkStatus();
  }
  absl::Status ReportStopped(WorkloadId id, RunNumber, TimePoint now) override {
    Note("stopped", now);
    waiting_.push_back(id);
    return absl::OkStatus();
  }
  absl::Status ReportIdle(WorkloadId, bool idle, TimePoint now) override {
    Note(idle ? "idle" : "active", now);
    return absl::OkStatus();
  }
  absl::Status SetNode(NodeId, NodeHealth health, TimePoint, TimePoint now) override {
    Note(ToString(health), now);
    return absl::OkStatus();
  }
  Duration LongestProtection() const override { return hours(8); }
  bool Dirty() const override { return !waiting_.empty() && !asked_; }
  absl::StatusOr<const Decisions*> Decide(TimePoint now) override {
    decisions_.Clear();
    asked_ = true;
    if (now >= stop_at) {
      stop_at = kNever;
      Stop& stop = decisions_.stops.emplace_back();
      stop.workload = WorkloadId(0);
      stop.run = RunNumber(run_);
    }
    while (!promises.empty() && promises.front().first <= now) {
      decisions_.node_pool = {NodeId(0)};
      decisions_.promises.push_back({WorkloadId(0), NodeList{0, 1}, now + promises.front().second});
      promises.erase(promises.begin());
    }
    if (now >= start_at) {
      for (WorkloadId id : waiting_) {
        decisions_.node_pool = {NodeId(0)};
        decisions_.starts.push_back({id, RunNumber(++run_), NodeList{0, 1}, GpuCount(8)});
      }
      waiting_.clear();
    }
    decisions_.next_wakeup = stop_at;
    if (!promises.empty()) {
      decisions_.next_wakeup = std::min(decisions_.next_wakeup, promises.front().first);
    }
    if (now < start_at) decisions_.next_wakeup = std::min(decisions_.next_wakeup, start_at);
    asked_ = !waiting_.empty();
    return &decisions_;
  }

  TimePoint stop_at = kNever, start_at{};
  std::vector<std::pair<TimePoint, Duration>> promises;  // when, for how long after
  std::vector<std::string> heard;

 private:
  void Note(const char* what, TimePoint t) {
    heard.push_back(absl::StrCat(t.time_since_epoch() / minutes(1), " ", what));
    asked_ = false;
  }
  std::vector<WorkloadId> waiting_;
  std::uint32_t run_ = 0;
  bool asked_ = false;
  Decisions decisions_;
};

Metrics Drive(Recording& engine, const World& world, const SimOptions& options) {
  BudgetTree tree;
  const std::vector<AllocationId> ids =
      AddLeaves(world, [&](const std::string& name, AllocationId parent, Weight w) {
        return tree.Add(name, parent, w);
      }).value();
  MetricsRecorder recorder(world, tree, ids, {.warmup = options.warmup, .end = options.end});
  absl::StatusOr<Metrics> m = Simulation(world, engine, ids, recorder, options).Run({});
  EXPECT_TRUE(m.ok()) << m.status();
  return std::move(*m);
}

JobRow Session(Duration submit) {
  JobRow row = Job(submit, hours(100), hours(4), 1);
  row.workload_class = static_cast<std::uint32_t>(WorkloadClass::kInteractive);
  row.flags = kResumable | kCheckpointOnNotice;
  return row;
}

TEST(IdleNights, SessionsAreReportedIdleFromEveningToMorning) {
  World world = TinyWorld();
  world.jobs = {Session(hours(10))};
  SimOptions o;
  o.idle_nights_permille = 1000;
  o.end = hours(60);
  Recording engine;
  Drive(engine, world, o);
  EXPECT_EQ(engine.heard,
            (std::vector<std::string>{"1200 idle", "1980 active", "2640 idle", "3420 active"}));
  // Started at night: at once.
  world.jobs = {Session(hours(21))};
  o.end = hours(34);
  Recording night;
  Drive(night, world, o);
  EXPECT_EQ(night.heard, (std::vector<std::string>{"1260 idle", "1980 active"}));
  o.report_idle = false;
  Recording silent;
  Drive(silent, world, o);
  EXPECT_TRUE(silent.heard.empty());
}

TEST(IdleNights, OnlySessionsThatReallyWorkByDay) {
  World world = TinyWorld();
  world.jobs = {Job(hours(10), hours(100)), Session(hours(10))};
  world.jobs[1].flags |= kIdle;  // a hoard: idle all the time
  SimOptions o;
  o.idle_nights_permille = 1000;
  o.end = hours(40);
  Recording engine;
  Drive(engine, world, o);
  EXPECT_EQ(engine.heard, std::vector<std::string>{"660 idle"});
}

TEST(IdleNights, ASessionInItsGraceIsNotReported) {
  World world = TinyWorld();
  world.jobs = {Session(hours(10))};
  SimOptions o;
  o.idle_nights_permille = 1000;
  o.grace = minutes(2);
  o.end = hours(22);
  Recording engine;
  engine.stop_at = At(hours(20) - minutes(1));
  Drive(engine, world, o);
  // The next run, which starts at 20:01, is idle at once.
  EXPECT_EQ(engine.heard, (std::vector<std::string>{"1201 stopped", "1201 idle"}));
}

TEST(IdleNights, APartOfTheSessionsIsFixed) {
  World world = TinyWorld();
  for (int i = 0; i < 1000; ++i) world.jobs.push_back(Session(hours(10)));
  SimOptions o;
  o.idle_nights_permille = 250;
  o.end = hours(24);
  Recording engine;
  Drive(engine, world, o);
  EXPECT_NEAR(static_cast<double>(engine.heard.size()), 250, 50);
}

TEST(Sessions, KeepTheirWorkThroughAStopWithNotice) {
  World world = TinyWorld();
  world.jobs = {Session(hours(0))};
  world.jobs[0].runtime_us = Us(hours(10));
  world.jobs[0].restart_us = Us(minutes(15));
  SimOptions o;
  o.end = hours(12);
  Recording engine;
  engine.stop_at = At(hours(5));
  const Metrics m = Drive(engine, world, o);
  // 5 h and 10 s are done; 4:59:50 and 15 min to go.
  EXPECT_EQ(engine.heard, (std::vector<std::string>{"300 stopped", "615 ended"}));
  EXPECT_EQ(m.sessions_killed, 1);
  EXPECT_NEAR(m.waste.value(), 15.0 / 615, 1e-4);
}

// --- Promises ------------------------------------------------------------------------------------

class Promises : public ::testing::Test {
 protected:
  Promises() {
    world_ = TinyWorld();
    world_.jobs = {Job(hours(1), hours(2))};
    options_.end = hours(40);
  }
  Metrics Run() { return Drive(engine_, world_, options_); }
  World world_;
  SimOptions options_;
  Recording engine_;
};

TEST_F(Promises, KeptOnesAreMeasuredFromReservation) {
  engine_.promises = {{At(hours(3)), hours(4)}};
  engine_.start_at = At(hours(7) + seconds(10));  // as late as the grid allows
  const Metrics m = Run();
  EXPECT_EQ(m.promises, 1);
  EXPECT_EQ(m.promises_broken, 0);
  EXPECT_EQ(m.gang_to_reservation_s.p50, 2 * 3600.0);
  EXPECT_EQ(m.gang_from_reservation_s.p50, 4 * 3600.0 + 10);
  EXPECT_EQ(m.gang_from_reservation_s.p90, 4 * 3600.0 + 10);
  EXPECT_EQ(m.gang_from_reservation_s.max, 4 * 3600.0 + 10);
  EXPECT_EQ(m.promise_lateness_s.max, 0.0);
  Recording early;
  early.promises = {{At(hours(3)), hours(4)}};
  early.start_at = At(hours(6));
  EXPECT_EQ(Drive(early, world_, options_).promise_lateness_s.max, -(3600.0 + 10));
}

TEST_F(Promises, ALaterStartBreaksThem) {
  engine_.promises = {{At(hours(3)), hours(4)}};
  engine_.start_at = At(hours(7) + seconds(15));
  EXPECT_EQ(Run().promises_broken, 1);
}

TEST_F(Promises, NoneIsLaterThanTheLongestProtectionAndTheGrace) {
  engine_.promises = {{At(hours(3)), hours(30)}};
  engine_.start_at = At(hours(11) + seconds(20));
  EXPECT_EQ(Run().promises_broken, 0);
  Recording late;
  late.promises = {{At(hours(3)), hours(30)}};
  late.start_at = At(hours(11) + seconds(25));
  EXPECT_EQ(Drive(late, world_, options_).promises_broken, 1);
}

TEST_F(Promises, RestatingDoesNotMoveThem) {
  engine_.promises = {{At(hours(3)), hours(4)}, {At(hours(5)), hours(4)}};
  engine_.start_at = At(hours(8));
  const Metrics m = Run();
  EXPECT_EQ(m.promises, 1);
  EXPECT_EQ(m.promises_broken, 1);
  EXPECT_EQ(m.gang_from_reservation_s.max, 5 * 3600.0);
}

TEST_F(Promises, ANodeThatFailsVoidsThemAndThenTheyAreRestated) {
  options_.faults.maintenance = {{0, 1, hours(5), hours(6), Duration(0)}};
  engine_.promises = {{At(hours(3)), hours(4)}};
  engine_.start_at = At(hours(9));
  EXPECT_EQ(Run().promises_broken, 0);
  Recording restated;
  restated.promises = {{At(hours(3)), hours(4)}, {At(hours(6)), hours(2)}};
  restated.start_at = At(hours(9));
  const Metrics m = Drive(restated, world_, options_);
  EXPECT_EQ(m.promises, 1);
  EXPECT_EQ(m.promises_broken, 1);  // the second one
}

TEST_F(Promises, AnOverdueOneIsBrokenThoughItNeverStarts) {
  engine_.promises = {{At(hours(3)), hours(4)}};
  engine_.start_at = At(hours(100));
  EXPECT_EQ(Run().promises_broken, 1);
  world_.jobs[0].patience_us = Us(hours(4));  // withdrawn at 5:00, before it was due
  Recording withdrawn;
  withdrawn.promises = {{At(hours(3)), hours(4)}};
  withdrawn.start_at = At(hours(100));
  const Metrics m = Drive(withdrawn, world_, options_);
  EXPECT_EQ(m.promises, 1);
  EXPECT_EQ(m.promises_broken, 0);
  EXPECT_EQ(m.gang_from_reservation_s.max, std::nullopt);
}

TEST_F(Promises, ThoseOfTheWarmUpDoNotCount) {
  options_.warmup = hours(4);
  engine_.promises = {{At(hours(3)), hours(1)}};
  engine_.start_at = At(hours(8));
  const Metrics m = Run();
  EXPECT_EQ(m.promises, 0);
  EXPECT_EQ(m.promises_broken, 0);
  EXPECT_EQ(m.gang_from_reservation_s.max, std::nullopt);
}

}  // namespace
}  // namespace tenure::sim
