#include "daemon/loop/read_as_user.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <iterator>
#include <latch>
#include <thread>
#include <utility>

#include "base/file.h"
#include "base/unique_fd.h"

namespace carma::daemon {
namespace {

using ::testing::HasSubstr;

class ReadAsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "carma-read-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
    ASSERT_EQ(::chmod(dir_.c_str(), 0755), 0);
    own_ = task::LookUpUser(::getuid(), ::getgid()).value();
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  std::string Write(const std::string& name, const std::string& text, unsigned mode) {
    const std::string path = dir_ + "/" + name;
    EXPECT_TRUE(base::WriteFileAtomic(path, text, mode));
    return path;
  }
  static task::UserInfo Nobody() {
    const passwd* entry = ::getpwnam("nobody");
    return task::LookUpUser(entry->pw_uid, entry->pw_gid).value();
  }

  std::string dir_;
  task::UserInfo own_;
};

TEST_F(ReadAsTest, ReadsOnlyRegularFilesOfLimitedSize) {
  EXPECT_EQ(ReadAs(own_, Write("small", "layers", 0644), 100).value(), "layers");
  EXPECT_EQ(ReadAs(own_, dir_ + "/none", 100).error().code, ErrorCode::kNotFound);
  EXPECT_THAT(ReadAs(own_, dir_, 100).error().message, HasSubstr("expected a regular file"));
  EXPECT_THAT(ReadAs(own_, Write("large", std::string(101, 'x'), 0644), 100).error().message,
              HasSubstr("large: expected at most"));
  const std::string pipe = dir_ + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0644), 0);
  EXPECT_THAT(ReadAs(own_, pipe, 100).error().message, HasSubstr("expected a regular file"))
      << "the call does not wait for a writer";
  EXPECT_THAT(ReadAs(own_, "/dev/null", 100).error().message, HasSubstr("regular file"));
}

TEST_F(ReadAsTest, ReadsTheEndOfAFileOfAnySize) {
  const std::string path = Write("log", "one\ntwo\nthree\n", 0644);
  const FileEnd end = ReadEndAs(own_, path, 6).value();
  EXPECT_EQ(end.text, "three\n");
  EXPECT_EQ(end.from, 8);
  EXPECT_EQ(end.size, 14);
  EXPECT_EQ(ReadEndAs(own_, path, 100)->text, "one\ntwo\nthree\n");
  EXPECT_EQ(ReadEndAs(own_, Write("empty", "", 0644), 100)->text, "");
  EXPECT_EQ(ReadEndAs(own_, dir_ + "/none", 100).error().code, ErrorCode::kNotFound);
}

TEST_F(ReadAsTest, AsRootUsesTheUsersRights) {
  if (!task::CanSwitchUser()) GTEST_SKIP() << "needs root";
  const task::UserInfo nobody = Nobody();
  const std::string secret = Write("secret", "root's", 0600);
  EXPECT_EQ(ReadAs(nobody, secret, 100).error().code, ErrorCode::kDenied);
  EXPECT_EQ(ReadAs(own_, secret, 100).value(), "root's") << "carmad's own privileges are restored";
  EXPECT_EQ(ReadAs(nobody, Write("open", "all", 0644), 100).value(), "all");
  const std::string grouped = Write("grouped", "group", 0640);
  ASSERT_EQ(::chown(grouped.c_str(), 0, nobody.gid), 0);
  EXPECT_EQ(ReadAs(nobody, grouped, 100).value(), "group");
  ASSERT_EQ(::chmod(dir_.c_str(), 0700), 0);
  EXPECT_EQ(ReadAs(nobody, dir_ + "/open", 100).error().code, ErrorCode::kDenied)
      << "the user may not enter the folder";
}

TEST_F(ReadAsTest, DoesNotReadFilesOfProc) {
  EXPECT_THAT(ReadAs(own_, "/proc/self/maps", 1 << 20).error().message, HasSubstr("regular file"))
      << "these are carmad's own maps";
  Write("open", "all", 0644);
  const std::string by_link = "/proc/self/root" + dir_ + "/open";
  EXPECT_FALSE(ReadAs(own_, by_link, 100));
  std::filesystem::create_symlink(by_link, dir_ + "/link");
  EXPECT_FALSE(ReadEndAs(own_, dir_ + "/link", 100));
}

