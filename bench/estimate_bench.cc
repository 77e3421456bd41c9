// Measures the cost of one estimate, which reads a summary and computes the peak. BM_OwnSummary
// uses the file named by CARMA_BENCH_SUMMARY.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "base/file.h"
#include "estimate/estimator.h"
#include "estimate/transformer/peak.h"
#include "estimate/transformer_config.h"
#include "model/summary.h"

namespace carma {
namespace {

// Builds the torchsummary output for a chain of convolution, norm and activation layers with `rows`
// rows.
std::string Summary(int rows) {
  std::string text = "        Layer (type)               Output Shape         Param #\n";
  text += std::string(64, '=') + "\n";
  std::int64_t total = 0;
  const auto add = [&](const char* type, int number, std::int64_t params) {
    text += fmt::format("{:>25}  {:>20} {:>15}\n", fmt::format("{}-{}", type, number),
                        "[-1, 64, 56, 56]", params);
    total += params;
  };
  for (int i = 1; i <= rows; ++i) {
    if (i % 3 == 1) add("Conv2d", i, i == 1 ? 1728 : 36'864);
    if (i % 3 == 2) add("BatchNorm2d", i, 128);
    if (i % 3 == 0) add("ReLU", i, 0);
  }
  return text + std::string(64, '=') +
         fmt::format("\nTotal params: {0}\nTrainable params: {0}\nNon-trainable params: 0\n",
                     total) +
         std::string(64, '-') + "\n";
}

void Estimate(benchmark::State& state, const std::string& text) {
  const auto structural = estimate::MakeStructural();
  std::int64_t rows = 0;
  for (auto _ : state) {
    const auto list = model::ParseSummary(text, "summary");
    if (!list) {
      state.SkipWithError(list.error().message.c_str());
      return;
    }
    estimate::Question question;
    question.layers = &*list;
    question.batch = 32;
    auto answer = structural->Ask(question);
    if (!answer) {
      state.SkipWithError(answer.error().message.c_str());
      return;
    }
    benchmark::DoNotOptimize(answer->point_mib);
    rows = static_cast<std::int64_t>(list->layers.size());
  }
  state.counters["rows"] = static_cast<double>(rows);
}

void BM_Structural(benchmark::State& state) {
  Estimate(state, Summary(static_cast<int>(state.range(0))));
}
BENCHMARK(BM_Structural)
    ->ArgName("rows")
    ->Arg(150)
    ->Arg(300)
    ->Arg(1500)
    ->Unit(benchmark::kMicrosecond);

void BM_OwnSummary(benchmark::State& state) {
  const std::string path = base::GetEnv("CARMA_BENCH_SUMMARY");
  const auto text = base::ReadFile(path, model::kMaxSummaryBytes);
  if (!text) {
    state.SkipWithError("CARMA_BENCH_SUMMARY does not name a readable summary");
    return;
  }
  Estimate(state, *text);
}
BENCHMARK(BM_OwnSummary)->Unit(benchmark::kMicrosecond);

// Reads the config.json of an 8 B model and estimates its memory.
void BM_Transformer(benchmark::State& state) {
  const std::string text =
      R"({"model_type":"llama","num_hidden_layers":32,"hidden_size":4096,)"
      R"("num_attention_heads":32,"num_key_value_heads":8,"intermediate_size":14336,)"
      R"("vocab_size":128256,"torch_dtype":"bfloat16"})";
  estimate::TrainingPlan plan;
  plan.checkpointing = estimate::Checkpointing::kFull;
  for (auto _ : state) {
    const auto config = estimate::ParseTransformerConfig(text, "config.json");
    if (!config) {
      state.SkipWithError(config.error().message.c_str());
      return;
    }
    auto answer = estimate::EstimateTransformer(*config, plan, 0.95);
    benchmark::DoNotOptimize(answer->shown.point_mib);
  }
}
BENCHMARK(BM_Transformer)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace carma

BENCHMARK_MAIN();
