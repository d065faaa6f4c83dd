// SPDX-License-Identifier: Apache-2.0
//
// What the functions of tenure.h share: the handles, the one way into the engine (`Ask`, `Change`),
// and structs that grow.
//
// A function of the face looks like this:
//
//   tenure_status tenure_workload_cancel(tenure_scheduler* s, uint64_t workload, int64_t now_us) {
//     return Change(s, "cancel", [&](AnyScheduler& engine) -> Answer {
//       return engine.Cancel(WorkloadId(workload), At(now_us));
//     });
//   }
#ifndef TENURE_CAPI_FACE_H_
#define TENURE_CAPI_FACE_H_

#define TENURE_EXPERIMENTAL

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tenure/any_scheduler.h"
#include "tenure/presets.h"
#include "tenure/tenure.h"
#include "tenure/types.h"

namespace tenure::capi {

struct LogSink {
  std::int32_t level = 0;
  tenure_log_function function = nullptr;
  void* user = nullptr;
  bool Wants(std::int32_t of) const { return function != nullptr && of <= level; }
};

}  // namespace tenure::capi

struct tenure_options {
  std::string policy;
  tenure::Parameters parameters;  // every one is valid for the policy
  std::vector<tenure::PolicyParameter> known;
  tenure::capi::LogSink log;
  tenure_policy_hooks hooks = TENURE_POLICY_HOOKS_INIT;
};

struct tenure_scheduler {
  // Containers are not whole when an allocation failed inside them: what broke is left behind, not
  // destroyed.
  ~tenure_scheduler() {
    if (broken) (void)engine.release();
  }
  std::unique_ptr<tenure::AnyScheduler> engine;
  std::shared_ptr<const tenure::AnyScheduler> blank;  // as it was made, to begin anew from
  tenure::capi::LogSink log;
  const tenure::Decisions* last = nullptr;  // of the last pass
  bool unfetched = false;                   // they did not fit into the caller's buffers
  bool broken = false;                      // a change broke off in the middle
};

namespace tenure::capi {

// --- Errors --------------------------------------------------------------------------------------

// What a function of the face has to say: a status, and why if it is not TENURE_OK.
class Answer {
 public:
  Answer() = default;
  Answer(const absl::Status& status);  // NOLINT(google-explicit-constructor)
  Answer(tenure_status code, std::string message) : code_(code), message_(std::move(message)) {}
  bool ok() const { return code_ == TENURE_OK; }
  tenure_status code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  tenure_status code_ = TENURE_OK;
  std::string message_;
};

template <class... Parts>
Answer Invalid(const Parts&... parts) {
  return Answer(TENURE_ERROR_INVALID_ARGUMENT, absl::StrCat(parts...));
}
inline Answer TooSmall(const char* what, std::size_t needed, std::size_t capacity) {
  return Answer(TENURE_ERROR_BUFFER_TOO_SMALL,
                absl::StrCat("room for ", capacity, " ", what, ", needed for ", needed));
}

// Makes it the last error of this thread. Allocates nothing.
tenure_status Fail(tenure_status code, const char* function, const char* message) noexcept;
// The answer of a function without a scheduler.
inline tenure_status Say(const char* function, const Answer& answer) noexcept {
  return answer.ok() ? TENURE_OK : Fail(answer.code(), function, answer.message().c_str());
}

// Runs `f`, which returns an Answer; no exception leaves. `broke_off`: set if one was thrown.
template <class F>
tenure_status Guard(const char* function, F&& f, bool* broke_off = nullptr) noexcept {
  try {
    return Say(function, f());
  } catch (const std::bad_alloc&) {
    if (broke_off != nullptr) *broke_off = true;
    return Fail(TENURE_ERROR_OUT_OF_MEMORY, function, "out of memory");
  } catch (const std::exception& e) {
    if (broke_off != nullptr) *broke_off = true;
    return Fail(TENURE_ERROR_INTERNAL, function, e.what());
  } catch (...) {
    if (broke_off != nullptr) *broke_off = true;
    return Fail(TENURE_ERROR_INTERNAL, function, "a callback threw something");
  }
}

// --- The way into a scheduler --------------------------------------------------------------------

// The calls that are under way on this thread, innermost first. A callback may use other
// schedulers, so there may be several.
class Frame {
 public:
  explicit Frame(const tenure_scheduler* scheduler) : scheduler_(scheduler), outer_(top_) {
    top_ = this;
  }
  ~Frame() { top_ = outer_; }
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

