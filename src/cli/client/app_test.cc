// Whole runs of the command against a fake daemon.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "api/explain_view.h"
#include "api/gpu_view.h"
#include "api/lease_view.h"
#include "api/listening.h"
#include "api/reservation_view.h"
#include "api/status_view.h"
#include "api/task_view.h"
#include "api/views.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "cli/client/verbs.h"
#include "cli/fake_daemon.h"

namespace carma::cli {
namespace {

using base::Json;

api::Response JsonAnswer(const Json& json, int status = 200) {
  return {.status = status, .body = base::DumpJson(json)};
}

Json TaskJson(std::uint64_t id, const std::string& state) {
  return ToJson(api::TaskView{.id = id, .name = "t", .user = "u", .state = state});
}

class App : public ::testing::Test {
 protected:
  Ran Run(std::vector<std::string> words) {
    return RunWords(daemon_.socket_path(), std::move(words));
  }
  // The daemon accepts every submission.
  void AcceptTasks() {
    daemon_.On("POST /v1/tasks", [this](const api::Request& request) {
      body_ = base::ParseJson(request.body).value();
      const std::size_t count =
          body_.contains("tasks") ? body_["tasks"].size() : body_["array"].size();
      return JsonAnswer({{"first", 42}, {"count", count}, {"warnings", {"mind the gap"}}}, 201);
    });
  }

