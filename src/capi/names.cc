// SPDX-License-Identifier: Apache-2.0
//
// The texts of the enumerations, and that their numbers are the engine's.
#include "face.h"

namespace tenure::capi {
namespace {

template <class Enum>
const char* NameOf(int32_t value, Enum last) {
  if (value < 0 || value > static_cast<int32_t>(last)) return "unknown";
  return ToString(static_cast<Enum>(value));
}

template <class Enum>
constexpr bool Is(int32_t c, Enum cpp) {
  return c == static_cast<int32_t>(cpp);
}

static_assert(Is(TENURE_CLASS_DEBUG, WorkloadClass::kDebug) &&
              Is(TENURE_CLASS_INTERACTIVE, WorkloadClass::kInteractive) &&
              Is(TENURE_CLASS_TRAINING, WorkloadClass::kTraining) &&
              Is(TENURE_CLASS_SERVING, WorkloadClass::kServing) &&
              Is(TENURE_CLASS_SWEEP, WorkloadClass::kSweep) && kWorkloadClasses == 5);
static_assert(Is(TENURE_TOPOLOGY_PREFERRED, TopologyRule::kPreferred) &&
              Is(TENURE_TOPOLOGY_REQUIRED, TopologyRule::kRequired) &&
              TENURE_DEEPEST_LEVEL == kDeepestLevel);
static_assert(Is(TENURE_NODE_UP, NodeHealth::kUp) &&
              Is(TENURE_NODE_DRAINING, NodeHealth::kDraining) &&
              Is(TENURE_NODE_DOWN, NodeHealth::kDown));
static_assert(Is(TENURE_STOP_PREEMPTED, StopReason::kPreempted) &&
              Is(TENURE_STOP_DRAIN, StopReason::kDrain) &&
              Is(TENURE_STOP_CANCELLED, StopReason::kCancelled) &&
              Is(TENURE_STOP_PROMISE, StopReason::kPromise) &&
              Is(TENURE_STOP_IDLE, StopReason::kIdle));
static_assert(Is(TENURE_STATE_PENDING, WorkloadState::kPending) &&
              Is(TENURE_STATE_UNPLACEABLE, WorkloadState::kUnplaceable) &&
              Is(TENURE_STATE_HELD, WorkloadState::kHeld) &&
              Is(TENURE_STATE_STARTING, WorkloadState::kStarting) &&
              Is(TENURE_STATE_RUNNING, WorkloadState::kRunning) &&
              Is(TENURE_STATE_STOPPING, WorkloadState::kStopping) &&
              Is(TENURE_STATE_RESERVED, WorkloadState::kReserved) &&
              Is(TENURE_STATE_SUSPENDED, WorkloadState::kSuspended));
static_assert(Is(TENURE_WAIT_NONE, WaitReason::kNone) &&
              Is(TENURE_WAIT_NOT_CONSIDERED, WaitReason::kNotConsidered) &&
              Is(TENURE_WAIT_NEVER_FITS, WaitReason::kNeverFits) &&
              Is(TENURE_WAIT_CLOSED, WaitReason::kClosed) &&
              Is(TENURE_WAIT_NO_CAPACITY, WaitReason::kNoCapacity) &&
              Is(TENURE_WAIT_FOR_STOP, WaitReason::kWaitsForStop) &&
              Is(TENURE_WAIT_UNFUNDED, WaitReason::kUnfundedWaits) &&
              Is(TENURE_WAIT_RESERVED, WaitReason::kReserved) &&
              Is(TENURE_WAIT_SESSION_CAP, WaitReason::kSessionCap) &&
              Is(TENURE_WAIT_SUSPENDED, WaitReason::kSuspended) &&
              Is(TENURE_WAIT_MAINTENANCE, WaitReason::kMaintenance) &&
              Is(TENURE_WAIT_DEBUG_CAP, WaitReason::kDebugCap) &&
              Is(TENURE_WAIT_SERVING_CAP, WaitReason::kServingCap) &&
              Is(TENURE_WAIT_USER_CAP, WaitReason::kUserCap));
static_assert(Is(TENURE_OUTCOME_REQUEUED, LossOutcome::kRequeued) &&
              Is(TENURE_OUTCOME_FAILED, LossOutcome::kFailedByPreemption) &&
              Is(TENURE_OUTCOME_CANCELLED, LossOutcome::kCancelled) &&
              Is(TENURE_OUTCOME_SUSPENDED, LossOutcome::kSuspended) &&
              Is(TENURE_OUTCOME_FAILED_WITH_NODE, LossOutcome::kFailedWithNode));
static_assert(Is(TENURE_SEARCH_NONE, SearchOutcome::kNone) &&
              Is(TENURE_SEARCH_NO_GAIN, SearchOutcome::kNoGain) &&
              Is(TENURE_SEARCH_TAKEN, SearchOutcome::kTaken) &&
              Is(TENURE_SEARCH_REFUSED, SearchOutcome::kRefused) &&
              Is(TENURE_SEARCH_FAILED, SearchOutcome::kFailed));
static_assert(Is(TENURE_SEARCH_ON_NONE, plan::BackendKind::kOff) &&
              Is(TENURE_SEARCH_ON_CPU, plan::BackendKind::kCpu) &&
              Is(TENURE_SEARCH_ON_CUDA, plan::BackendKind::kCuda));
static_assert(TENURE_ROOT == kRootAllocation.value() && TENURE_ROOT == kRootDomain.value() &&
              TENURE_NEVER == kNever.time_since_epoch().count());

}  // namespace
}  // namespace tenure::capi

using tenure::LossOutcome;
using tenure::NodeHealth;
using tenure::SearchOutcome;
using tenure::StopReason;
using tenure::WaitReason;
using tenure::WorkloadClass;
using tenure::WorkloadState;
using tenure::capi::NameOf;

extern "C" {

const char* tenure_class_name(int32_t value) { return NameOf(value, WorkloadClass::kSweep); }
const char* tenure_node_health_name(int32_t value) { return NameOf(value, NodeHealth::kDown); }
const char* tenure_stop_reason_name(int32_t value) { return NameOf(value, StopReason::kIdle); }
const char* tenure_state_name(int32_t value) {
  // 0 is the engine's mark of an unused record.
  return value == 0 ? "unknown" : NameOf(value, WorkloadState::kSuspended);
}
const char* tenure_wait_reason_name(int32_t value) { return NameOf(value, WaitReason::kUserCap); }
const char* tenure_outcome_name(int32_t value) {
  return NameOf(value, LossOutcome::kFailedWithNode);
}
const char* tenure_search_outcome_name(int32_t value) {
  return NameOf(value, SearchOutcome::kFailed);
}
const char* tenure_search_backend_name(int32_t value) {
  return NameOf(value, tenure::plan::BackendKind::kCuda);
}

}  // extern "C"
