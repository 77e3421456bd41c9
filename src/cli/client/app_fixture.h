// A test fixture that runs the whole command against a fake daemon.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "api/http.h"
#include "api/task_view.h"
#include "api/views.h"
#include "base/json.h"
#include "cli/fake_daemon.h"

namespace carma::cli {

inline api::Response JsonAnswer(const base::Json& json, int status = 200) {
  return {.status = status, .body = base::DumpJson(json)};
}

inline base::Json TaskJson(std::uint64_t id, const std::string& state) {
  return ToJson(api::TaskView{.id = id, .name = "t", .user = "u", .state = state});
}

class App : public ::testing::Test {
 protected:
  Ran Run(std::vector<std::string> words) {
    return RunWords(daemon_.socket_path(), std::move(words));
  }
  // Makes the daemon accept every submission.
  void AcceptTasks() {
    daemon_.On("POST /v1/tasks", [this](const api::Request& request) {
      body_ = base::ParseJson(request.body).value();
      const std::size_t count =
          body_.contains("tasks") ? body_["tasks"].size() : body_["array"].size();
      return JsonAnswer({{"first", 42}, {"count", count}, {"warnings", {"mind the gap"}}}, 201);
    });
  }

  FakeDaemon daemon_;
  base::Json body_;  // body of the last submission
};

}  // namespace carma::cli
