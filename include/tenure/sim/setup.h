// SPDX-License-Identifier: Apache-2.0
//
// From a World to allocations and nodes: the same names in the same order for every engine.
#ifndef TENURE_SIM_SETUP_H_
#define TENURE_SIM_SETUP_H_

#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "tenure/sim/workload.h"
#include "tenure/types.h"

namespace tenure::sim {

// Calls add(name, parent, weight) -> StatusOr<AllocationId> for every allocation of the world,
// parents first, and returns the ids of the leaves. InvalidArgument for a path whose weights do not
// match its components, for inner weights that disagree and for a leaf given twice.
template <class Add>
absl::StatusOr<std::vector<AllocationId>> AddLeaves(const World& world, Add&& add) {
  struct Known {
    AllocationId id;
    double weight;
    bool leaf;
  };
  absl::btree_map<std::string, Known> known;
  std::vector<AllocationId> ids;
  for (const LeafSpec& leaf : world.leaves) {
    const std::vector<std::string> parts = absl::StrSplit(leaf.path, '/');
    if (parts.size() != leaf.weights.size()) {
      return absl::InvalidArgumentError(absl::StrCat("leaf '", leaf.path, "' has ", parts.size(),
                                                     " components and ", leaf.weights.size(),
                                                     " weights"));
    }
    AllocationId parent = kRootAllocation;
    std::string path;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      path += (i > 0 ? "/" : "") + parts[i];
      const bool last = i + 1 == parts.size();
      const auto it = known.find(path);
      if (it == known.end()) {
        const absl::StatusOr<AllocationId> id = add(parts[i], parent, Weight{leaf.weights[i]});
        if (!id.ok()) return id.status();
        known.emplace(path, Known{*id, leaf.weights[i], last});
        parent = *id;
        continue;
      }
      if (last || it->second.leaf) {
        return absl::InvalidArgumentError(absl::StrCat("allocation '", path, "' is given twice"));
      }
      if (it->second.weight != leaf.weights[i]) {
        return absl::InvalidArgumentError(absl::StrCat(
            "allocation '", path, "' has weight ", it->second.weight, " and ", leaf.weights[i]));
      }
      parent = it->second.id;
    }
    ids.push_back(parent);
  }
  return ids;
}

// Calls node(name, gpus, rack) for every node, rack(name) -> StatusOr<DomainId> for every rack.
template <class AddRack, class AddNode>
absl::Status AddNodes(const ClusterSpec& spec, AddRack&& add_rack, AddNode&& add_node) {
  DomainId rack = kRootDomain;
  for (std::int32_t i = 0; i < spec.nodes; ++i) {
    if (spec.nodes_per_rack > 0 && i % spec.nodes_per_rack == 0) {
      absl::StatusOr<DomainId> id = add_rack(absl::StrFormat("rack-%05d", i / spec.nodes_per_rack));
      if (!id.ok()) return id.status();
      rack = *id;
    }
    const absl::StatusOr<NodeId> node =
        add_node(absl::StrFormat("node-%06d", i), GpuCount(spec.gpus_per_node), rack);
    if (!node.ok()) return node.status();
  }
  return absl::OkStatus();
}

}  // namespace tenure::sim

#endif  // TENURE_SIM_SETUP_H_
