/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <tenure/tenure.h>

int main(void) {
  tenure_scheduler* s = NULL;
  tenure_scheduler_info info = TENURE_SCHEDULER_INFO_INIT;
  uint32_t type, node;
  if (tenure_scheduler_create(NULL, &s) != TENURE_OK ||
      tenure_gpu_type_add(s, "h100", &type) != TENURE_OK ||
      tenure_node_add(s, "n1", 8, type, TENURE_ROOT, 0, &node) != TENURE_OK ||
      tenure_scheduler_describe(s, &info) != TENURE_OK) {
    fprintf(stderr, "%s\n", tenure_last_error_message());
    return 1;
  }
  tenure_scheduler_destroy(s);
  printf("tenure %s, %d GPUs\n", tenure_version_string(), (int)info.free_gpus);
  return info.free_gpus == 8 ? 0 : 1;
}
