// SPDX-License-Identifier: Apache-2.0
//
// What is known to find no place in a round of requests, so that it is not tried again.
//
//   internal::RoundFailures failures;
//   failures.Begin();
//   if (!failures.Know(id, shape, more) && !Place(shape)) failures.Add(id, shape, more);
//
// One invariant: Know is true exactly if the shape dominates one that has failed since Begin, for
// the same leaf or for a leaf whose failures count for it. Leaves share their failures, as
// PolicyDefaults::kSharedFailures says; those that stop `more` than others heed only each other's.
// Where they do not share, each keeps its own.
//
// A shape that only a survey has ruled out is as good as failed while the survey stands, and every
// shape that dominates it is ruled out by it, too; Settle, to be called before it is dropped, keeps
// that for the rest of the round. Complexity: of FailedShapes, O(1) for what is asked again.
#ifndef TENURE_ROUND_FAILURES_H_
#define TENURE_ROUND_FAILURES_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tenure/failed_shapes.h"
#include "tenure/pending_queue.h"
#include "tenure/placement.h"
#include "tenure/types.h"

namespace tenure::internal {

class RoundFailures {
 public:
  void Begin() {
    ++round_;
    for (FailedShapes& failed : failed_) failed.Clear();
    ruled_out_.clear();
  }
  // Its number, from 1 on.
  std::uint64_t round() const { return round_; }

  bool Know(ShapeId id, const Shape& shape, bool more) {
    std::uint64_t& fails = At(id).fails;
    if (fails >= Stamp(more)) return true;
    if (!failed_[more].Cover(shape, entries_[id].cell(shape))) return false;
    fails = Stamp(more);
    return true;
  }
  void Add(ShapeId id, const Shape& shape, bool more) {
    At(id).fails = std::max(At(id).fails, Stamp(more));
    failed_[0].Add(shape);
    if (more) failed_[1].Add(shape);
  }
  void AddRuledOut(ShapeId id, bool more) {
    std::uint64_t& fails = At(id).fails;
    if (fails >= Stamp(more)) return;
    fails = Stamp(more);
    ruled_out_.push_back(id);
  }
  // `shapes` by id.
  void Settle(const std::vector<Shape>& shapes) {
    for (ShapeId id : ruled_out_) Add(id, shapes[id], entries_[id].fails == Stamp(true));
    ruled_out_.clear();
  }

  // What only says something about `leaf`.
  bool KnowOf(AllocationId leaf, const Shape& shape) const {
    if (leaf.value() >= of_leaf_.size() || of_leaf_[leaf.value()].round != round_) return false;
    const std::vector<Shape>& failed = of_leaf_[leaf.value()].failed;
    return std::any_of(failed.begin(), failed.end(),
                       [&](const Shape& known) { return shape.Dominates(known); });
  }
  void AddOf(AllocationId leaf, const Shape& shape) {
    if (of_leaf_.size() <= leaf.value()) of_leaf_.resize(leaf.value() + std::size_t{1});
    OfLeaf& of = of_leaf_[leaf.value()];
    if (of.round != round_) of.failed.clear();
    of.round = round_;
    std::erase_if(of.failed, [&](const Shape& known) { return known.Dominates(shape); });
    of.failed.push_back(shape);
  }

 private:
  struct Entry {
    std::uint64_t fails = 0;  // the Stamp for which that is known
    std::size_t cell_plus_1 = 0;
    std::size_t cell(const Shape& shape) {
      if (cell_plus_1 == 0) cell_plus_1 = FailedShapes::CellOf(shape) + 1;
      return cell_plus_1 - 1;
    }
  };
  struct OfLeaf {
    std::uint64_t round = 0;
    std::vector<Shape> failed;  // none dominates another
  };

  // What fails for those that stop more fails for all.
  std::uint64_t Stamp(bool more) const { return 2 * round_ + (more ? 1 : 0); }
  Entry& At(ShapeId id) {
    if (entries_.size() <= id) entries_.resize(id + std::size_t{1});
    return entries_[id];
  }

  std::uint64_t round_ = 0;
  std::array<FailedShapes, 2> failed_;  // for those that stop no more than others; for all
  std::vector<Entry> entries_;          // by shape
  std::vector<ShapeId> ruled_out_;      // not in failed_ yet
  std::vector<OfLeaf> of_leaf_;
};

}  // namespace tenure::internal

#endif  // TENURE_ROUND_FAILURES_H_
