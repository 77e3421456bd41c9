// Records termination signals, so that a verb can first stop the programs it has started.
#pragma once

#include <signal.h>

#include <array>
#include <atomic>
#include <cstddef>

namespace carma::cli {

// Set by NotedSignals' signal handler.
inline std::atomic<bool> interrupted = false;

// While this object exists, SIGINT, SIGTERM and SIGHUP only set `interrupted`.
class NotedSignals {
 public:
  NotedSignals() {
    interrupted = false;
    struct sigaction note {};
    note.sa_handler = [](int) { interrupted = true; };
    for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &note, &before_[i]);
  }
  ~NotedSignals() {
    for (std::size_t i = 0; i < kSignals.size(); ++i)
      ::sigaction(kSignals[i], &before_[i], nullptr);
  }
  NotedSignals(const NotedSignals&) = delete;
  NotedSignals& operator=(const NotedSignals&) = delete;

 private:
  static constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, kSignals.size()> before_{};
};

}  // namespace carma::cli
