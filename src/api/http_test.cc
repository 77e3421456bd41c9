// Tests a real server and real clients on a Unix socket in a temporary folder.
#include "api/http.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cstring>
#include <filesystem>
#include <future>
#include <thread>

#include "api/listening.h"
#include "base/file.h"
#include "base/json.h"
#include "base/open_files.h"
#include "base/unique_fd.h"

namespace carma::api {
namespace {

std::string NewDir() {
  std::string path = ::testing::TempDir() + "/carma-api-XXXXXX";
  EXPECT_NE(::mkdtemp(path.data()), nullptr);
  return path;
}

base::UniqueFd ConnectUnix(const std::string& path) {
  base::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_un address = UnixAddress(path).value();
  EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return fd;
}

// True if this process may open both ends of this many connections. A server without free
// descriptors makes clients wait instead of refusing them.
bool MayOpen(std::size_t connections) {
  return base::RaiseOpenFiles() >= 2 * connections + 64;
}

// Sends the text unchanged and returns everything that arrives until the server closes the
// connection.
std::string Exchange(const base::UniqueFd& fd, const std::string& text) {
  (void)::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL);  // the server may refuse midway
  std::string answer;
  char piece[4096];
  ssize_t n = 0;
  while ((n = ::recv(fd.get(), piece, sizeof piece, 0)) > 0)
    answer.append(piece, static_cast<std::size_t>(n));
  return answer;
}

// An event loop that runs one server on its own thread. OnLoop() runs a function on that thread.
class ServerFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = NewDir();
    path_ = dir_ + "/s.sock";
    thread_ = std::thread([this] { loop_.run(); });
  }

  void TearDown() override {
    OnLoop([this] {
      waiting_.clear();
      server_.reset();
    });
    work_.reset();
    loop_.stop();
    thread_.join();
    EXPECT_FALSE(base::Exists(path_)) << "the socket was left behind";
  }

  template <class F>
  void OnLoop(F work) {
    std::promise<void> done;
    boost::asio::post(loop_, [&] {
      work();
      done.set_value();
    });
    done.get_future().wait();
  }

  // Runs `work` in a child process as an unprivileged user and returns its result. First makes the
  // socket accessible to that user. Needs root.
  template <class F>
  int ExitCodeOfUser(F work) {
    EXPECT_EQ(::chmod(dir_.c_str(), 0755), 0);
    EXPECT_EQ(::chmod(path_.c_str(), 0666), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      if (::setgid(12345) != 0 || ::setuid(12345) != 0) ::_exit(9);
      ::_exit(work());
    }
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  void Listen() {
    OnLoop([this] {
      auto server =
          Server::ListenUnix(loop_, path_, 0600, [this](Request request, Responder reply) {
            Handle(std::move(request), std::move(reply));
          });
      ASSERT_TRUE(server) << server.error().message;
      server_ = std::move(*server);
    });
  }

  void Handle(Request request, Responder reply) {
    ++requests_;
    if (request.path == "/echo") {
      reply({.body = request.body});
    } else if (request.path == "/who") {
      reply({.body = std::to_string(request.peer ? request.peer->uid : 0) + " " +
                     request.bearer_token.value_or("-")});
    } else if (request.path == "/query") {
      reply({.body = request.method + " " + request.Query("a").value_or("none")});
    } else if (request.path == "/known") {
      reply({.status = request.if_none_match == "\"a\"" ? 304 : 200,
             .body = request.accepts_gzip ? "packed" : "plain",
             .headers = {{"ETag", "\"a\""}, {"Cache-Control", "no-cache"}}});
    } else if (request.path == "/wait") {
      waiting_.push_back(std::move(reply));
      if (arrived_) std::exchange(arrived_, nullptr)();
    } else if (request.path == "/drop") {
      Responder dropped = std::move(reply);
    } else if (request.path == "/big") {
      reply({.body = std::string(40 << 20, 'b')});
    } else {
      reply(ErrorResponse({ErrorCode::kNotFound, "no '" + request.path + "'"}));
    }
  }

  boost::asio::io_context loop_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      loop_.get_executor()};
  std::thread thread_;
  std::string dir_;
  std::string path_;
  std::unique_ptr<Server> server_;
  std::vector<Responder> waiting_;  // used only on the loop's thread
  std::function<void()> arrived_;   // called at the next "/wait"
  std::atomic<int> requests_ = 0;
};

