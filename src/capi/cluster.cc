// SPDX-License-Identifier: Apache-2.0
//
// tenure_gpu_type_*, tenure_domain_*, tenure_node_*, tenure_maintenance_*.
#include "face.h"

using tenure::AnyScheduler;
using tenure::DomainId;
using tenure::GpuCount;
using tenure::GpuTypeId;
using tenure::MaintenanceId;
using tenure::MaintenanceWindow;
using tenure::NodeHealth;
using tenure::NodeId;
using tenure::capi::Answer;
using tenure::capi::Ask;
using tenure::capi::At;
using tenure::capi::Change;
using tenure::capi::CheckInput;
using tenure::capi::CheckName;
using tenure::capi::Invalid;
using tenure::capi::List;
using tenure::capi::Text;
using tenure::capi::ToGpuType;
using tenure::capi::TooSmall;
using tenure::capi::Us;
using tenure::capi::WriteStruct;
using tenure::capi::WriteText;

namespace {

Answer NoNode(std::uint32_t node) {
  return Answer(TENURE_ERROR_NOT_FOUND, absl::StrCat("node ", node, " is unknown"));
}

}  // namespace

extern "C" {

tenure_status tenure_gpu_type_add(tenure_scheduler* scheduler, const char* name,
                                  uint32_t* out_type) {
  return Change(scheduler, "tenure_gpu_type_add", [&](AnyScheduler& engine) -> Answer {
    if (out_type == nullptr) return Invalid("out_type is NULL");
    if (Answer a = CheckName("the GPU type's name", name); !a.ok()) return a;
    const std::vector<std::string>& types = engine.cluster().gpu_types();
    if (types.size() >= tenure::kAnyGpuType.value() &&
        !engine.cluster().FindGpuType(name).has_value()) {
      return Answer(TENURE_ERROR_RESOURCE_EXHAUSTED,
                    absl::StrCat("GPU type '", name, "' would be number ", types.size()));
    }
    *out_type = engine.InternGpuType(name).value();
    return {};
  });
}

tenure_status tenure_gpu_type_set_rate(tenure_scheduler* scheduler, uint32_t type, int32_t permille,
                                       int64_t now_us) {
  return Change(scheduler, "tenure_gpu_type_set_rate", [&](AnyScheduler& engine) -> Answer {
    GpuTypeId id;
    if (Answer a = ToGpuType(engine, type, id); !a.ok()) return a;
    return engine.SetChargeRate(id, permille, At(now_us));
  });
}

tenure_status tenure_domain_add(tenure_scheduler* scheduler, uint32_t parent, const char* name,
                                uint32_t* out_domain) {
  return Change(scheduler, "tenure_domain_add", [&](AnyScheduler& engine) -> Answer {
    if (out_domain == nullptr) return Invalid("out_domain is NULL");
    if (Answer a = CheckName("the domain's name", name); !a.ok()) return a;
    const absl::StatusOr<DomainId> id = engine.AddDomain(name, DomainId(parent));
    if (!id.ok()) return id.status();
    *out_domain = id->value();
    return {};
  });
}

tenure_status tenure_node_add(tenure_scheduler* scheduler, const char* name, int32_t gpus,
                              uint32_t type, uint32_t domain, int64_t now_us, uint32_t* out_node) {
  return Change(scheduler, "tenure_node_add", [&](AnyScheduler& engine) -> Answer {
    if (out_node == nullptr) return Invalid("out_node is NULL");
    if (Answer a = CheckName("the node's name", name); !a.ok()) return a;
    GpuTypeId type_id;
    if (Answer a = ToGpuType(engine, type, type_id); !a.ok()) return a;
    const absl::StatusOr<NodeId> id =
        engine.AddNode(name, GpuCount(gpus), type_id, DomainId(domain), At(now_us));
    if (!id.ok()) return id.status();
    *out_node = id->value();
    return {};
  });
}

tenure_status tenure_node_set_health(tenure_scheduler* scheduler, uint32_t node, int32_t health,
                                     int64_t since_us, int64_t now_us, tenure_loss* losses,
                                     size_t capacity, size_t* out_count) {
  return Change(scheduler, "tenure_node_set_health", [&](AnyScheduler& engine) -> Answer {
    if (out_count == nullptr) return Invalid("out_count is NULL");
    *out_count = 0;
    if (Answer a = List<tenure_loss>{"losses", losses, capacity}.Check(); !a.ok()) return a;
    if (health < TENURE_NODE_UP || health > TENURE_NODE_DOWN) {
      return Invalid("node ", node, ": unknown health ", health);
    }
    const NodeId id(node);
    if (!engine.cluster().contains(id)) return NoNode(node);
    const tenure::Node& n = engine.cluster().node(id);
    if (health == TENURE_NODE_DOWN && n.runs.size() > capacity) {
      *out_count = n.runs.size();
      return TooSmall("losses", n.runs.size(), capacity);
    }
    const absl::StatusOr<tenure::NodeReport> report =
        engine.SetNode(id, static_cast<NodeHealth>(health), At(since_us), At(now_us));
    if (!report.ok()) return report.status();
    for (const tenure::LostRun& lost : report->lost) {
      losses[(*out_count)++] = {lost.workload.value(), lost.run.value(),
                                static_cast<int32_t>(lost.outcome)};
    }
    return {};
  });
}

tenure_status tenure_node_describe(const tenure_scheduler* scheduler, uint32_t node,
                                   tenure_node_info* out) {
  return Ask(scheduler, "tenure_node_describe", [&](const AnyScheduler& engine) -> Answer {
    if (!engine.cluster().contains(NodeId(node))) return NoNode(node);
    const tenure::Node& n = engine.cluster().node(NodeId(node));
    tenure_node_info info = TENURE_NODE_INFO_INIT;
    info.type = n.type.value();
    info.domain = n.domain.value();
    info.health = static_cast<int32_t>(n.health);
    info.gpus = n.gpus;
    info.occupied_gpus = n.occupied;
    info.stopping_gpus = n.stopping;
    info.run_count = static_cast<int32_t>(n.runs.size());
    info.drained = engine.Drained(NodeId(node));
    info.reserved = n.reserved_for != tenure::kNoSlot;
    info.in_maintenance = n.closed;
    info.closes_us = Us(n.closes_at);
    return WriteStruct(info, "out", out);
  });
}

tenure_status tenure_node_find(const tenure_scheduler* scheduler, const char* name,
                               uint32_t* out_node) {
  return Ask(scheduler, "tenure_node_find", [&](const AnyScheduler& engine) -> Answer {
    if (out_node == nullptr) return Invalid("out_node is NULL");
    if (name == nullptr) return Invalid("name is NULL");
    const absl::StatusOr<NodeId> id = engine.cluster().Find(name);
    if (!id.ok()) return id.status();
    *out_node = id->value();
    return {};
  });
}

tenure_status tenure_node_name(const tenure_scheduler* scheduler, uint32_t node, char* buffer,
                               size_t capacity, size_t* out_size) {
  return Ask(scheduler, "tenure_node_name", [&](const AnyScheduler& engine) -> Answer {
    if (!engine.cluster().contains(NodeId(node))) return NoNode(node);
    return WriteText(engine.cluster().node(NodeId(node)).name, buffer, capacity, out_size);
  });
}

tenure_status tenure_maintenance_announce(tenure_scheduler* scheduler, const uint32_t* nodes,
                                          size_t count, int64_t from_us, int64_t until_us,
                                          const char* author, const char* reason, int64_t now_us,
                                          uint64_t* out_maintenance) {
  return Change(scheduler, "tenure_maintenance_announce", [&](AnyScheduler& engine) -> Answer {
    if (out_maintenance == nullptr) return Invalid("out_maintenance is NULL");
    if (Answer a = CheckInput("nodes", nodes, count); !a.ok()) return a;
    std::vector<NodeId> ids;
    for (std::size_t i = 0; i < count; ++i) ids.emplace_back(nodes[i]);
    const absl::StatusOr<MaintenanceId> id = engine.AnnounceMaintenance(
        std::move(ids), At(from_us), At(until_us), Text(author), Text(reason), At(now_us));
    if (!id.ok()) return id.status();
    *out_maintenance = id->value();
    return {};
  });
}

tenure_status tenure_maintenance_cancel(tenure_scheduler* scheduler, uint64_t maintenance,
                                        int64_t now_us) {
  return Change(scheduler, "tenure_maintenance_cancel", [&](AnyScheduler& engine) -> Answer {
    return engine.CancelMaintenance(MaintenanceId(maintenance), At(now_us));
  });
}

tenure_status tenure_maintenance_list(const tenure_scheduler* scheduler, uint64_t* maintenances,
                                      size_t capacity, size_t* out_count) {
  return Ask(scheduler, "tenure_maintenance_list", [&](const AnyScheduler& engine) -> Answer {
    if (out_count == nullptr) return Invalid("out_count is NULL");
    *out_count = 0;
    const List<std::uint64_t> list{"maintenances", maintenances, capacity};
    if (Answer a = list.Check(); !a.ok()) return a;
    *out_count = engine.maintenance().size();
    if (*out_count > capacity) return TooSmall("maintenances", *out_count, capacity);
    for (const MaintenanceWindow& w : engine.maintenance()) *maintenances++ = w.id.value();
    return {};
  });
}

tenure_status tenure_maintenance_describe(const tenure_scheduler* scheduler, uint64_t maintenance,
                                          tenure_maintenance_info* out, uint32_t* nodes,
                                          size_t capacity, size_t* out_count) {
  return Ask(scheduler, "tenure_maintenance_describe", [&](const AnyScheduler& engine) -> Answer {
    if (out_count == nullptr) return Invalid("out_count is NULL");
    *out_count = 0;
    if (Answer a = List<std::uint32_t>{"nodes", nodes, capacity}.Check(); !a.ok()) return a;
    const auto& windows = engine.maintenance();
    const auto w = std::find_if(windows.begin(), windows.end(), [&](const MaintenanceWindow& x) {
      return x.id == MaintenanceId(maintenance);
    });
    if (w == windows.end()) {
      return Answer(TENURE_ERROR_NOT_FOUND, absl::StrCat("no maintenance ", maintenance));
    }
    tenure_maintenance_info info = TENURE_MAINTENANCE_INFO_INIT;
    info.from_us = Us(w->from);
    info.until_us = Us(w->until);
    if (Answer a = WriteStruct(info, "out", out); !a.ok()) return a;
    *out_count = w->nodes.size();
    if (*out_count > capacity) return TooSmall("nodes", *out_count, capacity);
    for (const NodeId n : w->nodes) *nodes++ = n.value();
    return {};
  });
}

}  // extern "C"
