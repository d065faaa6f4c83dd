/* SPDX-License-Identifier: Apache-2.0
 *
 * tenure.h as a C99 program meets it: a story that works, every error code, and what a wrong call
 * does: an error, and the digest of the scheduler as it was.
 */
#define TENURE_EXPERIMENTAL
#include <stdlib.h>

#include "harness.h"
#include "job.h"

#define MINUTE_US (INT64_C(60) * 1000 * 1000)
#define HOUR_US (60 * MINUTE_US)

/* Two nodes of eight GPUs, teams vision and language below the root. */
typedef struct world {
  tenure_scheduler* s;
  uint32_t type, n1, n2, vision, language;
  tenure_decisions d;
  tenure_start starts[32];
  tenure_stop stops[32];
  tenure_hold holds[32];
  tenure_promise promises[32];
  uint32_t nodes[64];
} world;

static void connect(world* w) {
  const tenure_decisions fresh = TENURE_DECISIONS_INIT;
  w->d = fresh;
  w->d.starts = w->starts, w->d.start_capacity = 32;
  w->d.stops = w->stops, w->d.stop_capacity = 32;
  w->d.holds = w->holds, w->d.hold_capacity = 32;
  w->d.promises = w->promises, w->d.promise_capacity = 32;
  w->d.nodes = w->nodes, w->d.node_capacity = 64;
}

static world* make_world(const tenure_options* options) {
  world* w = calloc(1, sizeof(*w));
  tenure_options* own = NULL;
  if (options == NULL) {
    EXPECT_OK(tenure_options_create("budget", &own));
    EXPECT_OK(tenure_options_set(own, "lane_permille", "0"));
    EXPECT_OK(tenure_options_set(own, "quantum", "0s"));
    options = own;
  }
  EXPECT_OK(tenure_scheduler_create(options, &w->s));
  tenure_options_destroy(own);
  EXPECT_OK(tenure_gpu_type_add(w->s, "h100", &w->type));
  EXPECT_OK(tenure_node_add(w->s, "n1", 8, w->type, TENURE_ROOT, 0, &w->n1));
  EXPECT_OK(tenure_node_add(w->s, "n2", 8, w->type, TENURE_ROOT, 0, &w->n2));
  EXPECT_OK(tenure_allocation_add(w->s, TENURE_ROOT, "vision", 1.0, 0, &w->vision));
  EXPECT_OK(tenure_allocation_add(w->s, TENURE_ROOT, "language", 1.0, 0, &w->language));
  connect(w);
  return w;
}

static void free_world(world* w) {
  tenure_scheduler_destroy(w->s);
  free(w);
}

static uint64_t digest(const tenure_scheduler* s) {
  uint64_t value = 0;
  EXPECT_OK(tenure_scheduler_digest(s, &value));
  return value;
}

static void submit(world* w, uint64_t id, uint32_t allocation, int32_t gpus, int64_t minimum_us,
                   int64_t now_us) {
  const tenure_workload j = job(id, allocation, gpus, minimum_us);
  EXPECT_OK(tenure_workload_submit(w->s, &j, now_us));
}

/* A pass whose starts are confirmed. */
static void pass(world* w, int64_t now_us) {
  size_t i;
  EXPECT_OK(tenure_scheduler_decide(w->s, now_us, &w->d));
  for (i = 0; i < w->d.start_count; ++i) {
    EXPECT_OK(tenure_run_started(w->s, w->starts[i].workload, w->starts[i].run, now_us, now_us));
  }
}

/* `call` is refused with `status` and leaves scheduler `s` as it was. */
#define REFUSED(status, s, call)          \
  do {                                    \
    const uint64_t before_ = digest(s);   \
    EXPECT_STATUS(status, call);          \
    EXPECT(digest(s) == before_);         \
    EXPECT(*tenure_last_error_message()); \
  } while (0)

TEST(library_is_that_of_the_header) {
  char text[32];
  EXPECT(tenure_version() ==
         10000u * TENURE_VERSION_MAJOR + 100u * TENURE_VERSION_MINOR + TENURE_VERSION_PATCH);
  sprintf(text, "%d.%d.%d", TENURE_VERSION_MAJOR, TENURE_VERSION_MINOR, TENURE_VERSION_PATCH);
  EXPECT(strcmp(tenure_version_string(), text) == 0);
}

TEST(names_are_texts_and_never_null) {
  EXPECT(strcmp(tenure_status_name(TENURE_OK), "ok") == 0);
  EXPECT(strcmp(tenure_status_name(TENURE_ERROR_REENTRANT), "reentrant") == 0);
  EXPECT(strcmp(tenure_status_name(-99), "unknown") == 0);
  EXPECT(strcmp(tenure_class_name(TENURE_CLASS_SWEEP), "sweep") == 0);
  EXPECT(strcmp(tenure_class_name(5), "unknown") == 0);
  EXPECT(strcmp(tenure_node_health_name(TENURE_NODE_DRAINING), "draining") == 0);
  EXPECT(strcmp(tenure_node_health_name(-1), "unknown") == 0);
  EXPECT(strcmp(tenure_stop_reason_name(TENURE_STOP_DRAIN), "drain") == 0);
  EXPECT(strcmp(tenure_stop_reason_name(INT32_MAX), "unknown") == 0);
  EXPECT(strcmp(tenure_state_name(TENURE_STATE_RUNNING), "running") == 0);
  EXPECT(strcmp(tenure_state_name(0), "unknown") == 0);
  EXPECT(strcmp(tenure_wait_reason_name(TENURE_WAIT_NO_CAPACITY), "no-capacity") == 0);
  EXPECT(strcmp(tenure_wait_reason_name(INT32_MIN), "unknown") == 0);
  EXPECT(strcmp(tenure_outcome_name(TENURE_OUTCOME_REQUEUED), "requeued") == 0);
  EXPECT(strcmp(tenure_outcome_name(99), "unknown") == 0);
}

