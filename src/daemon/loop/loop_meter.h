// Measures how late the event loop serves events.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <utility>

#include "daemon/loop/alarm.h"

namespace carma::daemon {

// When work begins, schedules a call kStep later and measures how late that call runs. This shows
// any delay, whatever its cause. An idle loop is not measured.
class LoopMeter {
 public:
  static constexpr std::chrono::milliseconds kStep{50};  // shorter delays may go unnoticed
  using Seen = std::function<void(std::chrono::nanoseconds late)>;

  // `seen` receives the result of each measurement.
  LoopMeter(boost::asio::io_context& loop, Seen seen) : alarm_(loop), seen_(std::move(seen)) {}

  // Must be called when work begins or continues.
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
