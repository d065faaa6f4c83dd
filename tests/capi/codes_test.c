/* SPDX-License-Identifier: Apache-2.0
 *
 * Every code that tenure.h defines is given or taken by a real call, and every function that takes
 * a scheduler refuses what it must, as it should. header_names.inc holds the names that the header
 * has: a code or a function that is added there and not here fails.
 */
#define TENURE_EXPERIMENTAL
#include <stdlib.h>

#include "failing.h"
#include "harness.h"
#include "job.h"

#define MINUTE_US (INT64_C(60) * 1000 * 1000)
#define HOUR_US (60 * MINUTE_US)

/* ---- What was seen ----------------------------------------------------------------------------
 */

typedef struct code {
  const char* name;
  int seen;
} code;

static code codes[] = {
#define HEADER_CODE(name) {#name, 0},
#define HEADER_CALL(name)
#include "header_names.inc"
#undef HEADER_CODE
#undef HEADER_CALL
};
#define CODES (sizeof(codes) / sizeof(codes[0]))

static const char* const functions[] = {
#define HEADER_CODE(name)
#define HEADER_CALL(name) #name,
#include "header_names.inc"
#undef HEADER_CODE
#undef HEADER_CALL
};
#define FUNCTIONS (sizeof(functions) / sizeof(functions[0]))

/* Codes that no call gives here, and why. */
static const char* const elsewhere[][2] = {
    {"TENURE_SEARCH_ON_CUDA", "needs a GPU: tests/plan/cuda"},
    {"TENURE_SEARCH_FAILED", "the engine describes no pass that the CPU cannot search"},
};

static void see(const char* name) {
  size_t i;
  for (i = 0; i < CODES; ++i) {
    if (strcmp(codes[i].name, name) == 0) {
      codes[i].seen = 1;
      return;
    }
  }
  fprintf(stderr, "no such code: %s\n", name);
  ++harness_failures;
}

/* `value` is `code`, which counts as seen. */
#define SEE(code, value)                                                                     \
  do {                                                                                       \
    const long got_ = (long)(value);                                                         \
    if (got_ == (long)(code)) {                                                              \
      see(#code);                                                                            \
    } else {                                                                                 \
      fprintf(stderr, "%s:%d: %s is %ld, expected %s; last error: %s\n", __FILE__, __LINE__, \
              #value, got_, #code, tenure_last_error_message());                             \
      ++harness_failures;                                                                    \
    }                                                                                        \
  } while (0)

/* All codes that begin with `prefix` were seen, or cannot be. */
static void all_seen(const char* prefix) {
  size_t i, j, count = 0;
  for (i = 0; i < CODES; ++i) {
    int excused = 0;
    if (strncmp(codes[i].name, prefix, strlen(prefix)) != 0) continue;
    ++count;
    for (j = 0; j < sizeof(elsewhere) / sizeof(elsewhere[0]); ++j) {
      excused = excused || strcmp(codes[i].name, elsewhere[j][0]) == 0;
    }
    if (codes[i].seen == excused) {
      fprintf(stderr, "%s was %s\n", codes[i].name, excused ? "given after all" : "never given");
      ++harness_failures;
    }
  }
  EXPECT(count > 1);
}

/* ---- A scheduler in the middle of its work ----------------------------------------------------
 */

/* Three nodes of eight GPUs, teams vision and language; work in every state that reports are about.
 * Hooks and log are the caller's options. */
static struct story {
  tenure_scheduler* s;
  int64_t now_us;
  uint32_t type, rack, nodes[3], vision, language, group, spare;
  uint64_t running, starting, stopping, waiting, session, maintenance;
  tenure_decisions d;
  tenure_start starts[32];
  tenure_stop stops[32];
  tenure_hold holds[32];
  tenure_promise promises[32];
  uint32_t node_list[64];
  unsigned char* snapshot;
  size_t snapshot_size;
} the;

static uint64_t digest(const tenure_scheduler* s) {
  uint64_t value = 0;
  EXPECT_OK(tenure_scheduler_digest(s, &value));
  return value;
}

static void connect(void) {
  const tenure_decisions fresh = TENURE_DECISIONS_INIT;
  the.d = fresh;
  the.d.starts = the.starts, the.d.start_capacity = 32;
  the.d.stops = the.stops, the.d.stop_capacity = 32;
  the.d.holds = the.holds, the.d.hold_capacity = 32;
  the.d.promises = the.promises, the.d.promise_capacity = 32;
  the.d.nodes = the.node_list, the.d.node_capacity = 64;
}

static tenure_options* make_options(const char* const (*values)[2], size_t count) {
  tenure_options* o = NULL;
  size_t i;
  EXPECT_OK(tenure_options_create("budget", &o));
  EXPECT_OK(tenure_options_set(o, "lane_permille", "0"));
  EXPECT_OK(tenure_options_set(o, "quantum", "0s"));
  EXPECT_OK(tenure_options_set(o, "big_gap", "0s"));
  for (i = 0; i < count; ++i) EXPECT_OK(tenure_options_set(o, values[i][0], values[i][1]));
  return o;
}

/* An empty site of `nodes` nodes (at most 3). Takes the options; NULL: the usual ones. */
static void open_site(tenure_options* options, size_t nodes) {
  static const char* const names[] = {"n1", "n2", "n3"};
  size_t i;
  memset(&the, 0, sizeof(the));
  if (options == NULL) options = make_options(NULL, 0);
  EXPECT_OK(tenure_scheduler_create(options, &the.s));
  tenure_options_destroy(options);
  EXPECT_OK(tenure_gpu_type_add(the.s, "h100", &the.type));
  EXPECT_OK(tenure_domain_add(the.s, TENURE_ROOT, "rack-1", &the.rack));
  for (i = 0; i < nodes; ++i) {
    EXPECT_OK(tenure_node_add(the.s, names[i], 8, the.type, the.rack, 0, &the.nodes[i]));
  }
  EXPECT_OK(tenure_allocation_add(the.s, TENURE_ROOT, "vision", 1, 0, &the.vision));
  EXPECT_OK(tenure_allocation_add(the.s, TENURE_ROOT, "language", 1, 0, &the.language));
  connect();
}

static void close_site(void) {
  tenure_scheduler_destroy(the.s);
  free(the.snapshot);
  memset(&the, 0, sizeof(the));
}

static void submit(uint64_t id, uint32_t allocation, int32_t gpus, int64_t minimum_us) {
  const tenure_workload j = job(id, allocation, gpus, minimum_us);
  EXPECT_OK(tenure_workload_submit(the.s, &j, the.now_us));
}

static void submit_class(uint64_t id, uint32_t allocation, int32_t workload_class, int32_t gpus,
                         int64_t minimum_us) {
  tenure_workload j = job(id, allocation, gpus, minimum_us);
  j.workload_class = workload_class;
  EXPECT_OK(tenure_workload_submit(the.s, &j, the.now_us));
}

static void decide(int64_t now_us) {
  the.now_us = now_us;
  EXPECT_OK(tenure_scheduler_decide(the.s, now_us, &the.d));
}

/* A pass whose starts are confirmed. */
static void pass(int64_t now_us) {
  size_t i;
  decide(now_us);
  for (i = 0; i < the.d.start_count; ++i) {
    EXPECT_OK(tenure_run_started(the.s, the.starts[i].workload, the.starts[i].run, now_us, now_us));
  }
}

/* The outcome of the i-th stop. */
static int32_t stopped(size_t i) {
  int32_t outcome = -1;
  EXPECT_OK(tenure_run_stopped(the.s, the.stops[i].workload, the.stops[i].run, the.now_us,
                               the.now_us, &outcome));
  return outcome;
}

static tenure_explanation explain(uint64_t id) {
  tenure_explanation e = TENURE_EXPLANATION_INIT;
  EXPECT_OK(tenure_workload_explain(the.s, id, &e));
  return e;
}

static void take_snapshot(void) {
  size_t size = 0;
  EXPECT_STATUS(TENURE_ERROR_BUFFER_TOO_SMALL, tenure_scheduler_snapshot(the.s, NULL, 0, &size));
  the.snapshot = realloc(the.snapshot, size);
  EXPECT_OK(tenure_scheduler_snapshot(the.s, the.snapshot, size, &the.snapshot_size));
}

static void open_story(tenure_options* options) {
  open_site(options, 3);
  EXPECT_OK(tenure_allocation_add(the.s, TENURE_ROOT, "group", 1, 0, &the.group));
  EXPECT_OK(tenure_allocation_add(the.s, the.group, "spare", 1, 0, &the.spare));
  submit(1, the.vision, 8, HOUR_US);
  submit(2, the.vision, 8, HOUR_US);
  submit_class(3, the.vision, TENURE_CLASS_INTERACTIVE, 4, 8 * HOUR_US);
  pass(0);
  EXPECT(the.d.start_count == 3);
  the.now_us = 2 * HOUR_US;
  submit(4, the.language, 8, HOUR_US);
  submit(5, the.vision, 8, HOUR_US);
  submit(6, the.spare, 2, HOUR_US);
  decide(the.now_us);
  EXPECT(the.d.stop_count == 1 && the.d.start_count == 1 && the.starts[0].workload == 6);
  the.stopping = the.stops[0].workload;
  the.running = 3 - the.stopping;
  the.starting = 6;
  the.waiting = 5;
  the.session = 3;
  EXPECT_OK(tenure_maintenance_announce(the.s, the.nodes, 1, 20 * HOUR_US, 21 * HOUR_US, NULL, NULL,
                                        the.now_us, &the.maintenance));
  EXPECT(explain(the.running).state == TENURE_STATE_RUNNING);
  EXPECT(explain(the.starting).state == TENURE_STATE_STARTING);
  EXPECT(explain(the.stopping).state == TENURE_STATE_STOPPING);
  EXPECT(explain(the.waiting).state == TENURE_STATE_PENDING);
  take_snapshot();
}

/* ---- One right call of every function ---------------------------------------------------------
 */

static struct out {
  uint32_t id, nodes[64];
  uint64_t id64, ids[8];
  size_t count;
  char text[64];
  unsigned char bytes[1 << 16];
  tenure_loss losses[64];
  tenure_run_ref ended[64], unknown[8];
  tenure_stop stops[64];
} out;

#define CALL(name, ...)                                                   \
  static tenure_status call_##name(tenure_scheduler* s, int64_t now_us) { \
    (void)now_us;                                                         \
    return tenure_##name(__VA_ARGS__);                                    \
  }
/* With a struct to write to. */
#define CALL_OUT(name, type, init, ...)                                   \
  static tenure_status call_##name(tenure_scheduler* s, int64_t now_us) { \
    type o = init;                                                        \
    (void)now_us;                                                         \
    return tenure_##name(__VA_ARGS__);                                    \
  }

