#include "daemon/notices.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/file.h"
#include "base/json.h"
#include "base/process_id.h"

namespace carma::daemon {
namespace {

using base::Result;
using base::Unit;
using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr milliseconds kLong{60'000};

class NoticesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "carma-notices-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  std::string Path(const std::string& name) const { return dir_ + "/" + name; }
  std::string Text(const std::string& name) const {
    return base::ReadFile(Path(name), 100'000).value_or("");
  }
  static std::vector<std::string> Shell(const std::string& script) {
    return {"/bin/sh", "-c", script};
  }

  std::string dir_;
};

TEST_F(NoticesTest, TheProgramReadsOneLineAndSeesACleanEnvironment) {
  ::setenv("CARMA_TEST_SECRET", "x", 1);
  const base::UniqueFd left(::fcntl(STDIN_FILENO, F_DUPFD, 700));  // open for children too
  const Result<Unit> ran =
      RunNotice(Shell("cat > " + Path("line") + "; env > " + Path("env") + "; pwd > " +
                      Path("pwd") + "; ls /proc/$$/fd > " + Path("files") + "; true"),
                "{\"task\":7}", kLong, -1);
  ASSERT_TRUE(ran) << ran.error().message;
  EXPECT_EQ(Text("line"), "{\"task\":7}\n");
  EXPECT_THAT(Text("env"), HasSubstr("PATH="));
  EXPECT_THAT(Text("env"), Not(HasSubstr("CARMA_TEST_SECRET")));
  EXPECT_EQ(Text("pwd"), "/\n");
  EXPECT_THAT(Text("files"), AllOf(HasSubstr("0\n"), Not(HasSubstr(std::to_string(left.get())))));
}

TEST_F(NoticesTest, AFailureSaysWhatHappened) {
  EXPECT_EQ(RunNotice(Shell("exit 3"), "{}", kLong, -1).error().message, "exit status 3");
  EXPECT_EQ(RunNotice(Shell("kill -9 $$"), "{}", kLong, -1).error().message, "ended by signal 9");
  EXPECT_THAT(RunNotice({Path("none")}, "{}", kLong, -1).error().message,
              HasSubstr("cannot be started: No such file"));
}

TEST_F(NoticesTest, AProgramThatDoesNotEndIsKilledWithWhatItStarted) {
  const std::string pid_file = Path("pid");
  const Result<Unit> ran = RunNotice(Shell("sleep 1000 & echo $! > " + pid_file + "; wait"), "{}",
                                     milliseconds(300), -1);
  ASSERT_FALSE(ran);
  EXPECT_THAT(ran.error().message, HasSubstr("took more than 300 ms"));
  const pid_t grandchild = std::stoi(Text("pid"));
  // The kernel takes a moment to end it.
  const auto runs = [grandchild] {
    const auto stat = base::ReadProcessStat(grandchild);
    return stat && stat->state != 'Z' && stat->state != 'X';
  };
  const auto patience = std::chrono::steady_clock::now() + kLong;
  while (runs() && std::chrono::steady_clock::now() < patience) std::this_thread::yield();
  EXPECT_FALSE(runs());
}

TEST_F(NoticesTest, ManyNoticesAreToldOneAfterAnotherAndTheDaemonsEndStopsThem) {
  ASSERT_EQ(::mkfifo(Path("go").c_str(), 0600), 0);
  const auto before = std::chrono::steady_clock::now();
  {
    Notices notices({.program = Shell("cat >> " + Path("lines") + "; cat " + Path("go")),
                     .limit = kLong,
                     .most = 4});
    for (int i = 0; i < 8; ++i) notices.Tell("{}");
    while (Text("lines").empty()) std::this_thread::yield();
  }
  EXPECT_EQ(Text("lines"), "{}\n") << "one at a time";
  EXPECT_LT(std::chrono::steady_clock::now() - before, kLong / 2);
}

TEST_F(NoticesTest, AnotherProgramIsToldWhatComesFromThenOn) {
  Notices notices({.program = Shell("cat >> " + Path("first")), .limit = kLong});
  notices.Tell("{1}");
  ASSERT_EQ(::mkfifo(Path("second").c_str(), 0600), 0);
  notices.Use(Shell("cat > " + Path("second")));
  notices.Tell("{2}");
  std::string line;
  std::getline(std::ifstream(Path("second")) >> std::ws, line);  // once somebody writes
  EXPECT_EQ(line, "{2}");
  EXPECT_EQ(Text("first"), "{1}\n");
}

TEST(IdleNotice, IsOneLineOfJson) {
  IdleNotice notice;
  notice.task = 12;
  notice.name = "two\nlines \xff";
  notice.user = "ann";
  notice.gpu_uuids = {"GPU-a", "GPU-b"};
  notice.idle_since = base::FromMs(1'000);
  notice.now = base::FromMs(61'000);
  notice.action = "share";
  const std::string line = ToLine(notice);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const Result<base::Json> json = base::ParseJson(line);
  ASSERT_TRUE(json) << json.error().message;
  EXPECT_EQ((*json)["task"], 12);
  EXPECT_EQ((*json)["idle_s"], 60.0);
  EXPECT_EQ((*json)["gpu_uuids"][1], "GPU-b");
  EXPECT_EQ((*json)["action"], "share");
}

}  // namespace
}  // namespace carma::daemon
