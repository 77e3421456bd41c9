#include "slurm/spank/http.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "slurm/spank/words.h"

namespace carma::slurm {
namespace {

constexpr std::size_t kMostBytes = 1 << 20;

class Connection {
 public:
  Connection(const std::string& path, int seconds)
      : path_(path), deadline_ms_(MonotonicMs() + seconds * 1000LL) {}
  ~Connection() {
    if (fd_ >= 0) ::close(fd_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  bool Open() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path_.size() >= sizeof address.sun_path) return Fail("connecting to", ENAMETOOLONG);
    std::memcpy(address.sun_path, path_.c_str(), path_.size() + 1);
    fd_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd_ < 0) return Fail("connecting to", errno);
    // connect() returns EAGAIN if the backlog is full. poll() cannot wait for room in the backlog.
    while (::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      if (errno == ENOENT || errno == ECONNREFUSED) gone_ = true;
      if (errno != EAGAIN && errno != EINTR) return Fail("connecting to", errno);
      constexpr int kAgainMs = 10;
      if (MonotonicMs() >= deadline_ms_) return Fail("connecting to", ETIMEDOUT);
      ::poll(nullptr, 0, kAgainMs);
    }
    return true;
  }

  bool Send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent > 0) {
        text.remove_prefix(static_cast<std::size_t>(sent));
      } else if (errno != EAGAIN && errno != EINTR) {
        return Fail("writing to", errno);
      } else if (!Await(POLLOUT)) {
        return Fail("writing to", ETIMEDOUT);
      }
    }
    return true;
  }

  // Reads to the end of the stream.
  bool Receive(std::string& text) {
    char buffer[16'384];
    for (;;) {
      const ssize_t count = ::recv(fd_, buffer, sizeof buffer, 0);
      if (count == 0) return true;
      if (count > 0) {
        text.append(buffer, static_cast<std::size_t>(count));
        if (text.size() > kMostBytes) return Fail("reading from", EMSGSIZE);
      } else if (errno != EAGAIN && errno != EINTR) {
        return Fail("reading from", errno);
      } else if (!Await(POLLIN)) {
        return Fail("reading from", ETIMEDOUT);
      }
    }
  }

  const std::string& trouble() const { return trouble_; }
  bool gone() const { return gone_; }

 private:
  bool Await(short events) {
    pollfd ready{fd_, events, 0};
    for (;;) {
      const long long left_ms = deadline_ms_ - MonotonicMs();
      if (left_ms <= 0) return false;
      const int count = ::poll(&ready, 1, static_cast<int>(left_ms));
      if (count > 0) return true;
      if (count == 0 || errno != EINTR) return false;
    }
  }
  bool Fail(const char* doing, int error) {
    trouble_ = std::string(doing) + " " + path_ + ": " + std::strerror(error);
    return false;
  }

  const std::string path_;
  const long long deadline_ms_;
  int fd_ = -1;
  bool gone_ = false;
  std::string trouble_;
};

}  // namespace

std::int64_t MonotonicMs() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * std::int64_t{1000} + now.tv_nsec / 1'000'000;
}

Reply ParseReply(std::string_view text) {
  constexpr std::string_view kFront = "HTTP/1.1 ", kEnd = "\r\n\r\n";
  Reply reply;
  const std::size_t end = text.find(kEnd);
  if (text.substr(0, kFront.size()) != kFront || end == std::string_view::npos) return reply;
  const auto status = Whole(text.substr(kFront.size(), 3), 100, 599);
  if (!status) return reply;
  reply.status = static_cast<int>(*status);
  reply.body = text.substr(end + kEnd.size());
  return reply;
}

Reply CallCarmad(const std::string& socket, std::string_view method, std::string_view target,
                 std::string_view body, int seconds) {
  std::string request(method);
  request += " ";
  request += target;
  request += " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
  if (!body.empty()) request += "Content-Type: application/json\r\n";
  request += "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n";
  request += body;
  Connection connection(socket, seconds);
  std::string text;
  Reply reply;
  if (connection.Open() && connection.Send(request) && connection.Receive(text)) {
    reply = ParseReply(text);
    if (reply.status == 0) reply.trouble = "reading from " + socket + ": not an HTTP response";
  } else {
    reply.trouble = connection.trouble();
    reply.gone = connection.gone();
  }
  return reply;
}

}  // namespace carma::slurm
