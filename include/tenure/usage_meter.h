// SPDX-License-Identifier: Apache-2.0
//
// How much GPU time an allocation used lately: by an exact sliding window or by exponential decay.
//
//   using namespace std::chrono_literals;
//   tenure::UsageMeter meter(24h * 7);
//   meter.Change(tenure::TimePoint(0s), tenure::GpuCount(8));      // a run of 8 GPUs starts
//   meter.Change(tenure::TimePoint(3600s), tenure::GpuCount(-8));  // ... and ends
//   meter.Use(tenure::TimePoint(2h));                              // 8 GPU-hours
//   meter.Use(tenure::TimePoint(24h * 7 + 1h));                    // exactly 0
//
// Both meters are fed the changes of the rate (GPUs in use) and answer in GPU-microseconds. A
// change reported late corrects the history as if it had come in time. Integers only, so the same
// changes give the same use everywhere, and what left the window is exactly 0. Copyable value
// types, thread-compatible: const methods may be called concurrently.
//
// Preconditions that no method checks: times in [-kTimeLimit, kTimeLimit]; every rate that history
// ever held, late corrections included, in [-kMaxClusterGpus, kMaxClusterGpus]. With them nothing
// overflows.
#ifndef TENURE_USAGE_METER_H_
#define TENURE_USAGE_METER_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/numeric/int128.h"
#include "tenure/types.h"

namespace tenure {

// The integral of the rate over [now - window, now). Memory and copying: O(changes of the rate in
// the window). `window` is clamped to [1 us, kMaxLookback].
class UsageMeter {
 public:
  explicit UsageMeter(Duration window = kDefaultLookback)
      : window_(std::clamp(window, Duration(1), kMaxLookback)) {}

  // The rate differs by `delta` from `at` on. Changes at the same time add up in any order.
  // Amortised O(1) if `at` is not before the last change or advance; else O(segments), and the part
  // of the correction that is older than the window has no effect.
  void Change(TimePoint at, GpuCount delta);

  // As if every change ever made to `other`, times `sign` (1 or -1), had been made here too; exact.
  // Both must have the same window. O(segments of both).
  void Add(UsageMeter other, std::int64_t sign);
  // As if every change so far had been `factor` times as large.
  void Scale(std::int64_t factor) {
    area_ = GpuTime(area_.value() * factor);
    base_ = GpuCount(base_.value() * factor);
    rate_ = GpuCount(rate_.value() * factor);
    for (Step& s : steps_) s.rate = GpuCount(s.rate.value() * factor);
  }

  // Use in [now - window, now). A `now` before the latest time known counts as that time, so use
  // never jumps back. Amortised O(1) a change, however far `now` is ahead.
  GpuTime Use(TimePoint now) {
    Advance(now);
    return area_;
  }
  // The same without remembering `now`. O(segments that leave the window).
  GpuTime UseAt(TimePoint now) const;

  // Rate from the latest known time on.
  GpuCount rate() const { return rate_; }
  Duration window() const { return window_; }
  // Latest time advanced to or changed at.
  TimePoint now() const { return now_; }
  // By how much Use grows a microsecond from now() on, as long as nothing changes: until
  // `slope_until`, when the rate that leaves the window becomes another.
  GpuCount slope() const { return rate_ - base_; }
  TimePoint slope_until() const {
    return head_ == steps_.size() ? kNever : steps_[head_].at + window_;
  }
  // Pieces of constant rate that are stored: 1 if the rate was constant in the whole window.
  std::size_t segments() const { return steps_.size() - head_ + 1; }

  // Same answers now and after any further calls.
  friend bool operator==(const UsageMeter& a, const UsageMeter& b) {
    return a.window_ == b.window_ && a.now_ == b.now_ && a.area_ == b.area_ && a.base_ == b.base_ &&
           std::equal(a.First(), a.steps_.end(), b.First(), b.steps_.end());
  }

  template <class Archive>
  void Serialize(Archive& ar) {
    ar(window_, now_, area_, base_, rate_);
    // Without the expired steps, so that the bytes do not depend on when storage was reclaimed.
    std::vector<Step> live;
    if constexpr (!Archive::kReading) live.assign(First(), steps_.cend());
    ar(live);
    if constexpr (Archive::kReading) {
      window_ = std::clamp(window_, Duration(1), kMaxLookback);
      steps_ = std::move(live);
      head_ = 0;
    }
  }

