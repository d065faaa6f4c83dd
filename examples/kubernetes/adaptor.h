/* SPDX-License-Identifier: Apache-2.0
 *
 * The C side of an adaptor between a Kubernetes scheduler and Tenure: a pass whose answers are read
 * one by one, so that Go passes no pointer to memory of its own that holds further pointers (cgo
 * forbids it).
 */
#ifndef TENURE_EXAMPLES_KUBERNETES_ADAPTOR_H_
#define TENURE_EXAMPLES_KUBERNETES_ADAPTOR_H_

#include "tenure/tenure.h"

typedef struct adaptor_pass adaptor_pass;

/* One pass of `scheduler` with buffers that grow as needed. NULL on error: see
 * tenure_last_error_message. Free it with adaptor_pass_free. */
adaptor_pass* adaptor_pass_new(tenure_scheduler* scheduler, int64_t now_us);
void adaptor_pass_free(adaptor_pass* pass);

size_t adaptor_starts(const adaptor_pass* pass);
tenure_start adaptor_start(const adaptor_pass* pass, size_t index);
/* Node of a start: its id. */
uint32_t adaptor_start_node(const adaptor_pass* pass, size_t start, uint32_t member);
size_t adaptor_stops(const adaptor_pass* pass);
tenure_stop adaptor_stop(const adaptor_pass* pass, size_t index);

/* A pod group of `members` pods of `gpus` GPUs each that is protected for `minimum_us`. */
tenure_status adaptor_submit(tenure_scheduler* scheduler, uint64_t id, uint32_t allocation,
                             uint32_t members, int32_t gpus, int64_t minimum_us, int64_t now_us);

#endif
