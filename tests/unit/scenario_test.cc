// SPDX-License-Identifier: Apache-2.0
#include "tenure/scenario.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace tenure {
namespace {

constexpr char kSmall[] = R"(
title: one node
options: {grace: 30s}
cluster:
  - {name: n1, gpus: 4}
tree: {A: 1, B: 1}
used: {A: 100h}
running:
  - {name: a, team: A, gpus: 4, minimum: 600s, start: -2h, on: n1}
timeline:
  - at: 0
    submit: {name: b, team: B, gpus: 4, minimum: 600s}
    expect: {stops: 1, stopping: a, waiting: b}
  - at: 30s
    expect: {running: b, waiting: a, first_start: {b: 30s}}
)";

std::string Edit(const std::string& from, const std::string& to) {
  std::string text = kSmall;
  EXPECT_TRUE(absl::StrContains(text, from)) << from;
  return absl::StrReplaceAll(text, {{from, to}});
}

std::string ErrorOf(const std::string& yaml) {
  const absl::StatusOr<ScenarioReport> r = RunScenario(yaml, {.file = "x.yaml"});
  if (r.ok()) return "ok";
  EXPECT_EQ(r.status().code(), absl::StatusCode::kInvalidArgument) << r.status();
  return std::string(r.status().message());
}

std::vector<std::string> FailuresOf(const std::string& yaml) {
  const absl::StatusOr<ScenarioReport> r = RunScenario(yaml, {.file = "x.yaml"});
  EXPECT_TRUE(r.ok()) << r.status();
  if (!r.ok() || r->cases.size() != 1) return {};
  return r->cases[0].failures;
}

TEST(Scenario, RunsUnderEveryPreset) {
  for (const char* policy : {"budget", "ai2", "hier", "responsive"}) {
    const absl::StatusOr<ScenarioReport> r =
        RunScenario(kSmall, {.policy = policy, .keep_log = true});
    ASSERT_TRUE(r.ok()) << r.status();
    EXPECT_EQ(r->title, "one node");
    ASSERT_EQ(r->cases.size(), 1u);
    EXPECT_TRUE(r->passed()) << absl::StrJoin(r->cases[0].failures, "\n");
    EXPECT_GT(r->cases[0].checks, 20);
    EXPECT_EQ(r->cases[0].log,
              (std::vector<std::string>{"0s hold n1 for b until 35s", "0s stop a (preempted for b)",
                                        "30s gone a, waiting", "30s start b on n1"}));
  }
}

TEST(Scenario, FailureNamesLineCaseAndWhatCame) {
  EXPECT_EQ(FailuresOf(Edit("stops: 1,", "stops: 3,")),
            (std::vector<std::string>{
                "x.yaml:13: budget at 0s: number of preemptions is 1, expected 3"}));
  const std::vector<std::string> late = FailuresOf(Edit("{b: 30s}", "{b: 31s}"));
  ASSERT_EQ(late.size(), 1u);
  EXPECT_EQ(late[0], "x.yaml:15: budget at 30s: first_start of b is 30s, expected 31s");
}

TEST(Scenario, RefusedCallMustBeRefusedAndAnAcceptedOneAccepted) {
  const std::vector<std::string> accepted =
      FailuresOf(Edit("    expect: {stops: 1,", "    refused: not-found\n    expect: {stops: 0,"));
  ASSERT_FALSE(accepted.empty());
  EXPECT_EQ(accepted[0],
            "x.yaml:12: budget at 0s: submit b: must be refused with not-found, came ok");
  const std::vector<std::string> refused =
      FailuresOf(Edit("gpus: 4, minimum: 600s}\n    expect: {stops: 1, stopping: a, waiting: b}",
                      "gpus: 0, minimum: 600s}\n  - at: 20s\n    expect: {stops: 0}"));
  ASSERT_FALSE(refused.empty());
  EXPECT_TRUE(absl::StrContains(refused[0], "gpus_per_node is 0")) << refused[0];
}

