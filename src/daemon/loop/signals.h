// Signals as events of the loop. Asio's own signal_set does not say when it could not register its
// pipe: a daemon that started then would never hear that it is to stop.
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
  // From now on they wait until somebody listens. For this thread and those that it starts: to be
  // called before there are others. What base::Spawn starts has none blocked.
  static void Block();
  // Calls on the loop with the number of each. Errors: kUnavailable, the system's.
  base::Result<base::Unit> Listen(std::function<void(int)> heard);

 private:
  void Wait();

  boost::asio::posix::stream_descriptor descriptor_;
  std::function<void(int)> heard_;
};

}  // namespace carma::daemon
