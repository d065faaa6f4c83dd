// SPDX-License-Identifier: Apache-2.0
//
// In place of src/cuda/plan_device.cu where there is no CUDA compiler: device.cc then measures the
// CPU alone.
#include <memory>
#include <string>

#include "plan_device.h"

namespace tenure::plan {

struct PlanDevice::State {
  std::string name;
};

std::unique_ptr<PlanDevice> PlanDevice::Open(std::string* error) {
  *error = "built without CUDA";
  return nullptr;
}
PlanDevice::~PlanDevice() = default;
const std::string& PlanDevice::name() const { return state_->name; }
bool PlanDevice::Load(const World&, std::string*) { return false; }
bool PlanDevice::Best(const Params&, u64*, std::string*) { return false; }

}  // namespace tenure::plan
