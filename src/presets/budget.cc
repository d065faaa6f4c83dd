// SPDX-License-Identifier: Apache-2.0
#include "tenure/any_scheduler.h"
#include "tenure/sim/scheduler_engine.h"

namespace tenure {

template class Scheduler<BudgetPolicy>;
template class SchedulerOf<BudgetPolicy>;
template class sim::SchedulerEngine<BudgetPolicy>;

}  // namespace tenure
