// SPDX-License-Identifier: Apache-2.0
//
// Scenario files: whatever the text is, there is a report or an error that names the line.
#include <cstdint>
#include <string_view>

#include "bytes.h"
#include "tenure/scenario.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  tenure::ScenarioOptions options;
  options.repeat = false;
  options.file = "f";
  const absl::StatusOr<tenure::ScenarioReport> report = tenure::RunScenario(text, options);
  if (!report.ok()) {
    tenure::fuzz::Require(
        absl::IsInvalidArgument(report.status()) && report.status().message().substr(0, 2) == "f:",
        "an error without its place:", report.status().ToString().c_str());
  }
  return 0;
}
