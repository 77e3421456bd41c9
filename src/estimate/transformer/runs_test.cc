// Tests how tables of runs are read. All rows are made up.
#include "estimate/transformer/runs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace carma::estimate {
namespace {

constexpr const char* kModels =
    "model,aliases,layers,hidden,heads,kv_heads,head_dim,intermediate,vocab,mlp,norm,tied,experts,"
    "active_experts,params_b,family\n"
    "lab/small,small|lab/small-gptq,16,1024,8,8,128,2816,32000,gated,rms,1,,,0.25,lab\n";
constexpr const char* kHeader =
    "id,source,framework,model,method,wquant,wdtype,amp,optimizer,seq_len,seq_note,micro_batch,"
    "grad_accum,lora_r,lora_targets,ckpt,attn,fused,parallel,shards,gpu,n_gpu,mem_gib,mem_def,"
    "mem2_gib,mem2_def,note\n";

class RunTables : public ::testing::Test {
 protected:
  RunTables() : dir_(::testing::TempDir() + "carma_run_tables_" + std::to_string(::getpid())) {
    std::filesystem::create_directories(dir_);
    Write("models.csv", kModels);
  }
  ~RunTables() override { std::filesystem::remove_all(dir_); }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(dir_ + "/" + name) << text;
  }
  Result<TrainingRuns> Read(const std::string& rows) const {
    Write("runs.csv", kHeader + rows);
    return ReadTrainingRuns({dir_ + "/runs.csv"}, {dir_ + "/models.csv"});
  }
  std::string dir_;
};