CALL(gpu_type_add, s, "a100", &out.id)
CALL(gpu_type_set_rate, s, the.type, 500, now_us)
CALL(domain_add, s, TENURE_ROOT, "rack-2", &out.id)
CALL(node_add, s, "n4", 8, the.type, the.rack, now_us, &out.id)
CALL(node_set_health, s, the.nodes[0], TENURE_NODE_DOWN, now_us, now_us, out.losses, 64, &out.count)
CALL_OUT(node_describe, tenure_node_info, TENURE_NODE_INFO_INIT, s, the.nodes[0], &o)
CALL(node_find, s, "n1", &out.id)
CALL(node_name, s, the.nodes[0], out.text, sizeof(out.text), &out.count)
CALL(maintenance_announce, s, the.nodes, 2, 10 * HOUR_US, 12 * HOUR_US, "ops", "firmware", now_us,
     &out.id64)
CALL(maintenance_cancel, s, the.maintenance, now_us)
CALL(maintenance_list, s, out.ids, 8, &out.count)
CALL_OUT(maintenance_describe, tenure_maintenance_info, TENURE_MAINTENANCE_INFO_INIT, s,
         the.maintenance, &o, out.nodes, 64, &out.count)
CALL(allocation_add, s, TENURE_ROOT, "audio", 2, now_us, &out.id)
CALL(allocation_set_weight, s, the.vision, 3, now_us, "ops", "grant", now_us)
CALL(allocation_boost, s, the.vision, 3, 10 * HOUR_US, 12 * HOUR_US, "ops", "deadline", now_us)
CALL(allocation_move, s, the.vision, the.group, "ops", "merger", now_us)
CALL(allocation_close, s, the.vision, now_us)
CALL_OUT(allocation_describe, tenure_allocation_info, TENURE_ALLOCATION_INFO_INIT, s, the.vision,
         &o)
