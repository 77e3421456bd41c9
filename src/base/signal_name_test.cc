#include "base/signal_name.h"

#include <gtest/gtest.h>

#include <csignal>

namespace carma::base {
namespace {

TEST(SignalName, IsReadAsPeopleWriteIt) {
  EXPECT_EQ(SignalNumber("USR1"), SIGUSR1);
  EXPECT_EQ(SignalNumber("sigterm"), SIGTERM);
  EXPECT_EQ(SignalNumber("10"), 10);
  EXPECT_EQ(SignalNumber("99"), std::nullopt);
  EXPECT_EQ(SignalNumber("USR3"), std::nullopt);
}

TEST(SignalName, IsStoredInOneForm) {
  EXPECT_TRUE(IsSignalName("USR1"));
  for (const char* other : {"", "usr1", "SIGUSR1", "10", "USR3"}) EXPECT_FALSE(IsSignalName(other));
}

TEST(SignalName, KillAndStopCannotBeHandled) {
  EXPECT_TRUE(IsHandledSignal("USR1"));
  for (const char* other : {"", "KILL", "STOP", "USR3"}) EXPECT_FALSE(IsHandledSignal(other));
}

}  // namespace
}  // namespace carma::base
