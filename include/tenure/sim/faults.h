// SPDX-License-Identifier: Apache-2.0
//
// What breaks in a simulated cluster, and when.
//
//   tenure::sim::SimOptions options;
//   options.faults.mean_uptime = std::chrono::hours(24 * 60);  // of every host
//   options.faults.maintenance = {{.first_node = 0, .nodes = 16,
//                                  .begin = std::chrono::hours(240),
//                                  .end = std::chrono::hours(246)}};
//
// A host that breaks either fails (down at once, its runs are lost) or becomes unhealthy: it takes
// nothing new and has to be empty before it is repaired. While somebody's run keeps it occupied it
// waits; after a while a person negotiates with the owners, who save what they can, or the host
// fails by itself and the runs are lost. A maintenance window is announced: a scheduler that plans
// ahead keeps the hosts in use until then, for any other they drain from the announcement on;
// whoever is left when it begins is sent away.
//
// Deterministic: the numbers of a host come from a stream of its own, in the order of its faults,
// so that two policies meet the same times of work, kinds of fault and times of repair. Times
// between faults and of repair are exponential.
#ifndef TENURE_SIM_FAULTS_H_
#define TENURE_SIM_FAULTS_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tenure/cluster.h"
#include "tenure/sim/random.h"
#include "tenure/sim/workload.h"
#include "tenure/types.h"

namespace tenure::sim {

// Hosts [first_node, first_node + nodes) are down in [begin, end), which is announced `announced`
// before.
struct MaintenanceWindow {
  std::int32_t first_node = 0;
  std::int32_t nodes = 0;
  Duration begin{0};
  Duration end{0};
  Duration announced = std::chrono::hours(12);
};

struct FaultOptions {
  Duration mean_uptime{0};           // of a host, 0: none breaks; else >= 1 min
  std::int64_t hard_permille = 300;  // of the faults that take the host down at once
  Duration mean_unhealthy = std::chrono::hours(24);  // until an unhealthy host fails by itself
  Duration mean_repair = std::chrono::hours(8);      // of an empty host
  // An unhealthy host occupied for so long needs a person, unless the scheduler bounds how long
  // that can last; then only after the bound.
  Duration negotiate_after = std::chrono::hours(4);
  // Part of the attempts to resume a stopped run that fail, in [0, 900]: the run tries again and
  // spends its restart overhead once more.
  std::int64_t failed_resume_permille = 0;
  std::uint64_t seed = 1;
  std::vector<MaintenanceWindow> maintenance = {};
};

// Maintenance of one rack (without racks: one host) after the other, each for `length`, the next as
// soon as one is done.
inline std::vector<MaintenanceWindow> RollingMaintenance(const ClusterSpec& cluster, Duration begin,
                                                         Duration length, Duration announced) {
  std::vector<MaintenanceWindow> windows;
  const std::int32_t rack = std::max(1, cluster.nodes_per_rack);
  for (std::int32_t first = 0; first < cluster.nodes; first += rack) {
    windows.push_back(
        {first, std::min(rack, cluster.nodes - first), begin, begin + length, announced});
    begin += length;
  }
  return windows;
}

// InvalidArgument naming the option and its value.
inline absl::Status CheckFaults(const FaultOptions& o, const ClusterSpec& cluster) {
  constexpr Duration kLongest = std::chrono::hours(24 * 36525);
  const auto bad = [](const char* option, std::int64_t value, const char* rule) {
    return absl::InvalidArgumentError(absl::StrCat(option, " is ", value, ", must be ", rule));
  };
  const auto within = [&](Duration d) { return d >= Duration(0) && d <= kLongest; };
  if (!within(o.mean_uptime) ||
      (o.mean_uptime > Duration(0) && o.mean_uptime < std::chrono::minutes(1))) {
    return bad("mean_uptime", o.mean_uptime.count(), "0 us or from a minute to 100 years");
  }
  const std::pair<const char*, Duration> durations[] = {{"mean_unhealthy", o.mean_unhealthy},
                                                        {"mean_repair", o.mean_repair},
                                                        {"negotiate_after", o.negotiate_after}};
  for (const auto& [name, d] : durations) {
    if (!within(d)) return bad(name, d.count(), "from 0 us to 100 years");
  }
  if (o.hard_permille < 0 || o.hard_permille > 1000) {
    return bad("hard_permille", o.hard_permille, "in [0, 1000]");
  }
  if (o.failed_resume_permille < 0 || o.failed_resume_permille > 900) {
    return bad("failed_resume_permille", o.failed_resume_permille, "in [0, 900]");
  }
  for (const MaintenanceWindow& w : o.maintenance) {
    if (w.first_node < 0 || w.nodes < 1 || w.first_node > cluster.nodes - w.nodes) {
      return absl::InvalidArgumentError(absl::StrCat("maintenance of ", w.nodes,
                                                     " nodes from node ", w.first_node, " on, of ",
                                                     cluster.nodes));
    }
    if (!within(w.begin) || !within(w.end) || w.begin >= w.end || !within(w.announced)) {
      return absl::InvalidArgumentError(absl::StrCat("maintenance in [", w.begin.count(), ", ",
                                                     w.end.count(), ") us, announced ",
                                                     w.announced.count(), " us before"));
    }
  }
  return absl::OkStatus();
}

// One fault of a host.
struct Fault {
  Duration uptime;     // it comes so long after the host came up
  bool hard;           // the host is down at once
  Duration unhealthy;  // otherwise it fails by itself after this
  Duration repair;
};

// The random part: what comes next, independent of what the scheduler does.
class FaultModel {
 public:
  FaultModel(const FaultOptions& options, std::int32_t nodes) : options_(options) {
    if (options.mean_uptime == Duration(0)) return;
    for (std::int32_t i = 0; i < nodes; ++i) {
      streams_.emplace_back(options.seed, 1 + static_cast<std::uint64_t>(i));
    }
  }

