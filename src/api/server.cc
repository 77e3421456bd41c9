// The server side of http.h. No other file uses Boost.Beast.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <map>
#include <memory>
#include <vector>

#include "api/http.h"
#include "api/listening.h"
#include "api/url.h"
#include "base/text.h"
#include "base/try.h"

namespace carma::api {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Protocol = asio::generic::stream_protocol;  // one instantiation for Unix and TCP sockets
using Acceptor = asio::basic_socket_acceptor<Protocol>;

// Time limits for receiving a whole header or body and for sending the response. They apply even if
// the client keeps sending slowly.
constexpr std::chrono::seconds kHeaderTimeout{60};
constexpr std::chrono::seconds kBodyTimeout{60};
constexpr std::chrono::seconds kWriteTimeout{60};
// Keeps one user from taking all connections.
constexpr std::size_t kMaxConnectionsPerUser = kMaxConnections / 2;
// Connections reserved for root and the daemon's user, so that other users cannot lock them out.
constexpr std::size_t kReservedConnections = 64;
// Limits on the memory for request bodies that are still being received or processed, and for
// responses that clients have not read yet. Small bodies and responses are not counted.
constexpr std::size_t kSmallBodyBytes = 256 << 10;
constexpr std::size_t kMaxBodyBytesPerUser = kMaxBodyBytes;
constexpr std::size_t kMaxBodyBytesInAll = 8 * kMaxBodyBytes;
// Delay before the next accept() when no descriptors are left. Retrying immediately would only
// waste CPU time.
constexpr std::chrono::milliseconds kAcceptRetry{100};

class Session;

// State shared by a server's sessions. A session with pending operations may outlive the hub, so
// the server calls Session::Abandon() before it destroys the hub.
struct Hub {
  Handler handler;
  bool tcp = false;
  // Owns the sessions while their connections are open. Uses shared_ptr, because pending operations
  // keep a session alive until they have been cancelled.
  std::map<Session*, std::shared_ptr<Session>> sessions;
  std::map<std::uint32_t, std::size_t> per_user;
  std::size_t body_bytes = 0;
  std::map<std::uint32_t, std::size_t> body_bytes_per_user;
};

// Returns the groups that the peer had when it connected.
std::vector<std::uint32_t> GroupsOf(int fd) {
  std::vector<std::uint32_t> groups(64);
  socklen_t size = static_cast<socklen_t>(groups.size() * sizeof groups[0]);
  int failed = 0;
  while ((failed = ::getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &size)) != 0 &&
         errno == ERANGE && size > groups.size() * sizeof groups[0]) {
    groups.resize(size / sizeof groups[0]);
  }
  groups.resize(failed != 0 ? 0 : size / sizeof groups[0]);
  return groups;
}

std::optional<Peer> PeerOf(int fd) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return std::nullopt;
  return Peer{.uid = credentials.uid,
              .gid = credentials.gid,
              .pid = credentials.pid,
              .groups = GroupsOf(fd)};
}

// Protects against DNS rebinding, in which a malicious site makes its own name resolve to 127.0.0.1
// and sends requests from the user's browser to this daemon (directly or through ssh -L). Their
// Host header still contains the site's name.
bool IsLoopbackHost(std::string_view host) {
  const std::size_t from = host.starts_with("[::1]") ? 5 : 0;
  const std::string_view name = host.substr(0, host.find(':', from));
  return name == "localhost" || name == "127.0.0.1" || name == "[::1]" || name.empty();
}

// Returns an error message if a browser sent this request for another site's page, otherwise "".
// Only browsers send Origin and Sec-Fetch-Site. GET and HEAD are checked for Origin only.
std::string_view BrowserObjection(const http::request<http::string_body>& request) {
  const std::string_view origin = request[http::field::origin];
  const std::string_view host = request[http::field::host];
  const bool own = origin.starts_with("http://") && origin.substr(7) == host;
  if (!origin.empty() && !own) return "requests from other sites are refused (Origin)";
  const std::string_view site = request["Sec-Fetch-Site"];
  const bool reads = request.method() == http::verb::get || request.method() == http::verb::head;
  if (!reads && (site == "cross-site" || site == "same-site"))
    return "requests from other sites are refused (Sec-Fetch-Site)";
  return "";
}

