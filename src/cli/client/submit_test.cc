// Tests `carma submit` by running the whole command against a fake daemon.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "api/listening.h"
#include "api/task_view.h"
#include "api/views.h"
#include "base/file.h"
#include "base/json.h"
#include "base/unique_fd.h"
#include "cli/client/app_fixture.h"

namespace carma::cli {
namespace {

using base::Json;

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
  EXPECT_EQ(waits_for("afterok:41,afterany:43"), (std::vector<int>{41, 43}));
  EXPECT_EQ(
      Run({"submit", "--no-check", "-d", "afterok:41", "-d", "afterany:43", "true"}).exit_code, 0);
  EXPECT_EQ(body_["tasks"][0]["dependencies"].size(), 2U) << "all of them";
  EXPECT_NE(Run({"submit", "--no-check", "-d", "after:40", "true"}).err.find("not 'after:40'"),
            std::string::npos);
  EXPECT_EQ(Run({"submit", "--no-check", "-d", "afterok:40_3", "true"}).exit_code, 1);
  const std::string lines = daemon_.dir() + "/lines";
  std::ofstream(lines) << "true\n";
  EXPECT_EQ(Run({"submit", "--batch", lines, "--lines", "-d", "afterok:40"}).exit_code, 0);
  EXPECT_EQ(body_["tasks"][0]["dependencies"].size(), 4U) << "also in a batch";
  const auto warning = [&](const std::string& dependency) {
    return Run({"submit", "--no-check", "-d", dependency, "true"}).err;
  };
  EXPECT_NE(warning("afternotok:40").find("requires every task in the array to fail"),
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
  EXPECT_EQ(Run({"submit", "--batch", path, "--lines", "--param", "a=1,2"}).exit_code, 2);
  const std::vector<std::string> missing{"submit",  "--batch", path,
                                         "--lines", "--chdir", daemon_.dir() + "/missing"};
  EXPECT_NE(Run(missing).err.find(":2: not submitted (--no-check submits anyway)"),
            std::string::npos);
  std::ofstream(path) << "\xEF\xBB\xBFtrue\n";
  EXPECT_EQ(Run({"submit", "--batch", path, "--lines"}).exit_code, 0);
  EXPECT_EQ(body_["tasks"][0]["script"], "#!/bin/sh\ntrue\n") << "without its byte order mark";
}

// A daemon that exits after reading the first submission, and the daemon that replaces it.
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

TEST_F(App, RedoOfDependentTasksKeepsTheirOtherDependencies) {
  daemon_.On("GET /v1/tasks", [](const api::Request&) {
    const api::TaskView other{.id = 5, .state = "queued"};
    api::TaskView named{.id = 7, .state = "failed"}, merge{.id = 9, .state = "queued"};
    named.dependencies = {"afterok:5"};
    merge.dependencies = {"afterany:7", "afterok:5", "afterany:1"};  // 1 was deleted
    return JsonAnswer({{"tasks", Json::array({ToJson(other), ToJson(named), ToJson(merge)})}});
  });
  std::vector<std::string> changes;
  for (const std::string id : {"5", "7", "9"}) {
    daemon_.On("POST /v1/tasks/" + id + "/redo", [&changes](const api::Request& request) {
      changes.push_back(request.body);
      return JsonAnswer({{"first", 41 + changes.size()}, {"count", 1}}, 201);
    });
  }
  EXPECT_EQ(Run({"redo", "7", "--cascade", "--parsable"}).out, "42\n43\n");
  ASSERT_EQ(changes.size(), 2U);
  EXPECT_EQ(changes[0], "") << "the dependencies of the task itself are not copied";
  EXPECT_EQ(changes[1],
            R"({"dependencies":[{"kind":"afterany","task":42},{"kind":"afterok","task":5}]})");
  EXPECT_EQ(Run({"redo", "5", "7", "--cascade", "--parsable"}).out, "44\n45\n46\n")
      << "each task once";
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
  daemon_.On("POST /v1/tasks/7/redo", refuse);
  EXPECT_EQ(Run({"redo", "7", "--qos", "foo"}).err, expected);
  EXPECT_EQ(Run({"redo", "7"}).err,
            "carma: task 7: qos: expected one of normal, got foo; choose a different class with "
            "--qos\n")
      << "the user did not name the class";
}

}  // namespace
}  // namespace carma::cli
