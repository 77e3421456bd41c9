// Tests `carma logs` by running the whole command against a fake daemon.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "base/json.h"
#include "cli/client/app_fixture.h"

namespace carma::cli {
namespace {

using base::Json;

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
  const std::string ended = "carma: task 1 never started (cancelled), so it has no output\n";
  EXPECT_EQ(followed.err, "carma: task 1 is queued; waiting for its output\n" + ended);
  EXPECT_EQ(Run({"logs", "1"}).err, ended);
  EXPECT_EQ(Run({"logs", "2"}).err,
            "carma: task 2 has no output: Could not be started: cannot enter the working "
            "directory\n");
}

TEST_F(App, LogsOfATaskThatHasNotStartedIgnoreAnOldFile) {
  const std::string path = daemon_.dir() + "/out";
  std::ofstream(path) << "old\n";
  std::atomic<int> asked = 0;
  daemon_.On("GET /v1/tasks/1", [&](const api::Request&) {
    const int times = ++asked;
    Json task = TaskJson(1, times < 3 ? "queued" : times < 5 ? "running" : "succeeded");
    task["stdout_path"] = path;
    task["attempt"] = times < 3 ? 0 : 1;
    if (times == 3) std::ofstream(path) << "new\n";
    return JsonAnswer(task);
  });
  daemon_.On("GET /v1/tasks/2", [&](const api::Request&) {
    Json task = TaskJson(2, "cancelled");
    task["stdout_path"] = path;
    return JsonAnswer(task);
  });
  const Ran waits = Run({"logs", "1"});
  EXPECT_EQ(waits.exit_code, 1);
  EXPECT_EQ(waits.out, "");
  EXPECT_EQ(waits.err, "carma: task 1 has not started; its output will be in " + path + "\n");
  EXPECT_EQ(Run({"logs", "2"}).err,
            "carma: task 2 never started (cancelled), so it has no output\n");
  const Ran followed = Run({"logs", "-f", "1"});
  EXPECT_EQ(followed.exit_code, 0);
  EXPECT_EQ(followed.out, "new\n");
  EXPECT_EQ(followed.err, "carma: task 1 is queued; waiting for its output\n");
}

TEST_F(App, LogsOfATaskThatAppendsFollowFromTheLastLines) {
  const std::string path = daemon_.dir() + "/out";
  std::ofstream(path) << "old\nlast\n";
  std::atomic<int> asked = 0;
  daemon_.On("GET /v1/tasks/1", [&](const api::Request&) {
    const int times = ++asked;
    Json task = TaskJson(1, times < 3 ? "queued" : times < 5 ? "running" : "succeeded");
    task["stdout_path"] = path;
    task["attempt"] = times < 3 ? 0 : 1;
    if (times == 4) std::ofstream(path, std::ios::app) << "new\nnewer\n";
    return JsonAnswer(task);
  });
  EXPECT_EQ(Run({"logs", "-f", "-n", "1", "1"}).out, "last\nnew\nnewer\n");
}

TEST_F(App, LogsSayWhereRotatedOutputIs) {
  const std::string path = daemon_.dir() + "/out", link = daemon_.dir() + "/link";
  std::ofstream(path) << "last\n";
  std::filesystem::create_symlink("out", link);
  Json task = TaskJson(1, "succeeded");
  task["stdout_path"] = link;
  task["attempt"] = 1;
  daemon_.On("GET /v1/tasks/1", [&](const api::Request&) { return JsonAnswer(task); });
  EXPECT_EQ(Run({"logs", "1"}).err, "");
  const std::string note =
      "carma: older output of task 1 is in " + std::filesystem::canonical(path).string() + ".1";
  std::ofstream(path + ".1") << "older\n";
  const Ran ran = Run({"logs", "1"});
  EXPECT_EQ(ran.out, "last\n");
  EXPECT_EQ(ran.err, note + "\n");
  EXPECT_EQ(Run({"logs", "-n", "1", "1"}).err, "");
  std::ofstream(path + ".2") << "oldest\n";
  EXPECT_EQ(Run({"logs", "1"}).err, note + " (newest) to .2\n");
  task["submitted_ms"] = std::int64_t{4'000'000'000'000};
  EXPECT_EQ(Run({"logs", "1"}).err, "") << "the files are older than the task";
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

TEST_F(App, LogsExplainTheMissingOutputOfATerminal) {
  std::string origin;
  daemon_.On("GET /v1/tasks/1", [&](const api::Request&) {
    Json task = TaskJson(1, "succeeded");
    task["stdout_path"] = "/dev/null";
    task["origin"] = origin;
    return JsonAnswer(task);
  });
  EXPECT_NE(Run({"logs", "1"}).err.find("carma run's terminal"), std::string::npos);
  origin = "lease";
  EXPECT_NE(Run({"logs", "1"}).err.find("task 1 is a lease"), std::string::npos);
}

}  // namespace
}  // namespace carma::cli
