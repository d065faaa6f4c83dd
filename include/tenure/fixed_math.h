// SPDX-License-Identifier: Apache-2.0
//
// Integer arithmetic of the decisions: fixed-point powers of two, exact ratios, weights as
// integers.
//
//   std::int64_t x = tenure::internal::Exp2Q16(-3 << 15);       // 2^-1.5 = 23170 / 65536
//   std::int64_t y = tenure::internal::MulDivFloor(a, b, c);    // floor(a * b / c), 128 bits
//   inside tenure::Duration key = tenure::internal::HoursOfShare(use, entitlement);
//
// Q16 means "in units of 2^-16", Q31 and Q63 likewise. No function here uses floating point, so the
// results are the same on every machine. Pure functions, thread-safe.
#ifndef TENURE_FIXED_MATH_H_
#define TENURE_FIXED_MATH_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>

#include "absl/numeric/int128.h"
#include "tenure/types.h"

namespace tenure::internal {

inline constexpr int kQ = 16;
inline constexpr std::int64_t kOneQ16 = std::int64_t{1} << kQ;

// 2^(2^-i) in Q31 for i = 1 .. 16: one factor for each bit of a fraction.
inline constexpr std::array<std::uint64_t, kQ> kExp2Roots = {
    0xb504f334, 0x9837f052, 0x8b95c1e4, 0x85aac368, 0x82cd8699, 0x8164d1f4, 0x80b1ed50, 0x8058d7d3,
    0x802c6437, 0x8016302f, 0x800b179d, 0x80058baf, 0x8002c5d0, 0x800162e6, 0x8000b173, 0x800058b9};
// The product of the factors of the first eight bits, by these bits, truncated after each factor.
inline constexpr std::array<std::uint32_t, 256> kExp2High = [] {
  std::array<std::uint32_t, 256> products = {};
  for (std::size_t bits = 0; bits < products.size(); ++bits) {
    std::uint64_t value = std::uint64_t{1} << 31;
    for (std::size_t i = 0; i < 8; ++i) {
      if ((bits << i & 0x80) != 0) value = (value * kExp2Roots[i]) >> 31;
    }
    products[bits] = static_cast<std::uint32_t>(value);
  }
  return products;
}();

// 2^x, x in Q16 and clamped to [-16, 16], result in Q16 (1 .. 2^32). Monotone. Off by less than
// 2^-25 of the value plus half a unit of the result: for x >= -1 a relative error below 2^-15.
// At integers exact.
constexpr std::int64_t Exp2Q16(std::int64_t x_q16) {
  const std::int64_t x = std::clamp(x_q16, -16 * kOneQ16, 16 * kOneQ16);
  const int whole = static_cast<int>(x >> kQ);  // floor
  const std::uint64_t fraction = static_cast<std::uint64_t>(x) & 0xffff;
  constexpr std::uint64_t kOne = std::uint64_t{1} << 31;
  std::uint64_t value = kExp2High[fraction >> 8];  // in [1, 2) as Q31
  for (std::size_t i = 8; i < kQ; ++i) {
    // 1 where the bit is not set: a branch would be mispredicted half of the time.
    const std::uint64_t set = fraction >> (kQ - 1 - static_cast<int>(i)) & 1;
    value = (value * (kOne + (kExp2Roots[i] - kOne) * set)) >> 31;
  }
  const int shift = 31 - kQ - whole;  // -1 .. 31
  if (shift <= 0) return static_cast<std::int64_t>(value << -shift);
  return static_cast<std::int64_t>((value + (std::uint64_t{1} << (shift - 1))) >> shift);
}

// floor(a * b / c) for c > 0, saturating at the ends of 64 bits.
constexpr std::int64_t MulDivFloor(std::int64_t a, std::int64_t b, std::int64_t c) {
  std::int64_t product = 0;
  if (!__builtin_mul_overflow(a, b, &product)) {
    return product / c - (product % c < 0 ? 1 : 0);
  }
  const absl::int128 wide = absl::int128(a) * absl::int128(b);
  absl::int128 quotient = wide / absl::int128(c);
  if (quotient * absl::int128(c) > wide) quotient -= 1;
  if (quotient > absl::int128(std::numeric_limits<std::int64_t>::max())) {
    return std::numeric_limits<std::int64_t>::max();
  }
  if (quotient < absl::int128(std::numeric_limits<std::int64_t>::min())) {
    return std::numeric_limits<std::int64_t>::min();
  }
  return static_cast<std::int64_t>(quotient);
}

// How long `entitlement` GPUs need for `use`: floor(use * 1000 / entitlement) in microseconds,
// exact, saturating. This is the number that ranks allocations. An entitlement of 0 (or less) gives
// Duration::max() for use >= 0 and Duration::min() for a credit (use < 0).
constexpr Duration HoursOfShare(GpuTime use, MilliGpu entitlement) {
  const std::int64_t e = entitlement.value();
  if (e <= 0) return use.value() < 0 ? Duration::min() : Duration::max();
  std::int64_t product = 0;
  if (!__builtin_mul_overflow(use.value(), 1000, &product)) {  // one division
    return Duration(product / e - (product % e < 0 ? 1 : 0));
  }
  std::int64_t whole = use.value() / e;
  std::int64_t rest = use.value() % e;
  if (rest < 0) {
    rest += e;
    --whole;
  }
  std::int64_t thousands = 0;
  if (__builtin_mul_overflow(whole, 1000, &thousands)) {
    return whole < 0 ? Duration::min() : Duration::max();
  }
  std::int64_t sum = 0;
  if (__builtin_add_overflow(thousands, MulDivFloor(rest, 1000, e), &sum)) return Duration::max();
  return Duration(sum);
}

// HoursOfShare(use, entitlement) >= hours, without a division; hours > Duration::min().
constexpr bool HoursAtLeast(GpuTime use, MilliGpu entitlement, Duration hours) {
  if (entitlement <= MilliGpu(0)) return HoursOfShare(use, entitlement) >= hours;
  return absl::int128(use.value()) * 1000 >=
         absl::int128(hours.count()) * absl::int128(entitlement.value());
}

// a - b, saturating: a key may be infinite, either way.
constexpr Duration Difference(Duration a, Duration b) {
  std::int64_t difference = 0;
  if (!__builtin_sub_overflow(a.count(), b.count(), &difference)) return Duration(difference);
  return a < b ? Duration::min() : Duration::max();
}

constexpr std::int64_t SaturatingAdd(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return a < 0 ? std::numeric_limits<std::int64_t>::min()
               : std::numeric_limits<std::int64_t>::max();
}

// A positive finite double taken apart: value = mantissa * 2^exponent, exactly.
struct BinaryParts {
  std::uint64_t mantissa = 0;
  int exponent = 0;
};

constexpr BinaryParts TakeApart(double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << 52) - 1);
  const int exponent = static_cast<int>((bits >> 52) & 0x7ff);
  if (exponent == 0) return {fraction, -1074};
  return {fraction | (std::uint64_t{1} << 52), exponent - 1075};
}

