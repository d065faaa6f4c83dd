/* SPDX-License-Identifier: Apache-2.0
 *
 * Every limit that tenure.h states: what lies on it is accepted, what lies beyond it is refused
 * with the error that is written there and leaves the digest of the scheduler as it was.
 */
#include <stdlib.h>

#include "harness.h"

#define HOUR_US (INT64_C(3600) * 1000 * 1000)
#define DAY_US (24 * HOUR_US)
#define LAST_US (INT64_C(1) << 61)
#define NAME_BYTES 4096

typedef struct site {
  tenure_scheduler* s;
  uint32_t type, node, team;
} site;

static site make_site(int64_t now_us) {
  site w = {NULL, 0, 0, 0};
  EXPECT_OK(tenure_scheduler_create(NULL, &w.s));
  EXPECT_OK(tenure_gpu_type_add(w.s, "h100", &w.type));
  EXPECT_OK(tenure_node_add(w.s, "n1", 8, w.type, TENURE_ROOT, now_us, &w.node));
  EXPECT_OK(tenure_allocation_add(w.s, TENURE_ROOT, "team", 1.0, now_us, &w.team));
  return w;
}

static uint64_t digest(const tenure_scheduler* s) {
  uint64_t value = 0;
  EXPECT_OK(tenure_scheduler_digest(s, &value));
  return value;
}

/* `call` is refused with `status` and leaves scheduler `s` as it was. */
#define REFUSED(status, s, call)        \
  do {                                  \
    const uint64_t before_ = digest(s); \
    EXPECT_STATUS(status, call);        \
    EXPECT(digest(s) == before_);       \
  } while (0)

/* `size` times 'x'. */
static const char* long_name(size_t size) {
  static char name[2 * NAME_BYTES];
  memset(name, 'x', size);
  name[size] = 0;
  return name;
}

static tenure_workload job(const site* w, uint64_t id) {
  tenure_workload j = TENURE_WORKLOAD_INIT;
  j.id = id;
  j.allocation = w->team;
  j.minimum_us = HOUR_US;
  return j;
}

TEST(names_have_4096_bytes) {
  site w = make_site(0);
  tenure_workload j = job(&w, 1);
  uint32_t id = 0;
  const char* name = long_name(NAME_BYTES + 1);
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, w.s, tenure_gpu_type_add(w.s, name, &id));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, w.s, tenure_domain_add(w.s, TENURE_ROOT, name, &id));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, w.s,
          tenure_node_add(w.s, name, 8, w.type, TENURE_ROOT, 0, &id));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, w.s,
          tenure_allocation_add(w.s, TENURE_ROOT, name, 1.0, 0, &id));
  j.name = name;
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, w.s, tenure_workload_submit(w.s, &j, 0));
  j.name_size = NAME_BYTES + 1;
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, w.s, tenure_workload_submit(w.s, &j, 0));
  j.name_size = NAME_BYTES;
  EXPECT_OK(tenure_workload_submit(w.s, &j, 0));
  name = long_name(NAME_BYTES);
  EXPECT_OK(tenure_gpu_type_add(w.s, name, &id));
  EXPECT_OK(tenure_domain_add(w.s, TENURE_ROOT, name, &id));
  EXPECT_OK(tenure_node_add(w.s, name, 8, w.type, TENURE_ROOT, 0, &id));
  EXPECT_OK(tenure_allocation_add(w.s, TENURE_ROOT, name, 1.0, 0, &id));
  tenure_scheduler_destroy(w.s);
}

TEST(messages_have_511_bytes) {
  site w = make_site(0);
  uint32_t id = 0;
  EXPECT_STATUS(TENURE_ERROR_NOT_FOUND, tenure_node_find(w.s, long_name(NAME_BYTES), &id));
  EXPECT(strlen(tenure_last_error_message()) == 511);
  tenure_scheduler_destroy(w.s);
}

/* Names of many lengths: types are told apart by their names one by one. */
static void type_name(char* name, int i) {
  const int letters = i % 61;
  memset(name, 'x', (size_t)letters);
  sprintf(name + letters, "%d", i);
}

TEST(gpu_types_are_65535) {
  site w = make_site(0);
  char name[96];
  uint32_t id = 0;
  int i, refused = 0;
  for (i = 1; i < 65535; ++i) {
    type_name(name, i);
    refused += tenure_gpu_type_add(w.s, name, &id) != TENURE_OK || id != (uint32_t)i;
  }
  EXPECT(refused == 0 && id == 65534);
  REFUSED(TENURE_ERROR_RESOURCE_EXHAUSTED, w.s, tenure_gpu_type_add(w.s, "one more", &id));
  /* Those that are there are found still, and the last one is as good as the first. */
  EXPECT_OK(tenure_gpu_type_add(w.s, "h100", &id));
  EXPECT(id == w.type);
  EXPECT_OK(tenure_node_add(w.s, "n2", 8, 65534, TENURE_ROOT, 0, &id));
  EXPECT_OK(tenure_gpu_type_set_rate(w.s, 65534, 500, 0));
  REFUSED(TENURE_ERROR_NOT_FOUND, w.s, tenure_node_add(w.s, "n3", 8, 65535, TENURE_ROOT, 0, &id));
  tenure_scheduler_destroy(w.s);
}

