// SPDX-License-Identifier: Apache-2.0
//
// The extension module tenure._core. It is private: the public names are those of the Python
// package, which checks arguments, converts time and documents itself.
#include <pybind11/pybind11.h>

#include "common.h"

namespace tenure::python {
namespace {

const char* ExceptionName(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
      return "InvalidArgument";
    case absl::StatusCode::kNotFound:
      return "NotFound";
    case absl::StatusCode::kAlreadyExists:
      return "AlreadyExists";
    case absl::StatusCode::kFailedPrecondition:
      return "FailedPrecondition";
    case absl::StatusCode::kUnavailable:
      return "Unavailable";
    case absl::StatusCode::kResourceExhausted:
      return "ResourceExhausted";
    case absl::StatusCode::kOutOfRange:
      return "OutOfRange";
    case absl::StatusCode::kCancelled:
      return "Cancelled";
    default:
      return "Internal";
  }
}

}  // namespace

void Throw(const absl::Status& status) {
  namespace py = pybind11;
  const py::object type = py::module_::import("tenure.errors").attr(ExceptionName(status.code()));
  const absl::string_view text = status.message();
  const py::str message(text.data(), text.size());
  PyErr_SetObject(type.ptr(), message.ptr());
  throw py::error_already_set();
}

}  // namespace tenure::python

PYBIND11_MODULE(_core, m) {
  m.doc() = "Bindings of the C++ core; use the names of the package `tenure`.";
  tenure::python::BindWorld(m);
  tenure::python::BindSimulator(m);
  tenure::python::BindBudgetTree(m);
  tenure::python::BindScheduler(m);
  tenure::python::BindScenario(m);
}