 private:
  // The rate is `rate` from `at` on.
  struct Step {
    TimePoint at;
    GpuCount rate;
    friend bool operator==(const Step&, const Step&) = default;
    template <class Archive>
    void Serialize(Archive& ar) {
      ar(at, rate);
    }
  };

  std::vector<Step>::const_iterator First() const {
    return steps_.begin() + static_cast<std::ptrdiff_t>(head_);
  }
  void Advance(TimePoint now);
  void Correct(TimePoint at, GpuCount delta);

  Duration window_;
  TimePoint now_{-kTimeLimit};
  GpuTime area_;   // use in [now_ - window_, now_)
  GpuCount base_;  // rate at now_ - window_
  GpuCount rate_;  // rate from now_ on
  // steps_[head_ ..] are the changes in (now_ - window_, now_], ascending, each to another rate.
  std::vector<Step> steps_;
  std::size_t head_ = 0;
};

// Use with a half-life: GPU time t ago counts 2^(-t / half_life). A constant rate r settles at
// r * half_life / ln 2. Constant size. `half_life` is clamped to [1 us, kMaxLookback].
//
// Error: each advance or change adds at most |rate| * half_life * 2^-57 + 2^-31 GPU-us and a
// relative 2^-57 of the use (all of which decays too); use is truncated to whole GPU-us. What is
// 64 half-lives ago counts exactly 0.
class DecayMeter {
 public:
  explicit DecayMeter(Duration half_life = kDefaultLookback)
      : half_life_(std::clamp(half_life, Duration(1), kMaxLookback)) {}

  // As in UsageMeter; late reports are corrected to within the error above. O(1).
  void Change(TimePoint at, GpuCount delta);

  // As in UsageMeter. O(1).
  GpuTime Use(TimePoint now) {
    Advance(now);
    return Truncated();
  }
  GpuTime UseAt(TimePoint now) const {
    DecayMeter copy = *this;
    return copy.Use(now);
  }

  GpuCount rate() const { return rate_; }
  Duration window() const { return half_life_; }
  TimePoint now() const { return now_; }
  std::size_t segments() const { return 1; }

  friend bool operator==(const DecayMeter&, const DecayMeter&) = default;

  template <class Archive>
  void Serialize(Archive& ar) {
    ar(half_life_, now_, rate_, whole_, fraction_);
    if constexpr (Archive::kReading) {
      half_life_ = std::clamp(half_life_, Duration(1), kMaxLookback);
    }
  }

 private:
  // 2^-x as mantissa * 2^-(63 + halvings), mantissa in [2^62, 2^63].
  struct Factor {
    std::uint64_t mantissa = std::uint64_t{1} << 63;
    std::int64_t halvings = 0;
  };

  static constexpr std::uint64_t kOneQ63 = std::uint64_t{1} << 63;

  static std::uint64_t MulQ63(std::uint64_t a, std::uint64_t b) {
    return absl::Uint128Low64((absl::uint128(a) * absl::uint128(b)) >> 63);
  }
  Factor Decay(Duration elapsed) const;
  // What `rate`, held for a time whose decay is `f` and that ends now, adds to the use; in Q32.
  absl::int128 Held(GpuCount rate, Factor f) const;
  void Advance(TimePoint now);
  // From begin (may be -kTimeLimit) to end: no overflow as a difference of 64 bits.
  static Duration Elapsed(TimePoint begin, TimePoint end) {
    // Everything beyond 64 half-lives counts alike.
    constexpr Duration kFar = kMaxLookback * 65;
    return end - kFar >= begin ? kFar : end - begin;
  }

  absl::int128 AreaQ32() const { return (absl::int128(whole_) << 32) + absl::int128(fraction_); }
  void SetAreaQ32(absl::int128 area) {
    whole_ = static_cast<std::int64_t>(area >> 32);
    fraction_ = static_cast<std::uint32_t>(absl::Int128Low64(area));
  }
  GpuTime Truncated() const { return GpuTime(whole_ < 0 && fraction_ != 0 ? whole_ + 1 : whole_); }