CALL(allocation_find, s, "group/spare", &out.id)
CALL(allocation_path, s, the.spare, out.text, sizeof(out.text), &out.count)
CALL_OUT(allocation_standing, tenure_standing, TENURE_STANDING_INIT, s, the.vision, now_us, &o)
CALL_OUT(workload_submit, const tenure_workload, job(9, the.language, 1, HOUR_US), s, &o, now_us)
CALL(workload_cancel, s, the.waiting, now_us)
CALL(workload_idle, s, the.session, 1, now_us)
CALL(workload_set_resume_hint, s, the.waiting, "image", 5, now_us)
CALL(workload_resume_hint, s, the.running, out.text, sizeof(out.text), &out.count)
CALL_OUT(workload_explain, tenure_explanation, TENURE_EXPLANATION_INIT, s, the.waiting, &o)
CALL(workload_nodes, s, the.running, out.nodes, 64, &out.count)
CALL_OUT(workload_forecast, tenure_forecast, TENURE_FORECAST_INIT, s, the.waiting, HOUR_US, &o)
static tenure_status call_workload_what_if(tenure_scheduler* s, int64_t now_us) {
  const tenure_workload j = job(9, the.language, 1, HOUR_US);
  tenure_what_if w = TENURE_WHAT_IF_INIT;
  w.nodes = out.nodes, w.node_capacity = 64;
  w.stops = out.stops, w.stop_capacity = 64;
  return tenure_workload_what_if(s, &j, now_us, &w);
}
static tenure_status call_scheduler_clone(tenure_scheduler* s, int64_t now_us) {
  tenure_scheduler* clone = NULL;
  const tenure_status status = tenure_scheduler_clone(s, &clone);
  (void)now_us;
  EXPECT((status == TENURE_OK) == (clone != NULL));
  tenure_scheduler_destroy(clone);
  return status;
}
CALL(scheduler_snapshot, s, out.bytes, sizeof(out.bytes), &out.count)
CALL(scheduler_restore, s, the.snapshot, the.snapshot_size)
CALL(scheduler_digest, s, &out.id64)
CALL_OUT(scheduler_describe, tenure_scheduler_info, TENURE_SCHEDULER_INFO_INIT, s, &o)
CALL(scheduler_decide, s, now_us, &the.d)
CALL(scheduler_decisions, s, &the.d)
CALL_OUT(scheduler_search, tenure_search_record, TENURE_SEARCH_RECORD_INIT, s, &o)
CALL(run_started, s, the.starting, 1, now_us, now_us)
CALL(run_start_failed, s, the.starting, 1, now_us)
CALL(run_ended, s, the.running, 1, now_us, now_us)
CALL(run_stopped, s, the.stopping, 1, now_us, now_us, NULL)
CALL(run_stop_failed, s, the.stopping, 1, now_us)
CALL(run_checkpointed, s, the.running, 1, now_us, now_us)
static tenure_status call_scheduler_reconcile(tenure_scheduler* s, int64_t now_us) {
  const tenure_run_ref running[] = {{77, 1, 0}};
  tenure_reconcile_report r = TENURE_RECONCILE_REPORT_INIT;
  r.ended = out.ended, r.ended_capacity = 64;
  r.unknown = out.unknown, r.unknown_capacity = 8;
  return tenure_scheduler_reconcile(s, running, 1, now_us, &r);
}

