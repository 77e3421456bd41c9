// The client side of http.h. It uses sockets directly, without an event loop, because `carma` must
// start within a millisecond.
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "api/http.h"
#include "api/listening.h"
#include "base/json.h"
#include "base/text.h"
#include "base/try.h"
#include "base/unique_fd.h"

namespace carma::api {
namespace {

using Deadline = std::chrono::steady_clock::time_point;

constexpr std::size_t kMaxAnswerHeader = 64 << 10;
// Large enough for a list of all tasks. Anything larger is not a valid response.
constexpr std::size_t kMaxAnswerBytes = std::size_t{1} << 30;

struct Answer {
  int status = 0;
  std::size_t length = 0;
  bool keep_alive = true;
};

std::unexpected<base::Error> NoAnswer(int timeout_s) {
  return Unavailable("carmad did not respond within {} s", timeout_s);
}

std::unexpected<base::Error> BrokenAnswer(std::string_view what) {
  return Fail(ErrorCode::kIo, "response from carmad: {}", what);
}

// Waits until the socket is ready. Returns false if the deadline passes first.
bool WaitFor(int fd, short events, Deadline deadline) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() < 0) return false;
    pollfd poll{.fd = fd, .events = events};
    const int ready =
        ::poll(&poll, 1, static_cast<int>(std::min<std::int64_t>(left.count() + 1, 1 << 30)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR)
      return true;  // the read or write that follows reports the error
  }
}

Result<Answer> ParseHeader(std::string_view header) {
  Answer answer;
  std::optional<std::size_t> length;
  std::string_view status_line = header.substr(0, header.find("\r\n"));
  const auto words = base::SplitWords(status_line);
  const auto status = words.size() > 1 ? base::ParseInt(words[1]) : std::nullopt;
  if (!status_line.starts_with("HTTP/1.") || !status || *status < 100 || *status > 599) {
    return BrokenAnswer(
        fmt::format("expected HTTP/1.1, got '{}'", base::Printable(status_line, 60)));
  }
  answer.status = static_cast<int>(*status);
  for (std::string_view line : base::Split(header.substr(status_line.size()), '\n')) {
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string name = base::ToLower(base::Trim(line.substr(0, colon)));
    const std::string_view value = base::Trim(line.substr(colon + 1));
    if (name == "content-length") {
      const auto number = base::ParseInt(value);
      if (!number || *number < 0) return BrokenAnswer("bad Content-Length");
      length = static_cast<std::size_t>(*number);
    } else if (name == "connection") {
      answer.keep_alive = base::ToLower(value) != "close";
    }
  }
  if (!length) return BrokenAnswer("no Content-Length");
  if (*length > kMaxAnswerBytes) return BrokenAnswer("larger than 1 GiB");
  answer.length = *length;
  return answer;
}

base::Error ErrorOf(const Answer& answer, const std::string& body) {
  const base::Error unknown{ErrorCode::kIo,
                            fmt::format("carmad returned HTTP status {}", answer.status)};
  const auto json = base::ParseJson(body);
  if (!json || !json->is_object() || !json->contains("error")) return unknown;
  base::JsonReader in((*json)["error"], "/error");
  std::string code;
  std::string message;
  in.Get("code", code);
  in.Get("message", message, 1 << 20);
  if (in.error() || message.empty()) return unknown;
  return {base::ParseErrorCode(code), message};
}

}  // namespace

struct Client::Impl {
  std::string path;
  base::UniqueFd fd;
  bool cut = false;  // see Client::cut

  base::Error NotRunning() const {
    const bool system = path.starts_with("/run/carma/") || path.starts_with("/var/run/carma/");
    if (system) {
      const std::string_view who =
          ::geteuid() == 0 ? "start it" : "ask the administrator to start it";
      return {ErrorCode::kUnavailable,
              fmt::format("the server's carmad is not running at {} (tasks continue; {} with "
                          "'systemctl start carmad')",
                          path, who)};
    }
    std::error_code error;
    const std::string full = std::filesystem::absolute(path, error).lexically_normal();
    // Without --socket, a user's carmad listens in the folder carma of $XDG_RUNTIME_DIR or /tmp.
    const std::string own =
        "carmad --background" + (path.ends_with("/carma/carmad.sock") ? "" : " --socket " + full);
    return {ErrorCode::kUnavailable,
            fmt::format("carmad is not running at {} (start it with '{}')", path, own)};
  }

  // The daemon sends nothing on an idle connection. If the socket is readable, the daemon has
  // closed the connection.
  bool Usable() const {
    if (!fd) return false;
    pollfd poll{.fd = fd.get(), .events = POLLIN};
    return ::poll(&poll, 1, 0) == 0;
  }

