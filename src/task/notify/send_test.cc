#include "task/notify/send.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/file.h"
#include "base/spawn.h"
#include "base/unique_fd.h"
#include "task/process/bounded_run.h"
#include "task/process/user.h"

namespace carma::task {
namespace {

using ::testing::HasSubstr;

class SendTest : public ::testing::Test {
 protected:
  SendTest() {
    dir_ = ::testing::TempDir() + "carma-send-XXXXXX";
    CARMA_CHECK(::mkdtemp(dir_.data()) != nullptr, "no folder for the test");
  }
  ~SendTest() override { std::filesystem::remove_all(dir_); }

  std::string Script(const std::string& name, const std::string& text) {
    const std::string path = dir_ + "/" + name;
    std::ofstream(path) << "#!/bin/sh\n" << text;
    ::chmod(path.c_str(), 0755);
    return path;
  }
  std::string Text(const std::string& name) const {
    return base::ReadFile(dir_ + "/" + name, 100'000).value_or("");
  }
  static NoticeOrder Order(const std::string& target) {
    return {.target = target,
            .event = "end",
            .text = "Task 7 succeeded",
            .message = R"({"task":7})",
            .key = "carma-h-1",
            .uid = ::getuid(),
            .gid = ::getgid()};
  }

  std::string dir_;
};

// Answers one request with this status. `heard` is the received request.
class OneAnswer {
 public:
  explicit OneAnswer(const std::string& status) {
    listener_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    ::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address);
    ::listen(listener_.get(), 1);
    socklen_t size = sizeof address;
    ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    url = "http://127.0.0.1:" + std::to_string(::ntohs(address.sin_port));
    thread_ = std::thread([this, status] {
      const base::UniqueFd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      char buffer[4096];
      while (heard.find("\r\n\r\n") == std::string::npos || heard.back() != '}') {
        const ssize_t n = ::read(client.get(), buffer, sizeof buffer);
        if (n <= 0) break;
        heard.append(buffer, static_cast<std::size_t>(n));
      }
      (void)base::WriteAll(client.get(), "HTTP/1.1 " + status +
                                             "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    });
  }
  ~OneAnswer() { Join(); }
  void Join() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    if (thread_.joinable()) thread_.join();
  }
  std::string url;
  std::string heard;

 private:
  base::UniqueFd listener_;
  std::thread thread_;
};

TEST_F(SendTest, MailGoesThroughSendmail) {
  NoticeOrder order = Order("ada@example.org");
  order.sendmail = Script("sendmail", "echo \"$@\" > " + dir_ + "/args; cat > " + dir_ + "/mail\n");
  EXPECT_EQ(Send(order).code, kNoticeSent);
  EXPECT_EQ(Text("args"), "-i -- ada@example.org\n");
  EXPECT_THAT(Text("mail"), HasSubstr("Subject: Task 7 succeeded\n"));
  order.sendmail = Script("busy", "echo 'queue is full' >&2; exit 75\n");
  EXPECT_EQ(Send(order).code, kNoticeAgain);
  EXPECT_THAT(Send(order).text, HasSubstr("queue is full"));
  order.sendmail = dir_ + "/none";
  EXPECT_EQ(Send(order).code, kNoticeFailed);
  EXPECT_THAT(Send(order).text, HasSubstr("cannot run the mail program"));
}

TEST_F(SendTest, AProgramReadsTheMessageWithoutAShell) {
  const std::string told = Script("told it", "cat > " + dir_ + "/line; echo $CARMA_EVENT > " +
                                                 dir_ + "/event; echo $# > " + dir_ + "/words\n");
  EXPECT_EQ(Send(Order(told)).code, kNoticeSent);
  EXPECT_EQ(Text("line"), "{\"task\":7}\n");
  EXPECT_EQ(Text("event"), "end\n");
  EXPECT_EQ(Text("words"), "0\n");
  EXPECT_EQ(Send(Order(Script("no", "exit 3\n"))).code, kNoticeFailed);
  EXPECT_EQ(Send(Order(Script("later", "exit 75\n"))).code, kNoticeAgain);
  EXPECT_EQ(Send(Order(dir_ + "/none")).code, kNoticeFailed);
  EXPECT_THAT(Send(Order(Script("flood", "yes\n"))).text, HasSubstr("wrote more than 64 MiB"));
  NoticeOrder slow = Order(Script("slow", "sleep 1000\n"));
  slow.limit = base::Duration(200);
  EXPECT_EQ(Send(slow).code, kNoticeAgain);
  EXPECT_THAT(Send(slow).text, HasSubstr("took more than"));
}

TEST_F(SendTest, PostsAWebhookAndReturnsAResultByItsAnswer) {
  if (!RunBounded({.words = {"curl", "--version"},
                   .environment = std::vector<std::string>{"PATH=/usr/bin:/bin"}}))
    GTEST_SKIP() << "needs Debian's package curl";
  const std::pair<const char*, int> cases[] = {{"200 OK", kNoticeSent},
                                               {"204 No Content", kNoticeSent},
                                               {"302 Found", kNoticeFailed},
                                               {"404 Not Found", kNoticeFailed},
                                               {"429 Too Many Requests", kNoticeAgain},
                                               {"503 Unavailable", kNoticeAgain}};
  for (const auto& [status, code] : cases) {
    OneAnswer server(status);
    const SendResult sent = Send(Order(server.url + "/hook?token=secret"));
    server.Join();
    EXPECT_EQ(sent.code, code) << status << ": " << sent.text;
    EXPECT_THAT(sent.text, ::testing::Not(HasSubstr("secret")));
    EXPECT_THAT(server.heard, HasSubstr("POST /hook?token=secret HTTP/1.1\r\n"));
    EXPECT_THAT(server.heard, HasSubstr("\r\n\r\n{\"task\":7}"));
  }
  std::string gone;
  {
    OneAnswer server("200 OK");
    gone = server.url;
  }
  EXPECT_EQ(Send(Order(gone)).code, kNoticeAgain);
}

// Runs carma-notify with this order and returns its exit code.
int NotifyWith(const NoticeOrder& order) {
  const base::UniqueFd input = base::MemoryFile(ToText(order)).value();
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    ::dup2(input.get(), STDIN_FILENO);
    ::_exit(RunNotify());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(SendTest, SendsNothingAsTheNewOwnerOfAUserId) {
  const passwd* nobody = ::getpwnam("nobody");
  if (!CanSwitchUser() || nobody == nullptr) GTEST_SKIP() << "needs root and a user nobody";
  ASSERT_EQ(::chmod(dir_.c_str(), 0777), 0);
  NoticeOrder order = Order(Script("program", "touch " + dir_ + "/ran\n"));
  order.uid = nobody->pw_uid;
  order.gid = nobody->pw_gid;
  order.user = "somebody-else";
  EXPECT_EQ(NotifyWith(order), kNoticeFailed);
  EXPECT_FALSE(base::Exists(dir_ + "/ran"));
  order.user = "nobody";
  EXPECT_EQ(NotifyWith(order), kNoticeSent);
  EXPECT_TRUE(base::Exists(dir_ + "/ran"));
}

TEST(NoticeOrder, ParsesBackFromItsText) {
  NoticeOrder order{.target = "me", .event = "fail", .text = "t", .message = "{}", .key = "k"};
  order.uid = 7;
  order.gid = 8;
  order.user = "ada";
  order.environment = {{"https_proxy", "http://p:1"}};
  order.limit = base::Duration(2'500);
  EXPECT_EQ(ParseNoticeOrder(ToText(order)), order);
  EXPECT_FALSE(ParseNoticeOrder("{}"));
}

}  // namespace
}  // namespace carma::task
