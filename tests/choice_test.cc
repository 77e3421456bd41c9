// Tests GPU selection: tasks that need a certain GPU type on a server with two types, and reserved
// GPUs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "base/json.h"
#include "tests/kit.h"

namespace carma::system_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Choice : public ::testing::Test {
 protected:
  Choice() : site({.shape = "2xA100-40GB,1xT4-16GB"}) {}
  void SetUp() override { site.Start(); }

  std::vector<std::int64_t> PlaceOf(const std::vector<std::string>& options) {
    const std::uint64_t id = site.Train(options, {});
    const api::TaskView task = site.Await(id);
    EXPECT_EQ(task.state, "succeeded");
    return task.gpu_indices;
  }

  Site site;
};

TEST_F(Choice, TasksRunOnTheGpusThatTheyRequest) {
  EXPECT_THAT(PlaceOf({"--gpu-type", "t4"}), ElementsAre(2));
  EXPECT_THAT(PlaceOf({"--gpus", "a100:2"}), ElementsAre(0, 1));
  EXPECT_THAT(PlaceOf({"--gpu", "1"}), ElementsAre(1));
  EXPECT_THAT(PlaceOf({"--gpu-memory-min", "40G", "--not-on", "0"}), ElementsAre(1));
  EXPECT_THAT(PlaceOf({"-G", "2", "--linked"}), ElementsAre(0, 1));
  EXPECT_THAT(site.Gpus()[0].linked_to, ElementsAre(1));
}

TEST_F(Choice, RefusesMissingGpuTypesAndListsTheServersOwn) {
  const Ran type = site.Carma({"submit", "--gpu-type", "h100", "--", "true"});
  EXPECT_EQ(type.code, 1);
  EXPECT_THAT(type.err, HasSubstr("2x NVIDIA A100"));
  EXPECT_NE(site.Carma({"submit", "--gpu", "3", "--", "true"}).code, 0);
  EXPECT_NE(site.Carma({"submit", "--gpus", "t4:2", "--", "true"}).code, 0);
  EXPECT_NE(site.Carma({"submit", "-G", "3", "--linked", "--", "true"}).code, 0);
}

TEST_F(Choice, AReservationKeepsOthersAwayEvenAfterAKill) {
  const Ran made = site.Carma(
      {"reserve", "--for", "nobody", "--gpus", "2", "--for-time", "100d", "--why", "desk"});
  ASSERT_EQ(made.code, 0) << made.Text();
  EXPECT_THAT(made.out, HasSubstr("Reservation 1: GPU 2 for nobody"));
  const std::uint64_t id = site.Train({"--gpu", "2"}, {});
  site.ExpectWaits(id, "Reserved");
  EXPECT_THAT(site.Carma({"explain", std::to_string(id)}).out, HasSubstr("(reservation 1: desk)"));
  site.Restart(SIGKILL);
  site.ExpectWaits(id, "Reserved");
  EXPECT_THAT(site.Carma({"reserve", "list"}).out, HasSubstr("desk"));
  EXPECT_THAT(site.Carma({"gpus"}).out, HasSubstr("reserved for nobody"));
  ASSERT_EQ(site.Carma({"reserve", "remove", "1"}).code, 0);
  EXPECT_THAT(site.Await(id).gpu_indices, ElementsAre(2));
  EXPECT_EQ(site.Carma({"reserve", "remove", "1"}).code, 1);
}

TEST_F(Choice, AWaitingTaskShowsItsExpectedStart) {
  const std::uint64_t first =
      site.Train({"--gpu", "0", "--exclusive", "--time", "1h"}, {.solo_s = 1e6});
  site.AwaitState(first, "running");
  const std::uint64_t second = site.Train({"--gpu", "0", "--exclusive"}, {});
  site.ExpectWaits(second, "Exclusive");
  const api::TaskView waiting = site.Task(second);
  ASSERT_TRUE(waiting.latest_start_ms);
  ASSERT_TRUE(waiting.waiting_since_ms);
  EXPECT_LE(*waiting.latest_start_ms, site.Status().now_ms + 3'700'000);
  EXPECT_THAT(site.Carma({"explain", std::to_string(second)}).out, HasSubstr("at the latest"));
  EXPECT_THAT(site.Carma({"submit", "--check", "--gpu", "0", "--exclusive", "--", "true"}).out,
              HasSubstr("would wait"));
  site.CancelAll();
}

}  // namespace
}  // namespace carma::system_test
