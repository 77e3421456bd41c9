// One descriptor for everything that a launcher waits for (Launcher::PollFd): processes and pipes,
// a timer and the launcher's own events.
#pragma once

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "base/timer_fd.h"
#include "base/unique_fd.h"

namespace carma::task {

class LauncherPoll {
 public:
  // Take() calls on_key with this key when the timer has expired.
  static constexpr std::uint64_t kTimer = ~std::uint64_t{0};

  // Must be called once, before any other function. Returns a system error on failure.
  Result<Unit> Open(std::string_view doing) {
    epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
    wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    timer_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    if (!Watch(wake_.get(), kWake) || !Watch(timer_.get(), kTimer)) return FailErrno(errno, doing);
    return Unit{};
  }

  int fd() const { return epoll_.get(); }

  // Makes Take() return `key` while the descriptor is readable. If the descriptor cannot be
  // watched, returns false and sets errno.
  bool Watch(int fd, std::uint64_t key) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = key;
    return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
  }

  // Makes fd() readable until Take() is called.
  void Wake() {
    const std::uint64_t one = 1;
    (void)!::write(wake_.get(), &one, sizeof one);
  }

  // Like base::SetTimer().
  void SetTimer(std::optional<std::chrono::nanoseconds> wait) {
    base::SetTimer(timer_.get(), wait);
  }

  // Calls on_key with each key that is ready. Wake() calls made by on_key are consumed as well.
  template <class OnKey>
  void Take(OnKey&& on_key) {
    std::array<epoll_event, 256> ready{};
    const int count = ::epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), 0);
    std::uint64_t times = 0;
    for (int i = 0; i < count; ++i) {
      const std::uint64_t key = ready[static_cast<std::size_t>(i)].data.u64;
      if (key == kTimer) (void)!::read(timer_.get(), &times, sizeof times);
      if (key != kWake) on_key(key);
    }
    (void)!::read(wake_.get(), &times, sizeof times);
  }

 private:
  static constexpr std::uint64_t kWake = kTimer - 1;

  base::UniqueFd epoll_, wake_, timer_;
};

}  // namespace carma::task
