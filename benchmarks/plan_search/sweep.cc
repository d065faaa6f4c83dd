// SPDX-License-Identifier: Apache-2.0
//
// Trials a second on one core, on all cores and on the GPU, over sizes and numbers of trials.
//
//   plan_sweep [--budget SECONDS]     of measuring; default 60
//
// Prints a Markdown table and, per size, the number of trials from which the GPU is faster than all
// cores. Answers of the back ends are compared on the way: exit code 1 if they differ. Without a
// device the GPU's columns say so.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "plan_worlds.h"

namespace {

using namespace tenure::plan;  // NOLINT(google-build-using-namespace)
using Clock = std::chrono::steady_clock;

double Seconds(Clock::time_point since) {
  return std::chrono::duration<double>(Clock::now() - since).count();
}

// Best of up to three runs, in seconds; negative: the back end failed.
double Measure(Backend& backend, const WorldData& data, const World& world, const Params& params,
               double budget, u64* price) {
  double best = -1, spent = 0;
  for (int run = 0; run < 3 && (run == 0 || spent < budget); ++run) {
    const Clock::time_point begin = Clock::now();
    absl::Status s = backend.Load(data, world);  // a pass uploads its world
    if (s.ok()) s = backend.Best(params, price);
    if (!s.ok()) {
      std::fprintf(stderr, "%s\n", s.ToString().c_str());
      return -1;
    }
    const double t = Seconds(begin);
    spent += t;
    if (best < 0 || t < best) best = t;
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  double budget = 60;
  if (argc == 3 && std::string(argv[1]) == "--budget") {
    budget = std::atof(argv[2]);
  } else if (argc != 1) {
    std::fprintf(stderr, "usage: plan_sweep [--budget SECONDS]\n");
    return 2;
  }
  const u32 cores = std::max(1u, std::thread::hardware_concurrency());
  CpuBackend one(1), all(cores);
  auto cuda = OpenCuda();
  std::printf("%u cores; GPU: %s\n\n", cores,
              cuda.ok() ? (*cuda)->name().c_str() : cuda.status().ToString().c_str());
  std::printf(
      "| nodes | pending | trials | one core, ms | %u cores, ms | GPU, ms | GPU trials/s |\n",
      cores);
  std::printf("|---:|---:|---:|---:|---:|---:|---:|\n");
  const Clock::time_point begin = Clock::now();
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
      u64 price_one = kNone, price_all = kNone, price_gpu = kNone;
      if (left < 0 || (!cuda.ok() && one_trial * trials > budget / 20)) break;
      double t_one = -1, t_all = -1, t_gpu = -1;
      if (one_trial * trials < budget / 20) {
        t_one = Measure(one, data, world, params, budget / 40, &price_one);
        one_trial = t_one / trials;
      }
      if (one_trial * trials / cores < budget / 20) {
        t_all = Measure(all, data, world, params, budget / 40, &price_all);
      }
      if (cuda.ok()) t_gpu = Measure(**cuda, data, world, params, budget / 40, &price_gpu);
      if (t_one >= 0 && t_all >= 0 && price_one != price_all) ++differences;
      if (t_gpu >= 0 && t_all >= 0 && price_gpu != price_all) ++differences;
      if (cuda.ok() && t_gpu < 0) ++differences;
      const auto ms = [](double t) {
        char text[32];
        std::snprintf(text, sizeof(text), "%.2f", t * 1e3);
        return t < 0 ? std::string("-") : std::string(text);
      };
      std::printf("| %u | %u | %u | %s | %s | %s | %s |\n", nodes, jobs, trials, ms(t_one).c_str(),
                  ms(t_all).c_str(), cuda.ok() ? ms(t_gpu).c_str() : "no device",
                  t_gpu > 0 ? std::to_string(static_cast<long>(trials / t_gpu)).c_str() : "-");
      std::fflush(stdout);
      const double rival = t_all >= 0 ? t_all : one_trial * trials / cores;
      if (crossover == 0 && t_gpu >= 0 && t_gpu < rival) crossover = trials;
    }
    if (!cuda.ok()) continue;
    if (crossover == 0) {
      std::printf("| %u | | | | | | never faster than %u cores |\n", nodes, cores);
    } else {
      std::printf("| %u | | | | | | faster than %u cores from %u trials on |\n", nodes, cores,
                  crossover);
    }
  }
  std::printf("\n%d differences between back ends; %.0f s\n", differences, Seconds(begin));
  return differences == 0 ? 0 : 1;
}
