// SPDX-License-Identifier: Apache-2.0
//
// tenure_scheduler_*: life, state and passes.
#include "absl/strings/str_join.h"
#include "face.h"

using tenure::AnyScheduler;
using tenure::Decisions;
using tenure::NodeId;
using tenure::NodeList;
using tenure::RunNumber;
using tenure::RunRef;
using tenure::WorkloadId;
using tenure::capi::Answer;
using tenure::capi::Ask;
using tenure::capi::At;
using tenure::capi::Change;
using tenure::capi::CheckInput;
using tenure::capi::Enter;
using tenure::capi::Guard;
using tenure::capi::Invalid;
using tenure::capi::List;
using tenure::capi::ReadStruct;
using tenure::capi::TooSmall;
using tenure::capi::Us;
using tenure::capi::WriteStruct;

namespace {

// --- Decisions -----------------------------------------------------------------------------------

tenure_start ToC(const tenure::Start& s) {
  return {s.workload.value(), s.run.value(), s.nodes.begin, s.nodes.size,
          static_cast<std::int32_t>(s.gpus_per_node.value())};
}
tenure_hold ToC(const tenure::Hold& h) {
  return {h.workload.value(),
          h.nodes.begin,
          h.nodes.size,
          static_cast<std::int32_t>(h.gpus_per_node.value()),
          0,
          Us(h.expires)};
}
tenure_promise ToC(const tenure::Promise& p) {
  return {p.workload.value(), p.nodes.begin, p.nodes.size, Us(p.start_by)};
}

// All that can be said about the buffers before there is anything to put into them.
Answer CheckBuffers(const tenure_decisions& d) {
  for (const Answer& a : {List<tenure_start>{"starts", d.starts, d.start_capacity}.Check(),
                          List<tenure_stop>{"stops", d.stops, d.stop_capacity}.Check(),
                          List<tenure_hold>{"holds", d.holds, d.hold_capacity}.Check(),
                          List<tenure_promise>{"promises", d.promises, d.promise_capacity}.Check(),
                          List<std::uint32_t>{"nodes", d.nodes, d.node_capacity}.Check()}) {
    if (!a.ok()) return a;
  }
  return {};
}

// Copies the last decisions into the caller's buffers.
Answer Hand(tenure_scheduler* s, tenure_decisions in, tenure_decisions* out) {
  const Decisions& d = *s->last;
  in.start_count = d.starts.size();
  in.stop_count = d.stops.size();
  in.hold_count = d.holds.size();
  in.promise_count = d.promises.size();
  in.node_count = d.node_pool.size();
  in.next_wakeup_us = Us(d.next_wakeup);
  Answer answer;
  if (in.start_count > in.start_capacity) {
    answer = TooSmall("starts", in.start_count, in.start_capacity);
  } else if (in.stop_count > in.stop_capacity) {
    answer = TooSmall("stops", in.stop_count, in.stop_capacity);
  } else if (in.holds != nullptr && in.hold_count > in.hold_capacity) {
    answer = TooSmall("holds", in.hold_count, in.hold_capacity);
  } else if (in.promises != nullptr && in.promise_count > in.promise_capacity) {
    answer = TooSmall("promises", in.promise_count, in.promise_capacity);
  } else if (in.node_count > in.node_capacity) {
    answer = TooSmall("nodes", in.node_count, in.node_capacity);
  }
  s->unfetched = !answer.ok();
  if (answer.ok()) {
    const auto copy = [](const auto& from, auto* to) {
      if (to == nullptr) return;
      for (const auto& x : from) *to++ = ToC(x);
    };
    copy(d.starts, in.starts);
    for (std::size_t i = 0; i < d.stops.size(); ++i) in.stops[i] = tenure::capi::ToC(d.stops[i]);
    copy(d.holds, in.holds);
    copy(d.promises, in.promises);
    for (std::size_t i = 0; i < d.node_pool.size(); ++i) in.nodes[i] = d.node_pool[i].value();
  }
  if (Answer a = WriteStruct(in, "out", out); !a.ok()) return a;
  return answer;
}

void LogDecisions(const tenure_scheduler* s, const Decisions& d) {
  const auto say = [&](const std::string& line) {
    tenure::capi::Log(s->log, TENURE_LOG_INFO, line.c_str());
  };
  const auto names = [&](NodeList list) {
    return absl::StrJoin(d.Nodes(list), " ", [&](std::string* out, NodeId n) {
      out->append(s->engine->cluster().node(n).name);
    });
  };
  if (const tenure::SearchRecord& r = d.search; r.outcome != tenure::SearchOutcome::kNone) {
    say(absl::StrCat("plan search: ", ToString(r.outcome), ", ", r.trials, " trials of seed ",
                     r.seed, " on ", ToString(r.backend), ", winner ", r.winner, ", price ",
                     r.price_before, " -> ", r.price, " GPU-minutes, ", r.faults, " faults"));
  }
  for (const tenure::Promise& p : d.promises) {
    say(absl::StrCat("promise workload ", p.workload.value(), " a start by ", Us(p.start_by),
                     " us on ", names(p.nodes)));
  }
  for (const tenure::Hold& h : d.holds) {
    say(absl::StrCat("hold ", h.gpus_per_node.value(), " GPUs each on ", names(h.nodes),
                     " for workload ", h.workload.value()));
  }
  for (const tenure::Stop& stop : d.stops) {
    const tenure_stop c = tenure::capi::ToC(stop);
    const bool for_another = c.reason == TENURE_STOP_PREEMPTED || c.reason == TENURE_STOP_PROMISE;
    say(absl::StrCat("stop run ", c.run, " of workload ", c.workload, ": ",
                     tenure_stop_reason_name(c.reason),
                     for_another ? absl::StrCat(" for workload ", c.beneficiary) : ""));
  }
  for (const tenure::Start& start : d.starts) {
    say(absl::StrCat("start run ", start.run.value(), " of workload ", start.workload.value(),
                     " on ", names(start.nodes), ", ", start.gpus_per_node.value(), " GPUs each"));
  }
}

}  // namespace

