#include "daemon/gpus/fault_origins.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace carma::daemon {
namespace {

constexpr core::TaskId kFaulty{7};
constexpr std::optional<core::TaskId> kNobody;
constexpr char kPci[] = "00000000:07:00.0";

class FaultOriginsTest : public ::testing::Test {
 protected:
  FaultOriginsTest() { std::ofstream{path_}; }
  ~FaultOriginsTest() override { std::filesystem::remove(path_); }
  void Write(pid_t pid) {
    std::ofstream(path_, std::ios::app)
        << "NVRM: Xid (PCI:0000:07:00): 31, pid=" << pid << ", name=python3\n";
  }

  const std::string path_ = ::testing::TempDir() + "fault_origins." + std::to_string(::getpid());
  Attribution attribution_;
};

TEST_F(FaultOriginsTest, TheTaskOfTheLoggedProcessCausedTheFault) {
  FaultOrigins origins(path_);
  attribution_.Add(kFaulty, base::SelfProcess(), "");
  Write(::getpid());
  Write(1);
  origins.Look(base::FromMs(10'000), attribution_);
  EXPECT_EQ(origins.LastOn(kPci, base::FromMs(11'000), base::FromMs(0)), kFaulty);
  EXPECT_EQ(origins.LastOn("00000000:08:00.0", base::FromMs(11'000), base::FromMs(0)), kNobody);
  EXPECT_EQ(origins.LastOn(kPci, base::FromMs(11'000), base::FromMs(10'001)), kNobody)
      << "faults before the attempt do not count";
  EXPECT_EQ(origins.LastOn(kPci, base::FromMs(3'700'000), base::FromMs(0)), kNobody);
}

TEST_F(FaultOriginsTest, FindsTheTaskOfAProcessThatHasEnded) {
  FaultOrigins origins(path_);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(::pause());
  attribution_.Add(kFaulty, base::ReadProcessStat(child)->id, "");
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  Write(child);
  origins.Look(base::FromMs(10'000), attribution_);
  EXPECT_EQ(origins.LastOn(kPci, base::FromMs(10'000), base::FromMs(0)), kFaulty);
}

TEST_F(FaultOriginsTest, NoOriginIsKnownWithoutALog) {
  for (const std::string& path : {std::string(), path_ + ".none"}) {
    FaultOrigins origins(path);
    origins.Look(base::FromMs(0), attribution_);
    EXPECT_EQ(origins.LastOn(kPci, base::FromMs(0), base::FromMs(0)), kNobody);
  }
}

}  // namespace
}  // namespace carma::daemon
