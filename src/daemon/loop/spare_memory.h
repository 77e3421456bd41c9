// Returns free memory to the system after large batches and responses, because the allocator would
// otherwise keep it as holes in the heap.
#pragma once

#include <malloc.h>

#include <boost/asio/io_context.hpp>
#include <chrono>

#include "daemon/loop/alarm.h"

namespace carma::daemon {

class SpareMemory {
 public:
  explicit SpareMemory(boost::asio::io_context& loop) : soon_(loop) {}

  // Counts a turn that lasted from `began` to `ended`. Successive turns less than kDelay apart are
  // added up, because a batch may arrive in pieces.
  void CountTurn(std::chrono::steady_clock::time_point began,
                 std::chrono::steady_clock::time_point ended) {
    if (began - busy_until_ >= kDelay) busy_ = {};
    busy_ += ended - began;
    busy_until_ = ended;
    if (busy_ <= kLong) return;
    busy_ = {};
    GiveBackSoon();
  }
  void GiveBackSoon() {
    soon_.Set(kDelay, [] { ::malloc_trim(0); });
  }

 private:
  static constexpr auto kLong = std::chrono::milliseconds(100);
  static constexpr auto kDelay = std::chrono::seconds(1);

  std::chrono::steady_clock::duration busy_{};
  std::chrono::steady_clock::time_point busy_until_;
  Alarm soon_;
};

}  // namespace carma::daemon
