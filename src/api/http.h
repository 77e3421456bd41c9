// An HTTP/1.1 server and client for JSON over a Unix socket or loopback TCP. Does not expose
// Boost.Beast.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace boost::asio {
class io_context;
}

namespace carma::api {

inline constexpr std::size_t kMaxBodyBytes = 64 << 20;
inline constexpr std::size_t kMaxHeaderBytes = 16 << 10;
inline constexpr std::size_t kMaxConnections = 1024;

// The user and process at the other end of a connection, as reported by the kernel. TCP requests
// have no peer.
struct Peer {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::int32_t pid = 0;
  std::vector<std::uint32_t> groups = {};  // supplementary groups
  std::string token_of =
      {};  // if identified by a token: the user's name when the token was created
};

struct Request {
  std::string method;  // "GET"
  std::string path;    // decoded, without the query: "/v1/tasks/42"
  std::vector<std::pair<std::string, std::string>> query;  // decoded, in order
  std::string body;
  std::optional<Peer> peer;
  // The user whose limits apply to this request, even if it came over TCP. Empty if unknown.
  // Not for access control: if a forwarder (ssh -L) sent the request, this is the forwarder's user.
  std::optional<std::uint32_t> counted_as;
  std::optional<std::string> bearer_token;
  bool accepts_gzip = false;
  std::string if_none_match;  // "ETag" of a response that the client has cached; empty: none
  std::optional<std::string> Query(std::string_view key) const;
};

struct Response {
  int status = 200;
  std::string body;  // JSON unless content_type says otherwise
  std::string content_type = "application/json";
  // Headers to add or to override, such as {"Cache-Control", "no-store"}.
  std::vector<std::pair<std::string_view, std::string>> headers = {};
};
// The response for an error, such as {"error":{"code":"not_found","message":"…"}}. The error's code
// decides the HTTP status.
Response ErrorResponse(const base::Error& error);

// Answers a request, now or later, on the loop's thread. Copies refer to the same request; only the
// first answer counts. If the last copy is destroyed without answering, the client gets status 500.
// Answering a client that has disconnected is harmless.
class Responder {
 public:
  using Send = std::function<void(Response)>;
  explicit Responder(Send send);
  void operator()(Response response) const;
  // Answers with the response, or with ErrorResponse() if there is an error.
  void operator()(Result<Response> answer) const;

 private:
  struct Once;
  std::shared_ptr<Once> once_;
};
using Handler = std::function<void(Request, Responder)>;

// Runs on the thread of the given loop. The destructor stops the server and removes its socket.
// Rejects requests whose Host header does not name this machine. Also rejects a browser's request
// unless the server's own page sent it; otherwise a page of another site could act with the user's
// privileges.
class Server {
 public:
  // mode: file mode of the socket. group: the socket's group; the default is this process's own.
  // Replaces a stale socket file of this user. Returns kConflict if another process listens on the
  // socket or the path is not a socket; kDenied if the socket belongs to another user; kInvalid if
  // the path is too long; or kIo.
  static Result<std::unique_ptr<Server>> ListenUnix(boost::asio::io_context& loop,
                                                    const std::string& path, unsigned mode,
                                                    Handler handler,
                                                    std::optional<std::uint32_t> group = {});
  // Listens on the loopback addresses only. Requests over TCP have no peer.
  static Result<std::unique_ptr<Server>> ListenTcp(boost::asio::io_context& loop,
                                                   std::uint16_t port, Handler handler);
  virtual ~Server() = default;
  virtual std::uint16_t port() const = 0;  // TCP only
  // Recreates the file of a Unix socket if it was removed, for example by a program that cleans up
  // /tmp. Open connections are not affected. Returns true if the file was recreated, or the same
  // errors as ListenUnix.
  virtual Result<bool> RestoreSocket() = 0;
};

// A blocking client on a Unix socket. It keeps one connection open.
class Client {
 public:
  explicit Client(std::string socket_path);
  ~Client();
  Client(Client&&) noexcept;
  // An error response is returned as an Error. Returns kUnavailable if there is no server (the
  // message explains what to do) or no response within timeout_s.
  Result<std::string> Call(const std::string& method, const std::string& target,
                           const std::string& body = "", int timeout_s = 60);
  Result<std::string> Get(const std::string& target, int timeout_s = 60) {
    return Call("GET", target, "", timeout_s);
  }
  // True if the last call failed because the connection was closed before the response arrived. The
  // server may still have carried out the call.
  bool cut() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace carma::api
