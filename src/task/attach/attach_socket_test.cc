#include "task/attach/attach_socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/spawn.h"
#include "base/unique_fd.h"
#include "task/attach/attachment.h"
#include "task/describe/spec.h"

namespace carma::task {
namespace {

using Kind = AttachMessage::Kind;

TEST(AttachMessages, ParseBackUnchanged) {
  const std::vector<AttachMessage> messages = {
      {.kind = Kind::kHello, .size = {24, 80}},
      {.kind = Kind::kWindow, .size = {0, 0}},
      {.kind = Kind::kInput, .data = std::string("\0\n\x03", 3)},
      {.kind = Kind::kOutput, .data = ""},
      {.kind = Kind::kErrors, .data = std::string(kMaxAttachBytes, 'x')},
      {.kind = Kind::kSignal, .number = SIGINT},
      {.kind = Kind::kEnded, .number = 255, .signal = 0},
      {.kind = Kind::kEnded, .number = 0, .signal = 9},
      {.kind = Kind::kRefused, .data = "no such program"},
  };
  for (const AttachMessage& message : messages) {
    const Result<AttachMessage> read = ParseAttachMessage(ToBytes(message));
    ASSERT_TRUE(read) << static_cast<char>(message.kind);
    EXPECT_EQ(*read, message) << static_cast<char>(message.kind);
  }
}

TEST(AttachMessages, RefusesOtherBytes) {
  for (const std::string& bytes :
       {std::string(), std::string("?"), std::string("\0", 1), std::string("w"), std::string("w24"),
        std::string("w24 80 1"), std::string("w-1 80"), std::string("w70000 80"),
        std::string("s9"),  // only the daemon sends KILL
        std::string("s19"), std::string("sINT"), std::string("s"), std::string("q0"),
        std::string("q256 0"), "o" + std::string(kMaxAttachBytes + 1, 'x')}) {
    const Result<AttachMessage> read = ParseAttachMessage(bytes);
    ASSERT_FALSE(read) << bytes.substr(0, 20);
    EXPECT_EQ(read.error().code, ErrorCode::kInvalid);
  }
}

TEST(AttachSockets, CarryMessagesAndADescriptor) {
  Result<AttachListener> listener = AttachListener::Open();
  ASSERT_TRUE(listener) << listener.error().message;
  EXPECT_TRUE(IsAttachName(listener->name()));
  EXPECT_FALSE(listener->Accept()) << "no shim has connected yet";
  Result<AttachSocket> shim = ConnectAttach(listener->name(), ::geteuid());
  ASSERT_TRUE(shim) << shim.error().message;
  std::optional<AttachSocket> person = listener->Accept();
  ASSERT_TRUE(person);
  Result<base::Pipe> pipe = base::MakePipe(false);
  ASSERT_TRUE(pipe);
  EXPECT_EQ(person->Send({.kind = Kind::kHello, .size = {30, 90}}, pipe->read.get()), true);
  Result<std::optional<AttachSocket::Received>> hello = shim->Receive();
  ASSERT_TRUE(hello && *hello);
  EXPECT_EQ((*hello)->message.size, (TerminalSize{30, 90}));
  ASSERT_TRUE(base::WriteAll(pipe->write.get(), "typed"));
  pipe->write.reset();
  EXPECT_EQ(base::ReadAll((*hello)->descriptor.get(), 100), "typed");
  // Nothing else has arrived yet.
  EXPECT_FALSE(shim->Receive().value());
  person->Close();
  EXPECT_EQ(shim->Receive().error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(shim->Send({.kind = Kind::kOutput, .data = "x"}));
}

TEST(AttachSockets, LastMessagesArriveEvenIfThePeerLeftInputUnread) {
  Result<AttachListener> listener = AttachListener::Open();
  ASSERT_TRUE(listener);
  Result<AttachSocket> shim = ConnectAttach(listener->name(), ::geteuid());
  std::optional<AttachSocket> person = listener->Accept();
  ASSERT_TRUE(shim && person);
  const std::vector<AttachMessage> last = {{.kind = Kind::kOutput, .data = "done"},
                                           {.kind = Kind::kEnded, .number = 3}};
  for (const AttachMessage& message : last) EXPECT_EQ(shim->Send(message), true);
  EXPECT_EQ(person->Send({.kind = Kind::kInput, .data = "y"}), true);
  shim->Close();
  for (const AttachMessage& message : last) {
    const Result<std::optional<AttachSocket::Received>> received = person->Receive();
    ASSERT_TRUE(received && *received);
    EXPECT_EQ((*received)->message, message);
  }
  EXPECT_EQ(person->Receive().error().code, ErrorCode::kNotFound);
}

TEST(AttachSockets, DoesNotWaitForASlowReader) {
  Result<AttachListener> listener = AttachListener::Open();
  ASSERT_TRUE(listener);
  Result<AttachSocket> shim = ConnectAttach(listener->name(), ::geteuid());
  std::optional<AttachSocket> person = listener->Accept();
  ASSERT_TRUE(shim && person);
  const AttachMessage flood{.kind = Kind::kOutput, .data = std::string(kMaxAttachBytes, 'x')};
  int sent = 0;
  while (shim->Send(flood).value()) ++sent;
  EXPECT_GT(sent, 0);
  for (int i = 0; i < sent; ++i) EXPECT_EQ((*person->Receive())->message, flood);
  EXPECT_TRUE(shim->Send(flood).value());
}

TEST(AttachSockets, TheListenerMustBelongToTheOwner) {
  Result<AttachListener> listener = AttachListener::Open();
  ASSERT_TRUE(listener);
  EXPECT_EQ(ConnectAttach(listener->name(), ::geteuid() + 1).error().code, ErrorCode::kDenied);
  const std::string name = listener->name();
  *listener = AttachListener::Open().value();
  EXPECT_EQ(ConnectAttach(name, ::geteuid()).error().code, ErrorCode::kNotFound);
}

TEST(AttachSockets, StrangersDoNotFillTheQueue) {
  const Result<AttachListener> listener = AttachListener::Open();
  ASSERT_TRUE(listener);
  std::vector<AttachSocket> strangers;
  for (int i = 0; i < 100; ++i) {
    Result<AttachSocket> came = ConnectAttach(listener->name(), ::geteuid());
    ASSERT_TRUE(came) << i << ": " << came.error().message;
    strangers.push_back(*std::move(came));
  }
}

TEST(AttachSockets, WaitsForRoomInAFullQueue) {
  const std::string name = "test-" + std::to_string(::getpid());
  const std::string path = "carma-run-" + name;
  const base::UniqueFd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path + 1, path.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + path.size());
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(listener.get(), 0), 0);
  const timeval limit{.tv_sec = 10, .tv_usec = 0};  // timeout of accept()
  ASSERT_EQ(::setsockopt(listener.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
  const Result<AttachSocket> first = ConnectAttach(name, ::geteuid());
  ASSERT_TRUE(first) << first.error().message;
  ASSERT_EQ(ConnectAttach(name, ::geteuid()).error().code, ErrorCode::kUnavailable);
  const std::string stat = fmt::format("/proc/self/task/{}/stat", ::gettid());
  std::latch opened(1);
  std::thread runner([&] {
    // The other thread goes to sleep only after its first attempt to connect has failed. Wait for
    // that before accept() makes room for the next attempt.
    while (base::ReadFile(stat, 4096).value_or("").find(") S ") == std::string::npos)
      ::sched_yield();
    const base::UniqueFd stranger(::accept(listener.get(), nullptr, nullptr));
    AttachSocket shim(base::UniqueFd(::accept(listener.get(), nullptr, nullptr)));
    const base::UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    EXPECT_EQ(shim.Send({.kind = Kind::kHello}, null.get()), true);
    opened.wait();
  });
  const Result<Attachment> attachment = Attachment::Open(name, false, ::geteuid());
  opened.count_down();
  EXPECT_TRUE(attachment) << attachment.error().message;
  runner.join();
}

TEST(AttachSockets, RefusesOtherUsers) {
  if (::getuid() != 0) GTEST_SKIP() << "needs root to become another user";
  Result<AttachListener> listener = AttachListener::Open();
  ASSERT_TRUE(listener);
  ASSERT_EQ(::seteuid(65'533), 0);  // the listener belongs to an ordinary user
  const pid_t stranger = ::fork();
  if (stranger == 0) {
    if (::seteuid(0) != 0 || ::seteuid(65'532) != 0) ::_exit(1);
    const Result<AttachSocket> came = ConnectAttach(listener->name(), 0);
    if (!came) ::_exit(2);
    pollfd gone{came->fd(), POLLIN, 0};
    ::_exit(::poll(&gone, 1, 20'000) == 1 && (gone.revents & POLLHUP) != 0 ? 0 : 3);
  }
  pollfd comes{listener->fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&comes, 1, 20'000), 1);
  EXPECT_FALSE(listener->Accept());
  int status = 0;
  ::waitpid(stranger, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(::seteuid(0), 0);
}

}  // namespace
}  // namespace carma::task
