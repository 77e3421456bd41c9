#include "base/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

namespace carma::base {

void OpenStandardStreams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    // It gets this number, the lowest free one. Not closed on exec: children need it too.
    if (::fcntl(fd, F_GETFD) < 0) ::open("/dev/null", O_RDWR);
  }
}

}  // namespace carma::base