  Duration half_life_;
  TimePoint now_{-kTimeLimit};
  GpuCount rate_;
  // Use at now_ = whole_ + fraction_ * 2^-32.
  std::int64_t whole_ = 0;
  std::uint32_t fraction_ = 0;
};

// ---- implementation ----

inline void UsageMeter::Advance(TimePoint now) {
  if (now <= now_) return;
  const TimePoint tail = now - window_;
  if (tail >= now_) {
    steps_.clear();
    head_ = 0;
    base_ = rate_;
    area_ = rate_ * window_;
    now_ = now;
    return;
  }
  TimePoint from = now_ - window_;
  while (head_ < steps_.size() && steps_[head_].at <= tail) {
    area_ -= base_ * (steps_[head_].at - from);
    from = steps_[head_].at;
    base_ = steps_[head_].rate;
    ++head_;
  }
  area_ -= base_ * (tail - from);
  area_ += rate_ * (now - now_);
  now_ = now;
  // Each step is moved at most once per step that expired: amortised O(1).
  if (head_ * 2 > steps_.size()) {
    steps_.erase(steps_.begin(), First());
    head_ = 0;
  }
}

inline void UsageMeter::Change(TimePoint at, GpuCount delta) {
  if (at >= now_) {
    Advance(at);
  } else {
    const TimePoint tail = now_ - window_;
    area_ += delta * (now_ - std::max(at, tail));
    if (at <= tail) base_ += delta;
  }
  if (delta == GpuCount(0)) return;
  rate_ += delta;
  Correct(at, delta);
}

inline void UsageMeter::Add(UsageMeter other, std::int64_t sign) {
  Advance(other.now_);
  other.Advance(now_);
  std::vector<Step> sum;
  GpuCount ours = base_, theirs = other.base_, last = base_ + GpuCount(sign * other.base_.value());
  base_ = last;
  area_ += GpuTime(sign * other.area_.value());
  rate_ += GpuCount(sign * other.rate_.value());
  auto a = First();
  auto b = other.First();
  while (a != steps_.cend() || b != other.steps_.cend()) {
    const TimePoint at =
        std::min(a != steps_.cend() ? a->at : kNever, b != other.steps_.cend() ? b->at : kNever);
    if (a != steps_.cend() && a->at == at) ours = (a++)->rate;
    if (b != other.steps_.cend() && b->at == at) theirs = (b++)->rate;
    const GpuCount rate = ours + GpuCount(sign * theirs.value());
    if (rate != last) sum.push_back({at, rate});
    last = rate;
  }
  steps_ = std::move(sum);
  head_ = 0;
}

// Adds `delta` to the stored rates from `at` on.
inline void UsageMeter::Correct(TimePoint at, GpuCount delta) {
  const bool before_window = at <= now_ - window_;
  // From the back: reports are seldom late by much.
  std::size_t i = steps_.size();
  while (i > head_ && steps_[i - 1].at >= at) steps_[--i].rate += delta;
  if (before_window) return;
  const auto position = steps_.begin() + static_cast<std::ptrdiff_t>(i);
  const GpuCount before = i == head_ ? base_ : steps_[i - 1].rate;
  if (i < steps_.size() && steps_[i].at == at) {
    if (steps_[i].rate == before) steps_.erase(position);
  } else {
    steps_.insert(position, Step{at, before + delta});
  }
}

inline GpuTime UsageMeter::UseAt(TimePoint now) const {
  if (now <= now_) return area_;
  const TimePoint tail = now - window_;
  if (tail >= now_) return rate_ * window_;
  GpuTime area = area_;
  TimePoint from = now_ - window_;
  GpuCount rate = base_;
  for (auto step = First(); step != steps_.end() && step->at <= tail; ++step) {
    area -= rate * (step->at - from);
    from = step->at;
    rate = step->rate;
  }
  area -= rate * (tail - from);
  return area + rate_ * (now - now_);
}

// 2^-(elapsed / half_life): whole half-lives are halvings; of the rest the upper 16 bits are one
// factor each and the lower 48 (below 2^-16) a cubic, whose next term is below 2^-70.
inline DecayMeter::Factor DecayMeter::Decay(Duration elapsed) const {
  // 2^(-2^-i) in Q63 for i = 1 .. 16.
  static constexpr std::array<std::uint64_t, 16> kRoots = {
      0x5a827999fcef3242u, 0x6ba27e656b4eb57au, 0x75606373ee921c97u, 0x7a92be8a92436616u,
      0x7d41d96db915019du, 0x7e9f06067a4360bau, 0x7f4f08ae3dc7c426u, 0x7fa765aca88f6453u,
      0x7fd3ab290e46d769u, 0x7fe9d3a8e07bf086u, 0x7ff4e9597bed93abu, 0x7ffa748dff8dc61fu,
      0x7ffd3a3f50020332u, 0x7ffe9d1dbc0a75aau, 0x7fff4e8e6306ed59u, 0x7fffa74712c3cdfdu};
  constexpr std::uint64_t kLn2Q64 = 0xb17217f7d1cf79acu;
  Factor f;
  f.halvings = elapsed / half_life_;
  const auto rest = static_cast<std::uint64_t>((elapsed % half_life_).count());
  const std::uint64_t x = absl::Uint128Low64(
      (absl::uint128(rest) << 64) / absl::uint128(static_cast<std::uint64_t>(half_life_.count())));
  const std::uint64_t low = x & ((std::uint64_t{1} << 48) - 1);
  const std::uint64_t t =
      absl::Uint128Low64((absl::uint128(low) * absl::uint128(kLn2Q64)) >> 65);  // Q63
  const std::uint64_t t2 = MulQ63(t, t);
  f.mantissa = kOneQ63 - t + t2 / 2 - MulQ63(t2, t) / 6;
  std::uint64_t high = x >> 48;
  for (std::size_t i = 0; high != 0; ++i, high = (high << 1) & 0xffff) {
    if ((high & 0x8000) != 0) f.mantissa = MulQ63(f.mantissa, kRoots[i]);
  }
  return f;
}

// rate * (1 - f) * half_life / ln 2.
inline absl::int128 DecayMeter::Held(GpuCount rate, Factor f) const {
  constexpr std::uint64_t kInverseLn2Q63 = 0xb8aa3b295c17f0bcu;
  const std::uint64_t left = f.halvings > 63 ? 0 : f.mantissa >> f.halvings;
  const std::uint64_t factor = MulQ63(kOneQ63 - left, kInverseLn2Q63);  // at most 1.4427 in Q63
  const std::int64_t sign = rate < GpuCount(0) ? -1 : 1;
  const auto settled = static_cast<std::uint64_t>(sign * rate.value() * half_life_.count());
  const absl::uint128 area = (absl::uint128(settled) * absl::uint128(factor)) >> 31;
  return absl::int128(area) * sign;
}

inline void DecayMeter::Advance(TimePoint now) {
  if (now <= now_) return;
  const Factor f = Decay(Elapsed(now_, now));
  absl::int128 area = 0;
  if (f.halvings < 64) {
    const absl::int128 old = AreaQ32();
    const absl::uint128 size = absl::uint128(old < 0 ? -old : old);
    const auto whole = absl::Uint128Low64(size >> 32);
    const auto fraction = absl::Uint128Low64(size) & 0xffffffffu;
    // Truncated towards 0, so that use cannot get stuck above 0.
    const int shift = static_cast<int>(f.halvings);
    const absl::uint128 kept =
        ((absl::uint128(whole) * absl::uint128(f.mantissa)) >> (31 + shift)) +
        ((absl::uint128(fraction) * absl::uint128(f.mantissa)) >> (63 + shift));
    area = old < 0 ? -absl::int128(kept) : absl::int128(kept);
  }
  SetAreaQ32(area + Held(rate_, f));
  now_ = now;
}

inline void DecayMeter::Change(TimePoint at, GpuCount delta) {
  if (at >= now_) {
    Advance(at);
  } else {
    SetAreaQ32(AreaQ32() + Held(delta, Decay(Elapsed(at, now_))));
  }
  rate_ += delta;
}

}  // namespace tenure

#endif  // TENURE_USAGE_METER_H_
