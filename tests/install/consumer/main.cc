// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdio>

#include "tenure/contract.h"
#include "tenure/types.h"

int main() {
  const tenure::GpuTime charge = tenure::GpuCount(8) * std::chrono::hours(2);
  std::printf("%.1f GPU-hours\n", tenure::Hours(charge));
  return charge == tenure::GpuTime(57'600'000'000) ? 0 : 1;
}
