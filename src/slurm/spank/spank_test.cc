// Tests the parts of the plug-in that work without Slurm: parsing, requests and reading output.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "slurm/spank/http.h"
#include "slurm/spank/json.h"
#include "slurm/spank/lease.h"
#include "slurm/spank/tail.h"
#include "slurm/spank/words.h"

namespace carma::slurm {
namespace {

TEST(SpankWords, SizesSharesAndNumbers) {
  EXPECT_EQ(MemoryMib("12G"), 12'288);
  EXPECT_EQ(MemoryMib("1.5gib"), 1'536);
  EXPECT_EQ(MemoryMib("500M"), 500);
  EXPECT_EQ(MemoryMib("700"), 700);
  EXPECT_EQ(MemoryMib("0.5m"), 1) << "rounded up";
  for (const char* text : {"", "G", "-1G", "0", "12X", "1e3", "1.2.3", "99999999G", "12 G", "0x10"})
    EXPECT_FALSE(MemoryMib(text)) << text;
  EXPECT_EQ(Share("30%"), 0.3);
  EXPECT_EQ(Share("30"), 0.3);
  EXPECT_EQ(Share("0.5"), 0.5);
  for (const char* text : {"", "%", "0", "101%", "-3", "nan"}) EXPECT_FALSE(Share(text)) << text;
  EXPECT_EQ(Whole("12", 1, 12), 12);
  for (const char* text : {"", "0", "13", "-1", "1x", "99999999999999999999"})
    EXPECT_FALSE(Whole(text, 1, 12)) << text;
}

TEST(SpankWords, LinesAndPaths) {
  EXPECT_EQ(OneLine("a\nb\xc3\xa4", 4), "a?b?");
  EXPECT_EQ(WithNode("/run/%n/%n.sock", "n1"), "/run/n1/n1.sock");
  EXPECT_EQ(WithNode("/run/%", "n1"), "/run/%");
  EXPECT_EQ(AbsolutePath("m.json", "/home/ann"), "/home/ann/m.json");
  EXPECT_EQ(AbsolutePath("/m.json", ""), "/m.json");
  EXPECT_FALSE(AbsolutePath("m.json", "here"));
}

TEST(SpankJson, ReadsCarmadsAnswers) {
  Document document;
  ASSERT_TRUE(document.Parse(
      R"({"id": 7, "state":"granted", "text":"a\"b\u00e4\n", "environment":{"A":"1","B":"2"},
          "leases":[{"step":"0"},{"step":"batch"}], "none":null, "list":[], "object":{}})"));
  EXPECT_EQ(document.Number("id"), 7);
  EXPECT_EQ(document.Text("state"), "granted");
  EXPECT_EQ(document.Text("text"), "a\"b\xc3\xa4\n");
  EXPECT_EQ(document.Text("leases/1/step"), "batch");
  EXPECT_EQ(document.Texts("environment").size(), 2U);
  EXPECT_FALSE(document.Number("state"));
  EXPECT_FALSE(document.Text("id"));
  EXPECT_FALSE(document.Text("none"));
}

TEST(SpankJson, RefusesInvalidJson) {
  Document document;
  for (const char* text : {"", "{", "{\"a\"}", "{\"a\":1,}", "[1,2", "\"a", "{\"a\":\"\\u12\"}",
                           "{} {}", "{\"a\":\"\\q\"}", "[\"a\nb\"]"})
    EXPECT_FALSE(document.Parse(text)) << text;
  EXPECT_FALSE(document.Parse("[" + std::string(1 << 20, ' ') + "]")) << "too long";
  EXPECT_FALSE(document.Text("a"));
  const std::string deep = std::string(500'000, '[') + std::string(500'000, ']');
  EXPECT_TRUE(document.Parse(deep)) << "parsing does not recurse";
}

TEST(SpankJson, QuotesTexts) {
  EXPECT_EQ(Quoted("a\"b\\c\n\x7f\xc3"), R"("a\"b\\c\n\u007f\ufffd")");
}

TEST(SpankHttp, ReadsAnAnswer) {
  const Reply reply = ParseReply("HTTP/1.1 200 OK\r\nX: y\r\n\r\n{\"id\":1}");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, "{\"id\":1}");
  for (const char* text : {"", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 abc\r\n\r\n", "SSH-2.0\r\n\r\n"})
    EXPECT_EQ(ParseReply(text).status, 0) << text;
}

TEST(SpankHttp, ReportsMissingListener) {
  const Reply reply = CallCarmad("/nowhere/carmad.sock", "GET", "/v1/status", "", 5);
  EXPECT_EQ(reply.status, 0);
  EXPECT_EQ(reply.trouble, "connecting to /nowhere/carmad.sock: No such file or directory");
  EXPECT_EQ(CallCarmad(std::string(200, 'x'), "GET", "/", "", 1).status, 0);
}

TEST(SpankLease, RequestsALeaseForAStep) {
  Step step{.cluster = "bed",
            .job = 12,
            .name = "0",
            .uid = 5,
            .gid = 6,
            .keeper = 99,
            .job_name = "a\"b",
            .command = {"python", "x.py"},
            .folder = "/home"};
  Wanted wanted{.gpus = 2, .memory_mib = 12'288, .exclusive = true, .sm_share = 0.5};
  Document document;
  ASSERT_TRUE(document.Parse(AskText(step, wanted)));
  EXPECT_EQ(document.Number("key/job"), 12);
  EXPECT_EQ(document.Number("owner/uid"), 5);
  EXPECT_EQ(document.Number("pid"), 99);
  EXPECT_EQ(document.Text("spec/name"), "a\"b");
  EXPECT_EQ(document.Text("spec/command/1"), "x.py");
  EXPECT_EQ(document.Number("spec/memory_mib"), 12'288);
  step.command.clear();
  ASSERT_TRUE(document.Parse(AskText(step, {})));
  EXPECT_EQ(document.Text("spec/command/0"), "a\"b") << "a script has the job's name";
}

TEST(SpankLease, WarnsOfAnUnreadableModelSummary) {
  EXPECT_EQ(SummaryWarning({}), "");
  EXPECT_EQ(SummaryWarning({.summary = "/dev/null"}), "");
  EXPECT_EQ(SummaryWarning({.summary = "/no/such/model"}),
            "cannot read the model summary /no/such/model: No such file or directory; correct "
            "--carma-summary or give --carma-mem");
}

TEST(SpankTail, ReadsOnlyTheFileThatTheTaskOpened) {
  std::string folder = ::testing::TempDir() + "/carma-tail-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  ::chmod(folder.c_str(), 0755);
  const std::string path = folder + "/err";
  std::ofstream(path) << std::string(20'000, 'x') << "CUDA out of memory";
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  OpenFile file{.device = info.st_dev, .inode = info.st_ino};
  path.copy(file.path, sizeof file.path - 1);
  if (::getuid() == 0) {
    const std::string tail = TailOf(file, 65'534, 65'534);
    EXPECT_EQ(tail.size(), 16'384U);
    EXPECT_TRUE(tail.ends_with("CUDA out of memory"));
    ::chmod(path.c_str(), 0600);
    EXPECT_EQ(TailOf(file, 65'534, 65'534), "") << "the user may not read it";
    ASSERT_EQ(::chown(path.c_str(), 0, 4'321), 0);
    ::chmod(path.c_str(), 0640);
    EXPECT_EQ(TailOf(file, 65'534, 65'534), "");
    EXPECT_TRUE(TailOf(file, 65'534, 65'534, {4'321}).ends_with("CUDA out of memory"))
        << "a supplementary group may read it";
    EXPECT_TRUE(TailOf(FileOf(std::to_string(info.st_ino) + " " + path), 0, 0)
                    .ends_with("CUDA out of memory"));
  }
  EXPECT_EQ(FileOf(std::to_string(info.st_ino) + " " + path).inode, info.st_ino);
  for (const char* text : {"", "7", "x /a", "0 /a"}) EXPECT_EQ(FileOf(text).inode, 0U) << text;
  ++file.inode;
  EXPECT_EQ(TailOf(file, ::getuid(), ::getgid()), "") << "another file has replaced it";
  ::unlink(path.c_str());
  ::rmdir(folder.c_str());
}

// The child runs as the job's user, who can therefore stop it.
TEST(SpankTail, DoesNotWaitForAStoppedChild) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    (void)!::write(ends[1], "begun", 5);
    ::raise(SIGSTOP);
    ::_exit(0);
  }
  ::close(ends[1]);
  EXPECT_EQ(ReadOfChild(child, ends[0], 200), "begun");
  EXPECT_NE(::kill(child, 0), 0) << "it has been killed";
  ::close(ends[0]);
}

// The first request alone takes longer (5 s) than the plug-in waits for a verdict (4 s).
TEST(SpankLease, WaitsForTheRequeueOnceCarmadIsBack) {
  std::string folder = ::testing::TempDir() + "/carma-spank-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/s";
  const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(listener, 4), 0);
  std::vector<std::string> asked;
  std::thread daemon([&] {
    for (const std::string_view answer :
         {"", "HTTP/1.1 200 OK\r\n\r\n{\"id\":7,\"state\":\"ended\",\"follows\":\"requeue\"}",
          "HTTP/1.1 200 OK\r\n\r\n{\"id\":7}",
          "HTTP/1.1 200 OK\r\n\r\n{\"id\":7,\"state\":\"ended\"}"}) {
      const int caller = ::accept(listener, nullptr, nullptr);
      if (caller < 0) return;
      char buffer[4096];
      const ssize_t count = ::read(caller, buffer, sizeof buffer);
      const std::string request(buffer, static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
      asked.push_back(request.substr(0, request.find(" HTTP")));
      // Without a response, the plug-in hangs up after 5 s.
      if (answer.empty()) (void)!::read(caller, buffer, sizeof buffer);
      (void)!::send(caller, answer.data(), answer.size(), MSG_NOSIGNAL);
      ::close(caller);
    }
  });
  Carmad(path).AwaitVerdict(7, {.status = 256}, false, 4);
  ::shutdown(listener, SHUT_RDWR);
  daemon.join();
  ::close(listener);
  EXPECT_EQ(asked, (std::vector<std::string>{"POST /v1/leases/7/end", "GET /v1/leases/7",
                                             "POST /v1/leases/7/end", "GET /v1/leases/7"}));
  ::unlink(path.c_str());
  ::rmdir(folder.c_str());
}

// The daemon restarts while the plug-in sends its request: at first it does not listen, then it
// answers.
TEST(SpankLease, RetriesWhileCarmadRestarts) {
  std::string folder = ::testing::TempDir() + "/carma-spank-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/s";
  const Step step{.cluster = "bed", .job = 12, .name = "batch", .job_name = "x"};
  Standing away = Carmad(path).Ask(step, {}, 0);
  EXPECT_TRUE(away.gone);
  std::thread daemon([&] {
    const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    ::close(listener);  // the request is refused
    ::unlink(path.c_str());
    const int next = ::socket(AF_UNIX, SOCK_STREAM, 0);
    ASSERT_EQ(::bind(next, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(::listen(next, 4), 0);
    // The first response is cut off, the second is a retryable error, and the third accepts the
    // request.
    for (const std::string_view answer :
         {"HTTP/1.1 20", "HTTP/1.1 503 x\r\n\r\n{}",
          "HTTP/1.1 201 Created\r\n\r\n{\"id\":7,\"state\":\"waiting\",\"step\":\"batch\"}"}) {
      const int caller = ::accept(next, nullptr, nullptr);
      char buffer[4096];
      (void)!::read(caller, buffer, sizeof buffer);
      (void)!::write(caller, answer.data(), answer.size());
      ::close(caller);
    }
    ::close(next);
  });
  EXPECT_EQ(Carmad(path).Ask(step, {}, 60).id, 7);
  daemon.join();
  ::unlink(path.c_str());
  ::rmdir(folder.c_str());
}

}  // namespace
}  // namespace carma::slurm
