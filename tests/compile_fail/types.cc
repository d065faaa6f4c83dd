// SPDX-License-Identifier: Apache-2.0
//
// Amounts and identifiers that must not mix. Each #ifdef block is compiled on its own and must be
// an error; without them the file must compile.
#include "tenure/types.h"

#include <chrono>
#include <cstdint>

namespace {

using tenure::AllocationId;
using tenure::Duration;
using tenure::GpuCount;
using tenure::GpuTime;
using tenure::MilliGpu;
using tenure::NodeId;
using tenure::TimePoint;
using tenure::Weight;
using tenure::WorkloadId;

[[maybe_unused]] void Uses(GpuCount gpus, MilliGpu milli, GpuTime time, Duration duration,
                           TimePoint now, NodeId node, WorkloadId workload, AllocationId allocation,
                           Weight weight) {
  // The meaningful operations, as control.
  GpuTime charge = gpus * duration + time;
  charge -= duration * gpus;
  milli += tenure::ToMilli(gpus);
  now += duration;
  static_cast<void>(node < node);
  static_cast<void>(workload.value() + allocation.value());
  static_cast<void>(weight == weight);

#ifdef ADD_GPUS_AND_DURATION
  static_cast<void>(gpus + duration);
#endif
#ifdef ADD_GPUS_AND_MILLI_GPUS
  static_cast<void>(gpus + milli);
#endif
#ifdef ADD_GPUS_AND_GPU_TIME
  static_cast<void>(gpus + time);
#endif
#ifdef ADD_GPUS_AND_INTEGER
  static_cast<void>(gpus + 1);
#endif
#ifdef ADD_TIME_POINTS
  static_cast<void>(now + now);
#endif
#ifdef MULTIPLY_GPUS_BY_GPUS
  static_cast<void>(gpus * gpus);
#endif
#ifdef MULTIPLY_GPU_TIME_BY_DURATION
  static_cast<void>(time * duration);
#endif
#ifdef COMPARE_GPUS_AND_MILLI_GPUS
  static_cast<void>(gpus < milli);
#endif
#ifdef COMPARE_GPUS_AND_INTEGER
  static_cast<void>(gpus == 8);
#endif
#ifdef COMPARE_TIME_POINT_AND_DURATION
  static_cast<void>(now < duration);
#endif
#ifdef COMPARE_NODE_AND_WORKLOAD
  static_cast<void>(node == workload);
#endif
#ifdef COMPARE_WEIGHTS_BY_ORDER
  static_cast<void>(weight < weight);
#endif
#ifdef ADD_TO_IDENTIFIER
  static_cast<void>(node + 1);
#endif
#ifdef CONVERT_INTEGER_TO_GPUS
  gpus = 8;
#endif
#ifdef CONVERT_INTEGER_TO_IDENTIFIER
  node = 3;
#endif
#ifdef CONVERT_GPUS_TO_INTEGER
  std::int64_t raw = gpus;
  static_cast<void>(raw);
#endif
#ifdef CONVERT_WORKLOAD_TO_ALLOCATION
  allocation = workload;
#endif
#ifdef CONVERT_INTEGER_TO_DURATION
  duration = 3600;
#endif
#ifdef CONVERT_FLOATING_SECONDS_TO_DURATION
  duration = std::chrono::duration<double>(1.5);
#endif
#ifdef READ_THE_WALL_CLOCK
  now = tenure::SchedulerClock::now();
#endif
#ifdef MIX_WITH_SYSTEM_CLOCK
  now = std::chrono::system_clock::now();
#endif
}

}  // namespace
