// Tests carma estimate with weights other than the built-in ones for the gpumemnet networks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/file.h"
#include "cli/fake_daemon.h"
#include "lab/verbs/lab.h"
#include "test_paths.h"

namespace carma::cli {
namespace {

using ::testing::HasSubstr;

class Weights : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(base::WriteFileAtomic(
        Path("net.json"),
        R"({"model":"net","family":"nets","input":[64],"output":[-1,64],"params":4160,)"
        R"("layers":[["Linear",[-1,64],[-1,64],4160,0,4160,0,"fc"]]})"
        "\n"));
    ASSERT_TRUE(base::WriteFileAtomic(
        Path("measured.csv"), "model,batch,measured_mib,censored,optimizer\nnet,8,1455,0,adam\n"));
  }
  std::string Path(const std::string& name) { return daemon_.dir() + "/" + name; }
  std::vector<Ran> RunBoth(const std::vector<std::string>& more) {
    std::vector<std::vector<std::string>> verbs{
        {"estimate", Path("net.json"), "--batch", "8"},
        {"estimate", "evaluate", "--layers", Path("net.json"), "--measured", Path("measured.csv")}};
    std::vector<Ran> ran;
    for (std::vector<std::string>& words : verbs) {
      words.insert(words.end(), {"-e", "gpumemnet-mlp,horus"});
      words.insert(words.end(), more.begin(), more.end());
      ran.push_back(RunWords(daemon_.socket_path(), words, "", LabProgram()));
    }
    return ran;
  }
  FakeDaemon daemon_;
};

TEST_F(Weights, TheSameWeightsFromAFolderGiveTheSameAnswers) {
  const std::vector<Ran> shipped = RunBoth({});
  const std::vector<Ran> same =
      RunBoth({"--weights", std::string(CARMA_SOURCE_DIR) + "/data/estimators"});
  for (std::size_t i = 0; i < shipped.size(); ++i) {
    EXPECT_EQ(shipped[i].exit_code, 0) << shipped[i].err;
    EXPECT_EQ(shipped[i].out, same[i].out);
    EXPECT_THAT(shipped[i].out, HasSubstr("gpumemnet-mlp"));
  }
}

TEST_F(Weights, NamesMissingAndBrokenFiles) {
  for (const Ran& ran : RunBoth({"--weights", Path("")})) {
    EXPECT_EQ(ran.exit_code, 1);
    EXPECT_THAT(ran.err, HasSubstr("gpumemnet-mlp-mlp.safetensors"));
  }
  ASSERT_TRUE(base::WriteFileAtomic(Path("gpumemnet-mlp-mlp.safetensors"), "weights"));
  for (const Ran& ran : RunBoth({"--weights", Path("")})) {
    EXPECT_EQ(ran.exit_code, 2);
    EXPECT_THAT(ran.err, HasSubstr("too short for a safetensors header"));
  }
}

}  // namespace
}  // namespace carma::cli
