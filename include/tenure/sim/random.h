// SPDX-License-Identifier: Apache-2.0
//
// Random numbers that are the same everywhere: a fixed generator and integer-only distributions.
//
//   tenure::sim::Rng rng(42);
//   tenure::Duration gap = rng.Exponential(std::chrono::minutes(10));
//   tenure::Duration runtime = rng.LogNormal(std::chrono::hours(6), 1100,  // sigma 1.1
//                                            std::chrono::minutes(18), std::chrono::hours(96));
//   constexpr std::array<int, 3> kWeights = {5, 3, 2};
//   std::size_t which = rng.Pick(kWeights);  // 0 half of the time
//
// The distributions of <random> and absl promise no stable sequence and use floating point, whose
// rounding depends on the compiler; here every step is integer arithmetic.
#ifndef TENURE_SIM_RANDOM_H_
#define TENURE_SIM_RANDOM_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "absl/numeric/int128.h"
#include "tenure/types.h"

namespace tenure::internal {

// kExp2Q63[i] = 2^(2^-(i+1)) in Q63, rounded down.
inline constexpr std::array<std::uint64_t, 32> kExp2Q63 = {
    0xb504f333f9de6484u, 0x9837f0518db8a96fu, 0x8b95c1e3ea8bd6e6u, 0x85aac367cc487b14u,
    0x82cd8698ac2ba1d7u, 0x8164d1f3bc030773u, 0x80b1ed4fd999ab6cu, 0x8058d7d2d5e5f6b0u,
    0x802c6436d0e04f50u, 0x8016302f17467628u, 0x800b179c82028fd0u, 0x80058baf7fee3b5du,
    0x8002c5d00fdcfcb6u, 0x800162e61bed4a48u, 0x8000b17292f702a3u, 0x800058b92abbae02u,
    0x80002c5c8dade4d7u, 0x8000162e44eaf636u, 0x80000b1721fa7c18u, 0x8000058b90de7e4cu,
    0x800002c5c8678f36u, 0x80000162e431db9fu, 0x800000b1721872d0u, 0x80000058b90c1aa8u,
    0x8000002c5c8605a4u, 0x800000162e4300e6u, 0x8000000b17217ff8u, 0x800000058b90bfddu,
    0x80000002c5c85fe6u, 0x8000000162e42ff1u, 0x80000000b17217f8u, 0x8000000058b90bfcu,
};
inline constexpr std::uint64_t kLn2Q64 = 12786308645202655659u;
inline constexpr std::uint64_t kLog2EQ32 = 6196328018u;

// log2(x) in Q32 for x >= 1, rounded down: the error is in (-2^-32 - 2^-61, 0].
inline std::int64_t Log2Q32(std::uint64_t x) {
  const int exponent = 63 - std::countl_zero(x);
  std::uint64_t m = x << (63 - exponent);  // mantissa in [1, 2), Q63
  std::int64_t fraction = 0;
  for (int i = 0; i < 32; ++i) {
    const std::uint64_t square = absl::Uint128High64(absl::uint128(m) * m);  // in [1, 4), Q62
    const bool ge2 = (square >> 63) != 0;
    fraction = fraction * 2 + (ge2 ? 1 : 0);
    m = ge2 ? square : square << 1;
  }
  return (std::int64_t{exponent} << 32) + fraction;
}

// value * 2^x for value >= 0 and x in Q32; relative error < 2^-57, rounded down, saturating.
inline std::int64_t ScaleExp2Q32(std::int64_t value, std::int64_t x_q32) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  const std::int64_t exponent = x_q32 >> 32;
  if (value <= 0 || exponent < -63) return 0;
  if (exponent >= 63) return kMax;
  std::uint64_t m = std::uint64_t{1} << 63;
  const std::uint64_t fraction = static_cast<std::uint64_t>(x_q32) & 0xffffffffu;
  for (std::size_t i = 0; i < 32; ++i) {
    if ((fraction >> (31 - i)) & 1u) {
      m = absl::Uint128Low64((absl::uint128(m) * kExp2Q63[i]) >> 63);
    }
  }
  const absl::uint128 product = absl::uint128(static_cast<std::uint64_t>(value)) * m;
  const absl::uint128 result = product >> static_cast<int>(63 - exponent);
  return result > absl::uint128(static_cast<std::uint64_t>(kMax))
             ? kMax
             : static_cast<std::int64_t>(absl::Uint128Low64(result));
}

// floor(sqrt(x)).
constexpr std::uint64_t IntegerSqrt(std::uint64_t x) {
  std::uint64_t root = 0;
  for (std::uint64_t bit = std::uint64_t{1} << 62; bit != 0; bit >>= 2) {
    if (x >= root + bit) {
      x -= root + bit;
      root = (root >> 1) + bit;
    } else {
      root >>= 1;
    }
  }
  return root;
}

}  // namespace tenure::internal

namespace tenure::sim {

// A stream of random numbers: xoshiro256** (Blackman and Vigna 2018), its state filled by
// splitmix64. The sequence of a (seed, stream) pair is part of the interface and never changes.
// Thread-compatible value type; every function is O(1).
class Rng {
 public:
  // Streams of one seed are independent: give each part of a generator its own, so that a change in
  // one part does not shift the numbers of another.
  explicit Rng(std::uint64_t seed, std::uint64_t stream = 0) {
    std::uint64_t x = seed;
    if (stream != 0) x = SplitMix(x) ^ (stream * 0xd1342543de82ef95u);
    for (std::uint64_t& word : state_) word = SplitMix(x);
  }