TEST_F(RunTables, ReadsPlanAndMeasurementsOfARow) {
  const auto set = Read(
      "1,lab,HF Trainer,small,lora,nf4,bf16,bf16,adamw_torch,4096,packed,4,2,16,\"q,k,v,o\",full,"
      "flash2,triton kernels,fsdp-full,2,A100-80GB,2,10.5,\"nvidia-smi peak\",8.25,torch max "
      "allocated,\n");
  ASSERT_TRUE(set) << set.error().message;
  ASSERT_EQ(set->runs.size(), 1U);
  const TrainingRun& run = set->runs[0];
  ASSERT_TRUE(run.plan) << run.plan.error().message;
  EXPECT_EQ(run.plan->quantisation, Quantisation::kNf4Double) << "recipes quantise twice";
  EXPECT_EQ(run.plan->data_parallel, DataParallel::kFsdp);
  EXPECT_EQ(run.plan->ranks, 2);
  EXPECT_TRUE(run.plan->amp && run.plan->accumulates && run.plan->fused_layers);
  EXPECT_EQ(run.plan->loss, Loss::kInPlace);
  EXPECT_EQ(run.plan->checkpointing, Checkpointing::kFull);
  ASSERT_EQ(run.measured.size(), 2U);
  EXPECT_EQ(run.measured[0].kind, MemoryKind::kShown);
  EXPECT_EQ(run.measured[0].mib, 10'752);
  EXPECT_EQ(run.measured[1].kind, MemoryKind::kAllocated);
  EXPECT_EQ(run.family, "lab");
  EXPECT_DOUBLE_EQ(set->configs[run.config].TotalParameters(), 0.25e9);
}

TEST_F(RunTables, DividesASumOverGpus) {
  const auto set = Read(
      "1,lab,HF Trainer,lab/small,full,,bf16,,adamw,256,exact,1,,,,full,flash2,,,1,,4,40,\"as "
      "printed, SUM over GPUs\",,,\n");
  ASSERT_TRUE(set) << set.error().message;
  EXPECT_EQ(set->runs[0].measured[0].mib, 10'240);
  EXPECT_EQ(set->runs[0].measured[0].kind, MemoryKind::kUnstated);
}

TEST_F(RunTables, AppliesTheDefaultsOfLibraries) {
  const auto set = Read(
      "1,lab,LitGPT 2024,small,lora,nf4,bf16,bf16-true,adamw,512,packed,1,,8,\"q,v\",none,sdpa,,,1,"
      ",1,4,torch max allocated,,,\n"
      "2,lab,torchtune,small,lora,,bf16,bf16-true,adamw,512,packed,1,,8,all,full,sdpa,compile,,1,,"
      "1,4,torch max reserved,,,\n");
  ASSERT_TRUE(set) << set.error().message;
  ASSERT_TRUE(set->runs[0].plan && set->runs[1].plan);
  EXPECT_EQ(set->runs[0].plan->loss, Loss::kSplit);
  EXPECT_TRUE(set->runs[0].plan->keeps_frozen_inputs && set->runs[0].plan->unties_head);
  EXPECT_EQ(set->runs[0].plan->quantisation, Quantisation::kNf4);
  EXPECT_EQ(set->runs[1].plan->loss, Loss::kChunked);
  EXPECT_EQ(set->runs[1].measured[0].kind, MemoryKind::kReserved);
}

TEST_F(RunTables, ReadsTargetsInManySpellings) {
  for (const char* targets :
       {"['q_proj', 'v_proj']", "q_proj v_proj", "q,v", "(q_proj + v_proj)", "q_proj;v_proj"}) {
    const auto set = Read(fmt::format(
        "1,lab,HF Trainer,small,lora,,bf16,,adamw,512,packed,1,,8,\"{}\",full,,,,1,,1,4,"
        "nvidia-smi,,,\n",
        targets));
    ASSERT_TRUE(set && set->runs[0].plan) << targets;
    const LoraTargets& on = set->runs[0].plan->lora_targets;
    EXPECT_TRUE(on.query && on.value && !on.key && !on.output) << targets;
  }
}

TEST_F(RunTables, ReadsSelectiveCheckpointing) {
  struct Case {
    const char* framework;
    const char* words;
    Checkpointing kind;
    std::int64_t every;
  };
  for (const Case& each :
       {Case{"torchtitan", "selective", Checkpointing::kOperators, 1},
        Case{"torchtitan", "selective op", Checkpointing::kOperators, 1},
        Case{"torchtitan", "selective 2", Checkpointing::kFull, 2},
        Case{"torchtitan", "selective (every 4th block)", Checkpointing::kFull, 4},
        Case{"torchtitan", "selective half", Checkpointing::kFull, 2},
        Case{"Megatron-LM", "selective", Checkpointing::kAttention, 1},
        Case{"NeMo", "full", Checkpointing::kFull, 1}}) {
    const auto set = Read(fmt::format(
        "1,lab,{},small,full,,fp32,bf16,adamw,512,packed,1,,,,{},,,fsdp,4,,4,4,nvidia-smi,,,\n",
        each.framework, each.words));
    ASSERT_TRUE(set && set->runs[0].plan) << each.words;
    EXPECT_EQ(set->runs[0].plan->checkpointing, each.kind) << each.words;
    EXPECT_EQ(set->runs[0].plan->checkpoint_every, each.every) << each.words;
  }
}

TEST_F(RunTables, PreparesQuantisedModelsLikeTheLibrary) {
  const char* const row =
      "1,lab,{},small,lora,{},bf16,bf16,adamw,512,packed,1,,8,\"q,v\",full,flash2,,,1,,1,4,"
      "torch max reserved,,,\n";
  const auto prepared = [&](const char* framework, const char* quantised) {
    const auto set = Read(fmt::format(fmt::runtime(row), framework, quantised));
    EXPECT_TRUE(set && set->runs[0].plan);
    return set->runs[0].plan->fp32_rest && set->runs[0].plan->fp32_residual;
  };
  EXPECT_TRUE(prepared("HF Trainer", "nf4"));
  EXPECT_FALSE(prepared("HF Trainer", "gptq4"))
      << "only models with bitsandbytes weights are prepared";
  EXPECT_FALSE(prepared("HF Trainer/fms-acceleration", "nf4"))
      << "fms-acceleration casts only the norms";
  EXPECT_FALSE(prepared("LitGPT 2024", "nf4"));
}

TEST_F(RunTables, ReadsKindsOfParallelismInManySpellings) {
  struct Case {
    const char* word;
    DataParallel kind;
    std::int64_t ranks;
  };
  for (const Case& each :
       {Case{"ddp", DataParallel::kDdp, 4}, Case{"", DataParallel::kDdp, 1},
        Case{"deepspeed zero3", DataParallel::kZero3, 2}, Case{"zero2/3?", DataParallel::kZero2, 2},
        Case{"fsdp-full", DataParallel::kFsdp, 2}}) {
    const auto set = Read(fmt::format(
        "1,lab,HF Trainer,small,qlora,,bf16,bf16,sgd,512,packed,1,,8,all-linear,full,,,{},2,,4,9,"
        "nvidia-smi,,,\n",
        each.word));
    ASSERT_TRUE(set) << set.error().message;
    ASSERT_TRUE(set->runs[0].plan) << set->runs[0].plan.error().message;
    EXPECT_EQ(set->runs[0].plan->data_parallel, each.kind) << each.word;
    EXPECT_EQ(set->runs[0].plan->ranks, each.ranks) << each.word;
    EXPECT_EQ(set->runs[0].plan->optimizer, StepOptimizer::kSgd);
    EXPECT_EQ(set->runs[0].plan->quantisation, Quantisation::kNf4Double);
  }
}

TEST_F(RunTables, ReadsLengthsFromNotes) {
  const auto set = Read(
      "1,lab,HF Trainer,small,full,,bf16,,adamw,,\"variable, mean 300 tokens, cap 1000, padding "
      "free\",4,,,,full,,,,1,,1,9,nvidia-smi,,,\n"
      "2,lab,HF Trainer,small,full,,bf16,,adamw,,\"dataset, cap 2048\",4,1,,,full,,,,1,,1,9,"
      "nvidia-smi,,,\n");
  ASSERT_TRUE(set) << set.error().message;
  ASSERT_TRUE(set->runs[0].plan && set->runs[1].plan);
  EXPECT_EQ(set->runs[0].plan->sequence, 600);
  EXPECT_EQ(set->runs[0].plan->mean_length, 300);
  EXPECT_TRUE(set->runs[0].plan->accumulates && set->runs[0].plan->variable_length);
  EXPECT_EQ(set->runs[1].plan->sequence, 2048);
  EXPECT_FALSE(set->runs[1].plan->mean_length || set->runs[1].plan->accumulates);
}

TEST_F(RunTables, ReportsMissingColumnsOfARow) {
  const auto set = Read(
      "1,lab,HF Trainer,small,full,,bf16,,adamw,,,1,,,,full,,,,1,,1,9,nvidia-smi,,,\n"
      "2,lab,HF Trainer,small,adapter,,bf16,,adamw,9,,1,,,,full,,,,1,,1,9,nvidia-smi,,,\n"
      "3,lab,HF Trainer,small,full,,bf16,,?,9,,1,,,,full,,,,1,,1,9,nvidia-smi,,,\n"
      "4,lab,HF Trainer,unknown,full,,bf16,,adamw,9,,1,,,,full,,,,1,,1,9,nvidia-smi,,,\n");
  ASSERT_TRUE(set) << set.error().message;
  EXPECT_EQ(set->without_model, 1U);
  ASSERT_EQ(set->runs.size(), 3U);
  const char* expected[] = {"length", "adapter", "optimizer"};
  for (std::size_t i = 0; i < 3; ++i) {
    ASSERT_FALSE(set->runs[i].plan);
    EXPECT_NE(set->runs[i].plan.error().message.find(expected[i]), std::string::npos);
  }
}

TEST_F(RunTables, ABadCellAffectsOnlyItsRow) {
  const auto set = Read(
      "1,lab,HF Trainer,small,full,,bf16,,adamw,-3,,1,,,,full,,,,1,,1,9,nvidia-smi,,,\n"
      "2,lab,HF Trainer,small,full,,bf16,,adamw,9,,1,,0,,full,,,,1,,1,9,nvidia-smi,,,\n");
  ASSERT_TRUE(set) << set.error().message;
  ASSERT_EQ(set->runs.size(), 2U);
  ASSERT_FALSE(set->runs[0].plan);
  EXPECT_NE(set->runs[0].plan.error().message.find("runs.csv:2: column 'seq_len'"),
            std::string::npos);
  EXPECT_EQ(set->troubles.size(), 1U);
  EXPECT_TRUE(set->runs[1].plan) << "adapters cannot have a rank of 0";
  EXPECT_FALSE(FieldOf(TrainingRun{}, "colour"));
}

TEST_F(RunTables, TakesNormsFromTheFamily) {
  std::string models = kModels;
  models.replace(models.rfind("lab\n"), 4, "qwen3\n");
  Write("models.csv", models);
  const auto set = Read("1,lab,TRL,small,full,,bf16,,adamw,256,exact,1,,,,full,,,,,,1,40,x,,,\n");
  ASSERT_TRUE(set) << set.error().message;
  EXPECT_TRUE(set->configs[set->runs[0].config].norms_heads);
}

TEST_F(RunTables, DoesNotCountGpusThatShareASampleTwice) {
  std::string header = kHeader;
  header.insert(header.find("\n"), ",cp");
  Write("runs.csv", header +
                        "1,lab,torchtitan,small,full,,fp32,bf16,adamw,256,exact,1,,,,full,,,"
                        "fsdp,8,,8,40,x,,,,4\n");
  const auto set = ReadTrainingRuns({dir_ + "/runs.csv"}, {dir_ + "/models.csv"});
  ASSERT_TRUE(set) << set.error().message;
  ASSERT_TRUE(set->runs[0].plan) << set->runs[0].plan.error().message;
  EXPECT_EQ(set->runs[0].plan->ranks, 2) << "8 GPUs hold the weights, 4 share each sample";
}

}  // namespace
}  // namespace carma::estimate
