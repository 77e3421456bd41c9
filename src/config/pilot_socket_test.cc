#include "config/client_socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace carma::config {
namespace {

using ::testing::ElementsAre;

class PilotSocket : public ::testing::Test {
 protected:
  PilotSocket() {
    std::string folder = ::testing::TempDir() + "/carma-pilot-XXXXXX";
    base_ = ::mkdtemp(folder.data());
    environment_ = {{"SLURM_JOB_ID", "4711"}, {"TMPDIR", base_}};
  }
  ~PilotSocket() override { std::filesystem::remove_all(base_); }
  void Make(const std::string& name, unsigned mode = 0700) const {
    std::filesystem::create_directory(base_ + "/carma-4711");
    std::ofstream(base_ + "/carma-4711/" + name) << "";
    ::chmod((base_ + "/carma-4711").c_str(), mode);
  }
  std::string Found() const { return JobPilotSocket(environment_, ::getuid()); }

  std::string base_;
  Environment environment_;
};

TEST_F(PilotSocket, IsThatOfTheOnlyPilotOfTheJob) {
  EXPECT_EQ(Found(), "");
  Make("sweep.sock");
  Make("mps-sweep");
  EXPECT_EQ(Found(), base_ + "/carma-4711/sweep.sock");
  Make("other.sock");
  EXPECT_EQ(Found(), "") << "two pilots: neither is chosen";
}

TEST_F(PilotSocket, IsSearchedOnlyInAJob) {
  Make("sweep.sock");
  environment_.erase("SLURM_JOB_ID");
  EXPECT_EQ(Found(), "");
  environment_["SLURM_JOB_ID"] = "../carma-4711";
  EXPECT_EQ(Found(), "");
}

TEST_F(PilotSocket, RefusesAFolderThatOthersMayWriteTo) {
  Make("sweep.sock", 0777);
  EXPECT_EQ(Found(), "");
  Make("sweep.sock", 0700);
  EXPECT_NE(Found(), "");
  EXPECT_EQ(JobPilotSocket(environment_, ::getuid() + 1), "") << "another user's folder";
}

TEST(PilotBases, AreAbsoluteFoldersAndTmpLast) {
  EXPECT_THAT(PilotBases({{"XDG_RUNTIME_DIR", "/run/user/7"}, {"TMPDIR", "scratch"}}),
              ElementsAre("/run/user/7", "/tmp"));
}

}  // namespace
}  // namespace carma::config
