// How long the loop keeps its callers waiting.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <utility>

#include "daemon/loop/alarm.h"

namespace carma::daemon {

// Asks the loop to be called a step after work has begun and looks how late it is: whatever holds
// the loop up shows, whoever does it. Of a loop that has nothing to do nothing is asked.
class LoopMeter {
 public:
  static constexpr std::chrono::milliseconds kStep{50};  // as much of a hold-up goes unseen
  using Seen = std::function<void(std::chrono::nanoseconds late)>;

  // `seen` is told at each look by how much it was late.
  LoopMeter(boost::asio::io_context& loop, Seen seen) : alarm_(loop), seen_(std::move(seen)) {}

  // Work begins, or goes on.
  void Look() {
    if (std::exchange(looking_, true)) return;
    const auto due = std::chrono::steady_clock::now() + kStep;
    alarm_.Set(kStep, [this, due] {
      looking_ = false;
      seen_(std::chrono::steady_clock::now() - due);
    });
  }

 private:
  Alarm alarm_;
  Seen seen_;
  bool looking_ = false;
};

}  // namespace carma::daemon
