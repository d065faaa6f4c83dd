// SPDX-License-Identifier: Apache-2.0
//
// Packing quality on the nodes and pods of Alibaba's openb trace (the data set of the FGD paper,
// USENIX ATC 2023), kept saturated: in every tick some running pods end and the queue is filled up
// again with pods sampled from the trace. How many GPUs stay unallocated although work waits?
//
//   plan_packing NODES.csv PODS.csv [--seeds N] [--tick PODS] [--ends PERMILLE]
//
//   best fit     the tightest node, in order of arrival: trial 0 of a search, what a pass does
//   fgd          the node whose expected fragmentation grows least; ties: the tightest
//   search S     best of S trials a tick
//
// GPUs are whole here: a pod that asks for a part of one takes it all; CPUs and memory do not
// count. Mixes: `trace` as it is; `multi` asks for as
// many GPUs in pods of 1 as in pods of 2, 3, 4, 6 and of 8.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "tenure/plan_search.h"

namespace {

using namespace tenure::plan;  // NOLINT(google-build-using-namespace)

// The integers of a named column.
std::vector<int> Column(const std::string& path, const std::string& name) {
  std::ifstream in(path);
  std::string line;
  std::vector<int> values;
  std::ptrdiff_t at = -1;
  for (int row = 0; std::getline(in, line); ++row) {
    const std::vector<std::string> cells = absl::StrSplit(line, ',');
    if (row == 0) {
      const auto found = std::find(cells.begin(), cells.end(), name);
      if (found != cells.end()) at = found - cells.begin();
      continue;
    }
    int value = 0;
    if (at < 0 || static_cast<std::size_t>(at) >= cells.size() ||
        !absl::SimpleAtoi(cells[static_cast<std::size_t>(at)], &value)) {
      std::fprintf(stderr, "%s:%d: no number in column '%s'\n", path.c_str(), row + 1,
                   name.c_str());
      return {};
    }
    values.push_back(value);
  }
  if (values.empty()) std::fprintf(stderr, "%s: nothing to read\n", path.c_str());
  return values;
}

WorldData EmptyWorld(const std::vector<int>& nodes) {
  WorldData d;
  for (int gpus : nodes) {
    if (d.gpus.size() % kMaxGroup == 0) {
      if (!d.gpus.empty()) d.group_begin.push_back(static_cast<u32>(d.gpus.size()));
      d.group_pool.push_back(0);
      d.group_lane.push_back(0);
    }
    d.node_group.push_back(static_cast<u32>(d.group_pool.size() - 1));
    d.gpus.push_back(static_cast<u8>(gpus));
  }
  d.group_begin.push_back(static_cast<u32>(d.gpus.size()));
  d.idle = d.soon = d.most = d.gpus;
  d.sessions.assign(d.gpus.size(), 0);
  d.node_flags.assign(d.gpus.size(), 0);
  d.admit.assign(d.gpus.size(), 0xffff);
  d.release.assign(d.gpus.size(), 0);
  d.occupant_begin.assign(d.gpus.size() + 1, 0);
  d.domain = {{0, static_cast<u32>(d.group_pool.size()), 0}};
  d.level_begin = {0, 1};
  d.bands = d.rows = 1;
  return d;
}

struct PodMix {
  std::vector<int> pods;       // sampled uniformly
  double share[kMaxGpus + 1];  // of pods, by GPUs
};

// Expected GPUs of a node with `free` that a sampled pod cannot use.
double Fragmentation(const PodMix& mix, int free) {
  double sum = 0;
  for (int g = free + 1; g <= 8; ++g) sum += mix.share[g] * free;
  return sum;
}

// Each of these gives every waiting pod that it places a node, in `node_of`.
void PlaceFgd(const PodMix& mix, WorldData& d, const std::vector<int>& queue,
              std::vector<int>& node_of) {
  for (std::size_t j = 0; j < queue.size(); ++j) {
    const int g = queue[j];
    double least = 1e30;
    for (std::size_t n = 0; n < d.gpus.size(); ++n) {
      const int free = d.idle[n];
      if (free < g) continue;
      const double grown = Fragmentation(mix, free - g) - Fragmentation(mix, free) + 1e-6 * free;
      if (grown < least) {
        least = grown;
        node_of[j] = static_cast<int>(n);
      }
    }
    if (node_of[j] < 0) continue;
    u8& idle = d.idle[static_cast<std::size_t>(node_of[j])];
    idle = static_cast<u8>(idle - g);
  }
}

bool PlaceSearch(PlanSearch& search, WorldData& d, const std::vector<int>& queue,
                 std::vector<int>& node_of) {
  d.job.clear();
  for (int g : queue) {
    Job q{};
    q.nodes = 1;
    q.gpus = static_cast<u8>(g);
    q.weight = static_cast<u32>(g);
    q.account = kNoAccount;
    q.pool = kAnyPool;
    q.kind = static_cast<u16>(g);  // a kind for each size
    d.job.push_back(q);
  }
  d.kinds = 9;
  d.implies.assign(9 * kKindWords, 0);
  for (u32 k = 0; k < 9; ++k) {  // what is larger fails where this failed
    for (u32 o = k; o < 9; ++o) d.implies[k * kKindWords] |= u64{1} << o;
  }
  d.soon = d.most = d.idle;
  const auto result = search.Run(d);
  if (!result.ok()) {
    std::fprintf(stderr, "%s\n", result.status().ToString().c_str());
    return false;
  }
  for (const Placement& p : result->plan) {
    node_of[p.job] = static_cast<int>(p.nodes[0]);
    d.idle[p.nodes[0]] = static_cast<u8>(d.idle[p.nodes[0]] - d.job[p.job].gpus);
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  int seeds = 100;  // 60 or more: Student's t is 2.0
  std::size_t per_tick = 128;
  int ends = 20;
  bool ok = argc >= 3 && argc % 2 == 1;
  for (int i = 3; ok && i < argc; i += 2) {
    const std::string flag = argv[i];
    ok = (flag == "--seeds" && absl::SimpleAtoi(argv[i + 1], &seeds) && seeds > 1) ||
         (flag == "--tick" && absl::SimpleAtoi(argv[i + 1], &per_tick) && per_tick > 0) ||
         (flag == "--ends" && absl::SimpleAtoi(argv[i + 1], &ends) && ends > 0);
  }
  if (!ok) {
    std::fprintf(
        stderr,
        "usage: plan_packing NODES.csv PODS.csv [--seeds N] [--tick PODS] [--ends PERMILLE]\n");
    return 2;
  }
  const std::vector<int> nodes = Column(argv[1], "gpu");
  std::vector<int> trace;
  for (int gpus : Column(argv[2], "num_gpu")) {
    if (gpus > 0) trace.push_back(gpus);
  }
  if (nodes.empty() || trace.empty()) return 2;
  int capacity = 0;
  for (int gpus : nodes) capacity += gpus;

  std::vector<int> multi(24, 1);  // as many GPUs in pods of 2, 3, 4, 6 and of 8
  for (const auto& [gpus, pods] : {std::pair{2, 12}, {3, 8}, {4, 6}, {6, 4}, {8, 3}}) {
    multi.insert(multi.end(), static_cast<std::size_t>(pods), gpus);
  }
  constexpr int kTicks = 300, kSettle = 100;
  std::printf(
      "openb: %zu nodes, %d GPUs; a queue of %zu pods, %d of 1000 running pods end in a tick, %d "
      "ticks "
      "after %d; mean of %d seeds (paired difference to best fit ± 95 %%)\n\n",
      nodes.size(), capacity, per_tick, ends, kTicks, kSettle, seeds);
  std::printf(
      "| mix | rule | unallocated GPUs | of which on partly used nodes | GPUs of pods of 8 |\n"
      "|---|---|---:|---:|---:|\n");
  for (const auto& [name, pods] : {std::pair{"trace", trace}, {"multi", multi}}) {
    PodMix mix{pods, {}};
    for (int g : pods) mix.share[g] += 1.0 / double(pods.size());
    std::vector<double> best_fit[3];
    for (const int trials : {0, -1, 64, 1024}) {
      std::vector<double> figures[3];
      for (int seed = 1; seed <= seeds; ++seed) {
        std::mt19937_64 random(static_cast<std::uint64_t>(seed));
        WorldData d = EmptyWorld(nodes);
        PlanSearch search(
            {static_cast<u32>(std::max(1, trials)), static_cast<u32>(seed), BackendKind::kCpu, 1});
        std::vector<int> queue;
        std::vector<std::pair<std::size_t, int>> running;  // node, GPUs
        double sums[3] = {};
        // The cluster is filled first: queues as long as it takes.
        for (int tick = -(capacity / int(per_tick)); tick < kSettle + kTicks; ++tick) {
          if (tick >= 0) {
            std::size_t kept = 0;
            for (const auto& [node, gpus] : running) {
              if (random() % 1000 < static_cast<std::uint64_t>(ends)) {
                d.idle[node] = static_cast<u8>(d.idle[node] + gpus);
              } else {
                running[kept++] = {node, gpus};
              }
            }
            running.resize(kept);
          }
          while (queue.size() < per_tick) queue.push_back(pods[random() % pods.size()]);
          std::vector<int> node_of(queue.size(), -1);
          if (trials < 0) {
            PlaceFgd(mix, d, queue, node_of);
          } else if (!PlaceSearch(search, d, queue, node_of)) {
            return 1;
          }
          std::vector<int> waiting;
          for (std::size_t j = 0; j < queue.size(); ++j) {
            if (node_of[j] < 0) {
              waiting.push_back(queue[j]);
            } else {
              running.emplace_back(static_cast<std::size_t>(node_of[j]), queue[j]);
            }
          }
          queue = std::move(waiting);
          if (tick < kSettle) continue;
          for (std::size_t n = 0; n < nodes.size(); ++n) {
            sums[0] += d.idle[n];
            if (d.idle[n] < d.gpus[n]) sums[1] += d.idle[n];
          }
          for (const auto& [node, gpus] : running) sums[2] += gpus == 8 ? 8 : 0;
        }
        for (int i = 0; i < 3; ++i) figures[i].push_back(sums[i] / kTicks);
      }
      std::printf("| %s | %s |", name,
                  trials < 0    ? "fgd"
                  : trials == 0 ? "best fit"
                                : ("search " + std::to_string(trials)).c_str());
      for (int i = 0; i < 3; ++i) {
        if (trials == 0) best_fit[i] = figures[i];
        double mean = 0, difference = 0, square = 0;
        const auto count = double(figures[i].size());
        for (double v : figures[i]) mean += v / count;
        for (std::size_t k = 0; k < figures[i].size(); ++k) {
          difference += (figures[i][k] - best_fit[i][k]) / count;
        }
        for (std::size_t k = 0; k < figures[i].size(); ++k) {
          const double d = figures[i][k] - best_fit[i][k] - difference;
          square += d * d;
        }
        std::printf(" %.0f", mean);
        if (trials != 0) {
          std::printf(" (%+.0f ± %.0f)", difference, 2.0 * std::sqrt(square / (count - 1) / count));
        }
        std::printf(" |");
      }
      std::printf("\n");
      std::fflush(stdout);
    }
  }
  return 0;
}