TEST_F(ServerFixture, AnswersManyRequestsOnOneConnection) {
  Listen();
  Client client(path_);
  for (int i = 0; i < 100; ++i) {
    const auto answer = client.Call("POST", "/echo", std::to_string(i));
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(*answer, std::to_string(i));
  }
  EXPECT_EQ(client.Get("/query?a=x%20y").value_or(""), "GET x y");
}

TEST_F(ServerFixture, ErrorAnswersBecomeErrorsOfTheClient) {
  Listen();
  Client client(path_);
  const auto answer = client.Get("/nothing");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(answer.error().message, "no '/nothing'");
  const auto dropped = client.Get("/drop");
  ASSERT_FALSE(dropped);
  EXPECT_EQ(dropped.error().code, ErrorCode::kIo);
}

TEST_F(ServerFixture, IdentifiesThePeerAndItsToken) {
  Listen();
  Client client(path_);
  EXPECT_EQ(client.Get("/who").value_or(""), std::to_string(::geteuid()) + " -");
  const auto answer = Exchange(ConnectUnix(path_),
                               "GET /who HTTP/1.1\r\nAuthorization: bearer  s3cret \r\n"
                               "Connection: close\r\n\r\n");
  EXPECT_TRUE(answer.ends_with(" s3cret")) << answer;
}

TEST(Responder, TheFirstAnswerOfAllCopiesCounts) {
  std::vector<Response> sent;
  {
    const Responder reply([&](Response response) { sent.push_back(std::move(response)); });
    const Responder copy = reply;
    copy(Conflict("it has ended"));
    reply({.body = "too late"});
  }
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].status, 409);
  EXPECT_NE(sent[0].body.find("it has ended"), std::string::npos);
}

TEST(Responder, TheLastCopyWithoutAnAnswerSendsAnError) {
  std::vector<Response> sent;
  auto copy =
      std::make_unique<Responder>([&](Response response) { sent.push_back(std::move(response)); });
  auto reply = std::make_unique<Responder>(*copy);
  reply.reset();
  EXPECT_TRUE(sent.empty());
  copy.reset();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].status, 500);
}

