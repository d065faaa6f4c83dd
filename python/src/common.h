// SPDX-License-Identifier: Apache-2.0
//
// Shared by the binding files: from absl::Status to Python exceptions, and time to and from Python.
//
//   tenure::python::ThrowIfError(scheduler.Cancel(id, now));
//   World world = tenure::python::ValueOrThrow(sim::GenerateInstitute(options));
//
// Everything here needs the GIL.
#ifndef TENURE_PYTHON_SRC_COMMON_H_
#define TENURE_PYTHON_SRC_COMMON_H_

#include <pybind11/pybind11.h>

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenure/answers.h"
#include "tenure/types.h"

namespace tenure::python {

// Raises the exception of tenure.errors that stands for the code of `status`, with its message.
[[noreturn]] void Throw(const absl::Status& status);

inline void ThrowIfError(const absl::Status& status) {
  if (!status.ok()) Throw(status);
}

template <typename T>
T ValueOrThrow(absl::StatusOr<T> value) {
  if (!value.ok()) Throw(value.status());
  return *std::move(value);
}

// Getter and setter of a member of type Duration, in microseconds.
template <typename T>
auto DurationGetter(Duration T::*member) {
  return [member](const T& object) { return (object.*member).count(); };
}
template <typename T>
auto DurationSetter(Duration T::*member) {
  return [member](T& object, std::int64_t us) { object.*member = Duration(us); };
}

// An explanation under the names of the Python class.
pybind11::dict ExplanationDict(const Explanation& explanation);

// One function a file of bindings; called once, when the module is initialised.
void BindWorld(pybind11::module_& m);
void BindSimulator(pybind11::module_& m);
void BindBudgetTree(pybind11::module_& m);
void BindScheduler(pybind11::module_& m);
void BindScenario(pybind11::module_& m);

}  // namespace tenure::python

#endif  // TENURE_PYTHON_SRC_COMMON_H_
