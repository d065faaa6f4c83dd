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

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
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

// One function a file of bindings; called once, when the module is initialised.
void BindSimulator(pybind11::module_& m);
void BindBudgetTree(pybind11::module_& m);
void BindScheduler(pybind11::module_& m);
void BindScenario(pybind11::module_& m);

}  // namespace tenure::python

#endif  // TENURE_PYTHON_SRC_COMMON_H_
