// SPDX-License-Identifier: Apache-2.0
//
// A list that grows at its end without moving what is there, for elements that are too large for
// std::deque to keep more than one in a block.
//
//   StableList<Workload> list;
//   list.emplace_back().run = run;   // references to earlier elements stay valid
//   list[0];
//
// Complexity: access O(1) by two loads, growth O(1) and an allocation for every kBlock elements.
// Copyable; a copy is O(n).
#ifndef TENURE_STABLE_LIST_H_
#define TENURE_STABLE_LIST_H_

#include <array>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "tenure/archive.h"

namespace tenure::internal {

template <class T>
class StableList {
 public:
  static constexpr std::size_t kBlock = 16;

  StableList() = default;
  StableList(const StableList& other) { *this = other; }
  StableList(StableList&& other) noexcept
      : blocks_(std::move(other.blocks_)), size_(std::exchange(other.size_, 0)) {}
  StableList& operator=(const StableList& other) {
    if (this == &other) return *this;
    resize(other.size());
    for (std::size_t i = 0; i < size_; ++i) (*this)[i] = other[i];
    return *this;
  }
  StableList& operator=(StableList&& other) noexcept {
    blocks_ = std::move(other.blocks_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }
  ~StableList() = default;

  std::size_t size() const { return size_; }
  T& operator[](std::size_t i) { return (*blocks_[i / kBlock])[i % kBlock]; }
  const T& operator[](std::size_t i) const { return (*blocks_[i / kBlock])[i % kBlock]; }

  T& emplace_back() {
    if (size_ == blocks_.size() * kBlock) blocks_.push_back(std::make_unique<Block>());
    return (*this)[size_++];
  }
  void clear() {
    blocks_.clear();
    size_ = 0;
  }
  // To `n` new elements.
  void resize(std::size_t n) {
    clear();
    while (size_ < n) emplace_back();
  }

  class Iterator {
   public:
    Iterator(StableList& list, std::size_t at) : list_(&list), at_(at) {}
    T& operator*() const { return (*list_)[at_]; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    friend bool operator==(const Iterator&, const Iterator&) = default;

   private:
    StableList* list_;
    std::size_t at_;
  };
  Iterator begin() { return {*this, 0}; }
  Iterator end() { return {*this, size_}; }

 private:
  using Block = std::array<T, kBlock>;

  std::vector<std::unique_ptr<Block>> blocks_;
  std::size_t size_ = 0;
};

template <class T>
struct IsList<StableList<T>> : std::true_type {};

}  // namespace tenure::internal

#endif  // TENURE_STABLE_LIST_H_
