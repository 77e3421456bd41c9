#include "lab/verbs/demo/screen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace carma::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

api::TaskRow Row(std::uint64_t id, int ooms, int attempt, const std::string& state) {
  api::TaskRow row;
  row.id = id;
  row.name = "resnet50";
  row.ooms = ooms;
  row.attempt = attempt;
  row.state = state;
  row.gpu_indices = {2};
  row.claim_mib = 12'800;
  return row;
}

DemoData Both() {
  DemoData data;
  data.tasks = 60;
  data.speed = 480;
  for (const char* title : {"One task per GPU", "CARMA"}) {
    DemoSide side{title, {}, 1'000};
    side.server.now_ms = 3'601'000;
    side.server.task_counts = {{"queued", 7}, {"running", 4}, {"succeeded", 30}, {"estimating", 1}};
    for (int i = 0; i < 4; ++i) {
      api::GpuGlance gpu;
      gpu.index = i;
      gpu.total_mib = 40'000;
      gpu.used_mib = 20'000;
      gpu.promised_mib = 30'000;
      gpu.tasks.resize(2);
      gpu.sm_active_now = 0.5;
      side.server.gpus.push_back(gpu);
    }
    data.sides.push_back(side);
  }
  data.news = {"first", "second"};
  return data;
}

std::string TextOf(const TopLine& line) {
  std::string text;
  for (const TopPiece& piece : line) text += piece.text;
  return text;
}

TEST(DemoScreen, FitsEveryScreen) {
  for (const TopSize size : {TopSize{24, 80, true}, TopSize{10, 40, false}, TopSize{3, 20, false},
                             TopSize{50, 200, true}}) {
    const std::vector<TopLine> lines = DrawDemo(Both(), size);
    EXPECT_EQ(static_cast<int>(lines.size()), size.rows);
    for (const TopLine& line : lines)
      EXPECT_LE(static_cast<int>(ShownWidth(TextOf(line))), size.columns) << TextOf(line);
  }
}

TEST(DemoScreen, ShowsBothServersSideBySideWithNews) {
  std::string screen;
  for (const TopLine& line : DrawDemo(Both(), {24, 100, true})) screen += TextOf(line) + "\n";
  EXPECT_THAT(screen, HasSubstr("One task per GPU, 1.0 h"));
  EXPECT_THAT(screen, HasSubstr("30 of 60 done, 4 running, 8 waiting"));
  EXPECT_THAT(screen, HasSubstr("GPU 3 "));
  EXPECT_THAT(screen, HasSubstr("2 tasks  50%"));
  EXPECT_THAT(screen, HasSubstr("second"));
}

TEST(DemoScreen, ShowsTheSameInOneLine) {
  EXPECT_EQ(DemoLine(Both()),
            "One task per GPU: 30 of 60 done, 4 running, 1.0 h; CARMA: 30 of 60 done, 4 running, "
            "1.0 h");
}

TEST(DemoNews, ReportsACrashItsRecoveryAndItsEndOnce) {
  DemoNews news;
  api::OverviewView server;
  server.now_ms = 3'600'000;
  server.running = {Row(24, 0, 1, "running"), Row(25, 0, 1, "running")};
  EXPECT_THAT(news.Look(server, 0), ElementsAre());
  server.running = {Row(25, 0, 1, "running")};
  server.waiting = {Row(24, 1, 1, "queued")};
  EXPECT_THAT(news.Look(server, 0),
              ElementsAre(HasSubstr("1.0 h  task 24 (resnet50) ran out of GPU memory")));
  EXPECT_THAT(news.Look(server, 0), ElementsAre());
  server.waiting.clear();
  server.running = {Row(24, 1, 2, "running")};
  EXPECT_THAT(news.Look(server, 0),
              ElementsAre(HasSubstr("restarted on GPU 2 with 12.5G promised")));
  EXPECT_THAT(news.Look(server, 0), ElementsAre());
  server.running.clear();
  server.ended = {Row(24, 1, 2, "succeeded"), Row(25, 0, 1, "succeeded")};
  EXPECT_THAT(news.Look(server, 0), ElementsAre(HasSubstr("task 24 (resnet50) succeeded")));
  EXPECT_THAT(news.Look(server, 0), ElementsAre());
}

TEST(DemoChart, DrawsAPairOfBarsForEachQuantity) {
  report::Metrics exclusive;
  exclusive.trace_total_s = 36'000;
  exclusive.jct.mean = 6'000;
  exclusive.waiting.mean = 3'000;
  exclusive.sm_active = 0.4;
  report::Metrics carma = exclusive;
  carma.trace_total_s = 27'000;
  carma.sm_active = 0.6;
  const std::string chart = DemoChart(exclusive, carma, Screen{.width = 80});
  EXPECT_EQ(std::ranges::count(chart, '\n'), 8);
  EXPECT_THAT(chart, HasSubstr("10.0 h\n"));
  EXPECT_THAT(chart, HasSubstr("7.5 h (-25 %)\n"));
  EXPECT_THAT(chart, HasSubstr("60.0 % (+50 %)\n"));
  for (std::size_t at = 0, end = 0; (end = chart.find('\n', at)) != std::string::npos; at = end + 1)
    EXPECT_LE(end - at, 80U) << chart.substr(at, end - at);
}

}  // namespace
}  // namespace carma::cli
