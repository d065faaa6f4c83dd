// SPDX-License-Identifier: Apache-2.0
#include "tenure/fixed_math.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace tenure::internal {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();

static_assert(Exp2Q16(0) == kOneQ16);
static_assert(MulDivFloor(7, 3, 2) == 10);
static_assert(HoursOfShare(GpuTime(10), MilliGpu(4000)) == Duration(2));

TEST(Exp2Q16, IsExactAtIntegersAndClampsBeyond16) {
  for (int k = -16; k <= 16; ++k) {
    EXPECT_EQ(Exp2Q16(k * kOneQ16), std::int64_t{1} << (16 + k)) << k;
  }
  EXPECT_EQ(Exp2Q16(kMax), std::int64_t{1} << 32);
  EXPECT_EQ(Exp2Q16(kMin), 1);
}

TEST(Exp2Q16, IsMonotoneAndAccurateAtEveryInput) {
  std::int64_t last = 0;
  for (std::int64_t x = -16 * kOneQ16; x <= 16 * kOneQ16; ++x) {
    const std::int64_t y = Exp2Q16(x);
    ASSERT_GE(y, last) << x;
    last = y;
    const double exact = std::exp2(static_cast<double>(x) / 65536.0) * 65536.0;
    const double error = std::abs(static_cast<double>(y) - exact);
    ASSERT_LE(error, 0.5 + exact * 0x1p-25) << x;
    if (x >= -kOneQ16) {
      ASSERT_LT(error, exact * 0x1p-14) << x;
    }
  }
}

TEST(Exp2Q16, OppositeExponentsAreReciprocal) {
  for (std::int64_t x = 0; x <= 2 * kOneQ16; x += 97) {
    const double product = static_cast<double>(Exp2Q16(x) * Exp2Q16(-x)) / 0x1p32;
    ASSERT_NEAR(product, 1.0, 1e-4) << x;
  }
}

TEST(MulDivFloor, RoundsDownForBothSigns) {
  EXPECT_EQ(MulDivFloor(7, 1, 2), 3);
  EXPECT_EQ(MulDivFloor(-7, 1, 2), -4);
  EXPECT_EQ(MulDivFloor(-8, 1, 2), -4);
  EXPECT_EQ(MulDivFloor(0, kMax, 3), 0);
}

TEST(MulDivFloor, IsExactWhenTheProductNeeds128Bits) {
  EXPECT_EQ(MulDivFloor(kMax, kMax, kMax), kMax);
  EXPECT_EQ(MulDivFloor(kMax, 1000, 1001), 9214157878975800006);
  EXPECT_EQ(MulDivFloor(-kMax, 1000, 1001), -9214157878975800007);
  EXPECT_EQ(MulDivFloor(kMin, 2, 4), kMin / 2);
}

TEST(MulDivFloor, Saturates) {
  EXPECT_EQ(MulDivFloor(kMax, 2, 1), kMax);
  EXPECT_EQ(MulDivFloor(kMin, 2, 1), kMin);
  EXPECT_EQ(MulDivFloor(kMin, -1, 1), kMax);
}

TEST(HoursOfShare, IsUseOverEntitlement) {
  const GpuTime day = GpuCount(35) * std::chrono::hours(24);
  EXPECT_EQ(HoursOfShare(day, ToMilli(GpuCount(35))), std::chrono::hours(24));
  EXPECT_EQ(HoursOfShare(day, ToMilli(GpuCount(70))), std::chrono::hours(12));
  EXPECT_EQ(HoursOfShare(GpuTime(0), MilliGpu(1)), Duration(0));
  EXPECT_EQ(HoursOfShare(GpuTime(1), MilliGpu(1001)), Duration(0));
}

TEST(HoursOfShare, RoundsDownAlsoForCredits) {
  EXPECT_EQ(HoursOfShare(GpuTime(-1), MilliGpu(1'000'000)), Duration(-1));
  EXPECT_EQ(HoursOfShare(GpuTime(-3), MilliGpu(2000)), Duration(-2));
}