TEST(rates_are_1_to_a_million) {
  site w = make_site(0);
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, w.s, tenure_gpu_type_set_rate(w.s, w.type, 0, 0));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, w.s, tenure_gpu_type_set_rate(w.s, w.type, -1, 0));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, w.s, tenure_gpu_type_set_rate(w.s, w.type, 1000001, 0));
  EXPECT_OK(tenure_gpu_type_set_rate(w.s, w.type, 1000000, 0));
  EXPECT_OK(tenure_gpu_type_set_rate(w.s, w.type, 1, 0));
  tenure_scheduler_destroy(w.s);
}

/* Seven days of the cluster must fit into 63 bits in the unit that the rates need. */
TEST(weighted_clusters_are_counted_exactly) {
  site w = make_site(0);
  char name[32];
  uint32_t id = 0;
  int i;
  for (i = 0; i < 9; ++i) {
    sprintf(name, "large-%d", i);
    EXPECT_OK(tenure_node_add(w.s, name, 1024, w.type, TENURE_ROOT, 0, &id));
  }
  /* Too many GPUs for thousandths, not for halves. */
  REFUSED(TENURE_ERROR_RESOURCE_EXHAUSTED, w.s, tenure_gpu_type_set_rate(w.s, w.type, 999, 0));
  EXPECT_OK(tenure_gpu_type_set_rate(w.s, w.type, 500, 0));
  tenure_scheduler_destroy(w.s);
  /* The same limit, met by a node. */
  w = make_site(0);
  EXPECT_OK(tenure_gpu_type_set_rate(w.s, w.type, 999, 0));
  for (i = 0; i < 8; ++i) {
    sprintf(name, "large-%d", i);
    EXPECT_OK(tenure_node_add(w.s, name, 1024, w.type, TENURE_ROOT, 0, &id));
  }
  REFUSED(TENURE_ERROR_RESOURCE_EXHAUSTED, w.s,
          tenure_node_add(w.s, "one more", 1024, w.type, TENURE_ROOT, 0, &id));
  tenure_scheduler_destroy(w.s);
}

TEST(clusters_have_16_levels_of_domains) {
  site w = make_site(0);
  uint32_t domain = TENURE_ROOT, below = 0;
  int level;
  for (level = 1; level <= 16; ++level) {
    EXPECT_OK(tenure_domain_add(w.s, domain, "d", &below));
    domain = below;
  }
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, w.s, tenure_domain_add(w.s, domain, "d", &below));
  EXPECT_OK(tenure_node_add(w.s, "deep", 8, w.type, domain, 0, &below));
  tenure_scheduler_destroy(w.s);
}

TEST(clusters_have_two_million_gpus) {
  site w = make_site(0);
  tenure_scheduler_info info = TENURE_SCHEDULER_INFO_INIT;
  char name[32];
  uint32_t id = 0;
  int i;
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, w.s,
          tenure_node_add(w.s, "none", 0, w.type, TENURE_ROOT, 0, &id));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, w.s,
          tenure_node_add(w.s, "large", 1025, w.type, TENURE_ROOT, 0, &id));
  for (i = 0; i < 2047; ++i) {
    sprintf(name, "large-%d", i);
    EXPECT_OK(tenure_node_add(w.s, name, 1024, w.type, TENURE_ROOT, 0, &id));
  }
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, w.s,
          tenure_node_add(w.s, "rest", 1017, w.type, TENURE_ROOT, 0, &id));
  EXPECT_OK(tenure_node_add(w.s, "rest", 1016, w.type, TENURE_ROOT, 0, &id));
  EXPECT_OK(tenure_scheduler_describe(w.s, &info));
  EXPECT(info.declared_gpus == INT64_C(1) << 21 && info.node_count == 2049);
  tenure_scheduler_destroy(w.s);
}

