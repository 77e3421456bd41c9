// Compares the estimators' answers with the memory of the training runs in data/measured.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "estimate/evaluate.h"
#include "estimate/transformer/peak.h"
#include "estimate/transformer/runs.h"
#include "test_paths.h"

namespace carma::estimate {
namespace {

constexpr std::int64_t kCardMib = 80'000;

std::string File(const std::string& name) {
  return std::string(CARMA_SOURCE_DIR) + "/data/measured/h100/" + name;
}

Score StructuralScore(bool exact, double coverage, const std::string& family) {
  const auto set = ReadDataSet(File("layers.jsonl.gz"), File("measured.csv"), {.exact = exact});
  EXPECT_TRUE(set) << set.error().message;
  const auto structural = MakeStructural();
  std::vector<Outcome> outcomes;
  for (const Run& run : set->runs) {
    if (run.family != family) continue;
    Question question;
    question.layers = &set->models[run.model];
    question.batch = run.batch;
    question.optimizer = run.optimizer;
    question.precision = run.precision;
    question.coverage = coverage;
    auto answer = structural->Ask(question);
    outcomes.push_back({.measured_mib = run.measured_mib,
                        .censored = run.censored,
                        .answer = answer ? std::optional(*std::move(answer)) : std::nullopt});
  }
  return ScoreOf(outcomes, kCardMib);
}

TEST(MeasuredOnAnH100, ImageModels) {
  const Score exact = StructuralScore(true, 0.95, "images");
  EXPECT_GE(exact.runs, 60U);
  EXPECT_LE(exact.median_error, 0.03);
  EXPECT_LE(exact.mean_error, 0.06);
  EXPECT_GE(exact.covered, 0.95);
  EXPECT_LE(exact.bound_over, 0.22);
  const Score rules = StructuralScore(false, 0.95, "images");
  EXPECT_LE(rules.median_error, 0.035);
  EXPECT_GE(rules.covered, 0.95);
}

TEST(MeasuredOnAnH100, Encoders) {
  const Score exact = StructuralScore(true, 0.9, "encoders");
  EXPECT_GE(exact.runs, 20U);
  EXPECT_LE(exact.median_error, 0.06);
  EXPECT_GE(exact.covered, 0.95);
}

Score TransformerScore(MemoryKind kind) {
  const auto set = ReadTrainingRuns({File("transformers.csv")}, {File("transformer-models.csv")});
  EXPECT_TRUE(set) << set.error().message;
  std::vector<Outcome> outcomes;
  for (const TrainingRun& run : set->runs) {
    for (const MeasuredMemory& measured : run.measured) {
      if (measured.kind != kind || !run.plan) continue;
      const auto estimate = EstimateTransformer(set->configs[run.config], *run.plan, 0.95);
      EXPECT_TRUE(estimate) << run.id;
      const MemoryBound& bound = kind == MemoryKind::kShown ? estimate->shown : estimate->needed;
      Answer answer;
      answer.point_mib = bound.point_mib;
      answer.bound_mib = bound.bound_mib;
      outcomes.push_back(
          {.measured_mib = measured.mib, .censored = false, .answer = std::move(answer)});
    }
  }
  return ScoreOf(outcomes, kCardMib);
}

TEST(MeasuredOnAnH100, TransformersNeed) {
  const Score needed = TransformerScore(MemoryKind::kAllocated);
  EXPECT_GE(needed.runs, 60U);
  EXPECT_LE(needed.median_error, 0.02);
  EXPECT_LE(needed.p90_error, 0.06);
  EXPECT_GE(needed.covered, 0.95);
}

TEST(MeasuredOnAnH100, TransformersShow) {
  const Score shown = TransformerScore(MemoryKind::kShown);
  EXPECT_LE(shown.median_error, 0.05);
  EXPECT_LE(shown.p90_error, 0.17);
  EXPECT_GE(shown.covered, 0.95);
  EXPECT_LE(shown.bound_over, 0.4);
}

}  // namespace
}  // namespace carma::estimate
