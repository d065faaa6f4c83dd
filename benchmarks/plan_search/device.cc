// SPDX-License-Identifier: Apache-2.0
//
// Plan searches on the GPU: the same answers as on the CPU, bit for bit? And trials a second on one
// core, on all cores and on the GPU, over sizes and numbers of trials.
//
//   plan_device [--worlds N] [--budget SECONDS]
//
// Compares N random worlds (default 600; 0: none), then measures for at most SECONDS (default 60):
// prints a Markdown table and, per size, the number of trials from which the GPU is faster than all
// cores. Answers of the measured searches are compared, too. Exit code 1 if any differ, 2 for a
// wrong argument. Without a device the GPU's columns say so.
//
// Needs the standard library and CUDA only, so that ../device_check.sh builds it anywhere.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "plan_device.h"
#include "plan_identity.h"

namespace {

using namespace tenure::plan;  // NOLINT(google-build-using-namespace)
using Clock = std::chrono::steady_clock;

double Seconds(Clock::time_point since) {
  return std::chrono::duration<double>(Clock::now() - since).count();
}

// Best of up to three runs of `search`, in seconds; negative: it failed.
template <class Search>
double Measure(const Search& search, double budget, u64* price) {
  double best = -1, spent = 0;
  for (int run = 0; run < 3 && (run == 0 || spent < budget); ++run) {
    const Clock::time_point begin = Clock::now();
    const std::string error = search(price);
    if (!error.empty()) {
      std::fprintf(stderr, "%s\n", error.c_str());
      return -1;
    }
    const double t = Seconds(begin);
    spent += t;
    if (best < 0 || t < best) best = t;
  }
  return best;
}

std::string Milliseconds(double t) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f", t * 1e3);
  return t < 0 ? "-" : text;
}

// The table; how many answers differed.
int Sweep(PlanDevice* gpu, double budget) {
  const u32 cores = std::max(1u, std::thread::hardware_concurrency());
  std::printf(
      "| nodes | pending | trials | one core, ms | %u cores, ms | GPU, ms | GPU trials/s |\n",
      cores);
  std::printf("|---:|---:|---:|---:|---:|---:|---:|\n");
  const Clock::time_point begin = Clock::now();
  CpuTrials cpu;
  int differences = 0;
  for (const auto& [nodes, jobs] :
       {std::pair{128u, 60u}, {1024u, 256u}, {4096u, 256u}, {16384u, 256u}, {100000u, 256u}}) {
    WorldShape shape;
    shape.nodes = nodes;
    shape.jobs = jobs;
    shape.spine_domains = 16;
    const WorldData data = WorldMaker(7).Make(shape);
    const World world = data.View();
    u32 crossover = 0;
    double one_trial = 0;  // estimated, once measuring would take too long
    for (u32 trials = 16; trials <= 65536; trials *= 4) {
      const double left = budget - Seconds(begin);
      Params params;
      params.trials = trials;
      const auto on_cpu = [&](u32 threads) {
        return [&, threads](u64* price) {
          *price = cpu.Best(world, params, threads);
          return std::string();
        };
      };
      const auto on_gpu = [&](u64* price) {  // a pass uploads its world
        std::string error;
        if (gpu->Load(world, &error)) gpu->Best(params, price, &error);
        return error;
      };
      u64 price_one = kNone, price_all = kNone, price_gpu = kNone;
      if (left < 0 || (gpu == nullptr && one_trial * trials > budget / 20)) break;
      double t_one = -1, t_all = -1, t_gpu = -1;
      if (one_trial * trials < budget / 20) {
        t_one = Measure(on_cpu(1), budget / 40, &price_one);
        one_trial = t_one / trials;
      }
      if (one_trial * trials / cores < budget / 20) {
        t_all = Measure(on_cpu(cores), budget / 40, &price_all);
      }
      if (gpu != nullptr) t_gpu = Measure(on_gpu, budget / 40, &price_gpu);
      differences += t_one >= 0 && t_all >= 0 && price_one != price_all;
      differences += t_gpu >= 0 && t_all >= 0 && price_gpu != price_all;
      differences += gpu != nullptr && t_gpu < 0;
      std::printf("| %u | %u | %u | %s | %s | %s | %s |\n", nodes, jobs, trials,
                  Milliseconds(t_one).c_str(), Milliseconds(t_all).c_str(),
                  gpu != nullptr ? Milliseconds(t_gpu).c_str() : "no device",
                  t_gpu > 0 ? std::to_string(static_cast<long>(trials / t_gpu)).c_str() : "-");
      std::fflush(stdout);
      const double rival = t_all >= 0 ? t_all : one_trial * trials / cores;
      if (crossover == 0 && t_gpu >= 0 && t_gpu < rival) crossover = trials;
    }
    if (gpu == nullptr) continue;
    if (crossover == 0) {
      std::printf("| %u | | | | | | never faster than %u cores |\n", nodes, cores);
    } else {
      std::printf("| %u | | | | | | faster than %u cores from %u trials on |\n", nodes, cores,
                  crossover);
    }
  }
  std::printf("\n%d differences between back ends; %.0f s\n", differences, Seconds(begin));
  return differences;
}

}  // namespace

int main(int argc, char** argv) {
  double budget = 60;
  u32 worlds = 600;
  for (int i = 1; i < argc; i += 2) {
    const std::string flag = argv[i];
    if (i + 1 < argc && flag == "--budget") {
      budget = std::atof(argv[i + 1]);
    } else if (i + 1 < argc && flag == "--worlds") {
      worlds = static_cast<u32>(std::atoi(argv[i + 1]));
    } else {
      std::fprintf(stderr, "usage: plan_device [--worlds N] [--budget SECONDS]\n");
      return 2;
    }
  }
  std::string error;
  const std::unique_ptr<PlanDevice> gpu = PlanDevice::Open(&error);
  std::printf("%u cores; GPU: %s\n\n", std::thread::hardware_concurrency(),
              gpu != nullptr ? gpu->name().c_str() : error.c_str());
  bool agrees = true;
  if (gpu != nullptr && worlds > 0) {
    const auto load = [&](const WorldData&, const World& world) {
      std::string what;
      gpu->Load(world, &what);
      return what;
    };
    const auto best = [&](const Params& params, u64* price) {
      std::string what;
      gpu->Best(params, price, &what);
      return what;
    };
    agrees = AgreesWithCpu(gpu->name(), worlds, load, best);
    std::printf("\n");
  }
  const bool same = Sweep(gpu.get(), budget) == 0;
  return agrees && same ? 0 : 1;
}