// True if the list of codings contains "gzip" with a weight other than 0.
bool AcceptsGzip(std::string_view codings) {
  for (const std::string_view each : base::Split(codings, ',')) {
    const std::vector<std::string_view> parts = base::Split(each, ';');
    if (!beast::iequals(base::Trim(parts[0]), "gzip")) continue;
    return parts.size() < 2 || base::Trim(parts[1]).find_first_of("123456789") != std::string::npos;
  }
  return false;
}

Response Refusal(int status, ErrorCode code, std::string message) {
  Response response = ErrorResponse({code, std::move(message)});
  response.status = status;
  return response;
}

Response ParseFailure(const beast::error_code& error) {
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return Refusal(431, ErrorCode::kInvalid,
                   fmt::format("the request header is larger than {} bytes", kMaxHeaderBytes));
  }
  if (error == http::error::body_limit) {
    return Refusal(413, ErrorCode::kInvalid,
                   fmt::format("the request body is larger than {} bytes", kMaxBodyBytes));
  }
  return Refusal(400, ErrorCode::kInvalid, "not an HTTP/1.1 request: " + error.message());
}

// One connection. Reads a request, passes it to the handler, writes the response, and repeats.
class Session : public std::enable_shared_from_this<Session> {
 public:
  // counted_as: the connection and its bytes count towards this user's limits.
  Session(Protocol::socket socket, Hub* hub, std::optional<Peer> peer,
          std::optional<std::uint32_t> counted_as)
      : stream_(std::move(socket)), hub_(hub), peer_(peer), counted_as_(counted_as) {}

  const std::optional<Peer>& peer() const { return peer_; }

  void ReadRequest() {
    parser_.emplace();
    parser_->header_limit(kMaxHeaderBytes);
    parser_->body_limit(kMaxBodyBytes);
    stream_.expires_after(kHeaderTimeout);
    http::async_read_header(stream_, buffer_, *parser_,
                            [self = shared_from_this()](beast::error_code error, std::size_t) {
                              self->OnHeader(error);
                            });
  }

  // Sends this response without reading the request, then closes the connection.
  void Refuse(Response response) {
    keep_alive_ = false;
    Answer(std::move(response));
  }

  // Called when the server is destroyed. After this call, the session no longer uses the server.
  void Abandon() {
    hub_ = nullptr;
    Close();
  }

 private:
  void OnHeader(const beast::error_code& error) {
    if (!hub_) return;
    if (error) return OnReadError(error);
    if (!Reserve(AnnouncedBytes())) return Refuse(TooMuchAtOnce());
    stream_.expires_after(kBodyTimeout);
    if (beast::iequals(parser_->get()[http::field::expect], "100-continue")) {
      static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
      asio::async_write(stream_, asio::buffer(kContinue),
                        [self = shared_from_this()](beast::error_code failed, std::size_t) {
                          if (failed) return self->Leave();
                          self->ReadBody();
                        });
      return;
    }
    ReadBody();
  }

  // Counts the declared size immediately, so that a user cannot exhaust the memory with incomplete
  // bodies.
  std::size_t AnnouncedBytes() const {
    const auto length = parser_->content_length();
    if (length) return static_cast<std::size_t>(std::min<std::uint64_t>(*length, kMaxBodyBytes));
    return parser_->chunked() ? kMaxBodyBytes : 0;
  }

  bool Reserve(std::size_t bytes) {
    if (bytes <= kSmallBodyBytes) return true;
    std::size_t& own = hub_->body_bytes_per_user[counted_as_.value_or(0)];
    const bool full = counted_as_.value_or(0) != 0 && own + bytes > kMaxBodyBytesPerUser;
    if (full || hub_->body_bytes + bytes > kMaxBodyBytesInAll) return false;
    body_bytes_ = bytes;
    hub_->body_bytes += bytes;
    own += bytes;
    return true;
  }

