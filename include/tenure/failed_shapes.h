// SPDX-License-Identifier: Apache-2.0
//
// Shapes that found no place, so that what asks for as much or more is not tried.
//
//   internal::FailedShapes failed;
//   failed.Add(four_gpus);
//   failed.Cover(eight_gpus);   // true: it Dominates what was added
//   failed.Clear();
//
// One invariant: Cover(s) is true exactly if s.Dominates(f) for some f added since the last Clear.
// Complexity: Cover of a shape of one node is one look into a table, whatever was added; of a gang
// also O(gangs in no other's shadow). Add O(bands); Clear O(types that something was added for).
#ifndef TENURE_FAILED_SHAPES_H_
#define TENURE_FAILED_SHAPES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "tenure/contract.h"
#include "tenure/placement.h"
#include "tenure/types.h"

namespace tenure::internal {

class FailedShapes {
 public:
  void Clear() {
    for (std::size_t row : filled_) {
      std::fill_n(least_.begin() + static_cast<std::ptrdiff_t>(row), kRow, kNone);
    }
    filled_.clear();
    gangs_.clear();
  }

  void Add(const Shape& shape) {
    if (shape.nodes > 1) {
      std::erase_if(gangs_, [&](const Shape& gang) { return gang.Dominates(shape); });
      gangs_.push_back(shape);
      return;
    }
    const std::size_t row = RowOf(shape);
    if (least_.size() < row + kRow) least_.resize(row + kRow, kNone);
    if (std::find(filled_.begin(), filled_.end(), row) == filled_.end()) filled_.push_back(row);
    const Kind kind = KindOf(shape);
    Lower(row, kind, shape);
    if (kind == kOrdinary) Lower(row, kStays, shape);  // what stays is harder to place
  }

  bool Cover(const Shape& shape) const { return Cover(shape, CellOf(shape)); }
  // The same for whoever keeps the cell of the shape.
  bool Cover(const Shape& shape, std::size_t cell) const {
    if (cell < least_.size() && shape.gpus >= least_[cell]) return true;
    return shape.nodes > 1 && CoverGang(shape);
  }
  static std::size_t CellOf(const Shape& shape) {
    return CellOf(RowOf(shape), KindOf(shape), shape.lane, shape.band);
  }

 private:
  // Shapes of different kinds say nothing about each other, but for one that stays (Dominates).
  enum Kind : std::size_t { kOrdinary, kStays, kDebug, kUnfunded, kUnfundedDebug, kKinds };
  static constexpr std::int32_t kNone = std::numeric_limits<std::int32_t>::max();
  static constexpr std::size_t kRow = kKinds * 2 * kBands;

  static Kind KindOf(const Shape& s) {
    const bool debug = s.workload_class == WorkloadClass::kDebug;
    if (!s.funded) return debug ? kUnfundedDebug : kUnfunded;
    return debug ? kDebug : s.stays() ? kStays : kOrdinary;
  }
  // Where the row of its GPU type begins.
  static std::size_t RowOf(const Shape& s) {
    return s.type == kAnyGpuType ? 0 : (s.type.value() + std::size_t{1}) * kRow;
  }
  static std::size_t CellOf(std::size_t row, Kind kind, bool lane, std::size_t band) {
    return row + (kind * 2 + std::size_t{lane}) * kBands + band;
  }
  bool CoverGang(const Shape& shape) const {
    return std::any_of(gangs_.begin(), gangs_.end(), [&](const Shape& gang) {
      return shape.nodes >= gang.nodes && shape.Dominates(gang);
    });
  }
  // A failure counts for its band and those above; one in the lane also out of it.
  void Lower(std::size_t row, Kind kind, const Shape& shape) {
    for (const bool lane : {false, true}) {
      if (lane && !shape.lane) break;
      for (std::size_t b = shape.band; b < kBands; ++b) {
        std::int32_t& least = least_[CellOf(row, kind, lane, b)];
        if (least <= shape.gpus) break;
        least = shape.gpus;
      }
    }
  }

  // Of shapes of one node: the fewest GPUs that did not fit, by type, kind, lane and band.
  std::vector<std::int32_t> least_;
  std::vector<std::size_t> filled_;  // rows that are not empty
  std::vector<Shape> gangs_;         // none dominates another
};

}  // namespace tenure::internal

#endif  // TENURE_FAILED_SHAPES_H_
