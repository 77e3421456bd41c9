#include "core/values/reason_line.h"

#include <gtest/gtest.h>

#include <vector>

namespace carma::core {
namespace {

TEST(ReasonLine, GivesTheCodeBack) {
  const Reason reasons[] = {{ReasonCode::kOutOfMemory, "it asked for 3: too much"},
                            {ReasonCode::kVictim, ""},
                            {ReasonCode::kNone, "restored"},
                            {ReasonCode::kNone, ""}};
  std::vector<std::string> lines;
  for (const Reason& reason : reasons) {
    lines.push_back(ReasonLine(reason));
    EXPECT_EQ(ReasonOfLine(lines.back()), reason.code) << lines.back();
  }
  EXPECT_EQ(lines, (std::vector<std::string>{"OutOfMemory: it asked for 3: too much", "Victim",
                                             "restored", ""}));
  EXPECT_EQ(ReasonLine({ReasonCode::kSignal, "two\nlines"}).find('\n'), std::string::npos);
}

TEST(ReasonLine, BehindAColonItBeginsSmall) {
  EXPECT_EQ(CanNeverRun("train", "The task asks for 9 GPUs, this server has 4."),
            "task 'train' can never run here: the task asks for 9 GPUs, this server has 4");
  EXPECT_EQ(CanNeverRun("a\n", "GPU 7 is none of them."),
            "task 'a?' can never run here: GPU 7 is none of them");
  EXPECT_EQ(AsSentence("exit code 1: ValueError"), "Exit code 1: ValueError.");
}

}  // namespace
}  // namespace carma::core
