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

#include <array>
#include <cstdint>
#include <span>
#include <vector>

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
  std::int64_t protected_us = 0;  // nobody may stop it before
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

}  // namespace tenure::sim

#endif  // TENURE_SIM_TIMELINE_H_
