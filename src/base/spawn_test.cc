#include "base/spawn.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/file.h"

namespace carma::base {
namespace {

struct Ended {
  std::string output;
  int status = 0;
};

// Runs the words as a command and captures its output with a pipe.
Ended RunToEnd(const std::vector<std::string>& words, SpawnOptions options = {}) {
  Result<Pipe> output = MakePipe();
  EXPECT_TRUE(output);
  options.files = {"/dev/null", output->write.get(), output->write.get()};
  const auto child = Spawn(words, options);
  EXPECT_TRUE(child);
  output->write.reset();
  Ended ended{.output = ReadAll(output->read.get(), 1 << 20).value_or("")};
  EXPECT_EQ(::waitpid(child->pid, &ended.status, 0), child->pid);
  return ended;
}

TEST(Spawn, AProgramIsFoundInThePathAndItsOutputIsTheCallers) {
  const Ended ended = RunToEnd({"sh", "-c", "echo out; echo err >&2; cat; exit 3"});
  EXPECT_EQ(ended.output, "out\nerr\n");
  EXPECT_EQ(WEXITSTATUS(ended.status), 3);
}

TEST(Spawn, AProgramGetsTheGivenEnvironmentAndFolder) {
  EXPECT_EQ(
      RunToEnd({"/bin/sh", "-c", "pwd; echo $ONLY$HOME"},
               {.files = {}, .environment = std::vector<std::string>{"ONLY=x"}, .folder = "/proc"})
          .output,
      "/proc\nx\n");
}

TEST(Spawn, AFileInMemoryIsReadFromItsBeginningAndKeepsOutput) {
  const Result<UniqueFd> input = MemoryFile("words\n");
  const Result<UniqueFd> output = MemoryFile("");
  ASSERT_TRUE(input && output);
  const auto child = Spawn({"cat"}, {.files = {input->get(), output->get(), STDERR_FILENO}});
  ASSERT_TRUE(child);
  int status = 0;
  ASSERT_EQ(::waitpid(child->pid, &status, 0), child->pid);
  char said[16] = {};
  EXPECT_EQ(::pread(output->get(), said, sizeof said, 0), 6);
  EXPECT_STREQ(said, "words\n");
}

TEST(Spawn, AProgramGetsNoOtherDescriptors) {
  const UniqueFd ours(::fcntl(0, F_DUPFD, 20));  // not close-on-exec
  const std::string look = "[ -e /proc/$$/fd/" + std::to_string(ours.get()) + " ] && echo there";
  EXPECT_EQ(RunToEnd({"sh", "-c", look}).output, "");
}

TEST(Spawn, AFourthDescriptorTakesItsPlace) {
  Result<Pipe> pipe = MakePipe(false);
  ASSERT_TRUE(pipe);
  const auto child = Spawn({"sh", "-c", "echo four >&3"},
                           {.files = {"/dev/null", "/dev/null", "/dev/null", pipe->write.get()}});
  ASSERT_TRUE(child);
  ASSERT_EQ(::waitpid(child->pid, nullptr, 0), child->pid);
  char text[8] = {};
  EXPECT_EQ(::read(pipe->read.get(), text, sizeof text), 5);
  EXPECT_STREQ(text, "four\n");
}

TEST(Spawn, AFileIsMadeAndAppendedTo) {
  const std::string path = "/tmp/carma-spawn-test-" + std::to_string(::getpid());
  for (int i = 0; i < 2; ++i) {
    const auto child =
        Spawn({"sh", "-c", "echo line >&2"}, {.files = {"/dev/null", "/dev/null", path}});
    ASSERT_TRUE(child);
    ASSERT_EQ(::waitpid(child->pid, nullptr, 0), child->pid);
  }
  EXPECT_EQ(ReadFile(path, 100).value_or(""), "line\nline\n");
  std::remove(path.c_str());
}

TEST(Spawn, AProgramGetsItsOwnSessionOrGroup) {
  const std::string numbers =
      "read -r pid name state parent group session rest < /proc/$$/stat; "
      "[ $group = $$ ] && echo group; [ $session = $$ ] && echo session";
  EXPECT_EQ(RunToEnd({"sh", "-c", numbers}).output, "group\n");
  EXPECT_EQ(RunToEnd({"sh", "-c", numbers}, {.files = {}, .session = true}).output,
            "group\nsession\n");
}

TEST(Spawn, SignalsHaveDefaultActionsAndCanBeBlocked) {
  const auto old = ::signal(SIGUSR1, SIG_IGN);
  EXPECT_EQ(WTERMSIG(RunToEnd({"sh", "-c", "kill -USR1 $$; echo no"}).status), SIGUSR1);
  EXPECT_EQ(RunToEnd({"sh", "-c", "kill -USR1 $$; echo yes"}, {.files = {}, .block_signals = true})
                .output,
            "yes\n");
  ::signal(SIGUSR1, old);
}

TEST(Spawn, AMissingProgramIsAnError) {
  const auto child = Spawn({"/nonexistent/program"}, {.files = {}});
  ASSERT_FALSE(child);
  EXPECT_EQ(child.error(), ENOENT);
}

TEST(Pipe, DescriptorsAreNotStandardStreams) {
  const UniqueFd kept(::fcntl(0, F_DUPFD_CLOEXEC, 10));
  ::close(0);
  const Result<Pipe> pipe = MakePipe();
  ::dup2(kept.get(), 0);
  ASSERT_TRUE(pipe);
  EXPECT_GT(pipe->read.get(), 2);
  EXPECT_GT(pipe->write.get(), 2);
}

TEST(Spawn, AProgramThatIsDeletedWhileItRunsIsReplaced) {
  std::string folder = ::testing::TempDir() + "/carma-replaced-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string program = folder + "/sleep";
  std::filesystem::copy_file("/bin/sleep", program);
  const auto child = Spawn({program, "1000"}, {});
  ASSERT_TRUE(child);
  const std::string link = "/proc/" + std::to_string(child->pid) + "/exe";
  EXPECT_FALSE(IsReplaced(link));
  std::filesystem::remove_all(folder);
  EXPECT_TRUE(IsReplaced(link));
  EXPECT_FALSE(IsReplaced()) << "this program";
  ::kill(child->pid, SIGKILL);
  ::waitpid(child->pid, nullptr, 0);
}

}  // namespace
}  // namespace carma::base
