// SPDX-License-Identifier: Apache-2.0
#include "tenure/contract.h"

#include <chrono>
#include <cstdint>
#include <string>

#include "gtest/gtest.h"

namespace tenure {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

WorkloadSpec Good() {
  WorkloadSpec spec;
  spec.id = WorkloadId(7);
  spec.name = "train";
  spec.nodes = 4;
  spec.gpus_per_node = GpuCount(8);
  spec.minimum = hours(2);
  spec.checkpoint_interval = minutes(30);
  return spec;
}

// Expects InvalidArgument with "workload 7: " and `part` in the message.
void ExpectRefused(const WorkloadSpec& spec, const std::string& part,
                   const ContractRules& rules = {}) {
  const absl::Status status = rules.Check(spec);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << part;
  const std::string message(status.message());
  EXPECT_EQ(message.rfind("workload 7: ", 0), 0u) << message;
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(Contract, AcceptsAGang) {
  const WorkloadSpec spec = Good();
  EXPECT_TRUE(ContractRules{}.Check(spec).ok());
  EXPECT_EQ(spec.gpus(), GpuCount(32));
  EXPECT_TRUE(spec.funded());
}

TEST(Contract, AcceptsEveryLimitItself) {
  WorkloadSpec spec = Good();
  spec.id = WorkloadId(~std::uint64_t{0});
  spec.name = std::string(kMaxNameBytes, '\0');
  spec.nodes = 1u << 21;
  spec.gpus_per_node = GpuCount(1);
  spec.minimum = spec.checkpoint_interval = spec.restart_overhead = kMaxLookback * 12;
  EXPECT_TRUE(ContractRules{}.Check(spec).ok());
}

TEST(Contract, RefusesALongName) {
  WorkloadSpec spec = Good();
  spec.name.assign(kMaxNameBytes + 1, 'x');
  ExpectRefused(spec, "name of 4097 bytes exceeds 4096");
}

TEST(Contract, RefusesAnUnknownClass) {
  WorkloadSpec spec = Good();
  spec.workload_class = static_cast<WorkloadClass>(5);
  ExpectRefused(spec, "unknown class 5");
}

TEST(Contract, RefusesNoNodes) {
  WorkloadSpec spec = Good();
  spec.nodes = 0;
  ExpectRefused(spec, "nodes is 0");
}

TEST(Contract, RefusesNoOrNegativeGpus) {
  WorkloadSpec spec = Good();
  spec.gpus_per_node = GpuCount(0);
  ExpectRefused(spec, "gpus_per_node is 0, must be positive");
  spec.gpus_per_node = GpuCount(-1);
  ExpectRefused(spec, "gpus_per_node is -1, must be positive");
}

TEST(Contract, RefusesMoreGpusThanAnyClusterWithoutWrapping) {
  WorkloadSpec spec = Good();
  spec.nodes = 1;
  spec.gpus_per_node = GpuCount(kMaxClusterGpus + 1);
  ExpectRefused(spec, "1 x 2097153 GPUs exceeds the limit of 2097152");
  spec.gpus_per_node = GpuCount::Max();
  spec.nodes = ~0u;
  ExpectRefused(spec, "exceeds the limit");
  spec.gpus_per_node = GpuCount(kMaxClusterGpus);
  spec.nodes = 2;
  ExpectRefused(spec, "2 x 2097152 GPUs exceeds the limit");
}

TEST(Contract, RefusesDurationsOutOfRange) {
  for (const Duration bad : {Duration(-5), kMaxLookback * 12 + Duration(1), Duration::max()}) {
    WorkloadSpec spec = Good();
    spec.minimum = bad;
    ExpectRefused(spec, "minimum is " + std::to_string(bad.count()) + " us");
    spec = Good();
    spec.checkpoint_interval = bad;
    ExpectRefused(spec, "checkpoint_interval is " + std::to_string(bad.count()) + " us");
    spec = Good();
    spec.restart_overhead = bad;
    ExpectRefused(spec, "restart_overhead is " + std::to_string(bad.count()) + " us");
  }
}

TEST(Contract, LimitsTheSizeOfDebugWork) {
  WorkloadSpec spec = Good();
  spec.workload_class = WorkloadClass::kDebug;
  spec.nodes = 1;
  EXPECT_TRUE(ContractRules{}.Check(spec).ok());
  spec.nodes = 2;
  ExpectRefused(spec, "class debug is for at most 8 GPUs, asked 16");
  ContractRules rules;
  rules.debug_gpus = GpuCount(16);
  EXPECT_TRUE(rules.Check(spec).ok());
}

TEST(Contract, SweepsAreUnfunded) {
  WorkloadSpec spec = Good();
  spec.workload_class = WorkloadClass::kSweep;
  ExpectRefused(spec, "class sweep has minimum 0, asked 7200000000 us");
  spec.minimum = Duration(0);
  EXPECT_TRUE(ContractRules{}.Check(spec).ok());
  EXPECT_FALSE(spec.funded());
  EXPECT_EQ(ContractRules{}.Protection(spec), Duration(0));
}

TEST(Contract, CapsTheProtectionByClass) {
  ContractRules rules;
  WorkloadSpec spec = Good();
  EXPECT_EQ(rules.Protection(spec), hours(2));
  spec.minimum = hours(100);
  EXPECT_EQ(rules.Protection(spec), hours(8));
  spec.workload_class = WorkloadClass::kDebug;
  EXPECT_EQ(rules.Protection(spec), minutes(15));
  spec.workload_class = WorkloadClass::kInteractive;
  rules.cap[static_cast<std::size_t>(WorkloadClass::kInteractive)] = hours(1);
  EXPECT_EQ(rules.Protection(spec), hours(1));
  spec.workload_class = WorkloadClass::kServing;
  EXPECT_EQ(rules.Protection(spec), hours(8));
}

TEST(Contract, SeesALivelock) {
  const ContractRules rules;
  WorkloadSpec spec = Good();
  EXPECT_FALSE(rules.HasLivelock(spec));
  spec.restart_overhead = minutes(90);
  EXPECT_FALSE(rules.HasLivelock(spec)) << "reaches the checkpoint exactly";
  spec.restart_overhead += Duration(1);
  EXPECT_TRUE(rules.HasLivelock(spec));
  spec.resumable = false;
  EXPECT_FALSE(rules.HasLivelock(spec)) << "it has one run only";
  spec.resumable = true;
  spec.checkpoint_interval = Duration(0);
  EXPECT_FALSE(rules.HasLivelock(spec)) << "interval unknown";
  spec = Good();
  spec.minimum = Duration(0);
  EXPECT_FALSE(rules.HasLivelock(spec)) << "unfunded: nothing was promised";
}

TEST(Contract, SeesALivelockThatTheCapCauses) {
  WorkloadSpec spec = Good();
  spec.minimum = hours(12);
  spec.checkpoint_interval = hours(9);
  EXPECT_TRUE(ContractRules{}.HasLivelock(spec));
}

TEST(Contract, RefusesALivelockOnlyIfTheSiteWants) {
  WorkloadSpec spec = Good();
  spec.minimum = minutes(20);
  ContractRules rules;
  EXPECT_TRUE(rules.Check(spec).ok());
  rules.refuse_livelock = true;
  ExpectRefused(spec,
                "a protection of 1200000000 us ends before checkpoint interval 1800000000 us + "
                "restart overhead 0 us",
                rules);
}

TEST(Contract, NamesItsClasses) {
  EXPECT_STREQ(ToString(WorkloadClass::kDebug), "debug");
  EXPECT_STREQ(ToString(WorkloadClass::kInteractive), "interactive");
  EXPECT_STREQ(ToString(WorkloadClass::kTraining), "training");
  EXPECT_STREQ(ToString(WorkloadClass::kServing), "serving");
  EXPECT_STREQ(ToString(WorkloadClass::kSweep), "sweep");
}

}  // namespace
}  // namespace tenure