enum { QUESTION = 0, CHANGE = 1, TIMED = 2, DEAF = 4 };
static const struct call {
  const char* name;
  tenure_status (*make)(tenure_scheduler*, int64_t);
  int kind;
} calls[] = {
#define ROW(name, kind) \
  { "tenure_" #name, call_##name, kind }
    ROW(gpu_type_add, CHANGE),
    ROW(gpu_type_set_rate, CHANGE | TIMED),
    ROW(domain_add, CHANGE),
    ROW(node_add, CHANGE | TIMED),
    ROW(node_set_health, CHANGE | TIMED),
    ROW(node_describe, QUESTION),
    ROW(node_find, QUESTION),
    ROW(node_name, QUESTION),
    ROW(maintenance_announce, CHANGE | TIMED),
    ROW(maintenance_cancel, CHANGE | TIMED),
    ROW(maintenance_list, QUESTION),
    ROW(maintenance_describe, QUESTION),
    ROW(allocation_add, CHANGE | TIMED),
    ROW(allocation_set_weight, CHANGE | TIMED),
    ROW(allocation_boost, CHANGE | TIMED),
    ROW(allocation_move, CHANGE | TIMED),
    ROW(allocation_close, CHANGE | TIMED),
    ROW(allocation_describe, QUESTION),
    ROW(allocation_find, QUESTION),
    ROW(allocation_path, QUESTION),
    ROW(allocation_standing, QUESTION | TIMED),
    ROW(workload_submit, CHANGE | TIMED),
    ROW(workload_cancel, CHANGE | TIMED),
    ROW(workload_idle, CHANGE | TIMED),
    ROW(workload_set_resume_hint, CHANGE | TIMED),
    ROW(workload_resume_hint, QUESTION),
    ROW(workload_explain, QUESTION),
    ROW(workload_nodes, QUESTION),
    ROW(workload_forecast, QUESTION),
    ROW(workload_what_if, QUESTION | TIMED),
    ROW(scheduler_clone, QUESTION),
    ROW(scheduler_snapshot, QUESTION),
    ROW(scheduler_restore, CHANGE),
    ROW(scheduler_digest, QUESTION),
    ROW(scheduler_describe, QUESTION),
    ROW(scheduler_decide, CHANGE | TIMED),
    ROW(scheduler_decisions, QUESTION),
    ROW(scheduler_search, QUESTION),
    ROW(scheduler_reconcile, CHANGE | TIMED),
    ROW(run_started, CHANGE | TIMED),
    ROW(run_start_failed, CHANGE | TIMED),
    ROW(run_ended, CHANGE | TIMED),
    ROW(run_stopped, CHANGE | TIMED),
    ROW(run_stop_failed, CHANGE | TIMED),
    ROW(run_checkpointed, CHANGE | TIMED),
#undef ROW
};
#define CALLS (sizeof(calls) / sizeof(calls[0]))

/* `got` is `expected`, and the message begins with the function that was called. */
static void check(const struct call* c, const char* when, tenure_status expected,
                  tenure_status got) {
  const size_t size = strlen(c->name);
  const char* message = tenure_last_error_message();
  if (got == expected &&
      (got == TENURE_OK || (strncmp(message, c->name, size) == 0 && message[size] == ':'))) {
    return;
  }
  fprintf(stderr, "%s, %s: %s, expected %s; last error: %s\n", c->name, when,
          tenure_status_name(got), tenure_status_name(expected), message);
  ++harness_failures;
}

TEST(every_function_has_a_right_call) {
  size_t i, j;
  for (i = 0; i < FUNCTIONS; ++i) {
    int found = 0;
    for (j = 0; j < CALLS; ++j) found = found || strcmp(functions[i], calls[j].name) == 0;
    if (!found) fprintf(stderr, "%s is not called\n", functions[i]);
    harness_failures += !found;
  }
  EXPECT(FUNCTIONS == CALLS);
  for (i = 0; i < CALLS; ++i) {
    uint64_t before;
    open_story(NULL);
    before = digest(the.s);
    check(&calls[i], "right", TENURE_OK, calls[i].make(the.s, the.now_us));
    if ((calls[i].kind & CHANGE) == 0) EXPECT(digest(the.s) == before);
    close_site();
  }
}

TEST(every_function_refuses_no_scheduler) {
  size_t i;
  open_story(NULL);
  for (i = 0; i < CALLS; ++i) {
    check(&calls[i], "NULL", TENURE_ERROR_INVALID_ARGUMENT, calls[i].make(NULL, the.now_us));
  }
  close_site();
}

TEST(every_function_refuses_times_that_cannot_be) {
  size_t i;
  uint64_t before;
  open_story(NULL);
  before = digest(the.s);
  for (i = 0; i < CALLS; ++i) {
    if ((calls[i].kind & TIMED) == 0) continue;
    check(&calls[i], "before", TENURE_ERROR_OUT_OF_RANGE, calls[i].make(the.s, the.now_us - 1));
    EXPECT(digest(the.s) == before);
    check(&calls[i], "after all times", TENURE_ERROR_INVALID_ARGUMENT,
          calls[i].make(the.s, (INT64_C(1) << 61) + 1));
    EXPECT(digest(the.s) == before);
    check(&calls[i], "before all times", TENURE_ERROR_INVALID_ARGUMENT,
          calls[i].make(the.s, -(INT64_C(1) << 61) - 1));
    EXPECT(digest(the.s) == before);
  }
  close_site();
}

/* ---- Callbacks that do what they must not -----------------------------------------------------
 */

static struct visitor {
  tenure_scheduler* inside; /* called back into; NULL: not */
  int visits, throws;
  int32_t log_level;
} visitor;

static void come_back(void) {
  size_t i;
  tenure_scheduler* s = visitor.inside;
  if (s == NULL) return;
  visitor.inside = NULL;
  for (i = 0; i < CALLS; ++i) {
    check(&calls[i], "from a callback", TENURE_ERROR_REENTRANT, calls[i].make(s, the.now_us));
  }
  tenure_scheduler_destroy(s); /* does nothing */
  ++visitor.visits;
}

static int64_t rank_key(void* user, const tenure_allocation_view* a) {
  (void)user;
  come_back();
  if (visitor.throws) throw_something();
  return a->used_gpu_us;
}
static void log_line(void* user, int32_t level, const char* message) {
  (void)user;
  (void)message;
  visitor.log_level = level;
  come_back();
}

static tenure_options* options_with_callbacks(void) {
  tenure_options* o = make_options(NULL, 0);
  tenure_policy_hooks hooks = TENURE_POLICY_HOOKS_INIT;
  hooks.rank_key = rank_key;
  EXPECT_OK(tenure_options_set_hooks(o, &hooks));
  EXPECT_OK(tenure_options_set_log(o, TENURE_LOG_INFO, log_line, NULL));
  memset(&visitor, 0, sizeof(visitor));
  return o;
}

TEST(no_function_may_be_called_from_a_callback) {
  uint64_t undisturbed;
  tenure_standing standing = TENURE_STANDING_INIT;
  open_story(options_with_callbacks());
  /* In a question, in a refusal and in the middle of a change. */
  undisturbed = digest(the.s);
  visitor.inside = the.s;
  EXPECT_OK(tenure_allocation_standing(the.s, the.vision, the.now_us, &standing));
  EXPECT(visitor.visits == 1 && digest(the.s) == undisturbed);
  visitor.inside = the.s;
  EXPECT_STATUS(TENURE_ERROR_NOT_FOUND, tenure_workload_cancel(the.s, 404, the.now_us));
  EXPECT(visitor.visits == 2 && digest(the.s) == undisturbed);
  EXPECT_OK(tenure_run_ended(the.s, the.running, 1, the.now_us, the.now_us));
  decide(the.now_us);
  undisturbed = digest(the.s);
  EXPECT(the.d.start_count > 0);
  close_site();
  open_story(options_with_callbacks());
  EXPECT_OK(tenure_run_ended(the.s, the.running, 1, the.now_us, the.now_us));
  visitor.inside = the.s;
  decide(the.now_us);
  EXPECT(visitor.visits == 1 && digest(the.s) == undisturbed);
  close_site();
}

TEST(every_function_refuses_a_broken_scheduler) {
  size_t i;
  uint64_t value = 0, before;
  open_story(options_with_callbacks());
  before = digest(the.s);
  visitor.throws = 1;
  EXPECT_STATUS(TENURE_ERROR_INTERNAL, tenure_scheduler_decide(the.s, the.now_us, &the.d));
  EXPECT(visitor.log_level == TENURE_LOG_ERROR);
  visitor.throws = 0;
  for (i = 0; i < CALLS; ++i) {
    if (calls[i].make == call_scheduler_restore) continue;
    check(&calls[i], "broken", TENURE_ERROR_INTERNAL, calls[i].make(the.s, the.now_us));
  }
  /* A snapshot that is refused heals nothing. */
  EXPECT_STATUS(TENURE_ERROR_INVALID_ARGUMENT,
                tenure_scheduler_restore(the.s, the.snapshot, the.snapshot_size - 1));
  EXPECT_STATUS(TENURE_ERROR_INTERNAL, tenure_scheduler_digest(the.s, &value));
  EXPECT_OK(tenure_scheduler_restore(the.s, the.snapshot, the.snapshot_size));
  EXPECT(digest(the.s) == before);
  close_site();
}

/* Each call, with its first allocation failing, its second, ... until there are no more. A question
 * changes nothing; a change did not happen, or the scheduler says that it is broken and the
 * snapshot heals it. */
static void run_out_of_memory(const struct call* c, const char* const (*options)[2], size_t count) {
  long n;
  open_story(make_options(options, count));
  for (n = 1; n < 10000; ++n) {
    uint64_t value = 0;
    const uint64_t before = digest(the.s);
    tenure_status status;
    if (c->make == call_scheduler_decide) {
      EXPECT_OK(tenure_run_ended(the.s, the.running, 1, the.now_us, the.now_us));
    }
    fail_allocation(n);
    status = c->make(the.s, the.now_us);
    fail_allocation(0);
    if (status == TENURE_OK) break;
    check(c, "without memory", TENURE_ERROR_OUT_OF_MEMORY, status);
    status = tenure_scheduler_digest(the.s, &value);
    EXPECT(status == TENURE_OK ? value == before || c->make == call_scheduler_decide
                               : (c->kind & CHANGE) != 0);
    if (status != TENURE_OK || (c->kind & CHANGE) != 0) {
      EXPECT_OK(tenure_scheduler_restore(the.s, the.snapshot, the.snapshot_size));
      value = digest(the.s);
    }
    EXPECT(value == before);
  }
  EXPECT(n < 10000);
  close_site();
}

TEST(memory_may_run_out_in_every_call) {
  static const char* const options[][2] = {{"search_trials", "16"}, {"search_backend", "cpu"}};
  size_t i;
  for (i = 0; i < CALLS; ++i) {
    run_out_of_memory(&calls[i], NULL, 0);
    run_out_of_memory(&calls[i], options, 2);
  }
}

/* ---- Sizes ------------------------------------------------------------------------------------
 */

/* `call`, which is given struct `v`, refuses sizes that no release has, the first of which had
 * `first` bytes. */
#define SIZES(v, call) SIZES_SINCE((v).struct_size, v, call)
#define SIZES_SINCE(first, v, call)                                           \
  do {                                                                        \
    static const uint32_t wrong_[] = {0, 1, 4, 5000, 0x7fffffff, 0xffffffff}; \
    const uint32_t first_ = (first), right_ = (v).struct_size;                \
    size_t i_;                                                                \
    for (i_ = 0; i_ < sizeof(wrong_) / sizeof(wrong_[0]); ++i_) {             \
      const uint64_t before_ = digest(the.s);                                 \
      (v).struct_size = wrong_[i_];                                           \
      EXPECT_STATUS(TENURE_ERROR_INVALID_ARGUMENT, call);                     \
      EXPECT((v).struct_size == wrong_[i_] && digest(the.s) == before_);      \
    }                                                                         \
    (v).struct_size = first_ - 1;                                             \
    EXPECT_STATUS(TENURE_ERROR_INVALID_ARGUMENT, call);                       \
    (v).struct_size = right_;                                                 \
    EXPECT_OK(call);                                                          \
  } while (0)

TEST(structs_have_a_size_of_some_release) {
  tenure_options* o = make_options(NULL, 0);
  tenure_parameter parameter = TENURE_PARAMETER_INIT;
  tenure_policy_hooks hooks = TENURE_POLICY_HOOKS_INIT;
  tenure_scheduler_info info = TENURE_SCHEDULER_INFO_INIT;
  tenure_node_info node = TENURE_NODE_INFO_INIT;
  tenure_maintenance_info maintenance = TENURE_MAINTENANCE_INFO_INIT;
  tenure_allocation_info allocation = TENURE_ALLOCATION_INFO_INIT;
  tenure_standing standing = TENURE_STANDING_INIT;
  tenure_explanation explanation = TENURE_EXPLANATION_INIT;
  tenure_forecast forecast = TENURE_FORECAST_INIT;
  tenure_search_record record = TENURE_SEARCH_RECORD_INIT;
  tenure_what_if what = TENURE_WHAT_IF_INIT;
  tenure_reconcile_report report = TENURE_RECONCILE_REPORT_INIT;
  tenure_workload j;
  open_story(NULL);
  j = job(9, the.language, 1, HOUR_US);
  what.nodes = out.nodes, what.node_capacity = 64;
  what.stops = out.stops, what.stop_capacity = 64;
  report.ended = out.ended, report.ended_capacity = 64;
  SIZES(parameter, tenure_options_describe(o, 0, &parameter));
  SIZES(hooks, tenure_options_set_hooks(o, &hooks));
  SIZES(info, tenure_scheduler_describe(the.s, &info));
  SIZES(node, tenure_node_describe(the.s, the.nodes[0], &node));
  SIZES(maintenance, tenure_maintenance_describe(the.s, the.maintenance, &maintenance, out.nodes,
                                                 64, &out.count));
  SIZES(allocation, tenure_allocation_describe(the.s, the.vision, &allocation));
  SIZES(standing, tenure_allocation_standing(the.s, the.vision, the.now_us, &standing));
  SIZES(explanation, tenure_workload_explain(the.s, the.waiting, &explanation));
  SIZES(forecast, tenure_workload_forecast(the.s, the.waiting, HOUR_US, &forecast));
  SIZES(record, tenure_scheduler_search(the.s, &record));
  SIZES(what, tenure_workload_what_if(the.s, &j, the.now_us, &what));
  SIZES_SINCE(offsetof(tenure_workload, restorable), j,
              tenure_workload_what_if(the.s, &j, the.now_us, &what));
  SIZES_SINCE(offsetof(tenure_workload, restorable), j,
              tenure_workload_submit(the.s, &j, the.now_us));
  SIZES(the.d, tenure_scheduler_decide(the.s, the.now_us, &the.d));
  SIZES(the.d, tenure_scheduler_decisions(the.s, &the.d));
  SIZES(report, tenure_scheduler_reconcile(the.s, NULL, 0, the.now_us, &report));
  tenure_options_destroy(o);
  close_site();
}

/* A count that was not initialised or came from -1. */
TEST(lists_are_no_longer_than_memory) {
  const tenure_run_ref running = {1, 1, 0};
  tenure_reconcile_report report = TENURE_RECONCILE_REPORT_INIT;
  uint64_t before;
  open_story(NULL);
  before = digest(the.s);
  report.ended = out.ended, report.ended_capacity = 64;
  report.unknown = out.unknown, report.unknown_capacity = SIZE_MAX;
  EXPECT_STATUS(TENURE_ERROR_INVALID_ARGUMENT,
                tenure_scheduler_reconcile(the.s, &running, SIZE_MAX, the.now_us, &report));
  EXPECT(digest(the.s) == before);
  EXPECT_STATUS(TENURE_ERROR_INVALID_ARGUMENT,
                tenure_maintenance_announce(the.s, the.nodes, SIZE_MAX, 10 * HOUR_US, 12 * HOUR_US,
                                            NULL, NULL, the.now_us, &out.id64));
  EXPECT(digest(the.s) == before);
  EXPECT_STATUS(TENURE_ERROR_INVALID_ARGUMENT,
                tenure_scheduler_restore(the.s, the.snapshot, SIZE_MAX));
  EXPECT(digest(the.s) == before);
  close_site();
}

/* ---- The codes --------------------------------------------------------------------------------
 */

TEST(statuses) {
  tenure_options* o;
  const tenure_workload j = job(9, 404, 1, HOUR_US);
  uint32_t id = 0;
  size_t count = 0;
  int i;
  open_story(options_with_callbacks());
  SEE(TENURE_OK, tenure_workload_cancel(the.s, the.waiting, the.now_us));
  SEE(TENURE_ERROR_INVALID_ARGUMENT, tenure_gpu_type_add(the.s, "", &id));
  SEE(TENURE_ERROR_NOT_FOUND, tenure_workload_submit(the.s, &j, the.now_us));
  SEE(TENURE_ERROR_ALREADY_EXISTS,
      tenure_allocation_add(the.s, TENURE_ROOT, "vision", 1, the.now_us, &id));
  SEE(TENURE_ERROR_FAILED_PRECONDITION,
      tenure_run_ended(the.s, the.running, 2, the.now_us, the.now_us));
  SEE(TENURE_ERROR_OUT_OF_RANGE, tenure_workload_cancel(the.s, the.running, the.now_us - 1));
  SEE(TENURE_ERROR_BUFFER_TOO_SMALL, tenure_maintenance_list(the.s, NULL, 0, &count));
  EXPECT(count == 1);
  visitor.inside = the.s;
  (void)tenure_workload_cancel(the.s, 404, the.now_us);
  EXPECT(visitor.visits == 1); /* every one of its calls got it: come_back */
  see("TENURE_ERROR_REENTRANT");
  for (i = 0; i < 65534; ++i) {
    char name[16];
    sprintf(name, "type-%d", i);
    EXPECT_OK(tenure_gpu_type_add(the.s, name, &id));
  }
  SEE(TENURE_ERROR_RESOURCE_EXHAUSTED, tenure_gpu_type_add(the.s, "one more", &id));
  fail_allocation(1);
  i = tenure_scheduler_snapshot(the.s, out.bytes, sizeof(out.bytes), &count);
  fail_allocation(0);
  SEE(TENURE_ERROR_OUT_OF_MEMORY, i);
  visitor.throws = 1;
  SEE(TENURE_ERROR_INTERNAL, tenure_scheduler_decide(the.s, the.now_us, &the.d));
  see("TENURE_LOG_ERROR");
  close_site();
  /* A GPU for the plan search that is not there is no error of the library. */
  o = make_options(NULL, 0);
  EXPECT_OK(tenure_options_set(o, "search_trials", "16"));
  EXPECT_OK(tenure_options_set(o, "search_backend", "cuda"));
  i = tenure_scheduler_create(o, &the.s);
  EXPECT(i == TENURE_OK || (i == TENURE_ERROR_FAILED_PRECONDITION && the.s == NULL));
  tenure_options_destroy(o);
  close_site();
  all_seen("TENURE_ERROR_");
}

TEST(log_levels) {
  open_story(options_with_callbacks());
  decide(the.now_us);
  EXPECT_OK(tenure_run_ended(the.s, the.running, 1, the.now_us, the.now_us));
  decide(the.now_us);
  SEE(TENURE_LOG_INFO, visitor.log_level);
  EXPECT_STATUS(TENURE_ERROR_NOT_FOUND, tenure_workload_cancel(the.s, 404, the.now_us));
  SEE(TENURE_LOG_WARNING, visitor.log_level);
  visitor.throws = 1;
  EXPECT_STATUS(TENURE_ERROR_INTERNAL, tenure_scheduler_decide(the.s, the.now_us, &the.d));
  SEE(TENURE_LOG_ERROR, visitor.log_level);
  close_site();
  all_seen("TENURE_LOG_");
}

/* What callers say: every value is taken, and the next one is not. */
TEST(classes_and_topologies) {
  tenure_workload j;
  open_site(NULL, 2);
#define TAKEN(code, field, minimum)                                \
  do {                                                             \
    j = job(10 * the.now_us++ + (code), the.vision, 1, (minimum)); \
    j.field = (code);                                              \
    EXPECT_OK(tenure_workload_submit(the.s, &j, the.now_us));      \
    see(#code);                                                    \
  } while (0)
  TAKEN(TENURE_CLASS_DEBUG, workload_class, MINUTE_US);
  TAKEN(TENURE_CLASS_INTERACTIVE, workload_class, MINUTE_US);
  TAKEN(TENURE_CLASS_TRAINING, workload_class, MINUTE_US);
  TAKEN(TENURE_CLASS_SERVING, workload_class, MINUTE_US);
  TAKEN(TENURE_CLASS_SWEEP, workload_class, 0);
  j.id = 99, j.workload_class = TENURE_CLASS_SWEEP + 1;
  EXPECT_STATUS(TENURE_ERROR_INVALID_ARGUMENT, tenure_workload_submit(the.s, &j, the.now_us));
  TAKEN(TENURE_TOPOLOGY_PREFERRED, topology, MINUTE_US);
  TAKEN(TENURE_TOPOLOGY_REQUIRED, topology, MINUTE_US);
  j.id = 99, j.topology = TENURE_TOPOLOGY_REQUIRED + 1;
  EXPECT_STATUS(TENURE_ERROR_INVALID_ARGUMENT, tenure_workload_submit(the.s, &j, the.now_us));
#undef TAKEN
  close_site();
  all_seen("TENURE_CLASS_");
  all_seen("TENURE_TOPOLOGY_");
}

TEST(healths) {
  tenure_node_info info = TENURE_NODE_INFO_INIT;
  open_site(NULL, 1);
#define SET(code)                                                                              \
  do {                                                                                         \
    EXPECT_OK(tenure_node_set_health(the.s, the.nodes[0], (code), 0, 0, NULL, 0, &out.count)); \
    EXPECT_OK(tenure_node_describe(the.s, the.nodes[0], &info));                               \
    SEE(code, info.health);                                                                    \
  } while (0)
  SET(TENURE_NODE_DOWN);
  SET(TENURE_NODE_DRAINING);
  SET(TENURE_NODE_UP);
#undef SET
  EXPECT_STATUS(
      TENURE_ERROR_INVALID_ARGUMENT,
      tenure_node_set_health(the.s, the.nodes[0], TENURE_NODE_DOWN + 1, 0, 0, NULL, 0, &out.count));
  close_site();
  all_seen("TENURE_NODE_");
}

/* Waiting for GPUs, for a stop, for nobody's GPUs; starting, running, stopping. */
static void see_a_job_take_anothers_place(void) {
  tenure_workload j;
  open_site(NULL, 1);
  submit(1, the.vision, 8, HOUR_US);
  SEE(TENURE_WAIT_NOT_CONSIDERED, explain(1).reason);
  SEE(TENURE_STATE_PENDING, explain(1).state);
  decide(0);
  SEE(TENURE_STATE_STARTING, explain(1).state);
  EXPECT_OK(tenure_run_started(the.s, 1, 1, 0, 0));
  SEE(TENURE_STATE_RUNNING, explain(1).state);
  SEE(TENURE_WAIT_NONE, explain(1).reason);
  submit(2, the.language, 8, HOUR_US);
  submit(3, the.language, 8, 0);
  j = job(4, the.vision, 9, HOUR_US);
  EXPECT_OK(tenure_workload_submit(the.s, &j, 0));
  pass(0);
  SEE(TENURE_WAIT_NO_CAPACITY, explain(2).reason);
  SEE(TENURE_WAIT_UNFUNDED, explain(3).reason);
  SEE(TENURE_WAIT_NEVER_FITS, explain(4).reason);
  SEE(TENURE_STATE_UNPLACEABLE, explain(4).state);
  pass(HOUR_US);
  EXPECT(the.d.stop_count == 1 && the.stops[0].beneficiary == 2);
  SEE(TENURE_STOP_PREEMPTED, the.stops[0].reason);
  SEE(TENURE_STATE_STOPPING, explain(1).state);
  SEE(TENURE_STATE_HELD, explain(2).state);
  SEE(TENURE_WAIT_FOR_STOP, explain(2).reason);
  SEE(TENURE_OUTCOME_REQUEUED, stopped(0));
  EXPECT_OK(tenure_allocation_close(the.s, the.vision, the.now_us));
  pass(HOUR_US);
  SEE(TENURE_WAIT_CLOSED, explain(1).reason);
  EXPECT_OK(tenure_workload_cancel(the.s, 2, the.now_us));
  pass(HOUR_US);
  EXPECT(the.d.stop_count == 1 && the.stops[0].beneficiary == 0);
  SEE(TENURE_STOP_CANCELLED, the.stops[0].reason);
  SEE(TENURE_OUTCOME_CANCELLED, stopped(0));
  close_site();
}

/* Work that cannot be resumed: what others and what a node does to it. */
static void see_failures(void) {
  tenure_workload j;
  open_site(NULL, 1);
  j = job(1, the.vision, 8, HOUR_US);
  j.resumable = 0;
  EXPECT_OK(tenure_workload_submit(the.s, &j, 0));
  pass(0);
  submit(2, the.language, 8, HOUR_US);
  pass(HOUR_US);
  EXPECT(the.d.stop_count == 1);
  SEE(TENURE_OUTCOME_FAILED, stopped(0));
  pass(HOUR_US);
  EXPECT_OK(tenure_run_ended(the.s, 2, 1, the.now_us, the.now_us));
  j.id = 3;
  EXPECT_OK(tenure_workload_submit(the.s, &j, the.now_us));
  pass(HOUR_US);
  EXPECT_OK(tenure_node_set_health(the.s, the.nodes[0], TENURE_NODE_DRAINING, the.now_us,
                                   the.now_us, NULL, 0, &out.count));
  pass(2 * HOUR_US);
  EXPECT(the.d.stop_count == 1 && the.stops[0].beneficiary == 0);
  SEE(TENURE_STOP_DRAIN, the.stops[0].reason);
  EXPECT_OK(tenure_node_set_health(the.s, the.nodes[0], TENURE_NODE_DOWN, the.now_us, the.now_us,
                                   out.losses, 64, &out.count));
  EXPECT(out.count == 1 && out.losses[0].workload == 3);
  SEE(TENURE_OUTCOME_FAILED_WITH_NODE, out.losses[0].outcome);
  close_site();
}

/* Sessions: a cap, and one that is idle. */
static void see_sessions(void) {
  static const char* const options[][2] = {{"session_cap", "500"}, {"idle_cap", "0"}};
  open_site(make_options(options, 2), 2);
  submit_class(1, the.vision, TENURE_CLASS_INTERACTIVE, 2, 8 * HOUR_US);
  submit_class(2, the.vision, TENURE_CLASS_INTERACTIVE, 2, 8 * HOUR_US);
  submit_class(3, the.vision, TENURE_CLASS_INTERACTIVE, 2, 8 * HOUR_US);
  submit(4, the.vision, 8, HOUR_US);
  submit(5, the.language, 8, HOUR_US);
  submit(6, the.language, 8, HOUR_US);
  pass(0);
  SEE(TENURE_WAIT_SESSION_CAP, explain(3).reason);
  EXPECT_OK(tenure_workload_idle(the.s, 1, 1, 0));
  pass(HOUR_US);
  EXPECT(the.d.stop_count > 0 && the.stops[0].workload == 1 && the.stops[0].beneficiary == 0);
  SEE(TENURE_STOP_IDLE, the.stops[0].reason);
  SEE(TENURE_OUTCOME_SUSPENDED, stopped(0));
  SEE(TENURE_STATE_SUSPENDED, explain(1).state);
  SEE(TENURE_WAIT_SUSPENDED, explain(1).reason);
  close_site();
}

static void see_debug_cap(void) {
  open_site(NULL, 1); /* debug_cap is 400: 1.6 of the 4 GPUs that each is entitled to */
  submit_class(1, the.vision, TENURE_CLASS_DEBUG, 1, 10 * MINUTE_US);
  submit_class(2, the.vision, TENURE_CLASS_DEBUG, 1, 10 * MINUTE_US);
  submit(3, the.vision, 8, HOUR_US);
  submit(4, the.language, 8, HOUR_US);
  pass(0);
  SEE(TENURE_WAIT_DEBUG_CAP, explain(2).reason);
  close_site();
}

static void see_serving_cap(void) {
  open_site(NULL, 1); /* serving_cap is 1000: the 4 GPUs that each is entitled to */
  submit_class(1, the.vision, TENURE_CLASS_SERVING, 4, HOUR_US);
  submit_class(2, the.vision, TENURE_CLASS_SERVING, 1, HOUR_US);
  pass(0);
  SEE(TENURE_WAIT_SERVING_CAP, explain(2).reason);
  close_site();
}

static void see_user_cap(void) {
  static const char* const options[][2] = {{"user_training_gpus", "4"}};
  open_site(make_options(options, 1), 1);
  submit(1, the.language, 4, HOUR_US); /* both are user 0's */
  submit(2, the.vision, 1, HOUR_US);
  pass(0);
  SEE(TENURE_WAIT_USER_CAP, explain(2).reason);
  close_site();
}

static void see_maintenance(void) {
  open_site(NULL, 1);
  EXPECT_OK(tenure_maintenance_announce(the.s, the.nodes, 1, HOUR_US, 2 * HOUR_US, NULL, NULL, 0,
                                        &out.id64));
  submit(1, the.vision, 8, 2 * HOUR_US);
  pass(0);
  SEE(TENURE_WAIT_MAINTENANCE, explain(1).reason);
  close_site();
}

/* A gang that is promised a start, and the runs that leave for it. */
static void see_a_promise(void) {
  static const char* const options[][2] = {{"gang", "16"}, {"first_credit", "0s"}, {"block", "0"}};
  tenure_workload gang;
  int64_t due_us;
  open_site(make_options(options, 3), 3);
  submit(1, the.vision, 8, 2 * HOUR_US);
  submit(2, the.vision, 8, 3 * HOUR_US);
  submit(3, the.vision, 8, 4 * HOUR_US);
  pass(0);
  the.now_us = MINUTE_US;
  gang = job(4, the.language, 8, HOUR_US);
  gang.nodes = 2;
  EXPECT_OK(tenure_workload_submit(the.s, &gang, the.now_us));
  pass(MINUTE_US);
  pass(2 * MINUTE_US);
  EXPECT(the.d.promise_count + explain(4).state > 0);
  SEE(TENURE_STATE_RESERVED, explain(4).state);
  SEE(TENURE_WAIT_RESERVED, explain(4).reason);
  due_us = explain(4).promised_start_us;
  EXPECT(due_us >= 3 * HOUR_US && due_us < 4 * HOUR_US);
  pass(due_us);
  EXPECT(the.d.stop_count == 2 && the.stops[0].beneficiary == 4);
  SEE(TENURE_STOP_PROMISE, the.stops[0].reason);
  close_site();
}

TEST(states_waits_stops_and_outcomes) {
  see_a_job_take_anothers_place();
  see_failures();
  see_sessions();
  see_debug_cap();
  see_serving_cap();
  see_user_cap();
  see_maintenance();
  see_a_promise();
  all_seen("TENURE_STATE_");
  all_seen("TENURE_WAIT_");
  all_seen("TENURE_STOP_");
  all_seen("TENURE_OUTCOME_");
}

/* Pseudo-random numbers, the same everywhere. */
static uint32_t below(uint32_t* state, uint32_t n) {
  *state = *state * 1664525u + 1013904223u;
  return (*state >> 16) % n;
}

/* Small busy sites until every outcome of a search has been met. */
TEST(searches) {
  static const char* const options[][2] = {{"search_trials", "32"}, {"search_backend", "cpu"}};
  uint32_t state, seed;
  int seen[5] = {0, 0, 0, 0, 0};
  tenure_search_record r = TENURE_SEARCH_RECORD_INIT;
  for (seed = 1; seed <= 400 && (!seen[TENURE_SEARCH_TAKEN] || !seen[TENURE_SEARCH_REFUSED] ||
                                 !seen[TENURE_SEARCH_NO_GAIN] || !seen[TENURE_SEARCH_NONE]);
       ++seed) {
    uint64_t id = 0;
    int step;
    open_site(make_options(options, 2), 3);
    state = seed;
    for (step = 0; step < 30; ++step) {
      uint32_t n = below(&state, 4);
      size_t i;
      while (n-- > 0) {
        const uint32_t team = below(&state, 2) ? the.vision : the.language;
        const int32_t gpus = 1 + (int32_t)below(&state, 8);
        submit(++id, team, gpus, (int64_t)below(&state, 4) * 30 * MINUTE_US);
      }
      pass(step * 20 * MINUTE_US);
      for (i = 0; i < the.d.stop_count; ++i) (void)stopped(i);
      EXPECT_OK(tenure_scheduler_search(the.s, &r));
      EXPECT(r.outcome >= 0 && r.outcome < 5);
      seen[r.outcome] = 1;
      if (r.outcome == TENURE_SEARCH_NONE) SEE(TENURE_SEARCH_ON_NONE, r.backend);
      if (r.trials > 1) SEE(TENURE_SEARCH_ON_CPU, r.backend);
    }
    close_site();
  }
  fprintf(stderr, "%u sites\n", (unsigned)(seed - 1));
  if (seen[TENURE_SEARCH_NONE]) see("TENURE_SEARCH_NONE");
  if (seen[TENURE_SEARCH_NO_GAIN]) see("TENURE_SEARCH_NO_GAIN");
  if (seen[TENURE_SEARCH_TAKEN]) see("TENURE_SEARCH_TAKEN");
  if (seen[TENURE_SEARCH_REFUSED]) see("TENURE_SEARCH_REFUSED");
  all_seen("TENURE_SEARCH_");
}

/* Errors that the header names for a function and that no other test of it meets. */
#define REFUSED(status, call)               \
  do {                                      \
    const uint64_t before_ = digest(the.s); \
    EXPECT_STATUS(status, call);            \
    EXPECT(digest(the.s) == before_);       \
  } while (0)

TEST(errors_that_functions_name) {
  tenure_scheduler* s;
  int64_t now_us;
  uint32_t below_vision = 0;
  open_story(NULL);
  s = the.s, now_us = the.now_us;
  REFUSED(TENURE_ERROR_NOT_FOUND, tenure_allocation_set_weight(s, 404, 1, 0, NULL, NULL, now_us));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT,
          tenure_allocation_set_weight(s, TENURE_ROOT, 1, 0, NULL, NULL, now_us));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT,
          tenure_allocation_set_weight(s, the.vision, -1, 0, NULL, NULL, now_us));
  REFUSED(TENURE_ERROR_NOT_FOUND,
          tenure_allocation_boost(s, 404, 1, 0, 9 * HOUR_US, NULL, NULL, now_us));
  REFUSED(TENURE_ERROR_NOT_FOUND, tenure_allocation_move(s, 404, the.group, NULL, NULL, now_us));
  REFUSED(TENURE_ERROR_NOT_FOUND, tenure_allocation_move(s, the.vision, 404, NULL, NULL, now_us));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT,
          tenure_allocation_move(s, TENURE_ROOT, the.group, NULL, NULL, now_us));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT,
          tenure_allocation_move(s, the.group, the.spare, NULL, NULL, now_us));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT,
          tenure_allocation_move(s, the.spare, the.group, NULL, NULL, now_us));
  REFUSED(TENURE_ERROR_FAILED_PRECONDITION,
          tenure_allocation_move(s, the.spare, the.vision, NULL, NULL, now_us));
  EXPECT_OK(tenure_allocation_add(s, the.group, "vision", 1, now_us, &below_vision));
  REFUSED(TENURE_ERROR_ALREADY_EXISTS,
          tenure_allocation_move(s, the.vision, the.group, NULL, NULL, now_us));
  REFUSED(TENURE_ERROR_NOT_FOUND, tenure_allocation_close(s, 404, now_us));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, tenure_allocation_close(s, TENURE_ROOT, now_us));
  REFUSED(TENURE_ERROR_BUFFER_TOO_SMALL,
          tenure_allocation_path(s, the.spare, out.text, 11, &out.count));
  EXPECT(out.count == 11 && strlen("group/spare") == 11);
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, tenure_maintenance_list(s, out.ids, 8, NULL));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, tenure_maintenance_list(s, NULL, 8, &out.count));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT,
          tenure_maintenance_describe(s, the.maintenance, NULL, out.nodes, 64, &out.count));
  REFUSED(TENURE_ERROR_NOT_FOUND, tenure_run_start_failed(s, 404, 1, now_us));
  REFUSED(TENURE_ERROR_NOT_FOUND, tenure_run_ended(s, 404, 1, now_us, now_us));
  REFUSED(TENURE_ERROR_NOT_FOUND, tenure_run_stopped(s, 404, 1, now_us, now_us, NULL));
  REFUSED(TENURE_ERROR_NOT_FOUND, tenure_run_stop_failed(s, 404, 1, now_us));
  REFUSED(TENURE_ERROR_NOT_FOUND, tenure_run_checkpointed(s, 404, 1, now_us, now_us));
  REFUSED(TENURE_ERROR_FAILED_PRECONDITION,
          tenure_run_checkpointed(s, the.running, 2, now_us, now_us));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT,
          tenure_run_started(s, the.starting, 1, now_us + 1, now_us));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT,
          tenure_run_started(s, the.starting, 1, now_us - 1, now_us)); /* before it was decided */
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, tenure_run_ended(s, the.running, 1, -1, now_us));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT,
          tenure_run_stopped(s, the.stopping, 1, now_us + 1, now_us, NULL));
  REFUSED(TENURE_ERROR_INVALID_ARGUMENT, tenure_run_stopped(s, the.stopping, 1, -1, now_us, NULL));
  EXPECT_OK(tenure_run_stopped(s, the.stopping, 1, now_us, now_us, NULL));
  REFUSED(TENURE_ERROR_FAILED_PRECONDITION, /* a duplicate */
          tenure_run_stopped(s, the.stopping, 1, now_us, now_us, NULL));
  close_site();
}

