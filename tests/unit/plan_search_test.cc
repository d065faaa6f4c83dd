// SPDX-License-Identifier: Apache-2.0
#include "tenure/plan_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "plan_rules.h"
#include "plan_worlds.h"

namespace tenure::plan {
namespace {

WorldData RandomPlanWorld(u32 seed) {
  WorldShape s;
  constexpr u32 kNodes[] = {16, 64, 200};
  s.nodes = kNodes[seed % 3];
  s.jobs = 10 + seed % 50;
  s.irregular = seed % 2 == 1;
  s.reservations = seed % 4 > 1;
  s.lanes = seed % 5 == 0;
  s.pools = 1 + seed % 3;
  s.bands = seed % 7 == 0 ? s.jobs : 6;  // strict order
  if (seed % 11 == 0) s.domain_nodes = 150;
  if (seed % 13 == 0) s.gpus = 16;
  WorldData d = WorldMaker(seed).Make(s);
  d.protect_wait = seed % 2;
  if (seed % 3 == 0) d.stops = seed % 9;
  return d;
}

template <class Team>
u64 PriceOf(const World& w, const Params& p, Team& team, u32 trial, std::vector<u64>& memory) {
  memory.assign(LayoutOf(w).bytes / 8 + 1, 0x5555555555555555u);  // nothing may depend on it
  return Trial<Team>(w, p, team, trial, reinterpret_cast<u8*>(memory.data())).Run();
}

TEST(PlanTrial, IsTheSameForAnyNumberOfLanesInAnyOrder) {
  int comparisons = 0;
  std::vector<u64> memory;
  for (u32 seed = 1; seed <= 500; ++seed) {
    const WorldData data = RandomPlanWorld(seed);
    ASSERT_TRUE(CheckWorld(data).ok()) << seed << ": " << CheckWorld(data);
    const World w = data.View();
    Params p;
    p.seed = seed;
    for (const u32 trial : {0u, 1u + seed % 12, 13u + seed % 50}) {
      SerialTeam serial;
      const u64 price = PriceOf(w, p, serial, trial, memory);
      for (const u32 lanes : {1u, 32u, 64u, 256u}) {
        EmulatedTeam team(lanes);
        ASSERT_EQ(PriceOf(w, p, team, trial, memory), price)
            << "seed " << seed << ", trial " << trial << ", " << lanes << " lanes";
        ++comparisons;
      }
    }
  }
  EXPECT_EQ(comparisons, 6000);
}

TEST(PlanTrial, IsTheSameOnRealThreads) {
  for (u32 seed = 1; seed <= 12; ++seed) {
    const WorldData data = RandomPlanWorld(seed);
    const World w = data.View();
    Params p;
    p.seed = seed;
    const u32 trial = seed % 3 == 0 ? 0 : seed * 5;
    SerialTeam serial;
    std::vector<u64> memory;
    const u64 price = PriceOf(w, p, serial, trial, memory);
    constexpr u32 kLanes = 3;
    ThreadedTeam::Shared shared(kLanes);
    std::vector<std::thread> threads;
    u64 prices[kLanes] = {};
    for (u32 lane = 0; lane < kLanes; ++lane) {
      threads.emplace_back([&, lane] {
        ThreadedTeam team(kLanes, lane, shared);
        prices[lane] =
            Trial<ThreadedTeam>(w, p, team, trial, reinterpret_cast<u8*>(memory.data())).Run();
      });
    }
    for (std::thread& t : threads) t.join();
    for (u64 x : prices) EXPECT_EQ(x, price) << seed;
  }
}

TEST(PlanSearch, KeepsEveryRuleInEveryPlan) {
  std::uint32_t won = 0;
  for (u32 seed = 1; seed <= 400; ++seed) {
    const WorldData data = RandomPlanWorld(seed);
    PlanSearch search({64, seed, BackendKind::kCpu, 1});
    const absl::StatusOr<Result> r = search.Run(data);
    ASSERT_TRUE(r.ok()) << r.status();
    ASSERT_EQ(BreaksARule(data, *r), "") << "seed " << seed << ", trial " << r->winner;
    EXPECT_LE(r->price, r->price_zero);
    won += r->winner > 0;
  }
  EXPECT_GT(won, 100u);
}

// What plan zero and the winner leave waiting in every band, and whose work they lose.
struct Outcome {
  std::vector<u64> waiting, lost;
};
Outcome OutcomeOf(const WorldData& d, const std::vector<Placement>& plan) {
  Outcome o{std::vector<u64>(d.bands), std::vector<u64>(kLossClasses)};
  for (const Job& q : d.job) o.waiting[q.band] += q.weight;
  for (const Placement& p : plan) {
    o.waiting[d.job[p.job].band] -= d.job[p.job].weight;
    for (u32 v : p.victims) o.lost[d.victim[v].loss_class] += d.victim[v].lost;
  }
  return o;
}

TEST(PlanSearch, ServesNobodyAtTheExpenseOfAHigherRank) {
  for (u32 seed = 1; seed <= 300; ++seed) {
    const WorldData data = RandomPlanWorld(seed);
    PlanSearch alone({1, seed, BackendKind::kCpu, 1}), search({256, seed, BackendKind::kCpu, 1});
    const Result zero = alone.Run(data).value(), best = search.Run(data).value();
    if (best.winner == 0) continue;
    const Outcome before = OutcomeOf(data, zero.plan), after = OutcomeOf(data, best.plan);
    for (u32 b = 0; b < data.bands; ++b) {
      EXPECT_LE(after.waiting[b], before.waiting[b]) << "seed " << seed << ", band " << b;
    }
    u64 x = 0, y = 0;
    for (u32 c = 0; c < kUnfundedLoss; ++c) {
      EXPECT_LE(x += after.lost[c], y += before.lost[c]) << "seed " << seed << ", class " << c;
    }
    EXPECT_EQ(zero.price, best.price_zero);
  }
}

// A trial may end early, but only if its whole plan would have been refused: the guard and the
// price to beat are compared with what the plan comes to without them.
TEST(PlanTrial, EndsEarlyOnlyIfItsWholePlanWouldBeRefused) {
  std::vector<u64> memory;
  SerialTeam team;
  int waiting = 0, losses = 0, dearer = 0, kept = 0;
  for (u32 seed = 1; seed <= 200; ++seed) {
    const WorldData data = RandomPlanWorld(seed);
    const World w = data.View();
    memory.resize(LayoutOf(w).bytes / 8 + 1);
    Params free;
    free.seed = seed;
    const auto run = [&](const Params& p, u32 trial, std::vector<u32>& unplaced,
                         std::vector<u32>& lost) {
      unplaced.assign(data.bands, 0);
      Trial<SerialTeam, internal::Recorder> t(
          w, p, team, trial, reinterpret_cast<u8*>(memory.data()), {nullptr, &unplaced});
      const u64 price = t.Run();
      lost.assign(t.loss(), t.loss() + kLossClasses);
      return price;
    };
    std::vector<u32> unplaced_zero, lost_zero, unplaced, lost, ignored;
    const u64 zero = run(free, 0, unplaced_zero, lost_zero);
    Params guarded = free;
    guarded.guard = {unplaced_zero.data(), lost_zero.data()};
    for (u32 trial = 1; trial < 40; ++trial) {
      const u64 price = run(free, trial, unplaced, lost);
      bool waits = false, shifts = false;
      for (u32 b = 0; b < data.bands; ++b) waits = waits || unplaced[b] > unplaced_zero[b];
      u64 mine = 0, before = 0;
      for (u32 c = 0; c < kUnfundedLoss; ++c) {
        shifts = shifts || (mine += lost[c]) > (before += lost_zero[c]);
      }
      const u64 expected = waits || shifts ? kNone : price;
      ASSERT_EQ(run(guarded, trial, ignored, ignored), expected) << seed << ", trial " << trial;
      for (const u64 beat : {zero, price, price + 1}) {
        Params p = guarded;
        p.beat = beat;
        ASSERT_EQ(run(p, trial, ignored, ignored), expected < beat ? expected : kNone)
            << seed << ", trial " << trial << ", to beat " << beat;
      }
      waiting += waits;
      losses += shifts;
      dearer += expected != kNone && price > zero;
      kept += expected < zero;
    }
  }
  EXPECT_GT(std::min({waiting, losses, dearer, kept}), 100);
}

TEST(PlanSearch, MoreTrialsAreNeverWorse) {
  for (u32 seed = 1; seed <= 60; ++seed) {
    const WorldData data = RandomPlanWorld(seed);
    u64 before = kNone;
    for (const u32 trials : {1u, 2u, 16u, 64u, 300u}) {
      PlanSearch search({trials, seed, BackendKind::kCpu, 2});
      const Result r = search.Run(data).value();
      EXPECT_LE(r.trials, trials);
      EXPECT_LE(r.price, before) << "seed " << seed << ", " << trials << " trials";
      before = r.price;
    }
  }
}

TEST(PlanSearch, ThreadsDoNotMatter) {
  for (u32 seed = 1; seed <= 40; ++seed) {
    const WorldData data = RandomPlanWorld(seed);
    PlanSearch one({200, seed, BackendKind::kCpu, 1}), four({200, seed, BackendKind::kCpu, 4});
    const Result a = one.Run(data).value(), b = four.Run(data).value();
    EXPECT_EQ(a.winner, b.winner) << seed;
    EXPECT_EQ(a.price, b.price) << seed;
  }
}

TEST(PlanSearch, StaysOnTrialZeroWithoutASecondTrial) {
  PlanSearch search({1, 0, BackendKind::kCpu, 1});
  const Result r = search.Run(RandomPlanWorld(5)).value();
  EXPECT_EQ(r.winner, 0u);
  EXPECT_EQ(r.plan.size(), r.placed);
  EXPECT_EQ(r.trials, 1u);
}

// A world with one node of `gpus` and nothing on it.
WorldData EmptyWorld(u32 nodes, u32 gpus) {
  WorldShape s;
  s.nodes = nodes;
  s.gpus = gpus;
  s.jobs = 0;
  s.bands = 1;
  s.domain_nodes = 2;
  s.percent_protected = s.percent_stoppable = 0;
  return WorldMaker(1).Make(s);
}
void Ask(WorldData& d, u32 nodes, u32 gpus, u32 band) {
  Job q{};
  q.nodes = nodes;
  q.gpus = static_cast<u8>(gpus);
  q.weight = nodes * gpus;
  q.charge = q.weight * 1000;
  q.band = static_cast<u16>(band);
  q.account = kNoAccount;
  q.pool = kAnyPool;
  q.kind = static_cast<u16>(d.job.size());
  d.job.push_back(q);
  d.bands = band + 1;
  d.rows = 1;
  d.rights.assign(d.victim.size(), kNever);
  d.kinds = static_cast<u32>(d.job.size());
  d.implies.assign(d.kinds * kKindWords, 0);
}

TEST(PlanSearch, FindsThePackingThatTheQueueOrderMisses) {
  // 2 nodes of 4: in the order 2, 3, 3 (tightest fit) the last one waits.
  WorldData d = EmptyWorld(2, 4);
  for (const u32 gpus : {2u, 1u, 3u, 2u}) Ask(d, 1, gpus, 0);
  PlanSearch search({64, 1, BackendKind::kCpu, 1});
  const Result r = search.Run(d).value();
  EXPECT_EQ(r.placed, 3u);
  EXPECT_EQ(r.plan.size(), 4u);
  EXPECT_EQ(BreaksARule(d, r), "");
  // In strict order (every request a band) nobody may be moved behind another.
  for (std::size_t j = 0; j < d.job.size(); ++j) d.job[j].band = static_cast<u16>(j);
  d.bands = 4;
  const Result strict = search.Run(d).value();
  EXPECT_LE(strict.price, strict.price_zero);
  for (const Placement& p : strict.plan) EXPECT_LT(p.job, 4u);
}

// The most GPUs that single-node requests can get, by trying every assignment.
u32 MostPlaced(const WorldData& d, std::size_t j, std::vector<int>& free) {
  if (j == d.job.size()) return 0;
  u32 most = MostPlaced(d, j + 1, free);  // it waits
  for (int& f : free) {
    if (f < d.job[j].gpus) continue;
    f -= d.job[j].gpus;
    most = std::max(most, d.job[j].weight + MostPlaced(d, j + 1, free));
    f += d.job[j].gpus;
  }
  return most;
}

TEST(PlanSearch, ComesCloseToTheOptimumOfTinyWorlds) {
  std::mt19937 random(7);
  u64 best = 0, found = 0, zero = 0;
  for (int world = 0; world < 200; ++world) {
    WorldData d = EmptyWorld(3, 8);
    for (u32 n = 0; n < 3; ++n) d.idle[n] = d.soon[n] = d.most[n] = static_cast<u8>(random() % 9);
    for (int j = 0; j < 6; ++j) Ask(d, 1, static_cast<u32>(1 + random() % 6), 0);
    std::vector<int> free(d.idle.begin(), d.idle.end());
    const u32 most = MostPlaced(d, 0, free);
    PlanSearch search({512, static_cast<u32>(world), BackendKind::kCpu, 1});
    const Result r = search.Run(d).value();
    u32 asked = 0;
    for (const Job& q : d.job) asked += q.weight;
    SerialTeam team;
    const World w = d.View();
    const Params p;
    std::vector<u64> memory(LayoutOf(w).bytes / 8 + 1);
    Trial<SerialTeam> trial(w, p, team, r.winner, reinterpret_cast<u8*>(memory.data()));
    trial.Run();
    const u32 placed = asked - trial.unplaced();
    ASSERT_LE(placed, most) << world;  // nothing is placed that does not fit
    Trial<SerialTeam> plain(w, p, team, 0, reinterpret_cast<u8*>(memory.data()));
    plain.Run();
    best += most;
    found += placed;
    zero += asked - plain.unplaced();
  }
  EXPECT_GE(found * 1000, best * 990) << found << " of " << best << ", trial 0 " << zero;
  EXPECT_LT(zero, found);
}

TEST(PlanSearch, GangsAreClearedAcrossDomainsAndOnlyWhole) {
  WorldData d = EmptyWorld(4, 8);  // two domains of two nodes
  for (u32 n = 0; n < 4; ++n) {
    d.idle[n] = d.soon[n] = 0;
    Victim v{};
    v.choice = v.lost = 10 + n;
    v.first = n;
    v.count = 1;
    v.account = kNoAccount;
    v.loss_class = kUnfundedLoss;
    d.victim.push_back(v);
    d.victim_node.push_back({n, 8});
  }
  d.ListOccupants();
  Ask(d, 3, 8, 0);
  d.rights.assign(4, kAlways);
  d.rights[1] = kNever;
  d.width_gpus = {8};
  const auto plan_zero = [&] {
    PlanSearch search({1, 0, BackendKind::kCpu, 1});
    return search.Run(d).value().plan;
  };
  std::vector<Placement> plan = plan_zero();
  ASSERT_EQ(plan.size(), 1u);
  EXPECT_EQ(plan[0].nodes, (std::vector<u32>{0, 2, 3}));
  EXPECT_EQ(plan[0].victims, (std::vector<u32>{0, 2, 3}));
  EXPECT_FALSE(plan[0].start);
  d.rights[2] = kNever;  // two nodes are not three
  EXPECT_TRUE(plan_zero().empty());
}

TEST(PlanSearch, NothingIsStoppedBeyondAFloorOrTheAllowedNumber) {
  WorldData d = EmptyWorld(2, 8);
  for (u32 n = 0; n < 2; ++n) {
    d.idle[n] = d.soon[n] = 0;
    Victim v{};
    v.choice = v.lost = 10;
    v.charge = 8000;
    v.first = n;
    v.count = 1;
    v.funded = 1;
    d.victim.push_back(v);
    d.victim_node.push_back({n, 8});
  }
  d.ListOccupants();
  d.spare = {8000};
  Ask(d, 1, 8, 0);
  Ask(d, 1, 8, 0);
  d.rights.assign(2, kWithinSpare);
  const auto placed = [&] {
    PlanSearch search({1, 0, BackendKind::kCpu, 1});
    return search.Run(d).value().placed;
  };
  EXPECT_EQ(placed(), 1u);
  d.spare = {16000};
  EXPECT_EQ(placed(), 2u);
  d.stops = 1;
  EXPECT_EQ(placed(), 1u);
}

// A back end that lies.
class Liar final : public Backend {
 public:
  explicit Liar(u64 price, bool fails = false) : price_(price), fails_(fails) {}
  BackendKind kind() const override { return BackendKind::kCuda; }
  std::string name() const override { return "liar"; }
  absl::Status Load(const WorldData&, const World&) override { return absl::OkStatus(); }
  absl::Status Best(const Params&, u64* price) override {
    *price = price_;
    return fails_ ? absl::InternalError("device lost") : absl::OkStatus();
  }
  bool Faster(const World&, u32, u32) override { return true; }

