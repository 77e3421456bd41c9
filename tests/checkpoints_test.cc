// Tests that tasks with the same number never mix up their checkpoints, either when two daemons
// share a working directory or when a daemon with a new database takes over the directory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <set>
#include <string>

#include "tests/kit.h"

namespace carma::system_test {
namespace {

using ::testing::HasSubstr;

// Saves the script's name ($0) as a checkpoint, or prints the saved name if a checkpoint exists.
constexpr const char* kModel =
    R"sh(mkdir -p "$CARMA_CHECKPOINT_DIR" && cd "$CARMA_CHECKPOINT_DIR" || exit 9
if [ -e model ]; then echo "resumed $(cat model)"; else echo "new $0"; echo "$0" > model; fi)sh";

std::uint64_t Start(const Site& site, const Folder& work, const std::string& model) {
  return site.Submit({"-D", work.path(), "--", "/bin/sh", "-c", kModel, model});
}

TEST(Checkpoints, AreNotMixedUpBetweenTwoDaemons) {
  const Folder work;
  Site one, two;
  for (Site* site : {&one, &two}) site->Start();
  ASSERT_EQ(Start(one, work, "one"), 1U);
  ASSERT_EQ(one.Await(1).state, "succeeded");
  ASSERT_EQ(Start(two, work, "two"), 1U);
  ASSERT_EQ(two.Await(1).state, "succeeded");
  EXPECT_EQ(one.Output(1), "new one\n");
  EXPECT_EQ(two.Output(1), "new two\n");
  for (Site* site : {&one, &two}) {
    ASSERT_TRUE(site->Carma({"requeue", "1"}).Ok());
    ASSERT_EQ(site->Await(1).state, "succeeded");
  }
  EXPECT_THAT(one.Output(1), HasSubstr("resumed one\n"));
  EXPECT_THAT(two.Output(1), HasSubstr("resumed two\n"));

  two.Stop(SIGTERM);
  std::filesystem::remove_all(two.state_dir());
  two.Start();
  ASSERT_EQ(Start(two, work, "three"), 1U);
  ASSERT_EQ(two.Await(1).state, "succeeded");
  EXPECT_EQ(two.Output(1), "new three\n");

  std::set<std::string> ends;
  for (const auto& each : std::filesystem::directory_iterator(work.path()))
    ends.insert(each.path().extension().string() + ReadText(each.path() / "model"));
  EXPECT_EQ(ends, (std::set<std::string>{".ckptone\n", ".ckpttwo\n", ".ckptthree\n", ".out"}));
}

}  // namespace
}  // namespace carma::system_test
