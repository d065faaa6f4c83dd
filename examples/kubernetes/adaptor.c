/* SPDX-License-Identifier: Apache-2.0 */
#include "adaptor.h"

#include <stdlib.h>

struct adaptor_pass {
  tenure_decisions d;
};

static void release(tenure_decisions* d) {
  free(d->starts);
  free(d->stops);
  free(d->nodes);
}

adaptor_pass* adaptor_pass_new(tenure_scheduler* scheduler, int64_t now_us) {
  const tenure_decisions none = TENURE_DECISIONS_INIT;
  adaptor_pass* pass = malloc(sizeof(*pass));
  tenure_status status;
  if (pass == NULL) return NULL;
  pass->d = none;
  status = tenure_scheduler_decide(scheduler, now_us, &pass->d);
  if (status == TENURE_ERROR_BUFFER_TOO_SMALL) {
    /* The pass was made and says how much there is. */
    tenure_decisions* d = &pass->d;
    d->starts = calloc(d->start_count + 1, sizeof(*d->starts));
    d->stops = calloc(d->stop_count + 1, sizeof(*d->stops));
    d->nodes = calloc(d->node_count + 1, sizeof(*d->nodes));
    if (d->starts != NULL && d->stops != NULL && d->nodes != NULL) {
      d->start_capacity = d->start_count;
      d->stop_capacity = d->stop_count;
      d->node_capacity = d->node_count;
      status = tenure_scheduler_decisions(scheduler, d);
    }
  }
  if (status != TENURE_OK) {
    adaptor_pass_free(pass);
    return NULL;
  }
  return pass;
}

void adaptor_pass_free(adaptor_pass* pass) {
  if (pass == NULL) return;
  release(&pass->d);
  free(pass);
}

size_t adaptor_starts(const adaptor_pass* pass) { return pass->d.start_count; }
tenure_start adaptor_start(const adaptor_pass* pass, size_t index) { return pass->d.starts[index]; }
uint32_t adaptor_start_node(const adaptor_pass* pass, size_t start, uint32_t member) {
  return pass->d.nodes[pass->d.starts[start].node_begin + member];
}
size_t adaptor_stops(const adaptor_pass* pass) { return pass->d.stop_count; }
tenure_stop adaptor_stop(const adaptor_pass* pass, size_t index) { return pass->d.stops[index]; }

tenure_status adaptor_submit(tenure_scheduler* scheduler, uint64_t id, uint32_t allocation,
                             uint32_t members, int32_t gpus, int64_t minimum_us, int64_t now_us) {
  tenure_workload w = TENURE_WORKLOAD_INIT;
  w.id = id;
  w.allocation = allocation;
  w.nodes = members;
  w.gpus_per_node = gpus;
  w.minimum_us = minimum_us;
  return tenure_workload_submit(scheduler, &w, now_us);
}
