// SPDX-License-Identifier: Apache-2.0
//
// Every tests/field/*.yaml under every preset: one test each, named field.<file>_<preset>.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "field_files.h"
#include "tenure/scenario.h"

namespace tenure {
namespace {

class FieldTest : public ::testing::Test {
 public:
  FieldTest(std::filesystem::path file, std::string policy)
      : file_(std::move(file)), policy_(std::move(policy)) {}

  void TestBody() override {
    std::ifstream in(file_);
    std::stringstream text;
    text << in.rdbuf();
    const absl::StatusOr<ScenarioReport> r =
        RunScenario(text.str(), {.policy = policy_, .file = file_.filename().string()});
    ASSERT_TRUE(r.ok()) << r.status();
    EXPECT_FALSE(r->title.empty());
    bool ran = false;
    for (const ScenarioCase& c : r->cases) {
      for (const std::string& failure : c.failures) ADD_FAILURE() << failure;
      EXPECT_TRUE(c.skipped || c.checks > 0) << c.name;
      ran = ran || !c.skipped;
    }
    if (!ran) GTEST_SKIP() << r->cases[0].skip_reason;
  }

 private:
  const std::filesystem::path file_;
  const std::string policy_;
};

const bool kRegistered = test::RegisterFieldFiles<FieldTest>();

TEST(FieldFiles, ArePresent) { EXPECT_TRUE(kRegistered); }

}  // namespace
}  // namespace tenure