namespace tenure::capi {

tenure_stop ToC(const Stop& s) {
  const bool for_another = s.reason == StopReason::kPreempted || s.reason == StopReason::kPromise;
  return {s.workload.value(), for_another ? s.beneficiary.value() : 0,
          s.run.value(),      static_cast<std::int32_t>(s.reason),
          s.grace.count(),    s.lost_work.value()};
}

}  // namespace tenure::capi

extern "C" {

tenure_status tenure_scheduler_create(const tenure_options* options, tenure_scheduler** out) {
  return Guard("tenure_scheduler_create", [&]() -> Answer {
    if (out == nullptr) return Invalid("out is NULL");
    *out = nullptr;
    auto scheduler = std::make_unique<tenure_scheduler>();
    absl::StatusOr<std::unique_ptr<AnyScheduler>> engine = tenure::capi::MakeEngine(options);
    if (!engine.ok()) return engine.status();
    scheduler->blank = (*engine)->Clone();
    scheduler->engine = *std::move(engine);
    if (options != nullptr) scheduler->log = options->log;
    *out = scheduler.release();
    return {};
  });
}

void tenure_scheduler_destroy(tenure_scheduler* scheduler) {
  // From inside one of its own callbacks this would pull the ground from under the call.
  if (scheduler == nullptr || tenure::capi::Frame::Contains(scheduler)) return;
  delete scheduler;
}

tenure_status tenure_scheduler_clone(const tenure_scheduler* scheduler, tenure_scheduler** out) {
  if (out != nullptr) *out = nullptr;
  return Ask(scheduler, "tenure_scheduler_clone", [&](const AnyScheduler& engine) -> Answer {
    if (out == nullptr) return Invalid("out is NULL");
    auto copy = std::make_unique<tenure_scheduler>();
    copy->engine = engine.Clone();
    copy->blank = scheduler->blank;
    copy->log = scheduler->log;
    *out = copy.release();
    return {};
  });
}

tenure_status tenure_scheduler_snapshot(const tenure_scheduler* scheduler, void* buffer,
                                        size_t capacity, size_t* out_size) {
  return Ask(scheduler, "tenure_scheduler_snapshot", [&](const AnyScheduler& engine) -> Answer {
    if (out_size == nullptr) return Invalid("out_size is NULL");
    const List<void> list{"buffer", buffer, capacity};
    if (Answer a = list.Check(); !a.ok()) return a;
    const std::string bytes = engine.Snapshot();
    *out_size = bytes.size();
    if (bytes.size() > capacity) return TooSmall("bytes", bytes.size(), capacity);
    std::memcpy(buffer, bytes.data(), bytes.size());
    return {};
  });
}

tenure_status tenure_scheduler_restore(tenure_scheduler* scheduler, const void* bytes,
                                       size_t size) {
  return Enter(scheduler, "tenure_scheduler_restore",
               scheduler == nullptr ? nullptr : &scheduler->broken, true, [&]() -> Answer {
                 const auto* data = static_cast<const char*>(bytes);
                 if (data == nullptr) return Invalid("bytes is NULL");
                 if (Answer a = CheckInput("bytes", data, size); !a.ok()) return a;
                 const std::string state(data, size);
                 std::unique_ptr<AnyScheduler> anew;
                 if (scheduler->broken) anew = scheduler->blank->Clone();
                 AnyScheduler& target = anew != nullptr ? *anew : *scheduler->engine;
                 if (const absl::Status s = target.Restore(state); !s.ok()) return s;
                 if (anew != nullptr) {
                   (void)scheduler->engine.release();
                   scheduler->engine = std::move(anew);
                 }
                 scheduler->last = nullptr;
                 scheduler->unfetched = scheduler->broken = false;
                 return {};
               });
}

tenure_status tenure_scheduler_digest(const tenure_scheduler* scheduler, uint64_t* out_digest) {
  return Ask(scheduler, "tenure_scheduler_digest", [&](const AnyScheduler& engine) -> Answer {
    if (out_digest == nullptr) return Invalid("out_digest is NULL");
    *out_digest = engine.Digest();
    return {};
  });
}

tenure_status tenure_scheduler_describe(const tenure_scheduler* scheduler,
                                        tenure_scheduler_info* out) {
  return Ask(scheduler, "tenure_scheduler_describe", [&](const AnyScheduler& engine) -> Answer {
    const tenure::Cluster& cluster = engine.cluster();
    tenure_scheduler_info info = TENURE_SCHEDULER_INFO_INIT;
    info.dirty = engine.dirty();
    info.now_us = Us(engine.now());
    info.workload_count = engine.workloads();
    info.allocation_count = static_cast<std::uint32_t>(engine.tree().size());
    info.node_count = static_cast<std::uint32_t>(cluster.size());
    info.domain_count = static_cast<std::uint32_t>(cluster.domains());
    info.gpu_type_count = static_cast<std::uint32_t>(cluster.gpu_types().size());
    info.declared_gpus = cluster.declared().value();
    info.healthy_gpus = cluster.healthy().value();
    for (const tenure::Node& n : cluster.nodes()) {
      if (n.up()) info.free_gpus += std::max(0, n.free());
    }
    return WriteStruct(info, "out", out);
  });
}

tenure_status tenure_scheduler_decide(tenure_scheduler* scheduler, int64_t now_us,
                                      tenure_decisions* out) {
  return Change(scheduler, "tenure_scheduler_decide", [&](AnyScheduler& engine) -> Answer {
    tenure_decisions in = TENURE_DECISIONS_INIT;
    if (Answer a = ReadStruct(out, "out", in); !a.ok()) return a;
    if (Answer a = CheckBuffers(in); !a.ok()) return a;
    if (scheduler->unfetched) {
      return Answer(TENURE_ERROR_FAILED_PRECONDITION,
                    "the decisions of the last pass have not been fetched");
    }
    const absl::StatusOr<const Decisions*> decided = engine.Decide(At(now_us));
    if (!decided.ok()) return decided.status();
    scheduler->last = *decided;
    if (scheduler->log.Wants(TENURE_LOG_INFO)) LogDecisions(scheduler, **decided);
    return Hand(scheduler, in, out);
  });
}

tenure_status tenure_scheduler_decisions(tenure_scheduler* scheduler, tenure_decisions* out) {
  return Change(scheduler, "tenure_scheduler_decisions", [&](AnyScheduler&) -> Answer {
    tenure_decisions in = TENURE_DECISIONS_INIT;
    if (Answer a = ReadStruct(out, "out", in); !a.ok()) return a;
    if (Answer a = CheckBuffers(in); !a.ok()) return a;
    if (scheduler->last == nullptr) {
      return Answer(TENURE_ERROR_FAILED_PRECONDITION, "there was no pass yet");
    }
    return Hand(scheduler, in, out);
  });
}

tenure_status tenure_scheduler_search(const tenure_scheduler* scheduler,
                                      tenure_search_record* out) {
  return Ask(scheduler, "tenure_scheduler_search", [&](const AnyScheduler&) -> Answer {
    if (scheduler->last == nullptr) {
      return Answer(TENURE_ERROR_FAILED_PRECONDITION, "there was no pass yet");
    }
    const tenure::SearchRecord& r = scheduler->last->search;
    tenure_search_record record = TENURE_SEARCH_RECORD_INIT;
    record.outcome = static_cast<int32_t>(r.outcome);
    record.backend = static_cast<int32_t>(r.backend);
    record.trials = r.trials;
    record.seed = r.seed;
    record.winner = r.winner;
    record.price_before_gpu_min = r.price_before;
    record.price_gpu_min = r.price;
    record.faults = r.faults;
    return WriteStruct(record, "out", out);
  });
}

tenure_status tenure_scheduler_reconcile(tenure_scheduler* scheduler, const tenure_run_ref* running,
                                         size_t count, int64_t now_us,
                                         tenure_reconcile_report* out) {
  return Change(scheduler, "tenure_scheduler_reconcile", [&](AnyScheduler& engine) -> Answer {
    tenure_reconcile_report in = TENURE_RECONCILE_REPORT_INIT;
    if (Answer a = ReadStruct(out, "out", in); !a.ok()) return a;
    for (const Answer& a :
         {CheckInput("running", running, count),
          List<tenure_run_ref>{"ended", in.ended, in.ended_capacity}.Check(),
          List<tenure_run_ref>{"unknown", in.unknown, in.unknown_capacity}.Check()}) {
      if (!a.ok()) return a;
    }
    // Room for the worst case first: the report is made once.
    in.ended_count = 0;
    for (tenure::RunSlot slot = 0; slot < engine.table().slots(); ++slot) {
      const tenure::WorkloadState state = engine.table().run(slot).state;
      in.ended_count +=
          state == tenure::WorkloadState::kRunning || state == tenure::WorkloadState::kStopping;
    }
    in.unknown_count = count;
    if (in.ended_count > in.ended_capacity || count > in.unknown_capacity) {
      if (Answer a = WriteStruct(in, "out", out); !a.ok()) return a;
      return in.ended_count > in.ended_capacity
                 ? TooSmall("ended", in.ended_count, in.ended_capacity)
                 : TooSmall("unknown", count, in.unknown_capacity);
    }
    std::vector<RunRef> list;
    list.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      list.push_back({WorkloadId(running[i].workload), RunNumber(running[i].run)});
    }
    const absl::StatusOr<tenure::ReconcileReport> report = engine.Reconcile(list, At(now_us));
    if (!report.ok()) return report.status();
    const auto copy = [](const std::vector<RunRef>& from, tenure_run_ref* to) {
      for (const RunRef& r : from) *to++ = {r.workload.value(), r.run.value(), 0};
      return from.size();
    };
    in.ended_count = copy(report->ended, in.ended);
    in.unknown_count = copy(report->unknown, in.unknown);
    return WriteStruct(in, "out", out);
  });
}

}  // extern "C"
