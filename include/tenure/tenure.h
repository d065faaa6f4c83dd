/* SPDX-License-Identifier: Apache-2.0
 *
 * Tenure for C and for every language that can call C: GPU-time budgets with a guaranteed minimum
 * runtime. The whole engine through one stable binary interface; this header is its manual.
 *
 * A resource manager tells the scheduler what happens and carries out what it decides:
 *
 * [example]
 *   tenure_options *options = NULL;
 *   tenure_scheduler *scheduler = NULL;
 *   uint32_t h100, node, team;
 *   tenure_workload job = TENURE_WORKLOAD_INIT;
 *   tenure_start starts[64];
 *   tenure_stop stops[64];
 *   uint32_t nodes[64];
 *   tenure_decisions decisions = TENURE_DECISIONS_INIT;
 *   const int64_t now_us = 0, hour_us = INT64_C(3600) * 1000 * 1000;
 *
 *   CHECK(tenure_options_create("budget", &options));
 *   CHECK(tenure_options_set(options, "grace", "2m"));
 *   CHECK(tenure_scheduler_create(options, &scheduler));
 *   tenure_options_destroy(options);
 *   CHECK(tenure_gpu_type_add(scheduler, "h100", &h100));
 *   CHECK(tenure_node_add(scheduler, "n1", 8, h100, TENURE_ROOT, now_us, &node));
 *   CHECK(tenure_allocation_add(scheduler, TENURE_ROOT, "vision", 2.0, now_us, &team));
 *
 *   job.id = 7;
 *   job.allocation = team;
 *   job.gpus_per_node = 8;
 *   job.minimum_us = hour_us;
 *   CHECK(tenure_workload_submit(scheduler, &job, now_us));
 *
 *   decisions.starts = starts, decisions.start_capacity = 64;
 *   decisions.stops = stops, decisions.stop_capacity = 64;
 *   decisions.nodes = nodes, decisions.node_capacity = 64;
 *   CHECK(tenure_scheduler_decide(scheduler, now_us, &decisions));
 *   for (size_t i = 0; i < decisions.start_count; ++i) {
 *     const tenure_start *s = &decisions.starts[i];
 *     launch(s->workload, &decisions.nodes[s->node_begin], s->node_count);
 *     CHECK(tenure_run_started(scheduler, s->workload, s->run, now_us, now_us));
 *   }
 *   tenure_scheduler_destroy(scheduler);
 * [/example]
 *
 * CONVENTIONS
 *   Errors      Every function that can fail returns a tenure_status: TENURE_OK (0) or a negative
 *               TENURE_ERROR_*. tenure_last_error_message() then says what was wrong, with the id
 *               and the value, for the calling thread. A call that fails changes nothing: the
 *               digest of the scheduler is what it was, and outputs hold nothing to be used. (Two
 *               exceptions are written down where they occur: a full buffer of
 *               tenure_scheduler_decide, and TENURE_ERROR_INTERNAL and _OUT_OF_MEMORY.) Any pointer
 *               that is not said to be allowed to be NULL must not be; NULL is
 *               TENURE_ERROR_INVALID_ARGUMENT. The library never prints, exits or aborts on input,
 *               and no exception leaves it.
 *   Units       Times are int64 microseconds on any one clock (`_us`): the library reads no clock,
 *               the caller passes `now_us`, which must never go back (TENURE_ERROR_OUT_OF_RANGE).
 *               Times lie within +-2^61 (TENURE_ERROR_INVALID_ARGUMENT). GPU-time is in
 *               GPU-microseconds (`_gpu_us`), shares of the cluster in thousandths of a GPU
 *               (`_mgpu`). Intervals are half open.
 *   Ids         Workload ids are the caller's. Ids of allocations, nodes, GPU types and topology
 *               domains are handed out, dense from 0, never used again. An id that was not handed
 *               out is TENURE_ERROR_NOT_FOUND. TENURE_ROOT is the root of both trees.
 *   Ownership   What _create and _clone return must go to the _destroy of its type, which accepts
 *               NULL. Strings and structs passed in are copied. A `const char *` returned by a
 *               function without a buffer is static, but for tenure_last_error_message. Names are
 *               bytes, never interpreted, at most 4096; strings end with NUL. `author` and `reason`
 *               go to the record of the budget or the maintenance and may be NULL.
 *   Structs     A struct that starts with `struct_size` is initialised by its _INIT macro (or with
 *               zeros and its sizeof there). It may grow at its end in later versions; binaries
 *               built with either side older go on working. A field that an older library does not
 *               know must be zero, and none is larger than 4096 bytes in any release
 *               (TENURE_ERROR_INVALID_ARGUMENT). Elements of lists never change.
 *   Lists       The caller passes a buffer and how many elements it has room for; the count is set
 *               to what there is. If that is more than there is room for, the call fails with
 *               TENURE_ERROR_BUFFER_TOO_SMALL. A buffer with room for 0 may be NULL. A function
 *               with a list can answer that, and INVALID_ARGUMENT for a buffer that is NULL with
 *               room for more; it is not said again at each.
 *   Threads     The library has no locks, and no threads but those of the plan search
 *               (`search_threads`), which do not outlive a pass. A handle, options too, must not be
 *               used by two threads at once while one of them changes it. Functions that take
 *               `const tenure_scheduler *` change nothing: any number of them may run at once.
 *               Different handles are independent, a clone and its original too.
 *               One writer, many readers: the thread that owns the scheduler publishes a clone
 *               after its passes, behind a mutex and with a reference count; readers take a
 *               reference and ask the clone, which nobody changes, without any lock.
 *   Callbacks   A callback must not call the scheduler it is called from (a clone is another one):
 *               TENURE_ERROR_REENTRANT. It must not throw or longjmp.
 *   Versions    "Since" names the release in which a function appeared; without it, 0.1. Functions,
 *               enum values and struct fields of the stable part are never removed or changed while
 *               TENURE_ABI_VERSION (the number in the name of the shared library) stays. Values may
 *               be added to enums: treat an unknown one as "another". The experimental part at the
 *               end is seen with -DTENURE_EXPERIMENTAL only and may change in any release.
 *   Determinism The same calls give the same decisions, byte for byte, on every machine.
 */
#ifndef TENURE_TENURE_H_
#define TENURE_TENURE_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define TENURE_API
#else
#define TENURE_API __attribute__((visibility("default")))
#endif

/* ---- Version ----------------------------------------------------------------------------------
 */