  Result<Unit> Connect() {
    const sockaddr_un address = CARMA_TRY(UnixAddress(path));
    fd.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!fd) return FailErrno(errno, "socket");
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      const int error = errno;
      fd.reset();
      if (error == ENOENT || error == ECONNREFUSED || error == ENOTDIR)
        return std::unexpected(NotRunning());
      if (error == ENOTSOCK || error == EPROTOTYPE)
        return Invalid(path + " is not a Unix stream socket");
      return FailErrno(error, "connect to " + path);
    }
    return CheckOwner();
  }

  // The listener receives this user's environment and scripts, so it must run as root or as this
  // user.
  Result<Unit> CheckOwner() {
    ucred listener{};
    socklen_t size = sizeof listener;
    if (::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &listener, &size) != 0)
      return FailErrno(errno, "owner of " + path);
    if (listener.uid == 0 || listener.uid == ::geteuid()) return Unit{};
    fd.reset();
    return Denied("socket {} is served by UID {} instead of root or UID {}, so nothing was sent",
                  path, listener.uid, ::geteuid());
  }

  // A closed connection is not reported here, because the daemon may have rejected the request
  // early, and its answer can still be read.
  Result<Unit> Write(std::string_view data, Deadline deadline, int timeout_s) {
    while (!data.empty()) {
      const ssize_t n = ::send(fd.get(), data.data(), data.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n >= 0) {
        data.remove_prefix(static_cast<std::size_t>(n));
      } else if (errno == EAGAIN) {
        if (!WaitFor(fd.get(), POLLOUT, deadline)) return NoAnswer(timeout_s);
      } else if (errno == EPIPE || errno == ECONNRESET) {
        return Unit{};
      } else if (errno != EINTR) {
        return FailErrno(errno, "send to " + path);
      }
    }
    return Unit{};
  }

  // Appends at least one byte to `text`, or returns an error.
  Result<Unit> ReadMore(std::string& text, std::size_t wanted, Deadline deadline, int timeout_s) {
    for (;;) {
      if (!WaitFor(fd.get(), POLLIN, deadline)) return NoAnswer(timeout_s);
      const std::size_t old = text.size();
      text.resize(old + wanted);
      const ssize_t n = ::recv(fd.get(), text.data() + old, wanted, MSG_DONTWAIT);
      text.resize(old + static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
      if (n > 0) return Unit{};
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (n < 0 && errno != ECONNRESET) return FailErrno(errno, "read from " + path);
      cut = true;
      return Unavailable("carmad at {} closed the connection before responding", path);
    }
  }

  Result<std::string> ReadAnswer(Deadline deadline, int timeout_s) {
    std::string text;
    std::size_t end;
    for (;;) {
      end = text.find("\r\n\r\n");
      if (end != std::string::npos) {
        if (!text.starts_with("HTTP/1.1 100")) break;
        text.erase(0, end + 4);
        continue;
      }
      if (text.size() > kMaxAnswerHeader) return BrokenAnswer("its header is larger than 64 KiB");
      CARMA_TRY(ReadMore(text, 16 << 10, deadline, timeout_s));
    }
    const auto answer = CARMA_TRY(ParseHeader(std::string_view(text).substr(0, end)));
    text.erase(0, end + 4);
    text.reserve(answer.length);
    while (text.size() < answer.length) {
      const std::size_t wanted = std::min<std::size_t>(answer.length - text.size(), 1 << 20);
      CARMA_TRY(ReadMore(text, wanted, deadline, timeout_s));
    }
    if (text.size() > answer.length)
      return BrokenAnswer("its body is longer than its Content-Length");
    if (!answer.keep_alive) fd.reset();
    if (answer.status >= 400) return std::unexpected(ErrorOf(answer, text));
    return text;
  }
};

Client::Client(std::string socket_path) : impl_(std::make_unique<Impl>()) {
  impl_->path = std::move(socket_path);
}
Client::~Client() = default;
Client::Client(Client&&) noexcept = default;

bool Client::cut() const {
  return impl_->cut;
}

Result<std::string> Client::Call(const std::string& method, const std::string& target,
                                 const std::string& body, int timeout_s) {
  const Deadline deadline = std::chrono::steady_clock::now() + std::chrono::seconds(timeout_s);
  if (body.size() > kMaxBodyBytes)
    return Invalid("request of {} bytes is too large; the limit is {} bytes", body.size(),
                   kMaxBodyBytes);
  impl_->cut = false;
  if (!impl_->Usable()) CARMA_TRY(impl_->Connect());
  std::string request = fmt::format("{} {} HTTP/1.1\r\nHost: localhost\r\n", method, target);
  if (method != "GET" || !body.empty())
    request += fmt::format("Content-Type: application/json\r\nContent-Length: {}\r\n", body.size());
  request += "\r\n";
  request += body;
  auto answer = [&]() -> Result<std::string> {
    CARMA_TRY(impl_->Write(request, deadline, timeout_s));
    return impl_->ReadAnswer(deadline, timeout_s);
  }();
  // After a failed call, part of the response may still be unread, so the connection is closed.
  // This is unnecessary after an error response from carmad, but a new connection is cheap.
  if (!answer) impl_->fd.reset();
  return answer;
}

}  // namespace carma::api
