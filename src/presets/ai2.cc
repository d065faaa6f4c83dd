// SPDX-License-Identifier: Apache-2.0
#include "tenure/any_scheduler.h"
#include "tenure/sim/scheduler_engine.h"

namespace tenure {

template class Scheduler<Ai2Policy>;
template class SchedulerOf<Ai2Policy>;
template class sim::SchedulerEngine<Ai2Policy>;

}  // namespace tenure
