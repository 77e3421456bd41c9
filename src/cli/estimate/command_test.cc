// Tests `carma estimate` by running the whole command against a fake daemon.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cli/client/app_fixture.h"

namespace carma::cli {
namespace {

TEST_F(App, EstimateReadsASummaryFromAPipe) {
  const std::string path = daemon_.dir() + "/net.json";
  std::ofstream(path) << R"({"model":"net","input":[64],"output":[-1,64],"params":4160,)"
                         R"("layers":[["Linear",[-1,64],[-1,64],4160,0,4160,0,"fc"]]})";
  const std::vector<std::string> words{"estimate", "-", "--batch", "8"};
  const Ran ran = RunWords(daemon_.socket_path(), words, path);
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_TRUE(ran.out.starts_with("standard input: net: CARMA layer list, 1 row, 4160 "))
      << ran.out;
  const Ran nothing = RunWords(daemon_.socket_path(), words, "/dev/null");
  EXPECT_EQ(nothing.exit_code, 2);
  EXPECT_TRUE(nothing.err.starts_with("carma: standard input:1: no model summary")) << nothing.err;
}

TEST_F(App, EstimateOfAScriptWithoutAModelNamesRun) {
  const std::string path = daemon_.dir() + "/my train.py";
  std::ofstream(path) << "import torch\n";
  const Ran ran = Run({"estimate", path});
  EXPECT_EQ(ran.exit_code, 1) << ran.err;
  EXPECT_NE(ran.out.find("run carma estimate --run python3 '" + path + "'\n"), std::string::npos)
      << ran.out;
}

TEST_F(App, EstimatesTheShareOfAnInferenceEngine) {
  const std::string path = daemon_.dir() + "/serve.sh";
  std::ofstream(path) << "#!/bin/sh\nvllm serve lab/model --gpu-memory-utilization 0.5\n";
  const Ran ran = Run({"estimate", path, "--gpu-memory", "80000"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_NE(ran.out.find("39.1G"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("reserves 0.5 of the GPU's memory"), std::string::npos) << ran.out;
}

// The interpreter is a stand-in that responds like the helper; the helper's own tests are in
// Python.
TEST_F(App, EstimateRunsAScriptAndFallsBackWithOneLine) {
  const std::string python = daemon_.dir() + "/python3";
  const auto answer = [&](const std::string& text) {
    std::ofstream(python) << "#!/bin/sh\n" << text;
    std::filesystem::permissions(python, std::filesystem::perms::owner_all);
  };
  answer(R"(echo '{"model":"net","batch":8,"input":[64],"output":[-1,64],"params":4160,)"
         R"("layers":[["Linear",[-1,64],[-1,64],4160,0,4160,0,"fc"]]}')");
  const std::vector<std::string> words{"estimate", "--run", python, "train.py", "--batch", "9"};
  const Ran ran = RunWords(daemon_.socket_path(), words);
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_NE(ran.out.find("train.py --batch 9: net: CARMA layer list"), std::string::npos);
  EXPECT_NE(ran.out.find("batch 8, "), std::string::npos) << ran.out;
  answer("echo 'carma_summary: no data at /data' >&2; exit 2");
  const Ran failed = RunWords(daemon_.socket_path(), words);
  EXPECT_EQ(failed.exit_code, 1) << failed.err;
  EXPECT_NE(failed.out.find("not run: no data at /data\n"), std::string::npos) << failed.out;
  const Ran refused = RunWords(daemon_.socket_path(), {"estimate", "--run", "torchrun", "a.py"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_TRUE(refused.err.starts_with("carma: --run: 'torchrun' starts")) << refused.err;
}

}  // namespace
}  // namespace carma::cli
