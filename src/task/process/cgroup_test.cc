#include "task/process/cgroup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "base/file.h"

namespace carma::task {
namespace {

TEST(Cgroup, FindsThePlaceInTheKernelsTables) {
  struct Case {
    const char* name;
    const char* self;
    const char* mounts;
    CgroupBase expect;
  };
  constexpr char kUnifiedOnly[] =
      "24 1 0:22 / /proc rw - proc proc rw\n"
      "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
  constexpr char kBoth[] =
      "31 24 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
      "30 24 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
  constexpr char kContainer[] = "30 24 0:26 /docker/ab /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
  const Case cases[] = {
      {"a service under systemd",
       "0::/system.slice/carmad.service\n",
       kUnifiedOnly,
       {"/sys/fs/cgroup", "/sys/fs/cgroup/system.slice/carmad.service", ""}},
      {"both versions mounted",
       "4:memory:/x\n0::/\n",
       kBoth,
       {"/sys/fs/cgroup/unified", "/sys/fs/cgroup/unified", ""}},
      {"a part of the tree mounted in a container",
       "0::/docker/ab/sub\n",
       kContainer,
       {"/sys/fs/cgroup", "/sys/fs/cgroup/sub", ""}},
      {"outside the mounted part",
       "0::/other\n",
       kContainer,
       {"", "", "this process's cgroup /other is outside the mounted /docker/ab"}},
      {"next to the mounted part",
       "0::/docker/abc\n",
       kContainer,
       {"", "", "this process's cgroup /docker/abc is outside the mounted /docker/ab"}},
      {"version 1 only", "4:memory:/x\n", "", {"", "", "no cgroup v2 tree is mounted"}},
      {"no line about version 2",
       "4:memory:/x\n",
       kBoth,
       {"", "", "this process is not in a cgroup v2 group"}},
  };
  for (const Case& c : cases) EXPECT_EQ(ParseCgroupPlace(c.self, c.mounts), c.expect) << c.name;
}

TEST(Cgroup, RefusesAPlaceWithoutRights) {
  EXPECT_THAT(IfWritable({.root = "/sys/fs/cgroup", .path = "/proc/1/fdinfo"}).reason,
              ::testing::HasSubstr("is not writable by carmad"));
  const CgroupBase none{.reason = "no cgroup v2 tree is mounted"};
  EXPECT_EQ(IfWritable(none), none);
}

TEST(Cgroup, KillEndsEveryMemberAndTheGroupCanBeRemoved) {
  const CgroupBase base = FindCgroupBase();
  if (base.path.empty()) GTEST_SKIP() << base.reason;
  Result<TaskCgroup> group = TaskCgroup::Create(base.path, CgroupName(1, 1, ::getpid()));
  if (!group) GTEST_SKIP() << group.error().message;
  const pid_t child = ::fork();
  if (child == 0) {
    if (!TaskCgroup::Enter(group->folder_fd())) ::_exit(1);
    ::raise(SIGSTOP);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, WUNTRACED), child);
  ASSERT_TRUE(WIFSTOPPED(status));
  EXPECT_EQ(base::ReadFile(group->path() + "/cgroup.procs", 1000).value(),
            std::to_string(child) + "\n");
  EXPECT_FALSE(group->Remove()) << "it contains a process";
  if (!group->Kill()) ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(group->Remove());
  EXPECT_FALSE(base::Exists(group->path()));
}

TEST(Cgroup, RefusesAFolderThatIsNotAGroup) {
  EXPECT_FALSE(TaskCgroup::Create("/nonexistent", "x"));
}

class FakeTree : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(base_.path + "/carmad.daemon");
    for (const char* file : {"/cgroup.procs", "/cgroup.subtree_control"})
      std::ofstream(base_.path + file) << "";
    std::ofstream(base_.path + "/cgroup.controllers") << "cpuset cpu io memory pids\n";
    std::ofstream(base_.path + "/carmad.daemon/cgroup.procs") << "7\n";
  }
  void TearDown() override { std::filesystem::remove_all(base_.path); }
  std::string Control() const {
    std::stringstream text;
    text << std::ifstream(base_.path + "/cgroup.subtree_control").rdbuf();
    return text.str();
  }
  const CgroupBase base_{.root = "/", .path = ::testing::TempDir() + "/carma-tree"};
};

TEST_F(FakeTree, TasksGetGroupsBesideTheDaemonsGroup) {
  CgroupBase daemon = base_;
  daemon.path += "/carmad.daemon";
  EXPECT_EQ(PlaceForTasks(daemon), base_);
  EXPECT_EQ(PlaceForTasks(base_), base_);
}

