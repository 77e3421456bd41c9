// Tests `carma gpus` by running the whole command against a fake daemon.
#include <gtest/gtest.h>

#include "api/gpu_view.h"
#include "api/status_view.h"
#include "api/views.h"
#include "base/json.h"
#include "cli/client/app_fixture.h"

namespace carma::cli {
namespace {

// A server with two GPUs. Its clock is at the end of the first day.
void AddGpus(FakeDaemon& daemon) {
  daemon.On("GET /v1/status", [](const api::Request&) {
    return JsonAnswer(ToJson(api::StatusView{.now_ms = 86'400'000}));
  });
  daemon.On("GET /v1/gpus", [](const api::Request&) {
    return JsonAnswer({{"gpus",
                        {ToJson(api::GpuView{.index = 0, .uuid = "GPU-a", .state = "idle"}),
                         ToJson(api::GpuView{.index = 1, .uuid = "GPU-b", .state = "mix"})}}});
  });
  for (const std::string uuid : {"GPU-a", "GPU-b"}) {
    daemon.On("GET /v1/gpus/" + uuid + "/history", [uuid](const api::Request&) {
      return JsonAnswer(ToJson(api::GpuHistoryView{
          .index = uuid == "GPU-b",
          .uuid = uuid,
          .points = {{.from_ms = 1, .to_ms = 2, .sm_active = 0.5, .used_mib = 100}}}));
    });
  }
}

TEST_F(App, ShowsTheGpusThatAreNamed) {
  AddGpus(daemon_);
  EXPECT_NE(Run({"gpus", "1"}).out.find("mix"), std::string::npos);
  EXPECT_EQ(Run({"gpus", "GPU-b"}).out.find("idle"), std::string::npos);
  const Ran details = Run({"gpus", "-v", "0"});
  EXPECT_NE(details.out.find("  UUID          GPU-a\n"), std::string::npos) << details.out;
  EXPECT_EQ(details.out.find("GPU-b"), std::string::npos);
  const auto json = base::ParseJson(Run({"gpus", "1", "--json"}).out);
  ASSERT_TRUE(json);
  EXPECT_EQ((*json)["gpus"].size(), 1u);
  EXPECT_EQ((*json)["gpus"][0]["uuid"], "GPU-b");
  const Ran none = Run({"gpus", "2"});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_EQ(none.err, "carma: GPU '2': expected a UUID or an index below 2\n");
  EXPECT_EQ(Run({"gpus", "nonsense"}).exit_code, 2);
  EXPECT_EQ(base::ParseJson(Run({"gpus", "0-1", "--json"}).out)->at("gpus").size(), 2U);
  for (const char* range : {"1-0", "0-x", "0-9999999"})
    EXPECT_EQ(Run({"gpus", range}).exit_code, 2) << range;
}

TEST_F(App, AsksForTheHistoryOnTheDaemonsClock) {
  AddGpus(daemon_);
  struct Case {
    std::vector<std::string> words;
    const char* request;  // the last request
  };
  const Case cases[] = {
      {{"gpus", "--history"},
       "GET /v1/gpus/GPU-b/history?from_ms=82800000&to_ms=86400000&points=60"},
      {{"gpus", "--history", "6h", "0", "--points", "10"},
       "GET /v1/gpus/GPU-a/history?from_ms=64800000&to_ms=86400000&points=10"},
      {{"gpus", "--history", "0"},
       "GET /v1/gpus/GPU-a/history?from_ms=82800000&to_ms=86400000&points=60"},
      {{"gpus", "0", "--history"},
       "GET /v1/gpus/GPU-a/history?from_ms=82800000&to_ms=86400000&points=60"},
      {{"gpus", "--history=2d"}, "GET /v1/gpus/GPU-b/history?from_ms=0&to_ms=86400000&points=60"},
  };
  for (const Case& c : cases) {
    const Ran ran = Run(c.words);
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    EXPECT_EQ(daemon_.requests().back(), c.request);
    EXPECT_TRUE(ran.out.starts_with("From ")) << ran.out;
  }
  EXPECT_EQ(Run({"gpus", "--history", "--csv", "1"}).out,
            "gpu,uuid,from_ms,to_ms,sm_active,sm_peak,dram_active,used_mib,used_peak_mib,power_w,"
            "tasks\n1,GPU-b,1,2,0.5,,,100,,,0\n");
  const auto json = base::ParseJson(Run({"gpus", "--history", "--json"}).out);
  ASSERT_TRUE(json);
  EXPECT_EQ(json->size(), 2u);
  for (const std::vector<std::string>& words : {std::vector<std::string>{"gpus", "--csv"},
                                                {"gpus", "--points", "3"},
                                                {"gpus", "--history", "-v"},
                                                {"gpus", "--history", "--csv", "--json"},
                                                {"gpus", "--history", "--points", "0"},
                                                {"gpus", "--history", "0s"}}) {
    EXPECT_EQ(Run(words).exit_code, 2);
  }
}

}  // namespace
}  // namespace carma::cli
