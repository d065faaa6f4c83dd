// SPDX-License-Identifier: Apache-2.0
//
// What a GPU of each type costs: an hour of the largest GPU is not an hour of the smallest.
//
//   tenure::ChargeRates rates;
//   rates.Set(l4, 250, now);            // from now on: a quarter of a standard GPU
//   rates.At(l4, now);                  // 250
//
// Rates are in thousandths of a standard GPU, 1000 unless set; so GPUs x rate is a MilliGpu, what
// entitlements and fluid shares are measured in. A change counts from its date on: the dates are
// kept, so that what is reported late is charged at the rates of its own time. Copyable,
// thread-compatible. O(changes) where a date is given.
#ifndef TENURE_CHARGE_RATES_H_
#define TENURE_CHARGE_RATES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tenure/types.h"

namespace tenure {

inline constexpr std::int32_t kStandardRate = 1000;
inline constexpr std::int32_t kMaxChargeRate = 1'000'000;

class ChargeRates {
 public:
  struct Change {
    GpuTypeId type;
    TimePoint at;  // from then on
    std::int32_t from = kStandardRate, to = kStandardRate;
    template <class Archive>
    void Serialize(Archive& ar) {
      ar(type, at, from, to);
    }
  };

  // True if no rate was ever set to anything else than the standard.
  bool standard() const { return rates_.empty(); }
  std::int32_t rate(GpuTypeId type) const {
    return type.value() < rates_.size() ? rates_[type.value()] : kStandardRate;
  }
  // In force at `at`.
  std::int32_t At(GpuTypeId type, TimePoint at) const {
    std::int32_t result = rate(type);
    for (auto c = changes_.rbegin(); c != changes_.rend() && c->at > at; ++c) {
      if (c->type == type) result = c->from;
    }
    return result;
  }
  // `now` must not be earlier than that of any call before. The rates of times before `keep` may be
  // forgotten.
  void Set(GpuTypeId type, std::int32_t rate, TimePoint now, TimePoint keep) {
    if (rate == this->rate(type)) return;
    changes_.erase(std::remove_if(changes_.begin(), changes_.end(),
                                  [&](const Change& c) { return c.at <= keep; }),
                   changes_.end());
    changes_.push_back({type, now, this->rate(type), rate});
    if (type.value() >= rates_.size()) rates_.resize(type.value() + std::size_t{1}, kStandardRate);
    rates_[type.value()] = rate;
  }
  // By date.
  const std::vector<Change>& changes() const { return changes_; }

  template <class Archive>
  void Serialize(Archive& ar) {
    ar(rates_, changes_);
  }

 private:
  std::vector<std::int32_t> rates_;  // by type; standard beyond
  std::vector<Change> changes_;
};

}  // namespace tenure

#endif  // TENURE_CHARGE_RATES_H_
