// SPDX-License-Identifier: Apache-2.0
//
// Packing quality on the nodes and pods of Alibaba's openb trace (the data set of the FGD paper,
// USENIX ATC 2023): requests sampled from the trace arrive in ticks until the offered GPUs exceed
// the cluster; what does not fit in its tick is dropped. How many GPUs stay unallocated?
//
//   plan_packing NODES.csv PODS.csv [--seeds N] [--tick PODS]
//
//   best fit     the tightest node, in order of arrival: trial 0 of a search, what a pass does
//   fgd          the node whose expected fragmentation grows least; ties: the tightest
//   search S     best of S trials a tick
//
// GPUs are whole here: a pod that asks for a part of one takes it all; CPUs and memory do not
// count. Mixes: `trace` as it is; `multi` takes half of the requested GPUs from pods of 2, 4 and 8.
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

void PlaceFgd(const PodMix& mix, WorldData& d, const std::vector<int>& tick) {
  for (int g : tick) {
    double least = 1e30;
    std::size_t best = d.gpus.size();
    for (std::size_t n = 0; n < d.gpus.size(); ++n) {
      const int free = d.idle[n];
      if (free < g) continue;
      const double grown = Fragmentation(mix, free - g) - Fragmentation(mix, free) + 1e-6 * free;
      if (grown < least) least = grown, best = n;
    }
    if (best < d.gpus.size()) d.idle[best] = static_cast<u8>(d.idle[best] - g);
  }
}

bool PlaceSearch(PlanSearch& search, WorldData& d, const std::vector<int>& tick) {
  d.job.clear();
  std::vector<int> sizes;
  for (int g : tick) {
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
    d.idle[p.nodes[0]] = static_cast<u8>(d.idle[p.nodes[0]] - d.job[p.job].gpus);
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  int seeds = 10;
  std::size_t per_tick = 64;
  bool ok = argc >= 3 && argc % 2 == 1;
  for (int i = 3; ok && i < argc; i += 2) {
    const std::string flag = argv[i];
    ok = (flag == "--seeds" && absl::SimpleAtoi(argv[i + 1], &seeds) && seeds > 1) ||
         (flag == "--tick" && absl::SimpleAtoi(argv[i + 1], &per_tick) && per_tick > 0);
  }
  if (!ok) {
    std::fprintf(stderr, "usage: plan_packing NODES.csv PODS.csv [--seeds N] [--tick PODS]\n");
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

  std::vector<int> multi;  // as many GPUs in ones as in all others
  for (int i = 0; i < 14; ++i) multi.push_back(1);
  for (int g : {2, 4, 8}) multi.push_back(g);
  constexpr int kOffered[] = {90, 100, 110};
  std::printf("openb: %zu nodes, %d GPUs; ticks of %zu pods; %d seeds, mean ± 95 %%\n\n",
              nodes.size(), capacity, per_tick, seeds);
  std::printf(
      "| mix | rule | unallocated GPUs at 90 %% offered | at 100 %% | at 110 %% | of those at "
      "110 %% on partly used nodes |\n|---|---|---:|---:|---:|---:|\n");
  for (const auto& [name, pods] : {std::pair{"trace", trace}, {"multi", multi}}) {
    PodMix mix{pods, {}};
    for (int g : pods) mix.share[g] += 1.0 / double(pods.size());
    for (const int trials : {0, -1, 64, 1024}) {
      std::vector<double> left[4];
      for (int seed = 1; seed <= seeds; ++seed) {
        std::mt19937_64 random(static_cast<std::uint64_t>(seed));
        WorldData d = EmptyWorld(nodes);
        PlanSearch search(
            {static_cast<u32>(std::max(1, trials)), static_cast<u32>(seed), BackendKind::kCpu, 1});
        int offered = 0;
        for (std::size_t mark = 0; mark < std::size(kOffered);) {
          std::vector<int> tick;
          while (tick.size() < per_tick) {
            tick.push_back(pods[random() % pods.size()]);
            offered += tick.back();
          }
          if (trials < 0) {
            PlaceFgd(mix, d, tick);
          } else if (!PlaceSearch(search, d, tick)) {
            return 1;
          }
          while (mark < std::size(kOffered) && offered * 100 >= capacity * kOffered[mark]) {
            int free = 0, fragments = 0;
            for (std::size_t n = 0; n < nodes.size(); ++n) {
              free += d.idle[n];
              if (d.idle[n] < d.gpus[n]) fragments += d.idle[n];
            }
            left[mark++].push_back(free);
            if (mark == std::size(kOffered)) left[3].push_back(fragments);
          }
        }
      }
      std::printf("| %s | %s |", name,
                  trials < 0    ? "fgd"
                  : trials == 0 ? "best fit"
                                : ("search " + std::to_string(trials)).c_str());
      for (const std::vector<double>& x : left) {
        double mean = 0, square = 0;
        for (double v : x) mean += v / double(x.size());
        for (double v : x) square += (v - mean) * (v - mean);
        std::printf(" %.0f ± %.0f |", mean,
                    2.0 * std::sqrt(square / double(x.size() - 1) / double(x.size())));
      }
      std::printf("\n");
      std::fflush(stdout);
    }
  }
  return 0;
}
