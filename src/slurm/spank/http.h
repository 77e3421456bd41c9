// One HTTP request to carmad over its Unix socket, within a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace carma::slurm {

struct Reply {
  int status = 0;  // 0: none came
  std::string body;
  std::string trouble;  // why none came: "connecting to /run/…: No such file or directory"
  bool gone = false;    // nobody listens there: it restarts, or is not there at all
};

// Time that no step of the clock changes.
std::int64_t MonotonicMs();

// The body as JSON; none where it is empty. Returns within the seconds.
Reply CallCarmad(const std::string& socket, std::string_view method, std::string_view target,
                 std::string_view body, int seconds);
// An answer as it came over the wire, to its end. Empty body and status 0: it is none.
Reply ParseReply(std::string_view text);

}  // namespace carma::slurm
