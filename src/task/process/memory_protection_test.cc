
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "task/process/user.h"

namespace carma::task {
namespace {

TEST(MemoryProtection, ResetsInheritedProtectionButKeepsPositiveValues) {
  const std::string file = ::testing::TempDir() + "/carma-oom-score-adj";
  for (const auto& [before, after] : {std::pair("-100\n", "0"), std::pair("-1000\n", "0"),
                                      std::pair("0\n", "0\n"), std::pair("300\n", "300\n")}) {
    std::ofstream(file) << before;
    GiveUpMemoryProtection(file);
    std::stringstream now;
    now << std::ifstream(file).rdbuf();
    EXPECT_EQ(now.str(), after) << before;
  }
  GiveUpMemoryProtection(file + ".none");
}

}  // namespace
}  // namespace carma::task
