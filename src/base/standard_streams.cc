#include "base/standard_streams.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "base/file.h"
#include "base/unique_fd.h"

namespace carma::base {

void OpenStandardStreams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    // /dev/null gets the number `fd`, because that is the lowest free one. It stays open across
    // exec, because child processes need it too.
    if (::fcntl(fd, F_GETFD) < 0) ::open("/dev/null", O_RDWR);
  }
}

void NeverWaitForTerminal(int fd) {
  if (::isatty(fd) == 0) return;
  // Reopens the terminal. Setting O_NONBLOCK on the existing descriptor would also affect the
  // shell, which shares it.
  const std::string path = fmt::format("/proc/self/fd/{}", fd);
  const UniqueFd own(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (own) ::dup2(own.get(), fd);
}

bool IsJournal(int fd, std::string_view stream) {
  struct stat info {};
  if (stream.empty() || ::fstat(fd, &info) != 0) return false;
  return stream == fmt::format("{}:{}", info.st_dev, info.st_ino);
}

std::string_view PriorityPrefix(LogLevel level) {
  static const std::string stream = GetEnv("JOURNAL_STREAM");
  if (!IsJournal(STDERR_FILENO, stream)) return "";
  constexpr std::string_view kPriorities[] = {"<6>", "<4>", "<3>"};  // those of syslog(3)
  return kPriorities[static_cast<std::size_t>(level)];
}

}  // namespace carma::base
