// SPDX-License-Identifier: Apache-2.0
//
// Every tests/field/*.yaml through tenure.h: it passes, and every decision is the one that the C++
// scheduler makes. One test a file and preset, capi.field.<file>_<preset>.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "c_scheduler.h"
#include "field_files.h"
#include "tenure/scenario.h"

namespace tenure {
namespace {

class FieldThroughC : public ::testing::Test {
 public:
  FieldThroughC(std::filesystem::path file, std::string policy)
      : file_(std::move(file)), policy_(std::move(policy)) {}

  void TestBody() override {
    std::ifstream in(file_);
    std::stringstream text;
    text << in.rdbuf();
    ScenarioOptions options;
    options.policy = policy_;
    options.file = file_.filename().string();
    options.keep_log = true;
    options.repeat = false;
    const absl::StatusOr<ScenarioReport> plain = RunScenario(text.str(), options);
    ASSERT_TRUE(plain.ok()) << plain.status();
    options.repeat = true;
    options.make = test::MakeCScheduler;
    const absl::StatusOr<ScenarioReport> through_c = RunScenario(text.str(), options);
    ASSERT_TRUE(through_c.ok()) << through_c.status();
    ASSERT_EQ(through_c->cases.size(), plain->cases.size());
    bool ran = false;
    for (std::size_t i = 0; i < plain->cases.size(); ++i) {
      const ScenarioCase& c = through_c->cases[i];
      for (const std::string& failure : c.failures) ADD_FAILURE() << failure;
      EXPECT_EQ(c.log, plain->cases[i].log) << c.name;
      EXPECT_EQ(c.skipped, plain->cases[i].skipped) << c.name;
      ran = ran || !c.skipped;
    }
    if (!ran) GTEST_SKIP() << through_c->cases[0].skip_reason;
  }

 private:
  const std::filesystem::path file_;
  const std::string policy_;
};

const bool kRegistered = test::RegisterFieldFiles<FieldThroughC>();

TEST(CapiFieldFiles, ArePresent) { EXPECT_TRUE(kRegistered); }

}  // namespace
}  // namespace tenure
