// Tests the functions that the tests use to start programs.
#include "tests/process.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/kit.h"

namespace carma::system_test {
namespace {

TEST(Process, AMissingProgramFailsTheTestWithTheNameOfItsPackage) {
  EXPECT_NONFATAL_FAILURE(RunProgram({"carma-no-such-program"}),
                          "program carma-no-such-program is missing (apt-get install "
                          "carma-no-such-program)");
  EXPECT_NONFATAL_FAILURE(RunProgram({"/nowhere/pgrep"}),
                          "program /nowhere/pgrep is missing (apt-get install procps)");
}

TEST(Process, AFunctionRunsAsAnotherUser) {
  if (!IsRoot()) GTEST_SKIP() << "needs root";
  EXPECT_EQ(CallAsUser(OtherUser(), [] { return std::to_string(::geteuid()); }),
            std::to_string(OtherUser()));
}

}  // namespace
}  // namespace carma::system_test
