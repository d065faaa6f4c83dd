// SPDX-License-Identifier: Apache-2.0
#include "failing.h"

#include <cstdlib>
#include <new>
#include <stdexcept>

namespace {

thread_local long until_failure = 0;

void* Allocate(std::size_t size) {
  if (until_failure > 0 && --until_failure == 0) throw std::bad_alloc();
  if (void* p = std::malloc(size == 0 ? 1 : size)) return p;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t size) { return Allocate(size); }
void* operator new[](std::size_t size) { return Allocate(size); }
// Who asks like this can do without.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return std::malloc(size); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return std::malloc(size); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }

extern "C" {

void fail_allocation(long n) { until_failure = n; }
void throw_something(void) { throw std::runtime_error("a hook's mistake"); }

}  // extern "C"
