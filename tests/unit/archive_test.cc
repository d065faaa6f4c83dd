// SPDX-License-Identifier: Apache-2.0
#include "tenure/archive.h"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "gtest/gtest.h"
#include "tenure/types.h"

namespace tenure::internal {
namespace {

enum class Color : std::uint8_t { kRed = 0, kBlue = 200 };

struct Inner {
  std::int32_t a = 0;
  std::string b;
  friend bool operator==(const Inner&, const Inner&) = default;
  template <class Archive>
  void Serialize(Archive& ar) {
    ar(a, b);
  }
};

struct Everything {
  bool yes = false;
  std::int64_t min = 0;
  std::uint64_t max = 0;
  std::uint8_t small = 0;
  double real = 0;
  Color color = Color::kRed;
  NodeId node;
  GpuTime use;
  Duration duration{0};
  TimePoint time{};
  Weight weight;
  std::string text;
  std::vector<Inner> list;
  absl::InlinedVector<std::int32_t, 2> inlined;
  friend bool operator==(const Everything&, const Everything&) = default;
  template <class Archive>
  void Serialize(Archive& ar) {
    ar(yes, min, max, small, real, color, node, use, duration, time, weight, text, list, inlined);
  }
};

Everything Full() {
  Everything e;
  e.yes = true;
  e.min = std::numeric_limits<std::int64_t>::min();
  e.max = std::numeric_limits<std::uint64_t>::max();
  e.small = 255;
  e.real = -1.0 / 3;
  e.color = Color::kBlue;
  e.node = NodeId(0xffffffffu);
  e.use = GpuTime(-5);
  e.duration = Duration::max();
  e.time = TimePoint(Duration::min());
  e.weight = Weight{1e-300};
  e.text = std::string("a\0b\xff", 4);
  e.list = {{-1, "x"}, {7, ""}, {0, std::string(300, 'y')}};
  e.inlined = {1, -2, 3};
  return e;
}

TEST(Archive, RestoresEveryType) {
  Everything in = Full(), out;
  out.list.resize(9);  // must be overwritten
  ASSERT_TRUE(Unpack(Pack(in), out).ok());
  EXPECT_EQ(in, out);
}

TEST(Archive, BytesAreTheSameEverywhere) {
  Inner inner{0x01020304, "hi"};
  ArchiveWriter writer;
  writer(inner);
  EXPECT_EQ(writer.out(), std::string("\x04\x03\x02\x01\x02\0\0\0\0\0\0\0hi", 14));
}

TEST(Archive, EveryTruncationAndFlippedBitIsRefused) {
  Everything in = Full();
  const std::string good = Pack(in);
  for (std::size_t n = 0; n < good.size(); ++n) {
    Everything out;
    EXPECT_EQ(Unpack(good.substr(0, n), out).code(), absl::StatusCode::kInvalidArgument);
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[n] = static_cast<char>(bad[n] ^ (1 << bit));
      EXPECT_EQ(Unpack(bad, out).code(), absl::StatusCode::kInvalidArgument) << n;
    }
  }
  Everything out;
  EXPECT_FALSE(Unpack(good + "x", out).ok());
  EXPECT_FALSE(Unpack("", out).ok());
}

TEST(Archive, AnImplausibleCountIsNotAllocated) {
  std::string bytes = "\xff\xff\xff\xff\xff\xff\xff\x7f";
  ArchiveReader reader(bytes.data(), bytes.size());
  std::vector<Inner> list(3);
  reader(list);
  EXPECT_TRUE(list.empty());
  EXPECT_FALSE(reader.ok());
}

}  // namespace
}  // namespace tenure::internal