#define TENURE_VERSION_MAJOR 0
#define TENURE_VERSION_MINOR 1
#define TENURE_VERSION_PATCH 0
#define TENURE_ABI_VERSION 1

/* Of the library that is loaded: 10000 * major + 100 * minor + patch; "0.1.0". */
TENURE_API uint32_t tenure_version(void);
TENURE_API const char* tenure_version_string(void);

/* ---- Errors -----------------------------------------------------------------------------------
 */

typedef enum tenure_status {
  TENURE_OK = 0,
  TENURE_ERROR_INVALID_ARGUMENT = -1, /* never valid, whatever the state */
  TENURE_ERROR_NOT_FOUND = -2,        /* an id or a name that is unknown */
  TENURE_ERROR_ALREADY_EXISTS = -3,
  TENURE_ERROR_FAILED_PRECONDITION = -4, /* not in this state: closed, a stale run, ... */
  TENURE_ERROR_RESOURCE_EXHAUSTED = -5,  /* a limit of the library is reached */
  TENURE_ERROR_OUT_OF_RANGE = -6,        /* `now_us` went back */
  TENURE_ERROR_BUFFER_TOO_SMALL = -7,    /* the count says how much room is needed */
  TENURE_ERROR_REENTRANT = -8,           /* called from a callback of the same scheduler */
  /* Memory ran out, or the library or a callback failed in a way that must not happen. If that was
   * in the middle of a change the scheduler is broken from then on: every call but
   * tenure_scheduler_destroy and tenure_scheduler_restore answers TENURE_ERROR_INTERNAL. Restore
   * the last snapshot, which makes it whole; the memory of what broke is not given back. */
  TENURE_ERROR_OUT_OF_MEMORY = -9,
  TENURE_ERROR_INTERNAL = -10
} tenure_status;

/* "ok", "invalid-argument", ...; "unknown" for any other number. A static string, as of all names
 * below. */
TENURE_API const char* tenure_status_name(int32_t status);

/* What the last call of this thread that failed had to say; "" if none did. Valid until the next
 * call that fails on this thread. At most 511 bytes; a longer message is cut. */
TENURE_API const char* tenure_last_error_message(void);

/* ---- Enumerations -----------------------------------------------------------------------------
 */

#define TENURE_ROOT 0u                  /* root allocation; topology domain of the whole cluster */
#define TENURE_ANY_GPU_TYPE 0xffffffffu /* a workload that runs on any type (of one at a time) */
#define TENURE_DEEPEST_LEVEL 0xffu      /* the level of the smallest topology domains */
#define TENURE_NEVER INT64_MAX          /* a time that does not come */

typedef enum tenure_class {
  TENURE_CLASS_DEBUG = 0,       /* at most 8 GPUs, short: served first in its allocation */
  TENURE_CLASS_INTERACTIVE = 1, /* a person waits in it: packed together, stopped last */
  TENURE_CLASS_TRAINING = 2,
  TENURE_CLASS_SERVING = 3, /* has no end: never stopped for others within `serving_cap` */
  TENURE_CLASS_SWEEP = 4    /* minimum 0: fills what nobody funded wants */
} tenure_class;

typedef enum tenure_topology {
  TENURE_TOPOLOGY_PREFERRED = 0, /* in one domain of the level if one can hold it, else in few */
  TENURE_TOPOLOGY_REQUIRED = 1   /* in one domain of the level or not at all */
} tenure_topology;

typedef enum tenure_node_health {
  TENURE_NODE_UP = 0,
  TENURE_NODE_DRAINING = 1, /* takes nothing new; runs leave when their protection is over */
  TENURE_NODE_DOWN = 2      /* failed: nothing runs on it */
} tenure_node_health;

typedef enum tenure_stop_reason {
  TENURE_STOP_PREEMPTED = 0, /* for `beneficiary` */
  TENURE_STOP_DRAIN = 1,     /* its node drains or closes for maintenance; protection is over */
  TENURE_STOP_CANCELLED = 2, /* tenure_workload_cancel */
  TENURE_STOP_PROMISE = 3,   /* a promised start of `beneficiary` is due */
  TENURE_STOP_IDLE = 4       /* a session in which nobody works, while others wait; suspended */
} tenure_stop_reason;

typedef enum tenure_state {
  TENURE_STATE_PENDING = 1,     /* in a queue */
  TENURE_STATE_UNPLACEABLE = 2, /* larger than the declared cluster, or its allocation is closed */
  TENURE_STATE_HELD = 3,        /* GPUs are kept for it while runs are being stopped */
  TENURE_STATE_STARTING = 4,    /* decided, tenure_run_started has not come */
  TENURE_STATE_RUNNING = 5,
  TENURE_STATE_STOPPING = 6, /* decided, tenure_run_stopped has not come */
  TENURE_STATE_RESERVED = 7, /* has a promised start */
  TENURE_STATE_SUSPENDED = 8 /* an idle session that was stopped: waits for its owner */
} tenure_state;

typedef enum tenure_wait_reason {
  TENURE_WAIT_NONE = 0,           /* does not wait */
  TENURE_WAIT_NOT_CONSIDERED = 1, /* no pass since it was submitted */
  TENURE_WAIT_NEVER_FITS = 2,     /* larger than the declared cluster */
  TENURE_WAIT_CLOSED = 3,         /* its allocation is closed */
  TENURE_WAIT_NO_CAPACITY = 4,    /* not in what is free or may be stopped for it now */
  TENURE_WAIT_FOR_STOP = 5,       /* GPUs are held for it; runs are being stopped */
  TENURE_WAIT_UNFUNDED = 6,       /* minimum 0: waits for GPUs that nobody funded wants */
  TENURE_WAIT_RESERVED = 7,       /* has a promised start */
  TENURE_WAIT_SESSION_CAP = 8,    /* its allocation's sessions have all they may (session_cap) */
  TENURE_WAIT_SUSPENDED = 9,      /* waits for tenure_workload_idle(.., 0, ..) */
  TENURE_WAIT_MAINTENANCE = 10,   /* would start, were no maintenance announced */
  TENURE_WAIT_DEBUG_CAP = 11,     /* its allocation's debug work has all it may (debug_cap) */
  TENURE_WAIT_SERVING_CAP = 12,   /* its allocation's services have all they may (serving_cap) */
  TENURE_WAIT_USER_CAP = 13       /* its user has all of its class that one may (user_*_gpus) */
} tenure_wait_reason;