TEST(options_are_text_and_describe_themselves) {
  tenure_options* o = NULL;
  tenure_scheduler* s = NULL;
  tenure_parameter p = TENURE_PARAMETER_INIT;
  size_t count = 0, i;
  int saw_grace = 0;
  EXPECT_STATUS(TENURE_ERROR_NOT_FOUND, tenure_options_create("no-such-policy", &o));
  EXPECT(o == NULL && strstr(tenure_last_error_message(), "no-such-policy") != NULL);
  EXPECT_STATUS(TENURE_ERROR_INVALID_ARGUMENT, tenure_options_create(NULL, &o));
  EXPECT_STATUS(TENURE_ERROR_INVALID_ARGUMENT, tenure_options_create("budget", NULL));
  EXPECT_OK(tenure_options_create("budget", &o));
  EXPECT_OK(tenure_options_set(o, "grace", "2m"));
  EXPECT_STATUS(TENURE_ERROR_NOT_FOUND, tenure_options_set(o, "gracious", "2m"));
  EXPECT_STATUS(TENURE_ERROR_INVALID_ARGUMENT, tenure_options_set(o, "grace", "blue"));
  EXPECT(strstr(tenure_last_error_message(), "blue") != NULL);
  EXPECT_STATUS(TENURE_ERROR_INVALID_ARGUMENT, tenure_options_set(o, "grace", NULL));
  EXPECT_STATUS(TENURE_ERROR_INVALID_ARGUMENT, tenure_options_set(o, NULL, "2m"));
  EXPECT_STATUS(TENURE_ERROR_INVALID_ARGUMENT, tenure_options_set(NULL, "grace", "2m"));
  EXPECT_OK(tenure_options_count(o, &count));
  EXPECT_STATUS(TENURE_ERROR_INVALID_ARGUMENT, tenure_options_count(o, NULL));
  EXPECT_STATUS(TENURE_ERROR_INVALID_ARGUMENT, tenure_options_count(NULL, &count));
  for (i = 0; i < count; ++i) {
    EXPECT_OK(tenure_options_describe(o, i, &p));
    EXPECT(*p.name && *p.unit && *p.help && *p.default_value);
    saw_grace += strcmp(p.name, "grace") == 0 && strcmp(p.default_value, "10s") == 0;
    /* Every default can be set. */
    if (strcmp(p.name, "grace") != 0) {
      EXPECT_OK(tenure_options_set(o, p.name, p.default_value));
    }
  }
  EXPECT(saw_grace == 1);
  EXPECT_STATUS(TENURE_ERROR_NOT_FOUND, tenure_options_describe(o, count, &p));
  EXPECT_STATUS(TENURE_ERROR_INVALID_ARGUMENT, tenure_options_describe(o, 0, NULL));
  EXPECT_STATUS(TENURE_ERROR_INVALID_ARGUMENT, tenure_options_describe(NULL, 0, &p));
  EXPECT_STATUS(TENURE_ERROR_INVALID_ARGUMENT, tenure_options_set_log(o, 7, NULL, NULL));
  EXPECT_STATUS(TENURE_ERROR_INVALID_ARGUMENT,
                tenure_options_set_log(NULL, TENURE_LOG_INFO, NULL, NULL));
  EXPECT_STATUS(TENURE_ERROR_INVALID_ARGUMENT, tenure_options_set_hooks(NULL, NULL));
  EXPECT_OK(tenure_options_set_hooks(o, NULL));
  EXPECT_OK(tenure_scheduler_create(o, &s));
  tenure_scheduler_destroy(s);
  /* The value is a duration, but out of range. */
  EXPECT_OK(tenure_options_set(o, "lookback", "-1h"));
  EXPECT_STATUS(TENURE_ERROR_INVALID_ARGUMENT, tenure_scheduler_create(o, &s));
  EXPECT(s == NULL);
  EXPECT_STATUS(TENURE_ERROR_INVALID_ARGUMENT, tenure_scheduler_create(NULL, NULL));
  tenure_options_destroy(o);
  tenure_options_destroy(NULL);
}

TEST(a_job_runs_and_another_takes_its_place) {
  world* w = make_world(NULL);
  tenure_explanation e = TENURE_EXPLANATION_INIT;
  tenure_standing standing = TENURE_STANDING_INIT;
  int32_t outcome = -1;
  submit(w, 1, w->vision, 8, HOUR_US, 0);
  submit(w, 2, w->vision, 8, HOUR_US, 0);
  pass(w, 0);
  EXPECT(w->d.start_count == 2 && w->d.stop_count == 0 && w->d.node_count == 2);
  EXPECT(w->starts[0].workload == 1 && w->starts[0].run == 1 && w->starts[0].node_count == 1);
  EXPECT(w->starts[0].gpus_per_node == 8);
  submit(w, 3, w->language, 8, HOUR_US, 10 * MINUTE_US);
  pass(w, 10 * MINUTE_US);
  EXPECT(w->d.start_count == 0 && w->d.stop_count == 0);
  EXPECT_OK(tenure_workload_explain(w->s, 3, &e));
  EXPECT(e.state == TENURE_STATE_PENDING && e.reason == TENURE_WAIT_NO_CAPACITY);
  EXPECT(e.workload == 3 && e.allocation == w->language && e.run == 0 && e.funded == 1);
  EXPECT(e.start_us == TENURE_NEVER && e.protected_until_us == TENURE_NEVER);
  EXPECT(e.next_protection_end_us == HOUR_US);
  EXPECT_OK(tenure_workload_explain(w->s, 1, &e));
  EXPECT(e.state == TENURE_STATE_RUNNING && e.start_us == 0 && e.protected_until_us == HOUR_US);
  EXPECT_OK(tenure_allocation_standing(w->s, w->vision, 10 * MINUTE_US, &standing));
  EXPECT(standing.used_gpu_us == 16 * 10 * MINUTE_US && standing.placed_gpus == 16);
  EXPECT(standing.committed_gpu_us == 16 * 50 * MINUTE_US);
  /* Once the minimum is over, language gets a node. */
  pass(w, HOUR_US);
  EXPECT(w->d.stop_count == 1 && w->d.hold_count == 1);
  EXPECT(w->stops[0].reason == TENURE_STOP_PREEMPTED && w->stops[0].beneficiary == 3);
  EXPECT(w->holds[0].workload == 3 && w->holds[0].node_count == 1);
  EXPECT(w->stops[0].grace_us == 10 * 1000 * 1000 && w->stops[0].lost_gpu_us > 0);
  EXPECT_OK(
      tenure_run_stopped(w->s, w->stops[0].workload, w->stops[0].run, HOUR_US, HOUR_US, &outcome));
  EXPECT(outcome == TENURE_OUTCOME_REQUEUED);
  pass(w, HOUR_US);
  EXPECT(w->d.start_count == 1 && w->starts[0].workload == 3);
  EXPECT_OK(tenure_run_checkpointed(w->s, 3, 1, HOUR_US + MINUTE_US, HOUR_US + MINUTE_US));
  EXPECT_OK(tenure_run_ended(w->s, 3, 1, 2 * HOUR_US, 2 * HOUR_US));
  REFUSED(TENURE_ERROR_NOT_FOUND, w->s, tenure_workload_explain(w->s, 3, &e));
  free_world(w);
}

TEST(a_resume_hint_comes_back_until_the_workload_is_over) {
  static const char large[4097];
  world* w = make_world(NULL);
  tenure_workload j = job(1, w->vision, 4, HOUR_US);
  char text[8];
  size_t size = 99;
  j.restorable = 1;
  EXPECT_OK(tenure_workload_submit(w->s, &j, 0));
  j.id = 2;
  j.resumable = 0;
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, w->s, tenure_workload_submit(w->s, &j, 0));
  EXPECT_OK(tenure_workload_resume_hint(w->s, 1, NULL, 0, &size));
  EXPECT(size == 0);
  EXPECT_OK(tenure_workload_set_resume_hint(w->s, 1, "im\0ge", 5, 0));
  REFUSED(TENURE_ERROR_BUFFER_TOO_SMALL, w->s,
          tenure_workload_resume_hint(w->s, 1, text, 4, &size));
  EXPECT(size == 5);
  EXPECT_OK(tenure_workload_resume_hint(w->s, 1, text, 5, &size));
  EXPECT(size == 5 && memcmp(text, "im\0ge", 5) == 0);
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, w->s,
          tenure_workload_set_resume_hint(w->s, 1, large, sizeof(large), 0));
  REFUSED(TENURE_ERROR_NOT_FOUND, w->s, tenure_workload_set_resume_hint(w->s, 2, "x", 1, 0));
  REFUSED(TENURE_ERROR_NOT_FOUND, w->s, tenure_workload_resume_hint(w->s, 2, text, 8, &size));
  EXPECT_OK(tenure_workload_set_resume_hint(w->s, 1, large, sizeof(large) - 1, 0));
  EXPECT_OK(tenure_workload_set_resume_hint(w->s, 1, NULL, 0, MINUTE_US));
  EXPECT_OK(tenure_workload_resume_hint(w->s, 1, text, 8, &size));
  EXPECT(size == 0);
  free_world(w);
}

