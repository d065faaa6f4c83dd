// SPDX-License-Identifier: Apache-2.0
//
// Who works on a trial (plan_trial.h): one core, the lanes of a GPU block played by one core, or
// real threads. All of them compute the same.
//
//   EmulatedTeam    the loops of a block of `lanes` threads, lane after lane in an order that
//                   changes with every step: what depends on the order of lanes shows as another
//                   result.
//   ThreadedTeam    real threads and a barrier, to be run under ThreadSanitizer: a missing barrier
//                   shows as a data race.
#ifndef TENURE_PLAN_TEAMS_H_
#define TENURE_PLAN_TEAMS_H_

#include <barrier>
#include <vector>

#include "tenure/plan_world.h"

namespace tenure::plan {

struct SerialTeam {
  void Sync() {}
  template <class F>
  void ForEach(u32 b, u32 e, F f) {
    for (u32 i = b; i < e; ++i) f(i);
  }
  template <class F>
  u64 Min(u32 b, u32 e, F f) {
    u64 least = kNone;
    for (u32 i = b; i < e; ++i) {
      const u64 key = f(i);
      least = key < least ? key : least;
    }
    return least;
  }
  template <class F>
  u64 MinBelow(u32 b, u32 e, F f) {
    u64 least = kNone;
    for (u32 i = b; i < e; ++i) {
      const u64 key = f(i, least);
      least = key < least ? key : least;
    }
    return least;
  }
  template <class F>
  u32 Sum(u32 b, u32 e, F f) {
    u32 sum = 0;
    for (u32 i = b; i < e; ++i) sum += f(i);
    return sum;
  }
  template <class F>
  u64 Or(u32 b, u32 e, F f) {
    u64 bits = 0;
    for (u32 i = b; i < e; ++i) bits |= f(i);
    return bits;
  }
};

class EmulatedTeam {
 public:
  explicit EmulatedTeam(u32 lanes) : lanes_(lanes) {}
  void Sync() {}
  template <class F>
  void ForEach(u32 b, u32 e, F f) {
    Strided(b, e, f);
  }
  template <class F>
  u64 Min(u32 b, u32 e, F f) {
    u64 least = kNone;
    Strided(b, e, [&](u32 i) {
      const u64 key = f(i);
      least = key < least ? key : least;
    });
    return least;
  }
  template <class F>
  u64 MinBelow(u32 b, u32 e, F f) {
    u64 least = kNone;
    Strided(b, e, [&](u32 i) {
      const u64 key = f(i, least);
      least = key < least ? key : least;
    });
    return least;
  }
  template <class F>
  u32 Sum(u32 b, u32 e, F f) {
    u32 sum = 0;
    Strided(b, e, [&](u32 i) { sum += f(i); });
    return sum;
  }
  template <class F>
  u64 Or(u32 b, u32 e, F f) {
    u64 bits = 0;
    Strided(b, e, [&](u32 i) { bits |= f(i); });
    return bits;
  }

 private:
  template <class F>
  void Strided(u32 b, u32 e, const F& f) {
    ++step_;
    for (u32 i = 0; i < lanes_; ++i) {  // lanes_ is a power of two, so this is a permutation
      const u32 lane = (i * 7 + step_ * 13) % lanes_;
      for (u32 x = b + lane; x < e; x += lanes_) f(x);
    }
  }
  u32 lanes_, step_ = 0;
};

// One of `lanes` threads that share a ThreadedTeam::Shared. With `dropped` one kind of barrier is
// left out: a mutant that a race detector must catch.
class ThreadedTeam {
 public:
  enum class Dropped { kNothing, kStep, kSync };
  struct Shared {
    explicit Shared(u32 lanes) : barrier(lanes), slot(lanes) {}
    std::barrier<> barrier;
    std::vector<u64> slot;
  };
  ThreadedTeam(u32 lanes, u32 lane, Shared& shared, Dropped dropped = Dropped::kNothing)
      : lanes_(lanes), lane_(lane), shared_(shared), dropped_(dropped) {}

  void Sync() {
    if (dropped_ != Dropped::kSync) Wait();
  }
  template <class F>
  void ForEach(u32 b, u32 e, F f) {
    for (u32 i = b + lane_; i < e; i += lanes_) f(i);
    if (dropped_ != Dropped::kStep) Wait();
  }
  template <class F>
  u64 Min(u32 b, u32 e, F f) {
    u64 least = kNone;
    for (u32 i = b + lane_; i < e; i += lanes_) {
      const u64 key = f(i);
      least = key < least ? key : least;
    }
    return Reduce(least, [](u64 x, u64 y) { return x < y ? x : y; });
  }
  template <class F>
  u64 MinBelow(u32 b, u32 e, F f) {
    u64 least = kNone;
    for (u32 i = b + lane_; i < e; i += lanes_) {
      const u64 key = f(i, least);
      least = key < least ? key : least;
    }
    return Reduce(least, [](u64 x, u64 y) { return x < y ? x : y; });
  }
  template <class F>
  u32 Sum(u32 b, u32 e, F f) {
    u32 sum = 0;
    for (u32 i = b + lane_; i < e; i += lanes_) sum += f(i);
    return static_cast<u32>(Reduce(sum, [](u64 x, u64 y) { return x + y; }));
  }
  template <class F>
  u64 Or(u32 b, u32 e, F f) {
    u64 bits = 0;
    for (u32 i = b + lane_; i < e; i += lanes_) bits |= f(i);
    return Reduce(bits, [](u64 x, u64 y) { return x | y; });
  }

 private:
  void Wait() { shared_.barrier.arrive_and_wait(); }
  template <class Op>
  u64 Reduce(u64 value, Op op) {
    shared_.slot[lane_] = value;
    Wait();
    u64 all = shared_.slot[0];
    for (u32 i = 1; i < lanes_; ++i) all = op(all, shared_.slot[i]);
    Wait();
    return all;
  }
  u32 lanes_, lane_;
  Shared& shared_;
  Dropped dropped_;
};

}  // namespace tenure::plan

#endif  // TENURE_PLAN_TEAMS_H_
