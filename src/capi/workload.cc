// SPDX-License-Identifier: Apache-2.0
//
// tenure_workload_* and tenure_run_*.
#include "face.h"

using tenure::AnyScheduler;
using tenure::Duration;
using tenure::RunNumber;
using tenure::RunSlot;
using tenure::WorkloadId;
using tenure::WorkloadSpec;
using tenure::WorkloadState;
using tenure::capi::Answer;
using tenure::capi::Ask;
using tenure::capi::At;
using tenure::capi::Change;
using tenure::capi::CheckInput;
using tenure::capi::Invalid;
using tenure::capi::List;
using tenure::capi::ReadStruct;
using tenure::capi::TooSmall;
using tenure::capi::ToSpec;
using tenure::capi::Us;
using tenure::capi::WriteStruct;

namespace {

Answer NoWorkload(std::uint64_t workload) {
  return Answer(TENURE_ERROR_NOT_FOUND, absl::StrCat("workload ", workload, " is unknown"));
}

// A list of node ids into a caller's buffer.
template <class Nodes>
Answer WriteNodes(const Nodes& from, std::uint32_t* nodes, std::size_t capacity) {
  if (from.size() > capacity) return TooSmall("nodes", from.size(), capacity);
  for (const tenure::NodeId n : from) *nodes++ = n.value();
  return {};
}

}  // namespace

namespace tenure::capi {

Answer ToSpec(const AnyScheduler& engine, const tenure_workload* workload, WorkloadSpec& out) {
  tenure_workload w = TENURE_WORKLOAD_INIT;
  if (Answer a = ReadStruct(workload, "workload", w); !a.ok()) return a;
  const auto bad = [&](const char* field, std::int64_t value) {
    return Invalid("workload ", w.id, ": ", field, " is ", value);
  };
  if (w.workload_class < 0 || w.workload_class >= static_cast<std::int32_t>(kWorkloadClasses)) {
    return bad("workload_class", w.workload_class);
  }
  if (w.topology != TENURE_TOPOLOGY_PREFERRED && w.topology != TENURE_TOPOLOGY_REQUIRED) {
    return bad("topology", w.topology);
  }
  if (w.topology_level > TENURE_DEEPEST_LEVEL) return bad("topology_level", w.topology_level);
  if (w.name == nullptr && w.name_size > 0) return bad("name is NULL and name_size", w.name_size);
  if (w.name_size > kMaxNameBytes) return bad("name_size", w.name_size);
  out.id = WorkloadId(w.id);
  out.allocation = AllocationId(w.allocation);
  out.user = UserId(w.user);
  out.name = w.name_size > 0 ? std::string(w.name, w.name_size) : Text(w.name);
  out.workload_class = static_cast<WorkloadClass>(w.workload_class);
  out.priority = w.priority;
  out.nodes = w.nodes;
  out.gpus_per_node = GpuCount(w.gpus_per_node);
  if (w.gpu_type != TENURE_ANY_GPU_TYPE) {
    if (Answer a = ToGpuType(engine, w.gpu_type, out.gpu_type); !a.ok()) {
      return Answer(a.code(), absl::StrCat("workload ", w.id, ": ", a.message()));
    }
  }
  out.topology_rule = static_cast<TopologyRule>(w.topology);
  out.topology_level = static_cast<std::uint8_t>(w.topology_level);
  out.minimum = Duration(w.minimum_us);
  out.resumable = w.resumable != 0;
  out.restorable = w.restorable != 0;
  out.checkpoint_interval = Duration(w.checkpoint_interval_us);
  out.restart_overhead = Duration(w.restart_overhead_us);
  return {};
}

}  // namespace tenure::capi

