// SPDX-License-Identifier: Apache-2.0

#include "tenure/sim/random.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"

namespace tenure::sim {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

constexpr double kQ32 = 4294967296.0;

TEST(Log2Q32, IsExactToTheLastBit) {
  EXPECT_EQ(tenure::internal::Log2Q32(1), 0);
  EXPECT_EQ(tenure::internal::Log2Q32(std::uint64_t{1} << 63), std::int64_t{63} << 32);
  Rng rng(1);
  for (int i = 0; i < 20000; ++i) {
    const std::uint64_t x = std::max<std::uint64_t>(1, rng.Next() >> rng.Below(64));
    const long double truth = std::log2(static_cast<long double>(x)) * 4294967296.0L;
    const long double error = static_cast<long double>(tenure::internal::Log2Q32(x)) - truth;
    EXPECT_GT(error, -1.001L) << x;
    EXPECT_LE(error, 0.001L) << x;
  }
}

TEST(ScaleExp2Q32, MatchesExp2) {
  Rng rng(2);
  for (int i = 0; i < 20000; ++i) {
    const std::int64_t value = rng.Below(std::int64_t{1} << 40) + (std::int64_t{1} << 39);
    const std::int64_t x = rng.Below(std::int64_t{30} << 32) - (std::int64_t{15} << 32);
    const long double truth =
        static_cast<long double>(value) * std::exp2(static_cast<long double>(x) / 4294967296.0L);
    const auto got = static_cast<long double>(tenure::internal::ScaleExp2Q32(value, x));
    EXPECT_NEAR(static_cast<double>(got - truth), -0.5, 0.502 + static_cast<double>(truth) * 1e-17);
  }
}

TEST(ScaleExp2Q32, SaturatesAndVanishes) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(tenure::internal::ScaleExp2Q32(5, std::int64_t{2} << 32), 20);
  EXPECT_EQ(tenure::internal::ScaleExp2Q32(5, -(std::int64_t{1} << 32)), 2);
  EXPECT_EQ(tenure::internal::ScaleExp2Q32(kMax, 0), kMax);
  EXPECT_EQ(tenure::internal::ScaleExp2Q32(kMax, 1), kMax);
  EXPECT_EQ(tenure::internal::ScaleExp2Q32(1, std::int64_t{62} << 32), std::int64_t{1} << 62);
  EXPECT_EQ(tenure::internal::ScaleExp2Q32(1, std::int64_t{63} << 32), kMax);
  EXPECT_EQ(tenure::internal::ScaleExp2Q32(1, std::int64_t{1000} << 32), kMax);
  EXPECT_EQ(tenure::internal::ScaleExp2Q32(kMax, -(std::int64_t{63} << 32)), 0);
  EXPECT_EQ(tenure::internal::ScaleExp2Q32(kMax, -(std::int64_t{62} << 32)), 1);
  EXPECT_EQ(tenure::internal::ScaleExp2Q32(kMax, -(std::int64_t{1000} << 32)), 0);
  EXPECT_EQ(tenure::internal::ScaleExp2Q32(0, 0), 0);
}

TEST(Exp2Table, EachConstantSquaredIsThePreviousOne) {
  std::uint64_t previous = 0;  // 2 in Q63 does not fit: the first is checked as a square of 2
  for (std::uint64_t c : tenure::internal::kExp2Q63) {
    const absl::uint128 square = absl::uint128(c) * c;  // Q126
    const absl::uint128 target =
        previous == 0 ? absl::uint128(1) << 127 : absl::uint128(previous) << 63;
    // Rounded down, so the square lies within two units of Q63 of the previous constant.
    const absl::uint128 distance = square > target ? square - target : target - square;
    EXPECT_LT(distance, absl::uint128(3) << 63);
    previous = c;
  }
}

TEST(IntegerSqrt, IsTheFloor) {
  EXPECT_EQ(tenure::internal::IntegerSqrt(0), 0u);
  EXPECT_EQ(tenure::internal::IntegerSqrt(~std::uint64_t{0}), 0xffffffffu);
  for (std::uint64_t r = 1; r < 2000; ++r) {
    EXPECT_EQ(tenure::internal::IntegerSqrt(r * r), r);
    EXPECT_EQ(tenure::internal::IntegerSqrt(r * r - 1), r - 1);
    EXPECT_EQ(tenure::internal::IntegerSqrt(r * r + 2 * r), r);
  }
}

