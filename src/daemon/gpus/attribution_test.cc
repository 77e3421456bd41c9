#include "daemon/gpus/attribution.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace carma::daemon {
namespace {

constexpr core::TaskId kTask{7};
constexpr pid_t kNobodys = 1'000'000'007;  // larger than any Linux pid

TEST(Attribution, AProcessBelongsToTheTaskWhoseProcessesItDescendsFrom) {
  Attribution attribution;
  attribution.Add(kTask, base::SelfProcess(), "");
  EXPECT_EQ(attribution.Find(::getpid()), kTask);
  EXPECT_EQ(attribution.Find(::getppid()), kTask) << "the shim belongs to the task too";
  EXPECT_EQ(attribution.Tasks(), std::vector<core::TaskId>{kTask});
  attribution.Remove(kTask);
  EXPECT_EQ(attribution.Find(::getpid()), std::nullopt);
  EXPECT_TRUE(attribution.Tasks().empty());
}

TEST(Attribution, ATaskMayHaveSeveralRoots) {
  Attribution attribution;
  const base::ProcessId elsewhere{kNobodys, 1};
  attribution.AddRoot(kTask, base::SelfProcess());
  EXPECT_EQ(attribution.Find(::getpid()), std::nullopt) << "the task is unknown";
  attribution.Add(kTask, elsewhere, "");
  EXPECT_EQ(attribution.Find(::getpid()), std::nullopt);
  attribution.AddRoot(kTask, base::SelfProcess());
  EXPECT_EQ(attribution.Find(::getpid()), kTask) << "although it was foreign before";
  EXPECT_EQ(attribution.Find(::getppid()), std::nullopt) << "it is not below a root";
  attribution.Remove(kTask);
  EXPECT_EQ(attribution.Find(::getpid()), std::nullopt);
}

TEST(Attribution, AReusedPidDoesNotBelongToTheTask) {
  base::ProcessId earlier = base::SelfProcess();
  --earlier.start_ticks;  // an earlier process with the same pid
  Attribution attribution;
  attribution.Add(kTask, earlier, "");
  EXPECT_EQ(attribution.Find(::getpid()), std::nullopt);
}

TEST(Attribution, AnEndedProcessKeepsItsTaskUntilItIsNoLongerListed) {
  Attribution attribution;
  attribution.Add(kTask, {kNobodys, 1}, "");
  const SeenProcess seen{.line = {{kNobodys + 1, 5}, {kNobodys, 1}}, .cgroup = "", .face = {}};
  EXPECT_EQ(attribution.Find(kNobodys + 1, {}), std::nullopt) << "it was never seen";
  EXPECT_EQ(attribution.Find(kNobodys + 1, seen), kTask);
  attribution.Retain({{kNobodys + 1, {}}});
  EXPECT_EQ(attribution.Find(kNobodys + 1, {}), kTask) << "it ended after the driver listed it";
  attribution.Retain({});
  EXPECT_EQ(attribution.Find(kNobodys + 1, {}), std::nullopt);
}

TEST(Attribution, FindsAMainProcessThatEndedBeforeTheFirstLook) {
  Attribution attribution;
  attribution.Add(kTask, {kNobodys, 1}, "");
  EXPECT_EQ(attribution.Find(kNobodys, {}), kTask);
  const SeenProcess other{.line = {{kNobodys, 2}}, .cgroup = "", .face = {}};
  EXPECT_EQ(attribution.Find(kNobodys, other), std::nullopt) << "another process with that pid";
  attribution.Remove(kTask);
  EXPECT_EQ(attribution.Find(kNobodys, {}), std::nullopt);
}

TEST(Attribution, AProcessKeepsItsTaskIfItsParentsEnd) {
  Attribution attribution;
  attribution.Add(kTask, {kNobodys, 1}, "");
  const auto find = [&](std::vector<base::ProcessId> line) {
    return attribution.Find(kNobodys + 1, {.line = std::move(line), .cgroup = "", .face = {}});
  };
  EXPECT_EQ(find({{kNobodys + 1, 5}, {kNobodys, 1}}), kTask);
  EXPECT_EQ(find({{kNobodys + 1, 5}}), kTask) << "its parent may have exited";
  EXPECT_EQ(find({{kNobodys + 1, 6}}), std::nullopt) << "another process with the same pid";
  EXPECT_EQ(find({}), std::nullopt);
}

TEST(Attribution, AProcessInATasksGroupBelongsToIt) {
  Attribution attribution;
  attribution.Add(kTask, {kNobodys, 1}, "/carma/7");
  auto find = [&, pid = 5](const char* cgroup) mutable {
    ++pid;
    return attribution.Find(pid, {.line = {{pid, 5}}, .cgroup = cgroup, .face = {}});
  };
  EXPECT_EQ(find("/carma/7/below"), kTask);
  EXPECT_EQ(find("/carma/70"), std::nullopt);
}

}  // namespace
}  // namespace carma::daemon
