#include "daemon/gpus/task_watch.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace carma::daemon {
namespace {

TEST(IdleNotice, IsOneLineOfJson) {
  IdleNotice notice;
  notice.task = 12;
  notice.name = "two\nlines \xff";
  notice.user = "ann";
  notice.gpu_uuids = {"GPU-a", "GPU-b"};
  notice.idle_since = base::FromMs(1'000);
  notice.now = base::FromMs(61'000);
  notice.action = "share";
  const std::string line = ToLine(notice);
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