TEST(Scenario, BadFilesAreRefusedWithTheLine) {
  EXPECT_EQ(ErrorOf("[1, 2]"), "x.yaml:1: a scenario is a map with cluster, tree and timeline");
  EXPECT_TRUE(absl::StartsWith(ErrorOf("a: [1"), "x.yaml:"));
  EXPECT_TRUE(absl::StartsWith(ErrorOf(Edit("tree:", "tee:")), "x.yaml:6: no 'tee' here"));
  EXPECT_TRUE(absl::StartsWith(ErrorOf(Edit("grace:", "gracy:")), "x.yaml:3: no 'gracy' here"));
  EXPECT_TRUE(
      absl::StartsWith(ErrorOf(Edit("grace: 30s", "grace: soon")), "x.yaml:3: 'soon' is no time"));
  EXPECT_TRUE(absl::StartsWith(ErrorOf(Edit("gpus: 4}\ntree", "gpu: 4}\ntree")),
                               "x.yaml:5: node: 'gpus' is missing"));
  EXPECT_TRUE(absl::StartsWith(ErrorOf(Edit("stopping: a", "stoping: a")),
                               "x.yaml:13: no expectation 'stoping'"));
  EXPECT_EQ(ErrorOf(Edit("waiting: b", "waiting: c")), "x.yaml:13: no workload 'c'");
  EXPECT_TRUE(absl::StartsWith(ErrorOf(Edit("- at: 30s", "- at: -1s")),
                               "x.yaml:14: the timeline goes backwards"));
  EXPECT_TRUE(absl::StartsWith(ErrorOf(Edit("100h", "1h")), "x.yaml:0: used: A has used 3600s"));
  EXPECT_TRUE(absl::StartsWith(ErrorOf(Edit("100h", "1000h")), "x.yaml:0: used: 4 GPUs need"));
  EXPECT_TRUE(absl::StartsWith(ErrorOf(Edit("on: n1", "on: n9")), "x.yaml:9: no node 'n9'"));
  EXPECT_EQ(ErrorOf(Edit("title: one node", "policies: [ai2]")),
            "x.yaml:2: policies: say why in "
            "'because'");
  EXPECT_EQ(RunScenario(kSmall, {.policy = "fifo"}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(Scenario, NumbersBeyondTheirRangeAreRefusedWithTheLine) {
  EXPECT_EQ(ErrorOf(Edit("- at: 30s", "- at: 30000000d")),
            "x.yaml:14: '30000000d' is no time; write 90s, 2h, 7d or seconds");
  EXPECT_EQ(ErrorOf(Edit("name: b,", "name: b, level: 256,")), "x.yaml:12: 256 is not in [0, 255]");
  EXPECT_EQ(ErrorOf(Edit("name: b,", "name: b, name_length: -1,")),
            "x.yaml:12: -1 is not in [0, 16777216]");
  EXPECT_EQ(ErrorOf(Edit("name: b,", "name: b, priority: 2147483648,")),
            "x.yaml:12: 2147483648 is not in [-2147483648, 2147483647]");
  EXPECT_EQ(
      ErrorOf(Edit("name: a, team: A, gpus: 4", "name: a, team: A, gpus: 4611686018427387904")),
      "x.yaml:9: running work has GPUs, and no more than a cluster");
  EXPECT_EQ(ErrorOf(Edit("100h", "600000000h")),
            "x.yaml:0: used: 4 GPUs need 539999992800 s for it before -7200s, the window has "
            "604800s");
  EXPECT_EQ(ErrorOf(Edit("start: -2h", "start: -8d")),
            "x.yaml:0: used: A has used 360000s, but its running work alone has used more, or not "
            "in whole GPU-seconds");
}

TEST(Scenario, EndlessFilesAreRefused) {
  EXPECT_EQ(ErrorOf(Edit("tree: {A: 1, B: 1}", "tree: &t {A: 1, B: {children: *t}}")),
            "x.yaml:6: tree: more than 100 levels");
  EXPECT_EQ(ErrorOf(Edit("submit: {name: b, team: B, gpus: 4, minimum: 600s}", "submit: &l [*l]")),
            "x.yaml:12: workload: expected fields");
  const absl::StatusOr<ScenarioReport> r = RunScenario(Edit("title: one node", "pass_every: 1us"),
                                                       {.file = "x.yaml", .max_instants = 1000});
  EXPECT_EQ(r.status(), absl::InvalidArgumentError("x.yaml:0: more than 1000 instants"));
  std::string deep = "d";
  for (int i = 0; i < 100'000; ++i) deep += "/d";
  EXPECT_EQ(ErrorOf(Edit("{name: n1, gpus: 4}", "{name: n1, gpus: 4, domain: " + deep + "}")),
            "x.yaml:0: domain 'd' is deeper than 16 levels");
}

TEST(Scenario, UseWithoutAClusterIsRefused) {
  EXPECT_EQ(ErrorOf("cluster: []\ntree: {A: 1}\nused: {A: 1h}\ntimeline: []"),
            "x.yaml:0: used: A without a cluster");
}

TEST(Scenario, ReportsThatTheSchedulerRefusesAreFailures) {
  const std::vector<std::string> waits =
      FailuresOf(Edit("  - at: 30s", "  - at: 1s\n    started: b\n  - at: 30s"));
  ASSERT_FALSE(waits.empty());
  EXPECT_TRUE(absl::StrContains(waits[0], "start of b: FAILED_PRECONDITION")) << waits[0];
  EXPECT_EQ(ErrorOf(Edit("{b: 30s}}", "{b: 30s}, metrics: {root: {owed: 1h}}}")),
            "x.yaml:15: metrics: 'root' is no leaf");
}

// Work that began before 0 and was last heard of then has delivered nothing since.
TEST(Scenario, MetricsBeginAtZero) {
  constexpr char kLost[] = R"(
cluster: [{name: n1, gpus: 4}]
tree: {A: 1, B: 1}
running: [{name: a, team: A, gpus: 4, minimum: 600s, start: -2h}]
timeline:
  - list: []
  - at: 1h
    expect: {done: a, metrics: {A: {delivered: 0}}}
)";
  EXPECT_EQ(FailuresOf(kLost), std::vector<std::string>{});
}

TEST(Scenario, MetricsEndAfterTenYears) {
  constexpr char kLate[] = R"(
cluster: [{name: n1, gpus: 4}]
tree: {A: 1}
timeline:
  - at: DAY
    expect: {metrics: {A: {delivered: 0}}}
)";
  EXPECT_EQ(FailuresOf(absl::StrReplaceAll(kLate, {{"DAY", "3650d"}})), std::vector<std::string>{});
  EXPECT_TRUE(absl::StrContains(ErrorOf(absl::StrReplaceAll(kLate, {{"DAY", "3651d"}})),
                                "metrics: not later than 3650d"));
}

// The metrics count both of two workloads with one name.
TEST(Scenario, MetricsOfANameThatIsTakenAgain) {
  constexpr char kTwice[] = R"(
cluster: [{name: n1, gpus: 4}]
tree: {A: 1, B: 1}
timeline:
  - at: 0
    submit: {name: a, team: A, gpus: 4, minimum: 600s, runtime: 1h}
  - at: 2h
    submit: {name: a, id: 77, team: B, gpus: 2, minimum: 600s, runtime: 1h}
  - at: 4h
    expect: {metrics: {A: {delivered: 4h}, B: {delivered: 2h}}}
)";
  EXPECT_EQ(FailuresOf(kTwice), std::vector<std::string>{});
}

// `a` is stopped for a workload that has its name and another id.
TEST(Scenario, ANameCanBeTakenByAnotherWorkload) {
  constexpr char kTaken[] = R"(
cluster: [{name: n1, gpus: 4}]
tree: {A: 1, B: 1}
used: {A: 100h}
running: [{name: a, team: A, gpus: 4, minimum: 600s, start: -2h}]
timeline:
  - at: 0
    submit: {name: a, id: 77, team: B, gpus: 4, minimum: 600s}
)";
  const std::vector<std::string> failures = FailuresOf(kTaken);
  ASSERT_FALSE(failures.empty());
  EXPECT_TRUE(absl::StrContains(failures[0], "stop of unknown workload 1")) << failures[0];
}