TEST(times_are_within_2_to_the_61) {
  site w = make_site(-LAST_US);
  tenure_decisions d = TENURE_DECISIONS_INIT;
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, w.s, tenure_scheduler_decide(w.s, -LAST_US - 1, &d));
  EXPECT_OK(tenure_scheduler_decide(w.s, -LAST_US, &d));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, w.s,
          tenure_allocation_set_weight(w.s, w.team, 2, LAST_US + 1, NULL, NULL, 0));
  EXPECT_OK(tenure_allocation_set_weight(w.s, w.team, 2, LAST_US, NULL, NULL, 0));
  REFUSED(TENURE_ERROR_OUT_OF_RANGE, w.s, tenure_scheduler_decide(w.s, -1, &d));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, w.s, tenure_scheduler_decide(w.s, LAST_US + 1, &d));
  EXPECT_OK(tenure_scheduler_decide(w.s, LAST_US, &d));
  tenure_scheduler_destroy(w.s);
}

TEST(forecasts_look_360_days_ahead) {
  site w = make_site(0);
  const tenure_workload j = job(&w, 1);
  tenure_forecast f = TENURE_FORECAST_INIT;
  EXPECT_OK(tenure_workload_submit(w.s, &j, 0));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, w.s, tenure_workload_forecast(w.s, 1, 0, &f));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, w.s,
          tenure_workload_forecast(w.s, 1, 360 * DAY_US + 1, &f));
  EXPECT_OK(tenure_workload_forecast(w.s, 1, 360 * DAY_US, &f));
  EXPECT(f.start_us == 0);
  tenure_scheduler_destroy(w.s);
}

/* A workload with one field changed is accepted or refused; the ids differ. */
#define FIELD(status, field, value)                                \
  do {                                                             \
    tenure_workload j_ = job(&w, ++id);                            \
    j_.field = (value);                                            \
    if ((status) == TENURE_OK) {                                   \
      EXPECT_OK(tenure_workload_submit(w.s, &j_, 0));              \
    } else {                                                       \
      REFUSED((status), w.s, tenure_workload_submit(w.s, &j_, 0)); \
    }                                                              \
  } while (0)

TEST(workloads_have_limits) {
  site w = make_site(0);
  tenure_workload j = job(&w, 1000);
  uint64_t id = 0;
  FIELD(TENURE_OK, nodes, 1u << 21);
  FIELD(TENURE_ERROR_INVALID_ARGUMENT, nodes, (1u << 21) + 1);
  FIELD(TENURE_OK, gpus_per_node, 1 << 21);
  FIELD(TENURE_ERROR_INVALID_ARGUMENT, gpus_per_node, (1 << 21) + 1);
  FIELD(TENURE_OK, minimum_us, 360 * DAY_US);
  FIELD(TENURE_ERROR_INVALID_ARGUMENT, minimum_us, 360 * DAY_US + 1);
  FIELD(TENURE_OK, checkpoint_interval_us, 360 * DAY_US);
  FIELD(TENURE_ERROR_INVALID_ARGUMENT, checkpoint_interval_us, 360 * DAY_US + 1);
  FIELD(TENURE_OK, restart_overhead_us, 360 * DAY_US);
  FIELD(TENURE_ERROR_INVALID_ARGUMENT, restart_overhead_us, 360 * DAY_US + 1);
  FIELD(TENURE_OK, priority, INT32_MAX);
  FIELD(TENURE_OK, priority, INT32_MIN);
  FIELD(TENURE_OK, topology_level, TENURE_DEEPEST_LEVEL);
  FIELD(TENURE_ERROR_INVALID_ARGUMENT, topology_level, TENURE_DEEPEST_LEVEL + 1);
  FIELD(TENURE_ERROR_INVALID_ARGUMENT, workload_class, TENURE_CLASS_SWEEP); /* has a minimum */
  j.nodes = 1u << 20, j.gpus_per_node = 3;
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, w.s, tenure_workload_submit(w.s, &j, 0));
  j.gpus_per_node = 2;
  EXPECT_OK(tenure_workload_submit(w.s, &j, 0));
  j = job(&w, 1001);
  j.workload_class = TENURE_CLASS_DEBUG, j.gpus_per_node = 9;
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, w.s, tenure_workload_submit(w.s, &j, 0));
  j.gpus_per_node = 8;
  EXPECT_OK(tenure_workload_submit(w.s, &j, 0));
  tenure_scheduler_destroy(w.s);
}

int main(int argc, char** argv) {
  static const harness_test tests[] = {
      ENTRY(names_have_4096_bytes),
      ENTRY(messages_have_511_bytes),
      ENTRY(gpu_types_are_65535),
      ENTRY(rates_are_1_to_a_million),
      ENTRY(weighted_clusters_are_counted_exactly),
      ENTRY(clusters_have_16_levels_of_domains),
      ENTRY(clusters_have_two_million_gpus),
      ENTRY(times_are_within_2_to_the_61),
      ENTRY(forecasts_look_360_days_ahead),
      ENTRY(workloads_have_limits),
  };
  return harness_main(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