TEST(nodes_fail_and_name_who_lost_a_run) {
  world* w = make_world(NULL);
  tenure_workload j = job(2, w->vision, 4, HOUR_US);
  tenure_loss losses[8];
  tenure_node_info info = TENURE_NODE_INFO_INIT;
  size_t count = 99;
  uint32_t node = 0;
  submit(w, 1, w->vision, 4, HOUR_US, 0);
  j.resumable = 0;
  EXPECT_OK(tenure_workload_submit(w->s, &j, 0));
  submit(w, 3, w->vision, 8, HOUR_US, 0);
  pass(w, 0);
  EXPECT_OK(tenure_workload_nodes(w->s, 1, &node, 1, &count));
  EXPECT(count == 1);
  EXPECT_OK(tenure_node_describe(w->s, node, &info));
  EXPECT(info.run_count == 2 && info.occupied_gpus == 8 && info.health == TENURE_NODE_UP);
  REFUSED(TENURE_ERROR_BUFFER_TOO_SMALL, w->s,
          tenure_node_set_health(w->s, node, TENURE_NODE_DOWN, 0, 0, losses, 1, &count));
  EXPECT(count == 2);
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, w->s,
          tenure_node_set_health(w->s, node, TENURE_NODE_DOWN, 0, 0, NULL, 8, &count));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, w->s,
          tenure_node_set_health(w->s, node, TENURE_NODE_DOWN, 0, 0, losses, 8, NULL));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, w->s,
          tenure_node_set_health(w->s, node, 3, 0, 0, losses, 8, &count));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, w->s,
          tenure_node_set_health(w->s, node, TENURE_NODE_DOWN, 5, 0, losses, 8, &count));
  REFUSED(TENURE_ERROR_NOT_FOUND, w->s,
          tenure_node_set_health(w->s, 77, TENURE_NODE_DOWN, 0, 0, losses, 8, &count));
  EXPECT_OK(tenure_node_set_health(w->s, node, TENURE_NODE_DOWN, 0, MINUTE_US, losses, 8, &count));
  EXPECT(count == 2);
  EXPECT(losses[0].workload == 1 && losses[0].run == 1);
  EXPECT(losses[0].outcome == TENURE_OUTCOME_REQUEUED);
  EXPECT(losses[1].workload == 2 && losses[1].outcome == TENURE_OUTCOME_FAILED_WITH_NODE);
  EXPECT_OK(tenure_node_set_health(w->s, 1 - node, TENURE_NODE_DRAINING, MINUTE_US, MINUTE_US, NULL,
                                   0, &count));
  EXPECT_OK(tenure_node_describe(w->s, 1 - node, &info));
  EXPECT(info.health == TENURE_NODE_DRAINING && info.drained == 0);
  EXPECT_OK(tenure_run_ended(w->s, 3, 1, MINUTE_US, MINUTE_US));
  EXPECT_OK(tenure_node_describe(w->s, 1 - node, &info));
  EXPECT(info.drained == 1);
  free_world(w);
}

TEST(maintenance_is_announced_ahead) {
  world* w = make_world(NULL);
  tenure_maintenance_info info = TENURE_MAINTENANCE_INFO_INIT;
  tenure_node_info node = TENURE_NODE_INFO_INIT;
  tenure_scheduler_info all = TENURE_SCHEDULER_INFO_INIT;
  uint64_t id = 0, ids[2];
  uint32_t nodes[2], on[2] = {0, 0};
  size_t count = 0;
  nodes[0] = w->n2, nodes[1] = w->n1;
  EXPECT_OK(tenure_maintenance_announce(w->s, nodes, 2, HOUR_US, 2 * HOUR_US, "ops", "fw", 0, &id));
  EXPECT_OK(tenure_maintenance_list(w->s, ids, 2, &count));
  EXPECT(count == 1 && ids[0] == id);
  REFUSED(TENURE_ERROR_BUFFER_TOO_SMALL, w->s, tenure_maintenance_list(w->s, NULL, 0, &count));
  EXPECT_OK(tenure_maintenance_describe(w->s, id, &info, on, 2, &count));
  EXPECT(count == 2 && on[0] == w->n1 && on[1] == w->n2);
  EXPECT(info.from_us == HOUR_US && info.until_us == 2 * HOUR_US);
  REFUSED(TENURE_ERROR_BUFFER_TOO_SMALL, w->s,
          tenure_maintenance_describe(w->s, id, &info, on, 1, &count));
  submit(w, 1, w->vision, 8, 2 * HOUR_US, 0);
  submit(w, 2, w->vision, 8, 30 * MINUTE_US, 0);
  pass(w, 0);
  EXPECT_OK(tenure_node_describe(w->s, w->n1, &node));
  /* A little earlier, so that its runs have their grace. */
  EXPECT(node.in_maintenance == 0);
  EXPECT(node.closes_us < HOUR_US && node.closes_us > HOUR_US - MINUTE_US);
  EXPECT(w->d.start_count == 1 && w->starts[0].workload == 2);
  {
    tenure_explanation e = TENURE_EXPLANATION_INIT;
    EXPECT_OK(tenure_workload_explain(w->s, 1, &e));
    EXPECT(e.reason == TENURE_WAIT_MAINTENANCE);
  }
  EXPECT_OK(tenure_run_ended(w->s, 2, 1, HOUR_US, HOUR_US));
  EXPECT_OK(tenure_scheduler_decide(w->s, HOUR_US, &w->d));
  EXPECT_OK(tenure_node_describe(w->s, w->n1, &node));
  EXPECT(node.in_maintenance == 1 && node.health == TENURE_NODE_UP && node.drained == 1);
  EXPECT_OK(tenure_scheduler_describe(w->s, &all));
  EXPECT(all.free_gpus == 0 && all.healthy_gpus == 0 && all.declared_gpus == 16);
  EXPECT_OK(tenure_maintenance_cancel(w->s, id, HOUR_US));
  pass(w, HOUR_US);
  EXPECT(w->d.start_count == 1 && w->starts[0].workload == 1);
  REFUSED(TENURE_ERROR_NOT_FOUND, w->s, tenure_maintenance_cancel(w->s, id, HOUR_US));
  REFUSED(TENURE_ERROR_NOT_FOUND, w->s,
          tenure_maintenance_describe(w->s, id, &info, on, 2, &count));
  REFUSED(
      TENURE_ERROR_INVALID_ARGUMENT, w->s,
      tenure_maintenance_announce(w->s, nodes, 0, HOUR_US, 2 * HOUR_US, NULL, NULL, HOUR_US, &id));
  REFUSED(
      TENURE_ERROR_INVALID_ARGUMENT, w->s,
      tenure_maintenance_announce(w->s, NULL, 2, HOUR_US, 2 * HOUR_US, NULL, NULL, HOUR_US, &id));
  REFUSED(
      TENURE_ERROR_INVALID_ARGUMENT, w->s,
      tenure_maintenance_announce(w->s, nodes, 2, HOUR_US, 2 * HOUR_US, NULL, NULL, HOUR_US, NULL));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, w->s,
          tenure_maintenance_announce(w->s, nodes, 2, 2 * HOUR_US, 2 * HOUR_US, NULL, NULL, HOUR_US,
                                      &id));
  nodes[1] = 404;
  REFUSED(
      TENURE_ERROR_NOT_FOUND, w->s,
      tenure_maintenance_announce(w->s, nodes, 2, HOUR_US, 2 * HOUR_US, NULL, NULL, HOUR_US, &id));
  free_world(w);
}

