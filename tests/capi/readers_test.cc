// SPDX-License-Identifier: Apache-2.0
//
// One writer and many readers, as tenure.h describes it: the writer publishes a clone after its
// passes; readers take a reference and ask it without a lock. To be run under ThreadSanitizer.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tenure/tenure.h"

namespace {

constexpr std::int64_t kMinute = 60'000'000;

// What the writer publishes and readers look at.
class Board {
 public:
  using View = std::shared_ptr<const tenure_scheduler>;

  void Publish(const tenure_scheduler* live) {
    tenure_scheduler* clone = nullptr;
    ASSERT_EQ(tenure_scheduler_clone(live, &clone), TENURE_OK) << tenure_last_error_message();
    View next(clone, [](const tenure_scheduler* s) {
      tenure_scheduler_destroy(const_cast<tenure_scheduler*>(s));
    });
    const std::lock_guard<std::mutex> lock(mutex_);
    view_.swap(next);  // the last reader of the old one destroys it
  }
  View Get() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return view_;
  }

 private:
  mutable std::mutex mutex_;
  View view_;
};

void Submit(tenure_scheduler* s, std::uint64_t id, std::uint32_t allocation, std::int64_t now) {
  tenure_workload w = TENURE_WORKLOAD_INIT;
  w.id = id;
  w.allocation = allocation;
  w.gpus_per_node = 1 + static_cast<std::int32_t>(id % 8);
  w.minimum_us = 10 * kMinute;
  ASSERT_EQ(tenure_workload_submit(s, &w, now), TENURE_OK) << tenure_last_error_message();
}

// Asks everything a view can be asked. Counts contradictions and unexpected errors.
int Read(const tenure_scheduler* view, std::uint64_t id) {
  int wrong = 0;
  tenure_scheduler_info info = TENURE_SCHEDULER_INFO_INIT;
  wrong += tenure_scheduler_describe(view, &info) != TENURE_OK;
  std::int64_t used = 0;
  for (std::uint32_t a = 0; a < info.allocation_count; ++a) {
    tenure_standing s = TENURE_STANDING_INIT;
    wrong += tenure_allocation_standing(view, a, info.now_us, &s) != TENURE_OK;
    used += a == TENURE_ROOT ? -s.used_gpu_us : s.used_gpu_us;
  }
  wrong += used != 0;  // the root is the sum of its children
  tenure_explanation e = TENURE_EXPLANATION_INIT;
  const tenure_status status = tenure_workload_explain(view, id, &e);
  wrong += status != TENURE_OK && status != TENURE_ERROR_NOT_FOUND;
  if (status == TENURE_ERROR_NOT_FOUND) {
    // The message is this thread's own.
    wrong += std::string(tenure_last_error_message()).find(std::to_string(id)) == std::string::npos;
  }
  tenure_forecast f = TENURE_FORECAST_INIT;
  const tenure_status forecast = tenure_workload_forecast(view, id, 60 * kMinute, &f);
  wrong += forecast != TENURE_OK && forecast != TENURE_ERROR_NOT_FOUND;
  std::uint64_t one = 0, two = 1;
  wrong += tenure_scheduler_digest(view, &one) != TENURE_OK;
  wrong += tenure_scheduler_digest(view, &two) != TENURE_OK || one != two;
  return wrong;
}

TEST(Readers, AskAPublishedCloneWithoutALock) {
  tenure_scheduler* live = nullptr;
  ASSERT_EQ(tenure_scheduler_create(nullptr, &live), TENURE_OK);
  std::uint32_t type = 0, id = 0, teams[3];
  ASSERT_EQ(tenure_gpu_type_add(live, "h100", &type), TENURE_OK);
  for (int i = 0; i < 8; ++i) {
    ASSERT_EQ(tenure_node_add(live, std::to_string(i).c_str(), 8, type, TENURE_ROOT, 0, &id),
              TENURE_OK);
  }
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(
        tenure_allocation_add(live, TENURE_ROOT, std::to_string(i).c_str(), 1 + i, 0, &teams[i]),
        TENURE_OK);
  }
  Board board;
  board.Publish(live);
  std::atomic<bool> over{false};
  std::atomic<int> wrong{0};
  std::atomic<int> reads{0};
  std::vector<std::thread> readers;
  for (std::uint64_t r = 0; r < 4; ++r) {
    readers.emplace_back([&, r] {
      for (std::uint64_t i = r; !over.load() || i < r + 40; i += 4) {
        const Board::View view = board.Get();
        wrong += Read(view.get(), 1 + i % 120);
        ++reads;
      }
    });
  }

  std::vector<tenure_start> starts(256);
  std::vector<tenure_stop> stops(256);
  std::vector<std::uint32_t> nodes(1024);
  tenure_decisions d = TENURE_DECISIONS_INIT;
  d.starts = starts.data(), d.start_capacity = starts.size();
  d.stops = stops.data(), d.stop_capacity = stops.size();
  d.nodes = nodes.data(), d.node_capacity = nodes.size();
  std::int64_t now = 0;
  for (std::uint64_t job = 1; job <= 100; ++job, now += kMinute) {
    Submit(live, job, teams[job % 3], now);
    ASSERT_EQ(tenure_scheduler_decide(live, now, &d), TENURE_OK) << tenure_last_error_message();
    for (std::size_t i = 0; i < d.start_count; ++i) {
      ASSERT_EQ(tenure_run_started(live, starts[i].workload, starts[i].run, now, now), TENURE_OK);
    }
    for (std::size_t i = 0; i < d.stop_count; ++i) {
      ASSERT_EQ(tenure_run_stopped(live, stops[i].workload, stops[i].run, now, now, nullptr),
                TENURE_OK);
    }
    board.Publish(live);
  }
  over = true;
  for (std::thread& t : readers) t.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_GE(reads.load(), 40);
  tenure_scheduler_destroy(live);
}

}  // namespace
