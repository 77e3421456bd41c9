#include "cli/estimate/framework_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace carma::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> Command(const std::string& path, std::string_view text) {
  const auto command = CommandOfFile(path, text);
  EXPECT_TRUE(command) << command.error().message;
  return command.value_or(std::vector<std::string>{});
}

TEST(FrameworkFile, AConfigurationStandsForItsCommand) {
  EXPECT_THAT(Command("a.yml", "base_model: x\nsequence_len: 4\n"),
              ElementsAre("axolotl", "train", "a.yml"));
  EXPECT_THAT(Command("l.yaml", "model_name_or_path: x\nfinetuning_type: lora\n"),
              ElementsAre("llamafactory-cli", "train", "l.yaml"));
  EXPECT_THAT(Command("t.yaml", "model:\n  _component_: torchtune.models.x\n"),
              ElementsAre("tune", "run", "recipe", "--config", "t.yaml"));
  EXPECT_THAT(Command("s.yaml", "model_name_or_path: x\nlearning_rate: 1\n"),
              ElementsAre("trl", "sft", "--config", "s.yaml"));
  EXPECT_THAT(Command("train.py", "import torch\n"), ElementsAre("python3", "train.py"));
}

TEST(FrameworkFile, OtherFilesAreLeftAlone) {
  EXPECT_THAT(Command("c.yaml", "lr: 1\n"), IsEmpty());
  EXPECT_THAT(Command("layers.json", R"({"layers": []})"), IsEmpty());
  EXPECT_FALSE(MayBeTraining("summary.txt"));
}

TEST(FrameworkFile, ReportsAMissingModel) {
  const auto accelerate = CommandOfFile("f.yaml", "distributed_type: FSDP\n");
  ASSERT_FALSE(accelerate);
  EXPECT_THAT(accelerate.error().message,
              HasSubstr("accelerate configuration files do not name a model"));
  const auto deepspeed = CommandOfFile("d.json", R"({"zero_optimization": {"stage": 3}})");
  ASSERT_FALSE(deepspeed);
  EXPECT_THAT(deepspeed.error().message, HasSubstr("--deepspeed"));
}

}  // namespace
}  // namespace carma::cli
