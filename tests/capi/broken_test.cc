// SPDX-License-Identifier: Apache-2.0
//
// What must not happen and does: memory runs out, a callback throws. No exception leaves the
// library; a change that broke off leaves a scheduler that refuses everything until a snapshot is
// restored.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#define TENURE_EXPERIMENTAL
#include "failing.h"
#include "tenure/tenure.h"

namespace {

struct Handle {
  tenure_scheduler* s = nullptr;
  ~Handle() { tenure_scheduler_destroy(s); }
};

std::uint64_t Digest(const tenure_scheduler* s) {
  std::uint64_t digest = 0;
  EXPECT_EQ(tenure_scheduler_digest(s, &digest), TENURE_OK) << tenure_last_error_message();
  return digest;
}

std::vector<char> Snapshot(const tenure_scheduler* s) {
  std::size_t size = 0;
  EXPECT_EQ(tenure_scheduler_snapshot(s, nullptr, 0, &size), TENURE_ERROR_BUFFER_TOO_SMALL);
  std::vector<char> bytes(size);
  EXPECT_EQ(tenure_scheduler_snapshot(s, bytes.data(), size, &size), TENURE_OK);
  return bytes;
}

void Furnish(tenure_scheduler* s) {
  std::uint32_t type = 0, id = 0;
  ASSERT_EQ(tenure_gpu_type_add(s, "h100", &type), TENURE_OK);
  ASSERT_EQ(tenure_node_add(s, "n1", 8, type, TENURE_ROOT, 0, &id), TENURE_OK);
  ASSERT_EQ(tenure_allocation_add(s, TENURE_ROOT, "vision", 1.0, 0, &id), TENURE_OK);
}

tenure_workload Job(std::uint64_t id) {
  tenure_workload w = TENURE_WORKLOAD_INIT;
  w.id = id;
  w.allocation = 1;
  w.name = "a name that is too long for a small string";
  w.gpus_per_node = 4;
  w.minimum_us = 3'600'000'000;
  return w;
}

TEST(Broken, MemoryThatRunsOutIsAnErrorAndASnapshotHeals) {
  Handle h;
  ASSERT_EQ(tenure_scheduler_create(nullptr, &h.s), TENURE_OK);
  Furnish(h.s);
  tenure_start starts[8];
  std::uint32_t nodes[8];
  tenure_decisions d = TENURE_DECISIONS_INIT;
  d.starts = starts, d.start_capacity = 8;
  d.nodes = nodes, d.node_capacity = 8;
  int broke = 0;
  for (std::uint64_t n = 1; n < 200; ++n) {
    const std::vector<char> before = Snapshot(h.s);
    const std::uint64_t digest = Digest(h.s);
    const tenure_workload job = Job(n);
    fail_allocation(static_cast<long>(n));
    tenure_status status = tenure_workload_submit(h.s, &job, 0);
    if (status == TENURE_OK) status = tenure_scheduler_decide(h.s, 0, &d);
    fail_allocation(0);
    if (status == TENURE_OK) break;
    ASSERT_EQ(status, TENURE_ERROR_OUT_OF_MEMORY) << tenure_last_error_message();
    ++broke;
    // It does not pretend.
    std::uint64_t unused = 0;
    EXPECT_EQ(tenure_scheduler_digest(h.s, &unused), TENURE_ERROR_INTERNAL);
    EXPECT_EQ(tenure_workload_cancel(h.s, 1, 0), TENURE_ERROR_INTERNAL);
    ASSERT_EQ(tenure_scheduler_restore(h.s, before.data(), before.size()), TENURE_OK)
        << tenure_last_error_message();
    EXPECT_EQ(Digest(h.s), digest);
  }
  EXPECT_GT(broke, 3);
  fail_allocation(1);
  tenure_scheduler* none = nullptr;
  EXPECT_EQ(tenure_scheduler_create(nullptr, &none), TENURE_ERROR_OUT_OF_MEMORY);
  fail_allocation(1);
  EXPECT_EQ(tenure_scheduler_clone(h.s, &none), TENURE_ERROR_OUT_OF_MEMORY);
  fail_allocation(0);
  EXPECT_EQ(none, nullptr);
  EXPECT_NE(Digest(h.s), 0u);  // a question that fails breaks nothing
}

bool throws = false;
std::int64_t RankKey(void*, const tenure_allocation_view* a) {
  if (throws) throw_something();
  return a->used_gpu_us;
}

TEST(Broken, AHookThatThrowsIsAnError) {
  tenure_options* o = nullptr;
  tenure_policy_hooks hooks = TENURE_POLICY_HOOKS_INIT;
  hooks.rank_key = RankKey;
  Handle h;
  ASSERT_EQ(tenure_options_create("budget", &o), TENURE_OK);
  ASSERT_EQ(tenure_options_set_hooks(o, &hooks), TENURE_OK);
  ASSERT_EQ(tenure_scheduler_create(o, &h.s), TENURE_OK);
  tenure_options_destroy(o);
  Furnish(h.s);
  const tenure_workload job = Job(1);
  ASSERT_EQ(tenure_workload_submit(h.s, &job, 0), TENURE_OK);
  const std::vector<char> before = Snapshot(h.s);
  const std::uint64_t digest = Digest(h.s);
  throws = true;
  tenure_standing standing = TENURE_STANDING_INIT;
  EXPECT_EQ(tenure_allocation_standing(h.s, 1, 0, &standing), TENURE_ERROR_INTERNAL);
  EXPECT_NE(std::string(tenure_last_error_message()).find("a hook's mistake"), std::string::npos);
  EXPECT_EQ(Digest(h.s), digest);  // a question breaks nothing
  tenure_decisions d = TENURE_DECISIONS_INIT;
  EXPECT_EQ(tenure_scheduler_decide(h.s, 0, &d), TENURE_ERROR_INTERNAL);
  throws = false;
  EXPECT_EQ(tenure_scheduler_decide(h.s, 0, &d), TENURE_ERROR_INTERNAL);
  ASSERT_EQ(tenure_scheduler_restore(h.s, before.data(), before.size()), TENURE_OK);
  EXPECT_EQ(Digest(h.s), digest);
  tenure_start starts[1];
  std::uint32_t nodes[1];
  d.starts = starts, d.start_capacity = 1;
  d.nodes = nodes, d.node_capacity = 1;
  EXPECT_EQ(tenure_scheduler_decide(h.s, 0, &d), TENURE_OK);
  EXPECT_EQ(d.start_count, 1u);
}

void ThrowingLog(void*, std::int32_t, const char*) { throw 5; }

TEST(Broken, ALogThatThrowsIsNotHeard) {
  tenure_options* o = nullptr;
  Handle h;
  ASSERT_EQ(tenure_options_create("budget", &o), TENURE_OK);
  ASSERT_EQ(tenure_options_set_log(o, TENURE_LOG_INFO, ThrowingLog, nullptr), TENURE_OK);
  ASSERT_EQ(tenure_scheduler_create(o, &h.s), TENURE_OK);
  tenure_options_destroy(o);
  Furnish(h.s);
  EXPECT_EQ(tenure_workload_cancel(h.s, 9, 0), TENURE_ERROR_NOT_FOUND);
}

}  // namespace
