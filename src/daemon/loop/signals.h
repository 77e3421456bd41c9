// Signals as events of the loop. Asio's own signal_set does not report a failure to register its
// pipe: such a daemon would never notice SIGTERM.
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <csignal>
#include <functional>

#include "base/result.h"

namespace carma::daemon {

class Signals {
 public:
  static constexpr std::array kHeard{SIGHUP, SIGINT, SIGTERM};

  explicit Signals(boost::asio::io_context& loop) : descriptor_(loop) {}
  // Blocks the signals until Listen(), for this thread and those that it starts, so call it before
  // other threads exist. Processes of base::Spawn have no signals blocked.
  static void Block();
  // Calls `heard` on the loop with the number of each signal. Errors: kUnavailable, the system's.
  Result<Unit> Listen(std::function<void(int)> heard);

 private:
  void Wait();

  boost::asio::posix::stream_descriptor descriptor_;
  std::function<void(int)> heard_;
};

}  // namespace carma::daemon
