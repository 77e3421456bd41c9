#include "gpu/driver_version.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "base/file.h"

namespace carma::gpu {
namespace {

class DriverVersion : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = ::testing::TempDir() + "carma-driver-XXXXXX";
    ASSERT_NE(::mkdtemp(root_.data()), nullptr);
    std::filesystem::create_directories(root_ + "/sys/module/nvidia");
    std::filesystem::create_directories(Folder());
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  std::string Folder() const { return root_ + "/usr/lib/x86_64-linux-gnu"; }
  void Load(const std::string& version) {
    ASSERT_TRUE(base::WriteFileAtomic(root_ + "/sys/module/nvidia/version", version + "\n"));
  }
  // Installs a version as a package does: removes the old version's file and changes the link.
  void Install(const std::string& version) {
    std::filesystem::remove_all(Folder());
    std::filesystem::create_directories(Folder());
    ASSERT_TRUE(base::WriteFileAtomic(Folder() + "/libnvidia-ml.so." + version, "library"));
    std::filesystem::create_symlink("libnvidia-ml.so." + version, Folder() + "/libnvidia-ml.so.1");
  }
  InstalledDriver Read() const { return ReadInstalledDriver("libnvidia-ml.so.1", root_); }

  std::string root_;
};

TEST_F(DriverVersion, ShowsAnUpgradeUntilTheModuleIsReloaded) {
  Load("535.183.01");
  EXPECT_FALSE(Read().Differ()) << "the library's version is unknown";
  Install("535.183.01");
  EXPECT_EQ(Read().installed, "535.183.01");
  EXPECT_FALSE(Read().Differ());
  Install("550.54.15");
  EXPECT_EQ(Read().loaded, "535.183.01");
  EXPECT_EQ(Read().installed, "550.54.15");
  EXPECT_TRUE(Read().Differ());
  Load("550.54.15");
  EXPECT_FALSE(Read().Differ());
}

TEST_F(DriverVersion, IgnoresTextsThatAreNotVersions) {
  Load("unknown");
  Install("550.54.15");
  EXPECT_FALSE(Read().loaded);
  EXPECT_FALSE(ReadInstalledDriver("/usr/lib/libcarma-simgpu.so", root_).installed);
}

}  // namespace
}  // namespace carma::gpu
