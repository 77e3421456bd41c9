#include "daemon/http/endpoints/handlers.h"

#include <fmt/format.h>

#include "daemon/http/endpoints/endpoint_fixture.h"

namespace carma::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class GpusTest : public EndpointTest {
 protected:
  SharedServices Services() {
    EngineServices services = Basics();
    services.answer_later = Worker();
    return Shared(std::move(services));
  }
};

TEST_F(GpusTest, ListsAllGpus) {
  const Heard heard = Ask(Services(), &ListGpus, Asking({}));
  EXPECT_EQ(heard.status, 200);
  ASSERT_EQ(heard.body.at("gpus").size(), 2U);
  EXPECT_EQ(heard.body.at("gpus")[1].at("uuid"), "GPU-b");
  EXPECT_EQ(heard.body.at("gpus")[1].at("state"), "idle");
}

TEST_F(GpusTest, LabelsProcessesThatDoNotCountAsForeign) {
  gpu::Reading reading;
  reading.taken = clock_.Now();
  GpuUse use;
  use.strangers = {{.process = {11}, .face = {"root", "/usr/lib/xorg/Xorg"}, .display = true},
                   {.process = {12}, .face = {"ada", "nvidia-cuda-mps-server"}, .mps_server = true},
                   {.process = {13}, .face = {"bob", "python x.py"}}};
  monitor_->Take(clock_.Now(), {reading, std::nullopt}, {use});
  const Heard heard = Ask(Services(), &ListGpus, Asking({}));
  std::vector<std::string> commands;
  for (const base::Json& process : heard.body.at("gpus")[0].at("foreign"))
    commands.push_back(process.at("command"));
  EXPECT_THAT(commands, ElementsAre("display: /usr/lib/xorg/Xorg",
                                    "MPS server: nvidia-cuda-mps-server", "python x.py"));
}

TEST_F(GpusTest, AnAdministratorClosesAndOpensAGpuByIndexOrUuid) {
  const Heard drained = Ask(Services(), &DrainGpu, By(kRoot, "GPU-b", "", R"({"reason":"fan"})"));
  EXPECT_EQ(drained.body.at("uuid"), "GPU-b");
  EXPECT_EQ(drained.body.at("state"), "drain");
  EXPECT_THAT(std::string(drained.body.at("trouble")), HasSubstr("drained by root: fan"));
  const Heard until = Ask(Services(), &DrainGpu,
                          By(kRoot, "GPU-b", "", R"({"reason":"fan","by_ms":1800000000000})"));
  EXPECT_THAT(std::string(until.body.at("trouble")),
              HasSubstr("drained by root: fan, must be empty by 2027-01-15T08:00:00.000Z"));
  EXPECT_EQ(Ask(Services(), &DrainGpu, By(kRoot, "GPU-b", "", R"({"by_ms":-1})")).status, 400);
  EXPECT_EQ(store_->Drains()->size(), 1U) << "it is durable";
  EXPECT_EQ(Ask(Services(), &ResumeGpu, By(kRoot, "1")).body.at("state"), "idle");
  EXPECT_EQ(store_->Drains()->size(), 0U);
}

TEST_F(GpusTest, ASecondDrainKeepsAReasonOrDeadlineThatItDoesNotGive) {
  Ask(Services(), &DrainGpu, By(kRoot, "0", "", R"({"reason":"fan"})"));
  const auto trouble = [&](const char* body) {
    const Heard heard = Ask(Services(), &DrainGpu, By(kRoot, "0", "", body));
    return heard.body.at("trouble").get<std::string>();
  };
  const std::string by_eight = ", must be empty by 2027-01-15T08:00:00.000Z";
  EXPECT_EQ(trouble(R"({"by_ms":1800000000000})"), "drained by root: fan" + by_eight);
  EXPECT_EQ(trouble("{}"), "drained by root: fan" + by_eight);
  EXPECT_EQ(trouble(R"({"reason":"dust"})"), "drained by root: dust" + by_eight);
  EXPECT_EQ(trouble(R"({"by_ms":1800003600000})"),
            "drained by root: dust, must be empty by 2027-01-15T09:00:00.000Z");
  const Heard shown = Ask(Services(), &DrainGpu, By(kRoot, "0", "", "{}"));
  EXPECT_EQ(shown.body.at("leave_by_ms"), 1'800'003'600'000);
  Ask(Services(), &ResumeGpu, By(kRoot, "0"));
  EXPECT_EQ(trouble("{}"), "drained by root") << "resuming clears both";
}

