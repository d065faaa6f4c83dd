// SPDX-License-Identifier: Apache-2.0
//
// The canonical workload table: one row a job, what a generator or a trace importer produces and
// what the simulator replays. A POD with fixed-width fields only, so that a numpy structured array
// of the same layout is passed without copying.
//
//   tenure::sim::World world = tenure::sim::GenerateInstitute({.load = 1.3, .seed = 1});
//   world.jobs[0].runtime_us;  // true runtime, which the scheduler never sees
#ifndef TENURE_SIM_WORKLOAD_H_
#define TENURE_SIM_WORKLOAD_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tenure/contract.h"
#include "tenure/types.h"

namespace tenure::sim {

// Flags of a job row.
enum JobFlags : std::uint32_t {
  kResumable = 1u << 0,           // may be stopped and continued from its last checkpoint
  kIdle = 1u << 1,                // an interactive session that uses no GPU (a hoard)
  kCheckpointOnNotice = 1u << 2,  // saves its work within the grace of a stop
};

// One job. Times in microseconds since the start of the trace. `leaf` indexes World::leaves.
struct JobRow {
  std::int64_t submit_us = 0;
  std::int64_t runtime_us = 0;     // productive time it needs, without restarts, > 0
  std::int64_t minimum_us = 0;     // declared minimum runtime, 0 = unfunded
  std::int64_t limit_us = 0;       // requested wall time (baselines backfill with it), 0 = none
  std::int64_t checkpoint_us = 0;  // interval between checkpoints, 0 = never writes one
  std::int64_t restart_us = 0;     // overhead of a run that continues earlier work
  std::int64_t patience_us = 0;    // withdrawn if not started by then, 0 = waits for ever
  std::int32_t leaf = 0;
  std::int32_t user = 0;
  std::int32_t nodes = 1;
  std::int32_t gpus_per_node = 1;
  std::int32_t priority = 0;
  std::uint32_t workload_class = 0;  // WorkloadClass
  std::uint32_t flags = kResumable;  // JobFlags
  std::uint32_t source_row = 0;      // row of the file it came from (0 = generated)

  std::int64_t gpus() const { return std::int64_t{nodes} * gpus_per_node; }
  bool funded() const { return minimum_us > 0; }
  WorkloadClass klass() const { return static_cast<WorkloadClass>(workload_class); }
};
static_assert(sizeof(JobRow) == 88);

// A leaf of the budget tree: `path` is "program/project", components separated by '/'.
// `weights` has one weight per component of the path (siblings must agree on inner weights).
struct LeafSpec {
  std::string path;
  std::vector<double> weights;
};

struct ClusterSpec {
  std::int32_t nodes = 128;
  std::int32_t gpus_per_node = 8;
  std::int32_t nodes_per_rack = 16;  // 0 = no racks
  std::int64_t gpus() const { return std::int64_t{nodes} * gpus_per_node; }
};

struct World {
  ClusterSpec cluster;
  std::vector<LeafSpec> leaves;
  std::vector<JobRow> jobs;              // sorted by submit_us (stable)
  std::vector<std::string> assumptions;  // what the source did not say and was filled in
};

// Times and durations of a world are at most this, so that no sum of a few overflows.
inline constexpr Duration kLongestTrace = kTimeLimit / 16;

// InvalidArgument naming the row and the field.
inline absl::Status CheckWorld(const World& world) {
  if (world.cluster.nodes <= 0 || world.cluster.gpus_per_node <= 0 ||
      world.cluster.gpus() > kMaxClusterGpus) {
    return absl::InvalidArgumentError(absl::StrCat("cluster of ", world.cluster.nodes, " x ",
                                                   world.cluster.gpus_per_node, " GPUs"));
  }
  if (world.leaves.empty()) return absl::InvalidArgumentError("no leaf allocation");
  for (std::size_t i = 0; i < world.jobs.size(); ++i) {
    const JobRow& job = world.jobs[i];
    const auto bad = [&](const char* field, std::int64_t value) {
      return absl::InvalidArgumentError(absl::StrCat("job ", i, ": ", field, " is ", value));
    };
    if (job.submit_us < 0) return bad("submit_us", job.submit_us);
    if (i > 0 && job.submit_us < world.jobs[i - 1].submit_us) {
      return absl::InvalidArgumentError(absl::StrCat("job ", i, ": not sorted by submit_us"));
    }
    if (job.runtime_us <= 0) return bad("runtime_us", job.runtime_us);
    if (job.minimum_us < 0) return bad("minimum_us", job.minimum_us);
    if (job.limit_us < 0) return bad("limit_us", job.limit_us);
    if (job.checkpoint_us < 0) return bad("checkpoint_us", job.checkpoint_us);
    if (job.restart_us < 0) return bad("restart_us", job.restart_us);
    if (job.patience_us < 0) return bad("patience_us", job.patience_us);
    for (const auto& [field, us] :
         {std::pair("submit_us", job.submit_us), std::pair("runtime_us", job.runtime_us),
          std::pair("minimum_us", job.minimum_us), std::pair("limit_us", job.limit_us),
          std::pair("checkpoint_us", job.checkpoint_us), std::pair("restart_us", job.restart_us),
          std::pair("patience_us", job.patience_us)}) {
      if (us > kLongestTrace.count()) return bad(field, us);
    }
    if (job.nodes <= 0) return bad("nodes", job.nodes);
    if (job.gpus_per_node <= 0) return bad("gpus_per_node", job.gpus_per_node);
    if (job.workload_class >= kWorkloadClasses) return bad("workload_class", job.workload_class);
    if (job.leaf < 0 || static_cast<std::size_t>(job.leaf) >= world.leaves.size()) {
      return bad("leaf", job.leaf);
    }
  }
  return absl::OkStatus();
}

}  // namespace tenure::sim

#endif  // TENURE_SIM_WORKLOAD_H_
