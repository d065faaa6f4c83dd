// SPDX-License-Identifier: Apache-2.0
//
// Budget trees for generated work: that of the institute, and others of any size and depth.
//
//   absl::StatusOr<std::vector<tenure::sim::ShapedLeaf>> leaves =
//       tenure::sim::ShapeTree({.levels = 4, .leaves = 300});
//
// Without `leaves` it is the institute: 15 projects in 5 programs, from 35 % to 1 %. With them,
// every inner node has about equally many children and leaf i (from 0) a share that goes with
// 1 / (i + 1), so that the last of many leaves are smaller than a job; or the first has
// `largest_percent` and the others share the rest equally.
#ifndef TENURE_SIM_TREE_SHAPE_H_
#define TENURE_SIM_TREE_SHAPE_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenure/sim/workload.h"

namespace tenure::sim {

struct TreeShape {
  std::int32_t leaves = 0;           // 0: the institute's own tree; else 1 to 10,000
  std::int32_t levels = 2;           // below the root, 1 to 8; for `leaves` > 0
  std::int32_t largest_percent = 0;  // of the first leaf, 0 to 99; 0: shares like 1, 1/2, 1/3, ...
};

// A leaf with its part of the whole: `parts` / the sum of all parts.
struct ShapedLeaf {
  LeafSpec spec;
  std::int64_t parts = 0;  // > 0
};

}  // namespace tenure::sim

namespace tenure::internal {

struct InstituteLeaf {
  const char* program;
  const char* project;
  int percent;  // of the cluster
};

inline constexpr std::array<InstituteLeaf, 15> kInstituteLeaves = {{
    {"language", "pretraining", 35},
    {"language", "post-training", 8},
    {"language", "evaluation", 2},
    {"vision", "multimodal", 12},
    {"vision", "generation", 7},
    {"vision", "datasets", 3},
    {"robotics", "simulation", 8},
    {"robotics", "manipulation", 5},
    {"robotics", "navigation", 3},
    {"science", "climate", 6},
    {"science", "biology", 4},
    {"science", "chemistry", 1},
    {"platform", "systems", 3},
    {"platform", "safety", 2},
    {"platform", "tools", 1},
}};

// The path of leaf `i`: its digits in base `fanout`, the lowest first, so that neighbours in size
// lie in different branches.
inline std::string ShapedPath(std::int32_t i, std::int32_t levels, std::int32_t fanout) {
  std::string path;
  for (std::int32_t level = 0; level < levels; ++level) {
    const std::int32_t digit = level + 1 < levels ? i % fanout : i;
    absl::StrAppend(&path, level > 0 ? "/" : "", std::string(1, static_cast<char>('a' + level)),
                    digit);
    i /= fanout;
  }
  return path;
}

}  // namespace tenure::internal

namespace tenure::sim {

// The leaves, in the order of their numbers. Weights of inner nodes are the sums of those below, so
// that a leaf's share is its part of the whole. InvalidArgument naming the field. O(L D).
inline absl::StatusOr<std::vector<ShapedLeaf>> ShapeTree(const TreeShape& shape) {
  std::vector<ShapedLeaf> out;
  if (shape.leaves == 0) {
    std::map<std::string, int> programs;
    for (const auto& leaf : tenure::internal::kInstituteLeaves) {
      programs[leaf.program] += leaf.percent;
    }
    for (const auto& leaf : tenure::internal::kInstituteLeaves) {
      out.push_back({{.path = absl::StrCat(leaf.program, "/", leaf.project),
                      .weights = {programs[leaf.program] / 100.0, leaf.percent / 100.0}},
                     leaf.percent});
    }
    return out;
  }
  const auto bad = [](const char* field, std::int32_t value, const char* rule) {
    return absl::InvalidArgumentError(absl::StrCat(field, " is ", value, ", must be ", rule));
  };
  if (shape.leaves < 1 || shape.leaves > 10'000)
    return bad("leaves", shape.leaves, "in [0, 10000]");
  if (shape.levels < 1 || shape.levels > 8) return bad("levels", shape.levels, "in [1, 8]");
  if (shape.largest_percent < 0 || shape.largest_percent > 99 ||
      (shape.largest_percent > 0 && shape.leaves == 1)) {
    return bad("largest_percent", shape.largest_percent, "in [0, 99], 0 for a single leaf");
  }
  // The smallest fanout whose power holds all leaves.
  std::int32_t fanout = 1;
  for (std::int64_t holds = 1; holds < shape.leaves;) {
    holds = 1;
    ++fanout;
    for (std::int32_t level = 0; level < shape.levels; ++level) holds *= fanout;
  }
  constexpr std::int64_t kWhole = 100'000'000;
  for (std::int32_t i = 0; i < shape.leaves; ++i) {
    std::int64_t parts = kWhole / (i + 1);
    if (shape.largest_percent > 0) {
      const std::int64_t first = kWhole / 100 * shape.largest_percent;
      parts = i == 0 ? first : (kWhole - first) / (shape.leaves - 1);
    }
    out.push_back(
        {{.path = tenure::internal::ShapedPath(i, shape.levels, fanout), .weights = {}}, parts});
  }
  std::map<std::string, std::int64_t> below;
  const auto for_each_node = [](const std::string& path, auto visit) {
    for (std::size_t end = path.find('/'); end != std::string::npos;
         end = path.find('/', end + 1)) {
      visit(path.substr(0, end));
    }
    visit(path);
  };
  for (const ShapedLeaf& leaf : out) {
    for_each_node(leaf.spec.path, [&](const std::string& node) { below[node] += leaf.parts; });
  }
  for (ShapedLeaf& leaf : out) {
    for_each_node(leaf.spec.path, [&](const std::string& node) {
      leaf.spec.weights.push_back(static_cast<double>(below[node]));
    });
  }
  return out;
}

}  // namespace tenure::sim

#endif  // TENURE_SIM_TREE_SHAPE_H_