  void Release(Hub& hub) {
    const auto own = hub.body_bytes_per_user.find(counted_as_.value_or(0));
    hub.body_bytes -= body_bytes_;
    if (own != hub.body_bytes_per_user.end() && (own->second -= body_bytes_) == 0)
      hub.body_bytes_per_user.erase(own);
    body_bytes_ = 0;
  }

  static Response TooMuchAtOnce() {
    return ErrorResponse({ErrorCode::kUnavailable,
                          "too many large requests or responses at once; try again when your other "
                          "requests have finished"});
  }

  static Response DoneButTooMuch() {
    return ErrorResponse({ErrorCode::kUnavailable,
                          "the request was carried out, but its result is too large to return now; "
                          "do not repeat it"});
  }

  void ReadBody() {
    http::async_read(stream_, buffer_, *parser_,
                     [self = shared_from_this()](beast::error_code error, std::size_t) {
                       self->OnRequest(error);
                     });
  }

  void OnReadError(const beast::error_code& error) {
    const bool parsing = error.category() == make_error_code(http::error::end_of_stream).category();
    if (!parsing || error == http::error::end_of_stream || error == http::error::partial_message) {
      return Leave();  // closed, timed out or interrupted, so no client is waiting
    }
    Refuse(ParseFailure(error));
  }

  void OnRequest(const beast::error_code& error) {
    if (!hub_) return;
    if (error) return OnReadError(error);
    auto message = parser_->release();
    keep_alive_ = message.keep_alive();
    head_only_ = message.method() == http::verb::head;
    reads_ = head_only_ || message.method() == http::verb::get;
    if (message.count(http::field::host) > 1)
      return Refuse(ErrorResponse({ErrorCode::kInvalid, "expected exactly one Host header"}));
    if (!IsLoopbackHost(message[http::field::host]))
      return Refuse(ErrorResponse({ErrorCode::kDenied, "the Host header must name localhost"}));
    if (const std::string_view why = BrowserObjection(message); !why.empty())
      return Refuse(ErrorResponse({ErrorCode::kDenied, std::string(why)}));
    auto target = ParseTarget(message.target());
    if (!target) return Answer(ErrorResponse(target.error()));
    Request request{.method = head_only_ ? "GET" : std::string(message.method_string()),
                    .path = std::move(target->path),
                    .query = std::move(target->query),
                    .body = std::move(message.body()),
                    .peer = peer_,
                    .counted_as = counted_as_,
                    .bearer_token = BearerToken(message[http::field::authorization]),
                    .accepts_gzip = AcceptsGzip(message[http::field::accept_encoding]),
                    .if_none_match = std::string(message[http::field::if_none_match])};
    stream_.expires_never();  // a long poll may take any amount of time
    // A weak pointer, so that a long poll does not keep the connection alive after its client has
    // disconnected.
    hub_->handler(std::move(request), Responder([weak = weak_from_this()](Response response) {
                    if (auto self = weak.lock()) self->Answer(std::move(response));
                  }));
    if (hub_ && !writing_) WatchPeer();
  }

  static std::optional<std::string> BearerToken(std::string_view header) {
    constexpr std::string_view kScheme = "Bearer ";
    if (header.size() <= kScheme.size() || !beast::iequals(header.substr(0, 7), kScheme))
      return std::nullopt;
    return std::string(base::Trim(header.substr(kScheme.size())));
  }

  // Frees the connection if the client hangs up before it gets its response.
  void WatchPeer() {
    stream_.socket().async_wait(Protocol::socket::wait_read,
                                [self = shared_from_this()](beast::error_code error) {
                                  if (error || !self->hub_ || self->writing_) return;
                                  pollfd poll{.fd = self->stream_.socket().native_handle()};
                                  // Ignores a half-close, because the client may still be reading.
                                  if (::poll(&poll, 1, 0) > 0 && (poll.revents & POLLHUP) != 0)
                                    self->Leave();
                                });
  }

