#include "daemon/gpus/task_watch.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace carma::daemon {
namespace {

TEST(IdleNotice, IsOneLineOfJson) {
  store::StoredTask stored;
  stored.name = "two\nlines \xff";
  stored.user = "ann";
  stored.gpu_uuids = {"GPU-a", "GPU-b"};
  const std::string line = ToLine({core::TaskId{12}, 1, base::FromMs(1'000)}, stored,
                                  base::FromMs(61'000), core::IdleAction::kShare);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const Result<base::Json> json = base::ParseJson(line);
  ASSERT_TRUE(json) << json.error().message;
  EXPECT_EQ((*json)["task"], 12);
  EXPECT_EQ((*json)["idle_s"], 60.0);
  EXPECT_EQ((*json)["gpu_uuids"][1], "GPU-b");
  EXPECT_EQ((*json)["action"], "share");
}

}  // namespace
}  // namespace carma::daemon
