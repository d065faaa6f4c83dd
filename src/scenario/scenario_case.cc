// SPDX-License-Identifier: Apache-2.0
#include "scenario_case.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "yaml.h"

namespace tenure::scenario {
namespace {

constexpr std::array<std::pair<const char*, absl::StatusCode>, 8> kCodes = {{
    {"invalid-argument", absl::StatusCode::kInvalidArgument},
    {"not-found", absl::StatusCode::kNotFound},
    {"already-exists", absl::StatusCode::kAlreadyExists},
    {"failed-precondition", absl::StatusCode::kFailedPrecondition},
    {"resource-exhausted", absl::StatusCode::kResourceExhausted},
    {"out-of-range", absl::StatusCode::kOutOfRange},
    {"unimplemented", absl::StatusCode::kUnimplemented},
    {"internal", absl::StatusCode::kInternal},
}};

const std::vector<std::string>& Actions() {
  static const auto* const kActions = new std::vector<std::string>{
      "submit",     "cancel",      "started",    "start_failed", "ended",
      "stopped",    "stop_failed", "checkpoint", "idle",         "resume_hint",
      "drain",      "up",          "fail",       "maintenance",  "cancel_maintenance",
      "add_node",   "add_team",    "weight",     "close",        "list",
      "decide",     "restore",     "make",       "move",         "boost",
      "charge_rate"};
  return *kActions;
}

constexpr int kMaxTreeDepth = 100;
constexpr std::size_t kMaxTeams = 2'000'000;
constexpr std::int64_t kMaxNameLength = 1 << 24;

// Numbers things by name in order of appearance, from 1.
class Numbering {
 public:
  std::uint64_t operator()(const std::string& name) {
    return numbers_.emplace(name, numbers_.size() + 1).first->second;
  }

 private:
  std::map<std::string, std::uint64_t> numbers_;
};

class Reader {
 public:
  explicit Reader(const YAML::Node& root) : root_(root) {}

  ScenarioFile Read() {
    if (!root_.IsMap()) Fail(root_, "a scenario is a map with cluster, tree and timeline");
    ScenarioFile file;
    const std::set<std::string> known = {
        "title",   "seen_at", "policies", "because", "options", "cluster",    "tree",     "used",
        "running", "health",  "timeline", "until",   "cases",   "pass_every", "shuffles", "notes"};
    CheckKeys(root_, known);
    const YAML::Node& root = root_;
    file.title = root["title"].IsDefined() ? ToText(root["title"]) : "";
    if (!root["cases"].IsDefined()) {
      file.cases.push_back(ReadCase("", YAML::Node(YAML::NodeType::Map)));
      return file;
    }
    if (!root["cases"].IsMap() || root["cases"].size() == 0) {
      Fail(root["cases"], "cases: expected a map of names to cases");
    }
    for (const auto& entry : root["cases"]) {
      if (!entry.second.IsMap()) Fail(entry.second, "a case is a map");
      CheckKeys(entry.second, known);
      file.cases.push_back(ReadCase(ToText(entry.first), entry.second));
    }
    return file;
  }

 private:
  static void CheckKeys(const YAML::Node& map, const std::set<std::string>& known) {
    for (const auto& entry : map) {
      if (known.contains(entry.first.Scalar())) continue;
      Fail(entry.first, absl::StrCat("no '", entry.first.Scalar(), "' here; there are ",
                                     absl::StrJoin(known, ", ")));
    }
  }

  // What the case says, else what the whole file says.
  YAML::Node Get(const YAML::Node& one, const char* key) const {
    const YAML::Node& root = root_;
    return one[key].IsDefined() ? one[key] : root[key];
  }

