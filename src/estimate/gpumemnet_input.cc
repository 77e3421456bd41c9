#include "estimate/gpumemnet_input.h"

#include <algorithm>
#include <cmath>
#include <compare>
#include <numbers>

#include "base/text.h"
#include "model/features.h"

namespace carma::estimate {
namespace {

using model::Op;

float Ln1p(double size) {
  return static_cast<float>(std::log1p(size));
}

// The activation functions, in the order of the angles that encode them (see kAggregateNames). The
// first eight need only their output for the backward pass; the other eight need their input, which
// costs one more tensor.
constexpr std::array<std::string_view, 16> kFunctions{
    "relu",  "relu6", "hardtanh", "hardsigmoid", "softmax",  "sigmoid",   "tanh", "logsoftmax",
    "prelu", "elu",   "celu",     "selu",        "softplus", "hardswish", "silu", "mish",
};

// The function's angle as a fraction of a full turn. Negative for a function without an angle.
double Turn(std::string_view function) {
  const std::string name = base::ToLower(function);
  for (std::size_t i = 0; i < kFunctions.size(); ++i) {
    if (kFunctions[i] == name) return (static_cast<double>(i) + 0.5) / kFunctions.size();
  }
  if (name == "leakyrelu" || name == "rrelu") return Turn("prelu");
  if (name.contains("gelu") || name == "swish") return Turn("silu");
  return -1;
}

// Output elements per sample. 0 for outputs that do not grow with the batch, such as position
// tables.
double OutputOf(const model::Layer& layer) {
  return layer.out.ScalesWithBatch() ? static_cast<double>(layer.out.Elements()) : 0;
}

int TypeOf(Op op) {
  const auto* found = std::ranges::find(kLayerTypes, op);
  const auto* other = std::ranges::find(kLayerTypes, Op::kOther);
  return static_cast<int>((found == kLayerTypes.end() ? other : found) - kLayerTypes.begin());
}

struct Row {
  int type = 0;
  double output = 0;
  double params = 0;
  auto operator<=>(const Row&) const = default;
};

// Rounds sizes to powers of e^step so that similar sizes become equal.
Row Rounded(const Row& row, double step) {
  const auto round = [&](double size) {
    return std::expm1(std::round(std::log1p(size) / step) * step);
  };
  return {row.type, round(row.output), round(row.params)};
}

std::size_t Different(const std::vector<Row>& sorted) {
  std::size_t different = sorted.empty() ? 0 : 1;
  for (std::size_t i = 1; i < sorted.size(); ++i) different += sorted[i] != sorted[i - 1];
  return different;
}

std::vector<LayerToken> Tokens(std::vector<Row> rows, double batch) {
  std::ranges::sort(rows);
  // The loop terminates because a large enough step rounds every size to 0.
  for (double step = 1.0 / 64; Different(rows) > kMaxTokens; step *= 2) {
    for (Row& row : rows) row = Rounded(row, step);
    std::ranges::sort(rows);
  }
  std::vector<LayerToken> tokens;
  for (auto row = rows.begin(); row != rows.end();) {
    const auto next = std::find_if(row, rows.end(), [&](const Row& each) { return each != *row; });
    tokens.push_back({.type = row->type,
                      .sizes = {Ln1p(row->output), Ln1p(row->params), Ln1p(row->output * batch)},
                      .ln_repeats = static_cast<float>(std::log(next - row))});
    row = next;
  }
  return tokens;
}

}  // namespace

NetworkInput DescribeForNetworks(const model::LayerList& list, std::int64_t batch_size) {
  const model::Features features = model::Summarize(list);
  const auto batch = static_cast<double>(batch_size);
  double largest_output = 0;
  double weighted_outputs = 0;
  double largest_conv = 0;
  std::vector<Row> rows;
  for (const model::Layer& layer : list.layers) {
    const Op op = model::OpOf(layer.type);
    if (op == Op::kReshape || !model::IsOperation(layer)) continue;
    const double output = OutputOf(layer);
    rows.push_back({TypeOf(op), output, static_cast<double>(layer.params)});
    largest_output = std::max(largest_output, output);
    if (op == Op::kConv || op == Op::kLinear) weighted_outputs += output;
    if (op == Op::kConv) {
      const double input = layer.in.empty() ? output : static_cast<double>(layer.in.Elements());
      largest_conv = std::max(largest_conv, input + output);
    }
  }

  const double turn = Turn(features.activation_function);
  const double angle = 2 * std::numbers::pi * turn;
  const double depth = std::max(1, features.depth);
  NetworkInput input;
  input.aggregates = {
      Ln1p(features.linear),
      Ln1p(features.conv),
      Ln1p(features.batch_norm),
      Ln1p(features.layer_norm),
      Ln1p(features.dropout),
      Ln1p(features.depth),
      Ln1p(batch),
      Ln1p(static_cast<double>(features.params)),
      Ln1p(static_cast<double>(features.activations)),
      Ln1p(static_cast<double>(features.activations) * batch),
      turn < 0 ? 0 : static_cast<float>(std::cos(angle)),
      turn < 0 ? 0 : static_cast<float>(std::sin(angle)),
      Ln1p(largest_output * batch),
      Ln1p(weighted_outputs * batch),
      Ln1p(largest_conv * batch),
      static_cast<float>(features.dropout / depth),
      static_cast<float>(features.batch_norm / depth),
  };
  input.layers = Tokens(std::move(rows), batch);
  return input;
}

}  // namespace carma::estimate