// The values are those of the published algorithms, computed independently.
TEST(Rng, GivesThePublishedSequence) {
  Rng zero(0);
  EXPECT_EQ(zero.Next(), 0x99ec5f36cb75f2b4u);
  EXPECT_EQ(zero.Next(), 0xbf6e1f784956452au);
  EXPECT_EQ(zero.Next(), 0x1a5f849d4933e6e0u);
  EXPECT_EQ(zero.Next(), 0x6aa594f1262d2d2cu);
  Rng other(42);
  EXPECT_EQ(other.Next(), 0x15780b2e0c2ec716u);
  EXPECT_EQ(other.Next(), 0x6104d9866d113a7eu);
}

TEST(Rng, GivesTheSameDrawsForEver) {
  Rng rng(7);
  EXPECT_EQ(rng.Below(1000), 700);
  EXPECT_EQ(rng.Exponential(hours(1)).count(), 4598767963);
  EXPECT_EQ(rng.NormalQ32(), -1305369936);
  EXPECT_EQ(rng.LogNormal(hours(6), 1100, seconds(1), hours(96)).count(), 30203780735);
  EXPECT_EQ(rng.Uniform(hours(4), hours(22)).count(), 75244970796);
  EXPECT_EQ(Rng(7, 1).Next(), 0x314862af2c690486u);
}

TEST(Rng, StreamsDiffer) {
  EXPECT_NE(Rng(7, 1).Next(), Rng(7, 2).Next());
  EXPECT_NE(Rng(7, 1).Next(), Rng(8, 1).Next());
  // Correlation of two streams of a seed.
  Rng a(7, 1), b(7, 2);
  double sum = 0;
  constexpr int kN = 100000;
  for (int i = 0; i < kN; ++i) {
    sum += (static_cast<double>(a.Next()) / 0x1p64 - 0.5) *
           (static_cast<double>(b.Next()) / 0x1p64 - 0.5);
  }
  EXPECT_NEAR(sum / kN * 12, 0, 0.02);
}

TEST(Rng, BelowIsUniform) {
  Rng rng(3);
  EXPECT_EQ(rng.Below(0), 0);
  EXPECT_EQ(rng.Below(1), 0);
  EXPECT_EQ(rng.Below(-5), 0);
  std::array<int, 7> count{};
  constexpr int kN = 140000;
  for (int i = 0; i < kN; ++i) ++count[static_cast<std::size_t>(rng.Below(7))];
  double chi2 = 0;
  for (int c : count) chi2 += (c - kN / 7.0) * (c - kN / 7.0) / (kN / 7.0);
  EXPECT_LT(chi2, 22.5);  // 99.9 % of chi-square with 6 degrees of freedom
  // A range of 3 * 2^61 would be biased 2 : 1 : 1 without the rejection.
  constexpr std::int64_t kBig = std::int64_t{3} << 61;
  std::array<int, 3> third{};
  for (int i = 0; i < 30000; ++i) ++third[static_cast<std::size_t>(rng.Below(kBig) >> 61)];
  for (int c : third) EXPECT_NEAR(c, 10000, 330);
}

TEST(Rng, ChanceHasItsProbability) {
  Rng rng(4);
  int hits = 0;
  for (int i = 0; i < 100000; ++i) hits += rng.Chance(3, 175) ? 1 : 0;
  EXPECT_NEAR(hits, 100000 * 3 / 175, 170);
  EXPECT_FALSE(rng.Chance(0, 5));
  EXPECT_TRUE(rng.Chance(5, 5));
  EXPECT_TRUE(rng.Chance(9, 5));
}

TEST(Rng, UniformStaysInItsHalfOpenInterval) {
  Rng rng(5);
  double sum = 0;
  constexpr int kN = 100000;
  for (int i = 0; i < kN; ++i) {
    const Duration d = rng.Uniform(Duration(-10), Duration(30));
    ASSERT_GE(d, Duration(-10));
    ASSERT_LT(d, Duration(30));
    sum += static_cast<double>(d.count());
  }
  EXPECT_NEAR(sum / kN, 9.5, 0.15);
  EXPECT_EQ(rng.Uniform(hours(2), hours(2)), hours(2));
}