/* What became of a workload that lost its run. */
typedef enum tenure_outcome {
  TENURE_OUTCOME_REQUEUED = 0,  /* waits again, with its first queue time */
  TENURE_OUTCOME_FAILED = 1,    /* was not resumable and was preempted: over, unknown from now on */
  TENURE_OUTCOME_CANCELLED = 2, /* its owner had cancelled it: over */
  TENURE_OUTCOME_SUSPENDED = 3, /* an idle session */
  TENURE_OUTCOME_FAILED_WITH_NODE = 4 /* was not resumable and its node failed: over */
} tenure_outcome;

/* Names for people: "running", "no-capacity", ...; "unknown" for any other number. */
TENURE_API const char* tenure_class_name(int32_t value);
TENURE_API const char* tenure_node_health_name(int32_t value);
TENURE_API const char* tenure_stop_reason_name(int32_t value);
TENURE_API const char* tenure_state_name(int32_t value);
TENURE_API const char* tenure_wait_reason_name(int32_t value);
TENURE_API const char* tenure_outcome_name(int32_t value);

/* ---- Options ----------------------------------------------------------------------------------
 */

typedef struct tenure_options tenure_options;

/* The options of a preset: "budget" (the default policy), "ai2" (the published one), "hier"
 * (budget, level by level), "responsive" (budget, with a window of three days) or "lag" (ranks by
 * how far an allocation is behind what a fluid would have given it). NOT_FOUND: no such policy.
 * *out is NULL on error. */
TENURE_API tenure_status tenure_options_create(const char* policy, tenure_options** out);
/* Schedulers made with them go on. NULL does nothing. */
TENURE_API void tenure_options_destroy(tenure_options* options);

/* Sets a parameter by name from text: durations with units ("90s", "30m", "1h30m"), switches "true"
 * or "false", whole numbers. NOT_FOUND: the policy has no such parameter (the message lists them);
 * INVALID_ARGUMENT: the value is of another kind. Ranges are checked by tenure_scheduler_create. */
TENURE_API tenure_status tenure_options_set(tenure_options* options, const char* name,
                                            const char* value);

typedef struct tenure_parameter {
  uint32_t struct_size;
  uint32_t reserved;
  const char* name; /* all four are valid as long as the options are */
  const char* unit; /* "duration", "number", "switch" */
  const char* help;
  const char* default_value; /* of the preset */
} tenure_parameter;
#define TENURE_PARAMETER_INIT \
  { sizeof(tenure_parameter), 0, NULL, NULL, NULL, NULL }

/* Number of parameters of the policy. */
TENURE_API tenure_status tenure_options_count(const tenure_options* options, size_t* out_count);
/* The parameter at `index` in [0, count). NOT_FOUND: no such index. */
TENURE_API tenure_status tenure_options_describe(const tenure_options* options, size_t index,
                                                 tenure_parameter* out);

/* How much a log callback is told. A level includes those before it. */
typedef enum tenure_log_level {
  TENURE_LOG_ERROR = 1,   /* the scheduler is broken */
  TENURE_LOG_WARNING = 2, /* a call was refused */
  TENURE_LOG_INFO = 3     /* every decision, one line each */
} tenure_log_level;

/* `message` is valid during the call only. Called on the thread of the call that is logged; it must
 * not call that scheduler. */
typedef void (*tenure_log_function)(void* user, int32_t level, const char* message);

/* `function` NULL: no log. `user` is passed on; it must outlive the schedulers made with these
 * options and their clones, and calls may come from every thread that uses one of them.
 * INVALID_ARGUMENT: unknown level. */
TENURE_API tenure_status tenure_options_set_log(tenure_options* options, int32_t level,
                                                tenure_log_function function, void* user);

/* ---- Schedulers -------------------------------------------------------------------------------
 */

typedef struct tenure_scheduler tenure_scheduler;

/* A scheduler of an empty cluster with a lone root allocation. `options` NULL: those of "budget".
 * They are copied and can be destroyed or used again. INVALID_ARGUMENT: a parameter is out of its
 * range; FAILED_PRECONDITION: the plan search is to use a GPU and there is none. *out is NULL on
 * error. */
TENURE_API tenure_status tenure_scheduler_create(const tenure_options* options,
                                                 tenure_scheduler** out);
/* NULL does nothing, nor does a call from one of its own callbacks. */
TENURE_API void tenure_scheduler_destroy(tenure_scheduler* scheduler);

/* An independent copy of the whole state, for readers and for what-if questions. Decisions that
 * wait to be fetched stay with the original. O(state). */
TENURE_API tenure_status tenure_scheduler_clone(const tenure_scheduler* scheduler,
                                                tenure_scheduler** out);

/* The whole state as bytes, the same on every machine. O(state), also when it does not fit: start
 * with the size of the last one and some room. BUFFER_TOO_SMALL: *out_size is the room needed. */
TENURE_API tenure_status tenure_scheduler_snapshot(const tenure_scheduler* scheduler, void* buffer,
                                                   size_t capacity, size_t* out_size);

/* Puts the state of a snapshot in place of the present one; decisions that wait to be fetched are
 * dropped. Then compare with what really runs: tenure_scheduler_reconcile. A checksum finds damage,
 * not forgery: take snapshots from where only you can write. INVALID_ARGUMENT: damaged, or not of
 * this version; FAILED_PRECONDITION: taken with other options. */
TENURE_API tenure_status tenure_scheduler_restore(tenure_scheduler* scheduler, const void* bytes,
                                                  size_t size);

/* 64 bits over the whole state: equal for equal state. O(state). */
TENURE_API tenure_status tenure_scheduler_digest(const tenure_scheduler* scheduler,
                                                 uint64_t* out_digest);

