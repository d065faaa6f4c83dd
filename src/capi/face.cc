// SPDX-License-Identifier: Apache-2.0
#include "face.h"

#include <cstdio>

namespace tenure::capi {
namespace {

constexpr std::size_t kMessageBytes = 512;
thread_local char last_error[kMessageBytes] = "";

tenure_status ToC(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return TENURE_OK;
    case absl::StatusCode::kInvalidArgument:
      return TENURE_ERROR_INVALID_ARGUMENT;
    case absl::StatusCode::kNotFound:
      return TENURE_ERROR_NOT_FOUND;
    case absl::StatusCode::kAlreadyExists:
      return TENURE_ERROR_ALREADY_EXISTS;
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnavailable:  // a GPU for the plan search
      return TENURE_ERROR_FAILED_PRECONDITION;
    case absl::StatusCode::kResourceExhausted:
      return TENURE_ERROR_RESOURCE_EXHAUSTED;
    case absl::StatusCode::kOutOfRange:
      return TENURE_ERROR_OUT_OF_RANGE;
    default:
      return TENURE_ERROR_INTERNAL;
  }
}

}  // namespace

Answer::Answer(const absl::Status& status) : code_(ToC(status.code())) {
  if (!status.ok()) message_ = std::string(status.message());
}

tenure_status Fail(tenure_status code, const char* function, const char* message) noexcept {
  std::snprintf(last_error, sizeof(last_error), "%s: %s", function, message);
  return code;
}

thread_local const Frame* Frame::top_ = nullptr;

void Log(const LogSink& sink, std::int32_t level, const char* message) noexcept {
  if (!sink.Wants(level)) return;
  try {
    sink.function(sink.user, level, message);
  } catch (...) {  // NOLINT(bugprone-empty-catch): there is nobody to tell
  }
}

Answer CheckName(const char* what, const char* name) {
  if (name == nullptr) return Invalid(what, " is NULL");
  const std::size_t size = std::strlen(name);
  if (size == 0) return Invalid(what, " is empty");
  if (size > kMaxNameBytes) return Invalid(what, " of ", size, " bytes exceeds ", kMaxNameBytes);
  return {};
}

Answer WriteText(const std::string& text, char* buffer, std::size_t capacity,
                 std::size_t* out_size) {
  if (out_size == nullptr) return Invalid("out_size is NULL");
  *out_size = text.size();
  if (buffer == nullptr && capacity > 0) {
    return Invalid("buffer is NULL with a capacity of ", capacity);
  }
  if (capacity <= text.size()) return TooSmall("bytes", text.size() + 1, capacity);
  std::memcpy(buffer, text.c_str(), text.size() + 1);
  return {};
}

Answer ToGpuType(const AnyScheduler& engine, std::uint32_t type, GpuTypeId& out) {
  if (type >= engine.cluster().gpu_types().size()) {
    return Answer(TENURE_ERROR_NOT_FOUND, absl::StrCat("GPU type ", type, " is unknown"));
  }
  out = GpuTypeId(static_cast<std::uint16_t>(type));
  return {};
}

}  // namespace tenure::capi

extern "C" {

uint32_t tenure_version(void) {
  return TENURE_VERSION_MAJOR * 10000 + TENURE_VERSION_MINOR * 100 + TENURE_VERSION_PATCH;
}

#define TENURE_TEXT_(x) #x
#define TENURE_TEXT(x) TENURE_TEXT_(x)
const char* tenure_version_string(void) {
  return TENURE_TEXT(TENURE_VERSION_MAJOR) "." TENURE_TEXT(TENURE_VERSION_MINOR) "." TENURE_TEXT(
      TENURE_VERSION_PATCH);
}

const char* tenure_last_error_message(void) { return tenure::capi::last_error; }

const char* tenure_status_name(int32_t status) {
  switch (status) {
    case TENURE_OK:
      return "ok";
    case TENURE_ERROR_INVALID_ARGUMENT:
      return "invalid-argument";
    case TENURE_ERROR_NOT_FOUND:
      return "not-found";
    case TENURE_ERROR_ALREADY_EXISTS:
      return "already-exists";
    case TENURE_ERROR_FAILED_PRECONDITION:
      return "failed-precondition";
    case TENURE_ERROR_RESOURCE_EXHAUSTED:
      return "resource-exhausted";
    case TENURE_ERROR_OUT_OF_RANGE:
      return "out-of-range";
    case TENURE_ERROR_BUFFER_TOO_SMALL:
      return "buffer-too-small";
    case TENURE_ERROR_REENTRANT:
      return "reentrant";
    case TENURE_ERROR_OUT_OF_MEMORY:
      return "out-of-memory";
    case TENURE_ERROR_INTERNAL:
      return "internal";
  }
  return "unknown";
}

}  // extern "C"