TEST(decisions_that_do_not_fit_are_kept) {
  world* w = make_world(NULL);
  size_t i;
  uint64_t after;
  for (i = 1; i <= 4; ++i) submit(w, i, w->vision, 4, HOUR_US, 0);
  w->d.start_capacity = 3;
  EXPECT_STATUS(TENURE_ERROR_BUFFER_TOO_SMALL, tenure_scheduler_decide(w->s, 0, &w->d));
  EXPECT(w->d.start_count == 4 && w->d.node_count == 4);
  after = digest(w->s);
  REFUSED(TENURE_ERROR_FAILED_PRECONDITION, w->s, tenure_scheduler_decide(w->s, 0, &w->d));
  REFUSED(TENURE_ERROR_BUFFER_TOO_SMALL, w->s, tenure_scheduler_decisions(w->s, &w->d));
  w->d.start_capacity = 4, w->d.node_capacity = 3;
  REFUSED(TENURE_ERROR_BUFFER_TOO_SMALL, w->s, tenure_scheduler_decisions(w->s, &w->d));
  w->d.node_capacity = 4;
  EXPECT_OK(tenure_scheduler_decisions(w->s, &w->d));
  EXPECT(w->d.start_count == 4 && w->starts[3].workload == 4 && digest(w->s) == after);
  EXPECT_OK(tenure_scheduler_decisions(w->s, &w->d));
  EXPECT_OK(tenure_scheduler_decide(w->s, 0, &w->d));
  EXPECT(w->d.start_count == 0);
  /* Holds and promises are for information: without a buffer they are counted only. */
  w->d.holds = NULL, w->d.hold_capacity = 0;
  w->d.promises = NULL, w->d.promise_capacity = 0;
  for (i = 1; i <= 4; ++i) EXPECT_OK(tenure_run_started(w->s, i, 1, 0, 0));
  submit(w, 5, w->language, 4, HOUR_US, HOUR_US);
  EXPECT_OK(tenure_scheduler_decide(w->s, HOUR_US, &w->d));
  EXPECT(w->d.hold_count == 1 && w->d.stop_count == 1);
  free_world(w);
}

TEST(reconcile_closes_lost_ends_and_names_the_unknown) {
  world* w = make_world(NULL);
  tenure_run_ref running[2] = {{1, 1, 0}, {99, 1, 0}}, ended[4], unknown[4];
  tenure_reconcile_report r = TENURE_RECONCILE_REPORT_INIT;
  submit(w, 1, w->vision, 8, HOUR_US, 0);
  submit(w, 2, w->vision, 8, HOUR_US, 0);
  pass(w, 0);
  r.ended = ended, r.ended_capacity = 1;
  r.unknown = unknown, r.unknown_capacity = 2;
  REFUSED(TENURE_ERROR_BUFFER_TOO_SMALL, w->s,
          tenure_scheduler_reconcile(w->s, running, 2, MINUTE_US, &r));
  EXPECT(r.ended_count == 2 && r.unknown_count == 2);
  r.ended_capacity = 2, r.unknown_capacity = 1;
  REFUSED(TENURE_ERROR_BUFFER_TOO_SMALL, w->s,
          tenure_scheduler_reconcile(w->s, running, 2, MINUTE_US, &r));
  r.unknown_capacity = 2;
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, w->s,
          tenure_scheduler_reconcile(w->s, NULL, 2, MINUTE_US, &r));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, w->s,
          tenure_scheduler_reconcile(w->s, running, 2, MINUTE_US, NULL));
  REFUSED(TENURE_ERROR_OUT_OF_RANGE, w->s, tenure_scheduler_reconcile(w->s, running, 2, -1, &r));
  EXPECT_OK(tenure_scheduler_reconcile(w->s, running, 2, MINUTE_US, &r));
  EXPECT(r.ended_count == 1 && ended[0].workload == 2 && ended[0].run == 1);
  EXPECT(r.unknown_count == 1 && unknown[0].workload == 99);
  free_world(w);
}

TEST(a_snapshot_is_the_whole_state) {
  world* w = make_world(NULL);
  tenure_scheduler *copy = NULL, *clone = NULL;
  tenure_options* o = NULL;
  unsigned char* bytes;
  size_t size = 0, again = 0;
  submit(w, 1, w->vision, 8, HOUR_US, 0);
  pass(w, 0);
  submit(w, 2, w->vision, 4, 0, 5);
  EXPECT_STATUS(TENURE_ERROR_BUFFER_TOO_SMALL, tenure_scheduler_snapshot(w->s, NULL, 0, &size));
  EXPECT(size > 0);
  bytes = malloc(size);
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, w->s, tenure_scheduler_snapshot(w->s, NULL, 5, &again));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, w->s, tenure_scheduler_snapshot(w->s, bytes, size, NULL));
  EXPECT_OK(tenure_scheduler_snapshot(w->s, bytes, size, &again));
  EXPECT(again == size);
  EXPECT_OK(tenure_options_create("budget", &o));
  EXPECT_OK(tenure_scheduler_create(o, &copy));
  REFUSED(TENURE_ERROR_FAILED_PRECONDITION, copy, tenure_scheduler_restore(copy, bytes, size));
  tenure_scheduler_destroy(copy);
  EXPECT_OK(tenure_options_set(o, "lane_permille", "0"));
  EXPECT_OK(tenure_options_set(o, "quantum", "0s"));
  EXPECT_OK(tenure_scheduler_create(o, &copy));
  tenure_options_destroy(o);
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, copy, tenure_scheduler_restore(copy, NULL, size));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, copy, tenure_scheduler_restore(copy, bytes, size - 1));
  bytes[size / 2] ^= 1;
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, copy, tenure_scheduler_restore(copy, bytes, size));
  bytes[size / 2] ^= 1;
  EXPECT_OK(tenure_scheduler_restore(copy, bytes, size));
  EXPECT(digest(copy) == digest(w->s));
  REFUSED(TENURE_ERROR_FAILED_PRECONDITION, copy, tenure_scheduler_decisions(copy, &w->d));
  /* A clone goes its own way. */
  EXPECT_OK(tenure_scheduler_clone(w->s, &clone));
  EXPECT(digest(clone) == digest(w->s));
  EXPECT_OK(tenure_workload_cancel(clone, 1, 6));
  EXPECT(digest(clone) != digest(w->s) && digest(copy) == digest(w->s));
  tenure_scheduler_destroy(clone);
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, w->s, tenure_scheduler_clone(w->s, NULL));
  EXPECT_STATUS(TENURE_ERROR_INVALID_ARGUMENT, tenure_scheduler_clone(NULL, &clone));
  EXPECT(clone == NULL);
  tenure_scheduler_destroy(copy);
  free(bytes);
  free_world(w);
}

