// Measures how long GPUMemNet's networks take for one prediction, from a layer list to the point
// estimate and the bound. The published times are 2.3 ms (MLP) and 10.7 ms (Transformer) for
// inference alone on a GPU (arXiv 2602.17817).
#include <benchmark/benchmark.h>

#include <cstdint>
#include <memory>

#include "estimate/estimator.h"
#include "model/layers.h"

namespace carma::estimate {
namespace {

constexpr std::int64_t kImage = 224;

void AddLayer(model::LayerList& list, const char* type, std::int64_t channels, std::int64_t side,
              std::int64_t params) {
  model::Layer layer;
  layer.type = type;
  for (const std::int64_t each : {std::int64_t{-1}, channels, side, side}) {
    layer.in.Push(each);
    layer.out.Push(each);
  }
  layer.params = layer.trainable = params;
  list.layers.push_back(layer);
  list.params += params;
}

// Builds `layers` rows of convolution, batch norm and activation. The width grows every `same`
// blocks. With 30, the layers resemble a residual network. With 1, no two layers are equal, which
// is the most expensive case for the encoder.
model::LayerList Convolutions(std::int64_t layers, std::int64_t same) {
  model::LayerList list;
  for (std::int64_t i = 0; i < layers / 3; ++i) {
    const std::int64_t channels = 64 + 8 * (i / same);
    const std::int64_t side = kImage / (4 << (12 * i / layers));
    AddLayer(list, "Conv2d", channels, side, 9 * channels * channels);
    AddLayer(list, "BatchNorm2d", channels, side, 2 * channels);
    AddLayer(list, "ReLU", channels, side, 0);
  }
  return list;
}

void Ask(benchmark::State& state, std::unique_ptr<Estimator> estimator) {
  const model::LayerList list = Convolutions(state.range(0), state.range(1));
  Question question;
  question.layers = &list;
  question.batch = 64;
  for (auto _ : state) benchmark::DoNotOptimize(estimator->Ask(question));
}

void BM_Mlp(benchmark::State& state) {
  Ask(state, MakeGpuMemNetMlp());
}
void BM_Transformer(benchmark::State& state) {
  Ask(state, MakeGpuMemNetTransformer());
}
BENCHMARK(BM_Mlp)->ArgNames({"layers", "same"})->Args({300, 30})->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_Transformer)
    ->ArgNames({"layers", "same"})
    ->Args({300, 30})
    ->Args({300, 5})
    ->Args({300, 1})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace carma::estimate
