// Tests `carma drain` and `carma resume` end to end against a fake daemon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/gpu_view.h"
#include "api/status_view.h"
#include "api/views.h"
#include "base/text.h"
#include "cli/client/app_fixture.h"

namespace carma::cli {
namespace {

using ::testing::ElementsAre;

TEST_F(App, DrainsSeveralGpusWithAReason) {
  for (const char* gpu : {"0", "2"}) {
    daemon_.On("POST /v1/gpus/" + std::string(gpu) + "/drain", [gpu](const api::Request&) {
      return JsonAnswer(ToJson(api::GpuView{.index = *gpu - '0', .state = "drng"}));
    });
  }
  const Ran ran = Run({"drain", "0,2", "--reason", "new \"fan\""});
  EXPECT_EQ(ran.out,
            "GPU 0 accepts no new tasks; running tasks continue\n"
            "GPU 2 accepts no new tasks; running tasks continue\n");
  EXPECT_EQ(daemon_.requests().at(1), R"(POST /v1/gpus/2/drain {"reason":"new \"fan\""})");
  EXPECT_EQ(daemon_.requests().size(), 2);
  daemon_.On("GET /v1/status", [](const api::Request&) { return JsonAnswer({{"now_ms", 5000}}); });
  Run({"drain", "0", "--by", "+10s"});
  EXPECT_EQ(daemon_.requests().back(), R"(POST /v1/gpus/0/drain {"by_ms":15000,"reason":""})")
      << "on the daemon's clock";
  const std::size_t before = daemon_.requests().size();
  Run({"drain", "0,2", "--by", "+10s"});
  const std::vector<std::string> sent = daemon_.requests();
  EXPECT_THAT(std::vector(sent.begin() + before + 1, sent.end()),
              ElementsAre(R"(POST /v1/gpus/0/drain {"reason":""})",
                          R"(POST /v1/gpus/2/drain {"reason":""})",
                          R"(POST /v1/gpus/0/drain {"by_ms":15000,"reason":""})",
                          R"(POST /v1/gpus/2/drain {"by_ms":15000,"reason":""})"))
      << "a task that leaves GPU 0 early must not start on GPU 2";
  Run({"drain", "0", "--by", "2026-03-01T14:05Z"});
  EXPECT_EQ(daemon_.requests().back(),
            R"(POST /v1/gpus/0/drain {"by_ms":1772373900000,"reason":""})");
  EXPECT_EQ(Run({"drain", "0", "--by", "soon"}).exit_code, 2);
  daemon_.On("GET /v1/status", [](const api::Request&) {
    return JsonAnswer({{"now_ms", 1'772'460'300'000}});
  });
  const Ran late = Run({"drain", "0", "--by", "2026-03-01T14:05Z"});
  EXPECT_EQ(late.exit_code, 2);
  EXPECT_THAT(late.err, ::testing::HasSubstr("is in the past; use --by now to stop the tasks"));
  EXPECT_THAT(daemon_.requests().back(), ::testing::StartsWith("GET /v1/status"));
  Run({"drain", "0", "--by", "now"});
  EXPECT_EQ(daemon_.requests().back(),
            R"(POST /v1/gpus/0/drain {"by_ms":1772460300000,"reason":""})");
}

TEST_F(App, DrainWaitsOnlyForClosedGpusAndOutlastsARestart) {
  const Ran none = Run({"drain", "9", "--wait"});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_EQ(none.out, "");
  daemon_.On("POST /v1/gpus/0/drain", [](const api::Request&) {
    return JsonAnswer(ToJson(api::GpuView{.uuid = "GPU-a", .state = "drng"}));
  });
  int asked = 0;
  daemon_.On("GET /v1/gpus", [&asked](const api::Request&) {
    if (++asked == 1) return api::ErrorResponse({ErrorCode::kUnavailable, "carmad is stopping"});
    return JsonAnswer({{"gpus", {ToJson(api::GpuView{.uuid = "GPU-a", .state = "drain"})}}});
  });
  const Ran ran = Run({"drain", "0", "--wait"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(ran.out,
            "GPU 0 accepts no new tasks; running tasks continue\n"
            "No tasks are left on these GPUs\n");
}

TEST_F(App, ADrainNamesTheDeadlineThatItKeeps) {
  daemon_.On("POST /v1/gpus/0/drain", [](const api::Request&) {
    return JsonAnswer(
        ToJson(api::GpuView{.index = 0, .state = "drng", .leave_by_ms = 1'800'000'000'000}));
  });
  EXPECT_EQ(Run({"drain", "0"}).out, "GPU 0 accepts no new tasks; running tasks must stop by " +
                                         base::FormatTime(base::FromMs(1'800'000'000'000)) + "\n");
}

TEST_F(App, ResumingAGpuOfAClosedServerIsAFailure) {
  daemon_.On("POST /v1/gpus/0/resume", [](const api::Request&) {
    return JsonAnswer(ToJson(api::GpuView{.index = 0, .state = "drain"}));
  });
  daemon_.On("GET /v1/status", [](const api::Request&) {
    return JsonAnswer(
        ToJson(api::StatusView{.closed = "closed by root until the machine reboots"}));
  });
  const Ran ran = Run({"resume", "0"});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_EQ(ran.out, "GPU 0 is open, but is not accepting new tasks yet\n");
  EXPECT_EQ(
      ran.err,
      "carma: server: closed by root until the machine reboots; 'carma resume all' reopens it\n");
}

TEST_F(App, ResumeOfAGpuThatDoesNotAnswerSaysWhenItTakesTasks) {
  daemon_.On("POST /v1/gpus/0/resume", [](const api::Request&) {
    return JsonAnswer(ToJson(api::GpuView{.index = 0, .state = "down"}));
  });
  EXPECT_EQ(Run({"resume", "0"}).out,
            "GPU 0 is open, and will accept tasks as soon as it responds\n");
}

}  // namespace
}  // namespace carma::cli