TEST_F(ServerFixture, ServesManyClientsAtOnce) {
  Listen();
  std::vector<std::thread> clients;
  std::atomic<int> good = 0;
  for (int c = 0; c < 16; ++c) {
    clients.emplace_back([&, c] {
      Client client(path_);
      for (int i = 0; i < 50; ++i) {
        const std::string body(static_cast<std::size_t>(c * 997 + i), 'x');
        if (client.Call("POST", "/echo", body).value_or("") == body) ++good;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(good, 16 * 50);
}

TEST_F(ServerFixture, CarriesLargeBodiesBothWays) {
  Listen();
  Client client(path_);
  const std::string body(kMaxBodyBytes, 'x');
  const auto answer = client.Call("POST", "/echo", body);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_TRUE(*answer == body);
  EXPECT_EQ(client.Get("/big").value_or("").size(), std::size_t{40} << 20);
  const auto larger = client.Call("POST", "/echo", body + "x");
  ASSERT_FALSE(larger);
  EXPECT_EQ(larger.error().code, ErrorCode::kInvalid);
}

TEST_F(ServerFixture, RefusesBadRequestsWithOneJsonLine) {
  Listen();
  const std::pair<std::string, const char*> cases[] = {
      {"hello\r\n\r\n", "HTTP/1.1 400"},
      {"GET / HTTP/9.9\r\n\r\n", "HTTP/1.1 400"},
      {"GET /%zz HTTP/1.1\r\nConnection: close\r\n\r\n", "HTTP/1.1 400"},
      {"GET /" + std::string(kMaxHeaderBytes, 'a') + " HTTP/1.1\r\n\r\n", "HTTP/1.1 431"},
      {"GET / HTTP/1.1\r\nX: " + std::string(2 * kMaxHeaderBytes, 'a') + "\r\n\r\n",
       "HTTP/1.1 431"},
      {"POST /echo HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", "HTTP/1.1 413"},
      {"POST /echo HTTP/1.1\r\nContent-Length: -4\r\n\r\n", "HTTP/1.1 400"},
      {"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "HTTP/1.1 400"},
  };
  for (const auto& [request, status] : cases) {
    const std::string answer = Exchange(ConnectUnix(path_), request);
    EXPECT_TRUE(answer.starts_with(status)) << request.substr(0, 60) << " -> " << answer;
    const auto body = base::ParseJson(answer.substr(answer.find("\r\n\r\n") + 4));
    ASSERT_TRUE(body) << answer;
    EXPECT_EQ((*body)["error"]["code"], "invalid");
  }
  EXPECT_EQ(requests_, 0);
}

TEST_F(ServerFixture, ReadsChunkedBodiesAndExpectContinueAndHead) {
  Listen();
  EXPECT_TRUE(Exchange(ConnectUnix(path_),
                       "POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\nConnection: "
                       "close\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
                  .ends_with("\r\n\r\nabcde"));
  const std::string continued =
      Exchange(ConnectUnix(path_),
               "POST /echo HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\nConnection: "
               "close\r\n\r\nab");
  EXPECT_TRUE(continued.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200")) << continued;
  const std::string head =
      Exchange(ConnectUnix(path_), "HEAD /query?a=1 HTTP/1.1\r\nConnection: close\r\n\r\n");
  EXPECT_NE(head.find("Content-Length: 5\r\n"), std::string::npos) << head;
  EXPECT_TRUE(head.ends_with("\r\n\r\n")) << head;
}

TEST_F(ServerFixture, AnswersLaterFromTheLoop) {
  Listen();
  std::promise<void> arrived;
  arrived_ = [&] { arrived.set_value(); };
  auto answer = std::async(std::launch::async, [this] { return Client(path_).Get("/wait"); });
  arrived.get_future().wait();
  OnLoop([this] { waiting_.at(0)({.body = "now"}); });
  EXPECT_EQ(answer.get().value_or(""), "now");
}

TEST_F(ServerFixture, SurvivesAClientThatVanishesDuringALongPoll) {
  Listen();
  std::promise<void> arrived;
  arrived_ = [&] { arrived.set_value(); };
  {
    const base::UniqueFd fd = ConnectUnix(path_);
    const std::string request = "GET /wait HTTP/1.1\r\n\r\n";
    ASSERT_EQ(::send(fd.get(), request.data(), request.size(), 0),
              static_cast<ssize_t>(request.size()));
    arrived.get_future().wait();
  }
  OnLoop([] {});
  OnLoop([this] { waiting_.at(0)({.body = std::string(1 << 20, 'x')}); });
  EXPECT_EQ(Client(path_).Call("POST", "/echo", "alive").value_or(""), "alive");
}

TEST_F(ServerFixture, SurvivesAClientThatDoesNotReadItsAnswer) {
  Listen();
  {
    const base::UniqueFd fd = ConnectUnix(path_);
    const std::string request = "GET /big HTTP/1.1\r\n\r\n";
    ASSERT_GT(::send(fd.get(), request.data(), request.size(), 0), 0);
    char byte = 0;
    ASSERT_EQ(::recv(fd.get(), &byte, 1, 0), 1);
  }
  EXPECT_EQ(Client(path_).Call("POST", "/echo", "alive").value_or(""), "alive");
}

TEST_F(ServerFixture, MayEndWhileAnswersAreOutstanding) {
  Listen();
  std::promise<void> arrived;
  arrived_ = [&] { arrived.set_value(); };
  auto answer = std::async(std::launch::async, [this] { return Client(path_).Get("/wait"); });
  arrived.get_future().wait();
  OnLoop([this] { server_.reset(); });
  const auto result = answer.get();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kUnavailable);
  OnLoop([this] { waiting_.at(0)({.body = "too late"}); });
}

TEST_F(ServerFixture, ClientReconnectsAfterARestartOfTheServer) {
  Listen();
  Client client(path_);
  ASSERT_TRUE(client.Call("POST", "/echo", "1"));
  OnLoop([this] { server_.reset(); });
  const auto gone = client.Call("POST", "/echo", "2");
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(gone.error().message.find("carmad is not running at " + path_), std::string::npos);
  Listen();
  EXPECT_EQ(client.Call("POST", "/echo", "3").value_or(""), "3");
}

TEST_F(ServerFixture, ClientGivesUpAtItsDeadline) {
  Listen();
  Client client(path_);
  const auto answer = client.Call("GET", "/wait", "", 0);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kUnavailable);
}

TEST_F(ServerFixture, OneUserCannotTakeAllConnections) {
  if (::geteuid() == 0) GTEST_SKIP() << "root is not limited";
  if (!MayOpen(kMaxConnections / 2)) GTEST_SKIP() << "needs permission to open 1,088 files";
  Listen();
  std::vector<base::UniqueFd> connections;
  for (std::size_t i = 0; i < kMaxConnections / 2; ++i) connections.push_back(ConnectUnix(path_));
  const auto refused = Client(path_).Get("/who");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  connections.pop_back();
  OnLoop([] {});
  EXPECT_TRUE(Client(path_).Get("/who"));
}

TEST_F(ServerFixture, OneUserCannotFillMemoryWithBodiesThatNeverEnd) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to act as a user";
  Listen();
  ASSERT_EQ(ExitCodeOfUser([this] {
              const base::UniqueFd one = ConnectUnix(path_), other = ConnectUnix(path_);
              const std::string header = fmt::format(
                  "POST /who HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{{",
                  40 << 20);
              if (!base::WriteAll(one.get(), header) || !base::WriteAll(other.get(), header))
                return 8;
              pollfd fds[] = {{one.get(), POLLIN, 0}, {other.get(), POLLIN, 0}};
              if (::poll(fds, 2, 20'000) != 1) return 7;
              char text[64] = {};
              (void)!::read(fds[0].revents != 0 ? one.get() : other.get(), text, sizeof text - 1);
              return std::string_view(text).starts_with("HTTP/1.1 503") ? 0 : 1;
            }),
            0);
}

TEST_F(ServerFixture, ReportsThatAChangeIsDoneIfItsAnswerIsTooLarge) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to act as a user";
  Listen();
  ASSERT_EQ(ExitCodeOfUser([this] {
              const base::UniqueFd unfinished = ConnectUnix(path_);
              const std::string header = fmt::format(
                  "POST /who HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
                  40 << 20);
              char counted = 0;
              if (!base::WriteAll(unfinished.get(), header) ||
                  ::recv(unfinished.get(), &counted, 1, 0) != 1)
                return 8;
              const std::string rest = " /big HTTP/1.1\r\nConnection: close\r\n\r\n";
              if (!Exchange(ConnectUnix(path_), "GET" + rest).starts_with("HTTP/1.1 503")) return 7;
              const std::string answer = Exchange(ConnectUnix(path_), "POST" + rest);
              return answer.starts_with("HTTP/1.1 503") && answer.contains("out, but ") ? 0 : 1;
            }),
            0);
}

TEST_F(ServerFixture, TooManyConnectionsAreRefusedAndLaterOnesServed) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, which has no limit per user";
  if (!MayOpen(kMaxConnections)) GTEST_SKIP() << "needs permission to open 2,112 files";
  Listen();
  std::vector<base::UniqueFd> connections;
  for (std::size_t i = 0; i < kMaxConnections; ++i) connections.push_back(ConnectUnix(path_));
  const auto refused = Client(path_).Get("/who");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(refused.error().message, "too many connections");
  connections.clear();
  Result<std::string> served = std::unexpected(refused.error());
  while (!served)
    served = Client(path_).Get("/who");  // the server notices the closed connections one by one
  EXPECT_TRUE(served);
}

TEST_F(ServerFixture, SocketHasTheRequestedMode) {
  Listen();
  struct stat found {};
  ASSERT_EQ(::stat(path_.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 07777, 0600u);
}

base::UniqueFd SocketAt(const std::string& path) {
  base::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_un address = UnixAddress(path).value();
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return fd;
}

TEST_F(ServerFixture, ASocketThatIsClosedSoonIsReplaced) {
  base::UniqueFd old = SocketAt(path_);
  ASSERT_EQ(::listen(old.get(), 1), 0);
  std::thread closes([&old] {
    const base::UniqueFd first(::accept(old.get(), nullptr, nullptr));
    old.reset();
  });
  Listen();
  closes.join();
  EXPECT_TRUE(Client(path_).Get("/who"));
}

TEST_F(ServerFixture, StaleSocketIsReplacedButALiveOneIsNot) {
  SocketAt(path_);
  Listen();
  OnLoop([this] {
    const auto second = Server::ListenUnix(loop_, path_, 0600, [](Request, Responder) {});
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, ErrorCode::kConflict);
  });
  EXPECT_TRUE(Client(path_).Get("/who"));
}

TEST_F(ServerFixture, MakesARemovedSocketFileAgainAndKeepsItsConnections) {
  Listen();
  Client before(path_);
  EXPECT_TRUE(before.Get("/who"));
  OnLoop([this] { EXPECT_FALSE(server_->RestoreSocket().value_or(true)); });
  ASSERT_EQ(::unlink(path_.c_str()), 0);
  OnLoop([this] { EXPECT_TRUE(server_->RestoreSocket().value_or(false)); });
  EXPECT_TRUE(Client(path_).Get("/who"));
  EXPECT_TRUE(before.Get("/who"));
  struct stat found {};
  ASSERT_EQ(::stat(path_.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 07777, 0600u);
  OnLoop([this] { server_.reset(); });
  EXPECT_FALSE(base::Exists(path_));
}

TEST_F(ServerFixture, RefusesPathsItMustNotUse) {
  OnLoop([this] {
    const auto nobody = [](Request, Responder) {};
    const auto too_long = Server::ListenUnix(loop_, dir_ + std::string(200, 'x'), 0600, nobody);
    ASSERT_FALSE(too_long);
    EXPECT_EQ(too_long.error().code, ErrorCode::kInvalid);
    const std::string file = dir_ + "/file";
    ASSERT_TRUE(base::WriteFileAtomic(file, "precious"));
    const auto in_the_way = Server::ListenUnix(loop_, file, 0600, nobody);
    ASSERT_FALSE(in_the_way);
    EXPECT_EQ(in_the_way.error().code, ErrorCode::kConflict);
    EXPECT_EQ(base::ReadFile(file, 100).value_or(""), "precious");
    EXPECT_FALSE(Server::ListenUnix(loop_, dir_ + "/no/such/s.sock", 0600, nobody));
  });
}

TEST_F(ServerFixture, ASocketOfAForeignOwnerIsLeftAlone) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to change the file's owner";
  {
    const base::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.c_str(), path_.size());
    ASSERT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  ASSERT_EQ(::chown(path_.c_str(), 12345, 12345), 0);
  OnLoop([this] {
    const auto server = Server::ListenUnix(loop_, path_, 0600, [](Request, Responder) {});
    ASSERT_FALSE(server);
    EXPECT_EQ(server.error().code, ErrorCode::kDenied);
  });
  EXPECT_TRUE(base::Exists(path_));
  ::unlink(path_.c_str());
}

TEST_F(ServerFixture, ClientSendsNothingToADaemonOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to act as two users";
  Listen();
  // A client talks only to a daemon run by root or by its own user. This one runs as root, so an
  // ordinary user may talk to it.
  ASSERT_EQ(ExitCodeOfUser(
                [this] { return Client(path_).Get("/who").value_or("") == "12345 -" ? 0 : 1; }),
            0);

  const std::string foreign = dir_ + "/foreign.sock";
  ASSERT_EQ(::chmod(dir_.c_str(), 0777), 0);
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t other = ::fork();
  if (other == 0) {
    if (::setgid(12345) != 0 || ::setuid(12345) != 0) ::_exit(9);
    const base::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, foreign.c_str(), foreign.size());
    if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) ::_exit(8);
    if (::listen(fd.get(), 4) != 0 || ::write(ready[1], "r", 1) != 1) ::_exit(7);
    char byte = 0;
    const int peer = ::accept(fd.get(), nullptr, nullptr);
    ::_exit(::recv(peer, &byte, 1, 0) == 0 ? 0 : 1);  // closed without sending a byte
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  const auto answer = Client(foreign).Get("/who");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kDenied);
  int status = -1;
  ASSERT_EQ(::waitpid(other, &status, 0), other);
  EXPECT_EQ(status, 0);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_F(ServerFixture, LoopbackTcpHasNoPeerButAUserForLimitsAndRefusesForeignHostNames) {
  std::uint16_t port = 0;
  OnLoop([&] {
    auto server = Server::ListenTcp(loop_, 0, [](Request request, Responder reply) {
      const std::string user = request.counted_as ? std::to_string(*request.counted_as) : "nobody";
      reply({.body = request.peer ? "peer" : user});
    });
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
    port = server_->port();
  });
  const auto ask = [&](const std::string& host) {
    base::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return Exchange(fd, "GET / HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n");
  };
  const std::string own = "\r\n\r\n" + std::to_string(::geteuid());
  EXPECT_TRUE(ask("localhost:" + std::to_string(port)).ends_with(own));
  EXPECT_TRUE(ask("127.0.0.1").ends_with(own));
  EXPECT_TRUE(ask("[::1]:" + std::to_string(port)).ends_with(own));
  EXPECT_TRUE(ask("evil.example").starts_with("HTTP/1.1 403"));
  EXPECT_TRUE(ask("[::1].evil.example").starts_with("HTTP/1.1 403"));
  EXPECT_TRUE(ask("localhost\r\nHost: evil.example").starts_with("HTTP/1.1 400"));
}

// "localhost" may resolve to 127.0.0.1 or to ::1. If the server listened on only one of them,
// another user could open the same port on the other and receive requests meant for the server.
TEST_F(ServerFixture, LoopbackTcpIsBothFamiliesOrNone) {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  base::UniqueFd taken(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(taken.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  if (::bind(taken.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    GTEST_SKIP() << "needs IPv6";
  ASSERT_EQ(::listen(taken.get(), 1), 0);
  socklen_t size = sizeof address;
  ::getsockname(taken.get(), reinterpret_cast<sockaddr*>(&address), &size);
  const std::uint16_t port = ntohs(address.sin6_port);
  const auto handler = [](Request, Responder reply) { reply({.body = "ours"}); };
  OnLoop([&] {
    const auto refused = Server::ListenTcp(loop_, port, handler);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message,
              "[::1]:" + std::to_string(port) + ": the port is already in use");
    auto server = Server::ListenTcp(loop_, 0, handler);
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
  });
  address.sin6_port = htons(server_->port());
  base::UniqueFd fd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_TRUE(Exchange(fd, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                  .ends_with("ours"));
  EXPECT_EQ(LoopbackOwner(fd.get()), ::getuid()) << "as seen from the server";
}

TEST_F(ServerFixture, AnswersABrowserOnlyForItsOwnPage) {
  Listen();
  const struct {
    const char* what;
    std::string method;
    std::string fields;
    bool handled;
  } kCases[] = {
      {"a program", "POST", "Host: localhost\r\n", true},
      {"our own page", "POST", "Host: localhost:8080\r\nOrigin: http://localhost:8080\r\n", true},
      {"another site", "POST", "Host: localhost:8080\r\nOrigin: http://evil.example\r\n", false},
      {"another port", "POST", "Host: localhost:8080\r\nOrigin: http://localhost:8081\r\n", false},
      {"a page without a site", "POST", "Host: localhost\r\nOrigin: null\r\n", false},
      {"another site reads", "GET", "Host: localhost\r\nOrigin: http://evil.example\r\n", false},
      {"a form on another site", "POST", "Host: localhost\r\nSec-Fetch-Site: cross-site\r\n",
       false},
      {"a form on another port", "POST", "Host: localhost\r\nSec-Fetch-Site: same-site\r\n", false},
      {"a link on another site", "GET", "Host: localhost\r\nSec-Fetch-Site: cross-site\r\n", true},
      {"a foreign name that resolves to this machine", "GET", "Host: evil.example\r\n", false},
  };
  for (const auto& each : kCases) {
    const std::string answer =
        Exchange(ConnectUnix(path_),
                 each.method + " /query HTTP/1.1\r\n" + each.fields + "Connection: close\r\n\r\n");
    EXPECT_TRUE(answer.starts_with(each.handled ? "HTTP/1.1 200" : "HTTP/1.1 403"))
        << each.what << ": " << answer;
  }
}

TEST_F(ServerFixture, PassesOnAcceptEncodingAndIfNoneMatch) {
  Listen();
  const auto ask = [&](const std::string& fields) {
    return Exchange(ConnectUnix(path_),
                    "GET /known HTTP/1.1\r\n" + fields + "Connection: close\r\n\r\n");
  };
  const std::string plain = ask("");
  EXPECT_TRUE(plain.ends_with("plain")) << plain;
  EXPECT_NE(plain.find("Cache-Control: no-cache\r\n"), std::string::npos) << plain;
  EXPECT_EQ(plain.find("no-store"), std::string::npos) << plain;
  EXPECT_NE(plain.find("nosniff"), std::string::npos) << plain;
  EXPECT_TRUE(ask("Accept-Encoding: br, gzip;q=0.5\r\n").ends_with("packed"));
  EXPECT_TRUE(ask("Accept-Encoding: gzip;q=0, br\r\n").ends_with("plain"));
  const std::string same = ask("If-None-Match: \"a\"\r\n");
  EXPECT_TRUE(same.starts_with("HTTP/1.1 304")) << same;
  EXPECT_TRUE(same.ends_with("\r\n\r\n")) << same;
}

TEST(Client, ReportsWhatToDoIfNoServerListens) {
  const auto absent = Client("/run/carma/no-such.sock").Get("/");
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, ErrorCode::kUnavailable);
  const std::string who = ::geteuid() == 0 ? "start it" : "ask the administrator to start it";
  EXPECT_EQ(absent.error().message,
            "the server's carmad is not running at /run/carma/no-such.sock (tasks continue; " +
                who + " with 'systemctl start carmad')");
  EXPECT_TRUE(Client("/no/such/carma/carmad.sock")
                  .Get("/")
                  .error()
                  .message.ends_with("(start it with 'carmad --background')"));
  EXPECT_TRUE(
      Client("/no/such.sock")
          .Get("/")
          .error()
          .message.ends_with("(start it with 'carmad --background --socket /no/such.sock')"));
  EXPECT_TRUE(Client("./no-such.sock")
                  .Get("/")
                  .error()
                  .message.ends_with("--socket " + std::filesystem::current_path().string() +
                                     "/no-such.sock')"))
      << "carmad refuses a relative path";
  const auto too_long = Client(std::string(200, 'x')).Get("/");
  ASSERT_FALSE(too_long);
  EXPECT_EQ(too_long.error().code, ErrorCode::kInvalid);
}

TEST_F(ServerFixture, KeepsConnectionsForTheOwner) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to act as a user";
  if (!MayOpen(kMaxConnections)) GTEST_SKIP() << "needs permission to open 2,112 files";
  Listen();
  std::vector<base::UniqueFd> connections;
  for (std::size_t i = 0; i < kMaxConnections - 60; ++i) connections.push_back(ConnectUnix(path_));
  EXPECT_TRUE(Client(path_).Get("/who"));
  EXPECT_EQ(ExitCodeOfUser([this] { return Client(path_).Get("/who") ? 1 : 0; }), 0);
}

}  // namespace
}  // namespace carma::api