  std::uint64_t Next() {
    const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  // Uniform in [0, n), unbiased (Lemire 2019); 0 for n <= 1, without using up a number.
  std::int64_t Below(std::int64_t n) {
    if (n <= 1) return 0;
    const auto range = static_cast<std::uint64_t>(n);
    const std::uint64_t reject_below = (0 - range) % range;
    while (true) {
      const absl::uint128 product = absl::uint128(Next()) * range;
      if (absl::Uint128Low64(product) >= reject_below) {
        return static_cast<std::int64_t>(absl::Uint128High64(product));
      }
    }
  }

  // True with probability numerator / denominator; denominator > 0, at or above 1 always true.
  bool Chance(std::int64_t numerator, std::int64_t denominator) {
    return Below(denominator) < numerator;
  }

  // Uniform in [lo, hi); lo if hi <= lo.
  Duration Uniform(Duration lo, Duration hi) { return lo + Duration(Below((hi - lo).count())); }

  // Exponential with the given mean >= 0; the error of a value is < mean * 2^-31 + 1 us, the
  // largest value is 64 ln 2 = 44.4 means.
  Duration Exponential(Duration mean) {
    const std::uint64_t u = std::max(Next(), std::uint64_t{1});
    const auto bits =
        static_cast<std::uint64_t>((std::int64_t{64} << 32) - tenure::internal::Log2Q32(u));
    const std::uint64_t nats =
        absl::Uint128High64(absl::uint128(bits) * tenure::internal::kLn2Q64);  // Q32
    const absl::uint128 value =
        (absl::uint128(static_cast<std::uint64_t>(std::max(mean, Duration(0)).count())) * nats) >>
        32;
    constexpr auto kMax = static_cast<std::uint64_t>(Duration::max().count());
    return Duration(
        static_cast<std::int64_t>(value > absl::uint128(kMax) ? kMax : absl::Uint128Low64(value)));
  }

  // Standard normal in Q32, in steps of 2^-28 (Marsaglia's polar method; one of its pair is
  // dropped, so that the state is the generator's alone). The square of a value is off by less than
  // 2^-30, |value| < 9.4.
  std::int64_t NormalQ32() {
    while (true) {
      // Odd multiples of 2^-32 in (-1, 1): symmetric, never 0.
      const std::int64_t u = 2 * (static_cast<std::int64_t>(Next() >> 32) - (1LL << 31)) + 1;
      const std::int64_t v = 2 * (static_cast<std::int64_t>(Next() >> 32) - (1LL << 31)) + 1;
      const std::uint64_t abs_u = static_cast<std::uint64_t>(u < 0 ? -u : u);
      const std::uint64_t abs_v = static_cast<std::uint64_t>(v < 0 ? -v : v);
      const std::uint64_t u2 = abs_u * abs_u;  // Q64, < 2^64
      const std::uint64_t s = u2 + abs_v * abs_v;
      if (s < u2) continue;  // outside the unit circle
      const auto bits =
          static_cast<std::uint64_t>((std::int64_t{64} << 32) - tenure::internal::Log2Q32(s));
      // z^2 = u^2 * (-2 ln s) / s, in Q56.
      const std::uint64_t minus_2ln =
          absl::Uint128High64(absl::uint128(bits) * tenure::internal::kLn2Q64) << 1;  // Q32, < 2^39
      const absl::uint128 square = ((absl::uint128(u2) * minus_2ln) << 24) / absl::uint128(s);
      const auto z =
          static_cast<std::int64_t>(tenure::internal::IntegerSqrt(absl::Uint128Low64(square))) << 4;
      return u < 0 ? -z : z;
    }
  }

  // Log-normal: median * exp(sigma * normal), clamped to [lo, hi]; sigma in thousandths, in
  // [0, 10000]. Its logarithm is as exact as NormalQ32, times sigma.
  Duration LogNormal(Duration median, std::int64_t sigma_milli, Duration lo, Duration hi) {
    const std::int64_t z = NormalQ32();
    const absl::uint128 scaled = absl::uint128(static_cast<std::uint64_t>(z < 0 ? -z : z)) *
                                 static_cast<std::uint64_t>(sigma_milli) *
                                 tenure::internal::kLog2EQ32 / 1000u;
    const auto x = static_cast<std::int64_t>(absl::Uint128Low64(scaled >> 32));
    const Duration value(tenure::internal::ScaleExp2Q32(median.count(), z < 0 ? -x : x));
    return std::clamp(value, lo, hi);
  }

  // Index i with probability weights[i] / sum. Weights >= 0 with a positive sum.
  std::size_t Pick(std::span<const int> weights) {
    std::int64_t sum = 0;
    for (int w : weights) sum += w;
    std::int64_t r = Below(sum);
    for (std::size_t i = 0; i + 1 < weights.size(); ++i) {
      if (r < weights[i]) return i;
      r -= weights[i];
    }
    return weights.size() - 1;
  }

 private:
  static std::uint64_t SplitMix(std::uint64_t& x) {
    x += 0x9e3779b97f4a7c15u;
    std::uint64_t z = x;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  std::array<std::uint64_t, 4> state_;
};

}  // namespace tenure::sim

#endif  // TENURE_SIM_RANDOM_H_
