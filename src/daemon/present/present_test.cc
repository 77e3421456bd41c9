// A view of a task shows everything that the store holds about it.
#include "daemon/present/present.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "store/task_fixture.h"

namespace carma::daemon {
namespace {

using testing::ElementsAre;

TEST(Present, FillsEveryField) {
  store::StoredTask stored = store::FullTask(7);
  stored.record.state = core::TaskState::kFailed;
  stored.spec_json =
      R"({"array_index":5,"command":["python","train.py"],"comment":"try","container":"debian:12","workdir":"/home/ada",
          "parameters":{"lr":"0.1"},"notify":[{"target":"me","events":["fail"]}],
          "lease":"4711 88213 0f6c"})";
  const base::Json view = ToJson(Present(stored));
  const base::Json empty = ToJson(api::TaskView{});
  std::vector<std::string> untold;
  for (const auto& [name, value] : view.items()) {
    if (value == empty[name]) untold.push_back(name);
  }
  // Remarks and notices are stored separately; a signal ended this task; the other values are only
  // known while it runs.
  EXPECT_THAT(untold,
              ElementsAre("estimate_remarks", "exit_code", "host_note", "latest_start_ms",
                          "likely_start_ms", "notices", "observed_mib", "over_promise_mib", "pid",
                          "progress", "turn_ends_ms", "waiting_since_ms", "wrong_gpus"));
}

TEST(PolicyLine, TellsHowTheLineGoesWhereItIsNotAsUsual) {
  config::Settings settings;
  EXPECT_EQ(PolicyLine(settings).find("shares"), std::string::npos);
  settings.policy.order = core::QueueOrder::kFair;
  settings.policy.slots.length = core::Duration{43'200'000};
  EXPECT_TRUE(PolicyLine(settings).ends_with(", order by shares, turns of 12:00:00"));
}

}  // namespace
}  // namespace carma::daemon
