/* SPDX-License-Identifier: Apache-2.0
 *
 * The policy of main.cc through the C library: hooks instead of a class. Teams are ordered by
 * *lag*, the GPU-time a team is behind its entitlement over the last day. Exits with 0 if every
 * expectation holds.
 */
#define TENURE_EXPERIMENTAL
#include <stdio.h>
#include <stdlib.h>

#include "tenure/tenure.h"

#define SECOND_US INT64_C(1000000)
#define MINUTE_US (60 * SECOND_US)
#define HOUR_US (60 * MINUTE_US)

/* Use minus what the entitlement was worth in a day, in GPU-milliseconds. Keys are not negative, so
 * it is counted from far below any lag. */
static int64_t rank_key(void* user, const tenure_allocation_view* a) {
  const int64_t worth = a->entitlement_mgpu * (24 * HOUR_US / 1000);
  (void)user;
  return (INT64_C(1) << 50) + (a->used_gpu_us - worth) / 1000;
}
static int32_t tier(void* user, const tenure_requester_view* r) {
  (void)user, (void)r;
  return 1;
}
/* Asked only about runs that are past their minimum or unfunded. The gap is in the unit of the key:
 * one GPU-hour. */
static int32_t may_preempt(void* user, const tenure_requester_view* r, const tenure_run_view* v) {
  (void)user, (void)r;
  return !v->funded || v->gap_us > 3600 * 1000;
}
/* The youngest run is stopped first: what has run longest is closest to its end. */
static int64_t victim_cost(void* user, const tenure_run_view* v) {
  (void)user;
  return (v->now_us - v->start_us) / 1000 + (v->funded ? INT64_C(1) << 40 : 0);
}
/* Free GPUs are taken where as many as possible are free, so that heat spreads. */
static int64_t node_score(void* user, const tenure_node_view* n) {
  (void)user;
  return n->free_gpus;
}

static int failures;
static void expect(int holds, const char* what) {
  printf("%s  %s\n", holds ? "ok    " : "FAILED", what);
  failures += !holds;
}
static void check(tenure_status status) {
  if (status == TENURE_OK) return;
  fprintf(stderr, "%s\n", tenure_last_error_message());
  exit(2);
}

static tenure_scheduler* scheduler;
static tenure_start starts[8];
static tenure_stop stops[8];
static uint32_t nodes[32];
static tenure_decisions d = TENURE_DECISIONS_INIT;
static uint64_t last_id;

static uint64_t submit(uint32_t team, int32_t gpus, int64_t now_us) {
  tenure_workload w = TENURE_WORKLOAD_INIT;
  w.id = ++last_id;
  w.allocation = team;
  w.gpus_per_node = gpus;
  w.minimum_us = HOUR_US;
  check(tenure_workload_submit(scheduler, &w, now_us));
  return w.id;
}

static void pass(int64_t now_us) {
  size_t i;
  check(tenure_scheduler_decide(scheduler, now_us, &d));
  for (i = 0; i < d.start_count; ++i) {
    check(tenure_run_started(scheduler, starts[i].workload, starts[i].run, now_us, now_us));
  }
}

int main(void) {
  tenure_policy_hooks hooks = TENURE_POLICY_HOOKS_INIT;
  tenure_options* options = NULL;
  uint32_t type, node, large, small;
  uint64_t first, second, youngest, waits;
  int64_t now = 0;
  hooks.rank_key = rank_key;
  hooks.tier = tier;
  hooks.may_preempt = may_preempt;
  hooks.victim_cost = victim_cost;
  hooks.node_score = node_score;
  check(tenure_options_create("budget", &options));
  check(tenure_options_set(options, "lookback", "24h"));
  check(tenure_options_set(options, "lane_permille", "0"));
  check(tenure_options_set_hooks(options, &hooks));
  check(tenure_scheduler_create(options, &scheduler));
  tenure_options_destroy(options);
  check(tenure_gpu_type_add(scheduler, "h100", &type));
  check(tenure_node_add(scheduler, "node-1", 8, type, TENURE_ROOT, now, &node));
  check(tenure_node_add(scheduler, "node-2", 8, type, TENURE_ROOT, now, &node));
  check(tenure_allocation_add(scheduler, TENURE_ROOT, "large", 3, now, &large));
  check(tenure_allocation_add(scheduler, TENURE_ROOT, "small", 1, now, &small));
  d.starts = starts, d.start_capacity = 8;
  d.stops = stops, d.stop_capacity = 8;
  d.nodes = nodes, d.node_capacity = 32;

  first = submit(small, 4, now);
  second = submit(small, 4, now);
  pass(now);
  expect(d.start_count == 2 && starts[0].workload == first && starts[1].workload == second,
         "both requests start in queue order");
  expect(nodes[starts[0].node_begin] != nodes[starts[1].node_begin], "spread over two nodes");
  submit(small, 4, now);
  pass(now += 10 * MINUTE_US);
  youngest = submit(small, 4, now);
  pass(now += 10 * MINUTE_US);

  now += 30 * MINUTE_US;
  waits = submit(large, 4, now);
  pass(now);
  expect(d.stop_count == 0 && d.start_count == 0, "nothing is stopped inside its minimum");

  pass(now += 2 * HOUR_US);
  expect(d.stop_count == 1, "one run is stopped, no more than is needed");
  expect(d.stop_count == 1 && stops[0].workload == youngest, "the youngest one");
  expect(d.stop_count == 1 && stops[0].beneficiary == waits, "for the large team");
  if (d.stop_count == 1) {
    check(tenure_run_stopped(scheduler, stops[0].workload, stops[0].run, now, now, NULL));
  }
  pass(now);
  expect(d.start_count == 1 && starts[0].workload == waits, "which then starts");

  pass(now += 3 * HOUR_US);
  expect(d.stop_count == 0, "no ping-pong");
  tenure_scheduler_destroy(scheduler);
  return failures == 0 ? 0 : 1;
}
