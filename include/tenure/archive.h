// SPDX-License-Identifier: Apache-2.0
//
// The byte form of the scheduler's state: one `Serialize(ar)` per class serves writing, reading and
// the digest, so the three cannot disagree.
//
//   struct Point { int x, y; template <class Ar> void Serialize(Ar& ar) { ar(x, y); } };
//   std::string bytes = internal::Pack(point);        // header, payload, checksum
//   absl::Status s = internal::Unpack(bytes, point);  // refuses anything cut, flipped or foreign
//
// Little-endian, independent of the platform. Reading never goes past the end: a failed reader
// yields zeros and stays failed.
#ifndef TENURE_ARCHIVE_H_
#define TENURE_ARCHIVE_H_

#include <bit>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <deque>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tenure/types.h"

namespace tenure::internal {

template <class T>
struct IsId : std::false_type {};
template <class Tag, class Rep>
struct IsId<Id<Tag, Rep>> : std::true_type {};
template <class T>
struct IsQuantity : std::false_type {};
template <class Tag>
struct IsQuantity<Quantity<Tag>> : std::true_type {};
template <class T>
struct IsList : std::false_type {};
template <class T>
struct IsList<std::vector<T>> : std::true_type {};
template <class T>
struct IsList<std::deque<T>> : std::true_type {};
template <class T, std::size_t n>
struct IsList<absl::InlinedVector<T, n>> : std::true_type {};

// Routes every supported type to Derived::Integer (64 bits, signed) and Derived::Bytes.
template <class Derived>
class ArchiveBase {
 public:
  template <class... T>
  void operator()(T&... fields) {
    (Field(fields), ...);
  }

 private:
  Derived& self() { return static_cast<Derived&>(*this); }

  template <class T, class Rep>
  void Via(T& field, Rep value) {
    auto raw = static_cast<std::int64_t>(value);
    self().Integer(raw, sizeof(Rep));
    if constexpr (Derived::kReading) field = T(static_cast<Rep>(raw));
  }

  template <class T>
  void Field(T& f) {
    if constexpr (std::is_same_v<T, bool>) {
      Via(f, static_cast<std::uint8_t>(f));
    } else if constexpr (std::is_integral_v<T>) {
      Via(f, f);
    } else if constexpr (std::is_enum_v<T>) {
      auto raw = static_cast<std::underlying_type_t<T>>(f);
      Field(raw);
      if constexpr (Derived::kReading) f = static_cast<T>(raw);
    } else if constexpr (std::is_same_v<T, double>) {
      auto raw = std::bit_cast<std::int64_t>(f);
      self().Integer(raw, 8);
      if constexpr (Derived::kReading) f = std::bit_cast<double>(raw);
    } else if constexpr (IsId<T>::value || IsQuantity<T>::value) {
      Via(f, f.value());
    } else if constexpr (std::is_same_v<T, Duration>) {
      Via(f, f.count());
    } else if constexpr (std::is_same_v<T, TimePoint>) {
      Duration d = f.time_since_epoch();
      Field(d);
      if constexpr (Derived::kReading) f = TimePoint(d);
    } else if constexpr (std::is_same_v<T, Weight>) {
      Field(f.value);
    } else if constexpr (std::is_same_v<T, std::string>) {
      self().Bytes(f);
    } else if constexpr (IsList<T>::value) {
      auto n = static_cast<std::int64_t>(f.size());
      self().Integer(n, 8);
      if constexpr (Derived::kReading) {
        if (!self().PlausibleCount(n)) n = 0;
        f.clear();
        f.resize(static_cast<std::size_t>(n));
      }
      for (auto& x : f) Field(x);
    } else {
      f.Serialize(self());
    }
  }
};

class ArchiveWriter : public ArchiveBase<ArchiveWriter> {
 public:
  static constexpr bool kReading = false;
  void Integer(std::int64_t& value, std::size_t bytes) {
    auto raw = static_cast<std::uint64_t>(value);
    for (std::size_t i = 0; i < bytes; ++i, raw >>= 8) out_.push_back(static_cast<char>(raw & 255));
  }
  void Bytes(std::string& s) {
    auto n = static_cast<std::int64_t>(s.size());
    Integer(n, 8);
    out_ += s;
  }
  std::string& out() { return out_; }

