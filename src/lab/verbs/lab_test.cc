#include "lab/verbs/lab.h"

#include <gtest/gtest.h>

#include "cli/fake_daemon.h"

namespace carma::cli {
namespace {

Ran RunLab(std::vector<std::string> words) {
  return RunWords("/nonexistent.sock", std::move(words), "", LabProgram());
}

TEST(Lab, ReportsAMissingFile) {
  const std::string none = "/nonexistent/none";
  const std::vector<std::vector<std::string>> cases = {
      {"estimate", "evaluate", "--layers", none, "--measured", none},
      {"simulate", none},
      {"simulate", "--trace", none},
      {"simulate", "--workloads", none},
      {"simulate", "--config", none},
      {"simulate", "validate", "--tasks", none},
      {"trace", "info", none},
      {"trace", "replay", none},
  };
  for (const auto& words : cases) {
    const Ran ran = RunLab(words);
    EXPECT_EQ(ran.exit_code, 2) << words[0] << " " << words[1] << ": " << ran.err;
    EXPECT_NE(ran.err.find("No such file"), std::string::npos) << ran.err;
  }
}

TEST(Lab, AlsoHasTheVerbsOfCarma) {
  EXPECT_NE(RunLab({"--help"}).out.find("submit"), std::string::npos);
  EXPECT_NE(RunLab({"completion", "bash"}).out.find("--policy"), std::string::npos);
}

TEST(Lab, CompletesTheValuesOfOptions) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const Ran ran = RunLab({"completion", shell});
    for (const char* word : {"out_of_memory", "magm", "sm_cap=", "structural", "streams", "philly",
                             "collocation.method", "predicted"}) {
      EXPECT_NE(ran.out.find(word), std::string::npos) << shell << " " << word;
    }
    EXPECT_NE(ran.out.find("estimator_sigma="), std::string::npos) << shell;
    EXPECT_EQ(ran.out.find("ewma="), std::string::npos) << "no policy accepts it";
  }
}

}  // namespace
}  // namespace carma::cli