TEST(wrong_calls_change_nothing) {
  world* w = make_world(NULL);
  tenure_workload j = job(10, w->vision, 1, HOUR_US);
  tenure_explanation e = TENURE_EXPLANATION_INIT;
  tenure_standing standing = TENURE_STANDING_INIT;
  tenure_allocation_info allocation = TENURE_ALLOCATION_INFO_INIT;
  tenure_node_info node = TENURE_NODE_INFO_INIT;
  tenure_forecast forecast = TENURE_FORECAST_INIT;
  tenure_scheduler_info info = TENURE_SCHEDULER_INFO_INIT;
  uint32_t id = 0, closed = 0;
  size_t size = 0;
  char text[8];
  tenure_scheduler* s = w->s;
  submit(w, 1, w->vision, 8, HOUR_US, 100);
  pass(w, 100);
  EXPECT_OK(tenure_allocation_add(s, TENURE_ROOT, "old", 1.0, 100, &closed));
  EXPECT_OK(tenure_allocation_close(s, closed, 100));

  /* NULL. */
  EXPECT_STATUS(TENURE_ERROR_INVALID_ARGUMENT, tenure_workload_submit(NULL, &j, 100));
  EXPECT(strstr(tenure_last_error_message(), "tenure_workload_submit") != NULL);
  EXPECT_STATUS(TENURE_ERROR_INVALID_ARGUMENT, tenure_scheduler_decide(NULL, 100, &w->d));
  EXPECT_STATUS(TENURE_ERROR_INVALID_ARGUMENT, tenure_scheduler_restore(NULL, text, 8));
  EXPECT_STATUS(TENURE_ERROR_INVALID_ARGUMENT, tenure_scheduler_digest(NULL, NULL));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_scheduler_digest(s, NULL));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_scheduler_describe(s, NULL));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_workload_submit(s, NULL, 100));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_workload_explain(s, 1, NULL));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_workload_nodes(s, 1, NULL, 0, NULL));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_workload_nodes(s, 1, NULL, 5, &size));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_workload_resume_hint(s, 1, text, 8, NULL));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_workload_resume_hint(s, 1, NULL, 8, &size));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_workload_set_resume_hint(s, 1, NULL, 1, 100));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_workload_forecast(s, 1, HOUR_US, NULL));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_gpu_type_add(s, NULL, &id));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_gpu_type_add(s, "a100", NULL));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_domain_add(s, 0, NULL, &id));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_domain_add(s, 0, "rack", NULL));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_node_add(s, NULL, 8, w->type, 0, 100, &id));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_node_add(s, "n3", 8, w->type, 0, 100, NULL));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_node_describe(s, w->n1, NULL));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_node_find(s, NULL, &id));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_node_find(s, "n1", NULL));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_node_name(s, w->n1, text, 8, NULL));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_node_name(s, w->n1, NULL, 8, &size));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_allocation_add(s, 0, NULL, 1, 100, &id));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_allocation_add(s, 0, "x", 1, 100, NULL));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_allocation_describe(s, w->vision, NULL));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_allocation_standing(s, w->vision, 100, NULL));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_allocation_find(s, NULL, &id));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_allocation_find(s, "vision", NULL));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_allocation_path(s, w->vision, text, 8, NULL));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_scheduler_decide(s, 100, NULL));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_scheduler_decisions(s, NULL));

  /* A wrong size. */
  j.struct_size = 0;
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_workload_submit(s, &j, 100));
  j.struct_size = offsetof(tenure_workload, restorable) - 1;
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_workload_submit(s, &j, 100));
  j.struct_size = sizeof(j);
  e.struct_size = 8;
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_workload_explain(s, 1, &e));
  standing.struct_size = 1;
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s,
          tenure_allocation_standing(s, w->vision, 100, &standing));
  standing.struct_size = sizeof(standing);
  allocation.struct_size = 4;
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_allocation_describe(s, w->vision, &allocation));
  node.struct_size = 4;
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_node_describe(s, w->n1, &node));
  info.struct_size = 0;
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_scheduler_describe(s, &info));
  forecast.struct_size = 0;
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_workload_forecast(s, 1, HOUR_US, &forecast));
  forecast.struct_size = sizeof(forecast);
  w->d.struct_size = 16;
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_scheduler_decide(s, 100, &w->d));
  connect(w);
  w->d.starts = NULL;
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_scheduler_decide(s, 100, &w->d));
  connect(w);

  /* Ids that are unknown, stale or closed. */
  REFUSED(TENURE_ERROR_NOT_FOUND, s, tenure_workload_cancel(s, 404, 100));
  REFUSED(TENURE_ERROR_NOT_FOUND, s, tenure_workload_nodes(s, 404, NULL, 0, &size));
  REFUSED(TENURE_ERROR_NOT_FOUND, s, tenure_workload_forecast(s, 404, HOUR_US, &forecast));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_workload_forecast(s, 1, 0, &forecast));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_workload_forecast(s, 1, INT64_MAX, &forecast));
  REFUSED(TENURE_ERROR_NOT_FOUND, s, tenure_run_started(s, 404, 1, 100, 100));
  REFUSED(TENURE_ERROR_FAILED_PRECONDITION, s, tenure_run_started(s, 1, 1, 100, 100));
  REFUSED(TENURE_ERROR_FAILED_PRECONDITION, s, tenure_run_ended(s, 1, 2, 100, 100));
  REFUSED(TENURE_ERROR_FAILED_PRECONDITION, s, tenure_run_start_failed(s, 1, 1, 100));
  REFUSED(TENURE_ERROR_FAILED_PRECONDITION, s, tenure_run_stopped(s, 1, 1, 100, 100, NULL));
  REFUSED(TENURE_ERROR_FAILED_PRECONDITION, s, tenure_run_stop_failed(s, 1, 1, 100));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_run_ended(s, 1, 1, 101, 100));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_run_checkpointed(s, 1, 1, 99, 100));
  REFUSED(TENURE_ERROR_FAILED_PRECONDITION, s, tenure_workload_idle(s, 1, 1, 100));
  REFUSED(TENURE_ERROR_NOT_FOUND, s, tenure_workload_idle(s, 404, 1, 100));
  j.allocation = closed;
  REFUSED(TENURE_ERROR_FAILED_PRECONDITION, s, tenure_workload_submit(s, &j, 100));
  REFUSED(TENURE_ERROR_FAILED_PRECONDITION, s, tenure_allocation_close(s, closed, 100));
  REFUSED(TENURE_ERROR_FAILED_PRECONDITION, s,
          tenure_allocation_set_weight(s, closed, 2, 100, NULL, NULL, 100));
  REFUSED(TENURE_ERROR_FAILED_PRECONDITION, s,
          tenure_allocation_add(s, closed, "below", 1, 100, &id));
  REFUSED(TENURE_ERROR_FAILED_PRECONDITION, s,
          tenure_allocation_move(s, closed, w->language, NULL, NULL, 100));
  REFUSED(TENURE_ERROR_NOT_FOUND, s, tenure_allocation_find(s, "old", &id));
  j.allocation = TENURE_ROOT;
  REFUSED(TENURE_ERROR_FAILED_PRECONDITION, s, tenure_workload_submit(s, &j, 100));
  j.allocation = 404;
  REFUSED(TENURE_ERROR_NOT_FOUND, s, tenure_workload_submit(s, &j, 100));
  REFUSED(TENURE_ERROR_NOT_FOUND, s, tenure_allocation_add(s, 404, "x", 1, 100, &id));
  REFUSED(TENURE_ERROR_NOT_FOUND, s, tenure_allocation_describe(s, 404, NULL));
  REFUSED(TENURE_ERROR_NOT_FOUND, s, tenure_allocation_path(s, 404, text, 8, &size));
  REFUSED(TENURE_ERROR_NOT_FOUND, s, tenure_allocation_standing(s, 404, 100, &standing));
  REFUSED(TENURE_ERROR_NOT_FOUND, s, tenure_node_describe(s, 404, NULL));
  REFUSED(TENURE_ERROR_NOT_FOUND, s, tenure_node_name(s, 404, text, 8, &size));
  REFUSED(TENURE_ERROR_NOT_FOUND, s, tenure_node_find(s, "n404", &id));
  REFUSED(TENURE_ERROR_NOT_FOUND, s, tenure_node_add(s, "n3", 8, 404, 0, 100, &id));
  REFUSED(TENURE_ERROR_NOT_FOUND, s, tenure_node_add(s, "n3", 8, TENURE_ANY_GPU_TYPE, 0, 100, &id));
  REFUSED(TENURE_ERROR_NOT_FOUND, s, tenure_node_add(s, "n3", 8, w->type, 404, 100, &id));
  REFUSED(TENURE_ERROR_NOT_FOUND, s, tenure_domain_add(s, 404, "rack", &id));
  REFUSED(TENURE_ERROR_NOT_FOUND, s, tenure_gpu_type_set_rate(s, 65536, 500, 100));

  /* Values. */
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_gpu_type_add(s, "", &id));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_gpu_type_set_rate(s, w->type, 0, 100));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_node_add(s, "n3", 0, w->type, 0, 100, &id));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_node_add(s, "n3", 1025, w->type, 0, 100, &id));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_node_add(s, "", 8, w->type, 0, 100, &id));
  REFUSED(TENURE_ERROR_ALREADY_EXISTS, s, tenure_node_add(s, "n1", 8, w->type, 0, 100, &id));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_allocation_add(s, 0, "a/b", 1, 100, &id));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_allocation_add(s, 0, "x", -1, 100, &id));
  REFUSED(TENURE_ERROR_ALREADY_EXISTS, s, tenure_allocation_add(s, 0, "vision", 1, 100, &id));
  REFUSED(TENURE_ERROR_FAILED_PRECONDITION, s,
          tenure_allocation_add(s, w->vision, "below", 1, 100, &id));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s,
          tenure_allocation_boost(s, w->vision, 3, 200, 200, "me", "why", 100));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s,
          tenure_allocation_move(s, w->vision, w->vision, "me", "why", 100));
  REFUSED(TENURE_ERROR_OUT_OF_RANGE, s, tenure_allocation_add(s, 0, "x", 1, 99, &id));
  REFUSED(TENURE_ERROR_OUT_OF_RANGE, s, tenure_scheduler_decide(s, 99, &w->d));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_scheduler_decide(s, INT64_MAX, &w->d));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, s, tenure_scheduler_decide(s, INT64_MIN, &w->d));
  REFUSED(TENURE_ERROR_BUFFER_TOO_SMALL, s, tenure_node_name(s, w->n1, text, 2, &size));
  EXPECT(size == 2);
  EXPECT_OK(tenure_node_name(s, w->n1, text, 3, &size));
  EXPECT(strcmp(text, "n1") == 0);
  REFUSED(TENURE_ERROR_BUFFER_TOO_SMALL, s, tenure_workload_nodes(s, 1, NULL, 0, &size));
  EXPECT(size == 1);
  free_world(w);
}

