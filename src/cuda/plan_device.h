// SPDX-License-Identifier: Apache-2.0
//
// A CUDA device that makes trials of a plan search. Plain C++17 without Abseil: both the CUDA
// compiler and the host compiler read it. Use it through tenure::plan::OpenCuda (plan_backend.h).
#ifndef TENURE_SRC_CUDA_PLAN_DEVICE_H_
#define TENURE_SRC_CUDA_PLAN_DEVICE_H_

#include <memory>
#include <string>

#include "tenure/plan_world.h"

namespace tenure::plan {

// Owns a stream and all device memory it uses. Not copyable, thread-compatible. Every function says
// in `*error` what failed, and where, and returns false or nullptr then; the object may be used
// again or destroyed.
class PlanDevice {
 public:
  // nullptr: no driver, no device, or one older than compute capability 8.0.
  static std::unique_ptr<PlanDevice> Open(std::string* error);
  ~PlanDevice();
  PlanDevice(const PlanDevice&) = delete;
  PlanDevice& operator=(const PlanDevice&) = delete;

  const std::string& name() const;
  // Copies the world to the device; the arrays may go when it returns.
  bool Load(const World& world, std::string* error);
  // The least price of the trials that `params` names; its guard is in host memory.
  bool Best(const Params& params, u64* price, std::string* error);

 private:
  struct State;
  explicit PlanDevice(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tenure::plan

#endif  // TENURE_SRC_CUDA_PLAN_DEVICE_H_
