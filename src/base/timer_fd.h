// Timers as file descriptors (timerfd).
#pragma once

#include <sys/timerfd.h>

#include <algorithm>
#include <chrono>
#include <optional>

namespace carma::base {

// Makes the timer fire once after this wait, or immediately if the wait is not positive. An empty
// wait stops the timer.
inline void SetTimer(int timer, std::optional<std::chrono::nanoseconds> wait) {
  itimerspec when{};
  if (wait) {
    // Zero would stop the timer.
    const auto left = std::max(*wait, std::chrono::nanoseconds(1));
    when.it_value.tv_sec = std::chrono::duration_cast<std::chrono::seconds>(left).count();
    when.it_value.tv_nsec = (left % std::chrono::seconds(1)).count();
  }
  ::timerfd_settime(timer, 0, &when, nullptr);
}

}  // namespace carma::base