TEST_F(ReadAsTest, AsRootUsesNoCapabilities) {
  if (!task::CanSwitchUser()) GTEST_SKIP() << "needs root";
  const auto effective = [] {
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    std::array<__user_cap_data_struct, 2> found{};
    EXPECT_EQ(::syscall(SYS_capget, &header, found.data()), 0);
    return std::pair(found[0].effective, found[1].effective);
  };
  const auto before = effective();
  {
    const ThreadRights rights(Nobody());
    EXPECT_TRUE(rights.worn());
    EXPECT_EQ(effective(), std::pair(0U, 0U));
  }
  EXPECT_EQ(effective(), before);
}

// /proc/PID/cwd of another user's process would bypass a folder that the reader may not enter.
TEST_F(ReadAsTest, AsRootDoesNotEnterFoldersOfOtherUsers) {
  if (!task::CanSwitchUser()) GTEST_SKIP() << "needs root";
  const std::string inner = dir_ + "/inner";
  ASSERT_EQ(::mkdir(inner.c_str(), 0755), 0);
  Write("inner/open", "all", 0644);
  ASSERT_EQ(::chmod(inner.c_str(), 0755), 0);
  ASSERT_EQ(::chmod(dir_.c_str(), 0700), 0);
  int ready[2];
  ASSERT_EQ(::pipe2(ready, O_CLOEXEC), 0);
  const base::UniqueFd from(ready[0]), to(ready[1]);
  const pid_t other = ::fork();
  if (other == 0) {
    ::alarm(60);
    if (::chdir(inner.c_str()) != 0 || ::write(to.get(), "x", 1) != 1) ::_exit(1);
    while (true) ::pause();
  }
  char arrived = 0;
  EXPECT_EQ(::read(from.get(), &arrived, 1), 1);
  const std::string cwd = "/proc/" + std::to_string(other) + "/cwd";
  EXPECT_FALSE(ReadAs(Nobody(), cwd + "/open", 100));
  {
    const ThreadRights rights(Nobody());
    char link[8];
    EXPECT_EQ(::readlink(cwd.c_str(), link, sizeof link), -1) << "also without openat2";
  }
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
}

// Calls `holds` in a separate process, because a system call filter cannot be removed.
int ExitCodeWithoutOpenat2(const std::function<bool()>& holds) {
  const pid_t child = ::fork();
  if (child == 0) {
    sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program{.len = std::size(filter), .filter = filter};
    const bool ready = ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                       ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
    ::_exit(!ready ? 2 : holds() ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(ReadAsTest, AsRootOpenFilesOfTheDaemonStayClosedWithoutOpenat2) {
  if (!task::CanSwitchUser()) GTEST_SKIP() << "needs root";
  const task::UserInfo nobody = Nobody();
  const std::string open = Write("open", "all", 0644);
  ASSERT_EQ(::mkdir((dir_ + "/closed").c_str(), 0700), 0);
  const std::string secret = Write("closed/secret", "root's", 0644);
  const base::UniqueFd fd(::open(secret.c_str(), O_RDONLY | O_CLOEXEC));
  const std::string link = dir_ + "/link";
  std::filesystem::create_symlink("/proc/self/fd/" + std::to_string(fd.get()), link);
  EXPECT_EQ(ExitCodeWithoutOpenat2([&] {
              return ReadAs(nobody, open, 100).value_or("") == "all" && !ReadAs(nobody, link, 100);
            }),
            0);
}

TEST_F(ReadAsTest, OtherThreadsKeepTheirRights) {
  if (!task::CanSwitchUser()) GTEST_SKIP() << "needs root";
  const std::string secret = Write("secret", "root's", 0600);
  const task::UserInfo nobody = Nobody();
  std::latch worn(1), done(1);
  std::thread other([&] {
    const ThreadRights rights(nobody);
    worn.count_down();
    done.wait();
  });
  worn.wait();
  EXPECT_EQ(ReadAs(own_, secret, 100).value(), "root's");
  done.count_down();
  other.join();
}

}  // namespace
}  // namespace carma::daemon
