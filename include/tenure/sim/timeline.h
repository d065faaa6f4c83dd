// SPDX-License-Identifier: Apache-2.0
//
// What ran where and when in a simulation, for pictures and for questions afterwards.
//
//   tenure::sim::Timeline timeline;
//   options.timeline = &timeline;
//   tenure::sim::Simulate(world, "budget", {}, options);
//   for (const tenure::sim::RunRow& run : timeline.runs) Draw(run, timeline.Nodes(run));
#ifndef TENURE_SIM_TIMELINE_H_
#define TENURE_SIM_TIMELINE_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "tenure/sim/workload.h"
#include "tenure/types.h"

namespace tenure::sim {

enum class RunEnd : std::uint32_t {
  kOpen,       // runs at the end of the simulation
  kFinished,   // its work is done
  kStopped,    // by the scheduler, for another
  kSuspended,  // the same while it was idle
  kLost,       // with its host
};
inline constexpr std::array<const char*, 5> kRunEndNames = {"open", "finished", "stopped",
                                                            "suspended", "lost"};

// One run of a job. Times in microseconds since the start of the trace. Fixed-width fields only, as
// JobRow.
struct RunRow {
  std::int64_t start_us = 0;
  std::int64_t end_us = 0;        // of the measured time, if it runs on
  std::int64_t protected_us = 0;  // nobody may stop it before, unless it is a session seen idle
  std::uint32_t job = 0;          // index into World::jobs
  std::uint32_t end = 0;          // RunEnd
  std::uint32_t first_node = 0;   // into Timeline::nodes, as many as the job has nodes
  std::uint32_t beneficiary = 0;  // job for which it was stopped + 1; 0: none
};
static_assert(sizeof(RunRow) == 40);

// A start promised to a gang.
struct PromiseRow {
  std::int64_t made_us = 0;
  std::int64_t start_by_us = 0;
  std::uint32_t job = 0;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(PromiseRow) == 24);

// Grows by one row a run and one number a node of it.
struct Timeline {
  std::vector<RunRow> runs;  // by start
  std::vector<std::uint32_t> nodes;
  std::vector<PromiseRow> promises;

  std::span<const std::uint32_t> Nodes(const RunRow& run, std::int32_t count) const {
    return std::span(nodes).subspan(run.first_node, static_cast<std::size_t>(count));
  }
};

// Writes a timeline as a simulation goes on; does nothing without one. O(1) amortised a call, and
// O(k) for the k nodes of a start.
class TimelineRecorder {
 public:
  // Nobody is protected longer than `bound` (0: as long as declared); `end` ends the simulation.
  // `timeline`, which may be null, and `world` must outlive the recorder.
  TimelineRecorder(Timeline* timeline, const World& world, Duration bound, Duration end)
      : timeline_(timeline), world_(world), bound_(bound), end_(end) {
    if (timeline_ != nullptr) last_.resize(world.jobs.size());
  }

  void Started(std::uint32_t job, std::span<const NodeId> nodes, TimePoint now) {
    if (timeline_ == nullptr) return;
    const Duration minimum(world_.jobs[job].minimum_us);
    RunRow run;
    run.start_us = now.time_since_epoch().count();
    run.end_us = end_.count();
    run.protected_us =
        run.start_us + (bound_ > Duration(0) ? std::min(bound_, minimum) : minimum).count();
    run.job = job;
    run.first_node = static_cast<std::uint32_t>(timeline_->nodes.size());
    for (NodeId n : nodes) timeline_->nodes.push_back(n.value());
    last_[job].row = static_cast<std::uint32_t>(timeline_->runs.size());
    timeline_->runs.push_back(run);
  }

  // `beneficiary` as in RunRow; the run ends with a later call of Ended.
  void StopDecided(std::uint32_t job, std::uint32_t beneficiary) {
    if (timeline_ != nullptr) last_[job].beneficiary = beneficiary;
  }

  void Ended(std::uint32_t job, RunEnd end, TimePoint now) {
    if (timeline_ == nullptr) return;
    RunRow& run = timeline_->runs[last_[job].row];
    run.end_us = now.time_since_epoch().count();
    run.end = static_cast<std::uint32_t>(end);
    if (end == RunEnd::kStopped || end == RunEnd::kSuspended) {
      run.beneficiary = last_[job].beneficiary;
    }
  }

  void Promised(std::uint32_t job, TimePoint now, TimePoint start_by) {
    if (timeline_ == nullptr) return;
    timeline_->promises.push_back(
        {now.time_since_epoch().count(), start_by.time_since_epoch().count(), job, 0});
  }

 private:
  struct LastRun {
    std::uint32_t row = 0;  // of Timeline::runs
    std::uint32_t beneficiary = 0;
  };

  Timeline* timeline_;
  const World& world_;
  Duration bound_, end_;
  std::vector<LastRun> last_;  // by job
};

}  // namespace tenure::sim

#endif  // TENURE_SIM_TIMELINE_H_