#define BAD_FIELD(field, value)                                                         \
  do {                                                                                  \
    tenure_workload j_ = job(10, w->vision, 1, HOUR_US);                                \
    j_.field = (value);                                                                 \
    REFUSED(TENURE_ERROR_INVALID_ARGUMENT, w->s, tenure_workload_submit(w->s, &j_, 0)); \
  } while (0)

TEST(every_field_of_a_workload_is_checked) {
  world* w = make_world(NULL);
  tenure_workload j = job(10, w->vision, 1, HOUR_US);
  BAD_FIELD(workload_class, -1);
  BAD_FIELD(workload_class, 5);
  BAD_FIELD(topology, 2);
  BAD_FIELD(topology_level, 256);
  BAD_FIELD(nodes, 0);
  BAD_FIELD(nodes, UINT32_MAX);
  BAD_FIELD(gpus_per_node, 0);
  BAD_FIELD(gpus_per_node, -8);
  BAD_FIELD(gpus_per_node, INT32_MAX);
  BAD_FIELD(minimum_us, -1);
  BAD_FIELD(minimum_us, INT64_MAX);
  BAD_FIELD(checkpoint_interval_us, INT64_MIN);
  BAD_FIELD(restart_overhead_us, -1);
  BAD_FIELD(name_size, 5); /* of a name that is NULL */
  j.name = "x";
  j.name_size = 5000;
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, w->s, tenure_workload_submit(w->s, &j, 0));
  j.name_size = 0;
  j.gpu_type = 9;
  REFUSED(TENURE_ERROR_NOT_FOUND, w->s, tenure_workload_submit(w->s, &j, 0));
  j.gpu_type = w->type;
  EXPECT_OK(tenure_workload_submit(w->s, &j, 0));
  REFUSED(TENURE_ERROR_ALREADY_EXISTS, w->s, tenure_workload_submit(w->s, &j, 0));
  free_world(w);
}

/* The workload of a caller that was built before it had `restorable`. */
TEST(structs_of_earlier_releases_are_understood) {
  world* w = make_world(NULL);
  tenure_workload j = job(1, w->vision, 1, HOUR_US);
  j.resumable = 0;
  j.restorable = 1; /* what lies behind an older struct is not looked at */
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, w->s, tenure_workload_submit(w->s, &j, 0));
  j.struct_size = offsetof(tenure_workload, restorable);
  EXPECT_OK(tenure_workload_submit(w->s, &j, 0));
  free_world(w);
}

/* Structs of a caller that was built with a later header. */
typedef struct later_workload {
  tenure_workload now;
  int64_t later;
} later_workload;
typedef struct later_explanation {
  tenure_explanation now;
  int64_t later;
} later_explanation;

TEST(structs_of_later_releases_are_understood) {
  world* w = make_world(NULL);
  later_workload j;
  later_explanation e;
  j.now = job(1, w->vision, 1, HOUR_US);
  j.now.struct_size = sizeof(j);
  j.later = 5;
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, w->s, tenure_workload_submit(w->s, &j.now, 0));
  j.later = 0;
  EXPECT_OK(tenure_workload_submit(w->s, &j.now, 0));
  e.now.struct_size = sizeof(e);
  e.later = 77;
  EXPECT_OK(tenure_workload_explain(w->s, 1, &e.now));
  EXPECT(e.now.workload == 1 && e.now.struct_size == sizeof(e) && e.later == 0);
  free_world(w);
}

TEST(trees_are_edited_and_described) {
  world* w = make_world(NULL);
  tenure_allocation_info info = TENURE_ALLOCATION_INFO_INIT;
  tenure_scheduler_info all = TENURE_SCHEDULER_INFO_INIT;
  tenure_node_info node = TENURE_NODE_INFO_INIT;
  uint32_t nlp, sub, rack, found = 99;
  size_t size = 0;
  char path[32];
  EXPECT_OK(tenure_allocation_add(w->s, TENURE_ROOT, "nlp", 3.5, 0, &nlp));
  EXPECT_OK(tenure_allocation_add(w->s, nlp, "pretraining", 1, 0, &sub));
  EXPECT_OK(tenure_allocation_path(w->s, sub, path, sizeof(path), &size));
  EXPECT(strcmp(path, "nlp/pretraining") == 0 && size == strlen(path));
  EXPECT_OK(tenure_allocation_find(w->s, path, &found));
  EXPECT(found == sub);
  EXPECT_OK(tenure_allocation_find(w->s, "", &found));
  EXPECT(found == TENURE_ROOT);
  EXPECT_OK(tenure_allocation_describe(w->s, nlp, &info));
  EXPECT(info.weight == 3.5 && info.child_count == 1 && info.leaf == 0 && info.depth == 1);
  EXPECT_OK(tenure_allocation_set_weight(w->s, nlp, 7, 10, "ops", "grant", 0));
  EXPECT_OK(tenure_allocation_boost(w->s, w->vision, 9, 20, 30, "ops", "deadline", 0));
  EXPECT_OK(tenure_allocation_move(w->s, sub, w->language, "ops", NULL, 0));
  EXPECT_OK(tenure_scheduler_decide(w->s, 25, &w->d));
  EXPECT_OK(tenure_allocation_describe(w->s, nlp, &info));
  EXPECT(info.weight == 7 && info.child_count == 0 && info.leaf == 1);
  EXPECT_OK(tenure_allocation_describe(w->s, w->vision, &info));
  EXPECT(info.weight == 9);
  EXPECT_OK(tenure_allocation_describe(w->s, sub, &info));
  EXPECT(info.parent == w->language && info.depth == 2);
  EXPECT_OK(tenure_domain_add(w->s, TENURE_ROOT, "rack-1", &rack));
  REFUSED(TENURE_ERROR_ALREADY_EXISTS, w->s,
          tenure_domain_add(w->s, TENURE_ROOT, "rack-1", &found));
  EXPECT_OK(tenure_node_add(w->s, "n3", 4, w->type, rack, 25, &found));
  EXPECT_OK(tenure_node_describe(w->s, found, &node));
  EXPECT(node.gpus == 4 && node.domain == rack && node.type == w->type);
  EXPECT_OK(tenure_gpu_type_set_rate(w->s, w->type, 500, 25));
  EXPECT_OK(tenure_scheduler_describe(w->s, &all));
  EXPECT(all.node_count == 3 && all.declared_gpus == 20 && all.free_gpus == 20);
  EXPECT(all.allocation_count == 5 && all.domain_count == 2 && all.gpu_type_count == 1);
  EXPECT(all.now_us == 25 && all.workload_count == 0);
  free_world(w);
}

