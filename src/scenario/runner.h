// SPDX-License-Identifier: Apache-2.0
//
// Runs one case: sets the beginning up through the ordinary calls of the scheduler, plays the
// resource manager, feeds the timeline and checks the laws and the expectations.
#ifndef TENURE_SCENARIO_RUNNER_H_
#define TENURE_SCENARIO_RUNNER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/numeric/int128.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "scenario_case.h"
#include "tenure/any_scheduler.h"
#include "tenure/scenario.h"
#include "tenure/types.h"

namespace tenure::scenario {

// How a run differs from the plain one. Its decisions must not.
struct Variant {
  bool restore = false;       // snapshot, restore into a fresh scheduler after every instant
  std::uint64_t shuffle = 0;  // seed for the order of equal input; 0 = as in the file
  bool plain() const { return !restore && shuffle == 0; }
};

struct Outcome {
  std::int64_t checks = 0;
  std::vector<std::string> failures;
  std::vector<std::string> log;
};

class Runner {
 public:
  Runner(const Case& c, const ScenarioOptions& options, Variant variant)
      : case_(c),
        policy_(options.policy),
        file_(options.file),
        make_(options.make),
        max_instants_(options.max_instants),
        variant_(variant) {}

  // Throws BadScenario.
  Outcome Execute();

 private:
  enum class Phase { kNone, kWaiting, kStarting, kRunning, kStopping, kDone, kFailed, kCancelled };
  static const char* PhaseText(Phase phase);

  struct Job {
    JobEntry entry;
    AllocationId leaf;
    std::size_t submission = 0;  // in submissions_, once accepted
    Phase phase = Phase::kNone;
    bool idle = false;       // was reported idle
    bool cancelled = false;  // its owner cancelled it
    bool inferred = false;   // its end was inferred from a list
    RunNumber run{0};
    TimePoint decided{}, started{}, last_seen{};
    TimePoint submitted{}, first_start = kNever, last_start = kNever, ended = kNever;
    std::int64_t starts = 0, stops = 0;
    std::int64_t first_start_order = 0;
    Duration left = kNeverHappens;
    std::vector<NodeId> nodes;
    std::size_t segment = 0;             // of the current run
    std::optional<LossOutcome> outcome;  // of the last run that was stopped or lost

    bool OnNodes() const {
      return phase == Phase::kStarting || phase == Phase::kRunning || phase == Phase::kStopping;
    }
  };
  // Occupancy of one run as the resource manager saw it.
  struct Segment {
    AllocationId leaf;
    TimePoint begin{}, end = kNever;
    std::int64_t gpus = 0;
    GpuTypeId type;
    bool funded = false;
    std::size_t job = kNoJob;
  };
  static constexpr std::size_t kNoJob = ~std::size_t{0};

  enum class DueKind { kEnd = 0, kStopped = 1, kStarted = 2 };
  struct Due {
    TimePoint at;
    DueKind kind;
    std::uint64_t id;
    std::uint32_t run;
    friend auto operator<=>(const Due&, const Due&) = default;
  };
  enum class ChangeKind { kSubmitted, kStarted, kRequeued, kFailed, kEnded };
  // What the metrics need of a workload that was accepted. A later one may take its name or its id.
  struct Submission {
    WorkloadSpec spec;
    AllocationId leaf;
  };
  struct Change {
    TimePoint at;
    ChangeKind kind;
    std::size_t submission;
  };
  // Victims signalled for one workload and not gone yet.
  struct Signalled {
    std::int64_t pass = 0;
    TimePoint at{};
    std::set<std::uint64_t> victims;
  };

  struct RateChange {
    GpuTypeId type;
    TimePoint at{};  // from then on
    std::int32_t permille = kStandardRate;
  };
  struct Window {
    MaintenanceId id;
    std::set<NodeId> nodes;
    TimePoint from{}, until{};
  };

  struct Promised {
    TimePoint start_by{}, made{};
    std::set<NodeId> nodes;
    bool binding = true;
  };

  // --- Beginning
  absl::StatusOr<std::unique_ptr<AnyScheduler>> Make(const Parameters& parameters) const {
    return make_ ? make_(policy_, parameters) : MakeScheduler(policy_, parameters);
  }
  void BuildScheduler();
  void AddNodeEntry(const NodeEntry& entry, TimePoint now);
  DomainId Domain(const std::string& path);
  void LayOutHistory(TimePoint end);
  void OccupyFor(AllocationId leaf, Duration length, std::int64_t single_gpus);
  void Place(const JobEntry& entry);
  std::vector<std::pair<WorkloadId, NodeId>> FillFree(AllocationId leaf);
  void EndHelper(WorkloadId id);

