// How long the loop keeps its callers waiting.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>

#include "daemon/alarm.h"

namespace carma::daemon {

// Asks the loop to be called every kEvery and looks how late it is: whatever holds the loop up
// shows, whoever does it.
class LoopMeter {
 public:
  // Also how much of a hold-up may go unseen. Seldom enough to cost nothing.
  static constexpr std::chrono::milliseconds kEvery{50};
  using Seen = std::function<void(std::chrono::nanoseconds late)>;

  // Begins with the loop; `seen` is told each time by how much it was late.
  LoopMeter(boost::asio::io_context& loop, Seen seen) : alarm_(loop), seen_(std::move(seen)) {
    Wait();
  }

 private:
  void Wait() {
    const auto due = std::chrono::steady_clock::now() + kEvery;
    alarm_.Set(kEvery, [this, due] {
      seen_(std::chrono::steady_clock::now() - due);
      Wait();
    });
  }

  Alarm alarm_;
  Seen seen_;
};

}  // namespace carma::daemon
