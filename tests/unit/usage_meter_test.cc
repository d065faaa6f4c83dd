// SPDX-License-Identifier: Apache-2.0
#include "tenure/usage_meter.h"

#include <chrono>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tenure/archive.h"

namespace tenure {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

constexpr Duration kDay = hours(24);

TimePoint At(Duration d) { return TimePoint(d); }
GpuTime GpuSeconds(std::int64_t n) { return GpuCount(n) * seconds(1); }

template <class Meter>
Meter Restored(Meter meter) {
  Meter result;
  result.Change(At(hours(3)), GpuCount(17));  // must be overwritten
  EXPECT_TRUE(internal::Unpack(internal::Pack(meter), result).ok());
  return result;
}

TEST(UsageMeter, StartsEmpty) {
  UsageMeter meter;
  EXPECT_EQ(meter.window(), hours(168));
  EXPECT_EQ(meter.rate(), GpuCount(0));
  EXPECT_EQ(meter.segments(), 1u);
  EXPECT_EQ(meter.Use(At(seconds(0))), GpuTime(0));
  EXPECT_EQ(meter.UseAt(At(kDay * 1000)), GpuTime(0));
}

TEST(UsageMeter, ClampsTheWindow) {
  EXPECT_EQ(UsageMeter(Duration(0)).window(), Duration(1));
  EXPECT_EQ(UsageMeter(Duration::max()).window(), kMaxLookback);
  EXPECT_EQ(DecayMeter(Duration(-1)).window(), Duration(1));
}

// L18 (a): two runs of the same job.
TEST(UsageMeter, AddsRunsUp) {
  UsageMeter meter;
  meter.Change(At(seconds(0)), GpuCount(4));
  meter.Change(At(seconds(100)), GpuCount(-4));
  EXPECT_EQ(meter.Use(At(seconds(150))), GpuSeconds(400));
  EXPECT_EQ(meter.rate(), GpuCount(0));
  meter.Change(At(seconds(200)), GpuCount(4));
  meter.Change(At(seconds(300)), GpuCount(-4));
  EXPECT_EQ(meter.Use(At(seconds(300))), GpuSeconds(800));
  EXPECT_EQ(meter.rate(), GpuCount(0));
}

// L18 (b): three concurrent jobs, a gang, a whole node, nothing.
TEST(UsageMeter, IsLinearInGpusAndSeconds) {
  UsageMeter meter;
  for (int i = 0; i < 3; ++i) meter.Change(At(seconds(0)), GpuCount(2));
  meter.Change(At(seconds(0)), GpuCount(32));
  meter.Change(At(seconds(0)), GpuCount(8));
  EXPECT_EQ(meter.segments(), 2u) << "changes at one time merge";
  meter.Change(At(seconds(500)), GpuCount(1));
  meter.Change(At(seconds(500)), GpuCount(-1));
  EXPECT_EQ(meter.segments(), 2u) << "nothing changed";
  meter.Change(At(seconds(600)), GpuCount(-32));
  meter.Change(At(seconds(600)), GpuCount(-8));
  for (int i = 0; i < 3; ++i) meter.Change(At(seconds(3600)), GpuCount(-2));
  EXPECT_EQ(meter.Use(At(hours(1))), GpuSeconds(45'600));
  EXPECT_EQ(meter.segments(), 4u);
}

// L23: the part inside the window, to the second.
TEST(UsageMeter, CountsThePartInsideTheWindow) {
  UsageMeter meter;
  const TimePoint t = At(kDay * 20);
  meter.Change(t - kDay * 10, GpuCount(1));
  EXPECT_EQ(meter.Use(t), GpuSeconds(604'800));
  meter.Change(t, GpuCount(-1));
  EXPECT_EQ(meter.Use(t + kDay), GpuSeconds(518'400));
  EXPECT_EQ(meter.UseAt(t + kDay * 7 - seconds(1)), GpuSeconds(1));
  EXPECT_EQ(meter.UseAt(t + kDay * 7), GpuTime(0));
  EXPECT_EQ(meter.Use(t + kDay * 7 - Duration(1)), GpuTime(1));
  EXPECT_EQ(meter.Use(t + kDay * 7), GpuTime(0));
  EXPECT_EQ(meter.segments(), 1u);
}

// L23: a million short jobs in any order of report, then exactly nothing.
TEST(UsageMeter, IsExactlyZeroAfterAMillionJobs) {
  UsageMeter meter;
  std::mt19937_64 random(3);
  std::vector<std::int64_t> change(86'402, 0);
  for (int i = 0; i < 1'000'000; ++i) {
    const std::size_t s = random() % 86'400;
    change[s] += 3;
    change[s + 1] -= 3;
  }
  for (std::size_t s = 0; s < change.size(); ++s) {
    meter.Change(At(seconds(s)), GpuCount(change[s]));
  }
  EXPECT_EQ(meter.rate(), GpuCount(0));
  EXPECT_EQ(meter.Use(At(kDay * 2)), GpuSeconds(3'000'000));
  UsageMeter stepped = meter;
  for (TimePoint t = At(kDay * 2); t < At(kDay * 8); t += hours(1)) stepped.Use(t);
  EXPECT_EQ(meter.UseAt(At(kDay * 8 + seconds(2))), GpuTime(0));
  EXPECT_EQ(meter.Use(At(kDay * 9)), GpuTime(0));
  EXPECT_EQ(stepped.Use(At(kDay * 9)), GpuTime(0));
  EXPECT_EQ(meter, stepped);
  UsageMeter unused;
  unused.Use(At(kDay * 9));
  EXPECT_EQ(meter, unused);
}

// L40: backwards is the same as standing still, a far jump is one step.
TEST(UsageMeter, NeverFallsWhenTimeGoesBack) {
  UsageMeter meter;
  meter.Change(At(seconds(0)), GpuCount(1));
  EXPECT_EQ(meter.Use(At(seconds(1000))), GpuSeconds(1000));
  EXPECT_EQ(meter.Use(At(seconds(900))), GpuSeconds(1000));
  EXPECT_EQ(meter.UseAt(At(seconds(900))), GpuSeconds(1000));
  EXPECT_EQ(meter.Use(At(seconds(1100))), GpuSeconds(1100));
  EXPECT_EQ(meter.Use(At(kDay * 400)), GpuSeconds(604'800));
  EXPECT_EQ(meter.Use(TimePoint(kTimeLimit)), GpuSeconds(604'800));
}

TEST(UsageMeter, HoldsTheLargestClusterForTheLongestWindow) {
  UsageMeter meter(kMaxLookback);
  meter.Change(At(seconds(0)), GpuCount(kMaxClusterGpus));
  const GpuTime full = GpuCount(kMaxClusterGpus) * kMaxLookback;
  EXPECT_EQ(meter.Use(At(kMaxLookback)), full);
  EXPECT_EQ(meter.Use(At(kMaxLookback * 2 - Duration(1))), full);
  EXPECT_EQ(meter.UseAt(At(kDay * 400)), full);
  EXPECT_EQ(meter.Use(At(kDay * 400)), full);
}

TEST(UsageMeter, CorrectsALateReportExactly) {
  UsageMeter meter(seconds(100));
  meter.Change(At(seconds(10)), GpuCount(4));
  meter.Use(At(seconds(60)));
  meter.Change(At(seconds(30)), GpuCount(-4));  // it had ended at 30
  EXPECT_EQ(meter.rate(), GpuCount(0));
  EXPECT_EQ(meter.Use(At(seconds(60))), GpuSeconds(80));
  EXPECT_EQ(meter.UseAt(At(seconds(120))), GpuSeconds(40));
  meter.Change(At(seconds(30)), GpuCount(4));  // no, it had not
  EXPECT_EQ(meter.segments(), 2u);
  EXPECT_EQ(meter.Use(At(seconds(60))), GpuSeconds(200));
}

TEST(UsageMeter, DropsThePartOfALateReportBeforeTheWindow) {
  UsageMeter meter(seconds(100));
  meter.Use(At(seconds(1000)));
  meter.Change(At(seconds(500)), GpuCount(2));
  EXPECT_EQ(meter.Use(At(seconds(1000))), GpuSeconds(200));
  EXPECT_EQ(meter.segments(), 1u);
  meter.Change(At(seconds(950)), GpuCount(-2));
  EXPECT_EQ(meter.Use(At(seconds(1000))), GpuSeconds(100));
  EXPECT_EQ(meter.Use(At(seconds(1050))), GpuTime(0));
}

TEST(UsageMeter, RoundTrips) {
  UsageMeter meter(seconds(50));
  for (int i = 0; i < 100; ++i) meter.Change(At(seconds(i * 3)), GpuCount(i % 7 - 3));
  UsageMeter copy = Restored(meter);
  EXPECT_EQ(copy, meter);
  EXPECT_EQ(copy.rate(), meter.rate());
  meter.Change(At(seconds(280)), GpuCount(9));
  copy.Change(At(seconds(280)), GpuCount(9));
  EXPECT_EQ(copy.Use(At(seconds(330))), meter.Use(At(seconds(330))));
}

TEST(UsageMeter, WritesTheSameBytesHoweverItWasAdvanced) {
  UsageMeter often(seconds(50));
  UsageMeter once(seconds(50));
  for (int i = 0; i < 100; ++i) {
    often.Change(At(seconds(i * 3)), GpuCount(i % 7 - 3));
    often.Use(At(seconds(i * 3 + 2)));
    once.Change(At(seconds(i * 3)), GpuCount(i % 7 - 3));
  }
  often.Use(At(seconds(310)));
  once.Use(At(seconds(310)));
  EXPECT_EQ(internal::Pack(often), internal::Pack(once));
}

long double Settled(std::int64_t gpus, Duration half_life) {
  return static_cast<long double>(gpus) * static_cast<long double>(half_life.count()) /
         std::log(2.0L);
}

TEST(DecayMeter, HalvesEveryHalfLife) {
  DecayMeter meter(hours(24));
  meter.Change(At(hours(0)), GpuCount(8));
  meter.Change(At(hours(1)), GpuCount(-8));
  const GpuTime at_end = meter.Use(At(hours(1)));
  for (int k = 1; k < 40; ++k) {
    const std::int64_t left = meter.UseAt(At(hours(1 + 24 * k))).value();
    EXPECT_NEAR(static_cast<double>(left), std::ldexp(static_cast<double>(at_end.value()), -k), 1)
        << k;
  }
}

TEST(DecayMeter, SettlesAtRateTimesHalfLifeOverLn2) {
  DecayMeter meter(hours(168));
  meter.Change(At(hours(0)), GpuCount(1024));
  const auto expected = static_cast<double>(Settled(1024, hours(168)));
  EXPECT_NEAR(static_cast<double>(meter.UseAt(At(kDay * 3650)).value()), expected, 1);
  // The same in ten thousand steps.
  for (int i = 1; i <= 10'000; ++i) meter.Use(At(hours(i * 8)));
  EXPECT_NEAR(static_cast<double>(meter.Use(At(hours(80'000))).value()), expected, 100);
}

TEST(DecayMeter, IsExactlyZeroAfter64HalfLives) {
  DecayMeter meter(kMaxLookback);
  meter.Change(At(hours(0)), GpuCount(kMaxClusterGpus));
  const TimePoint end = At(kMaxLookback * 100);
  meter.Change(end, GpuCount(-kMaxClusterGpus));
  EXPECT_NEAR(static_cast<double>(meter.Use(end).value()),
              static_cast<double>(Settled(kMaxClusterGpus, kMaxLookback)), 1e3);
  EXPECT_EQ(meter.UseAt(end + kMaxLookback * 64), GpuTime(0));
  EXPECT_GT(meter.UseAt(end + kMaxLookback * 60), GpuTime(0));
  EXPECT_EQ(meter.UseAt(TimePoint(kTimeLimit)), GpuTime(0));
  for (TimePoint t = end; t < end + kMaxLookback * 65; t += hours(7)) meter.Use(t);
  EXPECT_EQ(meter.Use(end + kMaxLookback * 65), GpuTime(0)) << "also in small steps";
}

TEST(DecayMeter, FollowsTheFormulaWithinTheStatedError) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 200; ++round) {
    const Duration half_life(1'000'000 + static_cast<std::int64_t>(random() % 2'000'000'000'000));
    DecayMeter meter(half_life);
    TimePoint now = At(seconds(0));
    std::int64_t rate = 0;
    long double expected = 0;
    for (int i = 0; i < 100; ++i) {
      const auto step = static_cast<std::int64_t>(random() % 10'000'000'000) >> (random() % 30);
      const long double f =
          std::exp2(-static_cast<long double>(step) / static_cast<long double>(half_life.count()));
      expected = expected * f + Settled(rate, half_life) * (1 - f);
      now += Duration(step);
      const std::int64_t to = static_cast<std::int64_t>(random() % 2000);
      meter.Change(now, GpuCount(to - rate));
      rate = to;
      const auto use = static_cast<long double>(meter.Use(now).value());
      const long double tolerance = 1.5L + 100 * 2000 * 2e12L * 0x1p-57L;
      ASSERT_NEAR(static_cast<double>(use - expected), 0.0, static_cast<double>(tolerance));
    }
  }
}

TEST(DecayMeter, CorrectsALateReport) {
  DecayMeter in_time(hours(24));
  in_time.Change(At(hours(0)), GpuCount(8));
  in_time.Change(At(hours(5)), GpuCount(-8));
  in_time.Change(At(hours(9)), GpuCount(2));
  DecayMeter late(hours(24));
  late.Change(At(hours(0)), GpuCount(8));
  late.Change(At(hours(9)), GpuCount(2));
  late.Change(At(hours(5)), GpuCount(-8));
  EXPECT_EQ(late.rate(), GpuCount(2));
  EXPECT_NEAR(static_cast<double>((late.Use(At(hours(9))) - in_time.Use(At(hours(9)))).value()), 0,
              1);
  late.Change(At(-kDay * 10'000), GpuCount(3));
  late.Change(At(-kDay * 10'000), GpuCount(-3));
  EXPECT_NEAR(static_cast<double>((late.Use(At(hours(9))) - in_time.Use(At(hours(9)))).value()), 0,
              1);
}

TEST(DecayMeter, NeverFallsWhenTimeGoesBackAndRoundTrips) {
  DecayMeter meter(hours(24));
  meter.Change(At(hours(0)), GpuCount(8));
  const GpuTime use = meter.Use(At(hours(3)));
  EXPECT_EQ(meter.Use(At(hours(2))), use);
  EXPECT_EQ(meter.UseAt(At(hours(1))), use);
  EXPECT_EQ(Restored(meter), meter);
}

// Pinned: the same on every machine.
TEST(DecayMeter, GivesTheseValues) {
  DecayMeter meter(hours(168));
  meter.Change(At(seconds(1)), GpuCount(1000));
  EXPECT_EQ(meter.Use(At(seconds(2))), GpuTime(999'999'426));
  EXPECT_EQ(meter.Use(At(hours(100))), GpuTime(294'975'058'300'895));
}

}  // namespace
}  // namespace tenure
