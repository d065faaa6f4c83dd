// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tenure/usage_meter.h"

namespace tenure {
namespace {

// Every change ever; the use is a sum over all of them.
struct SlowMeter {
  std::vector<std::pair<std::int64_t, std::int64_t>> changes;  // (at, delta)
  std::int64_t window;

  std::int64_t Use(std::int64_t now) const {
    std::int64_t sum = 0;
    for (const auto& [at, delta] : changes) {
      sum += delta * std::max<std::int64_t>(0, now - std::max(at, now - window));
    }
    return sum;
  }
  std::size_t Segments(std::int64_t now) const {
    std::map<std::int64_t, std::int64_t> net;
    for (const auto& [at, delta] : changes) net[at] += delta;
    std::size_t n = 1;
    for (const auto& [at, delta] : net) n += delta != 0 && at > now - window && at <= now ? 1 : 0;
    return n;
  }
};

TEST(UsageMeterProperty, EqualsTheSumOverAllIntervals) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](std::int64_t n) {
      return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
    };
    const std::int64_t window = 1 + below(seed % 3 == 0 ? 20 : 2000);
    SlowMeter slow{{}, window};
    UsageMeter meter{Duration(window)};
    std::int64_t now = 0;  // the latest time the meter knows
    meter.Use(TimePoint(Duration(now)));
    for (int i = 0; i < 120; ++i) {
      const int kind = static_cast<int>(below(10));
      if (kind < 4) {  // in time
        now += below(3) == 0 ? 0 : below(100);
        const std::int64_t delta = below(9) - 4;
        meter.Change(TimePoint(Duration(now)), GpuCount(delta));
        slow.changes.emplace_back(now, delta);
      } else if (kind < 7) {  // late, sometimes by more than the window or at a known time
        std::int64_t at = now - below(3 * window);
        if (!slow.changes.empty() && below(2) == 0) {
          at = slow.changes[static_cast<std::size_t>(
                                below(static_cast<std::int64_t>(slow.changes.size())))]
                   .first;
        }
        const std::int64_t delta = below(9) - 4;
        meter.Change(TimePoint(Duration(at)), GpuCount(delta));
        slow.changes.emplace_back(at, delta);
      } else if (kind < 9) {  // look, also far ahead, without moving
        const std::int64_t then = now + below(2) * below(2 * window);
        ASSERT_EQ(meter.UseAt(TimePoint(Duration(then))), GpuTime(slow.Use(then))) << seed;
      } else {
        now += below(2) == 0 ? below(window) : below(3 * window);
        ASSERT_EQ(meter.Use(TimePoint(Duration(now))), GpuTime(slow.Use(now))) << seed;
      }
      ASSERT_EQ(meter.UseAt(TimePoint(Duration(now))), GpuTime(slow.Use(now))) << seed;
      ASSERT_EQ(meter.segments(), slow.Segments(now)) << seed;
    }
    std::int64_t rate = 0;
    for (const auto& change : slow.changes) rate += change.second;
    ASSERT_EQ(meter.rate(), GpuCount(rate));
    meter.Change(TimePoint(Duration(now)), GpuCount(-rate));
    ASSERT_EQ(meter.Use(TimePoint(Duration(now + window))), GpuTime(0)) << seed;
    ASSERT_EQ(meter.segments(), 1u);
  }
}

TEST(UsageMeterProperty, LateReportsEqualReportsInOrder) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    std::mt19937_64 random(seed);
    const Duration window(50 + static_cast<std::int64_t>(random() % 500));
    std::vector<std::pair<TimePoint, GpuCount>> changes;
    for (int i = 0; i < 60; ++i) {
      changes.emplace_back(TimePoint(Duration(static_cast<std::int64_t>(random() % 400))),
                           GpuCount(static_cast<std::int64_t>(random() % 7) - 3));
    }
    const TimePoint end(Duration(450));
    UsageMeter shuffled(window);
    for (const auto& [at, delta] : changes) shuffled.Change(at, delta);
    std::stable_sort(changes.begin(), changes.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    UsageMeter ordered(window);
    for (const auto& [at, delta] : changes) ordered.Change(at, delta);
    shuffled.Use(end);
    ordered.Use(end);
    ASSERT_EQ(shuffled, ordered) << seed;
  }
}

TEST(UsageMeterProperty, ParentsAreTheSumOfTheirChildren) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    UsageMeter parent(Duration(1000));
    std::vector<UsageMeter> children(5, parent);
    std::int64_t now = 0;
    for (int i = 0; i < 200; ++i) {
      now += static_cast<std::int64_t>(random() % 30);
      const TimePoint at(
          Duration(now - static_cast<std::int64_t>(random() % 2 * (random() % 1500))));
      const GpuCount delta(static_cast<std::int64_t>(random() % 17) - 8);
      parent.Change(at, delta);
      children[random() % children.size()].Change(at, delta);
      GpuTime sum;
      for (UsageMeter& child : children) sum += child.Use(TimePoint(Duration(now)));
      ASSERT_EQ(parent.Use(TimePoint(Duration(now))), sum) << seed;
    }
  }
}

TEST(DecayMeterProperty, LateReportsEqualReportsInOrderUpToRounding) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    std::mt19937_64 random(seed);
    const Duration half_life(std::chrono::minutes(1 + random() % 10'000));
    std::vector<std::pair<TimePoint, GpuCount>> changes;
    for (int i = 0; i < 40; ++i) {
      changes.emplace_back(
          TimePoint(std::chrono::seconds(static_cast<std::int64_t>(random() % 1'000'000))),
          GpuCount(static_cast<std::int64_t>(random() % 7) - 3));
    }
    const TimePoint end(std::chrono::seconds(1'100'000));
    DecayMeter shuffled(half_life);
    for (const auto& [at, delta] : changes) shuffled.Change(at, delta);
    std::stable_sort(changes.begin(), changes.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    DecayMeter ordered(half_life);
    for (const auto& [at, delta] : changes) ordered.Change(at, delta);
    const GpuTime difference = shuffled.Use(end) - ordered.Use(end);
    ASSERT_LE(difference, GpuTime(2)) << seed;
    ASSERT_GE(difference, GpuTime(-2)) << seed;
  }
}

}  // namespace
}  // namespace tenure