typedef struct tenure_scheduler_info {
  uint32_t struct_size;
  int32_t dirty;           /* something was reported that may change decisions: call decide soon */
  int64_t now_us;          /* of the last call that was not refused */
  uint64_t workload_count; /* known: waiting, running, ... */
  uint32_t allocation_count, node_count, domain_count, gpu_type_count; /* domains with the root */
  int64_t declared_gpus;                                               /* of all nodes */
  int64_t healthy_gpus;                                                /* of nodes that are up */
  int64_t free_gpus;                                                   /* may be given away now */
} tenure_scheduler_info;
#define TENURE_SCHEDULER_INFO_INIT \
  { sizeof(tenure_scheduler_info), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* O(nodes). */
TENURE_API tenure_status tenure_scheduler_describe(const tenure_scheduler* scheduler,
                                                   tenure_scheduler_info* out);

/* ---- Cluster ----------------------------------------------------------------------------------
 */

/* The id of a GPU type; new if the name is. INVALID_ARGUMENT (name empty or longer than 4096),
 * RESOURCE_EXHAUSTED (there are 65535 types). */
TENURE_API tenure_status tenure_gpu_type_add(tenure_scheduler* scheduler, const char* name,
                                             uint32_t* out_type);

/* From `now_us` on a GPU of `type` is charged as `permille` / 1000 GPUs (1000 unless set), running
 * work too; what was charged before stays. NOT_FOUND (type), INVALID_ARGUMENT (not in [1, 10^6]),
 * OUT_OF_RANGE (time), RESOURCE_EXHAUSTED (the weighted cluster is too large to be counted exactly:
 * choose rates with a large common divisor). */
TENURE_API tenure_status tenure_gpu_type_set_rate(tenure_scheduler* scheduler, uint32_t type,
                                                  int32_t permille, int64_t now_us);

/* A topology domain (a row, a rack, ...) below `parent`. NOT_FOUND (parent), ALREADY_EXISTS (the
 * name under that parent), INVALID_ARGUMENT (more than 16 levels below the root; name empty or
 * longer than 4096). */
TENURE_API tenure_status tenure_domain_add(tenure_scheduler* scheduler, uint32_t parent,
                                           const char* name, uint32_t* out_domain);

/* A node of `gpus` GPUs in [1, 1024], up and empty. INVALID_ARGUMENT (gpus; more than 2^21 GPUs in
 * all; name empty or longer than 4096), NOT_FOUND (type, domain), ALREADY_EXISTS (name),
 * OUT_OF_RANGE (time), RESOURCE_EXHAUSTED (as for rates). */
TENURE_API tenure_status tenure_node_add(tenure_scheduler* scheduler, const char* name,
                                         int32_t gpus, uint32_t type, uint32_t domain,
                                         int64_t now_us, uint32_t* out_node);

/* A workload that lost its run. An element of a list: never changes. */
typedef struct tenure_loss {
  uint64_t workload;
  uint32_t run;
  int32_t outcome; /* tenure_outcome */
} tenure_loss;

/* Changes the health of a node. TENURE_NODE_DOWN ends every run on it at `since_us` <= `now_us`:
 * charged until then, requeued if resumable. All that lost a run are listed in `losses` by id: tell
 * the owners of those that are TENURE_OUTCOME_FAILED_WITH_NODE. BUFFER_TOO_SMALL: nothing was done,
 * *out_count is the room needed (at most one for each GPU of the node). NOT_FOUND (node),
 * INVALID_ARGUMENT (health; `since_us` later than `now_us`), OUT_OF_RANGE (time). */
TENURE_API tenure_status tenure_node_set_health(tenure_scheduler* scheduler, uint32_t node,
                                                int32_t health, int64_t since_us, int64_t now_us,
                                                tenure_loss* losses, size_t capacity,
                                                size_t* out_count);

typedef struct tenure_node_info {
  uint32_t struct_size;
  uint32_t type, domain;
  int32_t health; /* tenure_node_health */
  int32_t gpus;
  int32_t occupied_gpus; /* by runs, also by those that are being stopped */
  int32_t stopping_gpus; /* the part of those */
  int32_t run_count;
  int32_t drained;        /* drains or is closed for maintenance, and empty */
  int32_t reserved;       /* a gang is promised a start on it */
  int32_t in_maintenance; /* closed now; takes nothing, whatever its health */
  uint32_t padding;
  int64_t closes_us; /* for maintenance: so early that its runs have their grace; or TENURE_NEVER */
} tenure_node_info;
#define TENURE_NODE_INFO_INIT \
  { sizeof(tenure_node_info), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* NOT_FOUND. */
TENURE_API tenure_status tenure_node_describe(const tenure_scheduler* scheduler, uint32_t node,
                                              tenure_node_info* out);
/* The node of that name. NOT_FOUND. */
TENURE_API tenure_status tenure_node_find(const tenure_scheduler* scheduler, const char* name,
                                          uint32_t* out_node);
/* The name with its NUL. *out_size: bytes without it; it needs room for one more. NOT_FOUND. */
TENURE_API tenure_status tenure_node_name(const tenure_scheduler* scheduler, uint32_t node,
                                          char* buffer, size_t capacity, size_t* out_size);

/* Maintenance that is known ahead: from now on nothing that is protected beyond `from_us` starts on
 * these nodes, at `from_us` they close, at `until_us` they open again. INVALID_ARGUMENT (no nodes;
 * an interval that is empty or over; a time), NOT_FOUND (a node), OUT_OF_RANGE (now_us). */
TENURE_API tenure_status tenure_maintenance_announce(tenure_scheduler* scheduler,
                                                     const uint32_t* nodes, size_t count,
                                                     int64_t from_us, int64_t until_us,
                                                     const char* author, const char* reason,
                                                     int64_t now_us, uint64_t* out_maintenance);
/* Before it begins or while it lasts. NOT_FOUND (over, too), OUT_OF_RANGE (time). */
TENURE_API tenure_status tenure_maintenance_cancel(tenure_scheduler* scheduler,
                                                   uint64_t maintenance, int64_t now_us);

typedef struct tenure_maintenance_info {
  uint32_t struct_size;
  uint32_t reserved;
  int64_t from_us, until_us;
} tenure_maintenance_info;
#define TENURE_MAINTENANCE_INFO_INIT \
  { sizeof(tenure_maintenance_info), 0, 0, 0 }

/* What has been announced and is not over, in order of announcement. */
TENURE_API tenure_status tenure_maintenance_list(const tenure_scheduler* scheduler,
                                                 uint64_t* maintenances, size_t capacity,
                                                 size_t* out_count);
/* One of them, with its nodes in ascending order. NOT_FOUND. */
TENURE_API tenure_status tenure_maintenance_describe(const tenure_scheduler* scheduler,
                                                     uint64_t maintenance,
                                                     tenure_maintenance_info* out, uint32_t* nodes,
                                                     size_t capacity, size_t* out_count);

/* ---- Budgets ----------------------------------------------------------------------------------
 */

/* An allocation below `parent` with a share of `weight` among its siblings (0: unfunded work only).
 * INVALID_ARGUMENT (name empty, with '/' or longer than 4096; weight negative or not finite),
 * NOT_FOUND (parent), FAILED_PRECONDITION (parent is closed, or has been charged as a leaf),
 * ALREADY_EXISTS (an open sibling has the name), OUT_OF_RANGE (time). */
TENURE_API tenure_status tenure_allocation_add(tenure_scheduler* scheduler, uint32_t parent,
                                               const char* name, double weight, int64_t now_us,
                                               uint32_t* out_allocation);

/* From `effective_us` on (the past means now) the allocation weighs `weight`; history is not
 * rescaled. INVALID_ARGUMENT (weight; the root; a time beyond +-2^61), NOT_FOUND,
 * FAILED_PRECONDITION (closed), OUT_OF_RANGE (now_us). */
TENURE_API tenure_status tenure_allocation_set_weight(tenure_scheduler* scheduler,
                                                      uint32_t allocation, double weight,
                                                      int64_t effective_us, const char* author,
                                                      const char* reason, int64_t now_us);

/* It weighs `weight` in [from_us, until_us), then again what it weighed before, unless set
 * meanwhile. The errors of tenure_allocation_set_weight, and INVALID_ARGUMENT if that leaves no
 * time. */
TENURE_API tenure_status tenure_allocation_boost(tenure_scheduler* scheduler, uint32_t allocation,
                                                 double weight, int64_t from_us, int64_t until_us,
                                                 const char* author, const char* reason,
                                                 int64_t now_us);

/* Puts it and all below it under another parent, with its history. NOT_FOUND (either),
 * INVALID_ARGUMENT (the root; a cycle; already there), FAILED_PRECONDITION (either is closed; the
 * parent has been charged as a leaf), ALREADY_EXISTS (name), OUT_OF_RANGE (time). */
TENURE_API tenure_status tenure_allocation_move(tenure_scheduler* scheduler, uint32_t allocation,
                                                uint32_t new_parent, const char* author,
                                                const char* reason, int64_t now_us);

/* No new starts in it and below; running work goes on and stays charged. NOT_FOUND,
 * INVALID_ARGUMENT (the root), FAILED_PRECONDITION (closed already), OUT_OF_RANGE (time). */
TENURE_API tenure_status tenure_allocation_close(tenure_scheduler* scheduler, uint32_t allocation,
                                                 int64_t now_us);

typedef struct tenure_allocation_info {
  uint32_t struct_size;
  uint32_t parent; /* of the root: the root */
  double weight;
  int32_t depth; /* 0: the root */
  int32_t closed;
  int32_t leaf;         /* workloads are submitted to leaves */
  uint32_t child_count; /* closed ones too */
} tenure_allocation_info;
#define TENURE_ALLOCATION_INFO_INIT \
  { sizeof(tenure_allocation_info), 0, 0.0, 0, 0, 0, 0 }

/* NOT_FOUND. */
TENURE_API tenure_status tenure_allocation_describe(const tenure_scheduler* scheduler,
                                                    uint32_t allocation,
                                                    tenure_allocation_info* out);
/* The open allocation of a path such as "nlp/pretraining"; "" is the root. NOT_FOUND. */
TENURE_API tenure_status tenure_allocation_find(const tenure_scheduler* scheduler, const char* path,
                                                uint32_t* out_allocation);
/* The path with its NUL. *out_size: bytes without it; it needs room for one more. NOT_FOUND. */
TENURE_API tenure_status tenure_allocation_path(const tenure_scheduler* scheduler,
                                                uint32_t allocation, char* buffer, size_t capacity,
                                                size_t* out_size);

/* Where an allocation stands at `now_us`. */
typedef struct tenure_standing {
  uint32_t struct_size;
  uint32_t allocation;
  int64_t entitlement_mgpu; /* its shares x the healthy capacity */
  int64_t natural_mgpu;     /* what it would get now if GPUs were a fluid, by weight and demand */
  int64_t fluid_mgpu;       /* what it is due now: natural, tilted towards the under-served */
  int64_t used_gpu_us;      /* charged in the lookback window */
  int64_t used_rest;        /* thousandths of a GPU-microsecond beyond that (charge rates) */
  int64_t committed_gpu_us; /* rest of running protections */
  int64_t unfunded_gpu_us;  /* occupied for free in the window */
  int64_t key_us;           /* (used + committed) / entitlement; lower is served first */
  int64_t placed_gpus, queued_gpus, unfunded_gpus;
} tenure_standing;
#define TENURE_STANDING_INIT \
  { sizeof(tenure_standing), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* NOT_FOUND, OUT_OF_RANGE (time). O(allocations + workloads). */
TENURE_API tenure_status tenure_allocation_standing(const tenure_scheduler* scheduler,
                                                    uint32_t allocation, int64_t now_us,
                                                    tenure_standing* out);

/* ---- Workloads --------------------------------------------------------------------------------
 */

/* What is submitted: a gang of `nodes` members with `gpus_per_node` GPUs each; nodes = 1 is an
 * ordinary job inside one node. A run of it is protected, and its allocation charged, for
 * `minimum_us` (at most the cap of its class), at every start anew. nodes x gpus_per_node is at
 * most 2^21, each of the three times at most 360 days. */
typedef struct tenure_workload {
  uint32_t struct_size;
  uint32_t allocation;    /* a leaf */
  uint64_t id;            /* the caller's; not in use by a workload that is not over */
  const char* name;       /* may be NULL; never interpreted */
  uint32_t name_size;     /* bytes of name; 0: it ends with NUL */
  uint32_t user;          /* the caller's number of its owner, for caps and reports; 0xffffffff:
                             nobody's, which no cap of a user holds for */
  int32_t workload_class; /* tenure_class */
  int32_t priority;       /* larger first, inside one allocation only */
  uint32_t nodes;
  int32_t gpus_per_node;
  uint32_t gpu_type;       /* or TENURE_ANY_GPU_TYPE */
  int32_t topology;        /* tenure_topology */
  uint32_t topology_level; /* 0: the cluster, 1: below the root, ..., or TENURE_DEEPEST_LEVEL */
  int32_t resumable;       /* 0: losing a run fails it */
  int64_t minimum_us;      /* 0: unfunded, free, stopped by any funded request */
  int64_t checkpoint_interval_us; /* 0: unknown, a stopped run loses all its work */
  int64_t restart_overhead_us;    /* until a resumed run makes progress */
  int32_t restorable; /* 1: saves all its work in the grace of a stop (a checkpoint on notice, a
                         session that is suspended and restored); needs `resumable` */
  int32_t padding;
} tenure_workload;
#define TENURE_WORKLOAD_INIT                                                                   \
  {                                                                                            \
    sizeof(tenure_workload), 0, 0, NULL, 0, 0, TENURE_CLASS_TRAINING, 0, 1, 1,                 \
        TENURE_ANY_GPU_TYPE, TENURE_TOPOLOGY_PREFERRED, TENURE_DEEPEST_LEVEL, 1, 0, 0, 0, 0, 0 \
  }

/* INVALID_ARGUMENT (a field is out of range; the message names it), ALREADY_EXISTS (id), NOT_FOUND
 * (allocation, GPU type), FAILED_PRECONDITION (the allocation is closed or not a leaf),
 * OUT_OF_RANGE (time). That it does not fit now is no error. */
TENURE_API tenure_status tenure_workload_submit(tenure_scheduler* scheduler,
                                                const tenure_workload* workload, int64_t now_us);

/* Waiting work is over at once; a run is stopped by the next pass. NOT_FOUND, OUT_OF_RANGE. */
TENURE_API tenure_status tenure_workload_cancel(tenure_scheduler* scheduler, uint64_t workload,
                                                int64_t now_us);

/* An interactive session does not use its GPUs (`idle` 1) or uses them again (0). An idle run loses
 * its protection; once stopped it is suspended until it is reported not idle. While anything waits,
 * idle sessions beyond `idle_cap` of their allocation's entitlement are stopped (TENURE_STOP_IDLE).
 * NOT_FOUND, FAILED_PRECONDITION (no session, or neither running nor suspended), OUT_OF_RANGE. */
TENURE_API tenure_status tenure_workload_idle(tenure_scheduler* scheduler, uint64_t workload,
                                              int32_t idle, int64_t now_us);

/* Bytes that the resource manager wants back when the workload starts again: the image to restore,
 * a checkpoint, an address. At most 4096, never interpreted; part of the state and of snapshots;
 * forgotten when the workload is over. Size 0 takes them back; `bytes` may be NULL then. NOT_FOUND,
 * INVALID_ARGUMENT (too many), OUT_OF_RANGE (time). */
TENURE_API tenure_status tenure_workload_set_resume_hint(tenure_scheduler* scheduler,
                                                         uint64_t workload, const void* bytes,
                                                         size_t size, int64_t now_us);
/* What was set last; size 0 if nothing was. *out_size is set; BUFFER_TOO_SMALL: to the room that is
 * needed. NOT_FOUND. */
TENURE_API tenure_status tenure_workload_resume_hint(const tenure_scheduler* scheduler,
                                                     uint64_t workload, void* buffer,
                                                     size_t capacity, size_t* out_size);

/* A workload's standing with the numbers that decide about it, as of the last pass. */
typedef struct tenure_explanation {
  uint32_t struct_size;
  uint32_t allocation;
  uint64_t workload;
  int32_t state;  /* tenure_state */
  int32_t reason; /* tenure_wait_reason */
  uint32_t run;   /* of the current or last run; 0: none yet */
  int32_t tier;   /* 1: within what its allocation is due now */
  uint32_t stops; /* how often it was preempted */
  int32_t funded;
  uint64_t leaves_ahead;   /* allocations with waiting funded work that rank before its own */
  uint64_t requests_ahead; /* of its own allocation */
  int64_t entitlement_mgpu, fluid_mgpu; /* of its allocation, as in tenure_standing */
  int64_t placed_gpus, queued_gpus;
  int64_t used_gpu_us; /* with committed minimums */
  int64_t key_us;
  int64_t start_us;               /* of the current run; TENURE_NEVER if it has none */
  int64_t protected_until_us;     /* of the current run; TENURE_NEVER if it has none */
  int64_t promised_start_us;      /* or TENURE_NEVER */
  int64_t next_protection_end_us; /* earliest end of any protection, or TENURE_NEVER */
} tenure_explanation;
#define TENURE_EXPLANATION_INIT \
  { sizeof(tenure_explanation), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* NOT_FOUND. O(allocations + workloads). */
TENURE_API tenure_status tenure_workload_explain(const tenure_scheduler* scheduler,
                                                 uint64_t workload, tenure_explanation* out);

/* The nodes of its run, hold or promise; none if it has none. NOT_FOUND. */
TENURE_API tenure_status tenure_workload_nodes(const tenure_scheduler* scheduler, uint64_t workload,
                                               uint32_t* nodes, size_t capacity, size_t* out_count);

/* A guess at when a waiting workload starts: the promise if it has one, else the engine played
 * forward on a copy in which nothing fails and nobody submits anything. */
typedef struct tenure_forecast {
  uint32_t struct_size;
  int32_t promised;          /* start_us is the latest start of a promise, not an estimate */
  int32_t started;           /* it has been placed already, at start_us */
  int32_t reason;            /* tenure_wait_reason: why it waits now */
  int64_t start_us;          /* TENURE_NEVER: not within the horizon */
  int64_t searched_until_us; /* how far the future was played */
} tenure_forecast;
#define TENURE_FORECAST_INIT \
  { sizeof(tenure_forecast), 0, 0, 0, 0, 0 }

/* `horizon_us` > 0: look no further, at most 360 days. NOT_FOUND, INVALID_ARGUMENT (horizon).
 * O(state) and then one pass for every event of the time played. */
TENURE_API tenure_status tenure_workload_forecast(const tenure_scheduler* scheduler,
                                                  uint64_t workload, int64_t horizon_us,
                                                  tenure_forecast* out);

/* ---- Decisions --------------------------------------------------------------------------------
 */

/* Elements of lists: never change. `node_begin`, `node_count`: a part of tenure_decisions.nodes. */
typedef struct tenure_start {
  uint64_t workload;
  uint32_t run; /* (workload, run) names the run in every report about it */
  uint32_t node_begin, node_count;
  int32_t gpus_per_node;
} tenure_start;

typedef struct tenure_stop {
  uint64_t workload;
  uint64_t beneficiary; /* for TENURE_STOP_PREEMPTED and TENURE_STOP_PROMISE, else 0 */
  uint32_t run;
  int32_t reason;      /* tenure_stop_reason */
  int64_t grace_us;    /* the run may use it to save its work; it may take longer */
  int64_t lost_gpu_us; /* estimate of the work that is lost, with the next restart */
} tenure_stop;

/* GPUs kept for a workload until the runs that are being stopped for it are gone. */
typedef struct tenure_hold {
  uint64_t workload;
  uint32_t node_begin, node_count;
  int32_t gpus_per_node;
  uint32_t reserved;
  int64_t expires_us;
} tenure_hold;

/* A gang starts on these nodes by `start_by_us` at the latest. Told when the promise is made, and
 * again if one of its nodes fails. */
typedef struct tenure_promise {
  uint64_t workload;
  uint32_t node_begin, node_count;
  int64_t start_by_us;
} tenure_promise;

/* The caller sets the buffers and their capacities, the library the counts. A list whose buffer is
 * NULL and whose capacity is 0 may be left out if it is empty only, except `holds` and `promises`,
 * which are for information: without a buffer they are counted and not copied. */
typedef struct tenure_decisions {
  uint32_t struct_size;
  uint32_t reserved;
  tenure_start* starts;
  size_t start_capacity, start_count;
  tenure_stop* stops;
  size_t stop_capacity, stop_count;
  tenure_hold* holds;
  size_t hold_capacity, hold_count;
  tenure_promise* promises;
  size_t promise_capacity, promise_count;
  uint32_t* nodes;
  size_t node_capacity, node_count;
  int64_t next_wakeup_us; /* call decide again then at the latest; TENURE_NEVER: time alone changes
                             nothing */
} tenure_decisions;
#define TENURE_DECISIONS_INIT \
  { sizeof(tenure_decisions), 0, NULL, 0, 0, NULL, 0, 0, NULL, 0, 0, NULL, 0, 0, NULL, 0, 0, 0 }

/* One pass: launch `starts` and report them started, signal `stops` and report them stopped. GPUs
 * of a stopped run are given away only after that report. Call it when something was reported, and
 * at `next_wakeup_us`. BUFFER_TOO_SMALL: the pass was made, but its decisions do not fit. The
 * counts say how much room is needed; fetch them with tenure_scheduler_decisions. Until then every
 * further pass is refused with FAILED_PRECONDITION, so that no decision is lost. OUT_OF_RANGE
 * (time). */
TENURE_API tenure_status tenure_scheduler_decide(tenure_scheduler* scheduler, int64_t now_us,
                                                 tenure_decisions* out);

/* The decisions of the last pass, again. FAILED_PRECONDITION: no pass since it was made, cloned or
 * restored. */
TENURE_API tenure_status tenure_scheduler_decisions(tenure_scheduler* scheduler,
                                                    tenure_decisions* out);

/* Reports about a run. NOT_FOUND: no such workload; FAILED_PRECONDITION: the run is an old one, or
 * not in a state where this can happen (a duplicate); INVALID_ARGUMENT: a time later than `now_us`
 * or before the run's start; OUT_OF_RANGE: `now_us`. */
TENURE_API tenure_status tenure_run_started(tenure_scheduler* scheduler, uint64_t workload,
                                            uint32_t run, int64_t started_us, int64_t now_us);
/* The launch was refused: not charged, tried again, not on the same node for a while. */
TENURE_API tenure_status tenure_run_start_failed(tenure_scheduler* scheduler, uint64_t workload,
                                                 uint32_t run, int64_t now_us);
/* It ended by itself: the workload is over. */
TENURE_API tenure_status tenure_run_ended(tenure_scheduler* scheduler, uint64_t workload,
                                          uint32_t run, int64_t ended_us, int64_t now_us);
/* A stop was carried out. *out_outcome: a tenure_outcome; may be NULL. */
TENURE_API tenure_status tenure_run_stopped(tenure_scheduler* scheduler, uint64_t workload,
                                            uint32_t run, int64_t stopped_us, int64_t now_us,
                                            int32_t* out_outcome);
/* The stop did not work, the run goes on. */
TENURE_API tenure_status tenure_run_stop_failed(tenure_scheduler* scheduler, uint64_t workload,
                                                uint32_t run, int64_t now_us);
/* Work done before `at_us` is saved. */
TENURE_API tenure_status tenure_run_checkpointed(tenure_scheduler* scheduler, uint64_t workload,
                                                 uint32_t run, int64_t at_us, int64_t now_us);

/* An element of a list: never changes. */
typedef struct tenure_run_ref {
  uint64_t workload;
  uint32_t run;
  uint32_t reserved; /* 0 */
} tenure_run_ref;

typedef struct tenure_reconcile_report {
  uint32_t struct_size;
  uint32_t reserved;
  tenure_run_ref* ended; /* ran here and is not in the list: closed at the last sign of life */
  size_t ended_capacity, ended_count;
  tenure_run_ref* unknown; /* in the list and does not run here: the caller must decide */
  size_t unknown_capacity, unknown_count;
} tenure_reconcile_report;
#define TENURE_RECONCILE_REPORT_INIT \
  { sizeof(tenure_reconcile_report), 0, NULL, 0, 0, NULL, 0, 0 }

/* The full list of all that runs, after a restart or now and then. BUFFER_TOO_SMALL: nothing was
 * done; the counts say how much room is enough: for `ended` one for each run that is known here,
 * for `unknown` one for each in the list. OUT_OF_RANGE (time). */
TENURE_API tenure_status tenure_scheduler_reconcile(tenure_scheduler* scheduler,
                                                    const tenure_run_ref* running, size_t count,
                                                    int64_t now_us, tenure_reconcile_report* out);

/* ---- Experimental -----------------------------------------------------------------------------
 */
#ifdef TENURE_EXPERIMENTAL

/* What the plan search of a pass did (parameters `search_*`; it is off unless `search_trials` is
 * set). The decisions depend on trials and seed, never on the back end. */
typedef enum tenure_search_outcome {
  TENURE_SEARCH_NONE = 0,    /* no search: it is off, or no waiting request could be placed */
  TENURE_SEARCH_NO_GAIN = 1, /* no trial was better than the pass without a search */
  TENURE_SEARCH_TAKEN = 2,   /* the decisions are those of the winner */
  TENURE_SEARCH_REFUSED = 3, /* the winner broke a rule, or the whole pass was no better with it */
  TENURE_SEARCH_FAILED = 4   /* no back end could make the trials */
} tenure_search_outcome;

typedef enum tenure_search_backend {
  TENURE_SEARCH_ON_NONE = 0,
  TENURE_SEARCH_ON_CPU = 1,
  TENURE_SEARCH_ON_CUDA = 2
} tenure_search_backend;

typedef struct tenure_search_record {
  uint32_t struct_size;
  int32_t outcome; /* tenure_search_outcome */
  int32_t backend; /* tenure_search_backend: where the trials were made */
  uint32_t trials; /* that were made */
  uint32_t seed;
  uint32_t winner;               /* number of the best trial; 0: the pass without a search */
  uint64_t price_before_gpu_min; /* of trial 0, in GPU-minutes */
  uint64_t price_gpu_min;        /* of the winner */
  uint64_t
      faults; /* so far: back ends that failed, or that answered what their plan does not cost */
} tenure_search_record;
#define TENURE_SEARCH_RECORD_INIT \
  { sizeof(tenure_search_record), 0, 0, 0, 0, 0, 0, 0, 0 }

/* That of the last pass. FAILED_PRECONDITION: no pass since the scheduler was made, cloned or
 * restored. O(1). */
TENURE_API tenure_status tenure_scheduler_search(const tenure_scheduler* scheduler,
                                                 tenure_search_record* out);

/* "taken", "cpu", ...; "unknown" for any other number. */
TENURE_API const char* tenure_search_outcome_name(int32_t value);
TENURE_API const char* tenure_search_backend_name(int32_t value);

/* What one pass right after submitting a workload would do for it. */
typedef struct tenure_what_if {
  uint32_t struct_size;
  int32_t starts_now;
  int32_t held;     /* GPUs would be kept for it until `stops` are gone */
  int32_t reserved; /* a start would be promised */
  int32_t reason;   /* tenure_wait_reason if it does not start now */
  uint32_t padding;
  int64_t promised_start_us; /* or TENURE_NEVER */
  uint32_t* nodes;           /* where, if any of the three */
  size_t node_capacity, node_count;
  tenure_stop* stops; /* runs that would be stopped for it */
  size_t stop_capacity, stop_count;
} tenure_what_if;
#define TENURE_WHAT_IF_INIT \
  { sizeof(tenure_what_if), 0, 0, 0, 0, 0, 0, NULL, 0, 0, NULL, 0, 0 }

/* The errors of tenure_workload_submit, and BUFFER_TOO_SMALL. O(state) and one pass. */
TENURE_API tenure_status tenure_workload_what_if(const tenure_scheduler* scheduler,
                                                 const tenure_workload* workload, int64_t now_us,
                                                 tenure_what_if* out);

/* A policy of one's own. A hook that is NULL is the preset's. Feasibility, contracts, gangs and
 * holds are the engine's whatever the hooks answer. Hooks must be pure functions of what they are
 * given: no clock, no randomness, no memory. They may be called from every thread that uses the
 * scheduler or a clone, and must not call it. What they are given is valid during the call, and may
 * have further fields in later versions. */
typedef struct tenure_allocation_view {
  uint32_t struct_size;
  uint32_t allocation;
  int64_t used_gpu_us; /* in the window, with the rest of running protections */
  int64_t entitlement_mgpu;
} tenure_allocation_view;

typedef struct tenure_requester_view {
  uint32_t struct_size;
  uint32_t allocation;
  int32_t workload_class;
  int32_t tier;
  int64_t gpus;
  int64_t charge_mgpu;                          /* what it takes of a share: GPUs x charge rate */
  int64_t allocation_placed_mgpu;               /* what its allocation's funded runs take */
  int64_t entitlement_mgpu, fluid_mgpu, key_us; /* of its allocation */
} tenure_requester_view;

typedef struct tenure_run_view {
  uint32_t struct_size;
  uint32_t allocation;
  uint64_t workload;
  int32_t workload_class;
  int32_t funded, resumable, idle;
  int64_t gpus;
  int64_t charge_mgpu;
  uint32_t stops; /* how often it was preempted */
  int32_t lane;   /* on a node kept for short work; 0 for victim_cost */
  int64_t now_us, start_us, protected_until_us, progress_since_us, checkpoint_interval_us;
  int64_t lost_us;                /* of its work if it were stopped now */
  int64_t allocation_placed_mgpu; /* less the victims chosen already; 0 for victim_cost */
  int64_t entitlement_mgpu, fluid_mgpu, key_us; /* of its allocation */
  int64_t gap_us; /* how much more of its share its side has used than the requester's; 0 for
                     victim_cost */
} tenure_run_view;

typedef struct tenure_node_view {
  uint32_t struct_size;
  uint32_t request_nodes;
  int32_t request_gpus; /* per node */
  int32_t gpus, free_gpus;
  uint32_t type, domain;
  int32_t run_count;
  const char* name;
} tenure_node_view;

typedef struct tenure_policy_hooks {
  uint32_t struct_size;
  uint32_t reserved;
  void* user; /* passed to every hook; must outlive the schedulers made with it and their clones */
  /* Lower is served first. In [0, 2^61]; what lies outside counts as the nearest of the two. */
  int64_t (*rank_key)(void* user, const tenure_allocation_view* allocation);
  /* 1: it is tried before all requests of tier 2, which is any other number. What it is given has
   * tier 1. */
  int32_t (*tier)(void* user, const tenure_requester_view* requester);
  /* May `requester`, which is funded, have `victim` stopped, which is unfunded or past protection?
   * A smaller `allocation_placed_mgpu` of the victim must not turn a no into a yes. */
  int32_t (*may_preempt)(void* user, const tenure_requester_view* requester,
                         const tenure_run_view* victim);
  /* Lower is stopped first. In [0, 2^41 x its GPUs]; as above. */
  int64_t (*victim_cost)(void* user, const tenure_run_view* run);
  /* Among nodes that fit, a higher one is taken first. In [-2^61, 2^61]; as above. */
  int64_t (*node_score)(void* user, const tenure_node_view* node);
} tenure_policy_hooks;
#define TENURE_POLICY_HOOKS_INIT \
  { sizeof(tenure_policy_hooks), 0, NULL, NULL, NULL, NULL, NULL, NULL }

/* Schedulers made with these options ask `hooks`, which are copied. NULL: no hooks. A snapshot can
 * be restored only with hooks that answer alike. */
TENURE_API tenure_status tenure_options_set_hooks(tenure_options* options,
                                                  const tenure_policy_hooks* hooks);

#endif /* TENURE_EXPERIMENTAL */

#ifdef __cplusplus
}
#endif

#endif /* TENURE_TENURE_H_ */
