// SPDX-License-Identifier: Apache-2.0
//
// Sequences of calls of tenure.h, right and wrong ones. A refused call must leave the digest as it
// was; in the end a snapshot must restore to a scheduler that has the same digest and decides
// alike. Both cost more than all the rest: the fuzzer looks where the input says so, the replay of
// the corpus everywhere.
#define TENURE_EXPERIMENTAL

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bytes.h"
#include "tenure/tenure.h"

namespace {

using tenure::fuzz::Bytes;
using tenure::fuzz::Require;

#ifdef TENURE_FUZZING
constexpr bool kReplay = false;
#else
constexpr bool kReplay = true;
#endif

constexpr std::int64_t kSecond = 1'000'000, kMinute = 60 * kSecond, kHour = 60 * kMinute;

// Hooks: pure functions, as different as the seed makes them.
std::uint64_t Mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = (a ^ b) + 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  return x ^ (x >> 27);
}
std::uint64_t Seed(void* user) { return *static_cast<std::uint64_t*>(user); }
std::int64_t RankKey(void* user, const tenure_allocation_view* a) {
  return static_cast<std::int64_t>(Mix(Seed(user), a->allocation));
}
std::int32_t Tier(void* user, const tenure_requester_view* r) {
  return static_cast<std::int32_t>(Mix(Seed(user), r->allocation) % 3);
}
std::int32_t MayPreempt(void* user, const tenure_requester_view* r, const tenure_run_view* v) {
  return Mix(Seed(user), r->allocation * 31u + v->allocation) % 2 == 0;
}
std::int64_t VictimCost(void* user, const tenure_run_view* v) {
  return static_cast<std::int64_t>(Mix(Seed(user), v->workload));
}
std::int64_t NodeScore(void* user, const tenure_node_view* n) {
  return static_cast<std::int64_t>(Mix(Seed(user), static_cast<std::uint64_t>(n->free_gpus)));
}

struct Buffers {
  std::array<tenure_start, 64> starts;
  std::array<tenure_stop, 64> stops;
  std::array<tenure_hold, 64> holds;
  std::array<tenure_promise, 64> promises;
  std::array<std::uint32_t, 512> nodes;
  tenure_decisions d = TENURE_DECISIONS_INIT;
  Buffers() {
    d.starts = starts.data(), d.start_capacity = starts.size();
    d.stops = stops.data(), d.stop_capacity = stops.size();
    d.holds = holds.data(), d.hold_capacity = holds.size();
    d.promises = promises.data(), d.promise_capacity = promises.size();
    d.nodes = nodes.data(), d.node_capacity = nodes.size();
  }
};

class Story {
 public:
  Story(const std::uint8_t* data, std::size_t size) : in_(data, size) {}
  ~Story() { tenure_scheduler_destroy(s_); }

  void Run() {
    Begin();
    for (int i = 0; i < 200 && !in_.empty(); ++i) Step();
    if (kReplay || restores_) End();
  }

 private:
  // Options, and a small furnished scheduler made with them. There are few kinds; each is made once
  // and cloned, which is far cheaper.
  struct Beginning {
    std::uint64_t seed = 0;
    tenure_scheduler* scheduler = nullptr;
  };

  static void Furnish(tenure_scheduler* s) {
    std::uint32_t id;
    Require(tenure_gpu_type_add(s, "a", &id) == TENURE_OK, "type");
    for (int i = 0; i < 3; ++i) {
      const char name[] = {static_cast<char>('a' + i), 0};
      Require(tenure_node_add(s, name, 8, 0, TENURE_ROOT, 0, &id) == TENURE_OK, "node");
      Require(tenure_allocation_add(s, TENURE_ROOT, name, 1.0 + i, 0, &id) == TENURE_OK,
              "allocation");
    }
  }

