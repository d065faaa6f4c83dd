// SPDX-License-Identifier: Apache-2.0
//
// The CUDA back end of plan search behind the interface of plan_backend.h.
#include <bit>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "plan_device.h"
#include "tenure/plan_backend.h"

namespace tenure::plan {
namespace {

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(std::unique_ptr<PlanDevice> device) : device_(std::move(device)) {}

  BackendKind kind() const override { return BackendKind::kCuda; }
  std::string name() const override { return "cuda: " + device_->name(); }
  absl::Status Load(const WorldData&, const World& world) override {
    std::string error;
    if (device_->Load(world, &error)) return absl::OkStatus();
    return absl::InternalError("plan search on " + name() + ": " + error);
  }
  absl::Status Best(const Params& params, u64* price) override {
    std::string error;
    if (device_->Best(params, price, &error)) return absl::OkStatus();
    return absl::InternalError("plan search on " + name() + ": " + error);
  }

  // Measured once for each size: a trial on this core against a launch of all trials.
  bool Faster(const World& world, u32 trials, u32 threads) override {
    const auto size = std::make_tuple(std::bit_width(world.nodes), std::bit_width(world.jobs),
                                      std::bit_width(trials));
    auto known = speed_.find(size);
    if (known == speed_.end()) known = speed_.emplace(size, Calibrate(world, trials)).first;
    const auto [cpu_ns_a_trial, gpu_ns] = known->second;
    return gpu_ns >= 0 && gpu_ns * threads < cpu_ns_a_trial * trials;
  }

 private:
  struct Speed {
    std::int64_t cpu_ns_a_trial, gpu_ns;  // gpu_ns < 0: the device failed
  };
  Speed Calibrate(const World& world, u32 trials) {
    using Clock = std::chrono::steady_clock;
    const auto ns = [](Clock::time_point since) {
      return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - since).count();
    };
    Params params;
    params.first_trial = 1;
    std::vector<u64> scratch(LayoutOf(world).bytes / 8 + 1);
    SerialTeam team;
    const Clock::time_point before = Clock::now();
    Trial<SerialTeam>(world, params, team, 1, reinterpret_cast<u8*>(scratch.data())).Run();
    const std::int64_t cpu = ns(before);
    params.trials = trials;
    std::string error;
    u64 price = 0;
    if (!device_->Load(world, &error) || !device_->Best(params, &price, &error)) return {cpu, -1};
    const Clock::time_point warm = Clock::now();
    const bool ok = device_->Load(world, &error) && device_->Best(params, &price, &error);
    return {cpu, ok ? ns(warm) : -1};
  }

  std::unique_ptr<PlanDevice> device_;
  std::map<std::tuple<int, int, int>, Speed> speed_;
};

}  // namespace
}  // namespace tenure::plan

extern "C" tenure::plan::Backend* tenure_open_cuda_backend(std::string* error) {
  std::unique_ptr<tenure::plan::PlanDevice> device = tenure::plan::PlanDevice::Open(error);
  if (device == nullptr) return nullptr;
  return new tenure::plan::CudaBackend(std::move(device));
}
