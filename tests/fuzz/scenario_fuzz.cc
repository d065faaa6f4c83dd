// SPDX-License-Identifier: Apache-2.0
//
// Scenario files: whatever the text is, there is a report or an error that names the line.
#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "bytes.h"
#include "scenario_mutator.h"
#include "tenure/presets.h"
#include "tenure/scenario.h"

namespace {

// A file may ask for as much work as it likes: names by the million, runs of years. What is run
// here stays small.
constexpr std::int64_t kMaxInstants = 100;

std::size_t DigitsAt(std::string_view text, std::size_t i) {
  std::size_t n = 0;
  while (i + n < text.size() && std::isdigit(static_cast<unsigned char>(text[i + n])) != 0) ++n;
  return n;
}

bool IsSmall(std::string_view text) {
  if (std::count(text.begin(), text.end(), '*') > 4) return false;  // aliases multiply
  for (std::size_t i = 0; i < text.size(); ++i) {
    // Ranges of names such as n1..n99; GPUs of a node.
    if (text.substr(i, 2) == "..") {
      std::size_t number = i + 2;
      while (number < text.size() && DigitsAt(text, number) == 0 && text[number] != '\n') ++number;
      if (DigitsAt(text, number) > 2) return false;
    }
    if (text.substr(i, 6) == "gpus: " && DigitsAt(text, i + 6) > 2) return false;
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (!IsSmall(text)) return 0;
  tenure::ScenarioOptions options;
  options.policy = tenure::kPresetNames[size % tenure::kPresetNames.size()];
  options.repeat = false;
  options.file = "f";
  options.max_instants = kMaxInstants;
  const absl::StatusOr<tenure::ScenarioReport> report = tenure::RunScenario(text, options);
  if (!report.ok()) {
    tenure::fuzz::Require(
        absl::IsInvalidArgument(report.status()) && report.status().message().substr(0, 2) == "f:",
        "an error without its place:", report.status().ToString().c_str());
  }
  return 0;
}

#ifdef TENURE_FUZZING  // the replay of the corpus has no fuzzer

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

std::size_t Put(const std::string& text, std::uint8_t* data, std::size_t max_size) {
  const std::size_t size = std::min(text.size(), max_size);
  std::copy_n(text.begin(), size, data);
  return size;
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned int seed) {
  if (seed % 16 == 0) return LLVMFuzzerMutate(data, size, max_size);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  return Put(tenure::fuzz::ScenarioMutator(seed).Mutate(text), data, max_size);
}

extern "C" std::size_t LLVMFuzzerCustomCrossOver(const std::uint8_t* data1, std::size_t size1,
                                                 const std::uint8_t* data2, std::size_t size2,
                                                 std::uint8_t* out, std::size_t max_size,
                                                 unsigned int seed) {
  const std::string_view one(reinterpret_cast<const char*>(data1), size1);
  const std::string_view two(reinterpret_cast<const char*>(data2), size2);
  return Put(tenure::fuzz::ScenarioMutator(seed).Cross(one, two), out, max_size);
}

#endif  // TENURE_FUZZING
