// What tasks print of their progress, seen in every answer of a whole server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "tests/kit.h"

namespace carma::system_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ProgressTest : public ::testing::Test {
 protected:
  void SetUp() override { site.Start(); }
  // A task that prints and then runs until it is cancelled.
  std::uint64_t Print(const std::string& command, std::vector<std::string> options = {}) const {
    options.insert(options.end(), {"--", "/bin/sh", "-c", command + "; exec sleep 600"});
    return site.Submit(std::move(options));
  }
  // True once the task has done that many.
  bool Reaches(std::uint64_t id, double done) {
    return Eventually([&] {
      const api::TaskView task = site.Task(id);
      return task.progress && task.progress->done == done;
    });
  }

  Site site{{.time_scale = 1}};
};

constexpr char kBar[] =
    R"(printf 'loading\r\033[31m 25%%|##   | 50/200 [00:10<00:30,  5.00it/s, loss=0.5]' >&2)";

TEST_F(ProgressTest, IsShownEverywhere) {
  const std::uint64_t id = Print(kBar, {"--memory", "1G"});
  ASSERT_TRUE(Reaches(id, 50));
  const task::ProgressReport progress = *site.Task(id).progress;
  EXPECT_EQ(progress.total, 200);
  EXPECT_EQ(progress.fraction, 0.25);
  EXPECT_EQ(progress.loss, 0.5);
  EXPECT_EQ(progress.phase, "train");
  EXPECT_FALSE(progress.stalled);
  EXPECT_THAT(site.Carma({"list"}).out, HasSubstr("PROGRESS"));
  EXPECT_THAT(site.Carma({"list"}).out, HasSubstr("25% 0:"));
  EXPECT_THAT(site.Carma({"show", std::to_string(id)}).out,
              HasSubstr("training, step 50 of 200, 5 per second, loss 0.5"));
  EXPECT_THAT(site.client().Get("/metrics/tasks").value_or(""),
              HasSubstr("carma_task_progress_ratio{"));
  EXPECT_THAT(site.client().Get("/v1/overview").value_or(""), HasSubstr(R"("fraction":0.25)"));
}

TEST_F(ProgressTest, OutlivesAKilledDaemonAndCountsOnAfterARequeue) {
  const std::uint64_t id = Print("echo step ${CARMA_ATTEMPT}00/1000");
  ASSERT_TRUE(Reaches(id, 100));
  site.Restart(SIGKILL);
  EXPECT_TRUE(Reaches(id, 100));
  EXPECT_EQ(site.Carma({"requeue", std::to_string(id)}).code, 0);
  EXPECT_TRUE(Reaches(id, 200)) << "the second start goes on where the first one was";
}

TEST_F(ProgressTest, IsReportedByThePythonModulesLine) {
  const std::uint64_t id = Print("echo 'carma: progress 7/10 loss 0.25' >&2");
  ASSERT_TRUE(Reaches(id, 7));
  EXPECT_EQ(site.Task(id).progress->fraction, 0.7);
}

TEST_F(ProgressTest, IsNotReadWhereTheUserDoesNotWantIt) {
  const std::uint64_t hidden = Print("echo step 100/1000", {"--progress", "none"});
  const std::uint64_t shown = Print("echo step 100/1000");
  ASSERT_TRUE(Reaches(shown, 100));
  EXPECT_FALSE(site.Task(hidden).progress);
}

TEST_F(ProgressTest, ShowsNothingOfAHostileOutput) {
  const std::uint64_t id =
      Print("yes '<b>\033]0;x' | tr -d '\\n' | head -c 100000000; echo; echo step 60/100");
  ASSERT_TRUE(Reaches(id, 60));
  EXPECT_THAT(site.Carma({"list"}).out, Not(HasSubstr("<b>")));
  EXPECT_EQ(site.Task(id).progress->unit, "step");
}

}  // namespace
}  // namespace carma::system_test