  static const Beginning& BeginningOf(std::uint8_t kind, std::uint8_t seed) {
    static auto& made = *new std::map<std::pair<std::uint8_t, std::uint8_t>, Beginning>;
    if ((kind & 64) == 0) seed = 0;
    const auto [it, is_new] = made.try_emplace({kind & 127, seed});
    Beginning& b = it->second;
    if (!is_new) return b;
    constexpr std::array kPolicies = {"budget", "ai2", "hier", "responsive", "lag"};
    tenure_options* options = nullptr;
    Require(tenure_options_create(kPolicies[kind % kPolicies.size()], &options) == TENURE_OK,
            "options");
    const auto set = [&](const char* name, const char* value) {
      (void)tenure_options_set(options, name, value);  // ai2 does not have them all
    };
    if (kind & 4) set("lane_permille", "0");
    if (kind & 8) set("gang", "9");
    if (kind & 8) set("first_credit", "0s");
    if (kind & 16) set("quantum", "0s");
    if (kind & 16) set("big_gap", "0s");
    if (kind & 32) set("lookback", "3h");
    if (kind & 32) set("preemption_rate", "2");
    if (kind & 32) set("session_cap", "500");
    if (kind & 32) set("user_training_gpus", "9");
    if (kind & 32) set("borrowed_cap", "20m");
    if (kind & 64) {
      b.seed = seed;
      tenure_policy_hooks hooks = TENURE_POLICY_HOOKS_INIT;
      hooks.user = &b.seed;
      if (seed & 1) hooks.rank_key = RankKey;
      if (seed & 2) hooks.tier = Tier;
      if (seed & 4) hooks.may_preempt = MayPreempt;
      if (seed & 8) hooks.victim_cost = VictimCost;
      if (seed & 16) hooks.node_score = NodeScore;
      Require(tenure_options_set_hooks(options, &hooks) == TENURE_OK, "hooks");
    }
    Require(tenure_scheduler_create(options, &b.scheduler) == TENURE_OK, "create",
            tenure_last_error_message());
    tenure_options_destroy(options);
    Furnish(b.scheduler);
    return b;
  }

  void Begin() {
    const std::uint8_t kind = in_.Byte();
    const std::uint8_t byte = in_.Byte();
    restores_ = (byte & 96) == 0;
    beginning_ = &BeginningOf(kind, byte & 31);
    Require(tenure_scheduler_clone(beginning_->scheduler, &s_) == TENURE_OK, "clone");
  }

  std::uint64_t Digest(const tenure_scheduler* s) {
    std::uint64_t digest = 0;
    Require(tenure_scheduler_digest(s, &digest) == TENURE_OK, "digest",
            tenure_last_error_message());
    return digest;
  }

  // Mostly a time that may come next.
  std::int64_t Now() {
    const std::uint8_t b = in_.Byte();
    if (b < 100) return now_;
    if (b < 150) return now_ + (b - 100) * kSecond;
    if (b < 200) return now_ + (b - 150) * kMinute;
    if (b < 250) return now_ + (b - 200) * kHour;
    if (b < 252) return now_ - 1;
    if (b == 252) return static_cast<std::int64_t>(in_.Word());
    if (b == 253) return INT64_MAX;
    return b == 254 ? INT64_MIN : now_ + 800 * kHour;
  }
  std::int64_t Before(std::int64_t now) {
    const std::uint8_t b = in_.Byte();
    if (b < 200) return now;
    if (b == 255) return static_cast<std::int64_t>(in_.Word());
    std::int64_t t = 0;
    return __builtin_sub_overflow(now, (b - 200) * kMinute, &t) ? now : t;
  }
  double Weight() {
    constexpr double kWeights[] = {1, 2, 0, 0.35, 1e-9, 1e300, -1, 5e-324};
    const std::uint8_t b = in_.Byte();
    if (b < 240) return kWeights[b % 8];
    if (b == 255) return __builtin_nan("");
    return b == 254 ? __builtin_inf() : 7;
  }
  std::int64_t Length() {
    constexpr std::int64_t kLengths[] = {0, kMinute, 10 * kMinute, kHour, 8 * kHour, 100 * kHour};
    const std::uint8_t b = in_.Byte();
    if (b < 250) return kLengths[b % 6];
    return static_cast<std::int64_t>(in_.Word());
  }
  // A name, rarely a strange one.
  std::string Name() {
    const std::uint8_t b = in_.Byte();
    if (b < 240) return std::string(1, static_cast<char>('a' + b % 20));
    if (b == 240) return "";
    if (b == 241) return "a/b";
    if (b == 242) return std::string(5000, 'x');
    return std::string(b - 242u, static_cast<char>(in_.Byte() | 1));
  }
  std::uint64_t Workload() {
    const std::uint8_t b = in_.Byte();
    return b == 255 ? in_.Word() : b % 24;
  }
  std::uint32_t Small(std::uint32_t most) {
    const std::uint8_t b = in_.Byte();
    return b == 255 ? static_cast<std::uint32_t>(in_.Word()) : b % most;
  }