  static bool Contains(const tenure_scheduler* scheduler) {
    for (const Frame* f = top_; f != nullptr; f = f->outer_) {
      if (f->scheduler_ == scheduler) return true;
    }
    return false;
  }

 private:
  static thread_local const Frame* top_;
  const tenure_scheduler* scheduler_;
  const Frame* outer_;
};

// A log callback that throws is not heard.
void Log(const LogSink& sink, std::int32_t level, const char* message) noexcept;

// Every call comes through here: `f` is asked unless the handle is NULL, in use further up the
// stack or broken. `broke_off` as in Guard.
template <class F>
tenure_status Enter(const tenure_scheduler* s, const char* function, bool* broke_off,
                    bool even_if_broken, F&& f) noexcept {
  if (s == nullptr) {
    return Fail(TENURE_ERROR_INVALID_ARGUMENT, function, "the scheduler is NULL");
  }
  if (Frame::Contains(s)) {
    return Fail(TENURE_ERROR_REENTRANT, function,
                "called from a callback of the scheduler that is being called");
  }
  const Frame frame(s);
  tenure_status status;
  if (s->broken && !even_if_broken) {
    status = Fail(TENURE_ERROR_INTERNAL, function,
                  "the scheduler broke in an earlier call; restore its last snapshot");
  } else {
    status = Guard(function, f, broke_off);
  }
  if (status != TENURE_OK) {
    Log(s->log, s->broken ? TENURE_LOG_ERROR : TENURE_LOG_WARNING, tenure_last_error_message());
  }
  return status;
}

// A call that changes nothing.
template <class F>
tenure_status Ask(const tenure_scheduler* s, const char* function, F&& f) noexcept {
  return Enter(s, function, nullptr, false,
               [&] { return f(static_cast<const AnyScheduler&>(*s->engine)); });
}
// A call that changes the state. If it breaks off in the middle, the scheduler is broken.
template <class F>
tenure_status Change(tenure_scheduler* s, const char* function, F&& f) noexcept {
  return Enter(s, function, s == nullptr ? nullptr : &s->broken, false,
               [&] { return f(*s->engine); });
}

// --- Structs that grow ---------------------------------------------------------------------------

// Size of a struct in the release it appeared in; no smaller struct_size is a caller's of any
// release. No struct has padding at its end, so that a new field never falls into what an old
// caller counts as its own.
template <class T>
inline constexpr std::uint32_t kFirstSize = 0;
#define TENURE_FIRST_SIZE(type, last)                                        \
  template <>                                                                \
  inline constexpr std::uint32_t kFirstSize<type> =                          \
      static_cast<std::uint32_t>(offsetof(type, last) + sizeof(type::last)); \
  static_assert(kFirstSize<type> % alignof(type) == 0, #type " ends in padding")
TENURE_FIRST_SIZE(tenure_parameter, default_value);
TENURE_FIRST_SIZE(tenure_scheduler_info, free_gpus);
TENURE_FIRST_SIZE(tenure_node_info, closes_us);
TENURE_FIRST_SIZE(tenure_maintenance_info, until_us);
TENURE_FIRST_SIZE(tenure_allocation_info, child_count);
TENURE_FIRST_SIZE(tenure_standing, unfunded_gpus);
TENURE_FIRST_SIZE(tenure_workload, restart_overhead_us);
TENURE_FIRST_SIZE(tenure_explanation, next_protection_end_us);
TENURE_FIRST_SIZE(tenure_forecast, searched_until_us);
TENURE_FIRST_SIZE(tenure_decisions, next_wakeup_us);
TENURE_FIRST_SIZE(tenure_reconcile_report, unknown_count);
TENURE_FIRST_SIZE(tenure_what_if, stop_count);
TENURE_FIRST_SIZE(tenure_search_record, faults);
TENURE_FIRST_SIZE(tenure_policy_hooks, node_score);
#undef TENURE_FIRST_SIZE

// No struct of any release will be larger: what says so was not initialised.
inline constexpr std::uint32_t kLargestSize = 4096;

// "<name> is NULL", or the size is that of no release.
template <class T>
Answer CheckSize(const T* s, const char* name) {
  static_assert(sizeof(T) <= kLargestSize);
  if (s == nullptr) return Invalid(name, " is NULL");
  if (s->struct_size < kFirstSize<T> || s->struct_size > kLargestSize) {
    return Invalid(name, ".struct_size is ", s->struct_size, ", must be in [", kFirstSize<T>, ", ",
                   kLargestSize, "]");
  }
  return {};
}

// Reads a caller's struct of whatever release into `in`, which holds the defaults of the fields
// that an older caller does not have.
template <class T>
Answer ReadStruct(const T* from, const char* name, T& in) {
  if (Answer a = CheckSize(from, name); !a.ok()) return a;
  const std::uint32_t size = from->struct_size;
  const auto* bytes = reinterpret_cast<const unsigned char*>(from);
  for (std::size_t i = sizeof(T); i < size; ++i) {
    if (bytes[i] != 0) {
      return Invalid(name, " uses a field at byte ", i, " that this library does not know");
    }
  }
  std::memcpy(&in, from, std::min<std::size_t>(size, sizeof(T)));
  in.struct_size = sizeof(T);
  return {};
}

// Writes as much of `answer` as the caller's struct has room for; fields of later releases are 0.
template <class T>
Answer WriteStruct(T answer, const char* name, T* to) {
  if (Answer a = CheckSize(to, name); !a.ok()) return a;
  const std::uint32_t size = to->struct_size;
  answer.struct_size = size;
  std::memcpy(to, &answer, std::min<std::size_t>(size, sizeof(T)));
  if (size > sizeof(T)) {
    std::memset(reinterpret_cast<unsigned char*>(to) + sizeof(T), 0, size - sizeof(T));
  }
  return {};
}

// A list that the caller hands in.
template <class T>
Answer CheckInput(const char* name, const T* data, std::size_t count) {
  if (data == nullptr && count > 0) return Invalid(name, " is NULL with a count of ", count);
  if (count >= static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max()) / sizeof(T)) {
    return Invalid(name, " cannot have ", count, " elements");
  }
  return {};
}

// A list the caller has room for.
template <class T>
struct List {
  const char* name;
  T* data;
  std::size_t capacity;
  Answer Check() const {
    if (data == nullptr && capacity > 0) {
      return Invalid(name, " is NULL with a capacity of ", capacity);
    }
    return {};
  }
};

// --- Values --------------------------------------------------------------------------------------

inline TimePoint At(std::int64_t us) { return TimePoint(Duration(us)); }
inline std::int64_t Us(TimePoint t) { return t.time_since_epoch().count(); }

// Bytes of a name or text; NULL is empty.
inline std::string Text(const char* text) { return text == nullptr ? std::string() : text; }
// "<what> is NULL", empty or too long.
Answer CheckName(const char* what, const char* name);
// A string into a caller's buffer, with its NUL.
Answer WriteText(const std::string& text, char* buffer, std::size_t capacity,
                 std::size_t* out_size);
// What no id can be is as unknown as any other.
Answer ToGpuType(const AnyScheduler& engine, std::uint32_t type, GpuTypeId& out);
Answer ToSpec(const AnyScheduler& engine, const tenure_workload* workload, WorkloadSpec& out);
tenure_stop ToC(const Stop& stop);

// A scheduler with these options; NULL: those of "budget".
absl::StatusOr<std::unique_ptr<AnyScheduler>> MakeEngine(const tenure_options* options);
// The same, which asks the hooks.
absl::StatusOr<std::unique_ptr<AnyScheduler>> MakeHooked(const tenure_options& options);

}  // namespace tenure::capi

#endif  // TENURE_CAPI_FACE_H_
