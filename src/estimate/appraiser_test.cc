#include "estimate/appraiser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "estimate/signature.h"

namespace carma::estimate {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint32_t kAda = 1000;

// Two fully connected layers, as torchsummary prints them.
constexpr const char* kSummary =
    "----------------------------------------------------------------\n"
    "        Layer (type)               Output Shape         Param #\n"
    "================================================================\n"
    "            Linear-1                 [-1, 1024]         803,840\n"
    "              ReLU-2                 [-1, 1024]               0\n"
    "            Linear-3                   [-1, 10]          10,250\n"
    "================================================================\n"
    "Total params: 814,090\n";

task::TaskSpec Spec(const std::string& summary = "") {
  task::TaskSpec spec;
  spec.command = {"python", "train.py"};
  spec.workdir = "/home/ada";
  spec.optimizer = "adam";
  spec.batch_size = 32;
  if (!summary.empty()) spec.model_summary = summary;
  return spec;
}

AppraisalRules Rules(std::shared_ptr<const History> history = nullptr) {
  AppraisalRules rules;
  rules.gpu_type = "A100";
  rules.gpu_mib = 40'000;
  rules.history = std::move(history);
  return rules;
}

task::Observation Peak(const Summary& summary, std::int64_t measured_mib) {
  const task::TaskSpec spec = Spec();
  std::vector<std::string> remarks;
  const Question question = QuestionOf(spec, kAda, summary, remarks);
  task::Observation run;
  run.signature = question.signature;
  run.kin = question.kin;
  run.gpu_type = "A100";
  run.measured_mib = measured_mib;
  return run;
}

TEST(Appraiser, UsesTheBestAvailableSource) {
  const Summary summary = ReadSummary(std::string(kSummary), "m.txt");
  ASSERT_TRUE(summary.layers) << summary.trouble;
  Summary broken;
  broken.trouble = "m.txt:3: expected a layer";
  auto history = std::make_shared<History>();
  const Appraiser fresh(Rules(history));

  const Appraisal reckoned = fresh.Appraise(Spec("m.txt"), kAda, summary);
  ASSERT_TRUE(reckoned.estimate) << reckoned.remarks.back();
  EXPECT_EQ(reckoned.estimate->method, "structural");
  EXPECT_GT(*reckoned.estimate->predicted_mib, 500);
  EXPECT_GE(reckoned.estimate->peak_mib, *reckoned.estimate->predicted_mib);
  EXPECT_EQ(reckoned.model, summary.fingerprint);
  ASSERT_TRUE(reckoned.formula) << "needed to learn from the finished task";
  EXPECT_EQ(reckoned.kind, KindOf(Signature(Spec("m.txt"), kAda, summary.fingerprint)));

  const Appraisal unreadable = fresh.Appraise(Spec("m.txt"), kAda, broken);
  EXPECT_FALSE(unreadable.estimate);
  EXPECT_THAT(unreadable.remarks, ElementsAre(HasSubstr("no estimate: m.txt:3: ")));
  EXPECT_FALSE(fresh.Appraise(Spec(), kAda, {}).estimate);
  EXPECT_THAT(fresh.Appraise(Spec(), kAda, {}).remarks, IsEmpty());

  task::TaskSpec stated = Spec("m.txt");
  stated.memory_mib = 99'000;
  const Appraisal given = fresh.Appraise(stated, kAda, summary);
  EXPECT_EQ(given.estimate, (core::Estimate{99'000, "given", std::nullopt}))
      << "a user's figure is not capped at the GPU's memory";
  EXPECT_TRUE(given.formula) << "the calibration still learns from the task";

  history->Add(Peak(summary, 3'000));
  const Appraisal known = fresh.Appraise(Spec("m.txt"), kAda, summary);
  EXPECT_EQ(known.estimate, (core::Estimate{3'300, "history", 3'000}));
  EXPECT_EQ(fresh.Appraise(stated, kAda, summary).estimate->method, "given");
  EXPECT_EQ(fresh.Appraise(Spec("m.txt"), kAda, summary, &reckoned).estimate, known.estimate);
  AppraisalRules trusting = Rules(history);
  trusting.prefer_given = false;
  EXPECT_EQ(Appraiser(trusting).Appraise(stated, kAda, summary).estimate->method, "history");
  AppraisalRules bare = Rules(history);
  bare.coverage = 0;
  EXPECT_EQ(Appraiser(bare).Appraise(Spec("m.txt"), kAda, summary).estimate->peak_mib, 3'000);
}

TEST(Appraiser, LimitsPredictionsToTheLargestGpu) {
  auto history = std::make_shared<History>();
  history->Add(Peak({}, 39'000));
  const Appraisal result = Appraiser(Rules(history)).Appraise(Spec(), kAda, {});
  EXPECT_EQ(result.estimate, (core::Estimate{40'000, "history", 39'000}));
}

TEST(Appraiser, PromisesAnInferenceEngineItsShareOfTheLargestGpu) {
  task::TaskSpec spec = Spec();
  spec.training = {{"rollout-share", "0.5", "serve.sh:2: --gpu-memory-utilization"}};
  const Appraisal half = Appraiser(Rules()).Appraise(spec, kAda, {});
  EXPECT_EQ(half.estimate, (core::Estimate{21'640, "share", 20'000}));
  EXPECT_THAT(half.remarks,
              ElementsAre("read: rollout-share 0.5 (serve.sh:2: --gpu-memory-utilization)",
                          HasSubstr("reserves 0.5 of the GPU's memory")));
  spec.training.front().value = "0.99";
  EXPECT_EQ(Appraiser(Rules()).Appraise(spec, kAda, {}).estimate->peak_mib, 40'000);
  AppraisalRules no_gpu = Rules();
  no_gpu.gpu_mib = 0;
  EXPECT_FALSE(Appraiser(no_gpu).Appraise(spec, kAda, {}).estimate);
  auto history = std::make_shared<History>();
  task::Observation run = Peak({}, 30'000);
  run.signature = Signature(spec, kAda, "");
  history->Add(run);
  EXPECT_EQ(Appraiser(Rules(history)).Appraise(spec, kAda, {}).estimate->method, "history");
}

TEST(Appraiser, UsesAPriorAfterThreeRunsOfAProgram) {
  auto history = std::make_shared<History>();
  for (const std::int64_t mib : {4'000, 6'000, 5'000}) {
    task::Observation run = Peak({}, mib);
    run.signature = "another setting of " + std::to_string(mib);
    EXPECT_FALSE(Appraiser(Rules(history)).Appraise(Spec(), kAda, {}).estimate);
    history->Add(run);
  }
  const Appraisal result = Appraiser(Rules(history)).Appraise(Spec(), kAda, {});
  EXPECT_EQ(result.estimate, (core::Estimate{6'000, "prior", 6'000}));
  EXPECT_THAT(result.remarks, ElementsAre(HasSubstr("4000 to 6000 MiB")));
}

// A small Llama model with 271 M parameters and 16-bit weights.
constexpr const char* kConfig =
    R"({"model_type":"llama","num_hidden_layers":16,"hidden_size":1024,"num_attention_heads":8,)"
    R"("intermediate_size":2816,"vocab_size":32000,"torch_dtype":"bfloat16"})";

TEST(Appraiser, EstimatesATransformerFromConfigAndTask) {
  const Summary summary = ReadSummary(std::string(kConfig), "config.json");
  ASSERT_TRUE(summary.transformer) << summary.trouble;
  EXPECT_FALSE(summary.layers);
  EXPECT_FALSE(summary.fingerprint.empty());
  const Appraiser appraiser(Rules());
  task::TaskSpec spec = Spec("/home/ada/config.json");
  spec.optimizer = "adamw";
  spec.training = {{"seq-len", "512", "train.sh:3: --max_length"}};
  const Appraisal full = appraiser.Appraise(spec, kAda, summary);
  ASSERT_TRUE(full.estimate);
  EXPECT_EQ(full.estimate->method, "transformer");
  EXPECT_GE(full.estimate->peak_mib, full.estimate->predicted_mib);
  EXPECT_FALSE(full.formula) << "the structural formula cannot learn from a config.json";
  EXPECT_THAT(full.remarks, ElementsAre("read: seq-len 512 (train.sh:3: --max_length)",
                                        HasSubstr("MiB of the estimate is for tensors")));

  spec.training.push_back({"method", "lora", ""});
  const Appraisal adapters = appraiser.Appraise(spec, kAda, summary);
  ASSERT_TRUE(adapters.estimate);
  EXPECT_LT(adapters.estimate->peak_mib, full.estimate->peak_mib);
  EXPECT_NE(adapters.kind, full.kind) << "learned separately";

  spec.training.push_back({"dp", "magic", ""});
  const Appraisal nothing = appraiser.Appraise(spec, kAda, summary);
  EXPECT_FALSE(nothing.estimate);
  EXPECT_THAT(nothing.remarks.back(), HasSubstr("--dp: 'magic': expected ddp"));
}

TEST(Appraiser, CorrectsTransformersByRunsWithOtherSettings) {
  const Summary summary = ReadSummary(std::string(kConfig), "config.json");
  task::TaskSpec spec = Spec("/home/ada/config.json");
  spec.training = {{"seq-len", "512", ""}};
  auto history = std::make_shared<History>();
  const Appraiser appraiser(Rules(history));
  const Appraisal alone = appraiser.Appraise(spec, kAda, summary);
  ASSERT_TRUE(alone.estimate);
  // With three other lengths, the program needed a fifth less memory than estimated.
  for (const char* length : {"128", "256", "1024"}) {
    task::TaskSpec other = spec;
    other.training = {{"seq-len", length, ""}};
    const Appraisal reckoned = Appraiser(Rules()).Appraise(other, kAda, summary);
    task::Observation run;
    run.signature = Signature(other, kAda, summary.fingerprint);
    run.kin = Kin(other, kAda);
    run.method = reckoned.estimate->method;
    run.predicted_mib = reckoned.estimate->predicted_mib;
    run.measured_mib = *run.predicted_mib * 4 / 5;
    history->Add(run);
  }
  const Appraisal related = appraiser.Appraise(spec, kAda, summary);
  ASSERT_TRUE(related.estimate);
  EXPECT_EQ(related.estimate->method, "relatives");
  const double factor = std::pow(0.8, 3.0 / 4);
  EXPECT_NEAR(static_cast<double>(*related.estimate->predicted_mib),
              factor * static_cast<double>(*alone.estimate->predicted_mib), 3);
  EXPECT_NEAR(static_cast<double>(related.estimate->peak_mib),
              factor * static_cast<double>(alone.estimate->peak_mib), 3);
  EXPECT_THAT(related.remarks.back(), HasSubstr("3 runs of the same program"));
}

TEST(Appraiser, PredictsFromRunsWithOtherBatches) {
  auto history = std::make_shared<History>();
  const Appraiser appraiser(Rules(history));
  task::TaskSpec spec = Spec();
  const auto ran = [&](std::int64_t batch, std::int64_t measured_mib, const char* gpu_type) {
    task::TaskSpec other = spec;
    other.batch_size = batch;
    task::Observation run;
    run.signature = Signature(other, kAda, "");
    run.kin = Kin(other, kAda);
    run.relation = Relation(other, kAda, "");
    run.batch = batch;
    run.gpu_type = gpu_type;
    run.measured_mib = measured_mib;
    history->Add(run);
  };
  ran(16, 3'000, "H100");
  ran(64, 9'000, "H100");
  const Appraisal elsewhere = appraiser.Appraise(spec, kAda, {});
  ASSERT_TRUE(elsewhere.estimate);
  EXPECT_EQ(elsewhere.estimate->method, "amounts");
  EXPECT_EQ(elsewhere.estimate->predicted_mib, 5'000);
  EXPECT_THAT(elsewhere.remarks.back(), HasSubstr("measurements from H100 were applied to A100"));
  ran(8, 2'000, "A100");
  const Appraisal alone = appraiser.Appraise(spec, kAda, {});
  EXPECT_NE(alone.estimate->method, "amounts") << "runs on this GPU type take precedence";
  ran(64, 9'500, "A100");
  EXPECT_NEAR(static_cast<double>(*appraiser.Appraise(spec, kAda, {}).estimate->predicted_mib),
              2'000 + 7'500 * 24.0 / 56, 1);
  spec.optimizer = "sgd";
  const Appraisal other = appraiser.Appraise(spec, kAda, {});
  EXPECT_NE(other.estimate ? other.estimate->method : "", "amounts") << "a different training";
}

TEST(Appraiser, LearnsTheAllocatorsGaps) {
  const Summary summary = ReadSummary(std::string(kConfig), "config.json");
  task::TaskSpec spec = Spec("/home/ada/config.json");
  spec.training = {{"seq-len", "512", ""}};
  auto history = std::make_shared<History>();
  const Appraiser appraiser(Rules(history));
  const Appraisal alone = appraiser.Appraise(spec, kAda, summary);
  // A run with a different length ran out of memory. Fragmentation took half as much memory as the
  // tensors.
  task::TaskSpec other = spec;
  other.training = {{"seq-len", "4096", ""}};
  task::Observation run;
  run.signature = Signature(other, kAda, summary.fingerprint);
  run.kin = Kin(other, kAda);
  run.measured_mib = 30'824;
  run.allocated_mib = 20'000;
  run.ran_out = true;
  history->Add(run);
  const Appraisal told = appraiser.Appraise(spec, kAda, summary);
  EXPECT_GT(told.estimate->predicted_mib, alone.estimate->predicted_mib);
  EXPECT_GT(told.estimate->peak_mib, alone.estimate->peak_mib);
  EXPECT_THAT(told.remarks.back(),
              HasSubstr("in 1 run of the same program, PyTorch reserved 1.50 times the memory"));
}

TEST(Appraiser, ReportsAssumptionsAboutTransformers) {
  const Summary summary = ReadSummary(std::string(kConfig), "config.json");
  task::TaskSpec spec = Spec("/home/ada/config.json");
  spec.batch_size.reset();
  const Appraisal result = Appraiser(Rules()).Appraise(spec, kAda, summary);
  ASSERT_TRUE(result.estimate);
  EXPECT_THAT(result.remarks, ElementsAre(HasSubstr("MiB of the estimate is for tensors"),
                                          HasSubstr("2048 tokens assumed"),
                                          HasSubstr("batch size unknown: 1 assumed")));
  const Summary other = ReadSummary(std::string(R"({"model_type":"rwkv"})"), "config.json");
  EXPECT_THAT(Appraiser(Rules()).Appraise(spec, kAda, other).remarks,
              ElementsAre(HasSubstr("no estimate: config.json: /model_type: expected one of the")));
}

TEST(Appraiser, UsesTheMeasuredProfile) {
  const Summary summary = ReadSummary(std::string(kSummary), "m.txt");
  profile::WorkloadProfile line;
  line.signature = Signature(Spec("m.txt"), kAda, summary.fingerprint);
  line.gpu_type = "A100";
  line.sm_active = 0.4;
  line.sensitivity = 1.5;
  line.pressure = 0.25;
  auto history = std::make_shared<History>();
  task::Observation run = Peak(summary, 2'000);
  run.sm_active = 0.7;
  history->Add(run);
  AppraisalRules rules = Rules(history);
  EXPECT_EQ(Appraiser(rules).Appraise(Spec("m.txt"), kAda, summary).profile,
            core::Profile{.sm_active = 0.7});
  rules.measured = std::make_shared<const MeasuredProfiles>(std::vector{line});
  EXPECT_EQ(Appraiser(rules).Appraise(Spec("m.txt"), kAda, summary).profile,
            (core::Profile{.sm_active = 0.4, .mps = core::MpsParameters{1.5, 0.25}}));
  rules.history = nullptr;
  EXPECT_EQ(Appraiser(rules).Appraise(Spec("m.txt"), kAda, summary).profile.sm_active, 0.4)
      << "even if nothing was learned";
  EXPECT_EQ(Appraiser(rules).Appraise(Spec(), kAda, {}).profile, core::Profile{});
}

TEST(Appraiser, SplitsTheBatchInDataParallel) {
  const auto appraise = [](const std::string& wrapper, int gpus, std::int64_t batch) {
    const std::string text = wrapper +
                             "(\n"
                             "  (module): Net(\n"
                             "    (0): Embedding(1000, 64), 64,000 params\n"
                             "    (1): Linear(in_features=64, out_features=4096), 266,240 params\n"
                             "    (2): Linear(in_features=4096, out_features=64), 262,208 params\n"
                             "  ), 592,448 params\n"
                             "), 592,448 params\n";
    task::TaskSpec spec = Spec("m.txt");
    spec.gpus = gpus;
    spec.batch_size = batch;
    return Appraiser(Rules()).Appraise(spec, kAda, ReadSummary(text, "m.txt"));
  };
  const Appraisal split = appraise("DataParallel", 2, 400);
  ASSERT_TRUE(split.estimate);
  EXPECT_EQ(split.estimate->peak_mib,
            appraise("DistributedDataParallel", 2, 200).estimate->peak_mib);
  EXPECT_LT(split.estimate->peak_mib,
            appraise("DistributedDataParallel", 2, 400).estimate->peak_mib);
  EXPECT_THAT(split.remarks,
              Contains(HasSubstr("splits the batch of 400 across 2 GPUs: 200 samples each")));
}

TEST(Appraiser, ComputesTheGrainOfConvolutionalNetworks) {
  const char* network =
      "----------------------------------------------------------------\n"
      "        Layer (type)               Output Shape         Param #\n"
      "================================================================\n"
      "            Conv2d-1           [-1, 64, 32, 32]           1,792\n"
      "              ReLU-2           [-1, 64, 32, 32]               0\n"
      "            Conv2d-3           [-1, 64, 32, 32]          36,928\n"
      "            Linear-4                   [-1, 10]         655,370\n"
      "================================================================\n"
      "Total params: 694,090\n";
  const auto grain = [&](const char* text, std::optional<std::int64_t> batch) {
    task::TaskSpec spec = Spec("m.txt");
    spec.batch_size = batch;
    return Appraiser(Rules())
        .Appraise(spec, kAda, ReadSummary(std::string(text), "m.txt"))
        .profile.grain;
  };
  EXPECT_DOUBLE_EQ(grain(network, 16).value_or(0), 16 / 128.0 * 60 / 3);
  EXPECT_EQ(grain(network, std::nullopt), std::nullopt) << "unknown without a batch";
  EXPECT_EQ(grain(kSummary, 16), std::nullopt) << "fully connected";
}

TEST(SuitGpus, UsesTheLargestMemoryAndTheMostCommonType) {
  AppraisalRules rules;
  SuitGpus(rules, std::vector<core::GpuInfo>{{.type = "B", .total_mib = 1'000, .reserved_mib = 100},
                                             {.type = "A", .total_mib = 500},
                                             {.type = "A", .total_mib = 500}});
  EXPECT_EQ(rules.gpu_mib, 900);
  EXPECT_EQ(rules.gpu_type, "A");
}

}  // namespace
}  // namespace carma::estimate