  void Answer(Response response) {
    if (!hub_ || writing_) return;
    writing_ = true;
    Release(*hub_);
    // A response counts towards the limit on bodies, because it is kept until the client reads it.
    if (!Reserve(response.body.size())) response = reads_ ? TooMuchAtOnce() : DoneButTooMuch();
    beast::error_code ignored;
    stream_.socket().cancel(ignored);  // ends WatchPeer
    response_ = {};
    response_.version(11);
    response_.result(static_cast<unsigned>(response.status));
    response_.set(http::field::cache_control, "no-store");
    response_.set("X-Content-Type-Options", "nosniff");
    response_.set("Cross-Origin-Resource-Policy", "same-origin");
    for (const auto& [name, value] : response.headers) response_.set(name, value);
    response_.keep_alive(keep_alive_);
    const bool as_before =
        response_.result() == http::status::not_modified;  // "not modified" has no body
    if (!as_before) {
      response_.set(http::field::content_type, response.content_type);
      response_.content_length(response.body.size());
    }
    if (!head_only_ && !as_before) response_.body() = std::move(response.body);
    stream_.expires_after(kWriteTimeout);
    http::async_write(stream_, response_,
                      [self = shared_from_this()](beast::error_code error, std::size_t) {
                        self->OnWritten(error);
                      });
  }

  void OnWritten(const beast::error_code& error) {
    if (!hub_) return;
    writing_ = false;
    response_ = {};  // frees a large response while the connection is idle
    Release(*hub_);
    if (error || !keep_alive_) return Leave();
    ReadRequest();
  }

  void Close() {
    beast::error_code ignored;
    stream_.socket().shutdown(asio::socket_base::shutdown_send, ignored);
    stream_.socket().close(ignored);
  }

  void Leave() {
    if (!hub_) return;
    Hub* hub = std::exchange(hub_, nullptr);
    Close();
    Release(*hub);
    if (counted_as_ && --hub->per_user[*counted_as_] == 0) hub->per_user.erase(*counted_as_);
    hub->sessions.erase(this);  // the caller's shared_ptr keeps this session alive until it returns
  }

  beast::basic_stream<Protocol> stream_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  http::response<http::string_body> response_;
  Hub* hub_;  // null once closed
  std::optional<Peer> peer_;
  std::optional<std::uint32_t> counted_as_;
  std::size_t body_bytes_ = 0;  // counted for the current request
  bool keep_alive_ = true;
  bool head_only_ = false;
  bool reads_ = true;
  bool writing_ = false;
};

class BeastServer : public Server {
 public:
  BeastServer(asio::io_context& loop, std::vector<Listening> sockets, Handler handler)
      : loop_(loop) {
    hub_.handler = std::move(handler);
    hub_.tcp = sockets.front().family != AF_UNIX;
    for (Listening& each : sockets) OpenDoor(std::move(each));
  }

  ~BeastServer() override {
    *alive_ = false;
    beast::error_code ignored;
    for (const std::unique_ptr<Door>& door : doors_) door->acceptor.close(ignored);
    for (auto& [raw, session] : hub_.sessions) session->Abandon();
    struct stat now {};
    // Leave the socket file alone if another daemon has replaced it.
    if (!place_.path.empty() && ::lstat(place_.path.c_str(), &now) == 0 &&
        now.st_ino == place_.bound.st_ino && now.st_dev == place_.bound.st_dev) {
      ::unlink(place_.path.c_str());
    }
  }

  std::uint16_t port() const override { return port_; }
  void set_port(std::uint16_t port) { port_ = port; }
  void set_place(UnixPlace place) { place_ = std::move(place); }

  Result<bool> RestoreSocket() override {
    struct stat now {};
    if (::lstat(place_.path.c_str(), &now) == 0 || errno != ENOENT) return false;
    Listening listening = CARMA_TRY(ListenOnPath(place_));
    // The old socket stays open for clients that have connected to it but have not been accepted
    // yet.
    OpenDoor(std::move(listening));
    return true;
  }

 private:
  struct Door {
    Door(asio::io_context& loop, Listening socket)
        : acceptor(loop, Protocol(socket.family, 0), socket.fd.release()), retry(loop) {}
    Acceptor acceptor;
    asio::steady_timer retry;
  };

