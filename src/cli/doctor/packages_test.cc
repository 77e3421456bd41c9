#include "cli/doctor/packages.h"

#include <gtest/gtest.h>

namespace carma::cli {
namespace {

TEST(Packages, NamesTheCommandOfTheDistribution) {
  struct Case {
    const char* os_release;
    Missing what;
    const char* expected;
  };
  const Case cases[] = {
      {"ID=debian\nVERSION_ID=\"12\"\n", Missing::kCurl, " (sudo apt install curl)"},
      {"PRETTY_NAME=\"Debian\"\nID=debian", Missing::kMps, " (sudo apt install nvidia-cuda-mps)"},
      {"ID=ubuntu\nID_LIKE=debian\n", Missing::kDriver,
       " (sudo apt install ubuntu-drivers-common && sudo ubuntu-drivers install --gpgpu)"},
      {"ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n", Missing::kMail,
       " (sudo apt install msmtp-mta)"},
      {"ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n", Missing::kMail,
       " (sudo dnf install postfix)"},
      {"ID=\"rhel\"\nID_LIKE=\"fedora\"\n", Missing::kMail, " (sudo dnf install postfix)"},
      {"ID=arch\n", Missing::kCurl, ""},
      {"", Missing::kCurl, ""},
  };
  for (const Case& each : cases)
    EXPECT_EQ(InstallCommandFor(each.os_release, each.what), each.expected) << each.os_release;
}

TEST(Packages, NamesNoCommandForAnUnknownDistribution) {
  EXPECT_EQ(InstallCommand("/nowhere", Missing::kCurl), "");
}

}  // namespace
}  // namespace carma::cli
