// A pilot's surroundings: clock, environment, cores, signals, and its carmad's tasks.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "api/status_view.h"
#include "api/task_view.h"
#include "base/time.h"
#include "base/unique_fd.h"
#include "config/client_socket.h"

namespace carma::cli {

base::Time SystemTime();
int OwnCpus();

// While it exists, this process's signals stay pending until they are taken.
class WaitingSignals {
 public:
  WaitingSignals();
  ~WaitingSignals();
  WaitingSignals(const WaitingSignals&) = delete;
  WaitingSignals& operator=(const WaitingSignals&) = delete;

  // The next signal within `patience`; 0: none.
  int Wait(std::chrono::milliseconds patience) const;

 private:
  sigset_t before_{};
  base::UniqueFd fd_;
};

// Number of tasks in these states.
std::int64_t CountOf(const api::StatusView& status, std::initializer_list<std::string_view> states);
std::int64_t RunningTasks(const api::StatusView& status);
std::int64_t UnfinishedTasks(const api::StatusView& status);
// For when nothing runs: whether this task waits for a reason that will last until the end of this
// allocation.
bool WaitsInVain(const api::TaskView& task);

}  // namespace carma::cli