  tenure_workload Spec() {
    tenure_workload w = TENURE_WORKLOAD_INIT;
    w.id = Workload();
    w.allocation = Small(6);
    const std::uint8_t b = in_.Byte();
    w.workload_class = b < 250 ? b % 5 : static_cast<std::int8_t>(in_.Byte());
    w.priority = static_cast<std::int32_t>(in_.Below(3)) - 1;
    w.gpus_per_node = static_cast<std::int32_t>(1 + Small(9));
    w.nodes = in_.Byte() < 200 ? 1 : Small(5);
    if (in_.Byte() > 200) w.gpu_type = Small(3);
    if (in_.Byte() > 200) w.topology = static_cast<std::int32_t>(Small(2));
    if (in_.Byte() > 200) w.topology_level = Small(4);
    const std::uint8_t kept = in_.Byte();
    w.resumable = kept < 200;
    w.restorable = kept % 4 == 1;
    w.minimum_us = Length();
    w.checkpoint_interval_us = in_.Byte() < 128 ? 0 : Length();
    w.restart_overhead_us = in_.Byte() < 128 ? 0 : Length();
    return w;
  }

  // The run that was last decided for a workload, mostly.
  std::uint32_t RunOf(std::uint64_t workload) {
    tenure_explanation e = TENURE_EXPLANATION_INIT;
    if (in_.Byte() > 240 || tenure_workload_explain(s_, workload, &e) != TENURE_OK) {
      return Small(4);
    }
    return e.run;
  }

  void Decide(std::int64_t now) {
    if (in_.Byte() > 240) {
      // Too little room: the decisions are kept.
      tenure_decisions none = TENURE_DECISIONS_INIT;
      const tenure_status status = tenure_scheduler_decide(s_, now, &none);
      if (status == TENURE_ERROR_BUFFER_TOO_SMALL) {
        now_ = now;
        Require(tenure_scheduler_decide(s_, now, &out_.d) == TENURE_ERROR_FAILED_PRECONDITION,
                "decisions may be lost");
        Require(tenure_scheduler_decisions(s_, &out_.d) == TENURE_OK, "fetch",
                tenure_last_error_message());
        Obey(now);
      }
      return;
    }
    if (tenure_scheduler_decide(s_, now, &out_.d) == TENURE_OK) Obey(now);
  }

  // Some decisions are carried out at once.
  void Obey(std::int64_t now) {
    const std::uint8_t how = in_.Byte();
    for (std::size_t i = 0; i < out_.d.start_count && how < 200; ++i) {
      Require(tenure_run_started(s_, out_.starts[i].workload, out_.starts[i].run, now, now) ==
                  TENURE_OK,
              "a decided start is refused:", tenure_last_error_message());
    }
    for (std::size_t i = 0; i < out_.d.stop_count && how < 100; ++i) {
      std::int32_t outcome = -1;
      Require(tenure_run_stopped(s_, out_.stops[i].workload, out_.stops[i].run, now, now,
                                 &outcome) == TENURE_OK,
              "a decided stop is refused:", tenure_last_error_message());
    }
  }