  // Whether hosts break at all; Next is only for models in which they do.
  bool breaks() const { return !streams_.empty(); }

  Fault Next(NodeId node) {
    Rng& rng = streams_[node.value()];
    Fault f;
    f.uptime = std::max(Duration(1), rng.Exponential(options_.mean_uptime));
    f.hard = rng.Chance(options_.hard_permille, 1000);
    f.unhealthy = rng.Exponential(options_.mean_unhealthy);
    f.repair = rng.Exponential(options_.mean_repair);
    return f;
  }

  // How many attempts fail before run number `run` of job `job` resumes.
  std::int64_t FailedResumes(std::uint32_t job, std::uint32_t run) const {
    if (options_.failed_resume_permille == 0) return 0;
    Rng rng(~options_.seed, (std::uint64_t{job} + 1) << 32 | run);
    std::int64_t n = 0;
    while (rng.Chance(options_.failed_resume_permille, 1000)) ++n;
    return n;
  }

 private:
  FaultOptions options_;
  std::vector<Rng> streams_;  // by node
};

// A change of health that has to be carried out.
struct HostChange {
  NodeId node;
  NodeHealth health = NodeHealth::kUp;
  bool notice = false;            // kDown: runs still there are asked to leave, by a person
  bool repair = false;            // work on the host begins
  std::optional<Duration> drain;  // it was unhealthy for so long before it was empty or down
  struct Window {
    TimePoint from, until;
  };
  std::optional<Window> announced;  // maintenance; `health` is as before
};

// The hosts of a cluster, all healthy at time 0, and their next changes. The caller applies each
// change and says which unhealthy hosts are empty. O(log N) a change for N hosts.
class Hosts {
 public:
  // A person is called after an unhealthy host was occupied for `patience`. `planned`: announced
  // maintenance is reported as such; otherwise hosts drain then.
  Hosts(const FaultOptions& options, const ClusterSpec& cluster, Duration patience,
        bool planned = false)
      : model_(options, cluster.nodes),
        gpus_per_node_(cluster.gpus_per_node),
        patience_(patience),
        planned_(planned),
        healthy_(cluster.gpus()),
        usable_(cluster.gpus()) {
    if (!model_.breaks() && options.maintenance.empty()) return;
    hosts_.resize(static_cast<std::size_t>(cluster.nodes));
    if (model_.breaks()) {
      for (std::uint32_t i = 0; i < hosts_.size(); ++i) ScheduleFault(NodeId(i), TimePoint());
    }
    for (const MaintenanceWindow& w : options.maintenance) {
      for (std::int32_t i = 0; i < w.nodes; ++i) {
        const NodeId node(static_cast<std::uint32_t>(w.first_node + i));
        const TimePoint begin(w.begin), end(w.end);
        const TimePoint told = std::max(TimePoint(), begin - w.announced);
        events_.push({told, Kind::kAnnounced, node, 0, begin, end});
        events_.push({begin, Kind::kMaintenance, node, 0, begin, end});
      }
    }
  }

  // False if nothing ever changes.
  bool active() const { return !hosts_.empty(); }
  // Of the next change that time alone brings, kNever if there is none.
  TimePoint next() const { return events_.empty() ? kNever : events_.top().time; }

  GpuCount healthy() const { return GpuCount(healthy_); }  // of hosts that take work
  GpuCount usable() const { return GpuCount(usable_); }    // of hosts that are not down
  // Hosts that wait to be empty, in the order in which they became unhealthy.
  const std::vector<NodeId>& unhealthy() const { return unhealthy_; }

