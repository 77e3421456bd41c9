// Tests `carma report` with the tasks of a real daemon.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/report.h"
#include "tests/kit.h"

namespace carma::system_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class Reports : public ::testing::Test {
 protected:
  void SetUp() override { site.Start(); }
  report::Report Ask(std::vector<std::string> more = {}) const {
    std::vector<std::string> words{"report", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const Ran ran = site.Carma(words);
    EXPECT_EQ(ran.code, 0) << ran.Text();
    auto reports = report::ReportsFromJsonText(ran.out);
    EXPECT_TRUE(reports) << ran.out;
    return reports ? reports->front() : report::Report{};
  }
  Site site;
};

TEST_F(Reports, ShowUsersGpusAndCosts) {
  const std::uint64_t first =
      site.Train({"--job-name", "one"}, {.memory_mib = 4000, .solo_s = 60, .sm_active = 0.5});
  const std::uint64_t both = site.Train({"--job-name", "both", "--gpus", "2"},
                                        {.memory_mib = 2000, .solo_s = 40, .sm_active = 0.2});
  const std::uint64_t broken = site.Submit({"--job-name", "broken", "--", "/bin/false"});
  for (const std::uint64_t id : {first, both, broken}) site.Await(id);

  const report::Report report = Ask({"--name", "today"});
  EXPECT_EQ(report.metrics.label, "today");
  EXPECT_EQ(report.metrics.tasks, 3);
  EXPECT_EQ(report.metrics.executed, 3);
  EXPECT_TRUE(report.metrics.simulated);
  EXPECT_GE(report.metrics.execution.max, 60);
  EXPECT_GT(report.metrics.energy_mj.value_or(0), 0);
  EXPECT_THAT(report.metrics.provenance, HasSubstr("carmad"));
  ASSERT_TRUE(report.run);
  ASSERT_THAT(report.run->tasks, SizeIs(3));
  EXPECT_THAT(report.run->gpus, SizeIs(2));
  EXPECT_EQ(report.run->gpus[0].name, "GPU 0");
  EXPECT_FALSE(report.run->gpus[0].points.empty());
  const std::vector<report::Attempt>& attempts = report.run->tasks[1].attempts;
  ASSERT_THAT(attempts, SizeIs(1));
  EXPECT_EQ(attempts[0].gpus, (std::vector<int>{0, 1}));
  EXPECT_EQ(report.run->tasks[2].attempts.at(0).end, report::AttemptEnd::kFailed);

  EXPECT_THAT(Ask({"--last", "1"}).run->tasks, SizeIs(1));
  const Ran table = site.Carma({"report"});
  EXPECT_THAT(table.out, AllOf(HasSubstr("trace total time"), HasSubstr("failed")));
  const std::string page = site.out_dir() + "/page.html";
  EXPECT_EQ(site.Carma({"report", "--html", page}).code, 0);
  EXPECT_THAT(ReadText(page), AllOf(HasSubstr("task 2 both"), HasSubstr("SM activity over time")));
}

TEST_F(Reports, ShowWaitsOfTheQueueHead) {
  Gated first(site, "first");
  first.Submit(site, "exit 0", {"--gpus", "2", "--exclusive"});
  ASSERT_EQ(first.Hear(), "1");
  const std::uint64_t second =
      site.Train({"--gpus", "2", "--exclusive"}, {.memory_mib = 4000, .solo_s = 5});
  site.ExpectWaits(second, "Exclusive");
  // The reason for waiting is recorded at the next check of the queue, so the task must wait until
  // then.
  EXPECT_TRUE(Eventually([this] { return Ask().run->line_waits_s.contains("Exclusive"); }));
  first.Open();
  ASSERT_EQ(site.Await(second).state, "succeeded");
  const std::string page = site.out_dir() + "/page.html";
  EXPECT_EQ(site.Carma({"report", "--html", page}).code, 0);
  EXPECT_THAT(ReadText(page), AllOf(HasSubstr("What the head of the queue waited for"),
                                    HasSubstr("<td>Exclusive</td>")));
}

TEST_F(Reports, ComparePredictionsWithMeasurements) {
  const std::uint64_t id = site.Train({"--gpu-mem", "5G", "--time", "1h"},
                                      {.memory_mib = 4000, .solo_s = 300, .sm_active = 0.5});
  ASSERT_EQ(site.Await(id).state, "succeeded");
  const report::Report report = Ask();
  ASSERT_THAT(report.run->tasks, SizeIs(1));
  const std::vector<report::Forecast>& forecasts = report.run->tasks[0].forecasts;
  ASSERT_THAT(forecasts, SizeIs(2));
  EXPECT_EQ(forecasts[0], (report::Forecast{"memory_mib", "given", 5120, 5120, 4000}));
  EXPECT_EQ(forecasts[1].what, "duration_s");
  EXPECT_EQ(forecasts[1].predicted, 3600);
  EXPECT_GE(forecasts[1].seen, 300);
  EXPECT_THAT(site.Carma({"report"}).out, HasSubstr("memory_mib  given"));
  EXPECT_THAT(site.client().Get("/metrics").value_or(""),
              HasSubstr("carma_promises_total{what=\"memory_mib\",by=\"given\",kept=\"true\"} 1"));
}

TEST_F(Reports, PrometheusReadsMetricsOfRunningTasks) {
  const std::uint64_t id = site.Train({"--gpu-mem", "5G", "-J", "bert"},
                                      {.memory_mib = 4000, .solo_s = 100'000, .sm_active = 0.5});
  const std::string series = fmt::format("{{task=\"{}\",name=\"bert\",user=", id);
  EXPECT_TRUE(Eventually([&] {
    const std::string text = site.client().Get("/metrics/tasks").value_or("");
    return text.find("carma_task_memory_used_bytes" + series) != std::string::npos &&
           text.find("} 4194304000\n") != std::string::npos;
  }));
  EXPECT_THAT(site.client().Get("/metrics").value_or(""), Not(HasSubstr("carma_task_memory")));
}

TEST_F(Reports, CompareActivityWithEarlierRuns) {
  for (int run = 0; run < 2; ++run) {
    const std::uint64_t id = site.Train({"--gpu-mem", "5G", "--time", "60m"},
                                        {.memory_mib = 4000, .solo_s = 400, .sm_active = 0.5});
    ASSERT_EQ(site.Await(id).state, "succeeded");
  }
  const report::Report report = Ask();
  ASSERT_THAT(report.run->tasks, SizeIs(2));
  const auto of_activity = [&](std::size_t task) {
    std::vector<report::Forecast> found;
    for (const report::Forecast& each : report.run->tasks[task].forecasts)
      if (each.what == "sm_active") found.push_back(each);
    return found;
  };
  EXPECT_THAT(of_activity(0), IsEmpty()) << "nothing was known about the first task";
  ASSERT_THAT(of_activity(1), SizeIs(1));
  EXPECT_EQ(of_activity(1)[0].by, "history");
  // The clock runs so fast that readings taken after the work has ended may lower these values.
  for (const double told : {of_activity(1)[0].predicted, of_activity(1)[0].seen}) {
    EXPECT_GT(told, 0);
    EXPECT_LT(told, 0.55);
  }
  EXPECT_THAT(site.Carma({"report"}).out, HasSubstr("sm_active"));
}

TEST_F(Reports, AreEmptyWithoutTasksAndRefuseBadQueries) {
  EXPECT_EQ(Ask().metrics.tasks, 0);
  for (const char* query : {"?last=x", "?last=-1", "?run=2", "?after_ms=-1", "?until_ms=never"}) {
    const auto answer = site.client().Get(std::string("/v1/report") + query);
    ASSERT_FALSE(answer) << query;
    EXPECT_EQ(answer.error().code, base::ErrorCode::kInvalid) << query;
  }
}

}  // namespace
}  // namespace carma::system_test
