#include "lab/sim/residency.h"

#include <gtest/gtest.h>

#include <string>

namespace carma::sim {
namespace {

constexpr std::string_view kResidencyHeader = "task_no,workload_id,gpu,start_s,end_s,slowdown\n";

trace::Catalogue Workloads() {
  return *trace::Catalogue::Parse(
      "workload_id,gpus,solo_seconds,solo_smact,mps_sensitivity,mps_pressure,memory_mib,batch_"
      "size\n"
      "a,1,1000,0.4,0.5,0.4,1000,128\n"
      "b,1,1000,0.3,1.0,0.2,1000,32\n"
      "two,2,1000,0.2,0.5,0.1,1000,64\n",
      "w.csv");
}

std::vector<MeasuredTask> Tasks(std::string_view rows) {
  return *ParseMeasuredTasks(std::string(kResidencyHeader) + std::string(rows), "t.csv");
}

TEST(ReplayResidency, AgreesWithACalculationByHand) {
  // b starts when a is half done: 500 s alone, then 500 s at 1 / (1 + 0.5 * 0.2).
  const auto tasks = Tasks("1,a,0,0,1000,1.1\n2,b,0,500,1500,1.2\n");
  const auto residency = ReplayResidency(tasks, Workloads(), {}, LoadAsListed);
  ASSERT_TRUE(residency) << residency.error().message;
  EXPECT_NEAR(residency->predicted[0], 1000 / (500 + 500 / 1.1), 1e-9);
  EXPECT_NEAR(residency->predicted[1], 1000 / (500 / 1.4 + 500), 1e-9);
}

TEST(ReplayResidency, ATaskOnTwoGpusRunsAtThePaceOfTheSlowerOne) {
  const auto tasks = Tasks("1,two,0,0,1000,1\n1,two,1,0,1000,1\n2,a,0,0,500,1\n3,b,1,0,1000,1\n");
  const auto residency = ReplayResidency(tasks, Workloads(), {}, LoadAsListed);
  ASSERT_TRUE(residency) << residency.error().message;
  EXPECT_NEAR(residency->predicted[0], 1000 / (500 / 1.2 + 500 / 1.1), 1e-9);
}

TEST(ReplayResidency, AgreesWithItself) {
  auto tasks = Tasks("1,a,0,0,1000,1\n2,b,0,300,1500,1\n3,a,0,400,900,1\n4,b,1,0,100,1\n");
  const auto first = ReplayResidency(tasks, Workloads(), {}, LoadAsListed);
  for (std::size_t i = 0; i < tasks.size(); ++i) tasks[i].slowdown = first->predicted[i];
  const auto again = ReplayResidency(tasks, Workloads(), {}, LoadAsListed);
  EXPECT_NEAR(again->counted.r2, 1, 1e-12);
  EXPECT_NEAR(again->counted.mean_error, 0, 1e-12);
  EXPECT_EQ(again->counted.tasks, 4u);
  const auto guessed = ReplayResidency(tasks, Workloads(), {}, LoadAsGuessed);
  EXPECT_LT(guessed->counted.r2, 1);
}

TEST(ReplayResidency, IgnoresTasksThatRanTooBriefly) {
  // The second task's measured slowdown is far off, because it ran for only one minute.
  const auto tasks = Tasks("1,a,0,0,1000,1.03\n2,b,0,500,560,9\n3,a,1,0,900,1\n");
  const auto all = ReplayResidency(tasks, Workloads(), {}, LoadAsListed);
  const auto longer = ReplayResidency(tasks, Workloads(), {}, LoadAsListed, 600);
  EXPECT_EQ(all->counted.tasks, 3u);
  EXPECT_EQ(longer->counted.tasks, 2u);
  EXPECT_EQ(longer->predicted, all->predicted) << "it still slows down the others";
  EXPECT_GT(all->counted.mean_error, 0.5);
  EXPECT_LT(longer->counted.mean_error, 0.05);
  EXPECT_EQ(DurationOf(tasks[1]), 60);
}

TEST(ParseMeasuredTasks, RefusesWithTheLine) {
  struct Case {
    std::string_view rows, message;
  };
  for (const Case& c : {
           Case{"", "no tasks"},
           Case{"1,a,0,5,5,1\n", "t.csv:2: end_s is not after start_s"},
           Case{"1,a,0,0,5,1\n1,b,1,0,5,1\n", ":3: the task has a different workload"},
           Case{"1,a,0,0,5,1\n1,a,0,0,5,1\n", ":3: the task is listed twice on this GPU"},
           Case{"1,a,0,0,5,0\n", ":2"},
           Case{"x,a,0,0,5,1\n", ":2"},
           Case{"1,a,0,0\n", ":2"},
       }) {
    const auto tasks =
        ParseMeasuredTasks(std::string(kResidencyHeader) + std::string(c.rows), "t.csv");
    ASSERT_FALSE(tasks) << c.rows;
    EXPECT_NE(tasks.error().message.find(c.message), std::string::npos) << tasks.error().message;
  }
}

TEST(ReplayResidency, RefusesUnknownWorkloads) {
  EXPECT_FALSE(ReplayResidency(Tasks("1,c,0,0,5,1\n"), Workloads(), {}, LoadAsListed));
  EXPECT_FALSE(ReplayResidency(Tasks("1,a,0,0,5,1\n1,a,1,0,5,1\n"), Workloads(), {}, LoadAsListed));
}

}  // namespace
}  // namespace carma::sim
