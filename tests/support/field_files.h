// SPDX-License-Identifier: Apache-2.0
//
// One test a scenario file of tests/field and preset: field.L01_budget. `Test` is made from the
// file and the preset. False if there is no file.
#ifndef TENURE_TESTS_FIELD_FILES_H_
#define TENURE_TESTS_FIELD_FILES_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace tenure::test {

template <class Test>
bool RegisterFieldFiles() {
  std::vector<std::filesystem::path> files;
  const std::filesystem::path folder = std::filesystem::path(TENURE_TEST_DIR) / "field";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const std::filesystem::path& file : files) {
    for (const char* policy : {"budget", "ai2", "hier"}) {
      ::testing::RegisterTest(
          "field", (file.stem().string() + "_" + policy).c_str(), nullptr, nullptr, __FILE__,
          __LINE__, [file, policy]() -> ::testing::Test* { return new Test(file, policy); });
    }
  }
  return !files.empty();
}

}  // namespace tenure::test

#endif  // TENURE_TESTS_FIELD_FILES_H_