// `parts` * 10^k as an integer below 2^62 if it is one up to a relative 1e-9, else 0. k <= 18.
inline std::uint64_t DecimalInteger(BinaryParts parts, std::uint64_t power_of_ten) {
  const absl::uint128 scaled = absl::uint128(parts.mantissa) * absl::uint128(power_of_ten);
  absl::uint128 result = 0;
  if (parts.exponent >= 0) {
    if (parts.exponent > 62 || scaled > (absl::uint128(1) << (62 - parts.exponent))) return 0;
    result = scaled << parts.exponent;
  } else {
    const int shift = -parts.exponent;
    if (shift > 115) return 0;  // scaled < 2^113: less than one half
    result = (scaled + (absl::uint128(1) << (shift - 1))) >> shift;
    const absl::uint128 rounded = result << shift;
    const absl::uint128 error = rounded > scaled ? rounded - scaled : scaled - rounded;
    if (error != 0 && error > scaled / 1'000'000'000u) return 0;
  }
  return result < (absl::uint128(1) << 62) ? absl::Uint128Low64(result) : 0;
}

// Writes integers in the ratio of `weights` (finite, >= 0; 0 stays 0) and returns their sum, at
// most 2^40. If the weights are decimals with up to 18 digits after the point (up to a relative
// 1e-9) whose smallest integer multiples sum to at most 2^31, these are taken: 0.35 : 0.65 is 7 :
// 13, also after scaling both by 1e-9 or 1e9. Otherwise the largest becomes about 2^30 (less with
// more than 512 weights), the others are rounded, no positive one below 1. Needs fewer than 2^32
// weights.
inline std::int64_t IntegerRatios(std::span<const double> weights, std::span<std::int64_t> out) {
  constexpr std::int64_t kExactSum = std::int64_t{1} << 31;
  constexpr std::int64_t kScaledSum = std::int64_t{1} << 40;
  std::uint64_t power_of_ten = 1;
  for (int k = 0; k <= 18; ++k, power_of_ten *= 10) {
    std::uint64_t divisor = 0;
    std::size_t i = 0;
    for (; i < weights.size(); ++i) {
      out[i] = 0;
      if (weights[i] <= 0) continue;
      const std::uint64_t n = DecimalInteger(TakeApart(weights[i]), power_of_ten);
      if (n == 0) break;
      out[i] = static_cast<std::int64_t>(n);
      divisor = std::gcd(divisor, n);
    }
    if (i < weights.size()) continue;
    if (divisor == 0) return 0;
    std::int64_t sum = 0;
    for (std::size_t j = 0; j < weights.size() && sum <= kExactSum; ++j) {
      out[j] /= static_cast<std::int64_t>(divisor);
      sum = SaturatingAdd(sum, out[j]);
    }
    if (sum <= kExactSum) return sum;
    break;
  }
  int top = std::numeric_limits<int>::min();  // the largest weight is in [2^(top - 1), 2^top)
  for (const double w : weights) {
    if (w <= 0) continue;
    const BinaryParts p = TakeApart(w);
    top = std::max(top, p.exponent + static_cast<int>(std::bit_width(p.mantissa)));
  }
  for (int bits = 31;; --bits) {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      out[i] = 0;
      if (weights[i] <= 0) continue;
      const BinaryParts p = TakeApart(weights[i]);
      const int shift = top - bits - p.exponent;
      std::uint64_t n = 0;
      if (shift <= 0) {
        n = p.mantissa << -shift;
      } else if (shift < 64) {
        n = (p.mantissa + (std::uint64_t{1} << (shift - 1))) >> shift;
      }
      out[i] = std::max<std::int64_t>(1, static_cast<std::int64_t>(n));
      sum += out[i];
    }
    if (sum <= kScaledSum) return sum;
  }
}

}  // namespace tenure::internal

#endif  // TENURE_FIXED_MATH_H_
