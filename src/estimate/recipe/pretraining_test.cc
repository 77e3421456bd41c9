#include "estimate/recipe/pretraining.h"

#include <gtest/gtest.h>

#include "estimate/recipe/settings.h"
#include "estimate/training_words.h"

namespace carma::estimate {
namespace {

TrainingPlan PlanFor(std::string_view toml, std::vector<Setting> options = {}) {
  std::vector<Setting> settings = *ReadToml(toml, "t.toml");
  settings.insert(settings.end(), options.begin(), options.end());
  EXPECT_TRUE(IsOfTorchtitan(settings));
  const Result<TrainingPlan> plan = PlanOf(ReadTorchtitan(settings).words, TransformerConfig{});
  EXPECT_TRUE(plan) << plan.error().message;
  return plan.value_or(TrainingPlan{});
}

TEST(Torchtitan, ReadsTheTrainingFromAFile) {
  const TrainingPlan plan = PlanFor(
      "[model]\nname = \"llama3\"\nflavor = \"70B\"\n[training]\nlocal_batch_size = 16\n"
      "seq_len = 8192\n[parallelism]\ndata_parallel_shard_degree = 32\n"
      "tensor_parallel_degree = 8\n[activation_checkpoint]\nmode = \"full\"\n");
  EXPECT_EQ(plan.batch, 16);
  EXPECT_EQ(plan.sequence, 8192);
  EXPECT_EQ(plan.ranks, 32);
  EXPECT_EQ(plan.tensor_parallel, 8);
  EXPECT_TRUE(plan.sequence_parallel);
  EXPECT_EQ(plan.data_parallel, DataParallel::kFsdp);
  EXPECT_EQ(plan.checkpointing, Checkpointing::kFull);
  EXPECT_EQ(plan.weights, Dtype::kFp32);
  EXPECT_TRUE(plan.amp);
  EXPECT_EQ(plan.optimizer, StepOptimizer::kAdamFused);
}

TEST(Torchtitan, OptionsOverrideTheFileAndTheLauncherSetsTheGpus) {
  const TrainingPlan plan = PlanFor(
      "[training]\nseq_len = 2048\n[activation_checkpoint]\nmode = \"selective\"\n"
      "selective_ac_option = \"2\"\n",
      {{"nproc_per_node", "8", "run.sh:3: --nproc_per_node"},
       {"nnodes", "4", "run.sh:3: --nnodes"},
       {"training.seq_len", "4096", "run.sh:3: --training.seq_len"},
       {"parallelism.pipeline_parallel_degree", "4", "run.sh:3: --parallelism"},
       {"parallelism.pipeline_parallel_schedule", "Interleaved1F1B", "run.sh:3: --p"}});
  EXPECT_EQ(plan.sequence, 4096);
  EXPECT_EQ(plan.checkpoint_every, 2);
  EXPECT_EQ(plan.pipeline, 4);
  EXPECT_EQ(plan.ranks, 8) << "32 GPUs in 4 stages";
  EXPECT_EQ(plan.schedule, Schedule::kInterleaved);
  EXPECT_EQ(plan.micro_batches, 8) << "micro-batches of one sample";
}

TEST(Torchtitan, MissingSettingsHaveTorchtitansDefaults) {
  const TrainingPlan plan = PlanFor("[model]\nflavor = \"8B\"\n");
  EXPECT_EQ(plan.batch, 8);
  EXPECT_EQ(plan.sequence, 2048);
  EXPECT_EQ(plan.checkpointing, Checkpointing::kOperators);
  EXPECT_EQ(plan.ranks, 1);
}

TEST(Torchtitan, NamesTheModelByTheFolderOfItsFiles) {
  const struct {
    const char* written;
    const char* folder;
  } cases[] = {{"hf_assets_path = \"./assets/hf/m\"", "./assets/hf/m"},
               {"tokenizer_path = \"./m/original/tokenizer.model\"", "./m"},
               {"tokenizer_path = \"./m\"", "./m"}};
  for (const auto& each : cases) {
    const auto settings = ReadToml(std::string("[model]\n") + each.written, "t.toml");
    const Meaning plan = ReadTorchtitan(*settings);
    EXPECT_EQ(plan.model, each.folder);
    EXPECT_EQ(plan.notes.size(), 1u) << "the number of GPUs is unknown";
  }
}

}  // namespace
}  // namespace carma::estimate
