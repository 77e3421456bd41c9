// Reads the environment of a pilot: clock, cores, signals, and the tasks of its carmad.
#include "cli/pilot/surroundings.h"

#include <poll.h>
#include <sched.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "core/values/reason.h"

namespace carma::cli {

base::Time SystemTime() {
  return base::FromMs(std::chrono::duration_cast<std::chrono::milliseconds>(
                          std::chrono::system_clock::now().time_since_epoch())
                          .count());
}

int OwnCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

WaitingSignals::WaitingSignals() {
  sigset_t ours;
  ::sigemptyset(&ours);
  for (const int number : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2})
    ::sigaddset(&ours, number);
  ::sigprocmask(SIG_BLOCK, &ours, &before_);
  fd_.reset(::signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK));
}

WaitingSignals::~WaitingSignals() {
  ::sigprocmask(SIG_SETMASK, &before_, nullptr);
}

int WaitingSignals::Wait(std::chrono::milliseconds patience) const {
  pollfd ready{fd_.get(), POLLIN, 0};
  ::poll(&ready, 1, static_cast<int>(patience.count()));
  signalfd_siginfo info{};
  return ::read(fd_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)
             ? static_cast<int>(info.ssi_signo)
             : 0;
}

std::int64_t CountOf(const api::StatusView& status,
                     std::initializer_list<std::string_view> states) {
  std::int64_t sum = 0;
  for (const auto& [state, count] : status.task_counts) {
    if (std::ranges::find(states, state) != states.end()) sum += count;
  }
  return sum;
}

std::int64_t RunningTasks(const api::StatusView& status) {
  return CountOf(status, {"launching", "running", "stopping"});
}

std::int64_t UnfinishedTasks(const api::StatusView& status) {
  return RunningTasks(status) + CountOf(status, {"submitted", "estimating", "queued"});
}

bool WaitsInVain(const api::TaskView& task) {
  constexpr std::array kInVain = {core::ReasonCode::kHeld,       core::ReasonCode::kNeverFits,
                                  core::ReasonCode::kDependency, core::ReasonCode::kGpuChoice,
                                  core::ReasonCode::kReserved,   core::ReasonCode::kMigInstance};
  return std::ranges::any_of(
      kInVain, [&](core::ReasonCode code) { return task.reason == base::WordOf(code); });
}

}  // namespace carma::cli
