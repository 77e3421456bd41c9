#include "base/line_socket.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "base/clock.h"

namespace carma::base {

bool LineSocket::Send(std::string_view line) const {
  std::string rest(line);
  rest += '\n';
  while (!rest.empty()) {
    const ssize_t sent = ::send(fd_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    rest.erase(0, static_cast<std::size_t>(sent));
  }
  return true;
}

std::optional<std::string> LineSocket::TakeLine() {
  const std::size_t end = pending_.find('\n');
  if (end == pending_.npos) return std::nullopt;
  std::string line = pending_.substr(0, end);
  pending_.erase(0, end + 1);
  return line;
}

Result<std::string> LineSocket::Receive(std::chrono::milliseconds timeout) {
  const std::int64_t until_ns = BootTimeNs() + timeout.count() * 1'000'000;
  while (true) {
    if (std::optional<std::string> line = TakeLine()) return std::move(*line);
    if (pending_.size() > max_line_) return Invalid("a line is longer than the limit");
    const std::int64_t left_ms = (until_ns - BootTimeNs() + 999'999) / 1'000'000;
    pollfd ready{fd_.get(), POLLIN, 0};
    const auto wait_ms = static_cast<int>(std::clamp<std::int64_t>(left_ms, 0, 1'000'000));
    const int count = ::poll(&ready, 1, wait_ms);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return FailErrno(errno, "poll");
    if (count == 0 && left_ms <= wait_ms) return Unavailable("no response in time");
    if (count == 0) continue;
    char bytes[16'384];
    const ssize_t got = ::recv(fd_.get(), bytes, sizeof bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return NotFound("the connection ended");
    pending_.append(bytes, static_cast<std::size_t>(got));
  }
}

}  // namespace carma::base
