#include "cli/estimate/script_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"

namespace carma::cli {
namespace {

using ::testing::HasSubstr;

TEST(ScriptRun, PutsTheHelperBeforeTheScript) {
  struct Case {
    const char* command;
    const char* expected;
  };
  const Case cases[] = {
      {"python train.py --lr 1", "python H --run --gpus 2 train.py --lr 1"},
      {"/venv/bin/python3.12 -u -W ignore train.py",
       "/venv/bin/python3.12 -u -W ignore H --run --gpus 2 train.py"},
      {"python -m pack.train x", "python H --run --gpus 2 -m pack.train x"},
      {"uv run python train.py", "uv run python H --run --gpus 2 train.py"},
      {"./train.py a", "python3 H --run --gpus 2 ./train.py a"},
  };
  for (const Case& c : cases) {
    std::vector<std::string> command;
    for (const std::string_view word : base::Split(c.command, ' ')) command.emplace_back(word);
    const auto words = WordsOfRun(command, "H", "2");
    ASSERT_TRUE(words) << c.command << ": " << words.error().message;
    EXPECT_EQ(base::Join(*words, " "), c.expected);
  }
}

TEST(ScriptRun, RefusesACommandWithoutAScript) {
  struct Case {
    std::vector<std::string> command;
    const char* why;
  };
  const Case cases[] = {
      {{}, "expected a Python command"},
      {{"bash", "train.sh"}, "expected a Python command"},
      {{"python"}, "expected a Python command"},
      {{"python", "-c", "import torch"}, "expected a Python command"},
      {{"python", "-m"}, "expected a Python command"},
      {{"torchrun", "train.py"}, "'torchrun' starts several processes"},
      {{"python", "-m", "torch.distributed.run", "a.py"}, "starts several processes"},
  };
  for (const Case& c : cases) {
    const auto words = WordsOfRun(c.command, "H", "1");
    ASSERT_FALSE(words) << base::Join(c.command, " ");
    EXPECT_THAT(words.error().message, HasSubstr(c.why));
    EXPECT_EQ(words.error().code, ErrorCode::kInvalid);
  }
}

}  // namespace
}  // namespace carma::cli