TEST(every_code_is_of_a_kind_that_is_tested) {
  static const char* const kinds[] = {"TENURE_OK",       "TENURE_ERROR_",    "TENURE_LOG_",
                                      "TENURE_CLASS_",   "TENURE_TOPOLOGY_", "TENURE_NODE_",
                                      "TENURE_STATE_",   "TENURE_WAIT_",     "TENURE_STOP_",
                                      "TENURE_OUTCOME_", "TENURE_SEARCH_"};
  size_t i, k;
  for (i = 0; i < CODES; ++i) {
    int found = 0;
    for (k = 0; k < sizeof(kinds) / sizeof(kinds[0]); ++k) {
      found = found || strncmp(codes[i].name, kinds[k], strlen(kinds[k])) == 0;
    }
    if (!found) fprintf(stderr, "%s is of no kind\n", codes[i].name);
    harness_failures += !found;
  }
  EXPECT(CODES > 60);
}

int main(int argc, char** argv) {
  static const harness_test tests[] = {
      ENTRY(every_function_has_a_right_call),
      ENTRY(every_function_refuses_no_scheduler),
      ENTRY(every_function_refuses_times_that_cannot_be),
      ENTRY(no_function_may_be_called_from_a_callback),
      ENTRY(every_function_refuses_a_broken_scheduler),
      ENTRY(memory_may_run_out_in_every_call),
      ENTRY(structs_have_a_size_of_some_release),
      ENTRY(lists_are_no_longer_than_memory),
      ENTRY(statuses),
      ENTRY(log_levels),
      ENTRY(classes_and_topologies),
      ENTRY(healths),
      ENTRY(states_waits_stops_and_outcomes),
      ENTRY(searches),
      ENTRY(errors_that_functions_name),
      ENTRY(every_code_is_of_a_kind_that_is_tested),
  };
  return harness_main(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
