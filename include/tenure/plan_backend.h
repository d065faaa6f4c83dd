// SPDX-License-Identifier: Apache-2.0
//
// Where the trials of a plan search are made: on CPU threads, or on a GPU if the CUDA library of
// this project is linked (target tenure::cuda) and a device is there. Both give the same answer.
#ifndef TENURE_PLAN_BACKEND_H_
#define TENURE_PLAN_BACKEND_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenure/plan_cpu.h"
#include "tenure/plan_data.h"

namespace tenure::plan {

class Backend {
 public:
  virtual ~Backend() = default;
  virtual BackendKind kind() const = 0;
  virtual std::string name() const = 0;
  // The world of the trials to come; both must live until the next Load. Internal: the device
  // failed.
  virtual absl::Status Load(const WorldData& data, const World& world) = 0;
  // The least price below `params.beat` of `params.trials` trials from `params.first_trial` on, or
  // kNone. Internal: the device failed.
  virtual absl::Status Best(const Params& params, u64* price) = 0;
  // Whether `trials` trials of `world` are expected to be sooner done here than on `threads` CPU
  // threads. Decides where they are made, never what comes out.
  virtual bool Faster(const World& world, u32 trials, u32 threads) = 0;
};

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(u32 threads = 1) : threads_(threads) {}
  void SetThreads(u32 threads) { threads_ = std::max(1u, threads); }

  BackendKind kind() const override { return BackendKind::kCpu; }
  std::string name() const override { return "cpu"; }
  bool Faster(const World&, u32, u32) override { return false; }
  absl::Status Load(const WorldData&, const World& world) override {
    world_ = world;
    return absl::OkStatus();
  }
  absl::Status Best(const Params& params, u64* price) override {
    *price = trials_.Best(world_, params, threads_);
    return absl::OkStatus();
  }

 private:
  u32 threads_;
  World world_{};
  CpuTrials trials_;
};

}  // namespace tenure::plan

// Defined by the CUDA library; absent, and then null, in every other program.
extern "C" __attribute__((weak)) tenure::plan::Backend* tenure_open_cuda_backend(
    std::string* error);

namespace tenure::plan {

// Unavailable: no CUDA library is linked, or it finds no device.
inline absl::StatusOr<std::unique_ptr<Backend>> OpenCuda() {
  if (&tenure_open_cuda_backend == nullptr) {
    return absl::UnavailableError("plan search: this program is built without the CUDA back end");
  }
  std::string error;
  std::unique_ptr<Backend> backend(tenure_open_cuda_backend(&error));
  if (backend == nullptr) return absl::UnavailableError("plan search: " + error);
  return backend;
}

}  // namespace tenure::plan

#endif  // TENURE_PLAN_BACKEND_H_
