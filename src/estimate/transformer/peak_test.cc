// Tests the closed form for transformers on made-up models. docs/evidence/estimators.md explains
// each number.
#include "estimate/transformer/peak.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace carma::estimate {
namespace {

constexpr double kMib = 1024.0 * 1024.0;

// A model with 16 blocks of 12 million parameters each and a vocabulary of 32 000.
TransformerConfig Model() {
  TransformerConfig config;
  config.family = "llama";
  config.layers = 16;
  config.hidden = 1024;
  config.heads = 8;
  config.kv_heads = 8;
  config.head_width = 128;
  config.feed_forward = 2816;
  config.vocabulary = 32'000;
  return config;
}

TrainingPlan Plan(std::int64_t sequence, std::int64_t batch) {
  TrainingPlan plan;
  plan.sequence = sequence;
  plan.batch = batch;
  plan.checkpointing = Checkpointing::kFull;
  return plan;
}

TrainingPlan LoraPlan(std::int64_t sequence, std::int64_t batch) {
  TrainingPlan plan = Plan(sequence, batch);
  plan.method = Method::kLora;
  plan.lora_targets = *ParseLoraTargets("q,v");
  return plan;
}

TransformerEstimate Asked(const TrainingPlan& plan, const TransformerConfig& config = Model()) {
  const auto estimate = EstimateTransformer(config, plan, 0.9);
  EXPECT_TRUE(estimate) << estimate.error().message;
  return estimate.value_or(TransformerEstimate{});
}

double BytesPerParameter(const TransformerEstimate& estimate) {
  return estimate.parts.Sum() * kMib / estimate.parameters;
}

TEST(TransformerPeak, FullTrainingOfFewTokensNeedsTenBytesPerParameter) {
  const TransformerEstimate estimate = Asked(Plan(8, 1));
  EXPECT_EQ(estimate.phase, TrainingPhase::kStep);
  EXPECT_NEAR(BytesPerParameter(estimate), 10, 0.01);
  EXPECT_EQ(estimate.parts.logits, 0);
}

TEST(TransformerPeak, OptimizersDifferByTheirStatesAndTheirStep) {
  struct Case {
    StepOptimizer optimizer;
    double bytes;  // per parameter, with 16-bit weights
  };
  for (const Case& each : {Case{StepOptimizer::kAdam, 10}, Case{StepOptimizer::kAdamFused, 8},
                           Case{StepOptimizer::kAdam8Bit, 6}, Case{StepOptimizer::kAdam4Bit, 5},
                           Case{StepOptimizer::kMomentum, 8}, Case{StepOptimizer::kSgd, 4},
                           Case{StepOptimizer::kFactored, 4}}) {
    TrainingPlan plan = Plan(1, 1);
    plan.optimizer = each.optimizer;
    EXPECT_NEAR(BytesPerParameter(Asked(plan)), each.bytes, 0.02) << base::WordOf(each.optimizer);
  }
}

TEST(TransformerPeak, ManyTokensPeakAtTheLoss) {
  const TransformerEstimate few = Asked(LoraPlan(1024, 8));
  const TransformerEstimate many = Asked(LoraPlan(1024, 16));
  EXPECT_EQ(few.phase, TrainingPhase::kLoss);
  // Each token adds the inputs of 16 blocks, twelve bytes per logit, and eight bytes per channel
  // around the loss.
  const double slope = 2.0 * 16 * 1024 + 12.0 * 32'000 + 8.0 * 1024;
  EXPECT_NEAR((many.parts.Sum() - few.parts.Sum()) * kMib / 8192, slope, 1e-6 * slope);
}

TEST(TransformerPeak, ModelsPreparedForQuantisedTrainingHaveFp32ScoresAndStream) {
  const auto prepared = [](std::int64_t batch) {
    TrainingPlan plan = LoraPlan(1024, batch);
    plan.quantisation = Quantisation::kNf4;
    plan.fp32_residual = plan.fp32_rest = true;
    return Asked(plan).parts.Sum();
  };
  // This slope is within 2 % of the slope in a published table of the longest sequences that fit.
  const double slope = 4.0 * 16 * 1024 + 16.0 * 32'000 + 8.0 * 1024;
  EXPECT_NEAR((prepared(16) - prepared(8)) * kMib / 8192, slope, 1e-6 * slope);
}

TEST(TransformerPeak, PeaksInABlockWithAFusedLoss) {
  TrainingPlan plan = LoraPlan(1024, 16);
  plan.loss = Loss::kFused;
  const TransformerEstimate estimate = Asked(plan);
  EXPECT_EQ(estimate.phase, TrainingPhase::kLayer);
  EXPECT_EQ(estimate.parts.logits, 0);
  EXPECT_LT(estimate.fragmentation_mib, 0.4 * estimate.parts.Sum());
}

TEST(TransformerPeak, CheckpointingKeepsOnlyTheInputsOfBlocks) {
  TrainingPlan plan = LoraPlan(1024, 4);
  const double with = Asked(plan).parts.activations;
  plan.checkpointing = Checkpointing::kNone;
  EXPECT_GT(Asked(plan).parts.activations, 10 * with);
}

TEST(TransformerPeak, CheckpointingEveryOtherBlockKeepsTheMean) {
  TrainingPlan plan = Plan(1024, 4);
  const double all = Asked(plan).parts.activations;
  plan.checkpointing = Checkpointing::kNone;
  const double none = Asked(plan).parts.activations;
  plan.checkpointing = Checkpointing::kFull;
  plan.checkpoint_every = 2;
  const double half = Asked(plan).parts.activations;
  EXPECT_NEAR(half, (all + none) / 2, 0.02 * none);
}

TEST(TransformerPeak, SelectiveCheckpointingKeepsAttentionAndEverySecondProduct) {
  TrainingPlan plan = Plan(1024, 4);
  const double full = Asked(plan).parts.activations;
  plan.checkpointing = Checkpointing::kOperators;
  const double operators = Asked(plan).parts.activations;
  // The kept tensors are the result of attention, the queries, the values, the last product and one
  // product of the feed-forward part.
  EXPECT_NEAR(operators - full, 2.0 * (4 * 1024 + 2816) * 16 * 4096 / kMib, 1);
}

TEST(TransformerPeak, SequenceParallelismSplitsTheStream) {
  TrainingPlan plan = Plan(4096, 8);
  plan.tensor_parallel = 4;
  const double whole = Asked(plan).parts.activations;
  plan.sequence_parallel = true;
  EXPECT_LT(Asked(plan).parts.activations, 0.35 * whole) << "a quarter, plus gathered tensors";
}

TEST(TransformerPeak, APipelineHoldsTheMicroBatchesOfItsSchedule) {
  TrainingPlan plan = Plan(4096, 16);
  plan.loss = Loss::kFused;
  plan.pipeline = 4;
  const double uncut = Asked(plan).parts.activations;
  plan.micro_batches = 16;
  const double cut = Asked(plan).parts.activations;
  EXPECT_NEAR(cut, uncut / 16, 0.01 * uncut) << "a sixteenth of the samples at a time";
  plan.schedule = Schedule::kGpipe;
  EXPECT_GT(Asked(plan).parts.activations, 1.5 * cut) << "keeps all sixteen, not four";
  plan.schedule = Schedule::kInterleaved;
  EXPECT_GT(Asked(plan).parts.activations, cut);
  EXPECT_GT(Asked(plan).parts.gradients, 0) << "kept until the last micro-batch";
  plan.micro_batches = 17;
  EXPECT_FALSE(EstimateTransformer(Model(), plan, 0.9));
}

TEST(TransformerPeak, ExpertsOfOtherGpusAreNotHeld) {
  TransformerConfig config = Model();
  config.experts = 8;
  config.active_experts = 2;
  TrainingPlan plan = Plan(8, 1);
  plan.ranks = 4;
  const double all = Asked(plan, config).parts.weights;
  plan.expert_parallel = 4;
  const double shared = Asked(plan, config).parts.weights;
  EXPECT_NEAR(all - shared, 2 * 0.75 * 16 * config.ExpertParameters() / kMib, 1);
  plan.expert_parallel = 3;
  EXPECT_FALSE(EstimateTransformer(config, plan, 0.9));
}

TEST(TransformerPeak, MixedPrecisionOfFsdpRunsBlocksIn16Bits) {
  TrainingPlan plan = Plan(4096, 8);
  plan.data_parallel = DataParallel::kFsdp;
  plan.ranks = 4;
  plan.amp = true;
  const double sixteen = Asked(plan).parts.activations;
  plan.weights = Dtype::kFp32;
  EXPECT_EQ(Asked(plan).parts.activations, sixteen);
}

TEST(TransformerPeak, DeepSpeedHasItsBucketsOnOneGpuAndKeepsLiveParameters) {
  TrainingPlan plan = Plan(8, 1);
  plan.data_parallel = DataParallel::kZero2;
  EXPECT_GT(Asked(plan).parts.working, 1'000);
  plan.data_parallel = DataParallel::kZero3;
  plan.offload_parameters = plan.offload_optimizer = true;
  EXPECT_NEAR(Asked(plan).parts.weights, 2 * Model().TotalParameters() / kMib, 1);
  EXPECT_THAT(Asked(plan).warnings, ::testing::Contains(::testing::HasSubstr("buckets")).Times(1));
  EXPECT_THAT(Asked(plan).warnings,
              ::testing::Contains(::testing::HasSubstr("offloaded weights")).Times(1));
}

TEST(TransformerPeak, ZeroMovesGradientsToTheHostWithTheOptimizer) {
  TrainingPlan plan = Plan(8, 1);
  plan.ranks = 2;
  plan.accumulates = plan.offload_optimizer = true;
  for (const DataParallel kind : {DataParallel::kZero2, DataParallel::kZero3}) {
    plan.data_parallel = kind;
    EXPECT_EQ(Asked(plan).parts.gradients, 0) << base::WordOf(kind);
  }
  plan.data_parallel = DataParallel::kZero1;
  EXPECT_GT(Asked(plan).parts.gradients, 0);
}

// BERT's loss reads its logits in 16 bits under autocast (docs/evidence/estimators.md). A
// classifier has no logits over the vocabulary, so its memory peaks in the last block's backward
// pass.
TEST(TransformerPeak, AutocastCopiesInputsOfEachEncoderMatrix) {
  TransformerConfig bert = Model();
  bert.gated = bert.rms_norm = false;
  bert.feed_forward = 4 * bert.hidden;
  bert.drops_out = bert.plain_loss = true;
  TrainingPlan plan = Plan(512, 8);
  plan.checkpointing = Checkpointing::kNone;
  plan.weights = Dtype::kFp32;
  plan.amp = true;
  const TransformerEstimate scores = Asked(plan, bert);
  const double tokens = 512 * 8;
  EXPECT_NEAR(scores.parts.logits * kMib, tokens * 10 * 32'000, 1);
  EXPECT_NEAR(scores.parts.activations * kMib, tokens * 42 * 1024 * 16, 1);
  bert.classifies = true;
  EXPECT_NEAR(Asked(plan, bert).parts.activations * kMib, tokens * (42 * 16 + 16) * 1024, 1);
}

TEST(TransformerPeak, OffloadingActivationsLeavesTwoBlocks) {
  TrainingPlan plan = Plan(4096, 8);
  plan.checkpointing = Checkpointing::kNone;
  const double all = Asked(plan).parts.activations;
  plan.offload_activations = true;
  EXPECT_NEAR(Asked(plan).parts.activations, all / 8, 0.01 * all);
}

TEST(TransformerPeak, ADropoutKeepsItsMask) {
  TrainingPlan plan = Plan(1024, 1);
  plan.checkpointing = Checkpointing::kNone;
  const double without = Asked(plan).parts.Sum();
  TransformerConfig config = Model();
  config.drops_out = true;
  EXPECT_NEAR(Asked(plan, config).parts.Sum() - without, 2.0 * 1024 * 16 * 1024 / kMib, 1);
}

TEST(TransformerPeak, EagerAttentionKeepsAMatrixOfTheLengthSquared) {
  TrainingPlan plan = LoraPlan(2048, 1);
  plan.checkpointing = Checkpointing::kNone;
  const double flash = Asked(plan).parts.Sum();
  plan.attention = Attention::kEager;
  const double matrices = 6.0 * 8 * 2048 * 2048 * 16 / kMib;
  EXPECT_NEAR(Asked(plan).parts.Sum() - flash, matrices, 1);
  plan.checkpointing = Checkpointing::kAttention;
  EXPECT_NEAR(Asked(plan).parts.Sum(), flash, 1) << "only attention is recomputed";
}

TEST(TransformerPeak, QuantisationShrinksOnlyTheBlocks) {
  TrainingPlan plan = LoraPlan(8, 1);
  const double plain = Asked(plan).parts.weights;
  plan.quantisation = Quantisation::kNf4;
  const double saved = (2 - 0.5625) * Model().MatrixParameters() / kMib;
  EXPECT_NEAR(plain - Asked(plan).parts.weights, saved, 1);
  plan.fp32_rest = true;
  EXPECT_GT(Asked(plan).parts.weights, plain - saved + 100) << "embedding and head in fp32";
}

TEST(TransformerPeak, FsdpShardsEverythingAndGathersOneBlock) {
  TrainingPlan plan = Plan(8, 1);
  plan.data_parallel = DataParallel::kFsdp;
  plan.ranks = 2;
  const TransformerEstimate pure = Asked(plan);
  EXPECT_EQ(pure.phase, TrainingPhase::kStep);
  EXPECT_NEAR(BytesPerParameter(pure), 10.0 / 2, 0.01);
  plan.amp = true;
  EXPECT_NEAR(BytesPerParameter(Asked(plan)), 20.0 / 2, 0.01) << "the shards are fp32";
  TrainingPlan lora = LoraPlan(1024, 16);
  lora.data_parallel = DataParallel::kFsdp;
  lora.ranks = 4;
  EXPECT_GT(Asked(lora).parts.working, 2.0 * 2 * 32'000 * 1024 / kMib * 0.99)
      << "embedding and head remain gathered";
}

TEST(TransformerPeak, AccumulatedGradientsAreWholeUnderFsdp) {
  TrainingPlan plan = Plan(64, 1);
  plan.data_parallel = DataParallel::kFsdp;
  plan.ranks = 8;
  plan.accumulates = true;
  const TransformerEstimate estimate = Asked(plan);
  EXPECT_NEAR(estimate.parts.gradients, 2 * estimate.parameters / kMib, 1);
  plan.ranks = 1;
  EXPECT_NEAR(BytesPerParameter(Asked(plan)), 10, 0.01) << "on one GPU, the step is the peak";
}

TEST(TransformerPeak, CountsTheMeanLengthWithoutPadding) {
  TrainingPlan plan = LoraPlan(2000, 5);
  plan.mean_length = 250;
  EXPECT_NEAR(Asked(plan).parts.Sum(), Asked(LoraPlan(3000, 1)).parts.Sum(), 1);
}

TEST(TransformerPeak, ZeroSharesMoreWithEveryStage) {
  double before = 1e9;
  for (const DataParallel stage :
       {DataParallel::kZero1, DataParallel::kZero2, DataParallel::kZero3}) {
    TrainingPlan plan = Plan(8, 1);
    plan.data_parallel = stage;
    plan.ranks = 8;
    const double sum = Asked(plan).parts.Sum();
    EXPECT_LT(sum, before) << base::WordOf(stage);
    before = sum;
    plan.offload_optimizer = true;
    EXPECT_EQ(Asked(plan).parts.optimizer, 0);
  }
}

TEST(TransformerPeak, CountsNcclOnceOnSeveralGpus) {
  struct Case {
    const char* name;
    DataParallel kind;
    std::int64_t ranks, tensor, pipeline, context;
    double mib;
  };
  const auto more = [](TrainingPlan plan, const Case& each) {
    const double alone = Asked(plan).context_mib;
    plan.data_parallel = each.kind;
    plan.ranks = each.ranks;
    plan.tensor_parallel = each.tensor;
    plan.pipeline = each.pipeline;
    plan.context_parallel = each.context;
    return Asked(plan).context_mib - alone;
  };
  for (const Case& each : {
           Case{"ddp", DataParallel::kDdp, 2, 1, 1, 1, 566},
           Case{"tensors", DataParallel::kDdp, 1, 2, 1, 1, 566},
           Case{"stages", DataParallel::kDdp, 1, 1, 2, 1, 566},
           Case{"a sample", DataParallel::kDdp, 1, 1, 1, 2, 566},
           Case{"fsdp", DataParallel::kFsdp, 2, 1, 1, 1, 0},
           Case{"zero3", DataParallel::kZero3, 2, 1, 1, 1, 0},
           // The buckets of 16 blocks' adapters for q and v, with a rank of 16, take 8 MiB.
           Case{"zero1", DataParallel::kZero1, 2, 1, 1, 1, 566 - 8},
           Case{"zero2", DataParallel::kZero2, 2, 1, 1, 1, 566 - 8},
           Case{"zero2 on one GPU", DataParallel::kZero2, 1, 1, 1, 1, 0},
       }) {
    EXPECT_NEAR(more(LoraPlan(512, 1), each), each.mib, 0.01) << each.name;
  }
  const Case zero{"full", DataParallel::kZero1, 2, 1, 1, 1, 0};
  EXPECT_NEAR(more(Plan(512, 1), zero), 0, 0.01) << "the buckets of a whole model include it";
  TrainingPlan split = LoraPlan(512, 1);
  split.in_flight = 1;
  EXPECT_NEAR(more(split, {"layers", DataParallel::kDdp, 1, 1, 2, 1, 0}), 0, 0.01);
}

TEST(TransformerPeak, UsesTheLargestStageOfAPipeline) {
  TrainingPlan plan = Plan(2048, 4);
  plan.loss = Loss::kFused;
  const double whole = Asked(plan).parts.Sum();
  plan.pipeline = 4;
  const double four = Asked(plan).parts.Sum();
  EXPECT_LT(four, whole);
  plan.in_flight = 64;
  EXPECT_GT(Asked(plan).parts.Sum(), four) << "the first stage keeps its micro-batches";
}

TEST(TransformerPeak, TensorParallelSplitsMatricesAndScoresNotTheResidualStream) {
  TrainingPlan plan = LoraPlan(1024, 16);
  const TransformerEstimate one = Asked(plan);
  plan.tensor_parallel = 2;
  const TransformerEstimate two = Asked(plan);
  EXPECT_NEAR(two.parts.logits, one.parts.logits / 2, 1);
  EXPECT_NEAR(two.parts.activations, one.parts.activations, 1);
}

TEST(TransformerPeak, GapsComeFromVaryingLengths) {
  const auto gaps = [](Checkpointing checkpointing, bool varies) {
    TrainingPlan plan = LoraPlan(1024, 8);
    plan.checkpointing = checkpointing;
    plan.variable_length = varies;
    const TransformerEstimate estimate = Asked(plan);
    return estimate.fragmentation_mib / estimate.parts.Sum();
  };
  EXPECT_LT(gaps(Checkpointing::kNone, false), 0.1);
  EXPECT_GT(gaps(Checkpointing::kFull, false), gaps(Checkpointing::kNone, false));
  EXPECT_GT(gaps(Checkpointing::kFull, true), gaps(Checkpointing::kFull, false));
}

TEST(TransformerPeak, TheAllocatorFreesCacheNearTheGpusLimit) {
  TrainingPlan plan = LoraPlan(1024, 16);
  const TransformerEstimate free_running = Asked(plan);
  plan.gpu_mib = free_running.parts.Sum() + 2000;
  const TransformerEstimate tight = Asked(plan);
  EXPECT_LT(tight.shown.point_mib, free_running.shown.point_mib);
  EXPECT_GE(tight.shown.point_mib, tight.needed.point_mib);
}

TEST(TransformerPeak, NeededIsBelowReservedIsBelowShown) {
  const TransformerEstimate estimate = Asked(LoraPlan(2048, 4));
  EXPECT_LT(estimate.needed.point_mib, estimate.reserved.point_mib);
  EXPECT_LT(estimate.reserved.point_mib, estimate.shown.point_mib);
  EXPECT_NEAR(static_cast<double>(estimate.shown.point_mib),
              estimate.parts.Sum() + estimate.fragmentation_mib + estimate.context_mib, 1);
  EXPECT_GT(estimate.shown.bound_mib, estimate.shown.point_mib);
  EXPECT_GT(estimate.needed.bound_mib, estimate.needed.point_mib);
}

TEST(TransformerPeak, UnmeasuredKindsHaveAWiderBoundAndAWarning) {
  const auto widened = [](const TrainingPlan& plan) {
    const TransformerEstimate estimate = Asked(plan);
    const bool told = !estimate.warnings.empty() &&
                      estimate.warnings[0].find("few measured runs") != std::string::npos;
    const double above = static_cast<double>(estimate.shown.bound_mib) - estimate.context_mib;
    const double point = static_cast<double>(estimate.shown.point_mib) - estimate.context_mib;
    EXPECT_EQ(told, above / point > 1.2) << above / point;
    return told;
  };
  TrainingPlan plan = LoraPlan(2048, 4);
  EXPECT_FALSE(widened(plan));
  plan.tensor_parallel = 2;
  EXPECT_TRUE(widened(plan));
  plan = Plan(2048, 4);
  plan.offload_optimizer = true;
  EXPECT_TRUE(widened(plan));
  plan = Plan(2048, 4);
  plan.checkpointing = Checkpointing::kOperators;
  EXPECT_TRUE(widened(plan));
  plan.checkpointing = Checkpointing::kNone;
  EXPECT_FALSE(widened(plan));
  plan.data_parallel = DataParallel::kFsdp;
  plan.ranks = 2;
  EXPECT_TRUE(widened(plan));
}

TEST(TransformerPeak, AnUnfusedFamilyAlwaysKeepsItsMatrices) {
  TransformerConfig config = Model();
  config.unfused_attention = true;
  TrainingPlan plan = LoraPlan(1024, 4);
  plan.checkpointing = Checkpointing::kNone;
  const double unfused = Asked(plan, config).parts.Sum();
  plan.attention = Attention::kEager;
  EXPECT_EQ(unfused, Asked(plan).parts.Sum());
}

TEST(TransformerPeak, ADecoderKeepsASecondAttentionAndTheEncodersKeys) {
  TransformerConfig config = Model();
  TrainingPlan plan = Plan(1024, 4);
  plan.checkpointing = Checkpointing::kNone;
  const double one = Asked(plan, config).parts.activations;
  config.decoder_layers = 8;
  const double both = Asked(plan, config).parts.activations;
  // Half of the blocks add a norm, a query, a key, a value and a result: 16 bytes per token and
  // element of the width.
  EXPECT_NEAR(both - one, 16.0 * 8 * 1024 * 4096 / kMib, 1);
  plan.target = 256;
  const TransformerEstimate shorter = Asked(plan, config);
  // An encoder block keeps `block`. A decoder block has a quarter of the tokens, and adds `second`
  // for its second attention layer.
  const double block = one / 16;
  const double second = (8.0 + 4 + 4 * 4) * 1024 * 1024 / kMib;
  EXPECT_NEAR(shorter.parts.activations, 8 * block + 8 * (block / 4 + second), 1);
  plan.target = 1024;
  EXPECT_NEAR(shorter.parts.logits, Asked(plan, config).parts.logits / 4, 1);
}

TEST(TransformerPeak, NarrowValuesAreKeptAsNarrow) {
  TransformerConfig config = Model();
  TrainingPlan plan = Plan(1024, 4);
  plan.checkpointing = Checkpointing::kNone;
  const double wide = Asked(plan, config).parts.activations;
  config.value_width = 64;
  EXPECT_NEAR(wide - Asked(plan, config).parts.activations, 4.0 * 8 * 64 * 16 * 4096 / kMib, 1);
}

TEST(TransformerPeak, BlocksThatShareParametersKeepActivationsOfTheirOwn) {
  TransformerConfig config = Model();
  TrainingPlan plan = Plan(1024, 4);
  plan.checkpointing = Checkpointing::kNone;
  const TransformerEstimate each = Asked(plan, config);
  config.repeats_block = true;
  const TransformerEstimate shared = Asked(plan, config);
  EXPECT_EQ(shared.parts.activations, each.parts.activations);
  EXPECT_LT(shared.parts.optimizer, each.parts.optimizer / 2);
}

TEST(TransformerPeak, RefusesImpossiblePlans) {
  TrainingPlan quantised = Plan(8, 1);
  quantised.quantisation = Quantisation::kNf4;
  TrainingPlan staged = Plan(8, 1);
  staged.pipeline = 17;
  for (const TrainingPlan& plan : {Plan(0, 1), quantised, staged}) {
    const auto estimate = EstimateTransformer(Model(), plan, 0.9);
    ASSERT_FALSE(estimate);
    EXPECT_EQ(estimate.error().code, ErrorCode::kInvalid);
  }
}

TEST(TransformerPeak, ExpandableSegmentsReduceOnlyTheGaps) {
  TrainingPlan plan = LoraPlan(4096, 8);
  const TransformerEstimate usual = Asked(plan);
  plan.expandable_segments = true;
  const TransformerEstimate expandable = Asked(plan);
  EXPECT_EQ(expandable.needed.point_mib, usual.needed.point_mib);
  EXPECT_LT(expandable.fragmentation_mib, usual.fragmentation_mib);
  plan.checkpointing = Checkpointing::kNone;
  const TransformerEstimate kept = Asked(plan);
  plan.expandable_segments = false;
  EXPECT_EQ(kept.reserved.point_mib, Asked(plan).reserved.point_mib) << "never more gaps";
}

TEST(TransformerPeak, CountsOtherPartsAndNamesUncountedParts) {
  TransformerConfig config = Model();
  config.uncounted = {"resampler"};
  TrainingPlan plan = LoraPlan(8, 1);
  const TransformerEstimate without = Asked(plan, config);
  ASSERT_FALSE(without.warnings.empty());
  EXPECT_NE(without.warnings[0].find("not counted: resampler"), std::string::npos);
  plan.parameters = std::llround(Model().TotalParameters()) + 1'000'000'000;
  const TransformerEstimate with = Asked(plan, config);
  EXPECT_NEAR(with.parts.weights - without.parts.weights, 2e9 / kMib, 1);
  for (const std::string& warning : with.warnings)
    EXPECT_EQ(warning.find("resampler"), std::string::npos);
}

TEST(TransformerPeak, PreferencesRunTwoAnswersAndHoldAFrozenModel) {
  const TransformerEstimate tokens = Asked(Plan(512, 8));
  TrainingPlan plan = Plan(512, 4);
  plan.objective = Objective::kPreferences;
  const TransformerEstimate alone = Asked(plan);
  EXPECT_EQ(alone.parts.Sum(), tokens.parts.Sum()) << "four pairs are eight samples";
  plan.reference = true;
  const TransformerEstimate beside = Asked(plan);
  EXPECT_NEAR(beside.parts.beside * kMib, 2 * beside.parameters, 1e-6 * beside.parameters);
  EXPECT_NEAR(beside.needed.point_mib - alone.needed.point_mib, beside.parts.beside, 1);
  plan.data_parallel = DataParallel::kFsdp;
  plan.ranks = 4;
  EXPECT_NEAR(Asked(plan).parts.beside, beside.parts.beside / 4, 1) << "sharded like the model";
  plan.objective = Objective::kTokens;
  EXPECT_EQ(Asked(plan).parts.beside, 0);
}

TEST(TransformerPeak, ARolloutEngineTakesItsShareOfTheGpu) {
  TrainingPlan plan = Plan(512, 4);
  plan.objective = Objective::kGroups;
  plan.rollout_share = 0.3;
  EXPECT_THAT(Asked(plan).warnings,
              ::testing::Contains(::testing::HasSubstr("GPU's memory is unknown")));
  plan.gpu_mib = 80'000;
  EXPECT_NEAR(Asked(plan).parts.beside, 24'000, 1);
}

TEST(TransformerPeak, GpusThatShareASampleShareTheWeightsToo) {
  TrainingPlan plan = Plan(4096, 1);
  plan.data_parallel = DataParallel::kFsdp;
  plan.ranks = 8;
  const double alone = Asked(plan).parts.optimizer;
  plan.ranks = 2;
  plan.context_parallel = 4;
  EXPECT_NEAR(Asked(plan).parts.optimizer, alone, 0.01);
  plan.data_parallel = DataParallel::kZero1;
  plan.ranks = 1;
  EXPECT_NEAR(Asked(plan).parts.optimizer, 2 * 12 * Model().TotalParameters() / 8 / kMib, 1);
}

TEST(TransformerPeak, SequenceParallelismGathersInputsOfMatrices) {
  TrainingPlan plan = Plan(8192, 4);
  plan.loss = Loss::kFused;
  plan.tensor_parallel = 8;
  plan.sequence_parallel = true;
  const TransformerConfig config = Model();
  const TransformerEstimate split = Asked(plan);
  EXPECT_EQ(split.phase, TrainingPhase::kLayer);
  const double tokens = 4 * 8192;
  const double inputs = tokens * 2 * 1024 / 8 * 16;
  EXPECT_GT(split.parts.activations * kMib, inputs + tokens * 4 * 2 * 1024 * 7 / 8)
      << "two gathered tensors and their gradients are not split";
}

// For each element, the norm in Transformers keeps its input in fp32 (4 bytes) and the normalised
// input (2 bytes).
TEST(TransformerPeak, NormsOfQueriesAndKeysKeepSixBytes) {
  TrainingPlan plan = Plan(8192, 4);
  plan.checkpointing = Checkpointing::kNone;
  TransformerConfig config = Model();
  const double before = Asked(plan, config).parts.activations;
  config.norms_heads = true;
  const double tokens = 4 * 8192;
  EXPECT_NEAR((Asked(plan, config).parts.activations - before) * kMib, 16 * tokens * 6 * 2 * 1024,
              1e6);
}

TEST(TransformerPeak, ASecondTowerKeepsItsOwnActivations) {
  const auto clip = ParseTransformerConfig(
      R"({"model_type":"clip","vision_config":{"patch_size":32},"text_config":{}})", "c");
  ASSERT_TRUE(clip) << clip.error().message;
  TrainingPlan plan;
  plan.sequence = 50;
  plan.batch = 256;
  plan.weights = Dtype::kFp32;
  TransformerConfig images = *clip;
  images.towers.clear();
  const double both = Asked(plan, *clip).parts.activations;
  const double one = Asked(plan, images).parts.activations;
  // Texts have 77 tokens of width 512, images 50 tokens of width 768.
  EXPECT_NEAR((both - one) / one, 77 * 512.0 / (50 * 768.0), 0.05);
  plan.tensor_parallel = 2;
  EXPECT_FALSE(EstimateTransformer(*clip, plan, 0.9));
}

TEST(TransformerPeak, StateSpaceBlocksKeepThreeWidthsOrAllStates) {
  const auto mamba = ParseTransformerConfig(
      R"({"model_type":"mamba","num_hidden_layers":8,"hidden_size":1024,"vocab_size":100})", "c");
  ASSERT_TRUE(mamba) << mamba.error().message;
  TrainingPlan plan;
  plan.sequence = 2048;
  plan.batch = 8;
  const double tokens = 8 * 2048;
  const double fused = Asked(plan, *mamba).parts.activations * kMib;
  EXPECT_NEAR(fused, tokens * (8 * (2 * 3 * 2048 + 8 * 1024) + 2 * 6 * 2048), 0.01 * fused);
  plan.attention = Attention::kEager;
  EXPECT_GT(Asked(plan, *mamba).parts.activations * kMib, 8 * tokens * 14 * 16 * 2048)
      << "without the kernels, each token keeps its states";
}

TEST(TransformerPeak, HoldsFrozenModelsAndAWeightAverage) {
  TrainingPlan plan = Plan(512, 1);
  const double before = Asked(plan).parts.beside;
  plan.frozen_parameters = 1'000'000'000;
  EXPECT_NEAR((Asked(plan).parts.beside - before) * kMib, 2e9, 1e6);
  plan.averages = true;
  EXPECT_NEAR((Asked(plan).parts.beside - before) * kMib, 2e9 + 2 * Model().TotalParameters(), 1e6);
}

// milabench trains Stable Diffusion 1.5 at 512 pixels on an H100 with autocast and AdamW. NVML
// showed 43 769 MiB with 24 images and 73 777 MiB with 48. For adapters with checkpointing, two
// images and unfused attention, peft published 8.12 GB including the text encoder.
TEST(TransformerPeak, AUNetNeedsTheMeasuredMemory) {
  const auto unet = ParseTransformerConfig(
      R"({"_class_name":"UNet2DConditionModel","attention_head_dim":8,
          "block_out_channels":[320,640,1280,1280],"cross_attention_dim":768,
          "down_block_types":["CrossAttnDownBlock2D","CrossAttnDownBlock2D",
                              "CrossAttnDownBlock2D","DownBlock2D"],
          "up_block_types":["UpBlock2D","CrossAttnUpBlock2D","CrossAttnUpBlock2D",
                            "CrossAttnUpBlock2D"],
          "in_channels":4,"layers_per_block":2,"sample_size":64})",
      "c");
  ASSERT_TRUE(unet) << unet.error().message;
  TrainingPlan plan;
  plan.sequence = 64 * 64;
  plan.weights = Dtype::kFp32;
  plan.amp = true;
  plan.frozen_parameters = 207'000'000;
  for (const auto& [batch, mib] : {std::pair(24, 43'769.0), std::pair(48, 73'777.0)}) {
    plan.batch = batch;
    EXPECT_NEAR(static_cast<double>(Asked(plan, *unet).shown.point_mib) / mib, 1, 0.02) << batch;
  }
  plan.amp = false;
  plan.batch = 2;
  plan.method = Method::kLora;
  plan.lora_targets = *ParseLoraTargets("attention");
  plan.checkpointing = Checkpointing::kFull;
  plan.attention = Attention::kEager;
  EXPECT_NEAR(static_cast<double>(Asked(plan, *unet).needed.point_mib) / 8'120, 1, 0.06);
  EXPECT_THAT(Asked(plan, *unet).warnings,
              ::testing::Contains(::testing::HasSubstr("few measured runs")))
      << "most measured runs used full training";
}

TEST(TransformerPeak, BucketsOfZeroHoldTrainedParameters) {
  TrainingPlan plan = LoraPlan(2048, 1);
  plan.ranks = 4;
  const double ddp = Asked(plan).parts.working;
  plan.data_parallel = DataParallel::kZero2;
  EXPECT_NEAR(Asked(plan).parts.working, ddp, 20) << "adapters are small";
}

// According to Korthikanti et al., 2022, a block of GPT keeps 34 bytes per token and element of its
// width, without the attention matrix. According to the README of Megatron-LM, each parameter takes
// 18 bytes, or 6 + 12 / d with the distributed optimizer on d GPUs.
TEST(TransformerPeak, MegatronNeedsThePublishedBytes) {
  TransformerConfig gpt = Model();
  gpt.gated = gpt.rms_norm = false;
  gpt.feed_forward = 4 * gpt.hidden;
  gpt.drops_out = true;
  TrainingPlan plan = Plan(8, 1);
  UseMegatron(plan);
  EXPECT_NEAR(BytesPerParameter(Asked(plan, gpt)), 18, 0.01);
  plan.data_parallel = DataParallel::kZero1;
  plan.ranks = 8;
  EXPECT_NEAR(BytesPerParameter(Asked(plan, gpt)), 6 + 12.0 / 8, 0.02);
  plan.checkpointing = Checkpointing::kAttention;
  plan.loss = Loss::kFused;
  plan.sequence = 8192;
  plan.batch = 4;
  // The last block's backward pass allocates two gradients as wide as the feed-forward part.
  const double tokens = 4 * 8192;
  const double kept = tokens * 34 * 1024 * 16;
  const double made = tokens * 16 * 1024;
  EXPECT_NEAR(Asked(plan, gpt).parts.activations * kMib, kept + made, 1e6);
  plan.tensor_parallel = 8;
  plan.sequence_parallel = true;
  const double gathered = tokens * 4 * (1024 - 1024.0 / 8);
  EXPECT_NEAR(Asked(plan, gpt).parts.activations * kMib, (kept + made) / 8 + gathered, 1e6);
}

}  // namespace
}  // namespace carma::estimate
