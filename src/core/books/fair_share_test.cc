#include "core/books/fair_share.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/values/task.h"

namespace carma::core {
namespace {

constexpr Duration kHour{3'600'000};

Time At(double hours) {
  return base::FromMs(static_cast<std::int64_t>(hours * 3'600'000));
}

TaskRecord Task(std::uint64_t id, std::uint32_t uid, const std::string& account = "") {
  TaskRecord task{.id = TaskId{id}, .request = TaskRequest{.uid = uid}};
  if (!account.empty()) task.request.Edit().account = account;
  return task;
}

FairRules HalvedEvery(Duration half_life) {
  FairRules rules;
  rules.half_life = half_life;
  return rules;
}

TEST(FairShare, CountsUsageThatDecaysByHalfLives) {
  FairShare shares(HalvedEvery(1'000 * kHour));  // usage hardly decays within an hour
  shares.Take(Task(1, 7), 2, At(0), At(0));
  EXPECT_NEAR(shares.OfHolder({"", 7}, At(1)).seconds, 7'200, 5);
  EXPECT_EQ(shares.OfHolder({"", 7}, At(1)).rate, 2);
  shares.Release(TaskId{1}, At(1), At(1));
  EXPECT_EQ(shares.OfHolder({"", 7}, At(1)).rate, 0);
  const double then = shares.OfHolder({"", 7}, At(1)).seconds;
  EXPECT_NEAR(shares.OfHolder({"", 7}, At(1'001)).seconds, then / 2, 1e-6 * then);
  EXPECT_EQ(shares.OfHolder({"", 8}, At(1)).seconds, 0);
}

TEST(FairShare, ATaskIsChargedUntilItEndedEvenIfThatIsReportedLater) {
  FairShare late(HalvedEvery(kHour)), prompt(HalvedEvery(kHour));
  for (FairShare* each : {&late, &prompt}) each->Take(Task(1, 7), 2, At(0), At(0));
  prompt.Release(TaskId{1}, At(1), At(1));
  EXPECT_GT(late.OfHolder({"", 7}, At(3)).seconds, prompt.OfHolder({"", 7}, At(3)).seconds);
  late.Release(TaskId{1}, At(1), At(3));
  EXPECT_NEAR(late.OfHolder({"", 7}, At(3)).seconds, prompt.OfHolder({"", 7}, At(3)).seconds, 1e-6);
}

TEST(FairShare, UsageAtAConstantRateConverges) {
  FairShare shares(HalvedEvery(kHour));
  shares.Take(Task(1, 7), 0.5, At(0), At(0));
  EXPECT_NEAR(shares.OfHolder({"", 7}, At(1'000)).seconds, 0.5 * 3'600 / std::log(2.0), 1e-6);
}

TEST(FairShare, IsTheSameAfterARestart) {
  FairShare before(HalvedEvery(kHour));
  before.Take(Task(1, 7, "vision"), 1.5, At(0), At(0));
  before.Take(Task(2, 7, "vision"), 0.5, At(1), At(1));
  before.Release(TaskId{1}, At(3), At(3));

  FairShare after(HalvedEvery(kHour));
  after.Past({.uid = 7, .account = "vision", .rate = 1.5, .from = At(0), .to = At(3)}, At(5));
  after.Take(Task(2, 7, "vision"), 0.5, At(1), At(5));
  for (const Time now : {At(5), At(6.5)}) {
    EXPECT_NEAR(after.OfHolder({"vision", 7}, now).seconds,
                before.OfHolder({"vision", 7}, now).seconds, 1e-6);
    EXPECT_NEAR(after.OfAccount("vision", now).seconds, before.OfAccount("vision", now).seconds,
                1e-6);
  }
}

TEST(FairShare, UsageOfAnAccountIsTheSumOfItsUsers) {
  FairShare shares(HalvedEvery(kHour));
  shares.Take(Task(1, 7, "vision"), 1, At(0), At(0));
  shares.Take(Task(2, 8, "vision"), 2, At(0), At(0));
  shares.Take(Task(3, 8), 4, At(0), At(0));  // a task without an account
  EXPECT_EQ(shares.OfAccount("vision", At(2)).rate, 3);
  EXPECT_NEAR(
      shares.OfAccount("vision", At(2)).seconds,
      shares.OfHolder({"vision", 7}, At(2)).seconds + shares.OfHolder({"vision", 8}, At(2)).seconds,
      1e-6);
  EXPECT_EQ(shares.OfHolder({"", 8}, At(2)).rate, 4);
}

TEST(FairShare, ReleasingTwiceAndTakingTwiceChangeNothing) {
  FairShare shares(HalvedEvery(kHour));
  shares.Take(Task(1, 7), 1, At(0), At(0));
  shares.Take(Task(1, 7), 1, At(0), At(0));
  EXPECT_EQ(shares.taking(), 1u);
  shares.Release(TaskId{1}, At(1), At(1));
  const double then = shares.OfHolder({"", 7}, At(1)).seconds;
  shares.Release(TaskId{1}, At(1), At(1));
  EXPECT_EQ(shares.OfHolder({"", 7}, At(1)).seconds, then);
}

TEST(FairShare, ChargesTheLargerOfMemoryAndActivity) {
  const std::vector<std::int64_t> sizes{40'000, 80'000};
  TaskRecord task = Task(1, 7);
  task.request.Edit().gpus = 2;
  task.attempt.Edit().placement = {{GpuIndex{0}, 30'000}, {GpuIndex{1}, 30'000}};
  task.profile.Edit().sm_active = 0.5;
  EXPECT_DOUBLE_EQ(RateOf(task, sizes, false), 0.75 + 0.5);
  EXPECT_DOUBLE_EQ(RateOf(task, sizes, true), 2);
  EXPECT_DOUBLE_EQ(RateOf(task, 10'000, 80'000, false), 1);
  task.profile.Edit().sm_active.reset();
  EXPECT_DOUBLE_EQ(RateOf(task, sizes, false), 0.75 + 0.6);  // 0.6 is assumed
  task.request.Edit().sm_share = 0.3;
  EXPECT_DOUBLE_EQ(RateOf(task, sizes, false), 0.75 + 0.375);
  task.request.Edit().max_slowdown = 2;  // reserves half of each GPU
  EXPECT_DOUBLE_EQ(RateOf(task, sizes, false), 0.75 + 0.5);
}

TEST(FairShare, WeightsBelongToUsersAndAccounts) {
  FairRules rules;
  rules.weights = {{"ada", 2}, {"@vision", 3}};
  const FairShare shares(rules);
  EXPECT_EQ(shares.WeightOf("ada"), 2);
  EXPECT_EQ(shares.WeightOf("@vision"), 3);
  EXPECT_EQ(shares.WeightOf("bob"), 1);
}

}  // namespace
}  // namespace carma::core
