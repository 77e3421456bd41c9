#include "daemon/loop/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace carma::daemon {
namespace {

sigset_t Set() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int number : Signals::kHeard) ::sigaddset(&set, number);
  return set;
}

}  // namespace

void Signals::Block() {
  const sigset_t set = Set();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

Result<Unit> Signals::Listen(std::function<void(int)> heard) {
  const sigset_t set = Set();
  const int fd = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd < 0) return FailErrno(errno, "signalfd");
  boost::system::error_code error;
  descriptor_.assign(fd, error);
  if (error) {
    ::close(fd);
    return FailErrno(error.value(), "listening for signals");
  }
  heard_ = std::move(heard);
  Wait();
  return Unit{};
}

void Signals::Wait() {
  descriptor_.async_wait(
      boost::asio::posix::stream_descriptor::wait_read,
      [this](const boost::system::error_code& error) {
        if (error) return;
        signalfd_siginfo info{};
        while (::read(descriptor_.native_handle(), &info, sizeof info) == sizeof info)
          heard_(static_cast<int>(info.ssi_signo));
        Wait();
      });
}

}  // namespace carma::daemon
