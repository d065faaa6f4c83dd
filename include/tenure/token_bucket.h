// SPDX-License-Identifier: Apache-2.0
//
// A budget that refills with time: at most `burst` tokens, `rate` new ones an hour.
//
//   tenure::TokenBucket bucket(12, 4);            // 12 an hour, at most 4 saved; full at first
//   if (bucket.Available(now) >= 2) bucket.Take(now, 2);
//
// Integers only: one token is 3.6e9 parts, and a microsecond brings `rate` of them, so nothing is
// rounded. Copyable, thread-compatible, constant size. A time before the latest known counts as
// that one.
#ifndef TENURE_TOKEN_BUCKET_H_
#define TENURE_TOKEN_BUCKET_H_

#include <algorithm>
#include <cstdint>
#include <limits>

#include "tenure/types.h"

namespace tenure {

class TokenBucket {
 public:
  static constexpr std::int64_t kMaxTokens = 1'000'000;  // of rate and burst

  // Rate 0: no limit; Available is the largest number and Take does nothing.
  explicit TokenBucket(std::int64_t rate = 0, std::int64_t burst = 0)
      : rate_(rate), burst_(burst), parts_(burst * kToken) {}

  bool limits() const { return rate_ > 0; }

  // Whole tokens at `now`.
  std::int64_t Available(TimePoint now) const {
    return limits() ? Parts(now) / kToken : std::numeric_limits<std::int64_t>::max();
  }
  // Precondition: n <= Available(now).
  void Take(TimePoint now, std::int64_t n) {
    if (!limits()) return;
    parts_ = Parts(now) - n * kToken;
    at_ = std::max(at_, now);
  }
  // When there is one token more than at `now`; kNever if it is full or has no limit.
  TimePoint NextToken(TimePoint now) const {
    if (!limits()) return kNever;
    const std::int64_t parts = Parts(now);
    if (parts == burst_ * kToken) return kNever;
    const std::int64_t missing = kToken - parts % kToken;
    return std::max(at_, now) + Duration((missing + rate_ - 1) / rate_);
  }

  // The level only: rate and burst are options.
  template <class Archive>
  void Serialize(Archive& ar) {
    ar(parts_, at_);
  }

 private:
  static constexpr std::int64_t kToken = 3'600'000'000;

  std::int64_t Parts(TimePoint now) const {
    const std::int64_t full = burst_ * kToken;
    if (now <= at_) return parts_;
    // Compared without a product or difference that could overflow.
    const Duration until_full((full - parts_ + rate_ - 1) / rate_);
    if (now - until_full >= at_) return full;
    return parts_ + rate_ * (now - at_).count();
  }

  std::int64_t rate_, burst_, parts_;
  TimePoint at_{-kTimeLimit};
};

}  // namespace tenure

#endif  // TENURE_TOKEN_BUCKET_H_
