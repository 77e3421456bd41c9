// Measures how long it takes to convert a model summary in each format to a layer list, and how
// long the JSON library alone takes for the same text.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstddef>
#include <string>

#include "base/json.h"
#include "model/features.h"
#include "model/summary.h"

namespace carma::model {
namespace {

// An ordinary model: about 300 rows of convolution, batch norm and activation.
constexpr int kBlocks = 100;

std::string JsonText() {
  std::string rows;
  for (int i = 0; i < kBlocks; ++i) {
    for (
        const char* row :
        {R"(["Conv2d",[-1,256,56,56],[-1,256,56,56],589824,0,589824,0,"layer1.{0}.block.conv1",{{"kernel":9}}])",
         R"(["BatchNorm2d",[-1,256,56,56],[-1,256,56,56],512,0,512,0,"layer1.{0}.block.bn1"])",
         R"(["ReLU",[-1,256,56,56],[-1,256,56,56],0,1,0,0,"layer1.{0}.block.act1"])"}) {
      rows += fmt::format(fmt::runtime(row), i) + ",";
    }
  }
  rows.pop_back();
  return fmt::format(
      R"({{"model":"net","family":"cnn","input":[3,224,224],"output":[-1,1000],"params":59033600,)"
      R"("trainable":59033600,"layers":[{}]}})",
      rows);
}

std::string TorchSummaryText() {
  std::string text = "        Layer (type)               Output Shape         Param #\n";
  text += std::string(64, '=') + "\n";
  int row = 0;
  for (int i = 0; i < kBlocks; ++i) {
    text += fmt::format("{:>20}  {:>25} {:>15}\n", fmt::format("Conv2d-{}", ++row),
                        "[32, 256, 56, 56]", "589,824");
    text += fmt::format("{:>20}  {:>25} {:>15}\n", fmt::format("BatchNorm2d-{}", ++row),
                        "[32, 256, 56, 56]", "512");
    text += fmt::format("{:>20}  {:>25} {:>15}\n", fmt::format("ReLU-{}", ++row),
                        "[32, 256, 56, 56]", "0");
  }
  return text + std::string(64, '=') + "\nTotal params: 59,033,600\n";
}

std::string TorchInfoText() {
  std::string text = "Layer (type:depth-idx)    Input Shape    Output Shape    Param #\n";
  text += std::string(100, '=') + "\nNet   [32, 3, 224, 224]   [32, 256, 56, 56]   --\n";
  int row = 0;
  for (int i = 0; i < kBlocks; ++i) {
    text += fmt::format("├─Block: 1-{}   [32, 256, 56, 56]   [32, 256, 56, 56]   --\n", i + 1);
    for (const auto& [type, params] :
         {std::pair{"Conv2d", "589,824"}, {"BatchNorm2d", "512"}, {"ReLU", "--"}}) {
      text += fmt::format("│    └─{}: 2-{}{:20}[32, 256, 56, 56]         [32, 256, 56, 56]    {}\n",
                          type, ++row, "", params);
    }
  }
  return text + std::string(100, '=') + "\nTotal params: 59,033,600\n";
}

std::string TreeText() {
  std::string text = "Net(\n  (layers): ModuleList(\n";
  for (int i = 0; i < kBlocks; ++i) {
    text += fmt::format(
        "    ({}): Block(\n"
        "      (conv): Conv2d(256, 256, kernel_size=(3, 3), stride=(1, 1), bias=False)\n"
        "      (bn): BatchNorm2d(256, eps=1e-05, momentum=0.1, affine=True)\n"
        "      (act): ReLU(inplace=True)\n    )\n",
        i);
  }
  return text + "  )\n)\n";
}

std::string KerasText() {
  std::string text =
      "Model: \"net\"\n" + std::string(98, '_') +
      "\n Layer (type)                   Output Shape         Param #     Connected to\n" +
      std::string(98, '=') + "\n";
  std::string before = "input_1";
  const auto add = [&](const std::string& name, const char* type, int params) {
    text += fmt::format(" {:<31}{:<21}{:<12}['{}[0][0]']\n\n", fmt::format("{} ({})", name, type),
                        "(None, 56, 56, 256)", params, before);
    before = name;
  };
  for (int i = 0; i < kBlocks; ++i) {
    add(fmt::format("conv{}", i), "Conv2D", 589'824);
    add(fmt::format("bn{}", i), "LayerNormalization", 512);
    add(fmt::format("act{}", i), "ReLU", 0);
  }
  return text + std::string(98, '=') + "\nTotal params: 59,033,600\n";
}

void Read(benchmark::State& state, const std::string& text) {
  std::size_t rows = 0;
  for ([[maybe_unused]] auto _ : state) {
    const auto list = ParseSummary(text, "bench");
    if (!list) return state.SkipWithError(list.error().message.c_str());
    rows = list->layers.size();
  }
  state.counters["rows"] = static_cast<double>(rows);
  state.counters["bytes"] = static_cast<double>(text.size());
}

BENCHMARK_CAPTURE(Read, CarmaJson, JsonText());
BENCHMARK_CAPTURE(Read, TorchSummary, TorchSummaryText());
BENCHMARK_CAPTURE(Read, TorchInfo, TorchInfoText());
BENCHMARK_CAPTURE(Read, Tree, TreeText());
BENCHMARK_CAPTURE(Read, Keras, KerasText());

// For comparison: nlohmann-json alone, from text to values, without a layer list.
void NlohmannJson(benchmark::State& state) {
  const std::string text = JsonText();
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(nlohmann::json::parse(text));
}
BENCHMARK(NlohmannJson);

void Features(benchmark::State& state) {
  const auto list = ParseSummary(JsonText(), "bench");
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(Summarize(*list));
    benchmark::DoNotOptimize(Classify(*list));
  }
}
BENCHMARK(Features);

}  // namespace
}  // namespace carma::model
