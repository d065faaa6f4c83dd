// SPDX-License-Identifier: Apache-2.0
//
// What is known of the jobs that are in the system, in memory that those who have left make room
// in.
//
//   LiveJobs<State> live(world.jobs.size());
//   live.Add(job).start = now;     // it arrives
//   live[job].start;
//   live.Remove(job);              // it is over
//
// One invariant: at any time as many states as there have ever been jobs in the system at once, and
// four bytes for each other job. So a long trace costs little more than a short one, and what the
// events touch lies close together. All O(1); no allocation once the largest number of jobs has
// been reached.
#ifndef TENURE_SIM_LIVE_JOBS_H_
#define TENURE_SIM_LIVE_JOBS_H_

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tenure::sim {

template <class State>
class LiveJobs {
 public:
  explicit LiveJobs(std::size_t jobs) : place_(jobs, kNone) {}

  std::size_t jobs() const { return place_.size(); }       // of the trace
  std::size_t capacity() const { return states_.size(); }  // most there have been at once
  bool contains(std::size_t job) const { return place_[job] != kNone; }

  // The job must not be contained. References to other states become invalid.
  State& Add(std::size_t job) {
    assert(!contains(job));
    if (free_.empty()) {
      place_[job] = static_cast<std::uint32_t>(states_.size());
      states_.emplace_back();
      return states_.back();
    }
    place_[job] = free_.back();
    free_.pop_back();
    return states_[place_[job]] = State();
  }
  void Remove(std::size_t job) {
    assert(contains(job));
    free_.push_back(place_[job]);
    place_[job] = kNone;
  }

  State& operator[](std::size_t job) {
    assert(contains(job));
    return states_[place_[job]];
  }
  const State& operator[](std::size_t job) const {
    assert(contains(job));
    return states_[place_[job]];
  }

 private:
  static constexpr std::uint32_t kNone = 0xffffffffu;

  std::vector<std::uint32_t> place_;  // by job: in states_
  std::vector<State> states_;
  std::vector<std::uint32_t> free_;  // places in states_
};

}  // namespace tenure::sim

#endif  // TENURE_SIM_LIVE_JOBS_H_
