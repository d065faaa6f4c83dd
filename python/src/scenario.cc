// SPDX-License-Identifier: Apache-2.0
//
// Scenario files: run_scenario(text, policy, file, repeat) -> (title, cases).
#include "tenure/scenario.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <utility>

#include "common.h"

namespace py = pybind11;

namespace tenure::python {

void BindScenario(py::module_& m) {
  m.def(
      "run_scenario",
      [](const std::string& text, std::string policy, std::string file, bool repeat) {
        ScenarioOptions options;
        options.policy = std::move(policy);
        options.file = std::move(file);
        options.repeat = repeat;
        options.keep_log = true;
        std::optional<absl::StatusOr<ScenarioReport>> ran;
        {
          const py::gil_scoped_release release;
          ran.emplace(RunScenario(text, options));
        }
        const ScenarioReport report = ValueOrThrow(*std::move(ran));
        py::list cases;
        for (const ScenarioCase& c : report.cases) {
          cases.append(
              py::make_tuple(c.name, c.skipped, c.skip_reason, c.checks, c.failures, c.log));
        }
        return py::make_tuple(report.title, cases);
      },
      py::arg("text"), py::arg("policy"), py::arg("file"), py::arg("repeat"));
}

}  // namespace tenure::python