  tenure_status Call(std::int64_t now) {
    std::uint32_t id = 0;
    switch (in_.Below(21)) {
      case 0:
        return tenure_workload_cancel(s_, Workload(), now);
      case 1: {
        const std::uint64_t w = Workload();
        return tenure_run_started(s_, w, RunOf(w), Before(now), now);
      }
      case 2: {
        const std::uint64_t w = Workload();
        return tenure_run_ended(s_, w, RunOf(w), Before(now), now);
      }
      case 3: {
        const std::uint64_t w = Workload();
        return tenure_run_stopped(s_, w, RunOf(w), Before(now), now, nullptr);
      }
      case 4: {
        const std::uint64_t w = Workload();
        return tenure_run_start_failed(s_, w, RunOf(w), now);
      }
      case 5: {
        const std::uint64_t w = Workload();
        return tenure_run_stop_failed(s_, w, RunOf(w), now);
      }
      case 6: {
        const std::uint64_t w = Workload();
        return tenure_run_checkpointed(s_, w, RunOf(w), Before(now), now);
      }
      case 7:
        return tenure_workload_idle(s_, Workload(), in_.Byte() & 1, now);
      case 8: {
        std::array<tenure_loss, 16> losses;
        std::size_t count = 0;
        return tenure_node_set_health(s_, Small(4), static_cast<std::int32_t>(in_.Below(4)),
                                      Before(now), now, losses.data(), in_.Below(17), &count);
      }
      case 9:
        if (nodes_ > 8) return TENURE_OK;
        ++nodes_;
        return tenure_node_add(s_, Name().c_str(), static_cast<std::int32_t>(Small(10)), Small(3),
                               Small(3), now, &id);
      case 10:
        if (allocations_ > 12) return TENURE_OK;
        ++allocations_;
        return tenure_allocation_add(s_, Small(6), Name().c_str(), Weight(), now, &id);
      case 11:
        return tenure_allocation_set_weight(s_, Small(6), Weight(), Before(now), "f", "z", now);
      case 12: {
        const std::int64_t from = Before(now);
        std::int64_t until = 0;
        if (__builtin_add_overflow(from, Length(), &until)) until = from;
        return tenure_allocation_boost(s_, Small(6), Weight(), from, until, nullptr, "z", now);
      }
      case 13:
        return tenure_allocation_move(s_, Small(6), Small(6), nullptr, nullptr, now);
      case 14:
        return tenure_allocation_close(s_, Small(6), now);
      case 15:
        if (++types_ % 2 == 0) return tenure_domain_add(s_, Small(3), Name().c_str(), &id);
        return tenure_gpu_type_add(s_, Name().c_str(), &id);
      case 16:
        return tenure_gpu_type_set_rate(s_, Small(3), static_cast<std::int32_t>(Small(2000)), now);
      case 17: {
        std::array<tenure_run_ref, 4> running;
        std::array<tenure_run_ref, 32> ended, unknown;
        const std::size_t count = in_.Below(5);
        for (std::size_t i = 0; i < count; ++i) {
          running[i] = {Workload(), 1 + in_.Below(2), 0};
        }
        tenure_reconcile_report r = TENURE_RECONCILE_REPORT_INIT;
        r.ended = ended.data(), r.ended_capacity = in_.Below(33);
        r.unknown = unknown.data(), r.unknown_capacity = 4;
        return tenure_scheduler_reconcile(s_, running.data(), count, now, &r);
      }
      case 18: {
        const std::uint32_t nodes[] = {Small(4), Small(4)};
        std::uint64_t window = 0;
        const std::int64_t from = Before(now);
        std::int64_t until = 0;
        if (__builtin_add_overflow(from, Length(), &until)) until = from;
        return tenure_maintenance_announce(s_, nodes, in_.Below(3), from, until, "f", "z", now,
                                           &window);
      }
      case 19:
        return tenure_maintenance_cancel(s_, Small(4), now);
      default: {
        const std::uint64_t w = Workload();
        const std::string hint(in_.Byte() == 255 ? 5000u : in_.Below(20), 'h');
        std::array<char, 4096> back;
        std::size_t size = 0;
        const tenure_status status =
            tenure_workload_set_resume_hint(s_, w, hint.data(), hint.size(), now);
        if (status != TENURE_OK) return status;
        Require(tenure_workload_resume_hint(s_, w, back.data(), back.size(), &size) == TENURE_OK &&
                    std::string(back.data(), size) == hint,
                "a resume hint is not what was set");
        return status;
      }
    }
  }