  FakeDaemon daemon_;
  Json body_;  // of the last submission
};

TEST_F(App, SubmitSendsTheCommandUnchanged) {
  AcceptTasks();
  const Ran ran = Run({"submit", "--no-check", "-G2", "--memory=12G", "-HJ", "my name", "python",
                       "t.py", "--json", "-G", "7", "--", "x"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(ran.out, "Submitted task 42\n");
  EXPECT_EQ(ran.err, "carma: warning: mind the gap\n");
  const Json& spec = body_["tasks"][0];
  EXPECT_EQ(spec["command"], Json({"python", "t.py", "--json", "-G", "7", "--", "x"}));
  EXPECT_EQ(spec["gpus"], 2);
  EXPECT_EQ(spec["memory_mib"], 12'288);
  EXPECT_EQ(spec["held"], true);
  EXPECT_EQ(spec["name"], "my name");
  EXPECT_FALSE(spec.contains("uid")) << "the identity comes from the kernel";
}

TEST_F(App, MistakesSuggestTheNearestWord) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"submit", "--tiem", "2h", "true"}, "carma: unknown option --tiem, did you mean --time?"},
      {{"list", "--stat=all"}, "carma: unknown option --stat, did you mean --state?"},
      {{"drain"}, "carma: expected gpus, for example: carma drain 0,2 --reason"},
      {{"sbmit"}, "carma: no verb 'sbmit', did you mean submit?"},
      {{"kill", "7"}, "carma: no verb 'kill', did you mean carma cancel?"},
      {{"squeue"}, "carma: no verb 'squeue', did you mean carma list?"},
      {{"tail", "7"}, "carma: no verb 'tail', did you mean carma logs -f?"},
      {{"edit", "--bogus"}, "carma: unknown option --bogus"},
      {{"priority", "--bogus", "3"}, "carma: unknown option --bogus"},
      {{"drain", "--reson"}, "carma: unknown option --reson, did you mean --reason?"},
      {{"list", "-u"}, "carma: --user (-u): expected a value (NAME)"},
      {{"list", "--limit"}, "carma: --limit: expected a value (N)"},
      {{"list", "--name"}, "carma: --name: expected a value (NAME)"},
      {{"wait", "--timeout", "x"}, "carma: --timeout: 'x'"},
      {{"submit", "-J", "a\nb", "true"}, "carma: --job-name: expected 1 to 256 bytes"},
      {{"submit", "true", "a", "\xff"}, "carma: argument 2: expected UTF-8"},
      {{"edit", "7", "-J", "a\nb"}, "carma: --job-name: expected 1 to 256 bytes"},
  };
  for (const auto& [words, expected] : cases) {
    const Ran ran = Run(words);
    EXPECT_EQ(ran.exit_code, 2);
    EXPECT_EQ(ran.err.substr(0, std::string(expected).size()), expected);
  }
}

TEST_F(App, MistakesThatTheDaemonFindsNameTheOption) {
  const auto refuse = [](const api::Request&) {
    return api::ErrorResponse({ErrorCode::kInvalid, "qos: expected one of normal, got foo"});
  };
  daemon_.On("POST /v1/tasks", refuse);
  daemon_.On("PATCH /v1/tasks/7", refuse);
  const std::string expected = "carma: --qos: expected one of normal, got foo\n";
  EXPECT_EQ(Run({"submit", "--qos", "foo", "true"}).err, expected);
  EXPECT_EQ(Run({"submit", "--check", "--qos", "foo", "true"}).err, expected);
  EXPECT_EQ(Run({"edit", "7", "--qos", "foo"}).err, expected);
}

TEST_F(App, AloneItPrintsTheVerbsOfTheDay) {
  const Ran ran = RunWords("", {});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_NE(ran.err.find("carma submit train.sh"), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find("carma gpus"), std::string::npos);
}

TEST_F(App, ADependencyOnTheLastTaskMeansItsArray) {
  AcceptTasks();
  for (std::uint64_t id = 40; id < 46; ++id) {
    daemon_.On("GET /v1/tasks/" + std::to_string(id), [id](const api::Request&) {
      api::TaskView task{.id = id, .state = "queued"};
      task.array_id = id < 44 ? 40 : 44;
      task.array_index = static_cast<std::int64_t>(id < 44 ? 2 * (id - 40) : id - 44);
      return JsonAnswer(ToJson(task));
    });
  }
  daemon_.On("GET /v1/tasks", [](const api::Request&) {
    api::TaskView last{.id = 43, .state = "queued"};
    return JsonAnswer({{"tasks", {ToJson(last)}}});
  });
  const auto waits_for = [&](const std::string& dependency) {
    const Ran ran = Run({"submit", "--no-check", "-d", dependency, "true"});
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    std::vector<int> ids;
    for (const Json& each : body_["tasks"][0]["dependencies"]) ids.push_back(each["task"]);
    return ids;
  };
  EXPECT_EQ(waits_for("afterok:@"), (std::vector<int>{40, 41, 42, 43}));
  EXPECT_EQ(waits_for("afterok:40"), (std::vector<int>{40, 41, 42, 43})) << "as in Slurm";
  EXPECT_EQ(waits_for("afterok:41"), std::vector<int>{41}) << "one of them";
  EXPECT_EQ(waits_for("afterok:40_4"), std::vector<int>{42}) << "by its index";
  EXPECT_EQ(Run({"submit", "--no-check", "-d", "afterok:40_3", "true"}).exit_code, 1);
  const auto warning = [&](const std::string& dependency) {
    return Run({"submit", "--no-check", "-d", dependency, "true"}).err;
  };
  EXPECT_NE(warning("afternotok:40").find("needs every task of the array to fail"),
            std::string::npos);
  EXPECT_EQ((warning("afternotok:41") + warning("afterany:40")).find("every task"),
            std::string::npos);
}

TEST_F(App, SubmitTakesWordsThatLookLikeVerbsOrOptions) {
  AcceptTasks();
  EXPECT_EQ(Run({"submit", "--no-check", "list", "--all"}).out, "Submitted task 42\n");
  EXPECT_EQ(body_["tasks"][0]["command"], Json({"list", "--all"}));
  EXPECT_EQ(Run({"--socket", daemon_.socket_path(), "submit", "--no-check", "--", "--odd"}).out,
            "Submitted task 42\n");
  EXPECT_EQ(body_["tasks"][0]["command"], Json({"--odd"}));
}

TEST_F(App, LeaseRefusesUnsupportedOptions) {
  for (const std::vector<std::string>& option :
       {std::vector<std::string>{"--container", "ubuntu:22.04"},
        {"--conda-env", "x"},
        {"-D", "/"},
        {"--export", "NONE"},
        {"-o", "x.txt"},
        {"--retries", "2"},
        {"--progress", "none"}}) {
    std::vector<std::string> words{"lease", "-G", "0"};
    words.insert(words.end(), option.begin(), option.end());
    words.insert(words.end(), {"--", "true"});
    const Ran ran = Run(words);
    EXPECT_EQ(ran.exit_code, 2) << option[0];
    EXPECT_NE(ran.err.find(": a lease does not start its process"), std::string::npos) << ran.err;
  }
  const Ran missing = Run({"lease", "--", "/no/such/program"});
  EXPECT_EQ(missing.err.substr(0, 36), "carma: no lease: no program '/no/suc") << missing.err;
  const std::string help = Run({"lease", "--help"}).out;
  EXPECT_EQ(help.find("--container"), std::string::npos);
  EXPECT_NE(help.find("--gpu-mem"), std::string::npos);
}

TEST_F(App, ALeaseShowsTimesOfTheReadersClock) {
  daemon_.On("POST /v1/leases", [](const api::Request&) {
    return JsonAnswer(ToJson(api::LeaseView{.id = 7,
                                            .state = "ended",
                                            .reason = "BeginTime",
                                            .reason_text = "Not before 2026-03-01T13:05:59.120Z."}),
                      201);
  });
  const Ran ran = Run({"lease", "--", "true"});
  EXPECT_NE(ran.err.find("Not before 2026-03-01 "), std::string::npos) << ran.err;
}

TEST_F(App, ALeaseNeedsNoFolderForItsOutput) {
  daemon_.On("POST /v1/leases", [this](const api::Request& request) {
    body_ = base::ParseJson(request.body).value();
    return JsonAnswer({{"error", {{"message", "no"}}}}, 409);
  });
  EXPECT_EQ(Run({"lease", "--", "true"}).exit_code, 1);
  EXPECT_EQ(body_["spec"]["stdout_path"], "/dev/null");
}

TEST_F(App, SubmitArraysInOneRequest) {
  AcceptTasks();
  const Ran ran = Run({"submit", "--array", "0-9", "--parsable", "true"});
  EXPECT_EQ(ran.out, "42-51\n");
  EXPECT_EQ(body_["array"].size(), 10u);
  EXPECT_EQ(body_["spec"]["command"], Json({"true"}));
}

TEST_F(App, SubmitAndWaitGivesTheTasksExitCode) {
  AcceptTasks();
  daemon_.On("GET /v1/tasks/42", [](const api::Request&) {
    Json task = TaskJson(42, "failed");
    task["exit_code"] = 7;
    return JsonAnswer(task);
  });
  const Ran ran = Run({"submit", "--wait", "false"});
  EXPECT_EQ(ran.exit_code, 7);
  EXPECT_EQ(ran.out, "Submitted task 42\n");
}

TEST_F(App, ChecksWithAndWithoutTheDaemon) {
  daemon_.On("POST /v1/tasks", [](const api::Request& request) {
    EXPECT_EQ(request.Query("check"), "1");
    return JsonAnswer({{"count", 1},
                       {"tasks",
                        {{{"name", "true"},
                          {"gpus", 1},
                          {"predicted_mib", 1024},
                          {"estimate_method", "given"},
                          {"fits", "later"},
                          {"reason", "GpuMemory"},
                          {"reason_text", "all is claimed"}}}}});
  });
  const Ran ran = Run({"submit", "--check", "--memory", "1G", "true"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(ran.out,
            "Nothing was submitted; the task is valid:\n"
            "  true: 1 GPU, 1.0G predicted (given): would wait (GpuMemory): all is claimed\n");
  daemon_.On("POST /v1/tasks", [](const api::Request&) {
    return api::ErrorResponse({ErrorCode::kConflict, "never fits"});
  });
  EXPECT_EQ(Run({"submit", "--check", "true"}).exit_code, 1);
  const Ran alone = RunWords(daemon_.dir() + "/none", {"submit", "--check", "true"});
  EXPECT_EQ(alone.exit_code, 0);
  EXPECT_EQ(alone.out, "Nothing was submitted; the description is valid.\n");
  EXPECT_NE(alone.err.find("checked without it"), std::string::npos);
  EXPECT_EQ(RunWords(daemon_.dir() + "/none", {"submit", "--check", "-G", "-1", "true"}).exit_code,
            2);
}

TEST_F(App, BatchesAreOneRequestAndNameTheLineOfAMistake) {
  AcceptTasks();
  const std::string path = daemon_.dir() + "/batch.jsonl";
  std::ofstream(path)
      << "{\"command\":[\"a\"],\"gpus\":2}\n\n{\"command\":[\"b\"],\"workdir\":\"/\","
         "\"environment\":{}}\n";
  const Ran ran = Run({"submit", "--batch", path});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(ran.out, "Submitted tasks 42-43 (2)\n");
  ASSERT_EQ(body_["tasks"].size(), 2u);
  EXPECT_EQ(body_["common"]["workdir"], std::filesystem::current_path().string());
  EXPECT_FALSE(body_["common"]["environment"].empty());
  EXPECT_FALSE(body_["tasks"][0].contains("environment"));
  EXPECT_EQ(body_["tasks"][1]["workdir"], "/");
  EXPECT_TRUE(body_["tasks"][1]["environment"].empty());

  std::ofstream(path) << "{\"command\":[\"a\"]}\n\n{\"command\":[\"b\"],\"gpus\":-1}\n";
  const Ran local = Run({"submit", "--batch", path});
  EXPECT_EQ(local.exit_code, 2);
  EXPECT_TRUE(local.err.starts_with("carma: " + path + ":3: ")) << local.err;

  daemon_.On("POST /v1/tasks", [](const api::Request&) {
    return api::ErrorResponse({ErrorCode::kConflict, "/tasks/1: never fits"});
  });
  std::ofstream(path) << "{\"command\":[\"a\"]}\n\n\n{\"command\":[\"b\"]}\n";
  const Ran remote = Run({"submit", "--batch", path});
  EXPECT_EQ(remote.exit_code, 1);
  EXPECT_EQ(remote.err, "carma: " + path + ":4: /tasks/1: never fits\n");
}

TEST_F(App, BatchLinesAreCommandsWithCommonOptions) {
  AcceptTasks();
  const std::string path = daemon_.dir() + "/commands";
  std::ofstream(path) << "# two trainings\npython a.py > a.log\npython b.py\n";
  const Ran ran = Run({"submit", "--batch", path, "--lines", "-G", "2", "--parsable"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(ran.out, "42-43\n");
  EXPECT_EQ(body_["tasks"][1]["gpus"], 2);
  EXPECT_FALSE(body_["tasks"][1].contains("environment"));
  Run({"submit", "--batch", path, "--lines", "--export", "ONLY=this"});
  EXPECT_EQ(body_["tasks"][0]["environment"]["ONLY"], "this");
  EXPECT_EQ(Run({"submit", "--batch", path, "-G", "2"}).exit_code, 2);
  EXPECT_EQ(Run({"submit", "--batch", path, "--lines", "true"}).exit_code, 2);
}

// A daemon that ends after it has read the first submission, and its successor.
TEST(AppWithoutAnswer, ASubmissionWhoseAnswerIsCutIsRepeatedUnderItsName) {
  std::string dir = ::testing::TempDir() + "/carma-cut-XXXXXX";
  ASSERT_NE(::mkdtemp(dir.data()), nullptr);
  const std::string path = dir + "/s";
  const base::UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto address = api::UnixAddress(path);
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address),
            0);
  ASSERT_EQ(::listen(listener.get(), 5), 0);
  std::vector<std::string> bodies;
  std::thread daemon([&] {
    for (const bool answers : {false, true}) {
      const base::UniqueFd fd(::accept(listener.get(), nullptr, nullptr));
      std::string text;
      char buffer[65'536];
      while (text.find("}]}") == std::string::npos) {
        const ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
        if (n <= 0) return;
        text.append(buffer, static_cast<std::size_t>(n));
      }
      bodies.push_back(text.substr(text.find("\r\n\r\n") + 4));
      const std::string body = "{\"first\":42,\"count\":1}";
      if (answers) {
        (void)base::WriteAll(fd.get(), fmt::format("HTTP/1.1 201 Created\r\nContent-Length: {}"
                                                   "\r\nConnection: close\r\n\r\n{}",
                                                   body.size(), body));
      }
    }
  });
  const Ran ran = RunWords(path, {"submit", "--parsable", "--export", "NONE", "true"});
  daemon.join();
  EXPECT_EQ(ran.out, "42\n") << ran.err;
  ASSERT_EQ(bodies.size(), 2U);
  EXPECT_EQ(bodies[0], bodies[1]);
  EXPECT_EQ(base::ParseJson(bodies[0])->at("request").get<std::string>().size(), 32U);
  std::filesystem::remove_all(dir);
}

TEST_F(App, RedoIsLeftToTheDaemon) {
  daemon_.On("POST /v1/tasks/7/redo", [](const api::Request& request) {
    EXPECT_EQ(request.body, "");
    return JsonAnswer({{"first", 42}, {"count", 1}}, 201);
  });
  EXPECT_EQ(Run({"redo", "7"}).out, "Submitted task 42\n");
  EXPECT_EQ(daemon_.requests(), std::vector<std::string>{"POST /v1/tasks/7/redo"});
}

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
  ASSERT_EQ(bodies.size(), 3U);
  EXPECT_EQ(bodies[0], R"({"gpus":2,"memory_mib":20480})");
  EXPECT_EQ(bodies[1], R"({"name":"again","notify":[{"events":["fail"],"target":"me"}],)"
                       R"("time_limit_s":7200.0})");
  EXPECT_EQ(bodies[2], R"({"time_limit_s":null})");
  EXPECT_EQ(Run({"edit", "7"}).exit_code, 2);
  EXPECT_EQ(Run({"edit", "7", "--time", "soon"}).exit_code, 2);
}

TEST_F(App, EditWarnsOfOptionsWithoutMeaning) {
  std::int64_t gpus = 0;
  daemon_.On("PATCH /v1/tasks/7", [&gpus](const api::Request&) {
    return JsonAnswer({{"id", 7}, {"state", "queued"}, {"gpus", gpus}});
  });
  const std::vector<std::string> words{"edit", "7", "--gpu-mem", "3G", "-J", "x"};
  EXPECT_EQ(Run(words).err, "carma: warning: --gpu-mem has no meaning: task 7 has --gpus 0\n");
  gpus = 1;
  EXPECT_EQ(Run(words).err, "");
}

TEST_F(App, OneTaskIsReportedLikeSeveral) {
  daemon_.On("POST /v1/tasks/7/cancel", [](const api::Request&) {
    return JsonAnswer({{"id", 7}, {"state", "cancelled"}, {"reason", "CancelledByUser"}});
  });
  EXPECT_EQ(Run({"cancel", "7"}).out, "Task 7 is cancelled (CancelledByUser)\n");
}

TEST_F(App, ListShowsRunningTasksFirstAndFiltersAtTheDaemon) {
  daemon_.On("GET /v1/status", [](const api::Request&) { return JsonAnswer({{"now_ms", 5000}}); });
  daemon_.On("GET /v1/tasks", [](const api::Request& request) {
    const bool waiting = request.Query("state") == "submitted,estimating,queued";
    return JsonAnswer(
        {{"tasks", {waiting ? TaskJson(1, "queued") : TaskJson(9, "running")}}, {"next", nullptr}});
  });
  const Ran ran = Run({"list", "-u", "ann b", "-o", "id,st", "--no-header"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(ran.out, "9  R\n1  PD\n");
  EXPECT_EQ(daemon_.requests()[0],
            "GET /v1/tasks?limit=500&order=asc&state=launching,running,stopping&user=ann b");
  const Ran json = Run({"ls", "--json"});
  EXPECT_EQ(base::ParseJson(json.out).value()["tasks"].size(), 2u);
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

TEST_F(App, ALimitThatWasGivenIsNoWarning) {
  daemon_.On("GET /v1/status", [](const api::Request&) { return JsonAnswer({{"now_ms", 5000}}); });
  daemon_.On("GET /v1/tasks", [](const api::Request&) {
    Json tasks = Json::array();
    for (std::uint64_t id = 1; id <= 500; ++id) tasks.push_back(TaskJson(id, "failed"));
    return JsonAnswer({{"tasks", tasks}, {"next", 501}});
  });
  EXPECT_EQ(Run({"list", "--all", "--limit", "4"}).err, "");
  EXPECT_THAT(Run({"list", "--all"}).err, ::testing::HasSubstr("tasks are shown (all: --limit"));
}

TEST_F(App, ChangesSeveralInOneRequestAndReportsRefusals) {
  daemon_.On("POST /v1/changes", [](const api::Request&) {
    return JsonAnswer(
        {{"tasks", {TaskJson(3, "stopping")}},
         {"refused", {{{"task", 2}, {"code", "denied"}, {"message", "task 2 is bob's"}}}}});
  });
  const Ran ran = Run({"cancel", "2,3"});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_EQ(ran.out, "Task 3 of u is stopping\n") << "an administrator sees the owner";
  EXPECT_EQ(ran.err, "carma: task 2 is bob's\n");
  EXPECT_EQ(daemon_.requests().back(), R"(POST /v1/changes {"tasks":[2,3],"verb":"cancel"})");
  EXPECT_EQ(Run({"cancel"}).exit_code, 2);
  EXPECT_EQ(Run({"cancel", "--all", "3"}).exit_code, 2);
}

TEST_F(App, AThousandAreChangedInARequest) {
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

TEST_F(App, WaitGivesTheHighestExitCodeAndOutlastsPolls) {
  std::atomic<int> polls = 0;
  daemon_.On("GET /v1/tasks/1", [&](const api::Request&) {
    return JsonAnswer(TaskJson(1, ++polls < 3 ? "running" : "succeeded"));
  });
  daemon_.On("GET /v1/tasks/2", [](const api::Request&) {
    Json task = TaskJson(2, "failed");
    task["signal"] = 9;
    return JsonAnswer(task);
  });
  const Ran ran = Run({"wait", "1,2"});
  EXPECT_EQ(ran.exit_code, 137);
  EXPECT_EQ(ran.out, "Task 1 succeeded\nTask 2 failed, ended by signal 9 (Killed)\n");
  EXPECT_EQ(polls, 3);
}

TEST_F(App, WaitOutlastsARestartDuringItsFirstLongPoll) {
  std::atomic<int> long_polls = 0;
  daemon_.On("GET /v1/tasks/1", [&](const api::Request& request) {
    if (request.Query("wait_s") == "0") return JsonAnswer(TaskJson(1, "running"));
    if (++long_polls == 1)
      return api::ErrorResponse({ErrorCode::kUnavailable, "carmad is stopping"});
    return JsonAnswer(TaskJson(1, "succeeded"));
  });
  const Ran ran = Run({"wait", "1"});
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_EQ(ran.out, "Task 1 succeeded\n");
  EXPECT_EQ(ran.err, "carma: warning: carmad is stopping; waiting for it\n");
}

TEST_F(App, WaitEndsAtItsTimeout) {
  daemon_.On("GET /v1/tasks/1",
             [](const api::Request&) { return JsonAnswer(TaskJson(1, "running")); });
  const Ran ran = Run({"wait", "--timeout", "0s", "1"});
  EXPECT_EQ(ran.exit_code, kExitTimeout);
  EXPECT_EQ(ran.out, "");
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

TEST_F(App, LogsFollowThroughRotationUntilTheEnd) {
  const std::string path = daemon_.dir() + "/task.out";
  const auto append = [path](const std::string& text) {
    std::ofstream(path, std::ios::app) << text;
  };
  append("0\na\n");
  std::atomic<int> polls = 0;
  daemon_.On("GET /v1/tasks/1", [&](const api::Request& request) {
    Json task = TaskJson(1, "running");
    task["stdout_path"] = path;
    task["attempt"] = 1;
    if (request.Query("wait_s") && ++polls == 1) {
      append("b\n");
      std::filesystem::rename(path, path + ".1");
      append("c\n");
    } else if (polls == 2) {
      append("d\n");
      task["state"] = "succeeded";
    }
    return JsonAnswer(task);
  });
  const Ran ran = Run({"logs", "-f", "-n", "1", "1"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(ran.out, "a\nb\nc\nd\n");
}

TEST_F(App, LogsShowThePathOfTheFile) {
  daemon_.On("GET /v1/tasks/1", [this](const api::Request&) {
    Json task = TaskJson(1, "succeeded");
    task["stdout_path"] = daemon_.dir();  // not a file
    task["attempt"] = 1;
    return JsonAnswer(task);
  });
  const Ran ran = Run({"logs", "1"});
  EXPECT_NE(ran.exit_code, 0);
  EXPECT_NE(ran.err.find(daemon_.dir()), std::string::npos) << ran.err;
}

TEST_F(App, LogsOfATaskThatNeverStartedPromiseNoOutput) {
  std::atomic<int> asked = 0;
  daemon_.On("GET /v1/tasks/1", [this, &asked](const api::Request&) {
    Json task = TaskJson(1, ++asked < 3 ? "queued" : "cancelled");
    task["stdout_path"] = daemon_.dir() + "/none.out";
    return JsonAnswer(task);
  });
  daemon_.On("GET /v1/tasks/2", [this](const api::Request&) {
    Json task = TaskJson(2, "failed");
    task["stdout_path"] = daemon_.dir() + "/none.out";
    task["attempt"] = 1;
    task["reason"] = "LaunchFailed";
    task["reason_text"] = "Could not be started: cannot enter the working directory.";
    return JsonAnswer(task);
  });
  const Ran followed = Run({"logs", "-f", "1"});
  EXPECT_EQ(followed.exit_code, 1);
  const std::string ended =
      "carma: task 1 has ended before it started (cancelled), so it has no output\n";
  EXPECT_EQ(followed.err, "carma: task 1 is queued; waiting for its output\n" + ended);
  EXPECT_EQ(Run({"logs", "1"}).err, ended);
  EXPECT_EQ(Run({"logs", "2"}).err,
            "carma: task 2 has no output: Could not be started: cannot enter the working "
            "directory\n");
}

TEST_F(App, LogsWarnAboutLostOutput) {
  const std::string path = daemon_.dir() + "/out";
  std::ofstream(path) << "half\n";
  daemon_.On("GET /v1/tasks/1", [path](const api::Request&) {
    Json task = TaskJson(1, "succeeded");
    task["stdout_path"] = path;
    task["attempt"] = 1;
    task["exit_detail"] = "0.7M of its output could not be written: No space left on device";
    return JsonAnswer(task);
  });
  const Ran ran = Run({"logs", "1"});
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_EQ(ran.out, "half\n");
  EXPECT_EQ(ran.err,
            "carma: warning: task 1: 0.7M of its output could not be written: No space left on "
            "device\n");
}

TEST_F(App, SeveralOutputsHaveHeadings) {
  for (const std::string id : {"1", "2"}) {
    const std::string path = daemon_.dir() + "/" + id;
    std::ofstream(path) << "out" << id;
    daemon_.On("GET /v1/tasks/" + id, [id, path](const api::Request&) {
      Json task = TaskJson(std::stoull(id), "succeeded");
      task["stdout_path"] = path;
      task["attempt"] = 1;
      return JsonAnswer(task);
    });
  }
  EXPECT_EQ(Run({"logs", "1-2"}).out, "==> task 1 t <==\nout1\n==> task 2 t <==\nout2");
  EXPECT_EQ(Run({"logs", "2"}).out, "out2");
  const auto list = base::ParseJson(Run({"logs", "1-2", "--json"}).out);
  ASSERT_TRUE(list);
  EXPECT_EQ(list->at(1).at("stdout_path"), daemon_.dir() + "/2");
  EXPECT_TRUE(base::ParseJson(Run({"logs", "1", "--json"}).out)->is_object());
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

TEST_F(App, LogsExplainTheMissingOutputOfATerminal) {
  std::string origin;
  daemon_.On("GET /v1/tasks/1", [&](const api::Request&) {
    Json task = TaskJson(1, "succeeded");
    task["stdout_path"] = "/dev/null";
    task["origin"] = origin;
    return JsonAnswer(task);
  });
  EXPECT_NE(Run({"logs", "1"}).err.find("terminal of carma run"), std::string::npos);
  origin = "lease";
  EXPECT_NE(Run({"logs", "1"}).err.find("task 1 is a lease"), std::string::npos);
}

// A server with two GPUs whose clock shows the end of the first day.
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
    const char* request;  // the last one
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
                                                {"gpus", "--history", "--points", "0"},
                                                {"gpus", "--history", "0s"}}) {
    EXPECT_EQ(Run(words).exit_code, 2);
  }
}

TEST_F(App, DrainsSeveralGpusWithAReason) {
  for (const char* gpu : {"0", "2"}) {
    daemon_.On("POST /v1/gpus/" + std::string(gpu) + "/drain", [gpu](const api::Request&) {
      return JsonAnswer(ToJson(api::GpuView{.index = *gpu - '0', .state = "drng"}));
    });
  }
  const Ran ran = Run({"drain", "0,2", "--reason", "new \"fan\""});
  EXPECT_EQ(ran.out,
            "GPU 0 takes no new tasks; running tasks continue\n"
            "GPU 2 takes no new tasks; running tasks continue\n");
  EXPECT_EQ(daemon_.requests().at(1), R"(POST /v1/gpus/2/drain {"reason":"new \"fan\""})");
  daemon_.On("GET /v1/status", [](const api::Request&) { return JsonAnswer({{"now_ms", 5000}}); });
  Run({"drain", "0", "--by", "+10s"});
  EXPECT_EQ(daemon_.requests().back(), R"(POST /v1/gpus/0/drain {"by_ms":15000,"reason":""})")
      << "by the daemon's clock";
  Run({"drain", "0", "--by", "2026-03-01T14:05Z"});
  EXPECT_EQ(daemon_.requests().back(),
            R"(POST /v1/gpus/0/drain {"by_ms":1772373900000,"reason":""})");
  EXPECT_EQ(Run({"drain", "0", "--by", "soon"}).exit_code, 2);
  daemon_.On("GET /v1/status", [](const api::Request&) {
    return JsonAnswer({{"now_ms", 1'772'460'300'000}});
  });
  const Ran late = Run({"drain", "0", "--by", "2026-03-01T14:05Z"});
  EXPECT_EQ(late.exit_code, 2);
  EXPECT_THAT(late.err, ::testing::HasSubstr("has passed; --by now ends the tasks at once"));
  EXPECT_THAT(daemon_.requests().back(), ::testing::StartsWith("GET /v1/status"));
  Run({"drain", "0", "--by", "now"});
  EXPECT_EQ(daemon_.requests().back(),
            R"(POST /v1/gpus/0/drain {"by_ms":1772460300000,"reason":""})");
}

TEST_F(App, ADrainNamesTheDeadlineThatItKeeps) {
  daemon_.On("POST /v1/gpus/0/drain", [](const api::Request&) {
    return JsonAnswer(
        ToJson(api::GpuView{.index = 0, .state = "drng", .leave_by_ms = 1'800'000'000'000}));
  });
  EXPECT_EQ(Run({"drain", "0"}).out, "GPU 0 takes no new tasks; running tasks leave by " +
                                         base::FormatTime(base::FromMs(1'800'000'000'000)) + "\n");
}

TEST_F(App, ResumingAGpuOfAClosedServerIsAFailure) {
  daemon_.On("POST /v1/gpus/0/resume", [](const api::Request&) {
    return JsonAnswer(ToJson(api::GpuView{.index = 0, .state = "drain"}));
  });
  daemon_.On("GET /v1/status", [](const api::Request&) {
    return JsonAnswer(ToJson(api::StatusView{.closed = "closed by root until the machine boots"}));
  });
  const Ran ran = Run({"resume", "0"});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_EQ(ran.out, "GPU 0 is open, but takes no new tasks yet\n");
  EXPECT_EQ(ran.err,
            "carma: server: closed by root until the machine boots; carma resume all opens it\n");
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

TEST_F(App, MyLastTaskIsItsWholeArrayToWaitForItAndToChangeIt) {
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

TEST_F(App, AMistypedVerbIsGuessedAndHelpIsAVerb) {
  EXPECT_THAT(Run({"lst"}).err, ::testing::HasSubstr("no verb 'lst', did you mean list?"));
  EXPECT_THAT(Run({"frobnicate"}).err, ::testing::HasSubstr("(see carma --help)"));
  EXPECT_THAT(Run({"help"}).out, ::testing::HasSubstr("submit"));
  EXPECT_EQ(Run({"help", "gpus"}).out, Run({"gpus", "--help"}).out);
}

TEST_F(App, MistakesOfTheCallerAreOneLineAndExitCodeTwo) {
  const std::vector<std::vector<std::string>> cases = {
      {"frobnicate"},
      {"list", "surplus"},
      {"list", "--limit", "0"},
      {"list", "-o", "colour"},
      {"show", "x"},
      {"submit"},
      {"submit", "--gpus"},
      {"submit", "--no-such-option", "true"},
      {"submit", "-G", "x", "true"},
      {"logs", "-f", "1-2"},
      {"wait", "--timeout", "soon", "1"},
      {"completion", "csh"},
      {"priority", "high", "3"},
      {"--no-such-flag", "list"},
  };
  for (const auto& words : cases) {
    const Ran ran = Run(words);
    const std::string& what = words[0];
    EXPECT_EQ(ran.exit_code, 2) << what << ": " << ran.err;
    EXPECT_EQ(ran.out, "") << what;
    EXPECT_TRUE(ran.err.starts_with("carma: ") && ran.err.find('\n') == ran.err.size() - 1)
        << what << ": " << ran.err;
  }
}

TEST_F(App, TheEndOfAReservationCountsFromItsStart) {
  daemon_.On("GET /v1/status", [](const api::Request&) { return JsonAnswer({{"now_ms", 5000}}); });
  daemon_.On("POST /v1/reservations", [this](const api::Request& request) {
    body_ = base::ParseJson(request.body).value();
    return JsonAnswer(ToJson(api::ReservationView{.id = 1}), 201);
  });
  const auto reserve = [this](const std::string& from, const std::string& to) {
    return Run({"reserve", "--for", "nobody", "--count", "1", "--from", from, "--to", to});
  };
  EXPECT_EQ(reserve("+1h", "+3h").exit_code, 0);
  EXPECT_EQ(body_["from_ms"], 3'605'000);
  EXPECT_EQ(body_["length_s"], 10'800);
  EXPECT_EQ(reserve("+1h", "now+3h").exit_code, 0);
  EXPECT_EQ(body_["length_s"], 7'200) << "now is not the start";
  for (const char* to : {"now+1h", "now+30m", "1970-01-01T00:00Z"}) {
    const Ran ran = reserve("+2h", to);
    EXPECT_EQ(ran.exit_code, 2) << to;
    EXPECT_THAT(ran.err, ::testing::HasSubstr("--to: expected a time after --from (")) << to;
  }
  EXPECT_THAT(Run({"reserve", "--help"}).out, ::testing::HasSubstr("counted from the start: +2h"));
}

TEST_F(App, AWordThatIsNoNumberIsShownBesideAnExample) {
  EXPECT_THAT(Run({"reserve", "list", "--nope"}).err,
              ::testing::HasSubstr("(see carma reserve list --help)"));
  EXPECT_THAT(
      Run({"priority", "@", "5"}).err,
      ::testing::HasSubstr("priority: expected a number, not '@', for example: carma priority"));
}

TEST_F(App, AFileThatIsNotThereWasNamedWrongly) {
  const std::string none = daemon_.dir() + "/none";
  const std::vector<std::vector<std::string>> cases = {
      {"submit", none + ".rad"}, {"submit", "--batch", none},           {"estimate", none},
      {"report", none},          {"config", "check", "--config", none},
  };
  for (const auto& words : cases) {
    const Ran ran = Run(words);
    EXPECT_EQ(ran.exit_code, 2) << words[0] << " " << words[1] << ": " << ran.err;
    EXPECT_NE(ran.err.find("No such file"), std::string::npos) << ran.err;
  }
}

TEST_F(App, VerbsOfTheLaboratoryNeedItsProgram) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"simulate"}, {"trace", "info", "x"}, {"estimate", "evaluate"}}) {
    const Ran ran = Run(words);
    EXPECT_EQ(ran.exit_code, 1) << words[0];
    EXPECT_NE(ran.err.find("needs carma-lab, which is not installed"), std::string::npos)
        << ran.err;
  }
  EXPECT_NE(Run({"--help"}).out.find("simulate"), std::string::npos);
  EXPECT_NE(Run({"estimate", "--help"}).out.find("evaluate"), std::string::npos);
}

TEST_F(App, EveryVerbReportsAMissingDaemon) {
  for (const char* verb :
       {"list", "show", "gpus", "status", "history", "wait", "explain", "logs"}) {
    const Ran ran = RunWords(daemon_.dir() + "/none", {verb});
    EXPECT_EQ(ran.exit_code, 1) << verb;
    EXPECT_NE(ran.err.find("carmad is not running at " + daemon_.dir() + "/none"),
              std::string::npos)
        << verb << ": " << ran.err;
  }
}

TEST_F(App, EveryVerbHasHelpWithAnExample) {
  const Ran all = Run({"--help"});
  EXPECT_EQ(all.exit_code, 0);
  for (const char* verb :
       {"submit", "list",   "show", "cancel",  "hold",       "release", "requeue",
        "wait",   "logs",   "gpus", "explain", "drain",      "resume",  "history",
        "status", "backup", "redo", "token",   "completion", "version", "edit"}) {
    EXPECT_NE(all.out.find(std::string("\n  ") + verb), std::string::npos) << verb;
    const Ran help = Run({verb, "--help"});
    EXPECT_EQ(help.exit_code, 0) << verb;
    EXPECT_NE(help.out.find("  carma " + std::string(verb)), std::string::npos) << verb;
  }
  EXPECT_EQ(Run({"version"}).out, "carma 1.2.3 (of today)\n");
  EXPECT_EQ(Run({"--version"}).out, "carma 1.2.3 (of today)\n");
}

TEST_F(App, ATokenIsPrintedAloneAndListedWithoutItsSecret) {
  std::string asked;
  daemon_.On("POST /v1/tokens", [&](const api::Request& request) {
    asked = request.body;
    return api::Response{.status = 201, .body = R"({"id":3,"uid":7,"name":"x","created_ms":1000,
                                     "expires_ms":2000,"token":"carma_abc"})"};
  });
  const Ran made = Run({"token", "create", "laptop", "--expires", "7d"});
  EXPECT_EQ(made.exit_code, 0) << made.err;
  EXPECT_EQ(made.out, "carma_abc\n");
  EXPECT_EQ(asked, R"({"expires_s":604800,"name":"laptop"})");
  EXPECT_TRUE(made.err.starts_with("carma: token 3, valid until ")) << made.err;
  EXPECT_TRUE(made.err.ends_with("it is not shown again\n")) << made.err;
  EXPECT_EQ(Run({"token", "create", "--expires", "soon"}).exit_code, 2);

  daemon_.On("GET /v1/tokens", [](const api::Request&) {
    return api::Response{.body = R"({"tokens":[{"id":3,"uid":7,"user":"ada","name":"laptop"},
                                               {"id":4,"uid":8,"name":"old"}]})"};
  });
  const Ran list = Run({"token", "list", "--all"});
  EXPECT_THAT(list.out, ::testing::ContainsRegex("3 +ada +laptop")) << list.err;
  EXPECT_THAT(list.out, ::testing::ContainsRegex("4 +8 +old")) << "made without the name";

  daemon_.On("POST /v1/tokens/3/revoke",
             [](const api::Request&) { return api::Response{.body = "{}"}; });
  EXPECT_EQ(Run({"token", "revoke", "3"}).out, "Token 3 is revoked\n");
  EXPECT_EQ(Run({"token", "revoke", "4"}).exit_code, 1);
}

TEST_F(App, CompletesEveryOptionOfSubmit) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const Ran ran = Run({"completion", shell});
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    for (const char* word : {"submit", "memory", "dependency", "watch", "drain"})
      EXPECT_NE(ran.out.find(word), std::string::npos) << shell << " " << word;
  }
}

TEST_F(App, ConfigShowsTheKeysThatAreNamed) {
  const std::string path = daemon_.dir() + "/c.toml";
  std::ofstream(path) << "[policy]\nmapper = \"lug\"\n";
  EXPECT_EQ(Run({"config", "show", "--config", path, "policy.mapper"}).out,
            "[policy]\nmapper = \"lug\"\n");
  const Ran section = Run({"config", "show", "--config", path, "idle"});
  EXPECT_TRUE(section.out.starts_with("[idle]\n")) << section.out;
  EXPECT_EQ(section.out.find("mapper"), std::string::npos);
  const Ran none = Run({"config", "show", "--config", path, "policy.map"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_TRUE(none.err.starts_with("carma: 'policy.map': expected a key")) << none.err;
}

TEST_F(App, EstimateReadsASummaryFromAPipe) {
  const std::string path = daemon_.dir() + "/net.json";
  std::ofstream(path) << R"({"model":"net","input":[64],"output":[-1,64],"params":4160,)"
                         R"("layers":[["Linear",[-1,64],[-1,64],4160,0,4160,0,"fc"]]})";
  const std::vector<std::string> words{"estimate", "-", "--batch", "8"};
  const Ran ran = RunWords(daemon_.socket_path(), words, path);
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_TRUE(ran.out.starts_with("standard input: net: CARMA layer list, 1 row, 4160 "))
      << ran.out;
  const Ran nothing = RunWords(daemon_.socket_path(), words, "/dev/null");
  EXPECT_EQ(nothing.exit_code, 2);
  EXPECT_TRUE(nothing.err.starts_with("carma: standard input:1: no model summary")) << nothing.err;
}

// The interpreter is a stand-in that answers like the helper; the helper's own tests are in Python.
TEST_F(App, EstimateRunsAScriptAndFallsBackWithOneLine) {
  const std::string python = daemon_.dir() + "/python3";
  const auto answer = [&](const std::string& text) {
    std::ofstream(python) << "#!/bin/sh\n" << text;
    std::filesystem::permissions(python, std::filesystem::perms::owner_all);
  };
  answer(R"(echo '{"model":"net","batch":8,"input":[64],"output":[-1,64],"params":4160,)"
         R"("layers":[["Linear",[-1,64],[-1,64],4160,0,4160,0,"fc"]]}')");
  const std::vector<std::string> words{"estimate", "--run", python, "train.py", "--batch", "9"};
  const Ran ran = RunWords(daemon_.socket_path(), words);
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_NE(ran.out.find("train.py --batch 9: net: CARMA layer list"), std::string::npos);
  EXPECT_NE(ran.out.find("batch 8, "), std::string::npos) << ran.out;
  answer("echo 'carma_summary: no data at /data' >&2; exit 2");
  const Ran failed = RunWords(daemon_.socket_path(), words);
  EXPECT_EQ(failed.exit_code, 1) << failed.err;
  EXPECT_NE(failed.out.find("not run: no data at /data\n"), std::string::npos) << failed.out;
  const Ran refused = RunWords(daemon_.socket_path(), {"estimate", "--run", "torchrun", "a.py"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_TRUE(refused.err.starts_with("carma: --run: 'torchrun' starts")) << refused.err;
}

}  // namespace
}  // namespace carma::cli