TEST_F(FakeTree, UsesTheGroupOfTheTasksUnit) {
  const CgroupBase daemon{.root = "/", .path = base_.path + "/carmad.service"};
  const CgroupBase tasks{.root = "/", .path = base_.path + "/carmad-tasks.service"};
  EXPECT_EQ(PlaceForTasks(daemon), daemon) << "the unit is not running";
  const std::string keeper = tasks.path + "/carmad.keeper";
  std::filesystem::create_directories(keeper);
  for (const std::string& group : {tasks.path, keeper}) {
    for (const char* file : {"/cgroup.procs", "/cgroup.subtree_control"})
      std::ofstream(group + file) << "";
  }
  std::ofstream(tasks.path + "/cgroup.controllers") << "cpu memory pids\n";
  std::ofstream(tasks.path + "/cgroup.procs") << "41\n";
  EXPECT_EQ(PlaceForTasks(daemon), tasks);
  (void)EnableControls(tasks);  // a real kernel would have emptied the group
  EXPECT_EQ(base::ReadFile(keeper + "/cgroup.procs", 100).value(), "41");
}

TEST_F(FakeTree, EnablesControllersIfTheGroupHasNoProcessItself) {
  EXPECT_EQ(EnableControls(base_), (CgroupControls{true, true, true, true, ""}));
  EXPECT_EQ(Control(), "+pids +memory +cpu +cpuset");
  std::ofstream(base_.path + "/cgroup.subtree_control") << "";
  std::ofstream(base_.path + "/cgroup.procs") << "7\n";
  const CgroupControls beside = EnableControls(base_);
  EXPECT_FALSE(beside.processes) << "the next carmad could not be started in it";
  EXPECT_THAT(beside.why_not, ::testing::HasSubstr("carmad-tasks.service is not running"));
  EXPECT_EQ(Control(), "");
  std::ofstream(base_.path + "/cgroup.subtree_control") << "memory pids\n";
  EXPECT_TRUE(EnableControls(base_).processes) << "another process has enabled them";
  EXPECT_EQ(EnableControls({.reason = "none is mounted"}).why_not, "none is mounted");
}

TEST_F(FakeTree, ReportsMissingControllers) {
  std::ofstream(base_.path + "/cgroup.controllers") << "memory pids\n";
  const CgroupControls controls = EnableControls(base_);
  EXPECT_TRUE(controls.memory);
  EXPECT_FALSE(controls.cpu);
  EXPECT_THAT(controls.why_not,
              ::testing::HasSubstr("has no cgroup v2 controller for cpu, cpuset"));
  std::ofstream(base_.path + "/cgroup.subtree_control") << "";
  std::ofstream(base_.path + "/cgroup.procs") << "7\n";
  EXPECT_THAT(EnableControls(base_).why_not, ::testing::HasSubstr("is not running"))
      << "the fixable cause comes first";
}

TEST_F(FakeTree, WritesLimitsInTheKernelsForm) {
  const Result<TaskCgroup> group = TaskCgroup::Create(base_.path, "task");
  ASSERT_TRUE(group);
  EXPECT_FALSE(group->LimitMemory(512)) << "the file exists only with the controller";
  for (const char* file : {"memory.max", "memory.oom.group", "memory.swap.max", "cpu.weight",
                           "cpu.max", "cpuset.cpus"})
    std::ofstream(group->path() + "/" + file) << "";
  const auto text = [&](const char* file) {
    return base::ReadFile(group->path() + "/" + file, 1000).value();
  };
  EXPECT_TRUE(group->LimitMemory(512));
  EXPECT_EQ(text("memory.max"), "536870912");
  EXPECT_EQ(text("memory.oom.group"), "1");
  EXPECT_EQ(text("memory.swap.max"), "0");
  EXPECT_TRUE(group->WeighCpus(4));
  EXPECT_EQ(text("cpu.weight"), "400");
  EXPECT_TRUE(group->WeighCpus(128));
  EXPECT_EQ(text("cpu.weight"), "10000");
  EXPECT_TRUE(group->CapCpus(4));
  EXPECT_EQ(text("cpu.max"), "400000 100000");
  EXPECT_TRUE(group->ConfineTo("0-3,8"));
  EXPECT_EQ(text("cpuset.cpus"), "0-3,8\n");
}

}  // namespace
}  // namespace carma::task
