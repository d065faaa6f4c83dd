// SPDX-License-Identifier: Apache-2.0
#include "tenure/cluster.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tenure/archive.h"
#include "tenure/sim/random.h"

namespace tenure {
namespace {

TEST(Cluster, RefusesWhatCannotBe) {
  Cluster c;
  const GpuTypeId type = c.InternGpuType("h100");
  EXPECT_EQ(c.InternGpuType("h100"), type);
  const auto code = [&](std::string name, std::int64_t gpus, GpuTypeId t, DomainId d) {
    return c.AddNode(std::move(name), GpuCount(gpus), t, d).status().code();
  };
  EXPECT_EQ(code("a", 0, type, kRootDomain), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code("a", -8, type, kRootDomain), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code("a", kMaxGpusPerNode + 1, type, kRootDomain), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code("a", 8, GpuTypeId(9), kRootDomain), absl::StatusCode::kNotFound);
  EXPECT_EQ(code("a", 8, type, DomainId(9)), absl::StatusCode::kNotFound);
  EXPECT_EQ(c.declared(), GpuCount(0));
  EXPECT_EQ(code("a", 8, type, kRootDomain), absl::StatusCode::kOk);
  EXPECT_EQ(code("a", 8, type, kRootDomain), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(c.declared(), GpuCount(8));
  EXPECT_EQ(c.Find("a").value(), NodeId(0));
  EXPECT_EQ(c.Find("b").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(c.AddDomain("r", DomainId(5)).status().code(), absl::StatusCode::kNotFound);
  DomainId d = c.AddDomain("r", kRootDomain).value();
  EXPECT_EQ(c.AddDomain("r", kRootDomain).status().code(), absl::StatusCode::kAlreadyExists);
  for (int level = 2; level <= kMaxTopologyDepth; ++level) d = c.AddDomain("r", d).value();
  EXPECT_EQ(c.AddDomain("r", d).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Cluster, KnowsItsNamesAfterARestart) {
  Cluster before, c;
  const GpuTypeId type = before.InternGpuType("h100");
  const DomainId rack = before.AddDomain("r", kRootDomain).value();
  ASSERT_TRUE(before.AddNode("a", GpuCount(8), type, rack).ok());
  ASSERT_TRUE(internal::Unpack(internal::Pack(before), c).ok());
  EXPECT_EQ(c.InternGpuType("h100"), type);
  EXPECT_EQ(c.Find("a").value(), NodeId(0));
  EXPECT_EQ(c.AddNode("a", GpuCount(8), type).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(c.AddDomain("r", kRootDomain).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(c.AddDomain("r", rack).ok());  // another domain, in that one
}

TEST(Cluster, CountsFreeSoonAndHealthy) {
  Cluster c;
  const GpuTypeId type = c.InternGpuType("h100");
  const NodeId n = c.AddNode("a", GpuCount(8), type).value();
  c.Reindex();
  EXPECT_EQ(c.free(), GpuCount(8));
  c.Occupy(n, 1, 6, false);
  EXPECT_EQ(c.free(), GpuCount(2));
  c.MarkStopping(n, 6);
  EXPECT_EQ(c.node(n).free(), 2);
  EXPECT_EQ(c.node(n).soon(), 8);
  EXPECT_TRUE(c.node(n).vacating());
  c.Claim(n, 2, 7);  // needs one GPU beyond what is being stopped
  EXPECT_EQ(c.node(n).free(), 1);
  EXPECT_EQ(c.node(n).soon(), 1);
  EXPECT_FALSE(c.node(n).vacating());
  c.SetHealth(n, NodeHealth::kDraining);
  EXPECT_EQ(c.free(), GpuCount(0));
  EXPECT_EQ(c.healthy(), GpuCount(0));
  EXPECT_EQ(c.declared(), GpuCount(8));
  c.SetHealth(n, NodeHealth::kUp);
  EXPECT_EQ(c.free(), GpuCount(1));
  c.Vacate(n, 1, 6, false, true);
  EXPECT_EQ(c.node(n).free(), 1);
  c.Unclaim(n, 2, 7);
  EXPECT_EQ(c.free(), GpuCount(8));
}

// The same cluster, declared in two orders, has the same pools and the same lane.
TEST(Cluster, OrderOfDeclarationDoesNotMatter) {
  sim::Rng rng(4);
  for (int world = 0; world < 40; ++world) {
    const std::int64_t racks = 1 + rng.Below(4), nodes = 1 + rng.Below(30);
    const std::int64_t lane = rng.Below(1001);
    std::vector<std::int64_t> rack_of, type_of;
    for (std::int64_t i = 0; i < nodes; ++i) {
      rack_of.push_back(rng.Below(racks));
      type_of.push_back(rng.Below(2));
    }
    const auto names = [&](bool backwards) {
      const auto each = [&](std::int64_t n, auto f) {
        for (std::int64_t i = 0; i < n; ++i) f(backwards ? n - 1 - i : i);
      };
      Cluster c;
      c.SetLane(lane);
      std::vector<DomainId> rack(static_cast<std::size_t>(racks));
      each(2, [&](std::int64_t t) { c.InternGpuType(absl::StrCat("t", t)); });
      each(racks, [&](std::int64_t r) {
        rack[static_cast<std::size_t>(r)] =
            c.AddDomain(absl::StrCat("r", (r * 7) % 10), kRootDomain).value();
      });
      each(nodes, [&](std::int64_t i) {
        const auto at = static_cast<std::size_t>(i);
        (void)c
            .AddNode(absl::StrCat("n", (i * 13) % 101), GpuCount(8),
                     c.InternGpuType(absl::StrCat("t", type_of[at])),
                     rack[static_cast<std::size_t>(rack_of[at])])
            .value();
      });
      c.Reindex();
      std::vector<std::string> result;
      for (const Pool& pool : c.pools()) {
        std::int64_t in_lane = 0;
        for (NodeId id : pool.nodes) {
          result.push_back(c.node(id).name + (c.node(id).lane ? " lane" : ""));
          in_lane += c.node(id).lane;
        }
        const auto n = static_cast<std::int64_t>(pool.nodes.size());
        EXPECT_EQ(in_lane, (n * lane + 500) / 1000);
        for (DomainId d : rack) {  // a domain is a range of slots
          const auto [begin, end] = pool.range[d.value()];
          for (std::uint32_t s = 0; s < pool.nodes.size(); ++s) {
            EXPECT_EQ(s >= begin && s < end, c.node(pool.nodes[s]).domain == d);
          }
        }
      }
      return result;
    };
    ASSERT_EQ(names(false), names(true));
  }
}

}  // namespace
}  // namespace tenure
