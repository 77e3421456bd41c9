#include "report/html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <regex>
#include <set>

#include "report/made_run_test.h"

namespace carma::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Returns the first tag that is not closed in the right order, or an empty string if there is none.
std::string Unbalanced(const std::string& html) {
  const std::set<std::string> alone{"meta", "br", "!doctype"};
  std::vector<std::string> open;
  for (std::size_t at = html.find('<'); at != std::string::npos; at = html.find('<', at + 1)) {
    const std::size_t end = html.find('>', at);
    if (end == std::string::npos) return "a tag without end";
    if (html[end - 1] == '/') continue;
    const bool closes = html[at + 1] == '/';
    const std::size_t name_at = at + (closes ? 2 : 1);
    const std::string name = html.substr(name_at, html.find_first_of(" >", name_at) - name_at);
    if (alone.contains(name)) continue;
    if (!closes) {
      open.push_back(name);
    } else if (open.empty() || open.back() != name) {
      return "</" + name + "> closes " + (open.empty() ? "nothing" : open.back());
    } else {
      open.pop_back();
    }
  }
  return open.empty() ? "" : open.back() + " stays open";
}

std::vector<Report> Two() {
  std::vector<Report> reports{
      MakeReport(Make({.label = "exclusive", .most_per_gpu = 1, .crash_share = 0})),
      MakeReport(Make({.label = "magm", .most_per_gpu = 4, .crash_share = 0.2}))};
  for (Report& each : reports) each.metrics.bounds = {{"longest task", 7'000}};
  return reports;
}

std::vector<Report> OneOnTheClock() {
  RunRecord run = Make({.label = "", .tasks = 20, .gpus = 2});
  const core::Duration later = std::chrono::seconds(1'795'442'400);  // 2026-11-23 14:00 UTC
  run.from += later;
  run.to += later;
  for (RunTask& task : run.tasks) {
    task.submitted += later;
    if (task.ended) *task.ended += later;
    for (Attempt& attempt : task.attempts) {
      attempt.started += later;
      attempt.ended += later;
    }
  }
  for (RunGpu& gpu : run.gpus) {
    for (GpuPoint& point : gpu.points) point.at += later;
  }
  run.simulated = false;
  return {MakeReport(std::move(run))};
}

TEST(Html, DrawsARealRunByTheReadersClock) {
  const std::vector<Report> reports = OneOnTheClock();
  const std::string there = Html(reports, "there", Clock{std::chrono::hours(2)});
  EXPECT_THAT(there, HasSubstr(">17:00</text>"));
  EXPECT_THAT(there, HasSubstr("recorded from 2026-11-23 16:00:00 to 2026-11-2"));
  EXPECT_THAT(there, Not(HasSubstr("0 on the time axes")));
  const std::string nowhere = Html(reports, "nowhere");
  EXPECT_THAT(nowhere, Not(HasSubstr(":00</text>")));
  EXPECT_THAT(nowhere, HasSubstr("0 on the time axes"));
  EXPECT_THAT(GpusHtml(*reports.front().run, "GPUs", Clock{}), HasSubstr(">15:00</text>"));
}

TEST(Html, SplitsWaitingByCause) {
  const auto at = [](std::int64_t h) { return base::FromMs(h * 3'600'000); };
  RunRecord run{.label = "", .to = at(20), .gpus = {{.name = "GPU 0"}}};
  RunTask task{.id = 1, .submitted = at(0), .ended = at(10)};
  task.attempts = {{at(2), at(3), AttemptEnd::kOutOfMemory, {0}},
                   {at(6), at(7), AttemptEnd::kStopped, {0}},
                   {at(8), at(10), AttemptEnd::kSucceeded, {0}}};
  run.tasks = {task};
  task = {.id = 2, .submitted = at(4), .ended = at(5), .state = core::TaskState::kCancelled};
  run.tasks.push_back(task);
  EXPECT_THAT(
      Html(std::vector<Report>{MakeReport(std::move(run))}, "waits"),
      HasSubstr("<td>3.0 h<small>43 %</small></td><td>3.0 h<small>43 %</small></td>"
                "<td>1.0 h<small>14 %</small></td><td>0.0 h<small>0 %</small></td><td>7.0 h</td>"));
}

TEST(Html, ShowsWhatTheHeadOfTheQueueWaitedFor) {
  RunRecord run = Make({.label = "", .tasks = 5, .gpus = 1});
  run.line_waits_s = {{"GpuMemory", 1'800}, {"WarmUp", 5'400}};
  const std::string page = Html(std::vector<Report>{MakeReport(std::move(run))}, "line");
  const std::size_t first = page.find("<td>WarmUp</td><td>1:30:00<small>75 %</small></td>");
  EXPECT_NE(first, std::string::npos) << "longest first";
  EXPECT_LT(first, page.find("<td>GpuMemory</td><td>30:00<small>25 %</small></td>"));
}

TEST(Html, ShowsReasonsOfFailures) {
  RunRecord run = Make({.label = "", .tasks = 5, .gpus = 1});
  run.tasks[2].state = core::TaskState::kFailed;
  run.tasks[2].reason = "FileNotFoundError: <data>";
  const std::string html = Html(std::vector<Report>{MakeReport(std::move(run))}, "failed");
  EXPECT_THAT(html, HasSubstr("FileNotFoundError: &lt;data&gt;</td></tr>"));
}

TEST(Html, ShowsPromisedBesideUsedMemory) {
  RunRecord run = Make({.label = "", .tasks = 20, .gpus = 2});
  const auto drawn = [&] { return Html(std::vector<Report>{MakeReport(run)}, "promises"); };
  EXPECT_THAT(drawn(), Not(HasSubstr("class=\"promise\"")));
  EXPECT_THAT(drawn(), Not(HasSubstr("promised to tasks")));
  for (RunTask& task : run.tasks) {
    for (Attempt& attempt : task.attempts) attempt.promised_mib = 50'000;  // more than the GPU has
  }
  EXPECT_THAT(drawn(), HasSubstr("class=\"promise\""));
  EXPECT_THAT(drawn(), HasSubstr("promised to tasks when they started"));
  EXPECT_EQ(Unbalanced(drawn()), "");
  run.gpus.resize(12, run.gpus.front());  // more than kStripGpus, so they share one band
  EXPECT_THAT(drawn(), HasSubstr("class=\"promise\""));
}

TEST(Html, ShowsEveryFigureOfTwoRuns) {
  const std::string html = Html(Two(), "Two policies");
  EXPECT_EQ(Unbalanced(html), "");
  for (const char* part :
       {"<h1>Two policies</h1>", "Trace total time, with the lower bounds", "longest task",
        "Distributions", "Tasks on the GPUs", "Waiting tasks", "GPU memory", "SM activity", "Power",
        "By task group", "out of memory", "Where these runs come from"}) {
    EXPECT_THAT(html, HasSubstr(part));
  }
  EXPECT_THAT(html, Not(HasSubstr("nan")));
  // The page loads no other files and runs no scripts.
  EXPECT_FALSE(std::regex_search(html, std::regex("<script|<link|<img|https?://|@import|url\\(")));
}

TEST(Html, IsTheSameForTheSameReports) {
  EXPECT_EQ(Html(Two(), "x"), Html(Two(), "x"));
}

TEST(Html, HandlesUnusualRuns) {
  const double unknown = std::numeric_limits<double>::quiet_NaN();
  RunRecord silent = Make({.tasks = 5, .gpus = 1});
  for (GpuPoint& point : silent.gpus[0].points) point.sm_active = point.power_w = unknown;
  RunRecord no_gpus = Make({.tasks = 3, .gpus = 1});
  no_gpus.gpus.clear();
  for (RunTask& task : no_gpus.tasks) {
    for (Attempt& attempt : task.attempts) attempt.gpus.clear();
  }
  RunRecord instant = Make({.tasks = 1, .gpus = 1});
  instant.tasks[0].attempts[0].ended = instant.tasks[0].attempts[0].started = instant.to =
      instant.from;
  struct Case {
    const char* name;
    RunRecord run;
    const char* shows;
  };
  Case cases[] = {{"nothing at all", {}, "No tasks have run."},
                  {"one task", Make({.tasks = 1, .gpus = 1}), "1 task, 1 GPU"},
                  {"GPUs that do not report", std::move(silent), "Not reported."},
                  {"no GPUs", std::move(no_gpus), "No tasks have run."},
                  {"a run of zero length", std::move(instant), "<svg"}};
  for (Case& c : cases) {
    const std::string html = Html(std::vector<Report>{MakeReport(std::move(c.run))}, c.name);
    EXPECT_EQ(Unbalanced(html), "") << c.name;
    EXPECT_THAT(html, HasSubstr(c.shows)) << c.name;
    EXPECT_THAT(html, Not(HasSubstr("nan"))) << c.name;
  }
  EXPECT_THAT(Html({}, "none"), HasSubstr("There are no runs"));
}

TEST(Html, EscapesUntrustedText) {
  RunRecord run = Make({.label = "<script>alert(1)</script>", .tasks = 3, .gpus = 1});
  run.provenance = "\"><script>";
  for (RunTask& task : run.tasks) task.name = task.group = "</svg><script>x</script>";
  run.gpus[0].name = "<script>";
  run.bounds = {{"<script>", 10}};
  const std::string html = Html(std::vector<Report>{MakeReport(std::move(run))}, "<script>");
  EXPECT_EQ(Unbalanced(html), "");
  EXPECT_THAT(html, Not(HasSubstr("<script")));
}

TEST(Html, StaysBoundedForLongRuns) {
  const std::vector<Report> many{MakeReport(Make({.label = "long", .tasks = 20'000, .gpus = 8})),
                                 MakeReport(Make({.label = "wide", .tasks = 5'000, .gpus = 300}))};
  const std::string html = Html(many, "many");
  EXPECT_EQ(Unbalanced(html), "");
  EXPECT_LT(html.size(), std::size_t{2} << 20);
  EXPECT_THAT(html, HasSubstr("is drawn as the mean number of tasks per GPU"));
}

TEST(Html, ReplaysAreDrawnOnce) {
  std::vector<Report> reports;
  for (std::uint64_t seed = 1; seed <= 5; ++seed)
    reports.push_back(MakeReport(Make({.label = "magm", .tasks = 30, .seed = seed})));
  const std::string html = Html(reports, "replays");
  EXPECT_THAT(html, HasSubstr("5 replays"));
  EXPECT_THAT(html, HasSubstr(" ± "));
  EXPECT_THAT(html, Not(HasSubstr("replays</small><small>")));
  const std::string heading = "Power over time";
  EXPECT_EQ(html.find(heading), html.rfind(heading));
}

TEST(Html, CountsTheRowsOfGroupsThatItDoesNotShow) {
  std::vector<Report> reports(3);
  for (std::size_t run = 0; run < reports.size(); ++run) {
    reports[run].metrics.label = "policy " + std::to_string(run);
    for (int user = 0; user < 100; ++user)
      reports[run].metrics.groups.push_back({.name = "user " + std::to_string(user), .tasks = 1});
  }
  EXPECT_THAT(Html(reports, "many"), HasSubstr("Only 200 of 300 rows are shown."));
}

TEST(Html, SplitsManyCasesIntoSeveralTables) {
  std::vector<Report> reports;
  for (int i = 0; i < 12; ++i) {
    const std::string label = "policy " + std::to_string(i);
    reports.push_back({.metrics = {.label = label, .trace_total_s = 60.0 + i}, .run = {}});
  }
  const std::string html = Html(reports, "many");
  EXPECT_EQ(Unbalanced(html), "");
  const auto columns = [&](const std::string& label) {
    const std::regex head("<th>" + label + "</th>");
    return std::distance(std::sregex_iterator(html.begin(), html.end(), head), {});
  };
  EXPECT_EQ(columns("policy 0"), 3);
  for (int i = 1; i < 12; ++i) EXPECT_EQ(columns("policy " + std::to_string(i)), 1) << i;
}

}  // namespace
}  // namespace carma::report
