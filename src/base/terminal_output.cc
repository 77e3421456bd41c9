#include "base/terminal_output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <string>

#include "base/unique_fd.h"

namespace carma::base {

void NeverWaitForTerminal(int fd) {
  if (::isatty(fd) == 0) return;
  // Opened again, because O_NONBLOCK on the descriptor from the shell would also apply to the
  // shell.
  const std::string path = fmt::format("/proc/self/fd/{}", fd);
  const UniqueFd own(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (own) ::dup2(own.get(), fd);
}

}  // namespace carma::base