 private:
  u64 price_;
  bool fails_;
};

TEST(PlanSearch, ABackEndIsNeverTrusted) {
  const WorldData data = RandomPlanWorld(4);
  PlanSearch lied({64, 4, BackendKind::kCpu, 1});
  lied.SetBackend(std::make_unique<Liar>((u64{1} << kTrialBits) | 7));
  const Result r = lied.Run(data).value();
  EXPECT_EQ(r.winner, 0u);
  EXPECT_EQ(r.price, r.price_zero);
  EXPECT_EQ(lied.faults(), 1u);

  PlanSearch lost({64, 4, BackendKind::kCpu, 1}), honest({64, 4, BackendKind::kCpu, 1});
  lost.SetBackend(std::make_unique<Liar>(0, true));
  const Result a = lost.Run(data).value(), b = honest.Run(data).value();
  EXPECT_EQ(a.winner, b.winner);  // the CPU took over
  EXPECT_EQ(a.backend, BackendKind::kCpu);
  EXPECT_EQ(lost.faults(), 1u);
}

TEST(PlanSearch, SaysThatThereIsNoDevice) {
  if (OpenCuda().ok()) GTEST_SKIP() << "there is one";
  EXPECT_EQ(OpenCuda().status().code(), absl::StatusCode::kUnavailable);
  PlanSearch cuda({64, 1, BackendKind::kCuda, 1}), any({64, 1, BackendKind::kAuto, 1});
  EXPECT_EQ(cuda.Run(RandomPlanWorld(1)).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(any.Run(RandomPlanWorld(1)).ok());
}

TEST(PlanWorld, RefusesWhatWouldReadBeyondItsArrays) {
  const WorldData good = RandomPlanWorld(4);
  ASSERT_TRUE(CheckWorld(good).ok());
  const std::vector<std::function<void(WorldData&)>> damages = {
      [](WorldData& d) { d.gpus[0] = 64; },
      [](WorldData& d) { d.idle.pop_back(); },
      [](WorldData& d) { d.soon[0] = 200; },
      [](WorldData& d) { d.most[0] = static_cast<u8>(d.most[0] + 1); },
      [](WorldData& d) { d.node_group[1] = 77; },
      [](WorldData& d) { d.group_begin.back() += 1; },
      [](WorldData& d) { d.domain[0].last = 1000; },
      [](WorldData& d) { d.level_begin.back() = 0; },
      [](WorldData& d) { d.reserved_node.push_back(5000); },
      [](WorldData& d) { d.host_node.push_back(5000); },
      [](WorldData& d) { d.job[0].gpus = 0; },
      [](WorldData& d) { d.job[0].kind = 999; },
      [](WorldData& d) { d.job[0].band = 7; },
      [](WorldData& d) { d.job[0].row = d.rows; },
      [](WorldData& d) { d.victim[0].count = 0; },
      [](WorldData& d) { d.victim[0].loss_class = 64; },
      [](WorldData& d) { d.victim_node[0].id = 5000; },
      [](WorldData& d) { d.rights.pop_back(); },
      [](WorldData& d) { d.implies.pop_back(); },
  };
  for (std::size_t i = 0; i < damages.size(); ++i) {
    WorldData bad = good;
    damages[i](bad);
    PlanSearch search({16, 0, BackendKind::kCpu, 1});
    EXPECT_EQ(search.Run(bad).status().code(), absl::StatusCode::kInvalidArgument) << i;
  }
  PlanSearch none({0, 0, BackendKind::kCpu, 1});
  EXPECT_EQ(none.Run(good).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(PlanWorld, CompressKeepsTheOrder) {
  u32 before = 0;
  for (u64 x : {u64{0}, u64{1}, u64{5}, (u64{1} << 27) - 1, u64{1} << 27, (u64{1} << 27) + 2,
                (u64{1} << 28) - 1, u64{1} << 28, u64{1} << 40, (u64{1} << 56) - 1, kNone}) {
    EXPECT_GE(Compress(x), before) << x;
    before = Compress(x);
  }
  EXPECT_LT(before, kNoCost);
  EXPECT_LT(Compress(1000), Compress(1001));
}

}  // namespace
}  // namespace tenure::plan
