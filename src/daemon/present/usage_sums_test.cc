#include "daemon/present/usage_sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace carma::daemon {
namespace {

using core::Time;
using testing::HasSubstr;

constexpr std::int64_t kHourMs = 3'600'000;
constexpr std::int64_t kMarch = 1'772'323'200'000;  // 2026-03-01 in UTC

Time At(double hours) {
  return base::FromMs(kMarch + static_cast<std::int64_t>(hours * kHourMs));
}

store::EndedAttempt Attempt(std::uint64_t task, const char* user, double from, double to,
                            int gpus = 1) {
  store::EndedAttempt attempt{.task = core::TaskId{task}, .number = 1};
  attempt.taken = {.user = user,
                   .qos = "normal",
                   .gpus = gpus,
                   .rate = 0.5 * gpus,
                   .from = At(from),
                   .to = At(to)};
  attempt.waited = core::Duration(60'000);
  attempt.promised_mib = 10'000;
  attempt.peak_mib = 4'000;
  attempt.exit = core::ExitKind::kSuccess;
  for (int i = 0; i < gpus; ++i) attempt.gpu_uuids.push_back("GPU-" + std::to_string(i));
  return attempt;
}

std::vector<api::UsageView> Sum(const char* by, const std::vector<store::EndedAttempt>& attempts,
                                Time from = Time::min(), Time to = Time::max()) {
  UsageSums sums(*ParseUsageBy(by), from, to);
  for (const store::EndedAttempt& each : attempts) sums.Add(each);
  return sums.Rows();
}

TEST(UsageSums, AddsUpTheAttemptsOfEachUser) {
  store::EndedAttempt crashed = Attempt(1, "ada", 0, 0.5);
  crashed.exit = core::ExitKind::kOutOfMemory;
  store::EndedAttempt again = Attempt(1, "ada", 1, 3, 2);
  again.number = 2;
  const auto rows = Sum("user", {crashed, again, Attempt(2, "bob", 0, 1)});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].user, "ada");
  EXPECT_EQ(rows[0].tasks, 1);
  EXPECT_EQ(rows[0].attempts, 2);
  EXPECT_EQ(rows[0].gpu_s, 4.5 * 3600);
  EXPECT_EQ(rows[0].share_s, 2.25 * 3600);
  EXPECT_EQ(rows[0].waiting_s, 120);
  EXPECT_EQ(rows[0].ooms, 1);
  EXPECT_EQ(rows[0].promised_mib_s, 4.5 * 3600 * 10'000);
  EXPECT_EQ(rows[0].unused_mib_s, 4.5 * 3600 * 6'000);
  EXPECT_EQ(rows[0].energy_j, std::nullopt);
  EXPECT_EQ(rows[1].user, "bob");
}

TEST(UsageSums, AnyGroupingHasTheSameTotal) {
  std::vector<store::EndedAttempt> attempts;
  std::int64_t all_ms = 0;
  for (std::uint64_t i = 0; i < 50; ++i) {
    store::EndedAttempt each =
        Attempt(i, i % 3 == 0 ? "ada" : "bob", 17.123 * i, 17.123 * i + 41.7, 2);
    each.taken.account = i % 2 == 0 ? "vision" : "";
    all_ms += 2 * (each.taken.to - each.taken.from).count();
    attempts.push_back(each);
  }
  for (const char* by : {"user", "month", "day", "user,account,qos,month"}) {
    double sum_s = 0;
    std::int64_t started = 0;
    for (const api::UsageView& row : Sum(by, attempts)) {
      sum_s += row.gpu_s;
      started += row.attempts;
    }
    EXPECT_NEAR(sum_s, static_cast<double>(all_ms) / 1000, 1e-6) << by;
    EXPECT_EQ(started, 50) << by;
  }
}

TEST(UsageSums, IsCutAtMonthsAndAtTheRequestedPeriod) {
  const std::vector<store::EndedAttempt> attempts{Attempt(1, "ada", -10, 5)};
  const auto rows = Sum("month", attempts);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].period, "2026-02");
  EXPECT_EQ(rows[0].gpu_s, 36'000);
  EXPECT_EQ(rows[0].attempts, 1);
  EXPECT_EQ(rows[1].period, "2026-03");
  EXPECT_EQ(rows[1].gpu_s, 18'000);
  EXPECT_EQ(rows[1].attempts, 0);
  EXPECT_EQ(Sum("day", attempts)[1].period, "2026-03-01");
  const auto window = Sum("user", attempts, At(-1), At(1));
  EXPECT_EQ(window[0].gpu_s, 7'200);
  EXPECT_TRUE(Sum("user", attempts, At(6), At(7)).empty());
}

TEST(UsageSums, DividesEnergyAmongTheTasksPresent) {
  UsageSums sums(*ParseUsageBy("user"), Time::min(), Time::max());
  sums.Add(Attempt(1, "ada", 0, 1));
  sums.Add(Attempt(2, "bob", 0.5, 1));
  const auto used = [&](double from, double to, double energy_j) {
    sums.Add(
        store::GpuUsage{.from = At(from), .to = At(to), .gpu_uuid = "GPU-0", .energy_j = energy_j});
  };
  used(-1, 0, 500);  // before any task
  used(0, 0.5, 1'000);
  used(0.5, 1, 3'000);
  used(1, 2, std::nan(""));
  const auto rows = sums.Rows();
  EXPECT_NEAR(*rows[0].energy_j, 2'500, 1e-6);
  EXPECT_NEAR(*rows[1].energy_j, 1'500, 1e-6);
}

TEST(UsageSums, ErrorsNameTheExpectedWords) {
  for (const char* text : {"", "users", "month,day", "user,"})
    EXPECT_THAT(ParseUsageBy(text).error().message, HasSubstr("by: expected one or more")) << text;
}

TEST(UsageSums, AClassIsAlsoCalledQos) {
  for (const char* text : {"class", "qos", "user,class"}) {
    const auto by = ParseUsageBy(text);
    ASSERT_TRUE(by) << text << by.error().message;
    EXPECT_TRUE(by->qos) << text;
  }
}

}  // namespace
}  // namespace carma::daemon
