// SPDX-License-Identifier: Apache-2.0
//
// A fuzzer's input as a stream of small numbers. Past its end everything is 0.
#ifndef TENURE_TESTS_FUZZ_BYTES_H_
#define TENURE_TESTS_FUZZ_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace tenure::fuzz {

class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : data_(data), end_(data + size) {}
  bool empty() const { return data_ == end_; }
  std::uint8_t Byte() { return empty() ? 0 : *data_++; }
  std::uint32_t Below(std::uint32_t n) { return Byte() % n; }
  std::uint64_t Word() {
    std::uint64_t w = 0;
    for (int i = 0; i < 8; ++i) w = w << 8 | Byte();
    return w;
  }

 private:
  const std::uint8_t* data_;
  const std::uint8_t* end_;
};

// Ends the process, which is a finding.
inline void Require(bool holds, const char* what, const char* detail = "") {
  if (holds) return;
  std::fprintf(stderr, "%s %s\n", what, detail);
  std::abort();
}

}  // namespace tenure::fuzz

#endif  // TENURE_TESTS_FUZZ_BYTES_H_