  // --- Resource manager
  void Instant(TimePoint t, std::size_t& next_entry);
  void RunDue();
  void Do(const TimelineEntry& entry);
  void DoSubmit(const TimelineEntry& entry, const JobEntry& job);
  void DoList(const TimelineEntry& entry);
  void DoMaintenance(const TimelineEntry& entry);
  void DoRestore(const TimelineEntry& entry);
  void DoDecide(const TimelineEntry& entry);
  void RestoreFresh(int line);
  void Pass();
  void Apply(const Decisions& d);
  void ConfirmStart(Job& job, TimePoint at);
  void ConfirmStop(Job& job, TimePoint at);
  void EndRun(Job& job, TimePoint at, Phase phase);
  void LeaveNodes(Job& job, TimePoint at);
  Job& Keep(Job job);
  void Note(TimePoint at, ChangeKind kind, const Job& job);
  void AfterLoss(Job& job, LossOutcome outcome);
  // Calls the scheduler. `refused`: the status it must answer; a refused call may change nothing.
  bool Call(int line, const std::optional<absl::StatusCode>& refused, const std::string& what,
            const std::function<absl::Status()>& call);
  void MustBeOk(int line, const std::string& what, const absl::Status& status);

  // --- Checks
  void CheckStop(const Stop& stop, const std::set<std::uint64_t>& held);
  void CheckStart(const Start& start, std::span<const NodeId> nodes, const Job& job);
  void CheckPromise(const Promise& promise, std::span<const NodeId> nodes);
  void CheckLost(const std::string& name, NodeId id, NodeHealth health, const NodeReport& report);
  void CheckOverduePromises();
  void CheckVictims(const Decisions& d);
  void CheckBooks();
  absl::int128 Charged(GpuTypeId type, TimePoint begin, TimePoint end) const;
  void Expect(const YAML::Node& expect);
  void ExpectOne(const std::string& key, const YAML::Node& value);
  void ExpectMetrics(const YAML::Node& value);
  void ForEach(const YAML::Node& value,
               const std::function<void(const std::string&, const YAML::Node&)>& f);
  template <class T, class Parse>
  void Compare(const YAML::Node& want, T got, const std::string& what, const Parse& parse);
  void Check(bool ok, int line, const std::string& what);

  Job& JobOf(const YAML::Node& at, const std::string& name);
  Job* FindJob(WorkloadId id);
  AllocationId Team(const YAML::Node& at, const std::string& path) const;
  NodeId NodeOf(const YAML::Node& at, const std::string& name) const;
  const std::string& NodeName(NodeId id) const { return s_->cluster().node(id).name; }
  std::string NodeNames(std::span<const NodeId> nodes) const;
  std::string NameOf(WorkloadId id);
  TimePoint Now(const TimelineEntry& entry) const { return entry.now.value_or(now_); }
  void Log(const std::string& what);
  template <class T>
  void Shuffle(std::vector<T>& list) {
    if (variant_.shuffle == 0) return;
    for (std::size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[Random() % i]);
  }
  std::uint64_t Random();

  const Case& case_;
  const std::string policy_, file_;
  const SchedulerFactory make_;
  const std::int64_t max_instants_;
  const Variant variant_;
  Outcome out_;

  std::unique_ptr<AnyScheduler> s_;
  TimePoint now_{};
  int line_ = 0;
  bool set_up_ = false;
  std::map<std::string, AllocationId> teams_;
  std::map<std::string, DomainId> domains_;
  std::map<std::string, Job> jobs_;
  std::map<std::uint64_t, std::string> names_;  // of workload ids
  std::vector<std::int64_t> occupied_;          // by node
  std::vector<Segment> segments_;
  std::vector<RateChange> rates_;  // by time
  std::set<Due> due_;
  std::map<std::uint64_t, Signalled> signalled_;  // by beneficiary
  std::map<std::uint64_t, Promised> promised_;    // by workload, until it starts
  std::map<std::string, Window> windows_;         // of maintenance, by name
  TimePoint last_node_change_{Duration::min()};
  TimePoint wakeup_ = kNever;
  std::int64_t pass_ = 0, stops_ = 0, start_order_ = 0;
  std::set<std::string> stopped_;
  std::vector<Submission> submissions_;  // for the metrics
  std::vector<Change> changes_;          // to submissions_
  std::uint64_t helper_ = std::uint64_t{1} << 62;
  std::uint64_t random_ = 0;
};

}  // namespace tenure::scenario

#endif  // TENURE_SCENARIO_RUNNER_H_
