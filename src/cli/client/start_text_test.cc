#include "cli/client/task_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <time.h>

namespace carma::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t kHourMs = 3'600'000;
constexpr std::int64_t kNowMs = 1'774'425'600'000;  // Wednesday, 2026-03-25 08:00 UTC

class StartText : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("TZ", "UTC", 1);
    ::tzset();
  }
};

TEST_F(StartText, IsAsShortAsPossible) {
  EXPECT_EQ(StartBrief(kNowMs + kHourMs, std::nullopt, kNowMs), "by 09:00");
  EXPECT_EQ(StartBrief(kNowMs + 20 * kHourMs, kNowMs, kNowMs), "by Thu 04:00");
  EXPECT_EQ(StartBrief(kNowMs + 300 * kHourMs, std::nullopt, kNowMs), "by 2026-04-06 20:00");
  EXPECT_EQ(StartBrief(std::nullopt, kNowMs + kHourMs, kNowMs), "about 09:00");
  EXPECT_EQ(StartBrief(std::nullopt, std::nullopt, kNowMs), "");
}

TEST_F(StartText, StatesTheBasisOfAPromise) {
  EXPECT_THAT(StartSentences(kNowMs + 2 * kHourMs, kNowMs + kHourMs, kNowMs),
              AllOf(HasSubstr("by 10:00 at the latest, based on the time limits"),
                    HasSubstr("unless a higher-priority task arrives"), HasSubstr("about 09:00")));
  EXPECT_THAT(StartSentences(kNowMs + kHourMs, kNowMs + kHourMs, kNowMs), Not(HasSubstr("about")));
  EXPECT_THAT(StartSentences(std::nullopt, kNowMs + kHourMs, kNowMs), Not(HasSubstr("latest")));
  EXPECT_EQ(StartSentences(std::nullopt, std::nullopt, kNowMs), "");
}

}  // namespace
}  // namespace carma::cli