 private:
  std::string out_;
};

class ArchiveReader : public ArchiveBase<ArchiveReader> {
 public:
  static constexpr bool kReading = true;
  ArchiveReader(const char* data, std::size_t size) : data_(data), left_(size) {}

  void Integer(std::int64_t& value, std::size_t bytes) {
    value = 0;
    if (bytes > left_) {
      Fail();
      return;
    }
    std::uint64_t raw = 0;
    for (std::size_t i = 0; i < bytes; ++i) {
      raw |= std::uint64_t{static_cast<unsigned char>(data_[i])} << (8 * i);
    }
    value = static_cast<std::int64_t>(raw);
    data_ += bytes;
    left_ -= bytes;
  }
  void Bytes(std::string& s) {
    std::int64_t n = 0;
    Integer(n, 8);
    if (!PlausibleCount(n)) n = 0;
    s.assign(data_, static_cast<std::size_t>(n));
    data_ += n;
    left_ -= static_cast<std::size_t>(n);
  }
  // Every element takes at least one byte, so a count beyond what is left is damage.
  bool PlausibleCount(std::int64_t n) {
    if (n >= 0 && static_cast<std::uint64_t>(n) <= left_) return true;
    Fail();
    return false;
  }
  bool ok() const { return ok_; }
  std::size_t left() const { return left_; }

 private:
  void Fail() {
    ok_ = false;
    left_ = 0;
  }
  const char* data_;
  std::size_t left_;
  bool ok_ = true;
};

// 64-bit FNV-1a over 8-byte words: a checksum against damage, not against malice.
inline std::uint64_t HashBytes(const char* data, std::size_t size) {
  std::uint64_t h = 14695981039346656037ull;
  const auto mix = [&](std::uint64_t word) {
    h = (h ^ word) * 1099511628211ull;
    h ^= h >> 29;
  };
  std::size_t i = 0;
  for (; i + 8 <= size; i += 8) {
    std::uint64_t word = 0;
    for (std::size_t b = 0; b < 8; ++b) {
      word |= std::uint64_t{static_cast<unsigned char>(data[i + b])} << (8 * b);
    }
    mix(word);
  }
  for (; i < size; ++i) mix(static_cast<unsigned char>(data[i]));
  mix(size);
  return h;
}

inline constexpr char kArchiveMagic[] = "tenure-state-1\n";

template <class T>
std::string Pack(T& state) {
  ArchiveWriter payload;
  payload.out() = kArchiveMagic;
  payload(state);
  std::int64_t sum =
      static_cast<std::int64_t>(HashBytes(payload.out().data(), payload.out().size()));
  payload.Integer(sum, 8);
  return std::move(payload.out());
}

// InvalidArgument saying what is wrong; `state` is then in an unspecified but valid condition.
template <class T>
absl::Status Unpack(const std::string& bytes, T& state) {
  const std::size_t magic = sizeof(kArchiveMagic) - 1;
  if (bytes.size() < magic + 8 || bytes.compare(0, magic, kArchiveMagic) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("not a snapshot of this version: ", bytes.size(),
                                                   " bytes without its header"));
  }
  const std::size_t end = bytes.size() - 8;
  ArchiveReader tail(bytes.data() + end, 8);
  std::int64_t sum = 0;
  tail.Integer(sum, 8);
  if (static_cast<std::uint64_t>(sum) != HashBytes(bytes.data(), end)) {
    return absl::InvalidArgumentError("snapshot is damaged: its checksum does not match");
  }
  ArchiveReader reader(bytes.data() + magic, end - magic);
  reader(state);
  if (!reader.ok() || reader.left() != 0) {
    return absl::InvalidArgumentError("snapshot is damaged: its length does not match");
  }
  return absl::OkStatus();
}

}  // namespace tenure::internal

#endif  // TENURE_ARCHIVE_H_
