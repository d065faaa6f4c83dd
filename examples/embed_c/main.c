/* SPDX-License-Identifier: Apache-2.0
 *
 * A resource manager in 150 lines of C: one node of four GPUs, two teams, and jobs that are real
 * processes. What Tenure starts is forked, what it stops gets SIGTERM and may save its work; it
 * goes on later where it was. Exits with 0 if all went as it must.
 */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tenure/tenure.h"

enum { JOBS = 4, STEP_MS = 20 };

typedef struct job {
  const char* team;
  int gpus, steps_left; /* a step is 20 ms of work */
  int submit_ms;
  uint32_t run; /* of the last start */
  pid_t process;
  int starts, stops, done, submitted;
} job;

static void check(tenure_status status, const char* what) {
  if (status == TENURE_OK) return;
  fprintf(stderr, "%s: %s\n", what, tenure_last_error_message());
  exit(2);
}

static int64_t now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}
static int64_t origin_us;
static void say(const char* what, int id) {
  printf("%5d ms  %s job %d\n", (int)((now_us() - origin_us) / 1000), what, id);
  fflush(stdout);
}

static void sleep_ms(int ms) {
  struct timespec t;
  t.tv_sec = 0, t.tv_nsec = (long)ms * 1000000;
  nanosleep(&t, NULL);
}

/* The job itself. Its exit code is its checkpoint: how many steps are left, 0 when it is done. */
static volatile sig_atomic_t told_to_stop;
static void on_sigterm(int signal_number) { (void)signal_number, told_to_stop = 1; }
static void work(int steps) {
  signal(SIGTERM, on_sigterm);
  while (steps > 0 && !told_to_stop) sleep_ms(STEP_MS), --steps;
  _exit(steps);
}

static void launch(tenure_scheduler* s, job* jobs, const tenure_start* start) {
  job* j = &jobs[start->workload];
  int64_t now;
  j->run = start->run;
  j->process = fork();
  if (j->process == 0) work(j->steps_left);
  if (j->process < 0) {
    check(tenure_run_start_failed(s, start->workload, start->run, now_us()), "start failed");
    return;
  }
  ++j->starts;
  say("start", (int)start->workload);
  now = now_us();
  check(tenure_run_started(s, start->workload, start->run, now, now), "started");
}

/* Processes that are gone: done, or stopped and requeued with what they had saved. */
static void reap(tenure_scheduler* s, job* jobs) {
  int status, i;
  pid_t gone;
  while ((gone = waitpid(-1, &status, WNOHANG)) > 0) {
    const int64_t now = now_us();
    for (i = 0; i < JOBS && jobs[i].process != gone;) ++i;
    jobs[i].process = 0;
    jobs[i].steps_left = WIFEXITED(status) ? WEXITSTATUS(status) : jobs[i].steps_left;
    if (jobs[i].steps_left == 0) {
      say("end", i);
      jobs[i].done = 1;
      check(tenure_run_ended(s, (uint64_t)i, jobs[i].run, now, now), "ended");
    } else {
      say("requeue", i);
      check(tenure_run_stopped(s, (uint64_t)i, jobs[i].run, now, now, NULL), "stopped");
    }
  }
}

int main(void) {
  /* Two long jobs of vision fill the node; then language wants its half. */
  job jobs[JOBS] = {{"vision", 2, 60, 0, 0, 0, 0, 0, 0, 0},
                    {"vision", 2, 60, 0, 0, 0, 0, 0, 0, 0},
                    {"language", 2, 20, 300, 0, 0, 0, 0, 0, 0},
                    {"language", 2, 20, 350, 0, 0, 0, 0, 0, 0}};
  tenure_options* options = NULL;
  tenure_scheduler* s = NULL;
  tenure_start starts[JOBS];
  tenure_stop stops[JOBS];
  uint32_t nodes[8 * JOBS], type, node, team;
  tenure_decisions d = TENURE_DECISIONS_INIT;
  size_t k;
  int i, done = 0;

  check(tenure_options_create("budget", &options), "options");
  check(tenure_options_set(options, "grace", "200ms"), "grace");
  check(tenure_options_set(options, "quantum", "0s"), "quantum");
  check(tenure_options_set(options, "checkpoint_wait", "0s"), "checkpoint wait");
  check(tenure_options_set(options, "lane_permille", "0"), "lane");
  check(tenure_scheduler_create(options, &s), "create");
  tenure_options_destroy(options);
  origin_us = now_us();
  check(tenure_gpu_type_add(s, "h100", &type), "type");
  check(tenure_node_add(s, "n1", 4, type, TENURE_ROOT, origin_us, &node), "node");
  check(tenure_allocation_add(s, TENURE_ROOT, "vision", 1, origin_us, &team), "vision");
  check(tenure_allocation_add(s, TENURE_ROOT, "language", 1, origin_us, &team), "language");
  d.starts = starts, d.start_capacity = JOBS;
  d.stops = stops, d.stop_capacity = JOBS;
  d.nodes = nodes, d.node_capacity = 8 * JOBS;

  while (done < JOBS && now_us() - origin_us < 30 * 1000 * 1000) {
    reap(s, jobs);
    for (done = i = 0; i < JOBS; ++i) {
      done += jobs[i].done;
      if (jobs[i].submitted || now_us() - origin_us < jobs[i].submit_ms * 1000) continue;
      tenure_workload w = TENURE_WORKLOAD_INIT;
      check(tenure_allocation_find(s, jobs[i].team, &w.allocation), "find");
      w.id = (uint64_t)i;
      w.gpus_per_node = jobs[i].gpus;
      w.minimum_us = 200 * 1000; /* every run has at least 200 ms */
      w.checkpoint_interval_us = STEP_MS * 1000;
      check(tenure_workload_submit(s, &w, now_us()), "submit");
      jobs[i].submitted = 1;
      say("submit", i);
    }
    check(tenure_scheduler_decide(s, now_us(), &d), "decide");
    for (k = 0; k < d.start_count; ++k) launch(s, jobs, &starts[k]);
    for (k = 0; k < d.stop_count; ++k) {
      say("stop", (int)stops[k].workload);
      ++jobs[stops[k].workload].stops;
      kill(jobs[stops[k].workload].process, SIGTERM);
    }
    sleep_ms(5); /* a real one waits for events, or until d.next_wakeup_us */
  }
  tenure_scheduler_destroy(s);
  for (i = 0; i < JOBS; ++i) {
    printf("job %d of %s: %d starts, %d stops, %s\n", i, jobs[i].team, jobs[i].starts,
           jobs[i].stops, jobs[i].done ? "done" : "not done");
  }
  /* One run of vision had to make room, and it was finished all the same. */
  return done == JOBS && jobs[0].stops + jobs[1].stops > 0 && jobs[2].starts > 0 ? 0 : 1;
}