  // The change that is due at next(); nothing if it is out of date.
  std::optional<HostChange> Step() {
    const Event e = events_.top();
    events_.pop();
    Host& h = hosts_[e.node.value()];
    if (e.kind != Kind::kAnnounced && e.kind != Kind::kMaintenance && e.epoch != h.epoch) {
      return std::nullopt;
    }
    switch (e.kind) {
      case Kind::kBreaks:
        if (h.fault.hard) return BeginRepair(e.node, e.time, false);
        ++h.epoch;
        h.unhealthy = true;
        h.since = e.time;
        unhealthy_.push_back(e.node);
        events_.push({e.time + h.fault.unhealthy, Kind::kDies, e.node, h.epoch, {}, {}});
        events_.push({e.time + patience_, Kind::kNegotiated, e.node, h.epoch, {}, {}});
        return Become(e.node, NodeHealth::kDraining);
      case Kind::kDies:
        return BeginRepair(e.node, e.time, false);
      case Kind::kNegotiated:
        return BeginRepair(e.node, e.time, true);
      case Kind::kAnnounced:
        if (planned_) {
          HostChange change;
          change.node = e.node;
          change.health = h.health;
          change.announced = {e.from, e.until};
          return change;
        }
        h.announced = std::max(h.announced, e.until);
        if (h.health == NodeHealth::kUp) return Become(e.node, NodeHealth::kDraining);
        return std::nullopt;
      case Kind::kMaintenance: {
        HostChange change = GoDown(e.node, e.time);
        change.notice = true;
        h.down_until = std::max(h.down_until, e.until);
        events_.push({h.down_until, Kind::kReady, e.node, h.epoch, {}, {}});
        return change;
      }
      case Kind::kReady:
        ++h.epoch;
        if (model_.breaks()) ScheduleFault(e.node, e.time);
        return Become(e.node, h.announced > e.time ? NodeHealth::kDraining : NodeHealth::kUp);
    }
    return std::nullopt;
  }

  // The unhealthy host `node` is empty: its repair begins.
  HostChange Emptied(NodeId node, TimePoint now) { return BeginRepair(node, now, false); }

 private:
  enum class Kind : std::uint8_t {
    kReady,  // repaired, or the maintenance is over
    kAnnounced,
    kMaintenance,
    kBreaks,
    kDies,
    kNegotiated,
  };
  struct Host {
    NodeHealth health = NodeHealth::kUp;
    bool unhealthy = false;
    std::uint32_t epoch = 0;  // events of an earlier one are out of date
    Fault fault{};
    TimePoint since{};       // unhealthy since
    TimePoint announced{};   // end of the last window announced
    TimePoint down_until{};  // end of the last window begun
  };
  struct Event {
    TimePoint time;
    Kind kind;
    NodeId node;
    std::uint32_t epoch;
    TimePoint from, until;  // of a window
    // For a min-queue.
    friend bool operator<(const Event& a, const Event& b) {
      if (a.time != b.time) return a.time > b.time;
      if (a.kind != b.kind) return a.kind > b.kind;
      if (a.node != b.node) return a.node > b.node;
      if (a.epoch != b.epoch) return a.epoch > b.epoch;
      return std::pair(a.from, a.until) > std::pair(b.from, b.until);
    }
  };

  void ScheduleFault(NodeId node, TimePoint now) {
    Host& h = hosts_[node.value()];
    h.fault = model_.Next(node);
    events_.push({now + h.fault.uptime, Kind::kBreaks, node, h.epoch, {}, {}});
  }

  HostChange Become(NodeId node, NodeHealth health) {
    Host& h = hosts_[node.value()];
    healthy_ += gpus_per_node_ * ((health == NodeHealth::kUp) - (h.health == NodeHealth::kUp));
    usable_ += gpus_per_node_ * ((h.health == NodeHealth::kDown) - (health == NodeHealth::kDown));
    h.health = health;
    HostChange change;
    change.node = node;
    change.health = health;
    return change;
  }

  HostChange GoDown(NodeId node, TimePoint now) {
    Host& h = hosts_[node.value()];
    ++h.epoch;
    const bool was_down = h.health == NodeHealth::kDown;
    HostChange change = Become(node, NodeHealth::kDown);
    change.repair = !was_down;
    if (h.unhealthy) {
      h.unhealthy = false;
      change.drain = now - h.since;
      std::erase(unhealthy_, node);
    }
    return change;
  }

  HostChange BeginRepair(NodeId node, TimePoint now, bool notice) {
    HostChange change = GoDown(node, now);
    change.notice = notice;
    const Host& h = hosts_[node.value()];
    events_.push({now + h.fault.repair, Kind::kReady, node, h.epoch, {}, {}});
    return change;
  }

  FaultModel model_;
  std::int64_t gpus_per_node_;
  Duration patience_;
  bool planned_;
  std::int64_t healthy_, usable_;
  std::vector<Host> hosts_;
  std::vector<NodeId> unhealthy_;
  std::priority_queue<Event> events_;
};

}  // namespace tenure::sim

#endif  // TENURE_SIM_FAULTS_H_
