/* SPDX-License-Identifier: Apache-2.0
 *
 * A job inside one node, with the defaults of everything else.
 */
#ifndef TENURE_TESTS_CAPI_JOB_H_
#define TENURE_TESTS_CAPI_JOB_H_

#include "tenure/tenure.h"

static tenure_workload job(uint64_t id, uint32_t allocation, int32_t gpus, int64_t minimum_us) {
  tenure_workload j = TENURE_WORKLOAD_INIT;
  j.id = id;
  j.allocation = allocation;
  j.gpus_per_node = gpus;
  j.minimum_us = minimum_us;
  return j;
}

#endif /* TENURE_TESTS_CAPI_JOB_H_ */
