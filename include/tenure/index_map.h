// SPDX-License-Identifier: Apache-2.0
//
// A hash map for look-up, never iterated, that can be destroyed whatever happened to it.
//
//   internal::IndexMap<NodeId, std::uint32_t> slot_of;
//   slot_of.emplace(node, slot);
//   const auto it = slot_of.find(node);
//
// An absl::flat_hash_map is not whole after an allocation failed inside it: its destructor would
// free what was never allocated. An IndexMap that met such a failure leaves its memory behind, so
// that the exception can leave through whoever owns the map.
#ifndef TENURE_INDEX_MAP_H_
#define TENURE_INDEX_MAP_H_

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace tenure::internal {

template <class Key, class Value>
class IndexMap {
  using Map = absl::flat_hash_map<Key, Value>;

 public:
  IndexMap() { std::construct_at(&map_); }
  IndexMap(const IndexMap& other) : IndexMap() {
    Keep([&] {
      map_.reserve(other.map_.size());
      for (const auto& entry : other.map_) map_.insert(entry);
    });
  }
  IndexMap(IndexMap&& other) noexcept : whole_(std::exchange(other.whole_, true)) {
    std::construct_at(&map_, std::move(other.map_));
  }
  IndexMap& operator=(const IndexMap& other) {
    if (this != &other) *this = IndexMap(other);
    return *this;
  }
  IndexMap& operator=(IndexMap&& other) noexcept {
    if (this == &other) return *this;
    if (whole_) std::destroy_at(&map_);
    std::construct_at(&map_, std::move(other.map_));
    whole_ = std::exchange(other.whole_, true);
    return *this;
  }
  ~IndexMap() {
    if (whole_) std::destroy_at(&map_);
  }

  std::size_t size() const { return map_.size(); }
  auto end() { return map_.end(); }
  auto end() const { return map_.end(); }
  auto find(const Key& key) { return map_.find(key); }
  auto find(const Key& key) const { return map_.find(key); }
  // Does nothing if the key is there. The entry, and whether it is new.
  auto emplace(const Key& key, Value value) {
    return Keep([&] { return map_.try_emplace(key, std::move(value)); });
  }
  void erase(const Key& key) { map_.erase(key); }
  void erase(typename Map::iterator it) { map_.erase(it); }
  void clear() { map_.clear(); }

 private:
  template <class F>
  auto Keep(const F& f) {
    try {
      return f();
    } catch (...) {
      whole_ = false;
      throw;
    }
  }

  union {
    Map map_;
  };
  bool whole_ = true;
};

}  // namespace tenure::internal

#endif  // TENURE_INDEX_MAP_H_
