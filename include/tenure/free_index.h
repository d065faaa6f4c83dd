// SPDX-License-Identifier: Apache-2.0
//
// Which nodes have how many free GPUs, in O(1) for the tightest fit and without scanning nodes.
//
//   FreeIndex index;
//   index.Reset(/*levels=*/9, domain_of_slot, parent_of_domain);
//   index.Set(slot, 5);                      // five GPUs free
//   std::int32_t s = index.FindTightest(4);  // the first slot of the smallest level >= 4
//
// A slot is the position of a node in the topological order of its pool, so a domain is a range of
// slots; a level is a free count. One invariant: slot s is in exactly the bitmap of its level (in
// none while absent), and every domain counts, for each level, its slots of that level or above.
// The counts of the domains of one topology level lie side by side, so that choosing among them is
// one pass over an array.
// Complexity: Set O(depth of the topology x change of the level); FindTightest O(levels); counting
// in a domain O(1).
// Copyable, thread-compatible, deterministic (ties: lowest slot).
#ifndef TENURE_FREE_INDEX_H_
#define TENURE_FREE_INDEX_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tenure/types.h"

namespace tenure::internal {

// A set of small integers with find-next in O(log64 n).
class Bitmap {
 public:
  void Reset(std::size_t bits) {
    layers_.clear();
    std::size_t n = bits;
    do {
      n = (n + 63) / 64;
      layers_.emplace_back(n, std::uint64_t{0});
    } while (n > 1);
  }

  void Insert(std::size_t i) {
    for (auto& layer : layers_) {
      std::uint64_t& word = layer[i / 64];
      const bool had = word != 0;
      word |= std::uint64_t{1} << (i % 64);
      if (had) return;
      i /= 64;
    }
  }

  void Erase(std::size_t i) {
    for (auto& layer : layers_) {
      std::uint64_t& word = layer[i / 64];
      word &= ~(std::uint64_t{1} << (i % 64));
      if (word != 0) return;
      i /= 64;
    }
  }

  void Set(std::size_t i, bool contained) {
    if (contained == Contains(i)) return;
    if (contained) {
      Insert(i);
    } else {
      Erase(i);
    }
  }

  bool Contains(std::size_t i) const { return (layers_[0][i / 64] >> (i % 64)) & 1; }
  bool empty() const { return layers_.empty() || layers_.back()[0] == 0; }

  // Smallest element >= i, or -1.
  std::int64_t NextFrom(std::size_t i) const {
    std::size_t depth = 0;
    // Climb until a word has an element at or after position i.
    while (true) {
      if (depth == layers_.size() || i / 64 >= layers_[depth].size()) return -1;
      const std::uint64_t word = layers_[depth][i / 64] >> (i % 64);
      if (word != 0) {
        i += static_cast<std::size_t>(std::countr_zero(word));
        break;
      }
      i = i / 64 + 1;
      ++depth;
    }
    while (depth > 0) {
      --depth;
      i = i * 64 + static_cast<std::size_t>(std::countr_zero(layers_[depth][i]));
    }
    return static_cast<std::int64_t>(i);
  }

  // Calls `visit(i)` for the elements in [begin, end), ascending, until it returns false: the
  // answer is false then, else true. Nothing may be inserted or erased meanwhile.
  template <class Visit>
  bool VisitRange(std::size_t begin, std::size_t end, Visit&& visit) const {
    const std::vector<std::uint64_t>& words = layers_[0];
    end = std::min(end, words.size() * 64);
    while (begin < end) {
      std::uint64_t word = words[begin / 64] & (~std::uint64_t{0} << (begin % 64));
      const std::size_t base = begin / 64 * 64;
      begin = base + 64;
      if (begin > end) word &= ~std::uint64_t{0} >> (begin - end);
      for (; word != 0; word &= word - 1) {
        if (!visit(base + static_cast<std::size_t>(std::countr_zero(word)))) return false;
      }
      if (begin >= end || words[begin / 64] != 0) continue;
      const std::int64_t next = NextFrom(begin);  // over what is empty
      if (next < 0) break;
      begin = static_cast<std::size_t>(next);
    }
    return true;
  }

