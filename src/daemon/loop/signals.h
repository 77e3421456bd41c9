// Delivers signals as events on the loop. Asio's signal_set is not used because it does not report
// a failure to register its pipe, so the daemon might never notice SIGTERM.
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
  // Blocks the signals until Listen(), in this thread and the threads that it starts. Must be
  // called before other threads exist. By default, base::Spawn unblocks all signals in its new
  // processes.
  static void Block();
  // Calls `heard` on the loop for each signal, with the signal number. Returns kUnavailable with
  // the system error on failure.
  Result<Unit> Listen(std::function<void(int)> heard);

 private:
  void Wait();

  boost::asio::posix::stream_descriptor descriptor_;
  std::function<void(int)> heard_;
};

}  // namespace carma::daemon
