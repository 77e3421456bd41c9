// Tests whole task descriptions together with the files that they refer to. All models and scripts
// are made up.
#include "estimate/recipe/find.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "estimate/training_words.h"
#include "estimate/transformer/peak.h"

namespace carma::estimate {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kSmall =
    R"({"model_type":"llama","num_hidden_layers":16,"hidden_size":1024,"num_attention_heads":8,)"
    R"("intermediate_size":2816,"vocab_size":32000,"torch_dtype":"bfloat16"})";

class FindTrainingTest : public ::testing::Test {
 protected:
  FindTrainingTest() {
    files_["/lab/small/config.json"] = kSmall;
    files_["/home/ann/.cache/huggingface/hub/models--lab--small/refs/main"] = "0a1b\n";
    files_["/home/ann/.cache/huggingface/hub/models--lab--small/snapshots/0a1b/config.json"] =
        kSmall;
  }
  TrainingFound Script(const std::string& text, std::vector<std::string> args = {}) {
    task::TaskSpec spec = Spec();
    spec.script = "#!/bin/bash\n" + text;
    spec.script_path = "/lab/train.sh";
    spec.script_args = std::move(args);
    return Find(spec);
  }
  TrainingFound Command(std::vector<std::string> words) {
    task::TaskSpec spec = Spec();
    spec.command = std::move(words);
    return Find(spec);
  }
  static task::TaskSpec Spec() {
    task::TaskSpec spec;
    spec.workdir = "/lab";
    spec.environment = {{"HOME", "/home/ann"}};
    return spec;
  }
  TrainingFound Find(const task::TaskSpec& spec) {
    return FindTraining(spec, [this](const std::string& path, std::size_t) -> Result<std::string> {
      const auto found = files_.find(path);
      if (found == files_.end()) return NotFound(path + ": none");
      return found->second;
    });
  }
  static TrainingPlan Plan(const TrainingFound& found) {
    EXPECT_FALSE(found.words.empty()) << ::testing::PrintToString(found.notes);
    const auto config = ParseTransformerConfig(kSmall, "c");
    const auto plan = PlanOf(found.words, *config);
    EXPECT_TRUE(plan) << plan.error().message;
    return plan.value_or(TrainingPlan{});
  }
  static std::string From(const TrainingFound& found, std::string_view name) {
    std::string from;
    for (const task::TrainingWord& word : found.words) {
      if (word.name == name) from = word.from;
    }
    return from;
  }
  std::map<std::string, std::string> files_;
};

TEST_F(FindTrainingTest, ReadsTheTrainersOptions) {
  const TrainingFound found = Script(
      "MODEL=lab/small\n"
      "ARGS=\"--per_device_train_batch_size 4 --gradient_accumulation_steps=8\"\n"
      "CUDA_VISIBLE_DEVICES=0 python -u train.py --model_name_or_path $MODEL $ARGS \\\n"
      "  --max_seq_length 1024 --bf16 True --optim adamw_torch_fused \\\n"
      "  --gradient_checkpointing --attn_implementation flash_attention_2 --learning_rate 1e-5\n");
  EXPECT_EQ(found.config,
            "/home/ann/.cache/huggingface/hub/models--lab--small/snapshots/0a1b/config.json");
  const TrainingPlan plan = Plan(found);
  EXPECT_EQ(plan.sequence, 1024);
  EXPECT_EQ(plan.batch, 4);
  EXPECT_TRUE(plan.accumulates && plan.amp);
  EXPECT_EQ(plan.optimizer, StepOptimizer::kAdamFused);
  EXPECT_EQ(plan.checkpointing, Checkpointing::kFull);
  EXPECT_EQ(plan.weights, Dtype::kFp32) << "Transformers' default dtype";
  EXPECT_EQ(From(found, "seq-len"), "train.sh:4: --max_seq_length");
  EXPECT_EQ(From(found, "weights"), "Trainer's default");
  EXPECT_EQ(
      std::ranges::count_if(found.words, [](const auto& word) { return word.name == "batch"; }), 1)
      << "overridden words are dropped";
}

TEST_F(FindTrainingTest, ReadsSourceAndTargetLengths) {
  const TrainingFound found = Script(
      "python train.py --model_name_or_path lab/small --max_source_length 512 \\\n"
      "  --max_target_length 128 --per_device_train_batch_size 8 --learning_rate 1e-4\n");
  EXPECT_EQ(Plan(found).sequence, 512);
  EXPECT_EQ(Plan(found).target, 128);
  EXPECT_EQ(From(found, "target-len"), "train.sh:2: --max_target_length");
}

TEST_F(FindTrainingTest, ReadsLaunchersAndTheirFiles) {
  files_["/lab/ds.json"] = R"({"zero_optimization":{"stage":3},"bf16":{"enabled":true}})";
  files_["/lab/acc.yaml"] =
      "distributed_type: FSDP\nfsdp_config:\n  fsdp_sharding_strategy: FULL_SHARD\n"
      "  fsdp_offload_params: true\nmixed_precision: bf16\nnum_processes: 4\n";
  const TrainingPlan deepspeed =
      Plan(Command({"deepspeed", "--num_gpus", "2", "train.py", "--deepspeed", "ds.json",
                    "--model_name_or_path", "small", "--per_device_train_batch_size", "2"}));
  EXPECT_EQ(deepspeed.data_parallel, DataParallel::kZero3);
  EXPECT_EQ(deepspeed.ranks, 2);
  EXPECT_EQ(deepspeed.batch, 2);
  EXPECT_EQ(deepspeed.weights, Dtype::kBf16);
  files_["/lab/auto.json"] = R"({"bf16":{"enabled":"auto"}})";
  EXPECT_EQ(Plan(Command({"deepspeed", "train.py", "--deepspeed", "auto.json", "--bf16", "--model",
                          "small", "--lr", "1"}))
                .weights,
            Dtype::kBf16);
  const TrainingFound accelerated =
      Command({"accelerate", "launch", "--config_file", "acc.yaml", "run/sft.py",
               "--model_name_or_path", "./small", "--max_length", "4096", "--use_peft", "--lora_r",
               "32", "--lora_target_modules", "q_proj", "v_proj", "--dtype", "bfloat16"});
  const TrainingPlan plan = Plan(accelerated);
  EXPECT_EQ(plan.data_parallel, DataParallel::kFsdp);
  EXPECT_TRUE(plan.offload_parameters && plan.amp);
  EXPECT_EQ(plan.ranks, 4);
  EXPECT_EQ(plan.method, Method::kLora);
  EXPECT_EQ(plan.lora_rank, 32);
  EXPECT_TRUE(plan.lora_targets.query && plan.lora_targets.value && !plan.lora_targets.key);
  EXPECT_EQ(plan.weights, Dtype::kBf16);
  EXPECT_EQ(From(accelerated, "gpus"), "acc.yaml:6: num_processes");
  files_["/home/ann/.cache/huggingface/accelerate/default_config.yaml"] =
      "mixed_precision: bf16\nnum_processes: 2\n";
  const TrainingFound usual =
      Command({"accelerate", "launch", "t.py", "--model", "small", "--lr", "1"});
  EXPECT_EQ(From(usual, "amp"), "default_config.yaml:1: mixed_precision");
  EXPECT_FALSE(Plan(Command({"python", "t.py", "--model", "small", "--lr", "1"})).amp);
  const TrainingPlan torchrun = Plan(
      Command({"env", "X=1", "torchrun", "--standalone", "--nproc-per-node=8", "-m", "lab.train",
               "--model", "small", "--lr", "1", "--fsdp", "full_shard auto_wrap"}));
  EXPECT_EQ(torchrun.ranks, 8);
  EXPECT_EQ(torchrun.data_parallel, DataParallel::kFsdp);
}

TEST_F(FindTrainingTest, ReadsAcceleratesShardingStrategy) {
  const std::string start = "accelerate launch --use_fsdp --num_processes 2 ";
  const std::string options = " t.py --model small --lr 1\n";
  EXPECT_EQ(Plan(Script(start + options)).data_parallel, DataParallel::kFsdp);
  for (const auto& [strategy, kind] : {std::pair("SHARD_GRAD_OP", DataParallel::kZero2),
                                       std::pair("NO_SHARD", DataParallel::kDdp)}) {
    const std::string sharded = start + "--fsdp_sharding_strategy " + strategy + options;
    EXPECT_EQ(Plan(Script(sharded)).data_parallel, kind) << strategy;
  }
}

TEST_F(FindTrainingTest, ReadsConfigurationsOfFrameworks) {
  files_["/lab/axolotl.yml"] =
      "base_model: lab/small\nadapter: qlora\nload_in_4bit: true\nlora_r: 64\n"
      "lora_target_linear: true\nsequence_len: 4096\nsample_packing: true\nmicro_batch_size: 2\n"
      "gradient_checkpointing: true\noptimizer: paged_adamw_8bit\nbf16: auto\n"
      "plugins:\n  - axolotl.integrations.liger.LigerPlugin\n"
      "liger_fused_linear_cross_entropy: true\ndatasets:\n  - path: x\n    type: alpaca\n";
  const TrainingFound axolotl = Script("accelerate launch -m axolotl.cli.train axolotl.yml\n");
  TrainingPlan plan = Plan(axolotl);
  EXPECT_EQ(plan.quantisation, Quantisation::kNf4Double);
  EXPECT_EQ(plan.optimizer, StepOptimizer::kPagedAdam);
  EXPECT_EQ(plan.loss, Loss::kFused);
  EXPECT_TRUE(plan.amp && plan.lora_targets.down);
  EXPECT_EQ(From(axolotl, "seq-len"), "axolotl.yml:6: sequence_len");

  files_["/lab/lf.yaml"] =
      "model_name_or_path: small\nstage: sft\nfinetuning_type: lora\nlora_target: all\n"
      "cutoff_len: 1024\nper_device_train_batch_size: 1\nbf16: true\n";
  plan = Plan(Script("llamafactory-cli train lf.yaml cutoff_len=512\n"));
  EXPECT_EQ(plan.sequence, 512) << "a later argument overrides the file";
  EXPECT_EQ(plan.lora_rank, 8);
  EXPECT_EQ(plan.checkpointing, Checkpointing::kFull);
  EXPECT_EQ(plan.weights, Dtype::kBf16);

  files_["/lab/tt.yaml"] =
      "tokenizer:\n  max_seq_len: 2048\nmodel:\n  _component_: "
      "torchtune.models.llama3.lora_llama3_8b\n"
      "  lora_attn_modules: ['q_proj', 'output_proj']\n  apply_lora_to_mlp: True\n  lora_rank: 4\n"
      "checkpointer:\n  checkpoint_dir: small\nbatch_size: 3\ndtype: bf16\n"
      "optimizer:\n  _component_: torch.optim.AdamW\n  fused: True\n"
      "loss:\n  _component_: torchtune.modules.loss.CEWithChunkedOutputLoss\n"
      "enable_activation_checkpointing: True\n";
  plan = Plan(Script(
      "tune run --nproc_per_node 2 lora_finetune_distributed --config tt.yaml batch_size=5\n"));
  EXPECT_EQ(plan.batch, 5);
  EXPECT_EQ(plan.method, Method::kLora);
  EXPECT_TRUE(plan.lora_targets.output && plan.lora_targets.up && !plan.lora_targets.key);
  EXPECT_EQ(plan.loss, Loss::kChunked);
  EXPECT_EQ(plan.optimizer, StepOptimizer::kAdamFused);
  EXPECT_EQ(plan.data_parallel, DataParallel::kFsdp);
  EXPECT_EQ(plan.ranks, 2);
  plan = Plan(
      Script("tune run lora_finetune_single_device --config llama3/8B_lora model_dir=small\n"));
  EXPECT_EQ(plan.method, Method::kLora) << "the recipe's name says so";
}

TEST_F(FindTrainingTest, ReadsTheTrainingScriptAsText) {
  files_["/lab/src/t.py"] =
      "model = AutoModelForCausalLM.from_pretrained('lab/small', torch_dtype=torch.bfloat16)\n"
      "peft = LoraConfig(r=4, target_modules='all-linear')\n"
      "args = SFTConfig(per_device_train_batch_size=2, max_length=256, bf16=True)\n";
  const TrainingFound found = Script("cd src\npython t.py --max_length 512\n");
  const TrainingPlan plan = Plan(found);
  EXPECT_EQ(plan.sequence, 512) << "options take precedence over the script";
  EXPECT_EQ(plan.batch, 2);
  EXPECT_EQ(plan.lora_rank, 4);
  EXPECT_TRUE(plan.lora_targets.down && plan.amp);
  EXPECT_EQ(From(found, "batch"), "t.py:3: per_device_train_batch_size");
}

TEST_F(FindTrainingTest, NotesFrozenPartsOfTheModel) {
  for (const char* freezes :
       {"for p in model.base_model.parameters():\n    p.requires_grad = False\n",
        "\nmodel.bert.requires_grad_(False)\n"}) {
    files_["/lab/t.py"] = freezes;
    const std::string command = "python t.py --model small --lr 1 --max_length 512";
    EXPECT_THAT(Script(command + "\n").notes,
                ElementsAre(HasSubstr("t.py:2: requires_grad: frozen parts are counted like")));
    EXPECT_THAT(Script(command + " --use_lora\n").notes, IsEmpty());
  }
  files_["/lab/t.py"] = "x = torch.zeros(3, requires_grad=False)\np.requires_grad = True\n";
  EXPECT_THAT(Script("python t.py --model small --lr 1\n").notes, IsEmpty());
  EXPECT_THAT(Script("python t.py --model small --lr 1 --freeze_backbone True\n").notes,
              ElementsAre(HasSubstr("--freeze_backbone: frozen parts are counted")));
}

TEST_F(FindTrainingTest, ClassifiersHaveNoScoresOverTheVocabulary) {
  files_["/lab/src/t.py"] =
      "model = AutoModelForSequenceClassification.from_pretrained('lab/small', num_labels=2)\n";
  const TrainingFound found = Script("cd src\npython t.py --max_length 512 --learning_rate 1\n");
  EXPECT_EQ(Plan(found).loss, Loss::kNone);
  EXPECT_EQ(From(found, "loss"), "t.py:1: class_head");
}

TEST_F(FindTrainingTest, AddsLengthsAndTrlsDefaultCheckpointing) {
  const TrainingPlan parts =
      Plan(Script("python q.py --model small --lr 1 --source_max_len 16 --target_max_len 512\n"));
  EXPECT_EQ(parts.sequence, 528);
  const std::string trl = "trl sft --model_name_or_path small --learning_rate 1 ";
  EXPECT_EQ(Plan(Script(trl + "--max_length 512\n")).checkpointing, Checkpointing::kFull);
  EXPECT_EQ(Plan(Script(trl + "--max_seq_length 512\n")).checkpointing, Checkpointing::kNone);
  files_["/lab/fit.py"] = "args = SFTConfig(learning_rate=1)\n";
  const TrainingFound script = Script("python fit.py --model small\n");
  EXPECT_EQ(Plan(script).checkpointing, Checkpointing::kFull);
  EXPECT_EQ(From(script, "seq-len"), "TRL's default");
  EXPECT_EQ(From(Script("python my/sft.py --model small --lr 1\n"), "seq-len"), "TRL's default");
  EXPECT_EQ(From(Script("python ctrl/t.py --model small --lr 1\n"), "seq-len"), "");
}

TEST_F(FindTrainingTest, UnknownValuesAreReported) {
  const TrainingFound found = Script(
      "for n in 16 32; do\n"
      "python t.py --model small --lr $(rate) --per_device_train_batch_size $n --bf16 $MORE\n");
  EXPECT_EQ(From(found, "batch"), "Trainer's default");
  EXPECT_THAT(found.notes,
              ElementsAre("train.sh:3: --per_device_train_batch_size: the value is known only when "
                          "the script runs, so batch is a guess"));
  EXPECT_TRUE(Plan(found).amp);
  files_["/lab/own.py"] = "p.add_argument('--batch_size', default=4)\n";
  const TrainingFound own = Script(
      "while getopts b: o; do B=$OPTARG; done\n"
      "python own.py --model small --lr 1 --batch_size $B\n");
  EXPECT_THAT(own.notes, ElementsAre(HasSubstr("so batch is a guess")));
  files_["/lab/fit.py"] =
      "p.add_argument('--max_length', default=64)\np.add_argument('--bs', type=int)\n"
      "args = SFTConfig(max_length=a.max_length, per_device_train_batch_size=a.bs)\n"
      "peft = LoraConfig(r=a.rank)\n";
  const TrainingFound script = Script("python fit.py --model small\n");
  EXPECT_EQ(Plan(script).sequence, 64);
  EXPECT_EQ(Plan(script).method, Method::kLora);
  EXPECT_THAT(script.notes, ElementsAre(HasSubstr("fit.py:3: per_device_train_batch_size: the"),
                                        HasSubstr("fit.py:4: lora_r: the value is known only")));
}

TEST_F(FindTrainingTest, UnknownSwitchesAreReported) {
  EXPECT_THAT(Script("python t.py --model small --lr 1 --optim=$(o) --deepspeed $(ds)\n").notes,
              ElementsAre(HasSubstr("--optim: the value is known only when the script runs, so "
                                    "optimizer is a guess"),
                          HasSubstr("--deepspeed: the value is known only when the script runs, so "
                                    "dp is a guess")));
  files_["/lab/t.py"] =
      "p.add_argument('--gradient_checkpointing', action='store_true')\n"
      "args = TrainingArguments(gradient_checkpointing=a.gradient_checkpointing)\n";
  EXPECT_THAT(Script("python t.py --model small --lr 1\n").notes, IsEmpty());
}

TEST_F(FindTrainingTest, AnUnknownModelIsNotReplacedByTheDefault) {
  files_["/lab/t.py"] = "p.add_argument('--model', default='small')\n";
  EXPECT_FALSE(Script("python t.py --lr 1\n").words.empty());
  EXPECT_THAT(Script("python t.py --lr 1 --model $(pick)\n").words, IsEmpty());
  for (const std::string program : {"trl sft", "python u.py"})
    EXPECT_THAT(
        Script("for M in a b; do\n" + program + " --model_name_or_path $M --lr 1\ndone\n").notes,
        ElementsAre("train.sh:3: --model_name_or_path: the model is known only when the "
                    "script runs"));
  EXPECT_FALSE(Script("python t.py --lr 1 --ckpt_dir $(mktemp -d)\n").words.empty());
}

TEST_F(FindTrainingTest, ASettingThatIsNoneDoesNotHideOthers) {
  EXPECT_FALSE(Script("python t.py --model small --lr 1 --lr_scheduler_type none\n").words.empty());
  EXPECT_THAT(Script("python t.py --model small --do_train False\n").words, IsEmpty());
}

TEST_F(FindTrainingTest, VariablesOfUnreadFilesAreUnknown) {
  const std::string command =
      "python t.py --model small --lr 1 --max_length $LEN --per_device_train_batch_size=$BS "
      "--bf16 $MORE\n";
  files_["/lab/env.sh"] = "BS=4\nLEN=512\n";
  const TrainingFound read = Script("source ./env.sh\n" + command);
  EXPECT_EQ(Plan(read).batch, 4);
  EXPECT_EQ(Plan(read).sequence, 512);
  EXPECT_THAT(read.notes, IsEmpty());
  const TrainingFound unread = Script("source ./other.sh\n" + command);
  EXPECT_THAT(unread.notes,
              ElementsAre(HasSubstr("so seq-len is a guess"), HasSubstr("so batch is a guess")));
  EXPECT_TRUE(Plan(unread).amp) << "MORE is most likely empty";
  files_["/lab/run.sh"] = "$PYTHON t.py --model small --lr 1 --max_length $LEN\n";
  const TrainingFound inside = Script("LEN=64\n. ./other.sh; . ./run.sh\n");
  EXPECT_EQ(Plan(inside).sequence, 64);
  EXPECT_EQ(From(inside, "seq-len"), "run.sh:1: --max_length");
}

TEST_F(FindTrainingTest, AFunctionsArgumentsAreUnknown) {
  const TrainingFound found = Script(
      "fit() {\npython t.py --model small --lr 1 --per_device_train_batch_size $1\n}\nfit 64\n",
      {"2"});
  EXPECT_EQ(Plan(found).batch, 8);
  EXPECT_THAT(found.notes, ElementsAre(HasSubstr("so batch is a guess")));
}

TEST_F(FindTrainingTest, UsesTheLargerEstimateIfConditionsDecide) {
  const std::string command =
      "python t.py --model small --lr 1 --max_length 512 --per_device_train_batch_size $BS\n";
  const TrainingFound found =
      Script("BS=8\nif [ \"$1\" = big ]; then BS=16; else BS=2; fi\n" + command);
  EXPECT_EQ(Plan(found).batch, 16);
  EXPECT_THAT(found.notes, ElementsAre(HasSubstr("conditions in the script decide between ")));
  const TrainingFound same = Script("BS=8\nPORT=1\n[ x ] && PORT=2\n" + command);
  EXPECT_EQ(Plan(same).batch, 8);
  EXPECT_THAT(same.notes, IsEmpty()) << "the condition does not affect memory";
}

TEST_F(FindTrainingTest, FlagsOfTheScriptAreOffByDefault) {
  files_["/lab/fit.py"] =
      "p.add_argument('--use_lora', action='store_true')\nif a.use_lora:\n  LoraConfig(r=8)\n";
  EXPECT_EQ(Plan(Script("python fit.py --model small --lr 1\n")).method, Method::kFull);
  EXPECT_EQ(Plan(Script("python fit.py --model small --lr 1 --use_lora\n")).method, Method::kLora);
}

TEST_F(FindTrainingTest, AnAutomaticTypeIsTheConfigsType) {
  const std::string command = "python t.py --model small --lr 1 --torch_dtype ";
  EXPECT_EQ(Plan(Script(command + "auto\n")).weights, Dtype::kBf16);
  EXPECT_EQ(Plan(Script(command + "float32\n")).weights, Dtype::kFp32);
  EXPECT_EQ(Plan(Script(command + "bfloat16 --precision 16-mixed\n")).weights, Dtype::kBf16);
}

TEST_F(FindTrainingTest, FindsScriptsThatAreStartedDirectly) {
  const std::string options = "t.py --model small --lr 1\n";
  for (const char* start : {"./", "env A=1 ./", "uv run ", "uv run --with x --python 3.12 "})
    EXPECT_FALSE(Script(start + options).words.empty()) << start;
  for (const char* other : {"cp ", "git add ", "vim "})
    EXPECT_THAT(Script(other + options).words, IsEmpty()) << other;
}

TEST_F(FindTrainingTest, IgnoresPreferenceTrainingsThatAreNotModelled) {
  EXPECT_THAT(
      Script("python run_ppo.py --model small --lr 1\n").notes,
      ElementsAre(HasSubstr("train.sh:2: run_ppo.py: this kind of preference training is not")));
  EXPECT_THAT(Script("python reward_modeling.py --model small --lr 1\n").notes,
              ElementsAre(HasSubstr("reward_modeling.py: this kind of preference training is")));
  files_["/lab/fit.py"] = "args = CPOConfig(learning_rate=1)\n";
  EXPECT_THAT(Script("python fit.py --model small --lr 1\n").words, IsEmpty());
  files_["/lab/ppo.yaml"] = "model_name_or_path: small\nstage: ppo\nlearning_rate: 1\n";
  const TrainingFound found = Script("llamafactory-cli train ppo.yaml\n");
  EXPECT_THAT(found.words, IsEmpty());
  EXPECT_THAT(found.notes,
              ElementsAre("ppo.yaml:2: stage: this kind of preference training is not modelled"));
}

TEST_F(FindTrainingTest, ReadsPreferenceTrainingsOfKnownModels) {
  files_["/lab/dpo.yaml"] = "model_name_or_path: small\nstage: dpo\nfinetuning_type: full\n";
  TrainingPlan plan = Plan(Script("llamafactory-cli train dpo.yaml\n"));
  EXPECT_EQ(plan.objective, Objective::kPreferences);
  EXPECT_TRUE(plan.reference);
  files_["/lab/grpo.yml"] =
      "base_model: lab/small\nrl: grpo\nvllm_gpu_memory_utilization: 0.4\nmicro_batch_size: 2\n";
  plan = Plan(Script("accelerate launch -m axolotl.cli.train grpo.yml\n"));
  EXPECT_EQ(plan.objective, Objective::kGroups);
  EXPECT_EQ(plan.rollout_share, 0.4);
}

TEST_F(FindTrainingTest, ReadsTrlsPreferenceTrainers) {
  TrainingPlan plan = Plan(Script(
      "trl dpo --model_name_or_path small --learning_rate 1 --max_length 2048 --beta 0.1\n"));
  EXPECT_EQ(plan.objective, Objective::kPreferences);
  EXPECT_TRUE(plan.reference);
  EXPECT_EQ(plan.sequence, 2048);
  files_["/lab/fit.py"] =
      "args = GRPOConfig(max_completion_length=1024, per_device_train_batch_size=4, beta=0.04,\n"
      "  use_vllm=True, vllm_mode='colocate', vllm_gpu_memory_utilization=0.25,\n"
      "  learning_rate=1e-6, bf16=True, model_init_kwargs={'torch_dtype': 'bfloat16'})\n"
      "trainer = GRPOTrainer(model='small', args=args, reward_funcs=[len])\n";
  const TrainingFound found = Script("accelerate launch fit.py\n");
  plan = Plan(found);
  EXPECT_EQ(plan.objective, Objective::kGroups);
  EXPECT_EQ(plan.sequence, 512 + 1024) << "TRL's default prompt length plus the answer";
  EXPECT_TRUE(plan.reference);
  EXPECT_EQ(plan.rollout_share, 0.25);
  EXPECT_EQ(plan.weights, Dtype::kBf16);
  EXPECT_EQ(From(found, "seq-len"), "fit.py:1: max_completion_length");
}

TEST_F(FindTrainingTest, RecognisesUnslothsKernels) {
  files_["/lab/fit.py"] =
      "model, tokenizer = FastLanguageModel.from_pretrained(model_name='small',\n"
      "    max_seq_length=2048, load_in_4bit=True)\n"
      "model = FastLanguageModel.get_peft_model(model, r=32, target_modules=['q_proj'],\n"
      "    use_gradient_checkpointing='unsloth')\n"
      "trainer = SFTTrainer(model=model, args=SFTConfig(per_device_train_batch_size=2,\n"
      "    learning_rate=2e-4, optim='adamw_8bit'))\n";
  const TrainingPlan plan = Plan(Script("python fit.py\n"));
  EXPECT_EQ(plan.quantisation, Quantisation::kNf4Double);
  EXPECT_EQ(plan.lora_rank, 32);
  EXPECT_EQ(plan.loss, Loss::kFused);
  EXPECT_TRUE(plan.fused_layers && plan.offload_activations && !plan.fp32_rest);
}

TEST_F(FindTrainingTest, ReadsTheShareOfAnInferenceEngine) {
  const auto share = [&](const std::string& script) {
    const TrainingFound found = Script(script);
    EXPECT_EQ(found.config, "");
    return found.words.size() == 1 && found.words[0].name == "rollout-share"
               ? found.words[0].value + " (" + found.words[0].from + ")"
               : ::testing::PrintToString(found.notes);
  };
  EXPECT_EQ(share("uv run vllm serve lab/small --gpu-memory-utilization 0.5\n"),
            "0.5 (train.sh:2: --gpu-memory-utilization)");
  EXPECT_EQ(share("vllm serve lab/small --port 8000\n"), "0.9 (train.sh:2: vllm serve)");
  EXPECT_EQ(share("python -m vllm.entrypoints.openai.api_server --model x\n"),
            "0.9 (train.sh:2: vllm.entrypoints.openai.api_server)");
  EXPECT_EQ(share("python -m sglang.launch_server --model x --mem-fraction-static=0.7\n"),
            "0.7 (train.sh:2: --mem-fraction-static)");
  files_["/lab/ask.py"] =
      "from vllm import LLM\nllm = LLM(model='x', gpu_memory_utilization=0.3, seed=1)\n";
  EXPECT_EQ(share("python ask.py\n"), "0.3 (ask.py:2: gpu_memory_utilization)");
  files_["/lab/ask.py"] = "import vllm\nllm = vllm.LLM('x')\n";
  EXPECT_EQ(share("python ask.py\n"), "0.9 (ask.py:2)");
  for (const char* other : {"vllm serve x --kv-cache-memory-bytes 9000000000\n",
                            "pip install vllm\n", "vllm bench serve --model x\n"}) {
    EXPECT_THAT(Script(other).words, IsEmpty()) << other;
  }
  EXPECT_THAT(Script("vllm serve x --gpu-memory-utilization $(share)\n").notes,
              ElementsAre(HasSubstr("so rollout-share is a guess")));
}

TEST_F(FindTrainingTest, AnEnginesModelIsNotTheTrainedModel) {
  files_["/lab/fit.py"] =
      "from vllm import LLM\nargs = TrainingArguments(learning_rate=1)\n"
      "llm = LLM(model=args.output_dir, gpu_memory_utilization=0.01)\n";
  const TrainingFound found = Script("python fit.py --model small\n");
  EXPECT_EQ(found.config, "/lab/small/config.json") << "the training needs more than the engine";
  EXPECT_EQ(Plan(found).rollout_share, 0);
}

TEST_F(FindTrainingTest, UsesAStatedConfigForAnyModel) {
  task::TaskSpec spec = Spec();
  spec.script = "#!/bin/bash\npython t.py --model lab/other --lr 1 --max_length 512\n";
  spec.model_summary = "/lab/small/config.json";
  const TrainingFound found = Find(spec);
  EXPECT_EQ(found.config, "/lab/small/config.json");
  EXPECT_EQ(Plan(found).sequence, 512);
  EXPECT_THAT(found.notes, IsEmpty());
}

TEST_F(FindTrainingTest, ReadsMegatronsOptionsTogetherWithAConfig) {
  const std::string options =
      "ARGS=(--num-layers 16 --hidden-size 1024 --num-attention-heads 8 --seq-length 4096\n"
      "  --micro-batch-size 2 --lr 6e-5 --bf16 --use-distributed-optimizer)\n"
      "torchrun --nproc_per_node 8 pretrain_gpt.py ${ARGS[@]} --tensor-model-parallel-size 2 \\\n"
      "  --sequence-parallel --recompute-activations\n";
  EXPECT_THAT(Script(options).notes,
              ElementsAre(HasSubstr("pass its config.json with --hf-config")));
  task::TaskSpec spec = Spec();
  spec.script = "#!/bin/bash\n" + options;
  spec.model_summary = "/lab/small/config.json";
  const TrainingPlan plan = Plan(Find(spec));
  EXPECT_TRUE(plan.megatron && plan.sequence_parallel && !plan.amp);
  EXPECT_EQ(plan.data_parallel, DataParallel::kZero1);
  EXPECT_EQ(plan.sequence, 4096);
  EXPECT_EQ(plan.batch, 2);
  EXPECT_EQ(plan.ranks, 4);
  EXPECT_EQ(plan.checkpointing, Checkpointing::kAttention);
}

TEST_F(FindTrainingTest, FindsNemosFileByItsName) {
  files_["/lab/conf/gpt.yaml"] =
      "trainer:\n  devices: 8\nmodel:\n  tensor_model_parallel_size: 4\n  micro_batch_size: 2\n"
      "  encoder_seq_length: 1024\n  num_layers: 16\n  hidden_size: 1024\n"
      "  num_attention_heads: 8\n  activations_checkpoint_granularity: full\n"
      "  optim:\n    name: distributed_fused_adam\n    lr: 5e-6\n";
  task::TaskSpec spec = Spec();
  spec.script =
      "#!/bin/bash\npython tune.py --config-path=conf --config-name=gpt model.micro_batch_size=1\n";
  spec.model_summary = "/lab/small/config.json";
  const TrainingPlan plan = Plan(Find(spec));
  EXPECT_EQ(plan.tensor_parallel, 4);
  EXPECT_EQ(plan.ranks, 2);
  EXPECT_EQ(plan.batch, 1);
  EXPECT_EQ(plan.sequence, 1024);
  EXPECT_EQ(plan.checkpointing, Checkpointing::kFull);
  EXPECT_EQ(plan.data_parallel, DataParallel::kZero1);
}

TEST_F(FindTrainingTest, ReadsLightningsSettings) {
  const TrainingPlan plan = Plan(
      Script("python fit.py --model small --lr 1 --precision bf16-mixed --devices 4 --strategy "
             "deepspeed_stage_3_offload\n"));
  EXPECT_TRUE(plan.amp && plan.offload_optimizer);
  EXPECT_EQ(plan.weights, Dtype::kFp32);
  EXPECT_EQ(plan.data_parallel, DataParallel::kZero3);
  EXPECT_EQ(plan.ranks, 4);
  const TrainingPlan sections = Plan(Script(
      "python fit.py fit --model.model_name_or_path small --optimizer.lr 1 --trainer.devices "
      "2 --data.batch_size 16 +trainer.precision=bf16-mixed\n"));
  EXPECT_EQ(sections.batch, 16);
  EXPECT_EQ(sections.ranks, 2);
  EXPECT_TRUE(sections.amp);
}

TEST_F(FindTrainingTest, ReadsTheAllocatorsSetting) {
  const std::string command = "python t.py --model small --lr 1\n";
  EXPECT_FALSE(Plan(Script(command)).expandable_segments);
  const std::string setting = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True";
  EXPECT_TRUE(Plan(Script(setting + " " + command)).expandable_segments);
  EXPECT_TRUE(Plan(Script("export " + setting + "\n" + command)).expandable_segments);
}

TEST_F(FindTrainingTest, FindsModelsInTheCacheThatTheScriptNames) {
  files_["/scratch/hub/models--lab--far/refs/main"] = "0a1b\n";
  files_["/scratch/hub/models--lab--far/snapshots/0a1b/config.json"] = kSmall;
  files_["/lab/inner.sh"] = "python t.py --model lab/far --lr 1\n";
  EXPECT_FALSE(Script("export HF_HOME=/scratch\nbash inner.sh\n").words.empty());
  EXPECT_FALSE(Script("HF_HUB_CACHE=/scratch/hub bash inner.sh\n").words.empty());
  EXPECT_THAT(Script("bash inner.sh\n").words, IsEmpty());
}

TEST_F(FindTrainingTest, FollowsScriptsThatStartScripts) {
  files_["/lab/inner.sh"] = "python t.py --model_name_or_path $1 --num_train_epochs 3\n";
  EXPECT_FALSE(Script("bash inner.sh small\n").words.empty());
  EXPECT_THAT(Script("cp inner.sh small\n").words, IsEmpty());
  EXPECT_FALSE(Script("bash -c 'python t.py --model small --lr 1'\n").words.empty());
  files_["/lab/sized.sh"] =
      "python t.py --model small --lr 1 --per_device_train_batch_size ${1:-8}\n";
  EXPECT_EQ(Plan(Script("bash sized.sh 64\n")).batch, 64);
  EXPECT_THAT(Script("for B in 64; do bash sized.sh $B; done\n").notes,
              ElementsAre(HasSubstr("so batch is a guess")));
  files_["/lab/loop.sh"] = "bash loop.sh\n";
  EXPECT_THAT(Script("bash loop.sh\n").words, IsEmpty()) << "the recursion ends";
}

TEST_F(FindTrainingTest, ChoosesTheTrainingThatNeedsTheMostMemory) {
  const TrainingFound found = Script(
      "python t.py --model small --lr 1 --max_length 128\n"
      "python t.py --model small --lr 1 --max_length 8192\n"
      "python t.py --model small --lr 1 --max_length 512\n");
  EXPECT_EQ(Plan(found).sequence, 8192);
  std::string runs;
  for (int n = 1; n <= 60; ++n)
    runs += "python t.py --model lab/small --lr 1 --per_device_train_batch_size " +
            std::to_string(n) + "\n";
  const TrainingFound many = Script(runs);
  EXPECT_EQ(Plan(many).batch, 60) << "files that were read before do not count again";
  EXPECT_THAT(many.notes, IsEmpty());
  for (int n = 0; n < 5; ++n) runs += runs;
  EXPECT_THAT(Script(runs).notes, ElementsAre(HasSubstr("only the first training runs")));
}

TEST_F(FindTrainingTest, SaysThatRunsInTheBackgroundAreNotAddedUp) {
  const std::string run = "python t.py --model small --lr 1 &\n";
  const std::string gpu = "export CUDA_VISIBLE_DEVICES=";
  for (const std::string& several :
       {run + run + "wait\n", "for s in 1 2; do\n" + run + "done\n",
        gpu + "0\n" + run + run + "wait\n", "source none.sh\n" + run + run})
    EXPECT_THAT(Script(several).notes, ElementsAre(HasSubstr("in the background may share a GPU")));
  for (const std::string& apart :
       {run + "wait\n", "for i in 0 1; do\nCUDA_VISIBLE_DEVICES=$i " + run + "done\n",
        "for i in 0 1; do\nenv CUDA_VISIBLE_DEVICES=$i " + run + "done\n",
        "for i in 0 1; do\n" + gpu + "$i\n" + run + "done\n",
        gpu + "0\n" + run + gpu + "1\n" + run + "wait\n"})
    EXPECT_THAT(Script(apart).notes, IsEmpty()) << apart;
}

TEST_F(FindTrainingTest, IgnoresCommandsWithoutATransformerTraining) {
  for (const char* script :
       {"python train.py --arch resnet50 --epochs 90 --batch-size 256 --lr 0.1\n",
        "python eval.py --model_name_or_path small --max_length 512\n",
        "echo python t.py --model small --lr 1\n", "make\n",
        "python -c 'print(1)' --model small --lr 1\n"}) {
    const TrainingFound found = Script(script);
    EXPECT_THAT(found.words, IsEmpty()) << script;
    EXPECT_EQ(found.config, "");
    EXPECT_THAT(found.notes, IsEmpty()) << script;
  }
}

TEST_F(FindTrainingTest, ReportsProblems) {
  EXPECT_THAT(
      Script("python t.py --model_name_or_path lab/other --lr 1\n").notes,
      ElementsAre("train.sh:2: --model_name_or_path: no config.json for 'lab/other' here or in "
                  "the Hugging Face cache (pass it with --hf-config)"));
  EXPECT_THAT(Script("axolotl train none.yml\n").notes, ElementsAre(HasSubstr("none.yml: none")));
  EXPECT_THAT(Script("python t.py --model small --lr 1 --optim galore --max_length x\n").notes,
              ElementsAre(HasSubstr("train.sh:2: --max_length: seq-len: 'x': expected a number"),
                          HasSubstr("train.sh:2: --optim: optimizer: 'galore': expected adamw")));
}

TEST_F(FindTrainingTest, ReadsSplitsOverManyGpus) {
  const TrainingPlan plan = Plan(Script(
      "torchrun --nproc_per_node 16 train.py --model_name_or_path lab/small --lr 1e-5 \\\n"
      "  --tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 --context-parallel-size 2 "
      "\\\n"
      "  --sequence-parallel --recompute-granularity selective --activation-offloading true\n"));
  EXPECT_EQ(plan.tensor_parallel, 2);
  EXPECT_EQ(plan.pipeline, 4);
  EXPECT_EQ(plan.context_parallel, 2);
  EXPECT_TRUE(plan.sequence_parallel && plan.offload_activations);
  EXPECT_EQ(plan.checkpointing, Checkpointing::kAttention);
}

TEST_F(FindTrainingTest, TakesTheModelSizeFromTheWeightIndex) {
  files_
      ["/home/ann/.cache/huggingface/hub/models--lab--small/snapshots/0a1b/"
       "model.safetensors.index.json"] = R"({"metadata":{"total_size":2000000000}})";
  const TrainingFound found = Script("python train.py --model_name_or_path lab/small --lr 1e-5\n");
  EXPECT_EQ(Plan(found).parameters, 1'000'000'000);
  EXPECT_EQ(From(found, "parameters"), "model.safetensors.index.json: total_size");
}

TEST_F(FindTrainingTest, UsesTheTokenizersLengthAsALastResort) {
  files_["/lab/train.py"] = "ids = tokenizer(texts, max_length=128, truncation=True)\n";
  EXPECT_EQ(Plan(Script("python train.py --model_name_or_path lab/small --lr 1\n")).sequence, 128);
  EXPECT_EQ(Plan(Script("python train.py --model_name_or_path lab/small --lr 1 --max_length 64\n"))
                .sequence,
            64);
}

TEST_F(FindTrainingTest, ReadsTorchtitansFile) {
  files_["/lab/t.toml"] =
      "[model]\nname = \"llama3\"\nhf_assets_path = \"./small\"\n[training]\n"
      "local_batch_size = 2\nseq_len = 4096\n[activation_checkpoint]\nmode = \"full\"\n";
  files_["/lab/run_train.sh"] =
      "#!/usr/bin/bash\nNGPU=${NGPU:-\"8\"}\n"
      "PYTORCH_CUDA_ALLOC_CONF=\"expandable_segments:True\" \\\n"
      "torchrun --nproc_per_node=${NGPU} -m torchtitan.train --job.config_file ${CONFIG_FILE} "
      "\"$@\"\n";
  const TrainingFound found =
      Script("CONFIG_FILE=./t.toml ./run_train.sh --training.local_batch_size=1\n");
  EXPECT_EQ(found.config, "/lab/small/config.json");
  const TrainingPlan plan = Plan(found);
  EXPECT_EQ(plan.ranks, 8);
  EXPECT_EQ(plan.batch, 1);
  EXPECT_EQ(plan.sequence, 4096);
  EXPECT_EQ(plan.checkpointing, Checkpointing::kFull);
  EXPECT_EQ(plan.data_parallel, DataParallel::kFsdp);
  EXPECT_TRUE(plan.expandable_segments);
  EXPECT_EQ(From(found, "seq-len"), "t.toml:6: training.seq_len");
  EXPECT_EQ(Plan(Script("CONFIG_FILE=./t.toml ./run_train.sh\n")).batch, 2) << "no arguments";
}

TEST_F(FindTrainingTest, ReadsScriptsOfDiffusers) {
  files_["/lab/dit/model_index.json"] =
      R"({"_class_name":"SomePipeline","transformer":["diffusers","SD3Transformer2DModel"],)"
      R"("vae":["diffusers","AutoencoderKL"]})";
  files_["/lab/dit/transformer/config.json"] =
      R"({"_class_name":"SD3Transformer2DModel","num_layers":4,"num_attention_heads":4,)"
      R"("attention_head_dim":64,"sample_size":64,"patch_size":2})";
  files_["/lab/dit/vae/config.json"] = R"({"block_out_channels":[128,256]})";
  const TrainingFound found = Script(
      "accelerate launch --mixed_precision=fp16 train_text_to_image_lora.py \\\n"
      "  --pretrained_model_name_or_path=./dit --resolution=512 --train_batch_size=2 \\\n"
      "  --learning_rate=1e-4 --rank 8 --use_8bit_adam --mixed_precision=fp16\n");
  EXPECT_EQ(found.config, "/lab/dit/transformer/config.json")
      << ::testing::PrintToString(found.notes);
  const auto config = ParseTransformerConfig(files_[found.config], "c");
  ASSERT_TRUE(config);
  const auto plan = PlanOf(found.words, *config);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->method, Method::kLora);
  EXPECT_EQ(plan->lora_rank, 8);
  EXPECT_EQ(plan->weights, Dtype::kFp16);
  EXPECT_EQ(plan->optimizer, StepOptimizer::kAdam8Bit);
  EXPECT_EQ(plan->sequence, 1024 + 333);
  EXPECT_TRUE(plan->encodes_images);
  EXPECT_GT(plan->frozen_parameters, 1'000'000);
  EXPECT_TRUE(plan->lora_targets.output) << "all four matrices of an attention layer";
  EXPECT_THAT(Script("accelerate launch train_dreambooth.py --train_text_encoder \\\n"
                     "  --pretrained_model_name_or_path=./dit --learning_rate=1\n")
                  .notes,
              ::testing::Contains(HasSubstr("the text encoder is counted as frozen")));
}

TEST_F(FindTrainingTest, LimitsAnUnknownLengthToTheTokenizersMaximum) {
  files_["/lab/small/tokenizer_config.json"] = R"({"model_max_length":384})";
  const TrainingFound found =
      Script("python train.py --model_name_or_path ./small --num_train_epochs 1\n");
  EXPECT_EQ(Plan(found).sequence, 384);
  EXPECT_EQ(From(found, "tokenizer-len"), "tokenizer_config.json: model_max_length");
}

}  // namespace
}  // namespace carma::estimate