TEST_F(GpusTest, RefusesADeadlineThatHasLongPassed) {
  clock_.Advance(std::chrono::hours(2));
  EXPECT_EQ(Ask(Services(), &DrainGpu, By(kRoot, "0", "", R"({"by_ms":9000000})")).Message(),
            "/by_ms: 1970-01-01T02:30:00.000Z has passed");
  EXPECT_EQ(store_->Drains()->size(), 0U);
  const std::string just_now = fmt::format(R"({{"by_ms":{}}})", base::ToMs(clock_.Now()) - 1'000);
  EXPECT_EQ(Ask(Services(), &DrainGpu, By(kRoot, "0", "", just_now)).status, 200)
      << "the caller's clock may be slow";
}

TEST_F(GpusTest, LogsDeadlinesAndWhyTasksMustLeave) {
  Start(Submit());
  const std::string soon = fmt::format(R"({{"by_ms":{}}})", base::ToMs(clock_.Now()) + 60'000);
  ::testing::internal::CaptureStderr();
  for (const char* gpu : {"0", "1"}) Ask(Services(), &DrainGpu, By(kRoot, gpu, "", soon));
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("event=gpu_drain gpu=0 uuid=GPU-a empty_by=1970-01-01T02:"));
  EXPECT_THAT(log, HasSubstr("event=asked_to_save task=1 attempt=1 why=Draining"));
}

TEST_F(GpusTest, RefusesUnauthorisedUsersAndUnknownGpus) {
  EXPECT_EQ(Ask(Services(), &DrainGpu, By(kAda, "0")).Message(),
            "only an administrator may close and reopen GPUs");
  EXPECT_EQ(Ask(Services(), &ResumeGpu, By(kAda, "0")).status, 403);
  EXPECT_EQ(Ask(Services(), &DrainGpu, By(kRoot, "2")).Message(),
            "GPU '2': expected a UUID or an index below 2");
  EXPECT_EQ(Ask(Services(), &ResumeGpu, By(kRoot, "GPU-c")).status, 404);
  EXPECT_THAT(Ask(Services(), &DrainGpu, By(kRoot, "0", "", "[")).Message(), HasSubstr("body: "));
  EXPECT_EQ(Ask(Services(), &DrainGpu, By(kRoot, "0", "", R"({"why":"x"})")).status, 400);
  EXPECT_EQ(store_->Drains()->size(), 0U);
}

TEST_F(GpusTest, ShowsTheLastHoursWithoutAWorker) {
  for (int i = 0; i < 5; ++i) Settle();
  const Heard heard = Ask(Services(), &ShowGpuHistory, Asking({{"points", "10"}}, "0"));
  EXPECT_EQ(heard.status, 200);
  EXPECT_EQ(heard.body.at("uuid"), "GPU-a");
  EXPECT_FALSE(heard.body.at("points").empty());
  EXPECT_FALSE(work_);
}

TEST_F(GpusTest, ReadsOldDataOnAWorker) {
  const Call call = Asking({{"from_ms", "0"}, {"to_ms", "5000"}}, "0");
  clock_.Advance(std::chrono::hours(24));
  EXPECT_EQ(Ask(Services(), &ShowGpuHistory, call).status, 0);
  ASSERT_TRUE(work_);
  work_();
  EXPECT_EQ(last_heard_->status, 200);
  EXPECT_EQ(last_heard_->body.at("uuid"), "GPU-a");
  worker_busy_ = true;
  EXPECT_EQ(Ask(Services(), &ShowGpuHistory, call).status, 503);
}

TEST_F(GpusTest, DrawsAllGpusOnAWorker) {
  for (int i = 0; i < 5; ++i) Settle();
  std::optional<api::Response> page;
  const auto reply = [&] {
    return api::Responder([&](api::Response response) { page = std::move(response); });
  };
  ASSERT_TRUE(DrawGpuHistory(Services(), Asking({{"utc_offset_min", "0"}}), reply()));
  ASSERT_TRUE(work_);
  work_();
  ASSERT_TRUE(page);
  EXPECT_EQ(page->status, 200);
  EXPECT_EQ(page->content_type, "text/html; charset=utf-8");
  EXPECT_THAT(page->body, HasSubstr("SM activity"));
  EXPECT_THAT(page->body, HasSubstr("GPU 1"));
  EXPECT_THAT(page->body, HasSubstr(">02:00</text>"));  // 10 000 s after midnight
  ASSERT_TRUE(DrawGpuHistory(Services(), Asking({{"utc_offset_min", "330"}}), reply()));
  work_();
  EXPECT_THAT(page->body, HasSubstr(">08:00</text>"));
  EXPECT_THAT(page->body, HasSubstr("from 1970-01-01 07:16:"));
  EXPECT_THAT(
      DrawGpuHistory(Services(), Asking({{"utc_offset_min", "3000"}}), reply()).error().message,
      HasSubstr("?utc_offset_min: "));
  EXPECT_EQ(
      DrawGpuHistory(Services(), Asking({{"from_ms", "7"}, {"to_ms", "7"}}), reply()).error().code,
      ErrorCode::kInvalid);
}

TEST_F(GpusTest, RefusesAnInvalidSpan) {
  const auto ask = [&](Query query, const char* gpu = "0") {
    return Ask(Services(), &ShowGpuHistory, Asking(std::move(query), gpu));
  };
  EXPECT_EQ(ask({{"from_ms", "7"}, {"to_ms", "7"}}).Message(),
            "?from_ms: expected a time before to_ms (7)");
  EXPECT_THAT(ask({{"points", "0"}}).Message(), HasSubstr("?points: expected a whole number"));
  EXPECT_THAT(ask({{"to_ms", "soon"}}).Message(), HasSubstr("?to_ms: "));
  EXPECT_EQ(ask({}, "9").status, 404);
}

}  // namespace
}  // namespace carma::daemon