TEST(Scenario, SkipsPoliciesThatTheFileDoesNotSpeakOf) {
  const std::string text = Edit("title: one node", "policies: [ai2]\nbecause: of this");
  const absl::StatusOr<ScenarioReport> r = RunScenario(text, {.policy = "budget"});
  ASSERT_TRUE(r.ok()) << r.status();
  EXPECT_TRUE(r->cases[0].skipped);
  EXPECT_EQ(r->cases[0].skip_reason, "for ai2 only: of this");
  EXPECT_EQ(r->cases[0].checks, 0);
}

TEST(Scenario, PastUseIsExact) {
  constexpr char kPast[] = R"(
options: {lane_permille: 0}
cluster:
  - {name: n1..n3, gpus: 3}
tree:
  P: {weight: 1, children: {x: 1, y: 0}}
  Q: 2
used: {P/x: 1000001, P/y: 7, Q: 12h 3s}
timeline:
  - at: 0
    expect: {used: {P/x: 1000001, P/y: 7, P: 1000008, Q: 43203, root: 1043211}, free: 9}
  - at: 1d
    expect: {used: {root: 1043211}}
  - at: 8d
    expect: {used: {root: 0}, same_standing: [P, Q]}
)";
  EXPECT_EQ(FailuresOf(kPast), std::vector<std::string>{});
}

}  // namespace
}  // namespace tenure
