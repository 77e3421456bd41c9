// What a pilot finds around it: clock, environment, cores, signals, and what its carmad has to do.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "api/views.h"
#include "base/time.h"
#include "base/unique_fd.h"
#include "config/pilot_socket.h"

namespace carma::cli {

base::Time SystemTime();
config::Environment OwnEnvironment();
int OwnCpus();

// While it lives, signals that tell us something wait until they are taken.
class WaitingSignals {
 public:
  WaitingSignals();
  ~WaitingSignals();
  WaitingSignals(const WaitingSignals&) = delete;
  WaitingSignals& operator=(const WaitingSignals&) = delete;

  // The next within `patience`; 0: none came.
  int Wait(std::chrono::milliseconds patience) const;

 private:
  sigset_t before_{};
  base::UniqueFd fd_;
};

// Tasks in these states.
std::int64_t CountOf(const api::StatusView& status, std::initializer_list<std::string_view> states);
std::int64_t RunningTasks(const api::StatusView& status);
std::int64_t UnfinishedTasks(const api::StatusView& status);
// While nothing runs, what waits for one of these reasons will not start in this allocation.
bool WaitsInVain(const api::TaskView& task);

}  // namespace carma::cli