extern "C" {

tenure_status tenure_workload_submit(tenure_scheduler* scheduler, const tenure_workload* workload,
                                     int64_t now_us) {
  return Change(scheduler, "tenure_workload_submit", [&](AnyScheduler& engine) -> Answer {
    WorkloadSpec spec;
    if (Answer a = ToSpec(engine, workload, spec); !a.ok()) return a;
    return engine.Submit(spec, At(now_us));
  });
}

tenure_status tenure_workload_cancel(tenure_scheduler* scheduler, uint64_t workload,
                                     int64_t now_us) {
  return Change(scheduler, "tenure_workload_cancel", [&](AnyScheduler& engine) -> Answer {
    return engine.Cancel(WorkloadId(workload), At(now_us));
  });
}

tenure_status tenure_workload_idle(tenure_scheduler* scheduler, uint64_t workload, int32_t idle,
                                   int64_t now_us) {
  return Change(scheduler, "tenure_workload_idle", [&](AnyScheduler& engine) -> Answer {
    return engine.ReportIdle(WorkloadId(workload), idle != 0, At(now_us));
  });
}

tenure_status tenure_workload_set_resume_hint(tenure_scheduler* scheduler, uint64_t workload,
                                              const void* bytes, size_t size, int64_t now_us) {
  return Change(scheduler, "tenure_workload_set_resume_hint", [&](AnyScheduler& engine) -> Answer {
    const auto* text = static_cast<const char*>(bytes);
    if (Answer a = CheckInput("bytes", text, size); !a.ok()) return a;
    if (size > tenure::kMaxHintBytes) return Invalid("size is ", size);
    return engine.SetResumeHint(WorkloadId(workload), std::string(text, size), At(now_us));
  });
}

tenure_status tenure_workload_resume_hint(const tenure_scheduler* scheduler, uint64_t workload,
                                          void* buffer, size_t capacity, size_t* out_size) {
  return Ask(scheduler, "tenure_workload_resume_hint", [&](const AnyScheduler& engine) -> Answer {
    if (out_size == nullptr) return Invalid("out_size is NULL");
    *out_size = 0;
    auto* to = static_cast<char*>(buffer);
    if (Answer a = List<char>{"buffer", to, capacity}.Check(); !a.ok()) return a;
    const absl::StatusOr<std::string_view> hint = engine.ResumeHint(WorkloadId(workload));
    if (!hint.ok()) return hint.status();
    *out_size = hint->size();
    if (hint->size() > capacity) return TooSmall("buffer", hint->size(), capacity);
    std::copy(hint->begin(), hint->end(), to);
    return {};
  });
}

tenure_status tenure_workload_explain(const tenure_scheduler* scheduler, uint64_t workload,
                                      tenure_explanation* out) {
  return Ask(scheduler, "tenure_workload_explain", [&](const AnyScheduler& engine) -> Answer {
    const absl::StatusOr<tenure::Explanation> e = engine.Explain(WorkloadId(workload));
    if (!e.ok()) return e.status();
    const RunSlot slot = engine.table().Find(WorkloadId(workload));
    const tenure::Run& run = engine.table().run(slot);
    const bool runs = e->state == WorkloadState::kRunning || e->state == WorkloadState::kStopping;
    tenure_explanation answer = TENURE_EXPLANATION_INIT;
    answer.allocation = e->allocation.value();
    answer.workload = workload;
    answer.state = static_cast<int32_t>(e->state);
    answer.reason = static_cast<int32_t>(e->reason);
    answer.run = engine.table().workload(slot).run.value();
    answer.tier = e->tier;
    answer.stops = e->stops;
    answer.funded = run.funded;
    answer.leaves_ahead = e->leaves_ahead;
    answer.requests_ahead = e->requests_ahead;
    answer.entitlement_mgpu = e->entitlement.value();
    answer.fluid_mgpu = e->fluid.value();
    answer.placed_gpus = e->placed.value();
    answer.queued_gpus = e->queued.value();
    answer.used_gpu_us = e->used.value();
    answer.key_us = e->key.count();
    answer.start_us = runs || e->state == WorkloadState::kStarting ? Us(run.start) : TENURE_NEVER;
    answer.protected_until_us = runs ? Us(e->protected_until) : TENURE_NEVER;
    answer.promised_start_us = Us(e->promised_start);
    answer.next_protection_end_us = Us(e->next_protection_end);
    return WriteStruct(answer, "out", out);
  });
}

tenure_status tenure_workload_nodes(const tenure_scheduler* scheduler, uint64_t workload,
                                    uint32_t* nodes, size_t capacity, size_t* out_count) {
  return Ask(scheduler, "tenure_workload_nodes", [&](const AnyScheduler& engine) -> Answer {
    if (out_count == nullptr) return Invalid("out_count is NULL");
    *out_count = 0;
    if (Answer a = List<std::uint32_t>{"nodes", nodes, capacity}.Check(); !a.ok()) return a;
    const RunSlot slot = engine.table().Find(WorkloadId(workload));
    if (slot == tenure::kNoSlot) return NoWorkload(workload);
    const auto& on = engine.table().workload(slot).nodes;
    *out_count = on.size();
    return WriteNodes(on, nodes, capacity);
  });
}

tenure_status tenure_workload_forecast(const tenure_scheduler* scheduler, uint64_t workload,
                                       int64_t horizon_us, tenure_forecast* out) {
  return Ask(scheduler, "tenure_workload_forecast", [&](const AnyScheduler& engine) -> Answer {
    if (horizon_us <= 0) return Invalid("horizon_us is ", horizon_us);
    tenure::ForecastOptions options;
    options.horizon = Duration(horizon_us);
    const absl::StatusOr<tenure::ForecastResult> f = engine.Forecast(WorkloadId(workload), options);
    if (!f.ok()) return f.status();
    tenure_forecast answer = TENURE_FORECAST_INIT;
    answer.promised = f->promised;
    answer.started = f->started;
    answer.reason = static_cast<int32_t>(f->reason);
    answer.start_us = Us(f->start);
    answer.searched_until_us = Us(f->searched_until);
    return WriteStruct(answer, "out", out);
  });
}

tenure_status tenure_workload_what_if(const tenure_scheduler* scheduler,
                                      const tenure_workload* workload, int64_t now_us,
                                      tenure_what_if* out) {
  return Ask(scheduler, "tenure_workload_what_if", [&](const AnyScheduler& engine) -> Answer {
    tenure_what_if answer = TENURE_WHAT_IF_INIT;
    if (Answer a = ReadStruct(out, "out", answer); !a.ok()) return a;
    for (const Answer& a :
         {List<std::uint32_t>{"nodes", answer.nodes, answer.node_capacity}.Check(),
          List<tenure_stop>{"stops", answer.stops, answer.stop_capacity}.Check()}) {
      if (!a.ok()) return a;
    }
    WorkloadSpec spec;
    if (Answer a = ToSpec(engine, workload, spec); !a.ok()) return a;
    const absl::StatusOr<tenure::WhatIfResult> w = engine.WhatIf(spec, At(now_us));
    if (!w.ok()) return w.status();
    answer.starts_now = w->starts_now;
    answer.held = w->held;
    answer.reserved = w->reserved;
    answer.reason = static_cast<int32_t>(w->reason);
    answer.promised_start_us = Us(w->promised);
    answer.node_count = w->nodes.size();
    answer.stop_count = w->victims.size();
    if (Answer a = WriteStruct(answer, "out", out); !a.ok()) return a;
    if (answer.stop_count > answer.stop_capacity) {
      return TooSmall("stops", answer.stop_count, answer.stop_capacity);
    }
    for (std::size_t i = 0; i < w->victims.size(); ++i) {
      answer.stops[i] = tenure::capi::ToC(w->victims[i]);
    }
    return WriteNodes(w->nodes, answer.nodes, answer.node_capacity);
  });
}

tenure_status tenure_run_started(tenure_scheduler* scheduler, uint64_t workload, uint32_t run,
                                 int64_t started_us, int64_t now_us) {
  return Change(scheduler, "tenure_run_started", [&](AnyScheduler& engine) -> Answer {
    return engine.ReportStarted(WorkloadId(workload), RunNumber(run), At(started_us), At(now_us));
  });
}

tenure_status tenure_run_start_failed(tenure_scheduler* scheduler, uint64_t workload, uint32_t run,
                                      int64_t now_us) {
  return Change(scheduler, "tenure_run_start_failed", [&](AnyScheduler& engine) -> Answer {
    return engine.ReportStartFailed(WorkloadId(workload), RunNumber(run), At(now_us));
  });
}

tenure_status tenure_run_ended(tenure_scheduler* scheduler, uint64_t workload, uint32_t run,
                               int64_t ended_us, int64_t now_us) {
  return Change(scheduler, "tenure_run_ended", [&](AnyScheduler& engine) -> Answer {
    return engine.ReportEnded(WorkloadId(workload), RunNumber(run), At(ended_us), At(now_us));
  });
}

tenure_status tenure_run_stopped(tenure_scheduler* scheduler, uint64_t workload, uint32_t run,
                                 int64_t stopped_us, int64_t now_us, int32_t* out_outcome) {
  return Change(scheduler, "tenure_run_stopped", [&](AnyScheduler& engine) -> Answer {
    const absl::StatusOr<tenure::LossOutcome> outcome =
        engine.ReportStopped(WorkloadId(workload), RunNumber(run), At(stopped_us), At(now_us));
    if (!outcome.ok()) return outcome.status();
    if (out_outcome != nullptr) *out_outcome = static_cast<int32_t>(*outcome);
    return {};
  });
}

tenure_status tenure_run_stop_failed(tenure_scheduler* scheduler, uint64_t workload, uint32_t run,
                                     int64_t now_us) {
  return Change(scheduler, "tenure_run_stop_failed", [&](AnyScheduler& engine) -> Answer {
    return engine.ReportStopFailed(WorkloadId(workload), RunNumber(run), At(now_us));
  });
}

tenure_status tenure_run_checkpointed(tenure_scheduler* scheduler, uint64_t workload, uint32_t run,
                                      int64_t at_us, int64_t now_us) {
  return Change(scheduler, "tenure_run_checkpointed", [&](AnyScheduler& engine) -> Answer {
    return engine.ReportCheckpoint(WorkloadId(workload), RunNumber(run), At(at_us), At(now_us));
  });
}

}  // extern "C"
