// SPDX-License-Identifier: Apache-2.0
//
// tenure_allocation_*.
#include "face.h"

using tenure::AllocationId;
using tenure::AnyScheduler;
using tenure::BudgetTree;
using tenure::Weight;
using tenure::capi::Answer;
using tenure::capi::Ask;
using tenure::capi::At;
using tenure::capi::Change;
using tenure::capi::Invalid;
using tenure::capi::Text;
using tenure::capi::WriteStruct;
using tenure::capi::WriteText;

namespace {

Answer NoAllocation(std::uint32_t allocation) {
  return Answer(TENURE_ERROR_NOT_FOUND, absl::StrCat("allocation ", allocation, " is unknown"));
}

}  // namespace

extern "C" {

tenure_status tenure_allocation_add(tenure_scheduler* scheduler, uint32_t parent, const char* name,
                                    double weight, int64_t now_us, uint32_t* out_allocation) {
  return Change(scheduler, "tenure_allocation_add", [&](AnyScheduler& engine) -> Answer {
    if (out_allocation == nullptr) return Invalid("out_allocation is NULL");
    if (name == nullptr) return Invalid("name is NULL");
    const absl::StatusOr<AllocationId> id =
        engine.AddAllocation(name, AllocationId(parent), Weight{weight}, At(now_us));
    if (!id.ok()) return id.status();
    *out_allocation = id->value();
    return {};
  });
}

tenure_status tenure_allocation_set_weight(tenure_scheduler* scheduler, uint32_t allocation,
                                           double weight, int64_t effective_us, const char* author,
                                           const char* reason, int64_t now_us) {
  return Change(scheduler, "tenure_allocation_set_weight", [&](AnyScheduler& engine) -> Answer {
    return engine.SetWeight(AllocationId(allocation), Weight{weight}, At(effective_us),
                            Text(author), Text(reason), At(now_us));
  });
}

tenure_status tenure_allocation_boost(tenure_scheduler* scheduler, uint32_t allocation,
                                      double weight, int64_t from_us, int64_t until_us,
                                      const char* author, const char* reason, int64_t now_us) {
  return Change(scheduler, "tenure_allocation_boost", [&](AnyScheduler& engine) -> Answer {
    return engine.Boost(AllocationId(allocation), Weight{weight}, At(from_us), At(until_us),
                        Text(author), Text(reason), At(now_us));
  });
}

tenure_status tenure_allocation_move(tenure_scheduler* scheduler, uint32_t allocation,
                                     uint32_t new_parent, const char* author, const char* reason,
                                     int64_t now_us) {
  return Change(scheduler, "tenure_allocation_move", [&](AnyScheduler& engine) -> Answer {
    return engine.MoveAllocation(AllocationId(allocation), AllocationId(new_parent), At(now_us),
                                 Text(author), Text(reason));
  });
}

tenure_status tenure_allocation_close(tenure_scheduler* scheduler, uint32_t allocation,
                                      int64_t now_us) {
  return Change(scheduler, "tenure_allocation_close", [&](AnyScheduler& engine) -> Answer {
    return engine.CloseAllocation(AllocationId(allocation), At(now_us));
  });
}

tenure_status tenure_allocation_describe(const tenure_scheduler* scheduler, uint32_t allocation,
                                         tenure_allocation_info* out) {
  return Ask(scheduler, "tenure_allocation_describe", [&](const AnyScheduler& engine) -> Answer {
    const BudgetTree& tree = engine.tree();
    const AllocationId id(allocation);
    if (!tree.contains(id)) return NoAllocation(allocation);
    tenure_allocation_info info = TENURE_ALLOCATION_INFO_INIT;
    info.parent = tree.parent(id).value();
    info.weight = tree.weight(id).value;
    info.depth = tree.depth(id);
    info.closed = tree.closed(id);
    info.leaf = tree.is_leaf(id) && id != tenure::kRootAllocation;
    info.child_count = static_cast<std::uint32_t>(tree.children(id).size());
    return WriteStruct(info, "out", out);
  });
}

tenure_status tenure_allocation_find(const tenure_scheduler* scheduler, const char* path,
                                     uint32_t* out_allocation) {
  return Ask(scheduler, "tenure_allocation_find", [&](const AnyScheduler& engine) -> Answer {
    if (out_allocation == nullptr) return Invalid("out_allocation is NULL");
    if (path == nullptr) return Invalid("path is NULL");
    const absl::StatusOr<AllocationId> id = engine.tree().Find(path);
    if (!id.ok()) return id.status();
    *out_allocation = id->value();
    return {};
  });
}

tenure_status tenure_allocation_path(const tenure_scheduler* scheduler, uint32_t allocation,
                                     char* buffer, size_t capacity, size_t* out_size) {
  return Ask(scheduler, "tenure_allocation_path", [&](const AnyScheduler& engine) -> Answer {
    const AllocationId id(allocation);
    if (!engine.tree().contains(id)) return NoAllocation(allocation);
    return WriteText(engine.tree().path(id), buffer, capacity, out_size);
  });
}

tenure_status tenure_allocation_standing(const tenure_scheduler* scheduler, uint32_t allocation,
                                         int64_t now_us, tenure_standing* out) {
  return Ask(scheduler, "tenure_allocation_standing", [&](const AnyScheduler& engine) -> Answer {
    const absl::StatusOr<tenure::AllocationStanding> s =
        engine.Standing(AllocationId(allocation), At(now_us));
    if (!s.ok()) return s.status();
    tenure_standing answer = TENURE_STANDING_INIT;
    answer.allocation = allocation;
    answer.entitlement_mgpu = s->entitlement.value();
    answer.natural_mgpu = s->natural.value();
    answer.fluid_mgpu = s->fluid.value();
    answer.used_gpu_us = s->used_in_window.value();
    answer.used_rest = s->used_rest;
    answer.committed_gpu_us = s->committed_ahead.value();
    answer.unfunded_gpu_us = s->unfunded_in_window.value();
    answer.key_us = s->key.count();
    answer.placed_gpus = s->placed.value();
    answer.queued_gpus = s->queued.value();
    answer.unfunded_gpus = s->unfunded.value();
    return WriteStruct(answer, "out", out);
  });
}

}  // extern "C"
