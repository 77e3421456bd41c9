// Sends one HTTP request to carmad over its Unix socket, with a time limit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace carma::slurm {

struct Reply {
  int status = 0;  // 0: no response
  std::string body;
  std::string
      trouble;  // why there is no response: "connecting to /run/…: No such file or directory"
  bool gone = false;  // nothing listens, because carmad is restarting or not installed
};

std::int64_t MonotonicMs();

// Sends the body as JSON, or no body if it is empty. Returns within `seconds`.
Reply CallCarmad(const std::string& socket, std::string_view method, std::string_view target,
                 std::string_view body, int seconds);
// Parses a complete HTTP response. Returns status 0 and an empty body if the text is not a
// response.
Reply ParseReply(std::string_view text);

}  // namespace carma::slurm
