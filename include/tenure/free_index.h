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
#include <array>
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
    depth_ = 0;
    std::size_t words = 0, n = bits;
    do {
      n = (n + 63) / 64;
      first_[depth_++] = words;
      words += n;
    } while (n > 1);
    first_[depth_] = words;
    words_.assign(words, 0);
  }

  void Insert(std::size_t i) {
    for (std::size_t d = 0; d < depth_; ++d) {
      std::uint64_t& word = words_[first_[d] + i / 64];
      const bool had = word != 0;
      word |= std::uint64_t{1} << (i % 64);
      if (had) return;
      i /= 64;
    }
  }

  void Erase(std::size_t i) {
    for (std::size_t d = 0; d < depth_; ++d) {
      std::uint64_t& word = words_[first_[d] + i / 64];
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

  bool Contains(std::size_t i) const { return (words_[i / 64] >> (i % 64)) & 1; }
  bool empty() const { return words_.empty() || words_.back() == 0; }

  // Smallest element >= i, or -1.
  std::int64_t NextFrom(std::size_t i) const {
    std::size_t d = 0;
    // Climb until a word has an element at or after position i.
    while (true) {
      if (d == depth_ || i / 64 >= first_[d + 1] - first_[d]) return -1;
      const std::uint64_t word = words_[first_[d] + i / 64] >> (i % 64);
      if (word != 0) {
        i += static_cast<std::size_t>(std::countr_zero(word));
        break;
      }
      i = i / 64 + 1;
      ++d;
    }
    while (d > 0) {
      --d;
      i = i * 64 + static_cast<std::size_t>(std::countr_zero(words_[first_[d] + i]));
    }
    return static_cast<std::int64_t>(i);
  }

  // Calls `visit(i)` for the elements in [begin, end), ascending, until it returns false: the
  // answer is false then, else true. Nothing may be inserted or erased meanwhile.
  template <class Visit>
  bool VisitRange(std::size_t begin, std::size_t end, Visit&& visit) const {
    const std::uint64_t* const words = words_.data();
    end = std::min(end, first_[1] * 64);
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
  static constexpr std::size_t kMaxDepth = 11;  // 64^11 > 2^64

  // Layer 0 has a bit an element, each layer above one for each word of the layer below that is not
  // 0; the last layer is one word. Layer d is words_[first_[d], first_[d + 1]).
  std::vector<std::uint64_t> words_;
  std::array<std::size_t, kMaxDepth + 1> first_{};
  std::size_t depth_ = 0;
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
    column_ = column;
    column_of_slot_.clear();
    for (DomainId d : domain_of_slot) column_of_slot_.push_back(column[d.value()]);
    parent_.resize(parent.size());
    for (std::size_t d = 0; d < parent.size(); ++d) parent_[column[d]] = column[parent[d].value()];
    level_.assign(domain_of_slot.size(), kAbsent);
    bits_.resize(levels);
    for (Bitmap& b : bits_) b.Reset(domain_of_slot.size());
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
    const std::size_t columns = parent_.size();
    const std::size_t first = static_cast<std::size_t>(std::min(old, level) + 1) * columns;
    const std::size_t last = static_cast<std::size_t>(std::max(old, level)) * columns;
    std::int32_t* const counts = at_least_.data();
    for (std::size_t column = column_of_slot_[slot];;) {
      for (std::size_t i = first + column; i <= last + column; i += columns) counts[i] += step;
      const std::size_t above = parent_[column];
      if (above == column) break;
      column = above;
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
  std::vector<std::int16_t> level_;            // by slot
  std::vector<std::uint32_t> column_of_slot_;  // of its deepest domain
  std::vector<std::uint32_t> column_;          // by domain
  std::vector<std::uint32_t> parent_;          // by column: that of the parent; the root's own
  std::vector<Bitmap> bits_;                   // by level
  std::vector<std::int32_t> at_least_;         // by level, column
};

}  // namespace tenure::internal

#endif  // TENURE_FREE_INDEX_H_
