#include "lab/verbs/profile/findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/verbs/profile/measure.h"
#include "lab/verbs/profile/tables.h"

namespace carma::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const char* const kType = "NVIDIA T4";

ProfiledWorkload Work(const std::string& name) {
  return {.name = name, .command = {"/bin/true"}};
}

MeasuredRun Alone(const std::string& name, int repeat, double load_s, double time_s) {
  return {.run = {ProfileMethod::kStreams, kType, {name}, repeat, std::nullopt},
          .gpu = "GPU-a",
          .instances = {{.member = 0, .begin_s = 1, .end_s = 1 + load_s + time_s}},
          .load_s = load_s,
          .sm_active = 0.5,
          .memory_mib = 1000 + repeat};
}

TEST(SlowdownOf, CountsTheTimeWithoutNeighboursAsAlone) {
  struct Case {
    const char* name;
    std::vector<Interval> others;
    std::size_t neighbours;
    std::optional<double> slowdown;
  };
  // The process does 100 s of work in 150 s.
  const Case cases[] = {
      {"one neighbour, all the time", {{-5, 500}}, 1, 1.5},
      {"one neighbour for 100 s, in which 50 s of work are done", {{50, 500}}, 1, 2.0},
      {"the neighbour was started again after a pause", {{0, 60}, {110, 160}}, 1, 2.0},
      {"two neighbours, all the time", {{0, 150}, {0, 150}}, 2, 1.5},
      {"two neighbours, one all the time and one for 100 s", {{0, 150}, {0, 100}}, 2, 1.6180},
      {"one neighbour, but only briefly", {{0, 20}}, 1, std::nullopt},
      {"no neighbours", {}, 1, std::nullopt},
  };
  for (const Case& each : cases) {
    const auto slowdown = SlowdownOf(100, {0, 150}, each.others, each.neighbours);
    ASSERT_EQ(slowdown.has_value(), each.slowdown.has_value()) << each.name;
    if (slowdown) {
      EXPECT_NEAR(*slowdown, *each.slowdown, 1e-3) << each.name;
    }
  }
}

TEST(ActiveSpan, BeginsAndEndsWithinSamples) {
  // In these samples, the activity is 0.8 from 2.5 s to 5.25 s.
  const std::vector<ProfileSample> samples{{.at_s = 0},
                                           {.at_s = 1, .sm_active = 0},
                                           {.at_s = 2, .sm_active = 0},
                                           {.at_s = 3, .sm_active = 0.4},
                                           {.at_s = 4, .sm_active = 0.8},
                                           {.at_s = 5, .sm_active = 0.8},
                                           {.at_s = 6, .sm_active = 0.2}};
  const ActiveSpan active = ActiveSpanOf(samples).value_or(ActiveSpan{});
  EXPECT_NEAR(active.from_s, 2.5, 1e-9);
  EXPECT_NEAR(active.until_s, 5.25, 1e-9);
  EXPECT_NEAR(MeanSmActive(samples, 2.5, 5.25).value_or(0), 0.8, 1e-9);
  const std::vector<ProfileSample> silent{{.at_s = 0}, {.at_s = 1}};
  EXPECT_FALSE(ActiveSpanOf(silent));
  EXPECT_FALSE(MeanSmActive(silent, 0, 1));
}

TEST(Findings, UseMediansAloneAndMeansTogether) {
  std::vector<MeasuredRun> runs{Alone("a", 1, 5, 100), Alone("a", 2, 6, 101),
                                Alone("a", 3, 5, 140)};
  MeasuredRun pair{.run = {ProfileMethod::kMps, kType, {"a", "a"}, 1, std::nullopt},
                   .gpu = "GPU-a"};
  pair.instances = {{.member = 0, .begin_s = 0, .end_s = 5 + 151.5},
                    {.member = 1, .begin_s = 0, .end_s = 5 + 151.5}};
  runs.push_back(pair);
  const std::vector<TypeFindings> findings = FindingsOf(std::vector{Work("a")}, runs);
  ASSERT_THAT(findings, SizeIs(1));
  const profile::WorkloadProfile& found = findings[0].profiles.at(0);
  EXPECT_EQ(found.runs, 3);
  EXPECT_DOUBLE_EQ(found.load_s, 5);
  EXPECT_DOUBLE_EQ(found.time_s, 101);
  EXPECT_EQ(found.memory_mib, 1003);
  EXPECT_NEAR(*found.sensitivity * *found.pressure, 0.5, 1e-3);
  EXPECT_EQ(found.meetings, 2);
  ASSERT_THAT(findings[0].meetings, SizeIs(1));
  EXPECT_NEAR(findings[0].meetings[0].slowdown.mean, 1.5, 1e-6);
  EXPECT_NEAR(findings[0].meetings[0].predicted.value_or(0), 1.5, 1e-3);
}

TEST(Findings, LeaveOutAndReportFailedRuns) {
  std::vector<MeasuredRun> runs{Alone("a", 1, 5, 100)};
  MeasuredRun failed{.run = {ProfileMethod::kMps, kType, {"a", "a"}, 1, std::nullopt}};
  failed.failed = "a exited with code 1: out of memory";
  runs.push_back(failed);
  const auto findings = FindingsOf(std::vector{Work("a")}, runs);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_THAT(findings[0].meetings, IsEmpty());
  EXPECT_FALSE(findings[0].profiles[0].sensitivity);
  const std::string text = FindingsText(findings, runs, {});
  EXPECT_THAT(text, HasSubstr("failed: 2 x a on NVIDIA T4, mps: a exited with code 1"));
  EXPECT_THAT(FindingsHtml(findings, runs, "p"), HasSubstr("out of memory"));
}

TEST(Findings, CompareWatchedRunsWithTheUnwatchedRunsOfTheirRepeat) {
  std::vector<MeasuredRun> runs{Alone("a", 1, 5, 100)};
  for (const auto& [watcher, repeat, length_s] :
       std::vector<std::tuple<Watcher, int, double>>{{Watcher::kNobody, 1, 100},
                                                     {Watcher::kCarma, 1, 101},
                                                     {Watcher::kNobody, 2, 200},
                                                     {Watcher::kCarma, 2, 206}}) {
    MeasuredRun run = Alone("a", repeat, 0, length_s);
    run.run.cost_of = watcher;
    runs.push_back(run);
  }
  const auto findings = FindingsOf(std::vector{Work("a")}, runs);
  ASSERT_THAT(findings[0].watching, SizeIs(1));
  EXPECT_EQ(findings[0].watching[0].watcher, Watcher::kCarma);
  EXPECT_NEAR(findings[0].watching[0].share.mean, 0.02, 1e-9);
  EXPECT_EQ(findings[0].profiles[0].runs, 1) << "watched runs do not count here";
  EXPECT_THAT(WatchingCsv(findings), HasSubstr("NVIDIA T4,carma,a,0.02"));
}

}  // namespace
}  // namespace carma::cli