  Case ReadCase(const std::string& name, const YAML::Node& one) {
    Case c;
    c.name = name;
    ids_ = Numbering();
    users_ = Numbering();
    taken_.clear();
    if (const YAML::Node p = Get(one, "policies"); p.IsDefined()) {
      c.policies = ToNames(p);
      for (const std::string& policy : c.policies) {
        if (!IsPreset(policy)) Fail(p, absl::StrCat("no policy '", policy, "'"));
      }
      const YAML::Node because = Get(one, "because");
      if (!because.IsDefined()) Fail(p, "policies: say why in 'because'");
      c.because = ToText(because);
    }
    if (const YAML::Node o = Get(one, "options"); o.IsDefined()) ReadOptions(o, c);
    const YAML::Node cluster = Get(one, "cluster");
    if (!cluster.IsDefined() || !cluster.IsSequence()) Fail(one, "'cluster' must be a list");
    for (const YAML::Node& entry : cluster) ReadNodes(entry, c);
    const YAML::Node tree = Get(one, "tree");
    if (!tree.IsDefined()) Fail(one, "'tree' is missing");
    ReadTeams(tree, "", c);
    if (const YAML::Node used = Get(one, "used"); used.IsDefined()) {
      for (const auto& entry : used) {
        c.used.emplace_back(ToText(entry.first), ToGpuTime(entry.second));
      }
    }
    if (const YAML::Node running = Get(one, "running"); running.IsDefined()) {
      for (const YAML::Node& entry : running) {
        for (JobEntry& job : ReadJobs(entry, true)) c.running.push_back(std::move(job));
      }
      std::stable_sort(c.running.begin(), c.running.end(),
                       [](const JobEntry& a, const JobEntry& b) { return a.start < b.start; });
    }
    if (const YAML::Node health = Get(one, "health"); health.IsDefined()) {
      for (const auto& entry : health) {
        const std::string state = ToText(entry.second);
        if (state != "draining" && state != "down") Fail(entry.second, "draining or down");
        for (const std::string& node : ToNames(entry.first)) {
          c.health.emplace_back(node, state == "down" ? NodeHealth::kDown : NodeHealth::kDraining);
        }
      }
    }
    const YAML::Node timeline = Get(one, "timeline");
    if (!timeline.IsDefined() || !timeline.IsSequence()) Fail(one, "'timeline' must be a list");
    TimePoint at{};
    for (const YAML::Node& entry : timeline) {
      c.timeline.push_back(ReadEntry(entry, at));
      at = c.timeline.back().at;
    }
    c.until = at;
    if (const YAML::Node until = Get(one, "until"); until.IsDefined()) {
      c.until = TimePoint(ToDuration(until));
      if (c.until < at) Fail(until, "until lies before the end of the timeline");
    }
    if (const YAML::Node every = Get(one, "pass_every"); every.IsDefined()) {
      c.pass_every = ToDuration(every);
      if (c.pass_every <= Duration(0)) Fail(every, "pass_every must be positive");
    }
    if (const YAML::Node n = Get(one, "shuffles"); n.IsDefined()) {
      c.shuffles = static_cast<int>(std::clamp<std::int64_t>(ToInt(n), 0, 100'000));
    }
    return c;
  }

  static void ReadOptions(const YAML::Node& options, Case& c) {
    std::set<std::string> known, times;
    for (const char* policy : kPresetNames) {
      Preset preset = MakePreset(policy);
      for (const PolicyParameter& p : preset.Bind().Describe()) {
        known.insert(p.name);
        if (p.unit == "duration") times.insert(p.name);
      }
    }
    CheckKeys(options, known);
    for (const auto& entry : options) {
      const std::string& key = entry.first.Scalar();
      c.options[key] = times.contains(key) ? absl::StrCat(ToDuration(entry.second).count(), "us")
                                           : ToText(entry.second);
    }
  }

  void ReadNodes(const YAML::Node& entry, Case& c) {
    Fields f(entry, "node");
    NodeEntry node;
    node.gpus = ToInt(f.Require("gpus"));
    node.type = f.Text("type", "gpu");
    node.domain = f.Text("domain", "");
    for (const std::string& name : ToNames(f.Require("name"))) {
      node.name = name;
      c.nodes.push_back(node);
    }
    f.Finish();
  }

  // An alias can make a tree endless, or wider than memory.
  void ReadTeams(const YAML::Node& map, const std::string& parent, Case& c, int depth = 1) {
    if (!map.IsMap()) Fail(map, "tree: expected a map of names to weights");
    if (depth > kMaxTreeDepth) {
      Fail(map, absl::StrCat("tree: more than ", kMaxTreeDepth, " levels"));
    }
    for (const auto& entry : map) {
      TeamEntry team;
      std::vector<std::string> names = ToNames(entry.first);
      for (const std::string& name : names) {
        team.name = name;
        team.parent = parent;
        team.path = parent.empty() ? team.name : absl::StrCat(parent, "/", team.name);
        if (entry.second.IsScalar()) {
          team.weight = ToDouble(entry.second);
          c.teams.push_back(team);
          continue;
        }
        Fields f(entry.second, absl::StrCat("allocation ", team.path));
        team.weight = f.Has("weight") ? ToDouble(f.Get("weight")) : 1;
        c.teams.push_back(team);
        if (f.Has("children")) ReadTeams(f.Get("children"), team.path, c, depth + 1);
        f.Finish();
      }
      if (c.teams.size() > kMaxTeams) {
        Fail(entry.first, absl::StrCat("tree: more than ", kMaxTeams, " allocations"));
      }
    }
  }

  std::vector<JobEntry> ReadJobs(const YAML::Node& node, bool running) {
    if (!node.IsSequence()) return ReadJob(node, running);
    std::vector<JobEntry> jobs;
    for (const YAML::Node& item : node) {
      for (JobEntry& job : ReadJob(item, running)) jobs.push_back(std::move(job));
    }
    return jobs;
  }

  // One entry, which may name several workloads.
  std::vector<JobEntry> ReadJob(const YAML::Node& node, bool running) {
    Fields f(node, "workload");
    JobEntry job;
    job.line = LineOf(node);
    job.team = ToText(f.Require("team"));
    job.type = f.Text("type", "");
    WorkloadSpec& spec = job.spec;
    spec.gpus_per_node = GpuCount(f.Int("gpus", 1));
    if (f.Has("nodes")) {
      const std::int64_t nodes = ToInt(f.Get("nodes"));
      if (nodes < 0 || nodes > std::numeric_limits<std::uint32_t>::max()) {
        Fail(f.Get("nodes"), "nodes must be in [0, 2^32)");
      }
      spec.nodes = static_cast<std::uint32_t>(nodes);
    }
    spec.minimum = f.Time("minimum", Duration(0));
    spec.priority =
        static_cast<std::int32_t>(f.IntIn("priority", 0, std::numeric_limits<std::int32_t>::min(),
                                          std::numeric_limits<std::int32_t>::max()));
    spec.resumable = f.Bool("resumable", true);
    spec.restorable = f.Bool("restorable", false);
    spec.checkpoint_interval = f.Time("checkpoint", Duration(0));
    spec.restart_overhead = f.Time("restart", Duration(0));
    spec.user = UserId(static_cast<std::uint32_t>(users_(f.Text("user", ""))));
    if (f.Has("class")) spec.workload_class = ReadClass(f.Get("class"));
    if (f.Has("topology")) {
      const std::string rule = ToText(f.Get("topology"));
      if (rule != "required" && rule != "preferred") {
        Fail(f.Get("topology"), "topology is required or preferred");
      }
      if (rule == "required") spec.topology_rule = TopologyRule::kRequired;
    }
    if (f.Has("level")) {
      spec.topology_level = static_cast<std::uint8_t>(ToIntIn(f.Get("level"), 0, 255));
    }
    job.runtime = f.Time("runtime", kNeverHappens);
    job.start_takes = ReadDelay(f, "start_takes", Duration(0)).value_or(Duration(0));
    job.stop_takes = ReadDelay(f, "stop_takes", std::nullopt);
    job.keeps_work = f.Bool("keeps_work", true);
    std::vector<std::string> on;
    if (running) {
      job.start = TimePoint(f.Time("start", Duration(0)));
      if (job.start > TimePoint()) Fail(f.Get("start"), "running work starts at 0 or before");
      if (spec.gpus_per_node.value() < 1 || spec.gpus_per_node.value() > kMaxClusterGpus ||
          spec.nodes < 1 || spec.nodes > kMaxClusterGpus) {
        Fail(node, "running work has GPUs, and no more than a cluster");
      }
      if (f.Has("on")) on = ToNames(f.Get("on"));
    }
    std::vector<std::string> names = ToNames(f.Require("name"));
    const bool has_id = f.Has("id"), has_bytes = f.Has("bytes");
    if ((has_id || has_bytes) && names.size() != 1) Fail(node, "id and bytes are of one workload");
    std::vector<JobEntry> jobs;
    std::size_t next = 0;
    for (const std::string& name : names) {
      job.name = name;
      spec.name = has_bytes ? ToBytes(f.Get("bytes")) : name;
      if (f.Has("name_length")) {
        spec.name.assign(static_cast<std::size_t>(ToIntIn(f.Get("name_length"), 0, kMaxNameLength)),
                         'x');
      }
      spec.id = WorkloadId(has_id ? ToUnsigned(f.Get("id")) : ids_(name));
      job.on.clear();
      if (on.size() == 1 && spec.nodes == 1) {
        job.on = on;
      } else if (!on.empty()) {
        for (std::uint32_t i = 0; i < spec.nodes; ++i) {
          if (next >= on.size()) Fail(node, "on: fewer nodes than the workloads need");
          job.on.push_back(on[next++]);
        }
      }
      jobs.push_back(job);
    }
    f.Finish();
    return jobs;
  }

  static std::optional<Duration> ReadDelay(Fields& f, const char* key,
                                           std::optional<Duration> otherwise) {
    if (!f.Has(key)) return otherwise;
    if (ToText(f.Get(key)) == "never") return kNeverHappens;
    return ToDuration(f.Get(key));
  }

  static WorkloadClass ReadClass(const YAML::Node& node) {
    for (std::size_t i = 0; i < kWorkloadClasses; ++i) {
      if (ToText(node) == ToString(static_cast<WorkloadClass>(i))) {
        return static_cast<WorkloadClass>(i);
      }
    }
    Fail(node, absl::StrCat("no class '", ToText(node), "'"));
  }

  TimelineEntry ReadEntry(const YAML::Node& node, TimePoint previous) {
    Fields f(node, "timeline entry");
    TimelineEntry e;
    e.line = LineOf(node);
    e.at = f.Has("at") ? TimePoint(ToDuration(f.Get("at"))) : previous;
    if (e.at < previous) Fail(node, "the timeline goes backwards; use now: for the time of a call");
    if (f.Has("now")) e.now = TimePoint(ToDuration(f.Get("now")));
    for (const std::string& action : Actions()) {
      if (!f.Has(action)) continue;
      if (!e.action.empty()) {
        Fail(node, absl::StrCat("both '", e.action, "' and '", action, "' in one entry"));
      }
      e.action = action;
      e.value.reset(f.Get(action));
    }
    if (e.action == "submit") e.submits = ReadJobs(e.value, false);
    if (f.Has("refused")) {
      const std::string text = ToText(f.Get("refused"));
      for (const auto& [name, code] : kCodes) {
        if (text == name) e.refused = code;
      }
      if (!e.refused.has_value()) Fail(f.Get("refused"), absl::StrCat("no status '", text, "'"));
    }
    if (f.Has("expect")) {
      e.expect.reset(f.Get("expect"));
      if (!e.expect.IsMap()) Fail(e.expect, "expect: a map");
    } else {
      e.expect.reset(YAML::Node(YAML::NodeType::Map));
    }
    if (e.action.empty() && !f.Has("expect")) Fail(node, "neither an event nor 'expect'");
    f.Finish();
    return e;
  }

  const YAML::Node root_;
  Numbering ids_, users_;
  std::set<std::uint64_t> taken_;
};

}  // namespace

ScenarioFile ReadScenario(const YAML::Node& root) { return Reader(root).Read(); }

Parameters OptionsFor(const Case& c, const std::string& policy) {
  Preset preset = MakePreset(policy);
  Parameters out;
  for (const PolicyParameter& p : preset.Bind().Describe()) {
    if (const auto it = c.options.find(p.name); it != c.options.end()) out.insert(*it);
  }
  return out;
}

std::string CodeText(absl::StatusCode code) {
  for (const auto& [name, c] : kCodes) {
    if (code == c) return name;
  }
  return code == absl::StatusCode::kOk ? "ok" : "another status";
}

NodeEntry ReadNode(const YAML::Node& node) {
  Fields f(node, "node");
  NodeEntry n;
  n.name = ToText(f.Require("name"));
  n.gpus = ToInt(f.Require("gpus"));
  n.type = f.Text("type", "gpu");
  n.domain = f.Text("domain", "");
  f.Finish();
  return n;
}

}  // namespace tenure::scenario
