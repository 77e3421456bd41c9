#include "estimate/structural/unseen_input.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>

namespace carma::estimate {
namespace {

using model::Shape;

// The square root, if it is an integer; otherwise empty.
std::optional<std::int64_t> Root(double number) {
  const auto root = static_cast<std::int64_t>(std::lround(std::sqrt(number)));
  if (static_cast<double>(root * root) != number) return std::nullopt;
  return root;
}

// Common kernel sizes in elements: 1x1, 3x3 …, patches, and 1x3, 1x5, 1x7.
constexpr std::array<std::int64_t, 14> kKernels{1,  3,  5,  7,  4,   9,   16,
                                                25, 36, 49, 64, 121, 256, 1024};

// Depthwise kernels have odd sides. A convolution with 64 weights per output therefore reads 64
// channels with a 1x1 kernel rather than one channel with an 8x8 kernel.
constexpr std::int64_t kLargestDepthwise = 49;

// Candidates for the number of weights per output channel, most likely first. The bias and the
// extra weights of a standardised convolution are not included.
struct Candidates {
  std::array<std::int64_t, 3> values{};
  std::size_t count = 0;
  void Add(std::int64_t value) {
    if (value > 0) values[count++] = value;
  }
  const std::int64_t* begin() const { return values.data(); }
  const std::int64_t* end() const { return values.data() + count; }
};

Candidates WeightsPerOutput(const model::Layer& layer, const LayerRule& rule) {
  Candidates candidates;
  const std::int64_t outputs = Dimension(layer.out, 1);
  if (layer.params % outputs != 0) return candidates;
  const std::int64_t weights = layer.params / outputs;
  candidates.Add(weights);
  candidates.Add(weights - 1);
  if (rule.standardized) candidates.Add(weights - 2);
  return candidates;
}

// The number of elements in the image that the model's first convolution reads. The image has 3
// channels or 1.
double ImageElements(const model::Layer& layer, const LayerRule& rule) {
  const auto positions = static_cast<double>(layer.out[2] * layer.out[3]);
  for (const std::int64_t weights : WeightsPerOutput(layer, rule)) {
    for (const std::int64_t channels : {3, 1}) {
      if (weights % channels != 0) continue;
      const std::int64_t positions_read = weights / channels;
      const auto kernel = Root(static_cast<double>(positions_read));
      if (!kernel) continue;
      // Kernels with an even side length cut the image into patches. Large kernels have a stride of
      // two.
      const std::int64_t stride = *kernel % 2 == 0 ? *kernel : *kernel > 3 ? 2 : 1;
      return static_cast<double>(channels * stride * stride) * positions;
    }
  }
  return Elements(layer.out);
}

// Guesses how many channels result from concatenating the last tensor with others, using the
// weights of the layer that reads the concatenation. 0 if the layer reads no concatenation. In
// order of preference:
// - a number that exceeds the last tensor's channels by exactly the channels of an earlier tensor
// - for a kernel of 3x3 to 7x7, up to four times the last tensor's channels (a skip from far back)
// - the number of weights per output channel, as for a 1x1 kernel
std::int64_t JoinedChannels(const Candidates& weights, const Tensor& current, const Trail& trail) {
  const std::int64_t channels = Dimension(current.shape, 1);
  const auto explained = [&](std::int64_t joined) {
    const int other = trail.Newest([&](const Tensor& tensor) {
      return tensor.shape.rank() == 4 && Dimension(tensor.shape, 1) == joined - channels &&
             tensor.shape[2] == current.shape[2] && Trail::IsReadable(tensor);
    });
    return other != Tensor::kNobody;
  };
  for (const std::int64_t kernel : {1, 9, 25, 49}) {
    for (const std::int64_t each : weights) {
      if (each % kernel == 0 && each / kernel > channels && explained(each / kernel))
        return each / kernel;
    }
  }
  constexpr std::int64_t kMostParts = 4;  // if a larger kernel reads the concatenation
  for (const std::int64_t kernel : {9, 25, 49}) {
    for (const std::int64_t each : weights) {
      const std::int64_t joined = each / kernel;
      if (each % kernel == 0 && joined > channels && joined <= kMostParts * channels) return joined;
    }
  }
  return weights.count > 0 && weights.values[0] > channels ? weights.values[0] : 0;
}

double OfConvolution(const model::Layer& layer, const LayerRule& rule, const Tensor* current,
                     const Trail& trail) {
  const Candidates weights = WeightsPerOutput(layer, rule);
  if (current == nullptr) return ImageElements(layer, rule);
  if (current->shape.rank() != 4) return current->elements;
  const std::int64_t channels = Dimension(current->shape, 1);
  const std::int64_t outputs = Dimension(layer.out, 1);
  for (const std::int64_t each : weights) {  // plain and depthwise convolutions
    for (const std::int64_t kernel : kKernels) {
      const bool depthwise = each == kernel && kernel % 2 == 1 && kernel <= kLargestDepthwise;
      if (each == channels * kernel || (depthwise && outputs % channels == 0))
        return current->elements;
    }
  }
  for (const std::int64_t each : weights) {  // a 1x1 branch or shortcut from an earlier tensor
    const int found = trail.Newest([&](const Tensor& tensor) {
      return Trail::IsReadable(tensor) && tensor.shape.rank() == 4 &&
             Dimension(tensor.shape, 1) == each &&
             (tensor.shape[2] == layer.out[2] || (tensor.shape[2] + 1) / 2 == layer.out[2]);
    });
    if (found != Tensor::kNobody) return trail[found].elements;
  }
  for (const std::int64_t each : weights) {  // grouped convolutions
    for (const std::int64_t kernel : {1, 9, 25, 49}) {
      if (channels * kernel % each == 0 && outputs % (channels * kernel / each) == 0)
        return current->elements;
    }
  }
  if (current->shape[2] == layer.out[2]) {
    if (const std::int64_t joined = JoinedChannels(weights, *current, trail); joined > 0)
      return static_cast<double>(joined) * static_cast<double>(layer.out[2] * layer.out[3]);
  }
  return current->elements;
}

// The input width of a linear layer, derived from its parameter count. If this count is a multiple
// of the number of outputs, the layer is assumed to have a bias.
double WidthRead(const model::Layer& layer) {
  if (layer.in_features) return static_cast<double>(*layer.in_features);
  const std::int64_t outputs = layer.out.last();
  if (outputs <= 0) return 1;
  const std::int64_t per_output = layer.params / outputs;
  return layer.params % outputs == 0 && per_output > 1 ? static_cast<double>(per_output - 1) : 1;
}

}  // namespace

double UnseenInput::WindowsOf(const Shape& out) const {
  if (windows_ <= 1 || out.rank() < 3) return 1;
  const auto tokens = static_cast<std::int64_t>(window_tokens_);
  if (out.rank() == 3) return out[1] == tokens ? windows_ : 1;
  if (out.rank() != 4) return 1;
  const bool matrix = out[2] == tokens && out[3] == tokens;  // attention weights
  return matrix || out[1] * out[2] == tokens ? windows_ : 1;
}

void UnseenInput::EnterWindows(const Tensor& current, double width, double tokens) {
  const auto side = Root(tokens);
  const double all = current.elements / width;
  if (!side || all <= tokens || tokens <= 1) return;
  double windows = 1;
  if (current.shape.rank() == 4) {  // [batch, height, width, channels]; the edge is padded
    const auto across = [&](std::size_t i) {
      return std::ceil(static_cast<double>(Dimension(current.shape, i)) /
                       static_cast<double>(*side));
    };
    windows = across(1) * across(2);
  } else if (Root(all / tokens)) {
    windows = all / tokens;
  }
  if (windows <= 1) return;
  windows_ = windows;
  window_tokens_ = tokens;
}

UnseenInput::Read UnseenInput::OfLinear(const model::Layer& layer, const Tensor* current) {
  double width = WidthRead(layer);
  const double tokens =
      Elements(layer.out) / static_cast<double>(Dimension(layer.out, layer.out.rank() - 1));
  if (current == nullptr) return {.elements = tokens * width};
  const Shape& before = current->shape;
  const auto last = before.empty() ? 0.0 : static_cast<double>(std::abs(before.last()));
  if (last == width || last == width + 1) {  // + 1: without a bias
    width = last;
    if (layer.out.rank() == 3 || layer.out.rank() == 4) EnterWindows(*current, width, tokens);
    const double windows = WindowsOf(layer.out);
    return {.elements = tokens * windows * width, .windows = windows};
  }
  if (layer.out.rank() > 2) return {.elements = tokens * width};
  // The row reads one vector per sample: the mean of the tokens, or one selected token.
  if (before.rank() == 3 &&
      current->elements == static_cast<double>(Dimension(before, 1)) * width) {
    return {.elements = width};
  }
  return {.elements = current->elements};
}

UnseenInput::Read UnseenInput::OfElementwise(const model::Layer& layer,
                                             const Tensor& current) const {
  const double printed = Elements(layer.out);
  const Shape& before = current.shape;
  const bool same_width = !before.empty() && before.last() == layer.out.last();
  const bool same_tokens =
      layer.out.rank() == 2 ||
      (before.rank() == layer.out.rank() && before.rank() > 1 && before[1] == layer.out[1]);
  // The row matches its input in width and token count but seems to have fewer elements, so its
  // printed batch dimension must include the windows.
  if (same_width && same_tokens && current.elements > printed &&
      std::fmod(current.elements, printed) == 0) {
    return {.elements = current.elements, .windows = current.elements / printed};
  }
  return {.elements = printed};
}

UnseenInput::Read UnseenInput::Of(const model::Layer& layer, const LayerRule& rule,
                                  const Tensor* current, const Trail& trail) {
  const double windows = WindowsOf(layer.out);
  const double printed = Elements(layer.out) * windows;
  if (windows == 1 && layer.out.rank() != 2) windows_ = 1;
  const bool linear = rule.linear && layer.params > 0;
  if (windows > 1) {
    if (!linear) return {.elements = printed, .windows = windows};
    const auto outputs = static_cast<double>(Dimension(layer.out, layer.out.rank() - 1));
    double width = WidthRead(layer);
    if (current != nullptr && current->elements * outputs == printed * (width + 1)) ++width;
    return {.elements = printed / outputs * width, .windows = windows};
  }
  if (linear) return OfLinear(layer, current);
  if (rule.convolution && layer.params > 0 && layer.out.rank() == 4)
    return {.elements = OfConvolution(layer, rule, current, trail)};
  if (current == nullptr) return {.elements = printed};
  if (rule.elementwise) return OfElementwise(layer, *current);
  return {.elements = current->elements};
}

}  // namespace carma::estimate