TEST(Rng, ExponentialHasItsMomentsAndQuantiles) {
  Rng rng(6);
  constexpr int kN = 200000;
  std::vector<double> x(kN);
  for (double& v : x) v = static_cast<double>(rng.Exponential(hours(1)).count()) / 3.6e9;
  const double mean = std::accumulate(x.begin(), x.end(), 0.0) / kN;
  double var = 0;
  for (double v : x) var += (v - mean) * (v - mean) / kN;
  std::sort(x.begin(), x.end());
  EXPECT_NEAR(mean, 1, 0.01);
  EXPECT_NEAR(var, 1, 0.03);
  for (double p : {0.01, 0.1, 0.5, 0.9, 0.99}) {
    const double got = x[static_cast<std::size_t>(p * kN)];
    // Three standard errors of a sample quantile: 3 sqrt(p(1-p)/n) / density.
    EXPECT_NEAR(got, -std::log1p(-p), 3 * std::sqrt(p / (1 - p) / kN)) << p;
  }
  EXPECT_EQ(rng.Exponential(Duration(0)), Duration(0));
  EXPECT_EQ(rng.Exponential(Duration(-5)), Duration(0));
  EXPECT_GT(rng.Exponential(Duration::max()), Duration(0));
}

TEST(Rng, NormalHasItsMomentsAndQuantiles) {
  Rng rng(8);
  constexpr int kN = 400000;
  std::vector<double> x(kN);
  double m1 = 0, m2 = 0, m3 = 0, m4 = 0;
  for (double& v : x) {
    v = static_cast<double>(rng.NormalQ32()) / kQ32;
    m1 += v;
    m2 += v * v;
    m3 += v * v * v;
    m4 += v * v * v * v;
  }
  EXPECT_NEAR(m1 / kN, 0, 0.006);
  EXPECT_NEAR(m2 / kN, 1, 0.009);
  EXPECT_NEAR(m3 / kN, 0, 0.02);
  EXPECT_NEAR(m4 / kN, 3, 0.06);
  // Kolmogorov-Smirnov distance; 1.95 / sqrt(n) is the 99.9 % point.
  std::sort(x.begin(), x.end());
  double distance = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double cdf = 0.5 * std::erfc(-x[i] / std::sqrt(2.0));
    distance = std::max(distance, std::abs(cdf - static_cast<double>(i) / kN));
  }
  EXPECT_LT(distance, 1.95 / std::sqrt(static_cast<double>(kN)));
}

TEST(Rng, LogNormalHasItsMedianSpreadAndMean) {
  Rng rng(9);
  constexpr int kN = 200000;
  constexpr double kSigma = 0.9;
  std::vector<double> x(kN);
  for (double& v : x) {
    v = static_cast<double>(rng.LogNormal(hours(3), 900, Duration(0), Duration::max()).count()) /
        3.6e9;
  }
  std::sort(x.begin(), x.end());
  EXPECT_NEAR(x[kN / 2], 3, 0.03);
  EXPECT_NEAR(std::log(x[static_cast<std::size_t>(0.841345 * kN)] / 3), kSigma, 0.012);
  EXPECT_NEAR(std::log(x[static_cast<std::size_t>(0.158655 * kN)] / 3), -kSigma, 0.012);
  EXPECT_NEAR(std::accumulate(x.begin(), x.end(), 0.0) / kN, 3 * std::exp(kSigma * kSigma / 2),
              0.05);
}

TEST(Rng, LogNormalIsClamped) {
  Rng rng(10);
  int low = 0, high = 0;
  for (int i = 0; i < 10000; ++i) {
    const Duration d = rng.LogNormal(hours(6), 1100, hours(3), hours(12));
    ASSERT_GE(d, hours(3));
    ASSERT_LE(d, hours(12));
    low += d == hours(3) ? 1 : 0;
    high += d == hours(12) ? 1 : 0;
  }
  // ln 2 / 1.1 = 0.63 sigma: 26.4 % on either side.
  EXPECT_NEAR(low, 2643, 140);
  EXPECT_NEAR(high, 2643, 140);
}

TEST(Rng, PickFollowsTheWeights) {
  Rng rng(11);
  constexpr std::array<int, 4> kWeights = {8, 0, 5, 4};
  std::array<int, 4> count{};
  for (int i = 0; i < 17000; ++i) ++count[rng.Pick(kWeights)];
  EXPECT_NEAR(count[0], 8000, 200);
  EXPECT_EQ(count[1], 0);
  EXPECT_NEAR(count[2], 5000, 180);
  EXPECT_NEAR(count[3], 4000, 170);
}

}  // namespace
}  // namespace tenure::sim
