// SPDX-License-Identifier: Apache-2.0
//
// Snapshots that are damaged or cut. Restore must refuse them and leave the scheduler as it was;
// and reading must stay inside the bytes and come to an end whatever they are: for that the
// checksum, which keeps everything damaged from being read at all, is repaired in half of the
// inputs.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "bytes.h"
#include "tenure/archive.h"
#include "tenure/policy.h"
#include "tenure/scheduler.h"

namespace {

using tenure::BudgetPolicy;
using tenure::Scheduler;
using tenure::fuzz::Require;

constexpr std::size_t kSum = 8;  // bytes of the checksum, at the end

std::string Repaired(std::string bytes) {
  if (bytes.size() < kSum) return bytes;
  std::uint64_t sum = tenure::internal::HashBytes(bytes.data(), bytes.size() - kSum);
  for (std::size_t i = bytes.size() - kSum; i < bytes.size(); ++i, sum >>= 8) {
    bytes[i] = static_cast<char>(sum & 255);
  }
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static auto& scheduler = *new Scheduler<BudgetPolicy>();
  static const std::string empty = scheduler.Snapshot();
  if (size == 0) return 0;
  std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] & 1) {
    bytes = Repaired(std::move(bytes));
    const auto target = std::make_unique<Scheduler<BudgetPolicy>>();
    const absl::Status status = tenure::internal::Unpack(bytes, *target);
    Require(status.ok() || absl::IsInvalidArgument(status),
            "reading fails in another way:", status.ToString().c_str());
    return 0;
  }
  const absl::Status status = scheduler.Restore(bytes);
  if (status.ok()) {
    // Nobody guesses a checksum: this is a snapshot from the corpus.
    Require(scheduler.Snapshot() == bytes, "a restored scheduler has another snapshot");
    Require(scheduler.Restore(empty).ok(), "the empty snapshot is refused");
  }
  Require(scheduler.Snapshot() == empty,
          "a refused snapshot changed the state:", status.ToString().c_str());
  return 0;
}
