// SPDX-License-Identifier: Apache-2.0
//
// The CUDA back end as a scheduler opens it. With a device: it gives the same answers as this core.
// Without one: opening it says Unavailable, and why. Exit code 1 otherwise.
//
//   cuda_agrees [WORLDS]    default 600
#include <cstdio>
#include <cstdlib>
#include <string>

#include "plan_identity.h"
#include "tenure/plan_backend.h"

int main(int argc, char** argv) {
  using namespace tenure::plan;  // NOLINT(google-build-using-namespace)
  const u32 worlds = argc > 1 ? static_cast<u32>(std::atoi(argv[1])) : 600;
  auto cuda = OpenCuda();
  if (!cuda.ok()) {
    std::printf("%s\n", cuda.status().ToString().c_str());
    return cuda.status().code() == absl::StatusCode::kUnavailable ? 0 : 1;
  }
  const auto text = [](const absl::Status& s) { return s.ok() ? "" : s.ToString(); };
  const bool agrees = AgreesWithCpu(
      (*cuda)->name(), worlds,
      [&](const WorldData& data, const World& world) { return text((*cuda)->Load(data, world)); },
      [&](const Params& params, u64* price) { return text((*cuda)->Best(params, price)); });
  return agrees ? 0 : 1;
}