TEST(forecast_and_what_if_change_nothing) {
  world* w = make_world(NULL);
  tenure_forecast f = TENURE_FORECAST_INIT;
  tenure_what_if what = TENURE_WHAT_IF_INIT;
  tenure_workload j = job(9, w->language, 8, HOUR_US);
  uint32_t nodes[4];
  tenure_stop stops[4];
  uint64_t before;
  submit(w, 1, w->vision, 8, HOUR_US, 0);
  submit(w, 2, w->vision, 8, HOUR_US, 0);
  pass(w, 0);
  submit(w, 3, w->language, 8, HOUR_US, 0);
  pass(w, 0);
  before = digest(w->s);
  EXPECT_OK(tenure_workload_forecast(w->s, 3, 24 * HOUR_US, &f));
  EXPECT(f.start_us >= HOUR_US && f.start_us < 2 * HOUR_US && f.promised == 0 && f.started == 0);
  EXPECT_OK(tenure_workload_forecast(w->s, 3, MINUTE_US, &f));
  EXPECT(f.start_us == TENURE_NEVER && f.reason == TENURE_WAIT_NO_CAPACITY);
  EXPECT_OK(tenure_workload_forecast(w->s, 1, HOUR_US, &f));
  EXPECT(f.started == 1 && f.start_us == 0);
  what.nodes = nodes, what.node_capacity = 4;
  what.stops = stops, what.stop_capacity = 4;
  EXPECT_OK(tenure_workload_what_if(w->s, &j, 0, &what));
  EXPECT(what.starts_now == 0 && what.held == 0 && what.reason == TENURE_WAIT_NO_CAPACITY);
  EXPECT_OK(tenure_workload_what_if(w->s, &j, 2 * HOUR_US, &what));
  EXPECT(digest(w->s) == before);
  EXPECT_OK(tenure_workload_cancel(w->s, 3, 0));
  EXPECT_OK(tenure_workload_what_if(w->s, &j, 2 * HOUR_US, &what));
  EXPECT(what.held == 1 && what.stop_count == 1 && what.node_count == 1);
  EXPECT(stops[0].beneficiary == 9);
  what.stop_capacity = 0, what.stops = NULL;
  REFUSED(TENURE_ERROR_BUFFER_TOO_SMALL, w->s,
          tenure_workload_what_if(w->s, &j, 2 * HOUR_US, &what));
  EXPECT(what.stop_count == 1);
  j.id = 1;
  what.stop_capacity = 4, what.stops = stops;
  REFUSED(TENURE_ERROR_ALREADY_EXISTS, w->s, tenure_workload_what_if(w->s, &j, 2 * HOUR_US, &what));
  what.struct_size = 3;
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, w->s, tenure_workload_what_if(w->s, &j, 0, &what));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, w->s, tenure_workload_what_if(w->s, &j, 0, NULL));
  free_world(w);
}

typedef struct log_record {
  int32_t level;
  char text[4096];
  tenure_scheduler* scheduler;
  tenure_status inner;
} log_record;

static void record(void* user, int32_t level, const char* message) {
  log_record* log = user;
  log->level = level;
  strncat(log->text, message, sizeof(log->text) - strlen(log->text) - 1);
  strncat(log->text, "\n", sizeof(log->text) - strlen(log->text) - 1);
  if (log->scheduler != NULL) log->inner = tenure_workload_cancel(log->scheduler, 1, 0);
}

TEST(the_log_hears_refusals_and_decisions) {
  log_record log = {0, "", NULL, TENURE_OK};
  tenure_options* o = NULL;
  world* w;
  EXPECT_OK(tenure_options_create("budget", &o));
  EXPECT_OK(tenure_options_set_log(o, TENURE_LOG_INFO, record, &log));
  w = make_world(o);
  submit(w, 1, w->vision, 8, HOUR_US, 0);
  pass(w, 0);
  EXPECT(log.level == TENURE_LOG_INFO);
  EXPECT(strstr(log.text, "start run 1 of workload 1 on n1, 8 GPUs each") != NULL);
  log.text[0] = 0;
  REFUSED(TENURE_ERROR_NOT_FOUND, w->s, tenure_workload_cancel(w->s, 5, 0));
  EXPECT(log.level == TENURE_LOG_WARNING && strstr(log.text, "workload 5") != NULL);
  /* A log callback is a callback: it must not come back. */
  log.scheduler = w->s;
  REFUSED(TENURE_ERROR_NOT_FOUND, w->s, tenure_workload_cancel(w->s, 5, 0));
  EXPECT(log.inner == TENURE_ERROR_REENTRANT);
  tenure_options_destroy(o);
  free_world(w);
}

/* On two nodes of 8: tightest fit in the order of the queue leaves the last request waiting. */
TEST(the_plan_search_says_what_it_did) {
  static const int32_t gpus[4] = {4, 2, 6, 4};
  static const char* const options[][2] = {{"lane_permille", "0"},
                                           {"search_trials", "64"},
                                           {"search_seed", "5"},
                                           {"search_backend", "cpu"}};
  log_record log = {0, "", NULL, TENURE_OK};
  tenure_search_record r = TENURE_SEARCH_RECORD_INIT;
  tenure_options* o = NULL;
  char line[128];
  size_t i;
  world* w = make_world(NULL);
  REFUSED(TENURE_ERROR_FAILED_PRECONDITION, w->s, tenure_scheduler_search(w->s, &r));
  pass(w, 0);
  EXPECT_OK(tenure_scheduler_search(w->s, &r)); /* it is off */
  EXPECT(r.outcome == TENURE_SEARCH_NONE && r.trials == 0 && r.backend == TENURE_SEARCH_ON_NONE);
  free_world(w);
  EXPECT_OK(tenure_options_create("budget", &o));
  for (i = 0; i < 4; ++i) EXPECT_OK(tenure_options_set(o, options[i][0], options[i][1]));
  EXPECT_OK(tenure_options_set_log(o, TENURE_LOG_INFO, record, &log));
  w = make_world(o);
  for (i = 0; i < 4; ++i) submit(w, i + 1, w->vision, gpus[i], 4 * HOUR_US, 0);
  pass(w, 0);
  EXPECT(w->d.start_count == 4);
  EXPECT_OK(tenure_scheduler_search(w->s, &r));
  EXPECT(r.outcome == TENURE_SEARCH_TAKEN && r.backend == TENURE_SEARCH_ON_CPU);
  EXPECT(r.trials > 0 && r.trials <= 64 && r.seed == 5 && r.winner > 0 && r.winner < r.trials);
  EXPECT(r.price_gpu_min < r.price_before_gpu_min && r.faults == 0);
  sprintf(line, "plan search: taken, %u trials of seed 5 on cpu, winner %u, price ",
          (unsigned)r.trials, (unsigned)r.winner);
  EXPECT(strstr(log.text, line) != NULL);
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, w->s, tenure_scheduler_search(w->s, NULL));
  r.struct_size = 3;
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, w->s, tenure_scheduler_search(w->s, &r));
  EXPECT(strcmp(tenure_search_outcome_name(TENURE_SEARCH_NO_GAIN), "no-gain") == 0);
  EXPECT(strcmp(tenure_search_outcome_name(5), "unknown") == 0);
  EXPECT(strcmp(tenure_search_backend_name(TENURE_SEARCH_ON_CUDA), "cuda") == 0);
  EXPECT(strcmp(tenure_search_backend_name(3), "unknown") == 0);
  tenure_options_destroy(o);
  free_world(w);
}

/* A policy of hooks: who used least is first; nobody is stopped but the youngest. */
typedef struct hook_state {
  tenure_scheduler* scheduler;
  tenure_status inner_change, inner_question, inner_clone;
  int ranks, tiers, preempts, costs, scores;
} hook_state;

