// SPDX-License-Identifier: Apache-2.0
#include "tenure/index_map.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace tenure::internal {
namespace {

using Map = IndexMap<std::string, int>;

int Of(const Map& map, const std::string& key) {
  const auto it = map.find(key);
  return it == map.end() ? -1 : it->second;
}

Map Numbers(int count) {
  Map map;
  for (int i = 0; i < count; ++i) EXPECT_TRUE(map.emplace(std::to_string(i), i).second);
  return map;
}

TEST(IndexMap, FindsWhatWasPutIntoIt) {
  Map map = Numbers(100);
  EXPECT_EQ(map.size(), 100u);
  EXPECT_EQ(Of(map, "42"), 42);
  EXPECT_EQ(Of(map, "100"), -1);
  EXPECT_FALSE(map.emplace("42", 7).second);
  EXPECT_EQ(Of(map, "42"), 42);
  map.find("42")->second = 7;
  EXPECT_EQ(Of(map, "42"), 7);
  map.erase("42");
  map.erase(map.find("43"));
  EXPECT_EQ(Of(map, "42"), -1);
  EXPECT_EQ(Of(map, "43"), -1);
  EXPECT_EQ(map.size(), 98u);
  map.clear();
  EXPECT_EQ(map.size(), 0u);
}

TEST(IndexMap, IsAValue) {
  const Map map = Numbers(100);
  Map copy = map;
  copy.erase("1");
  EXPECT_EQ(Of(map, "1"), 1);
  EXPECT_EQ(copy.size(), 99u);
  Map moved = std::move(copy);
  EXPECT_EQ(moved.size(), 99u);
  copy = map;  // what was moved from can be used again
  EXPECT_EQ(copy.size(), 100u);
  moved = std::move(copy);
  EXPECT_EQ(Of(moved, "1"), 1);
  Map& self = moved;
  moved = self;
  EXPECT_EQ(moved.size(), 100u);
}

}  // namespace
}  // namespace tenure::internal