  void OpenDoor(Listening socket) {
    doors_.push_back(std::make_unique<Door>(loop_, std::move(socket)));
    Accept(*doors_.back());
  }

  void Accept(Door& door) {
    door.acceptor.async_accept(
        [this, &door, alive = alive_](beast::error_code error, Protocol::socket socket) {
          if (!*alive) return;
          if (!error) {
            Admit(std::move(socket));
            return Accept(door);
          }
          if (error == asio::error::operation_aborted) return;
          door.retry.expires_after(kAcceptRetry);
          door.retry.async_wait([this, &door, alive](beast::error_code cancelled) {
            if (*alive && !cancelled) Accept(door);
          });
        });
  }

  void Admit(Protocol::socket socket) {
    const std::optional<Peer> peer = hub_.tcp ? std::nullopt : PeerOf(socket.native_handle());
    if (!hub_.tcp && !peer) return;  // a Unix peer without credentials is not served
    // At twice the connection limit, new connections are closed without a response, so that
    // refusals do not pile up.
    if (hub_.sessions.size() >= 2 * kMaxConnections) return;
    const std::optional<std::uint32_t> user =
        peer ? std::optional(peer->uid) : LoopbackOwner(socket.native_handle());
    const auto known = user ? hub_.per_user.find(*user) : hub_.per_user.end();
    const bool owner = user && (*user == 0 || *user == ::geteuid());
    const bool crowded =
        hub_.sessions.size() >= kMaxConnections - (owner ? 0 : kReservedConnections) ||
        (known != hub_.per_user.end() && *user != 0 && known->second >= kMaxConnectionsPerUser);
    auto session = std::make_shared<Session>(std::move(socket), &hub_, peer, user);
    hub_.sessions.emplace(session.get(), session);
    if (user) ++hub_.per_user[*user];
    if (crowded) {
      session->Refuse(ErrorResponse({ErrorCode::kUnavailable, "too many connections"}));
    } else {
      session->ReadRequest();
    }
  }

  asio::io_context& loop_;
  Hub hub_;
  std::vector<std::unique_ptr<Door>> doors_;
  // Lets pending callbacks check whether this object still exists. Uses shared_ptr, because
  // callbacks may outlive the object.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  UnixPlace place_;  // empty path: TCP
  std::uint16_t port_ = 0;
};

}  // namespace

Result<std::unique_ptr<Server>> Server::ListenUnix(asio::io_context& loop, const std::string& path,
                                                   unsigned mode, Handler handler,
                                                   std::optional<std::uint32_t> group) {
  UnixPlace place{path, mode, group};
  Listening listening = CARMA_TRY(ListenOnPath(place));
  std::vector<Listening> sockets;
  sockets.push_back(std::move(listening));
  auto server = std::make_unique<BeastServer>(loop, std::move(sockets), std::move(handler));
  server->set_place(std::move(place));
  return server;
}

// Listens on both address families, because "localhost" may resolve to either. Otherwise another
// user could open the same port in the other family and receive requests meant for this server.
Result<std::unique_ptr<Server>> Server::ListenTcp(asio::io_context& loop, std::uint16_t port,
                                                  Handler handler) {
  constexpr int kTries = 20;  // to find a port that is free in both families
  for (int tries = 1;; ++tries) {
    std::uint16_t chosen = port;
    Listening four = CARMA_TRY(ListenOnLoopback(AF_INET, chosen));
    Result<Listening> six = ListenOnLoopback(AF_INET6, chosen);
    if (!six && six.error().code == ErrorCode::kConflict && port == 0 && tries < kTries) continue;
    const bool without = !six && six.error().code == ErrorCode::kNotFound;
    if (!six && !without) return std::unexpected(six.error());
    std::vector<Listening> sockets;
    sockets.push_back(std::move(four));
    if (six) sockets.push_back(*std::move(six));
    auto server = std::make_unique<BeastServer>(loop, std::move(sockets), std::move(handler));
    server->set_port(chosen);
    return server;
  }
}

}  // namespace carma::api