static void come_back(hook_state* h) {
  uint64_t value = 0;
  tenure_scheduler* clone = NULL;
  if (h->scheduler == NULL) return;
  h->inner_change = tenure_workload_cancel(h->scheduler, 1, HOUR_US);
  h->inner_question = tenure_scheduler_digest(h->scheduler, &value);
  h->inner_clone = tenure_scheduler_clone(h->scheduler, &clone);
  tenure_scheduler_destroy(h->scheduler); /* must do nothing */
}

static int64_t rank_by_use(void* user, const tenure_allocation_view* a) {
  hook_state* h = user;
  ++h->ranks;
  come_back(h);
  return a->used_gpu_us;
}
static int32_t one_tier(void* user, const tenure_requester_view* r) {
  hook_state* h = user;
  ++h->tiers;
  return r->gpus > 0 ? 1 : 2;
}
static int32_t may_always(void* user, const tenure_requester_view* r, const tenure_run_view* v) {
  hook_state* h = user;
  ++h->preempts;
  return r->allocation != v->allocation;
}
static int64_t youngest(void* user, const tenure_run_view* v) {
  hook_state* h = user;
  ++h->costs;
  return v->now_us - v->start_us;
}
static int64_t emptiest(void* user, const tenure_node_view* n) {
  hook_state* h = user;
  ++h->scores;
  return n->free_gpus;
}

TEST(hooks_are_asked_and_cannot_come_back) {
  hook_state state = {NULL, TENURE_OK, TENURE_OK, TENURE_OK, 0, 0, 0, 0, 0};
  tenure_policy_hooks hooks = TENURE_POLICY_HOOKS_INIT;
  tenure_options* o = NULL;
  world* w;
  uint64_t before;
  hooks.user = &state;
  hooks.rank_key = rank_by_use;
  hooks.tier = one_tier;
  hooks.may_preempt = may_always;
  hooks.victim_cost = youngest;
  hooks.node_score = emptiest;
  EXPECT_OK(tenure_options_create("budget", &o));
  EXPECT_OK(tenure_options_set(o, "lane_permille", "0"));
  hooks.struct_size = 3;
  EXPECT_STATUS(TENURE_ERROR_INVALID_ARGUMENT, tenure_options_set_hooks(o, &hooks));
  hooks.struct_size = sizeof(hooks);
  EXPECT_OK(tenure_options_set_hooks(o, &hooks));
  w = make_world(o);
  submit(w, 1, w->vision, 4, HOUR_US, 0);
  submit(w, 2, w->vision, 4, HOUR_US, 0);
  pass(w, 0);
  EXPECT(w->d.start_count == 2 && w->nodes[0] != w->nodes[1]); /* spread, not packed */
  submit(w, 3, w->vision, 4, HOUR_US, MINUTE_US);
  pass(w, MINUTE_US);
  submit(w, 4, w->vision, 4, HOUR_US, 2 * MINUTE_US);
  pass(w, 2 * MINUTE_US);
  submit(w, 5, w->language, 4, HOUR_US, 2 * HOUR_US);
  EXPECT_OK(tenure_scheduler_decide(w->s, 2 * HOUR_US, &w->d));
  EXPECT(w->d.stop_count == 1 && w->stops[0].workload == 4);
  EXPECT(state.ranks > 0 && state.tiers > 0 && state.preempts > 0 && state.costs > 0 &&
         state.scores > 0);
  /* Every call of the scheduler from inside a hook is refused, the one under way is not harmed. */
  before = digest(w->s);
  state.scheduler = w->s;
  {
    tenure_standing standing = TENURE_STANDING_INIT;
    EXPECT_OK(tenure_allocation_standing(w->s, w->vision, 2 * HOUR_US, &standing));
  }
  EXPECT(state.inner_change == TENURE_ERROR_REENTRANT);
  EXPECT(state.inner_question == TENURE_ERROR_REENTRANT);
  EXPECT(state.inner_clone == TENURE_ERROR_REENTRANT);
  EXPECT(digest(w->s) == before);
  state.scheduler = NULL;
  tenure_options_destroy(o);
  free_world(w);
}

/* Hooks that say what the preset says decide as it does; absurd answers break nothing. */
static int64_t absurd_rank(void* user, const tenure_allocation_view* a) {
  (void)user;
  return a->allocation % 2 ? INT64_MIN : INT64_MAX;
}
static int64_t absurd_cost(void* user, const tenure_run_view* v) {
  (void)user;
  return v->workload % 2 ? INT64_MIN : INT64_MAX;
}
static int64_t absurd_score(void* user, const tenure_node_view* n) {
  (void)user;
  return n->free_gpus % 2 ? INT64_MAX : INT64_MIN;
}
static int32_t absurd_tier(void* user, const tenure_requester_view* r) {
  (void)user;
  return r->gpus % 2 ? INT32_MIN : INT32_MAX;
}

TEST(absurd_hooks_break_nothing) {
  tenure_policy_hooks hooks = TENURE_POLICY_HOOKS_INIT;
  tenure_options* o = NULL;
  world* w;
  int64_t now = 0;
  uint64_t id = 0;
  size_t i, stops = 0;
  hooks.rank_key = absurd_rank;
  hooks.tier = absurd_tier;
  hooks.victim_cost = absurd_cost;
  hooks.node_score = absurd_score;
  EXPECT_OK(tenure_options_create("ai2", &o));
  EXPECT_OK(tenure_options_set_hooks(o, &hooks));
  w = make_world(o);
  for (; now < 40 * HOUR_US; now += 30 * MINUTE_US) {
    ++id;
    submit(w, id, id % 3 ? w->vision : w->language, 1 + (int32_t)(id % 8), HOUR_US, now);
    pass(w, now);
    stops += w->d.stop_count;
    for (i = 0; i < w->d.stop_count; ++i) {
      EXPECT_OK(tenure_run_stopped(w->s, w->stops[i].workload, w->stops[i].run, now, now, NULL));
    }
  }
  EXPECT(stops > 0);
  tenure_options_destroy(o);
  free_world(w);
}

TEST(names_may_hold_any_bytes) {
  world* w = make_world(NULL);
  tenure_workload j = job(1, w->vision, 1, HOUR_US);
  j.name = "a\0b";
  j.name_size = 3;
  EXPECT_OK(tenure_workload_submit(w->s, &j, 0));
  free_world(w);
}

int main(int argc, char** argv) {
  static const harness_test tests[] = {
      ENTRY(library_is_that_of_the_header),
      ENTRY(names_are_texts_and_never_null),
      ENTRY(options_are_text_and_describe_themselves),
      ENTRY(a_job_runs_and_another_takes_its_place),
      ENTRY(a_resume_hint_comes_back_until_the_workload_is_over),
      ENTRY(nodes_fail_and_name_who_lost_a_run),
      ENTRY(maintenance_is_announced_ahead),
      ENTRY(decisions_that_do_not_fit_are_kept),
      ENTRY(reconcile_closes_lost_ends_and_names_the_unknown),
      ENTRY(a_snapshot_is_the_whole_state),
      ENTRY(wrong_calls_change_nothing),
      ENTRY(every_field_of_a_workload_is_checked),
      ENTRY(structs_of_earlier_releases_are_understood),
      ENTRY(structs_of_later_releases_are_understood),
      ENTRY(trees_are_edited_and_described),
      ENTRY(forecast_and_what_if_change_nothing),
      ENTRY(the_log_hears_refusals_and_decisions),
      ENTRY(the_plan_search_says_what_it_did),
      ENTRY(hooks_are_asked_and_cannot_come_back),
      ENTRY(absurd_hooks_break_nothing),
      ENTRY(names_may_hold_any_bytes),
  };
  return harness_main(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
