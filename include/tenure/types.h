// SPDX-License-Identifier: Apache-2.0
//
// Identifiers, quantities and time. Every number that could be mistaken for another has its own
// type; only meaningful operators exist.
//
//   using namespace std::chrono_literals;
//   tenure::TimePoint start{0s};
//   tenure::GpuTime charge = tenure::GpuCount(8) * std::chrono::hours(2);  // 16 GPU-hours
//   if (tenure::Hours(charge) > 10.0) { ... }                              // for display only
//
// Units: time is integer microseconds, GPU-time integer GPU-microseconds, fluid shares integer
// thousandths of a GPU. No floating point takes part in a decision. The clock has no `now()`: the
// library cannot read the wall clock, the caller passes the time.
#ifndef TENURE_TYPES_H_
#define TENURE_TYPES_H_

#include <chrono>
#include <compare>
#include <cstdint>
#include <functional>
#include <limits>
#include <ratio>

namespace tenure {

using Duration = std::chrono::duration<std::int64_t, std::micro>;

// A clock without `now()`. Its epoch is whatever the caller uses (Unix time, start of the trace).
struct SchedulerClock {
  using duration = Duration;
  using rep = Duration::rep;
  using period = Duration::period;
  using time_point = std::chrono::time_point<SchedulerClock, Duration>;
  static constexpr bool is_steady = true;
};
using TimePoint = SchedulerClock::time_point;

inline constexpr TimePoint kNever = TimePoint(Duration::max());
inline constexpr Duration kDefaultLookback = std::chrono::hours(24 * 7);

// Limits checked at the API so that no sum below can overflow 63 bits:
// kMaxClusterGpus * kMaxLookback = 5.4e18 GPU-us.
inline constexpr std::int64_t kMaxClusterGpus = std::int64_t{1} << 21;
inline constexpr Duration kMaxLookback = std::chrono::hours(24 * 30);
// Times outside [-kTimeLimit, kTimeLimit] (73,000 years) are refused, so a difference of two cannot
// overflow.
inline constexpr Duration kTimeLimit = Duration(std::int64_t{1} << 61);

// An identifier: ordered and hashable, no arithmetic.
template <class Tag, class Rep>
class Id {
 public:
  using rep = Rep;
  constexpr Id() = default;
  constexpr explicit Id(Rep value) : value_(value) {}
  constexpr Rep value() const { return value_; }
  friend constexpr auto operator<=>(Id, Id) = default;
  template <typename H>
  friend H AbslHashValue(H h, Id id) {
    return H::combine(std::move(h), id.value_);
  }

 private:
  Rep value_ = 0;
};

using NodeId = Id<struct NodeIdTag, std::uint32_t>;
using DomainId = Id<struct DomainIdTag, std::uint32_t>;
using GpuTypeId = Id<struct GpuTypeIdTag, std::uint16_t>;
using AllocationId = Id<struct AllocationIdTag, std::uint32_t>;
using WorkloadId = Id<struct WorkloadIdTag, std::uint64_t>;
using UserId = Id<struct UserIdTag, std::uint32_t>;
inline constexpr UserId kNoUser{0xffffffffu};
// Number of the placement of a workload, 1 for the first. (WorkloadId, RunNumber) names a run.
using RunNumber = Id<struct RunNumberTag, std::uint32_t>;

inline constexpr AllocationId kRootAllocation{0};
inline constexpr DomainId kRootDomain{0};
inline constexpr GpuTypeId kAnyGpuType{std::numeric_limits<std::uint16_t>::max()};

// A signed amount of something that adds up.
template <class Tag>
class Quantity {
 public:
  using rep = std::int64_t;
  constexpr Quantity() = default;
  constexpr explicit Quantity(rep value) : value_(value) {}
  constexpr rep value() const { return value_; }
  friend constexpr auto operator<=>(Quantity, Quantity) = default;
  constexpr Quantity operator-() const { return Quantity(-value_); }
  constexpr Quantity& operator+=(Quantity o) { return value_ += o.value_, *this; }
  constexpr Quantity& operator-=(Quantity o) { return value_ -= o.value_, *this; }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return a += b; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return a -= b; }
  static constexpr Quantity Max() { return Quantity(std::numeric_limits<rep>::max()); }
  template <typename H>
  friend H AbslHashValue(H h, Quantity q) {
    return H::combine(std::move(h), q.value_);
  }

 private:
  rep value_ = 0;
};

using GpuCount = Quantity<struct GpuCountTag>;  // whole GPUs
using MilliGpu = Quantity<struct MilliGpuTag>;  // thousandths of a GPU (fluid shares)
using GpuTime = Quantity<struct GpuTimeTag>;    // GPU-microseconds

constexpr GpuTime operator*(GpuCount g, Duration d) { return GpuTime(g.value() * d.count()); }
constexpr GpuTime operator*(Duration d, GpuCount g) { return g * d; }
constexpr MilliGpu ToMilli(GpuCount g) { return MilliGpu(g.value() * 1000); }

// GPU-hours and hours, for display and reports; never used in a decision.
constexpr double Hours(GpuTime t) { return static_cast<double>(t.value()) / 3.6e9; }
constexpr double Hours(Duration d) { return static_cast<double>(d.count()) / 3.6e9; }
constexpr double Gpus(MilliGpu m) { return static_cast<double>(m.value()) / 1000.0; }

// Weight of an allocation among its siblings: finite and >= 0 (checked where it enters a tree).
// Only ratios between siblings matter; 0 means "unfunded work only".
struct Weight {
  double value = 1.0;
  friend constexpr bool operator==(Weight, Weight) = default;
};

}  // namespace tenure

template <class Tag, class Rep>
struct std::hash<tenure::Id<Tag, Rep>> {
  std::size_t operator()(tenure::Id<Tag, Rep> id) const noexcept {
    return std::hash<Rep>()(id.value());
  }
};

#endif  // TENURE_TYPES_H_