TEST(HoursOfShare, IsComparedWithoutADivision) {
  for (const std::int64_t use : {-kMax, std::int64_t{-3'000'001}, std::int64_t{-1}, std::int64_t{0},
                                 std::int64_t{1}, std::int64_t{3'600'000'000'000}, kMax}) {
    for (const std::int64_t entitlement : {-1L, 0L, 1L, 999L, 2'000L, 1'024'000L}) {
      const Duration hours = HoursOfShare(GpuTime(use), MilliGpu(entitlement));
      for (const std::int64_t off : {-1, 0, 1}) {
        std::int64_t bound = 0;
        if (__builtin_add_overflow(hours.count(), off, &bound)) continue;
        if (Duration(bound) == Duration::min()) continue;
        EXPECT_EQ(HoursAtLeast(GpuTime(use), MilliGpu(entitlement), Duration(bound)),
                  hours >= Duration(bound))
            << use << " / " << entitlement << " >= " << bound;
      }
    }
  }
}

TEST(HoursOfShare, SaturatesWithoutEntitlement) {
  EXPECT_EQ(HoursOfShare(GpuTime(0), MilliGpu(0)), Duration::max());
  EXPECT_EQ(HoursOfShare(GpuTime(5), MilliGpu(0)), Duration::max());
  EXPECT_EQ(HoursOfShare(GpuTime(-5), MilliGpu(0)), Duration::min());
  EXPECT_EQ(HoursOfShare(GpuTime::Max(), MilliGpu(1)), Duration::max());
  EXPECT_EQ(HoursOfShare(GpuTime(kMin), MilliGpu(1)), Duration::min());
}

TEST(Difference, SaturatesBetweenInfiniteKeys) {
  const Duration least = Duration::min(), most = Duration::max();
  EXPECT_EQ(Difference(Duration(3), Duration(5)), Duration(-2));
  EXPECT_EQ(Difference(Duration(-1), most), least);
  EXPECT_EQ(Difference(Duration(-2), most), least);
  EXPECT_EQ(Difference(least, most), least);
  EXPECT_EQ(Difference(most, Duration(-1)), most);
  EXPECT_EQ(Difference(most, least), most);
  EXPECT_EQ(Difference(most, most), Duration(0));
  EXPECT_EQ(Difference(Duration(0), least), most);
}

TEST(HoursOfShare, EqualsThe128BitQuotient) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100'000; ++i) {
    const auto use = static_cast<std::int64_t>(random()) >> (random() % 60);
    const auto e = static_cast<std::int64_t>(1 + (random() >> (1 + random() % 62)));
    const Duration d = HoursOfShare(GpuTime(use), MilliGpu(e));
    ASSERT_EQ(d.count(), MulDivFloor(use, 1000, e)) << use << " / " << e;
  }
}

std::vector<std::int64_t> Ratios(const std::vector<double>& weights) {
  std::vector<std::int64_t> out(weights.size(), -1);
  std::int64_t sum = 0;
  const std::int64_t returned = IntegerRatios(weights, out);
  for (const std::int64_t n : out) sum += n;
  EXPECT_EQ(returned, sum);
  EXPECT_LE(sum, std::int64_t{1} << 40);
  return out;
}

using Integers = std::vector<std::int64_t>;

TEST(IntegerRatios, AreExactForDecimals) {
  EXPECT_EQ(Ratios({0.35, 0.65}), Integers({7, 13}));
  EXPECT_EQ(Ratios({1, 1, 2}), Integers({1, 1, 2}));
  EXPECT_EQ(Ratios({0.1, 0.2, 0.7}), Integers({1, 2, 7}));
  EXPECT_EQ(Ratios({0.123456789, 0.876543211}), Integers({123456789, 876543211}));
}

TEST(IntegerRatios, DoNotDependOnTheScale) {
  for (const double scale : {1e-9, 1e-6, 1e-3, 1.0, 1e3, 1e6, 1e9}) {
    EXPECT_EQ(Ratios({0.35 * scale, 0.65 * scale}), Integers({7, 13})) << scale;
  }
}

TEST(IntegerRatios, KeepZeroAndGiveEveryPositiveWeightSomething) {
  EXPECT_EQ(Ratios({}), Integers());
  EXPECT_EQ(Ratios({0, 0}), Integers({0, 0}));
  EXPECT_EQ(Ratios({0, 5, -0.0}), Integers({0, 1, 0}));
  EXPECT_EQ(Ratios({0x1p53, 1}), Integers({std::int64_t{1} << 30, 1}));
  const Integers extreme =
      Ratios({std::numeric_limits<double>::max(), 1, std::numeric_limits<double>::denorm_min()});
  EXPECT_GE(extreme[0], std::int64_t{1} << 30);
  EXPECT_EQ(extreme[1], 1);
  EXPECT_EQ(extreme[2], 1);
  EXPECT_EQ(Ratios({std::numeric_limits<double>::denorm_min()})[0], std::int64_t{1} << 30);
}

TEST(IntegerRatios, AreWithin2To30thOfIrrationalWeights) {
  const std::vector<double> w = {std::sqrt(2.0), std::acos(-1.0), 1 / 3.0};
  const Integers n = Ratios(w);
  for (std::size_t i = 0; i < w.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(n[i]) / static_cast<double>(n[1]), w[i] / w[1], 0x1p-29);
  }
}

TEST(IntegerRatios, BoundTheSumOfLargeFamilies) {
  std::mt19937_64 random(2);
  std::vector<double> w(100'000);
  for (double& x : w) x = std::sqrt(1.0 + static_cast<double>(random() % 1'000'000));
  const Integers n = Ratios(w);  // checks the sum
  for (std::size_t i = 1; i < w.size(); ++i) {
    ASSERT_GE(n[i], 1);
    if (w[i] > w[i - 1]) {
      ASSERT_GE(n[i], n[i - 1]);
    }
  }
}

}  // namespace
}  // namespace tenure::internal
