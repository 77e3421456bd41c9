// Tests the current and historical GPU values that the daemon reports.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "base/json.h"
#include "tests/kit.h"

namespace carma::system_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::Not;
using ::testing::SizeIs;

class Gpus : public ::testing::Test {
 protected:
  Gpus() : site({.shape = "2xH100-80GB"}) {}
  void SetUp() override { site.Start(); }

  std::vector<api::GpuHistoryView> History(const std::vector<std::string>& more) const {
    std::vector<std::string> words{"gpus", "--json", "--history"};
    words.insert(words.end(), more.begin(), more.end());
    const Ran ran = site.Carma(words);
    EXPECT_EQ(ran.code, 0) << ran.Text();
    std::vector<api::GpuHistoryView> views;
    const auto json = base::ParseJson(ran.out);
    if (!json) return views;
    for (const base::Json& each : *json) {
      auto view = api::FromJson<api::GpuHistoryView>(each);
      if (view) views.push_back(std::move(*view));
    }
    return views;
  }

  Site site;
};

std::optional<double> HighestSm(const api::GpuHistoryView& gpu) {
  std::optional<double> highest;
  for (const auto& point : gpu.points) {
    if (point.sm_peak) highest = std::max(highest.value_or(0), *point.sm_peak);
  }
  return highest;
}

TEST_F(Gpus, ShowTheirHistoryAfterARestart) {
  const std::uint64_t id = site.Train({}, {.memory_mib = 4000, .solo_s = 1e6, .sm_active = 0.5});
  // The requested history is so long that the database is read outside the event loop.
  const auto books = [this](const std::string& uuid) {
    const auto ever = site.client().Get("/v1/gpus/" + uuid + "/history?from_ms=0&points=1");
    EXPECT_TRUE(ever) << ever.error().message;
    const auto view = api::FromJson<api::GpuHistoryView>(base::ParseJson(*ever).value());
    EXPECT_TRUE(view);
    EXPECT_THAT(view->points, SizeIs(Le(1)));
    return view->points.empty() ? api::GpuHistoryView::Point{} : view->points[0];
  };
  // Waits until the history shows the task. On a busy machine, readings may be far apart.
  const std::string uuid = site.Gpus()[0].uuid;
  EXPECT_TRUE(Eventually([&] {
    const auto point = books(uuid);
    return point.sm_peak.value_or(0) >= 0.49 && point.used_peak_mib.value_or(0) >= 4000;
  }));
  site.CancelAll();
  const api::TaskView task = site.Await(id);
  ASSERT_THAT(task.gpu_indices, ElementsAre(0));
  const std::vector<api::GpuHistoryView> hour = History({"1h", "--points", "7"});
  ASSERT_THAT(hour, SizeIs(2));
  ASSERT_THAT(hour[0].points, Not(IsEmpty()));
  EXPECT_LE(hour[0].points.size(), 7u);
  EXPECT_NEAR(HighestSm(hour[0]).value_or(0), 0.5, 0.05);
  EXPECT_LT(HighestSm(hour[1]).value_or(1), 0.1) << "nothing ran there";

  site.Restart(SIGTERM);
  const std::vector<api::GpuHistoryView> later = History({"6h", "0"});
  ASSERT_THAT(later, SizeIs(1));
  EXPECT_NEAR(HighestSm(later[0]).value_or(0), 0.5, 0.05) << "from the books";
  EXPECT_NEAR(books(uuid).sm_peak.value_or(0), 0.5, 0.05);
  EXPECT_GE(books(uuid).used_peak_mib.value_or(0), 4000);

  EXPECT_THAT(site.Carma({"gpus", "--history", "6h"}).out,
              AllOf(HasSubstr("SM peak"), HasSubstr("Mem peak"), HasSubstr("Power")));
}

TEST_F(Gpus, RefuseInvalidHistoryRequests) {
  struct Case {
    const char* target;
    base::ErrorCode code;
    const char* message;
  };
  const Case cases[] = {
      {"0/history?points=0", base::ErrorCode::kInvalid, "?points: expected a whole number from 1"},
      {"0/history?points=2001", base::ErrorCode::kInvalid, "?points"},
      {"0/history?from_ms=5&to_ms=5", base::ErrorCode::kInvalid,
       "?from_ms: expected a time before"},
      {"0/history?from_ms=-1", base::ErrorCode::kInvalid, "?from_ms"},
      {"0/history?to_ms=9223372036854775807", base::ErrorCode::kInvalid, "?to_ms"},
      {"2/history", base::ErrorCode::kNotFound, "expected a UUID or an index below 2"},
      {"GPU-none/history", base::ErrorCode::kNotFound, "GPU 'GPU-none'"},
  };
  for (const Case& c : cases) {
    const auto answer = site.client().Get(std::string("/v1/gpus/") + c.target);
    ASSERT_FALSE(answer) << c.target;
    EXPECT_EQ(answer.error().code, c.code) << c.target;
    EXPECT_THAT(answer.error().message, HasSubstr(c.message));
  }
}

TEST_F(Gpus, ShowTheSourceOfMetricsAndTheUseOfTasks) {
  Gated gated(site, "g");
  const std::uint64_t id = gated.Submit(site, "exit 0", {"--memory", "3G"});
  ASSERT_TRUE(gated.Hear());
  const Ran ran = site.Carma({"gpus", "-v", "0"});
  EXPECT_THAT(ran.out, AllOf(HasSubstr("GPU 0 NVIDIA H100"), HasSubstr("\n  SM activity "),
                             HasSubstr("\n  From gpm      sm_active"), HasSubstr("power_w"),
                             HasSubstr("\n  Tasks\n"), Not(HasSubstr("GPU 1 "))));
  EXPECT_THAT(ran.out, HasSubstr(" " + std::to_string(id) + " "));
  gated.Open();
  site.Await(id);
}

TEST_F(Gpus, ATaskMayRequestAShareOfTheSms) {
  const std::string script = site.out_dir() + "/half.sh";
  WriteText(script, "#!/bin/sh\n#CARMA --sm-share 50% --memory 1G\ntrue\n", 0755);
  const api::TaskView task = site.Await(site.Submit({script, "x"}));
  EXPECT_EQ(task.sm_share, 0.5);
  EXPECT_THAT(task.command, ElementsAre(script, "x")) << "the source is shown, not only the name";
  EXPECT_THAT(site.Carma({"show", std::to_string(task.id)}).out,
              HasSubstr("SM limit      at most 50% of each GPU's SMs"));
  const Ran refused = site.Carma({"submit", "--sm-share", "50", "true"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--sm-share: expected a share like 30% or 0.3, not '50'"));
}

}  // namespace
}  // namespace carma::system_test
