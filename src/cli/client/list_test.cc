// Runs `carma list` and the other commands that show tasks, with a fake daemon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "api/explain_view.h"
#include "api/views.h"
#include "base/json.h"
#include "cli/client/app_fixture.h"
#include "cli/client/verbs.h"

namespace carma::cli {
namespace {

using base::Json;

TEST_F(App, ListShowsRunningTasksFirstAndFiltersAtTheDaemon) {
  daemon_.On("GET /v1/status", [](const api::Request&) { return JsonAnswer({{"now_ms", 5000}}); });
  daemon_.On("GET /v1/tasks", [](const api::Request& request) {
    Json tasks = {TaskJson(9, "running")};
    // Task 4 started after the first request.
    if (request.Query("order") == "turn")
      tasks = {TaskJson(1, "queued"), TaskJson(4, "launching"), TaskJson(9, "running")};
    return JsonAnswer({{"tasks", tasks}, {"next", nullptr}});
  });
  const Ran ran = Run({"list", "-u", "ann b", "-o", "id,st", "--no-header"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(ran.out, "9  R\n4  R\n1  PD\n");
  EXPECT_EQ(daemon_.requests()[0],
            "GET /v1/tasks?limit=500&order=asc&state=launching,running,stopping&user=ann b");
  const Ran json = Run({"ls", "--json"});
  EXPECT_EQ(base::ParseJson(json.out).value()["tasks"].size(), 3u);
}

TEST_F(App, ListSaysThatTasksWaitBeyondItsLimit) {
  daemon_.On("GET /v1/tasks", [](const api::Request& request) {
    const bool queue = request.Query("order") == "turn";
    const Json task = queue ? TaskJson(1, "queued") : TaskJson(9, "running");
    return JsonAnswer({{"tasks", Json::array({task})}, {"next", nullptr}});
  });
  const Json list = base::ParseJson(Run({"list", "--json", "--limit", "1"}).out).value();
  ASSERT_EQ(list.at("tasks").size(), 1U);
  EXPECT_EQ(list.at("tasks")[0].at("id"), 9);
  EXPECT_EQ(list.at("more"), true);
}

TEST_F(App, ListFiltersByAccountAndClass) {
  daemon_.On("GET /v1/tasks", [](const api::Request&) {
    return JsonAnswer({{"tasks", Json::array()}, {"next", nullptr}});
  });
  for (const char* option : {"--class", "--qos"}) {
    const Ran ran = Run({"list", "--all", "--json", "--account", "vision", option, "night"});
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    EXPECT_EQ(daemon_.requests().back(),
              "GET /v1/tasks?limit=500&order=desc&state=all&account=vision&qos=night");
  }
}

TEST_F(App, ListPagesUpToItsLimit) {
  daemon_.On("GET /v1/tasks", [](const api::Request& request) {
    Json tasks = Json::array();
    const bool first = !request.Query("before");
    for (int i = 0; i < (first ? 1000 : 5); ++i) tasks.push_back(TaskJson(1, "failed"));
    return JsonAnswer({{"tasks", tasks}, {"next", first ? Json(77) : Json(nullptr)}});
  });
  const Ran ran = Run({"list", "--all", "--limit", "20000", "--json"});
  EXPECT_EQ(base::ParseJson(ran.out).value()["tasks"].size(), 1005u);
  EXPECT_EQ(daemon_.requests()[1], "GET /v1/tasks?limit=1000&order=desc&state=all&before=77");
}

TEST_F(App, AGivenLimitCausesNoWarning) {
  daemon_.On("GET /v1/status", [](const api::Request&) { return JsonAnswer({{"now_ms", 5000}}); });
  daemon_.On("GET /v1/tasks", [](const api::Request&) {
    Json tasks = Json::array();
    for (std::uint64_t id = 1; id <= 500; ++id) tasks.push_back(TaskJson(id, "failed"));
    return JsonAnswer({{"tasks", tasks}, {"next", 501}});
  });
  EXPECT_EQ(Run({"list", "--all", "--limit", "4"}).err, "");
  EXPECT_THAT(Run({"list", "--all"}).err, ::testing::HasSubstr("tasks are shown (--limit"));
}

TEST_F(App, AWatchedListOutlastsARestart) {
  std::atomic<int> asked = 0;
  daemon_.On("GET /v1/tasks", [&](const api::Request&) {
    const int call = ++asked;
    if (call == 2 || call == 3)
      return api::ErrorResponse({ErrorCode::kUnavailable, "carmad is stopping"});
    if (call == 5) return api::ErrorResponse({ErrorCode::kDenied, "enough"});
    return JsonAnswer({{"tasks", {TaskJson(7, "running")}}, {"next", nullptr}});
  });
  const Ran ran = Run({"list", "--all", "--json", "-w", "--interval", "0.1"});
  EXPECT_EQ(std::ranges::count(ran.out, '\n'), 2) << ran.out;
  EXPECT_EQ(ran.err, "carma: warning: carmad is stopping; waiting for it\ncarma: enough\n");
}

TEST_F(App, TotalsOfAListCountTheMemoryThatTasksCanUse) {
  daemon_.On("GET /v1/status", [](const api::Request&) { return JsonAnswer({{"now_ms", 5000}}); });
  daemon_.On("GET /v1/gpus", [](const api::Request&) {
    api::GpuView gpu{.index = 0, .uuid = "GPU-a", .state = "mix"};
    gpu.total_mib = 40960;
    gpu.reserved_mib = 424;
    gpu.used_mib = 8192;
    return JsonAnswer({{"gpus", {ToJson(gpu)}}});
  });
  std::atomic<int> asked = 0;
  daemon_.On("GET /v1/tasks", [&](const api::Request&) {
    if (++asked == 2) return api::ErrorResponse({ErrorCode::kDenied, "enough"});
    return JsonAnswer({{"tasks", {TaskJson(7, "failed")}}, {"next", nullptr}});
  });
  EXPECT_THAT(Run({"list", "--all", "-w", "--interval", "0.1"}).out,
              ::testing::HasSubstr("0 running, 0 waiting   8.0G of 39.6G GPU memory used"));
}

TEST_F(App, LastTaskIsFoundByTheCallersName) {
  daemon_.On("GET /v1/tasks", [](const api::Request& request) {
    EXPECT_EQ(request.Query("user"), OwnUserName());
    return JsonAnswer(
        {{"tasks", {TaskJson(9, "failed"), TaskJson(5, "failed")}}, {"next", nullptr}});
  });
  daemon_.On("GET /v1/tasks/5",
             [](const api::Request&) { return JsonAnswer(TaskJson(5, "failed")); });
  const Ran ran = Run({"show", "--json", "@~1"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(base::ParseJson(ran.out).value()["id"], 5);
  EXPECT_EQ(daemon_.requests().at(0),
            "GET /v1/tasks?limit=2&order=desc&state=all&user=" + OwnUserName());
}

TEST_F(App, SeveralTasksAreOneJsonList) {
  daemon_.On("GET /v1/events", [](const api::Request&) {
    return JsonAnswer({{"events", Json::array()}});
  });
  for (const std::string id : {"1", "2"}) {
    daemon_.On("GET /v1/tasks/" + id + "/explain", [id](const api::Request&) {
      return JsonAnswer(
          ToJson(api::ExplainView{.task = {.id = std::stoull(id), .state = "queued"}}));
    });
    daemon_.On("POST /v1/tasks/" + id + "/redo", [](const api::Request&) {
      return JsonAnswer({{"first", 42}, {"count", 1}}, 201);
    });
  }
  for (const char* verb : {"explain", "redo", "history"}) {
    const auto two = base::ParseJson(Run({verb, "1,2", "--json"}).out);
    ASSERT_TRUE(two) << verb << two.error().message;
    EXPECT_EQ(two->is_array() ? two->size() : 0, 2U) << verb;
    const auto one = base::ParseJson(Run({verb, "1", "--json"}).out);
    ASSERT_TRUE(one) << verb;
    EXPECT_TRUE(one->is_object()) << verb;
    EXPECT_EQ(Run({verb, "1,2,9", "--json"}).exit_code, std::string(verb) == "history" ? 0 : 1);
  }
  EXPECT_EQ(Run({"show", "9", "--json"}).out, "");
}

TEST_F(App, HistoryWarnsThatOlderEventsAreOmitted) {
  daemon_.On("GET /v1/events", [](const api::Request& request) {
    Json events = Json::array();
    for (int i = 0; i < std::stoi(*request.Query("limit")); ++i)
      events.push_back(ToJson(api::EventView{.what = "submitted"}));
    return JsonAnswer({{"events", events}});
  });
  EXPECT_EQ(Run({"history"}).err,
            "carma: warning: only the last 100 events are shown; see --limit\n");
  EXPECT_EQ(Run({"history", "--limit", "200"}).err, "");
  EXPECT_EQ(Run({"history", "--json"}).err, "");
}

}  // namespace
}  // namespace carma::cli
