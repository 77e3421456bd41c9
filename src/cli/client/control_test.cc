// Tests the commands that change tasks (cancel, hold, release, edit and priority) by running them
// against a fake daemon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "api/task_view.h"
#include "api/views.h"
#include "base/json.h"
#include "cli/client/app_fixture.h"
#include "cli/client/verbs.h"

namespace carma::cli {
namespace {

using base::Json;

TEST_F(App, RedoAndEditSendOnlyTheChanges) {
  std::vector<std::string> bodies;
  const auto keep = [&bodies](const api::Request& request) {
    bodies.push_back(request.body);
    return JsonAnswer({{"first", 42}, {"count", 1}}, 201);
  };
  daemon_.On("POST /v1/tasks/7/redo", keep);
  EXPECT_EQ(Run({"redo", "7", "--gpu-mem", "20G", "-G", "2"}).out, "Submitted task 42\n");
  daemon_.On("PATCH /v1/tasks/7", [&bodies](const api::Request& request) {
    bodies.push_back(request.body);
    return JsonAnswer({{"id", 7}, {"state", "queued"}});
  });
  const Ran edited = Run({"edit", "7", "--time", "2h", "-J", "again", "--notify", "me:fail"});
  EXPECT_EQ(edited.out, "Task 7 is changed and queued\n") << edited.err;
  EXPECT_EQ(Run({"edit", "7", "--time", "unlimited"}).exit_code, 0);
  EXPECT_EQ(Run({"edit", "7", "--dependency", "none"}).exit_code, 0);
  ASSERT_EQ(bodies.size(), 4U);
  EXPECT_EQ(bodies[0], R"({"gpus":2,"memory_mib":20480})");
  EXPECT_EQ(bodies[1], R"({"name":"again","notify":[{"events":["fail"],"target":"me"}],)"
                       R"("time_limit_s":7200.0})");
  EXPECT_EQ(bodies[2], R"({"time_limit_s":null})");
  EXPECT_EQ(bodies[3], R"({"dependencies":null})");
  EXPECT_EQ(Run({"edit", "7"}).exit_code, 2);
  EXPECT_EQ(Run({"edit", "7", "--time", "soon"}).exit_code, 2);
  for (const char* verb : {"edit", "redo"})
    EXPECT_EQ(Run({verb, "@", "--time", "soon"}).exit_code, 2) << "checked before it asks for @";
}

TEST_F(App, EditWarnsOfOptionsWithoutMeaning) {
  std::int64_t gpus = 0;
  daemon_.On("PATCH /v1/tasks/7", [&gpus](const api::Request&) {
    return JsonAnswer({{"id", 7}, {"state", "queued"}, {"gpus", gpus}});
  });
  const std::vector<std::string> words{"edit", "7", "--gpu-mem", "3G", "-J", "x"};
  EXPECT_EQ(Run(words).err, "carma: warning: --gpu-mem has no effect: task 7 has --gpus 0\n");
  gpus = 1;
  EXPECT_EQ(Run(words).err, "");
  EXPECT_EQ(Run({"edit", "7", "--signal", "USR2@120"}).err, "") << "it may have a time limit";
}

TEST_F(App, RequeueNamesDependentTasksThatStayCancelled) {
  daemon_.On("POST /v1/tasks/7/requeue", [](const api::Request&) {
    return JsonAnswer({{"id", 7}, {"state", "queued"}});
  });
  const auto ended = [](std::uint64_t id, const std::string& after, const std::string& reason) {
    return ToJson(api::TaskView{
        .id = id, .state = "cancelled", .reason = reason, .dependencies = {"afterok:" + after}});
  };
  daemon_.On("GET /v1/tasks", [&](const api::Request&) {
    return JsonAnswer(
        {{"tasks",
          {ended(11, "8", "DependencyNeverMet"), ended(10, "7", "CancelledByUser"),
           ended(9, "70", "DependencyNeverMet"), ended(8, "7", "DependencyNeverMet")}},
         {"next", nullptr}});
  });
  EXPECT_EQ(
      Run({"requeue", "7"}).err,
      "carma: warning: dependent tasks stay cancelled; to restart them too, run: carma requeue 8 "
      "11\n");
}

TEST_F(App, OneTaskIsReportedLikeSeveral) {
  daemon_.On("POST /v1/tasks/7/cancel", [](const api::Request&) {
    return JsonAnswer({{"id", 7}, {"state", "cancelled"}, {"reason", "CancelledByUser"}});
  });
  EXPECT_EQ(Run({"cancel", "7"}).out, "Task 7 is cancelled (CancelledByUser)\n");
}

TEST_F(App, ChangesSeveralInOneRequestAndReportsRefusals) {
  daemon_.On("POST /v1/changes", [](const api::Request&) {
    return JsonAnswer(
        {{"tasks", {TaskJson(3, "stopping")}},
         {"refused", {{{"task", 2}, {"code", "denied"}, {"message", "task 2 is bob's"}}}}});
  });
  const Ran ran = Run({"cancel", "2,3"});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_EQ(ran.out, "Task 3 of u is stopping\n") << "administrators also see the owner";
  EXPECT_EQ(ran.err, "carma: task 2 is bob's\n");
  EXPECT_EQ(daemon_.requests().back(), R"(POST /v1/changes {"tasks":[2,3],"verb":"cancel"})");
  EXPECT_EQ(Run({"cancel"}).exit_code, 2);
  EXPECT_EQ(Run({"cancel", "--all", "3"}).exit_code, 2);
}

TEST_F(App, OneRequestChangesAThousandTasks) {
  std::vector<std::size_t> asked;
  daemon_.On("POST /v1/changes", [&](const api::Request& request) {
    asked.push_back(base::ParseJson(request.body)->at("tasks").size());
    return JsonAnswer({{"tasks", Json::array()}, {"refused", Json::array()}});
  });
  EXPECT_EQ(Run({"hold", "1-2001"}).exit_code, 0);
  EXPECT_EQ(asked, (std::vector<std::size_t>{1000, 1000, 1}));
}

TEST_F(App, ALongRangeDoesNotFloodTheTerminal) {
  daemon_.On("POST /v1/changes", [](const api::Request&) {
    Json tasks = Json::array(), refused = Json::array();
    for (std::uint64_t id = 1; id <= 30; ++id) {
      tasks.push_back(TaskJson(id, "cancelled"));
      refused.push_back({{"task", id + 30}, {"code", "not_found"}, {"message", "no task"}});
    }
    return JsonAnswer({{"tasks", tasks}, {"refused", refused}});
  });
  const Ran ran = Run({"cancel", "1-60"});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_EQ(std::ranges::count(ran.out, '\n'), 21);
  EXPECT_TRUE(ran.out.ends_with("... and 10 more\n")) << ran.out;
  EXPECT_EQ(std::ranges::count(ran.err, '\n'), 21);
  EXPECT_TRUE(ran.err.ends_with("10 more tasks were not changed\n")) << ran.err;
}

TEST_F(App, CancellingANamedTaskThatHasEndedFails) {
  daemon_.On("POST /v1/tasks/2/cancel", [](const api::Request&) {
    return api::ErrorResponse({ErrorCode::kConflict, "task 2 has already failed"});
  });
  const Ran ran = Run({"cancel", "2"});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_EQ(ran.err, "carma: task 2 has already failed\n");
}

TEST_F(App, CancelAllTakesMyOwnTasks) {
  daemon_.On("GET /v1/tasks", [](const api::Request& request) {
    EXPECT_EQ(request.Query("user"), OwnUserName());
    return JsonAnswer(
        {{"tasks", {TaskJson(3, "queued"), TaskJson(2, "running")}}, {"next", nullptr}});
  });
  daemon_.On("POST /v1/changes", [](const api::Request&) {
    return JsonAnswer(
        {{"tasks", {ToJson(api::TaskView{.id = 3, .user = OwnUserName(), .state = "cancelled"})}},
         {"refused", {{{"task", 2}, {"code", "conflict"}, {"message", "has ended"}}}}});
  });
  const Ran ran = Run({"cancel", "--all"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(ran.out, "Task 3 is cancelled\n");
}

TEST_F(App, AnEmptyNameDoesNotCancelEverything) {
  for (const char* option : {"--name", "--state", "--array", "--user"}) {
    const Ran ran = Run({"cancel", "--all", option, ""});
    EXPECT_EQ(ran.exit_code, 2);
    EXPECT_EQ(ran.err, "carma: " + std::string(option) + ": expected a value\n");
  }
  EXPECT_TRUE(daemon_.requests().empty());
}

TEST_F(App, HeldTasksAreReleasedInTheirOrder) {
  daemon_.On("GET /v1/tasks", [](const api::Request& request) {
    const bool newest_first = request.Query("order") == "desc";
    const Json two = TaskJson(2, "queued"), three = TaskJson(3, "queued");
    const Json tasks = newest_first ? Json{three, two} : Json{two, three};
    return JsonAnswer({{"tasks", tasks}, {"next", nullptr}});
  });
  Run({"release", "--name", "t"});
  EXPECT_EQ(daemon_.requests().back(), R"(POST /v1/changes {"tasks":[2,3],"verb":"release"})");
  Run({"cancel", "--name", "t"});
  EXPECT_EQ(daemon_.requests().back(), R"(POST /v1/changes {"tasks":[3,2],"verb":"cancel"})")
      << "newest first, so that no cancelled task makes room for another";
}

TEST_F(App, PriorityMayBeNegative) {
  daemon_.On("POST /v1/tasks/3/priority",
             [](const api::Request&) { return JsonAnswer(TaskJson(3, "queued")); });
  EXPECT_EQ(Run({"priority", "-10", "3"}).exit_code, 0);
  EXPECT_EQ(daemon_.requests().at(0), "POST /v1/tasks/3/priority {\"priority\":-10}");
}

TEST_F(App, AnArrayIsNamedByAnyOfItsTasks) {
  daemon_.On("GET /v1/tasks/43", [](const api::Request&) {
    return JsonAnswer(ToJson(api::TaskView{.id = 43, .state = "queued", .array_id = 40}));
  });
  daemon_.On("GET /v1/tasks/7", [](const api::Request&) {
    return JsonAnswer(ToJson(api::TaskView{.id = 7, .state = "queued"}));
  });
  daemon_.On("GET /v1/tasks", [](const api::Request&) {
    return JsonAnswer({{"tasks",
                        {ToJson(api::TaskView{.id = 43, .state = "queued", .array_id = 40}),
                         ToJson(api::TaskView{.id = 44, .state = "queued", .array_id = 44})}}});
  });
  Run({"cancel", "--array", "43"});
  EXPECT_THAT(daemon_.requests().back(), ::testing::HasSubstr("43"));
  EXPECT_THAT(daemon_.requests().back(), ::testing::Not(::testing::HasSubstr("44")));
  const Ran ran = Run({"cancel", "--array", "7"});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_EQ(ran.err, "carma: --array: task 7 is not part of an array\n");
}

TEST_F(App, AnArrayIsChangedWithoutAList) {
  for (const std::uint64_t id : {40, 41, 42}) {
    daemon_.On("GET /v1/tasks/" + std::to_string(id), [id](const api::Request&) {
      return JsonAnswer(ToJson(api::TaskView{
          .id = id, .user = OwnUserName(), .state = "queued", .array_id = id == 42 ? 42 : 40}));
    });
  }
  daemon_.On("POST /v1/changes", [](const api::Request&) {
    return JsonAnswer(
        {{"tasks", {TaskJson(41, "cancelled")}},
         {"refused", {{{"task", 40}, {"code", "conflict"}, {"message", "has ended"}}}}});
  });
  const Ran ran = Run({"cancel", "--array", "41"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err << "one of its tasks has ended";
  EXPECT_EQ(daemon_.requests().back(), R"(POST /v1/changes {"tasks":[41,40],"verb":"cancel"})");
  const auto is_list = [](const std::string& each) { return each.starts_with("GET /v1/tasks?"); };
  EXPECT_TRUE(std::ranges::none_of(daemon_.requests(), is_list));
  Run({"requeue", "--array", "41"});
  EXPECT_TRUE(is_list(daemon_.requests().back())) << "ended tasks must not start again";
}

TEST_F(App, AnArrayIsChangedIfItsFirstTasksWereDeleted) {
  base::Json tasks = base::Json::array();
  for (const std::uint64_t id : {42, 43}) {
    const api::TaskView view{.id = id, .user = OwnUserName(), .state = "queued", .array_id = 40};
    daemon_.On("GET /v1/tasks/" + std::to_string(id),
               [view](const api::Request&) { return JsonAnswer(ToJson(view)); });
    tasks.insert(tasks.begin(), ToJson(view));
  }
  daemon_.On("GET /v1/tasks", [&](const api::Request&) {
    return JsonAnswer({{"tasks", tasks}, {"more", false}});
  });
  daemon_.On("POST /v1/changes", [](const api::Request&) {
    return JsonAnswer({{"tasks", {TaskJson(43, "cancelled"), TaskJson(42, "cancelled")}},
                       {"refused", base::Json::array()}});
  });
  const Ran ran = Run({"cancel", "--array", "43"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(daemon_.requests().back(), R"(POST /v1/changes {"tasks":[43,42],"verb":"cancel"})");
}

TEST_F(App, WaitAndChangesUseTheWholeArrayOfTheLastTask) {
  daemon_.On("GET /v1/tasks", [](const api::Request&) {
    return JsonAnswer(
        {{"tasks", {ToJson(api::TaskView{.id = 42, .state = "queued", .array_id = 40})}}});
  });
  for (const std::uint64_t id : {40, 41, 42}) {
    daemon_.On("GET /v1/tasks/" + std::to_string(id), [id](const api::Request&) {
      return JsonAnswer(TaskJson(id, id == 41 ? "failed" : "succeeded"));
    });
    daemon_.On("POST /v1/tasks/" + std::to_string(id) + "/priority",
               [id](const api::Request&) { return JsonAnswer(TaskJson(id, "queued")); });
  }
  daemon_.On("POST /v1/changes", [](const api::Request&) {
    return JsonAnswer(
        {{"tasks", {TaskJson(42, "cancelled")}},
         {"refused", {{{"task", 40}, {"code", "conflict"}, {"message", "has ended"}}}}});
  });
  const Ran wait = Run({"wait"});
  EXPECT_EQ(wait.out, "Task 40 succeeded\nTask 41 failed\nTask 42 succeeded\n") << wait.err;
  EXPECT_EQ(wait.exit_code, 1);
  const Ran cancel = Run({"cancel", "@"});
  EXPECT_EQ(cancel.exit_code, 0) << cancel.err << "one of its tasks has ended";
  EXPECT_EQ(daemon_.requests().back(), R"(POST /v1/changes {"tasks":[42,41,40],"verb":"cancel"})");
  daemon_.On("POST /v1/changes", [](const api::Request&) {
    return JsonAnswer(
        {{"tasks", Json::array()},
         {"refused", {{{"task", 40}, {"code", "conflict"}, {"message", "has ended"}}}}});
  });
  EXPECT_EQ(Run({"cancel", "@"}).err,
            "carma: warning: cancel: nothing was changed; see carma show\n");
  const Ran priority = Run({"priority", "5", "@"});
  EXPECT_EQ(std::ranges::count(priority.out, '\n'), 3) << priority.out << priority.err;
  const Ran one = Run({"show", "--json", "@"});
  EXPECT_EQ(base::ParseJson(one.out).value()["id"], 42) << "only the last task";
}

}  // namespace
}  // namespace carma::cli
