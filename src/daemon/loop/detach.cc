#include "daemon/loop/detach.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>

#include "base/spawn.h"
#include "base/try.h"
#include "base/unique_fd.h"

namespace carma::daemon {
namespace {

// Sends the message, then closes the pipe so that no child process inherits it.
void Say(base::UniqueFd& pipe) {
  [[maybe_unused]] const ssize_t told = ::write(pipe.get(), "1", 1);
  pipe.reset();
}

[[noreturn]] void BecomeDetached(const std::function<int(std::function<void()>)>& run,
                                 base::UniqueFd pipe) {
  ::setsid();
  const base::UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  ::dup2(null.get(), STDIN_FILENO);
  ::dup2(null.get(), STDOUT_FILENO);
  // Allows the file system of the original working directory to be unmounted.
  [[maybe_unused]] const int moved = ::chdir("/");
  // Shared, because the callback must be copyable.
  const auto end = std::make_shared<base::UniqueFd>(std::move(pipe));
  std::exit(run([end] { Say(*end); }));
}

// Returns true if a message arrives, false if the process exits, and nullopt after `limit`.
std::optional<bool> Hear(int pipe, std::chrono::milliseconds limit) {
  pollfd entry{pipe, POLLIN, 0};
  int ready = 0;
  do {
    ready = ::poll(&entry, 1, static_cast<int>(limit.count()));
  } while (ready < 0 && errno == EINTR);
  if (ready <= 0) return std::nullopt;
  char word = 0;
  return ::read(pipe, &word, 1) == 1;
}

int Await(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

Result<Detached> RunDetached(const std::function<int(std::function<void()>)>& run,
                             std::chrono::milliseconds limit) {
  base::Pipe pipe = CARMA_TRY(base::MakePipe());
  const pid_t pid = ::fork();
  if (pid < 0) return FailErrno(errno, "fork");
  if (pid == 0) {
    pipe.read.reset();
    BecomeDetached(run, std::move(pipe.write));
  }
  pipe.write.reset();
  const std::optional<bool> serves = Hear(pipe.read.get(), limit);
  if (!serves) {
    ::kill(pid, SIGKILL);
    Await(pid);
    return Unavailable("carmad was not ready in time, so it was killed");
  }
  return Detached{pid, *serves, *serves ? 0 : Await(pid)};
}

}  // namespace carma::daemon
