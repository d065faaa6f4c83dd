// clang-format off
//go:build ignore

// clang-format on

/* SPDX-License-Identifier: Apache-2.0
 *
 * The C side on its own: what adaptor.go does, without Go. Exits with 0 if a gang of two pods is
 * placed whole and evicted whole.
 */
#include <stdio.h>

#include "adaptor.h"

int main(void) {
  const int64_t hour = INT64_C(3600) * 1000000;
  tenure_scheduler* s = NULL;
  tenure_options* options = NULL;
  uint32_t type, node, team, other;
  adaptor_pass* pass;
  int ok;
  ok = tenure_options_create("budget", &options) == TENURE_OK &&
       tenure_options_set(options, "quantum", "0s") == TENURE_OK &&
       tenure_options_set(options, "lane_permille", "0") == TENURE_OK &&
       tenure_scheduler_create(options, &s) == TENURE_OK &&
       tenure_gpu_type_add(s, "h100", &type) == TENURE_OK &&
       tenure_node_add(s, "node-a", 8, type, TENURE_ROOT, 0, &node) == TENURE_OK &&
       tenure_node_add(s, "node-b", 8, type, TENURE_ROOT, 0, &node) == TENURE_OK &&
       tenure_allocation_add(s, TENURE_ROOT, "vision", 1, 0, &team) == TENURE_OK &&
       tenure_allocation_add(s, TENURE_ROOT, "language", 1, 0, &other) == TENURE_OK &&
       adaptor_submit(s, 1, team, 2, 8, 0, 0) == TENURE_OK;
  tenure_options_destroy(options);
  pass = ok ? adaptor_pass_new(s, 0) : NULL;
  ok = pass != NULL && adaptor_starts(pass) == 1 && adaptor_start(pass, 0).node_count == 2 &&
       adaptor_start_node(pass, 0, 0) != adaptor_start_node(pass, 0, 1) &&
       tenure_run_started(s, 1, 1, 0, 0) == TENURE_OK &&
       adaptor_submit(s, 2, other, 1, 8, hour, hour) == TENURE_OK;
  adaptor_pass_free(pass);
  pass = ok ? adaptor_pass_new(s, hour) : NULL;
  ok = pass != NULL && adaptor_stops(pass) == 1 && adaptor_stop(pass, 0).workload == 1;
  adaptor_pass_free(pass);
  tenure_scheduler_destroy(s);
  if (!ok) fprintf(stderr, "%s\n", tenure_last_error_message());
  return ok ? 0 : 1;
}
