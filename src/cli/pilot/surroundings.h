// The environment of a pilot: clock, variables, cores, signals, and the tasks of its carmad.
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

namespace carma::cli {

base::Time SystemTime();
int OwnCpus();

// While this object exists, this process's signals stay pending until Wait takes them.
class WaitingSignals {
 public:
  WaitingSignals();
  ~WaitingSignals();
  WaitingSignals(const WaitingSignals&) = delete;
  WaitingSignals& operator=(const WaitingSignals&) = delete;

  // Returns the next signal within `patience`; 0 if none.
  int Wait(std::chrono::milliseconds patience) const;

 private:
  sigset_t before_{};
  base::UniqueFd fd_;
};

// The number of tasks in these states.
std::int64_t CountOf(const api::StatusView& status, std::initializer_list<std::string_view> states);
std::int64_t RunningTasks(const api::StatusView& status);
std::int64_t UnfinishedTasks(const api::StatusView& status);
// Whether the task waits for a reason that will last until the end of this allocation. The result
// is valid only while nothing is running.
bool WaitsInVain(const api::TaskView& task);

}  // namespace carma::cli
