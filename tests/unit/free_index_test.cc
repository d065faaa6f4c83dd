// SPDX-License-Identifier: Apache-2.0
#include "tenure/free_index.h"

#include <cstdint>
#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "tenure/sim/random.h"

namespace tenure::internal {
namespace {

TEST(Bitmap, FindsWhatASetFinds) {
  sim::Rng rng(1);
  for (std::int64_t bits : {1, 63, 64, 65, 4096, 4097, 300'000}) {
    Bitmap bitmap;
    bitmap.Reset(static_cast<std::size_t>(bits));
    std::set<std::size_t> naive;
    EXPECT_TRUE(bitmap.empty());
    for (int i = 0; i < 2000; ++i) {
      const auto at = static_cast<std::size_t>(rng.Below(bits));
      if (rng.Chance(1, 2)) {
        bitmap.Insert(at);
        naive.insert(at);
      } else {
        bitmap.Erase(at);
        naive.erase(at);
      }
      EXPECT_EQ(bitmap.Contains(at), naive.count(at) == 1);
      EXPECT_EQ(bitmap.empty(), naive.empty());
      const auto from = static_cast<std::size_t>(rng.Below(bits + 2));
      const auto it = naive.lower_bound(from);
      ASSERT_EQ(bitmap.NextFrom(from), it == naive.end() ? -1 : static_cast<std::int64_t>(*it));
      // At most three elements of a range, which may end beyond all of them.
      const std::size_t end = from + static_cast<std::size_t>(rng.Below(bits + 100));
      std::vector<std::size_t> visited, expected;
      const bool all = bitmap.VisitRange(from, end, [&](std::size_t e) {
        visited.push_back(e);
        return visited.size() < 3;
      });
      for (auto e = it; e != naive.end() && *e < end && expected.size() < 3; ++e) {
        expected.push_back(*e);
      }
      ASSERT_EQ(visited, expected);
      ASSERT_EQ(all, expected.size() < 3);
    }
  }
}

// Slots in a random tree of domains, compared with a scan over all slots.
TEST(FreeIndex, AnswersLikeAScan) {
  sim::Rng rng(2);
  for (int world = 0; world < 60; ++world) {
    const std::int64_t domains = 1 + rng.Below(9), slots = 1 + rng.Below(200);
    constexpr std::size_t kLevels = 9;
    std::vector<DomainId> parent(1, kRootDomain), domain_of;
    for (std::int64_t d = 1; d < domains; ++d) {
      parent.emplace_back(static_cast<std::uint32_t>(rng.Below(d)));
    }
    for (std::int64_t s = 0; s < slots; ++s) {
      domain_of.emplace_back(static_cast<std::uint32_t>(rng.Below(domains)));
    }
    std::vector<std::uint32_t> column(static_cast<std::size_t>(domains));
    for (std::uint32_t d = 0; d < column.size(); ++d) {
      column[d] = (d + static_cast<std::uint32_t>(world)) % static_cast<std::uint32_t>(domains);
    }
    FreeIndex index;
    index.Reset(kLevels, domain_of, parent, column);
    std::vector<int> level(static_cast<std::size_t>(slots), FreeIndex::kAbsent);
    for (int i = 0; i < 300; ++i) {
      const auto slot = static_cast<std::size_t>(rng.Below(slots));
      level[slot] = static_cast<int>(rng.Below(kLevels + 1)) - 1;
      index.Set(slot, static_cast<std::int16_t>(level[slot]));
      EXPECT_EQ(index.level(slot), level[slot]);
      const int wanted = static_cast<int>(rng.Below(kLevels + 1));
      const DomainId domain(static_cast<std::uint32_t>(rng.Below(domains)));
      std::int64_t count = 0, tightest = -1;
      std::vector<std::size_t> visit;
      const auto begin = static_cast<std::size_t>(rng.Below(slots));
      const std::size_t end = begin + static_cast<std::size_t>(rng.Below(slots));
      for (int l = wanted; l < static_cast<int>(kLevels); ++l) {
        for (std::size_t s = 0; s < level.size(); ++s) {
          if (level[s] != l) continue;
          if (tightest < 0) tightest = static_cast<std::int64_t>(s);
          if (s >= begin && s < end) visit.push_back(s);
          for (DomainId d = domain_of[s];; d = parent[d.value()]) {
            count += d == domain;
            if (d == kRootDomain) break;
          }
        }
      }
      ASSERT_EQ(index.CountAtLeast(domain, wanted), count);
      if (wanted < static_cast<int>(kLevels)) {
        ASSERT_EQ(index.CountsAtLeast(wanted, column[domain.value()], 1)[0], count);
      }
      ASSERT_EQ(index.FindTightest(wanted), tightest);
      std::vector<std::size_t> visited;
      index.VisitTightest(wanted, begin, end, [&](std::size_t s) {
        visited.push_back(s);
        return true;
      });
      ASSERT_EQ(visited, visit);
    }
  }
}

}  // namespace
}  // namespace tenure::internal
