#include "daemon/loop/fair_turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace carma::daemon {
namespace {

TEST(FairTurns, UsersAlternateAndTheLoopServesOthersInBetween) {
  boost::asio::io_context loop(1);
  FairTurns turns(loop);
  std::vector<std::string> ran;
  const auto note = [&](const std::string& what) { return [&ran, what] { ran.push_back(what); }; };
  for (const char* what : {"a1", "a2", "a3"}) turns.Ask(1, note(what));
  turns.Ask(2, note("b1"));
  turns.Ask(std::nullopt, note("c1"));
  boost::asio::post(loop, note("status"));
  loop.run();
  EXPECT_THAT(ran, testing::ElementsAre("a1", "status", "b1", "c1", "a2", "a3"));
}

TEST(FairTurns, AfterALongPieceTheLoopIsLeftToOthers) {
  boost::asio::io_context loop(1);
  FairTurns::Clock::time_point time;
  FairTurns turns(loop, [&time] { return time; });
  std::vector<std::string> ran;
  // Other work, which needs several iterations of the loop.
  std::function<void(int)> others = [&](int rounds) {
    if (rounds == 0) return ran.push_back("status");
    boost::asio::post(loop, [&others, rounds] { others(rounds - 1); });
  };
  turns.Ask(1, [&] {
    time += std::chrono::milliseconds(20);
    ran.push_back("a1");
    others(10);
  });
  turns.Ask(1, [&] { ran.push_back("a2"); });
  loop.run();
  EXPECT_THAT(ran, testing::ElementsAre("a1", "status", "a2"));
}

TEST(FairTurns, DropsWaitingWorkAtDestruction) {
  boost::asio::io_context loop(1);
  bool ran = false;
  {
    FairTurns turns(loop);
    turns.Ask(1, [&] { ran = true; });
  }
  loop.run();
  EXPECT_FALSE(ran);
}

}  // namespace
}  // namespace carma::daemon