 private:
  std::vector<std::vector<std::uint64_t>> layers_;
};

class FreeIndex {
 public:
  static constexpr std::int16_t kAbsent = -1;

  // Empties the index: every slot is absent. `domain_of_slot[s]` is the deepest domain of slot s,
  // `parent[d]` the parent of domain d (the root is its own parent), `column[d]` a permutation: its
  // place among the counts.
  void Reset(std::size_t levels, const std::vector<DomainId>& domain_of_slot,
             const std::vector<DomainId>& parent, const std::vector<std::uint32_t>& column) {
    levels_ = levels;
    domain_ = domain_of_slot;
    parent_ = parent;
    column_ = column;
    level_.assign(domain_.size(), kAbsent);
    bits_.resize(levels);
    for (Bitmap& b : bits_) b.Reset(domain_.size());
    at_least_.assign(parent_.size() * levels_, 0);
  }

  std::size_t levels() const { return levels_; }
  std::int16_t level(std::size_t slot) const { return level_[slot]; }

  void Set(std::size_t slot, std::int16_t level) {
    const std::int16_t old = level_[slot];
    if (old == level) return;
    if (old >= 0) bits_[static_cast<std::size_t>(old)].Erase(slot);
    if (level >= 0) bits_[static_cast<std::size_t>(level)].Insert(slot);
    level_[slot] = level;
    const std::int32_t step = level > old ? 1 : -1;
    const auto first = static_cast<std::size_t>(std::min(old, level) + 1);
    const auto last = static_cast<std::size_t>(std::max(old, level));
    for (DomainId d = domain_[slot];; d = parent_[d.value()]) {
      const std::size_t column = column_[d.value()];
      for (std::size_t l = first; l <= last; ++l) at_least_[l * parent_.size() + column] += step;
      if (d == kRootDomain) break;
    }
  }

  // Slots of `domain` whose level is >= min_level.
  std::int64_t CountAtLeast(DomainId domain, std::int64_t min_level) const {
    const std::size_t l = First(min_level);
    return l < levels_ ? at_least_[l * parent_.size() + column_[domain.value()]] : 0;
  }
  // The same for `n` domains from column `first` on; min_level < levels().
  std::span<const std::int32_t> CountsAtLeast(std::int64_t min_level, std::size_t first,
                                              std::size_t n) const {
    return std::span(at_least_).subspan(First(min_level) * parent_.size() + first, n);
  }

  // First slot of the smallest level >= min_level, or -1.
  std::int64_t FindTightest(std::int64_t min_level) const {
    for (std::size_t l = First(min_level); l < levels_; ++l) {
      if (!bits_[l].empty()) return bits_[l].NextFrom(0);
    }
    return -1;
  }

  // Calls `visit(slot)` for slots in [begin, end) with level >= min_level, smallest level first,
  // until it returns false. The index must not change meanwhile.
  template <class Visit>
  void VisitTightest(std::int64_t min_level, std::size_t begin, std::size_t end,
                     Visit&& visit) const {
    for (std::size_t l = First(min_level); l < levels_; ++l) {
      if (!bits_[l].empty() && !bits_[l].VisitRange(begin, end, visit)) return;
    }
  }

 private:
  static std::size_t First(std::int64_t min_level) {
    return min_level <= 0 ? 0 : static_cast<std::size_t>(min_level);
  }

  std::size_t levels_ = 0;
  std::vector<DomainId> domain_, parent_;
  std::vector<std::int16_t> level_;
  std::vector<Bitmap> bits_;            // by level
  std::vector<std::uint32_t> column_;   // by domain
  std::vector<std::int32_t> at_least_;  // by level, column
};

}  // namespace tenure::internal

#endif  // TENURE_FREE_INDEX_H_