  // Questions: whatever they answer, nothing changes.
  void Question(std::int64_t now) {
    tenure_explanation e = TENURE_EXPLANATION_INIT;
    tenure_standing standing = TENURE_STANDING_INIT;
    tenure_forecast f = TENURE_FORECAST_INIT;
    tenure_what_if what = TENURE_WHAT_IF_INIT;
    switch (in_.Below(4)) {
      case 0:
        (void)tenure_workload_explain(s_, Workload(), &e);
        break;
      case 1:
        (void)tenure_allocation_standing(s_, Small(6), now, &standing);
        break;
      case 2:
        (void)tenure_workload_forecast(s_, Workload(), 2 * kHour, &f);
        break;
      default: {
        const tenure_workload w = Spec();
        what.nodes = out_.nodes.data(), what.node_capacity = out_.nodes.size();
        what.stops = out_.stops.data(), what.stop_capacity = in_.Below(4);
        (void)tenure_workload_what_if(s_, &w, now, &what);
      }
    }
  }

  void Step() {
    const std::int64_t now = Now();
    const std::uint8_t byte = in_.Byte(), kind = byte % 16;
    watched_ = kReplay || byte >= 240;
    const std::uint64_t before = watched_ ? Digest(s_) : 0;
    if (kind < 5) {
      const tenure_workload w = Spec();
      Check(tenure_workload_submit(s_, &w, now), before);
    } else if (kind < 9) {
      Decide(now);
    } else if (kind == 9) {
      Question(now);
      Require(!watched_ || Digest(s_) == before, "a question changed the state");
    } else {
      Check(Call(now), before);
    }
    tenure_scheduler_info info = TENURE_SCHEDULER_INFO_INIT;
    Require(tenure_scheduler_describe(s_, &info) == TENURE_OK, "describe");
    Require(info.now_us >= now_ && info.free_gpus >= 0 && info.free_gpus <= info.healthy_gpus,
            "impossible numbers");
    now_ = info.now_us;
  }

  void Check(tenure_status status, std::uint64_t before) {
    Require(status != TENURE_ERROR_INTERNAL && status != TENURE_ERROR_OUT_OF_MEMORY,
            "broken:", tenure_last_error_message());
    if (status != TENURE_OK && watched_) {
      Require(Digest(s_) == before,
              "a refused call changed the state:", tenure_last_error_message());
    }
  }

  void End() {
    std::size_t size = 0;
    (void)tenure_scheduler_snapshot(s_, nullptr, 0, &size);
    std::vector<char> bytes(size);
    Require(tenure_scheduler_snapshot(s_, bytes.data(), size, &size) == TENURE_OK, "snapshot");
    tenure_scheduler* copy = nullptr;
    Require(tenure_scheduler_clone(beginning_->scheduler, &copy) == TENURE_OK, "clone");
    Require(tenure_scheduler_restore(copy, bytes.data(), size) == TENURE_OK, "restore",
            tenure_last_error_message());
    Require(Digest(copy) == Digest(s_), "a restored scheduler has another digest");
    Buffers other;
    const std::int64_t now = now_ < INT64_MAX / 8 ? now_ + kHour : now_;
    const tenure_status a = tenure_scheduler_decide(s_, now, &out_.d);
    const tenure_status b = tenure_scheduler_decide(copy, now, &other.d);
    Require(a == b && out_.d.start_count == other.d.start_count &&
                out_.d.stop_count == other.d.stop_count && Digest(copy) == Digest(s_),
            "a restored scheduler decides otherwise");
    tenure_scheduler_destroy(copy);
  }

  Bytes in_;
  const Beginning* beginning_ = nullptr;
  tenure_scheduler* s_ = nullptr;
  Buffers out_;
  std::int64_t now_ = 0;
  bool watched_ = false, restores_ = false;
  int nodes_ = 3, allocations_ = 4, types_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Story(data, size).Run();
  return 0;
}
