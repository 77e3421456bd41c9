// Shared fixture of the launcher tests: a folder, a launch order, real shims, and a way to wait for
// events.
#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/pidfd.h"
#include "base/process_id.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "task/shim/shim_launcher.h"
#include "task/shim/shim_protocol.h"

namespace carma::task {

using Clock = std::chrono::steady_clock;

constexpr core::TaskId kTask{5};
constexpr int kPatienceMs = 20'000;  // for slow machines; a passing test never waits that long

inline std::string ShimPath() {
  return base::ExecutableDir() + "/carma-shim";
}

class ShimLauncherTest : public ::testing::Test {
 protected:
  ShimLauncherTest() {
    root_ = "/tmp/carma-shim-test-XXXXXX";
    CARMA_CHECK(::mkdtemp(root_.data()) != nullptr, "no folder for the test");
    ::chmod(root_.c_str(), 0777);
    tell_ = MakeFifo(root_ + "/tell");
    go_ = MakeFifo(root_ + "/go");
    Restart();
  }
  ~ShimLauncherTest() override {
    launcher_.reset();
    (void)!::system(("rm -rf " + root_).c_str());
  }

  // Simulates killing and restarting carmad. The old launcher's state is lost.
  void Restart() {
    launcher_ = MakeShimLauncher({ShimPath(), FindCgroupBase()}).value();
    events_.clear();
  }

  LaunchOrder Order(const std::string& script_line) {
    LaunchOrder order;
    order.id = kTask;
    order.attempt = 1;
    order.attempt_dir = Dir();
    order.uid = ::getuid();
    order.gid = ::getgid();
    order.spec.name = "test";
    order.spec.command = {"/bin/sh", "-c", script_line};
    order.spec.workdir = root_;
    order.spec.stdout_path = root_ + "/out";
    order.spec.stderr_path = root_ + "/err";
    order.spec.environment = {
        {"PATH", "/usr/local/bin:/usr/bin:/bin"}, {"TELL", root_ + "/tell"}, {"GO", root_ + "/go"}};
    order.gpu_uuids = {"GPU-x"};
    order.kill_grace = base::Duration(50);
    return order;
  }

  std::string Dir() const { return root_ + "/attempts/5/1"; }
  std::string Out() const { return base::ReadFile(root_ + "/out", 64 << 20).value_or("(none)"); }
  std::string Err() const { return base::ReadFile(root_ + "/err", 64 << 20).value_or("(none)"); }

  // Waits for the next event; fails the test if it takes too long.
  ShimEvent Next() {
    const auto deadline = Clock::now() + std::chrono::milliseconds(kPatienceMs);
    while (events_.empty() && Clock::now() < deadline) {
      pollfd fd{launcher_->PollFd(), POLLIN, 0};
      ::poll(&fd, 1, kPatienceMs);
      launcher_->Poll([this](ShimEvent event) { events_.push_back(std::move(event)); });
    }
    if (events_.empty()) {
      ADD_FAILURE() << "no event came";
      return {};
    }
    ShimEvent event = events_.front();
    events_.erase(events_.begin());
    return event;
  }

  ShimEvent NextStarted() {
    ShimEvent event = Next();
    EXPECT_EQ(event.kind, ShimEventKind::kStarted) << event.text;
    return event;
  }
  ShimEvent NextExited() {
    ShimEvent event = Next();
    EXPECT_EQ(event.kind, ShimEventKind::kExited) << event.text;
    return event;
  }
  ShimEvent NextFailed() {
    ShimEvent event = Next();
    EXPECT_EQ(event.kind, ShimEventKind::kLaunchFailed);
    return event;
  }
  ShimEvent Run(LaunchOrder order) {
    launcher_->Start(std::move(order));
    NextStarted();
    return NextExited();
  }

  // Creates a named pipe. Tasks get two of them, as $TELL and $GO. A task writes to $TELL when it
  // reaches a certain point, and continues once something is written to $GO.
  static base::UniqueFd MakeFifo(const std::string& path) {
    CARMA_CHECK(::mkfifo(path.c_str(), 0666) == 0, "mkfifo");
    ::chmod(path.c_str(), 0666);
    return base::UniqueFd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  }
  std::string Told() {
    std::string line;
    char c = 0;
    pollfd fd{tell_.get(), POLLIN, 0};
    while (::poll(&fd, 1, kPatienceMs) == 1 && ::read(tell_.get(), &c, 1) == 1 && c != '\n')
      line += c;
    return line;
  }
  void Go(const std::string& word = "go") { EXPECT_TRUE(base::WriteAll(go_.get(), word + "\n")); }

  base::ProcessId ShimProcess() {
    return ParseShimOwner(base::ReadFile(Dir() + "/" + kOwnerFile, kMaxOwnerBytes).value())
        .value()
        .process;
  }

  // Waits until the process is gone, whichever process reaps it.
  static bool Gone(const base::ProcessId& process) {
    const base::UniqueFd fd = base::OpenPidfd(process.pid);
    if (!fd || !base::Alive(process)) return true;
    pollfd wait{fd.get(), POLLIN, 0};
    return ::poll(&wait, 1, kPatienceMs) == 1;
  }
  static bool Gone(const std::string& pid_text) {
    const auto pid = static_cast<pid_t>(base::ParseInt(pid_text).value_or(0));
    const std::optional<base::ProcessStat> stat = base::ReadProcessStat(pid);
    return pid > 0 && (!stat || Gone(stat->id));
  }

  std::string root_;
  std::unique_ptr<Launcher> launcher_;
  std::vector<ShimEvent> events_;
  base::UniqueFd tell_;
  base::UniqueFd go_;
};

}  // namespace carma::task
