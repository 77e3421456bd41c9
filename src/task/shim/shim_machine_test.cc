// Tests how machine conditions (users, full disks, speed) affect tasks.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/unique_fd.h"
#include "task/process/user.h"
#include "task/shim/container_plan.h"
#include "task/shim/shim_fixture.h"

namespace carma::task {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

constexpr uid_t kNobody = 65'534;

class ShimMachineTest : public ShimLauncherTest {};

// ---- users ----

TEST_F(ShimMachineTest, TheTaskHasOnlyItsUsersRights) {
  if (!CanSwitchUser()) GTEST_SKIP() << "needs root";
  LaunchOrder order = Order("");
  order.uid = kNobody;
  order.gid = kNobody;
  order.spec.command.clear();
  order.spec.script = "#!/bin/sh\nid -u; id -g; id -G\ncat " + Dir() +
                      "/order.json && echo leaked\nls " + Dir() + " && echo leaked\necho \"$0\"\n";
  const ShimEvent exit = Run(order);
  EXPECT_THAT(Out(), MatchesRegex("65534\n65534\n65534\n/.*/script\n")) << Err();
  EXPECT_EQ(exit.exit_code, 0);
  struct stat st {};
  ASSERT_EQ(::stat((root_ + "/out").c_str(), &st), 0);
  EXPECT_EQ(st.st_uid, kNobody);
  EXPECT_EQ(st.st_gid, kNobody);
}

TEST_F(ShimMachineTest, RunsAScriptEvenBelowAClosedStateFolder) {
  if (!CanSwitchUser()) GTEST_SKIP() << "needs root";
  ASSERT_TRUE(base::MakeDirs(root_ + "/attempts", 0700));
  LaunchOrder order = Order("");
  order.uid = kNobody;
  order.gid = kNobody;
  order.spec.command.clear();
  order.spec.script = "#!/bin/sh\necho \"$0\"\nsh -c \"cat $0\" | head -1\n";
  EXPECT_EQ(Run(order).exit_code, 0) << Err();
  EXPECT_THAT(Out(), MatchesRegex("/proc/[0-9]+/fd/[0-9]+\n#!/bin/sh\n"));
}

TEST_F(ShimMachineTest, OpensNoUserFileWithRootsRights) {
  if (!CanSwitchUser()) GTEST_SKIP() << "needs root";
  ASSERT_TRUE(base::MakeDirs(root_ + "/roots", 0755));
  LaunchOrder order = Order("true");
  order.uid = kNobody;
  order.gid = kNobody;
  order.spec.stdout_path = root_ + "/roots/out";
  launcher_->Start(order);
  const ShimEvent failed = NextFailed();
  EXPECT_FALSE(failed.retryable);
  EXPECT_THAT(failed.text, HasSubstr("/roots/out': Permission denied"));
  EXPECT_FALSE(base::Exists(root_ + "/roots/out"));
}

TEST_F(ShimMachineTest, NewFilesFollowTheUmask) {
  LaunchOrder order = Order("umask; touch made; yes | head -c 30000");
  order.spec.umask = "077";
  order.max_output_bytes = 10'000;
  order.output_rotations = 2;
  if (CanSwitchUser()) order.uid = order.gid = kNobody;
  EXPECT_EQ(Run(order).exit_code, 0) << Err();
  for (const char* name : {"/made", "/out", "/out.1", "/err"}) {
    struct stat st {};
    ASSERT_EQ(::stat((root_ + name).c_str(), &st), 0) << name;
    EXPECT_EQ(st.st_mode & 0777U, 0600U) << name;
  }
}

TEST_F(ShimMachineTest, AProgramNamedPodmanGainsNoPrivileges) {
  if (!CanSwitchUser()) GTEST_SKIP() << "needs root";
  const std::string fake = root_ + "/podman";
  ASSERT_TRUE(base::WriteFileAtomic(fake, "#!/bin/sh\ngrep NoNewPrivs /proc/self/status\n", 0755));
  ASSERT_EQ(::chmod(fake.c_str(), 0755), 0);
  LaunchOrder order = Order("true");
  order.uid = order.gid = kNobody;
  order.spec.container = "podman:lab";
  order.spec.environment["PATH"] = root_ + ":/usr/bin:/bin";
  EXPECT_EQ(Run(order).exit_code, 0) << Err();
  EXPECT_EQ(Out(), "NoNewPrivs:\t1\n");
}

TEST_F(ShimMachineTest, TrustsOnlyProgramsThatOnlyRootCanChange) {
  if (!CanSwitchUser()) GTEST_SKIP() << "needs root";
  const auto mode = [](const std::string& path, mode_t bits) {
    EXPECT_EQ(::chmod(path.c_str(), bits), 0) << path;
  };
  const std::string bin = root_ + "/bin", tool = bin + "/tool", link = root_ + "/link";
  mode(root_, 0755);
  ASSERT_TRUE(base::MakeDirs(bin, 0755));
  ASSERT_TRUE(base::WriteFileAtomic(tool, "#!/bin/sh\n", 0755));
  mode(tool, 0755);
  mode(bin, 0755);
  EXPECT_TRUE(OnlyRootChanges(tool)) << "/tmp above it is sticky";
  EXPECT_FALSE(OnlyRootChanges(bin + "/none"));
  mode(tool, 0757);
  EXPECT_FALSE(OnlyRootChanges(tool));
  mode(tool, 0755);
  mode(bin, 01777);
  EXPECT_FALSE(OnlyRootChanges(tool)) << "others could put a link there";
  mode(bin, 0755);
  mode(root_, 0777);
  EXPECT_FALSE(OnlyRootChanges(tool)) << "others could replace the folder";
  ASSERT_EQ(::symlink(tool.c_str(), link.c_str()), 0);
  mode(root_, 0755);
  EXPECT_TRUE(OnlyRootChanges(link));
  ASSERT_EQ(::chown(tool.c_str(), kNobody, kNobody), 0);
  EXPECT_FALSE(OnlyRootChanges(link));
}

TEST_F(ShimMachineTest, AUserCannotSignalTheShim) {
  if (!CanSwitchUser()) GTEST_SKIP() << "needs root";
  LaunchOrder order = Order("kill -USR1 $PPID || echo refused; kill -9 $PPID || echo refused");
  order.uid = kNobody;
  order.gid = kNobody;
  EXPECT_EQ(Run(order).exit_code, 0);
  EXPECT_EQ(Out(), "refused\nrefused\n");
}

TEST_F(ShimMachineTest, StopsAllProcessesOfAUsersTask) {
  if (!CanSwitchUser()) GTEST_SKIP() << "needs root";
  LaunchOrder order = Order(
      "(setsid sh -c 'trap \"\" TERM; echo $$ > $TELL; "
      "while :; do sleep 1; done' &) & wait; sleep 1000");
  order.uid = kNobody;
  order.gid = kNobody;
  launcher_->Start(order);
  NextStarted();
  const std::string pid = Told();
  launcher_->Stop(kTask, 1);
  NextExited();
  EXPECT_FALSE(base::Exists("/proc/" + pid));
}

// ---- a full disk ----

class FullDiskTest : public ShimLauncherTest {
 protected:
  // Mounts a small disk in a private mount namespace.
  bool MountDisk(const std::string& path, const char* options) {
    return base::MakeDirs(path) && ::unshare(CLONE_NEWNS) == 0 &&
           ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           ::mount("tmpfs", path.c_str(), "tmpfs", 0, options) == 0;
  }
  static void Fill(const std::string& path) {
    base::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    while (base::WriteAll(fd.get(), std::string(4096, 'x'))) {
    }
  }
};

TEST_F(FullDiskTest, ATaskContinuesOnAFullDisk) {
  const std::string disk = root_ + "/disk";
  if (!MountDisk(disk, "size=64k")) GTEST_SKIP() << "needs root and mount namespaces";
  LaunchOrder order = Order("yes | head -c 1000000; echo done > " + root_ + "/ran; exit 5");
  order.spec.stdout_path = disk + "/out";
  EXPECT_EQ(Run(order).exit_code, 5);
  EXPECT_EQ(base::ReadFile(root_ + "/ran", 100).value(), "done\n");
  const ShimReport report =
      ParseShimReport(base::ReadFile(Dir() + "/" + kExitFile, kReportReserveBytes).value()).value();
  EXPECT_GE(report.dropped_output_bytes, 1'000'000 - 65'536);
  ::umount(disk.c_str());
}

TEST_F(FullDiskTest, WritesTheReportAlthoughCarmasDiskFillsUp) {
  if (!MountDisk(root_ + "/attempts", "size=1m")) GTEST_SKIP() << "needs root and namespaces";
  launcher_->Start(Order("echo up > $TELL; read x < $GO; yes tail | head -c 100000 >&2; exit 5"));
  NextStarted();
  EXPECT_EQ(Told(), "up");
  Fill(root_ + "/attempts/filler");
  Go();
  const ShimEvent exit = NextExited();
  EXPECT_EQ(exit.exit_code, 5);
  EXPECT_EQ(exit.stderr_tail.size(), kStderrTailBytes);
  EXPECT_TRUE(base::Exists(Dir() + "/" + kExitFile));
  ::umount((root_ + "/attempts").c_str());
}

TEST_F(FullDiskTest, SendsAReportThatCannotBeWritten) {
  if (!MountDisk(root_ + "/attempts", "size=1m")) GTEST_SKIP() << "needs root and namespaces";
  launcher_->Start(Order("echo up > $TELL; read x < $GO; exit 5"));
  NextStarted();
  EXPECT_EQ(Told(), "up");
  const base::ProcessId shim = ShimProcess();
  ASSERT_EQ(::unlink((Dir() + "/exit.json.reserve").c_str()), 0);  // so the report needs new space
  Fill(root_ + "/attempts/filler");
  Go();
  EXPECT_EQ(NextExited().exit_code, 5) << "reported through the pipe";
  EXPECT_TRUE(base::Alive(shim)) << "it keeps the report for a daemon that missed it";
  ASSERT_EQ(::unlink((root_ + "/attempts/filler").c_str()), 0);
  ASSERT_TRUE(Gone(shim));
  Restart();
  launcher_->Adopt({kTask, 1, Dir()});
  NextStarted();
  EXPECT_EQ(NextExited().exit_code, 5);
  ::umount((root_ + "/attempts").c_str());
}

TEST_F(FullDiskTest, ADiskFullAtTheStartIsRetryable) {
  if (!MountDisk(root_ + "/attempts", "size=64k")) GTEST_SKIP() << "needs root and namespaces";
  // 64 KiB is enough for the launch order but not for the space reserved for the report.
  launcher_->Start(Order("true"));
  const ShimEvent failed = NextFailed();
  EXPECT_TRUE(failed.retryable);
  EXPECT_THAT(failed.text, HasSubstr("No space left on device"));
  ::umount((root_ + "/attempts").c_str());
}

// ---- speed ----

TEST_F(ShimMachineTest, AStartTakesMilliseconds) {
  constexpr int kStarts = 200;
  std::vector<double> milliseconds;
  for (int attempt = 1; attempt <= kStarts; ++attempt) {
    LaunchOrder order = Order("");
    order.spec.command = {"/bin/true"};
    order.attempt = attempt;
    order.attempt_dir = root_ + "/attempts/5/" + std::to_string(attempt);
    const auto asked = Clock::now();
    launcher_->Start(order);
    NextStarted();
    milliseconds.push_back(std::chrono::duration<double, std::milli>(Clock::now() - asked).count());
    NextExited();
  }
  std::ranges::sort(milliseconds);
  std::printf("start to started: p50 %.2f ms, p99 %.2f ms\n", milliseconds[kStarts / 2],
              milliseconds[kStarts * 99 / 100]);
  EXPECT_LT(milliseconds[kStarts / 2], 250) << "sanitizers and busy machines included";
}

}  // namespace
}  // namespace carma::task
