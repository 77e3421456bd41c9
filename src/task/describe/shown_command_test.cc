#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "task/describe/spec.h"

namespace carma::task {
namespace {

using ::testing::ElementsAre;

TEST(ShownCommand, IsTheCommandTheScriptOrTheLineForTheShell) {
  EXPECT_THAT(ShownCommand({.command = {"python3", "a.py"}}), ElementsAre("python3", "a.py"));
  EXPECT_THAT(ShownCommand({.name = "x",
                            .script = "#!/bin/bash\necho",
                            .script_args = {"9"},
                            .script_path = "/home/a.sh"}),
              ElementsAre("/home/a.sh", "9"));
  EXPECT_THAT(ShownCommand({.name = "stdin", .script = "#!/bin/bash\necho"}), ElementsAre("stdin"));
  EXPECT_THAT(ShownCommand({.name = "wrap", .script = "#!/bin/sh\npython3 a.py && b\n"}),
              ElementsAre("sh", "-c", "python3 a.py && b"));
  EXPECT_THAT(ShownCommand({.name = "two", .script = "#!/bin/sh\n\ncd x\n./y\n"}),
              ElementsAre("sh", "-c", "cd x …"));
}

}  // namespace
}  // namespace carma::task
