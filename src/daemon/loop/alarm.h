#pragma once

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

namespace carma::daemon {

// A timer on the loop. It calls back once, at the most recently set time. Set() replaces an earlier
// setting; Stop() and the destructor cancel the timer.
class Alarm {
 public:
  explicit Alarm(boost::asio::io_context& loop) : timer_(loop) {}
  void Set(std::chrono::nanoseconds from_now, std::function<void()> call) {
    timer_.expires_after(std::max(from_now, std::chrono::nanoseconds(0)));
    timer_.async_wait([call = std::move(call), number = ++*last_,
                       last = std::weak_ptr(last_)](const boost::system::error_code& error) {
      // Cancelling a timer that has already fired does not stop this handler, so it checks whether
      // its number is still the latest.
      const std::shared_ptr<std::uint64_t> now = last.lock();
      if (!error && now && *now == number) call();
    });
  }
  void Stop() {
    ++*last_;
    timer_.cancel();
  }

 private:
  boost::asio::steady_timer timer_;
  // The number of the last call to Set() or Stop().
  std::shared_ptr<std::uint64_t> last_ = std::make_shared<std::uint64_t>(0);
};

}  // namespace carma::daemon
