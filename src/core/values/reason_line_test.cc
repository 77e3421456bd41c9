#include "core/values/reason_line.h"

#include <gtest/gtest.h>

#include <vector>

namespace carma::core {
namespace {

TEST(ReasonLine, TellsTheCodeAgain) {
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

}  // namespace
}  // namespace carma::core
