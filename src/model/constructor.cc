
#include <algorithm>
#include <vector>

#include "base/text.h"
#include "model/op.h"
#include "model/reading.h"

namespace carma::model {
namespace {

using Number = std::optional<std::int64_t>;

// The arguments of a constructor, such as "3, 64, kernel_size=(7, 7), bias=False", split at the
// commas outside parentheses.
class Arguments {
 public:
  explicit Arguments(std::string_view text) {
    int open = 0;
    std::size_t start = 0;
    for (std::size_t i = 0; i <= text.size(); ++i) {
      if (i < text.size() && (text[i] == '(' || text[i] == '[')) ++open;
      if (i < text.size() && (text[i] == ')' || text[i] == ']')) --open;
      if (i < text.size() && (text[i] != ',' || open > 0)) continue;
      pieces_.push_back(base::Trim(text.substr(start, i - start)));
      start = i + 1;
    }
  }

  // The value of a keyword, or "" if it is missing.
  std::string_view Keyword(std::string_view name) const {
    for (const std::string_view piece : pieces_) {
      if (piece.size() > name.size() && piece.starts_with(name) && piece[name.size()] == '=')
        return piece.substr(name.size() + 1);
    }
    return "";
  }
  std::string_view At(std::size_t i) const { return i < pieces_.size() ? pieces_[i] : ""; }
  // Newer versions of PyTorch print the width as the keyword argument `name`, older ones as the
  // i-th argument.
  Number Width(std::size_t i, std::string_view name) const {
    const std::string_view keyword = Keyword(name);
    return Count(keyword.empty() ? At(i) : keyword);
  }
  // Returns the value of a flag, or `usual` if the flag is not printed.
  bool Flag(std::string_view name, bool usual) const {
    const std::string_view value = Keyword(name);
    return value.empty() ? usual : value != "False" && value != "None";
  }
  std::int64_t Whole(std::string_view name, std::int64_t usual) const {
    return Count(Keyword(name)).value_or(usual);
  }
  // The number of kernel positions for "3" or "(3, 3)". A single number applies to all sides.
  Number Positions(std::string_view name, int sides) const {
    const std::string_view value = Keyword(name);
    Shape shape;
    if (ParseShape(value, shape) && !shape.empty()) return shape.Elements();
    const Number side = Count(value);
    if (!side) return std::nullopt;
    Number product = 1;
    for (int i = 0; i < sides; ++i) product = Product(product, side);
    return product;
  }

  // Empty if the width is 0, which means unknown.
  static Number Count(std::string_view text) {
    const Number value = ParseCount(text);
    return value && *value > 0 ? value : std::nullopt;
  }
  // Empty if a factor is empty or the product exceeds kMaxElements.
  static Number Product(Number a, Number b) {
    if (!a || !b || *a > kMaxElements / *b) return std::nullopt;
    return *a * *b;
  }
  static Number Sum(Number a, Number b) {
    if (!a || !b || *a > kMaxElements - *b) return std::nullopt;
    return *a + *b;
  }

 private:
  std::vector<std::string_view> pieces_;
};

// The number of dimensions, taken from the type's name: Conv2d → 2.
int Sides(std::string_view type) {
  const std::size_t digit = type.find_first_of("123");
  return digit == std::string_view::npos ? 1 : type[digit] - '0';
}

Number ConvParams(const Arguments& arguments, Layer& layer) {
  layer.in_features = arguments.Width(0, "in_channels");
  layer.out_features = arguments.Width(1, "out_channels");
  layer.kernel = arguments.Positions("kernel_size", Sides(layer.type));
  const std::int64_t groups = arguments.Whole("groups", 1);
  if (!layer.in_features || *layer.in_features % groups != 0) return std::nullopt;
  const Number weight = Arguments::Product(
      Arguments::Product(*layer.in_features / groups, layer.out_features), layer.kernel);
  return arguments.Flag("bias", true) ? Arguments::Sum(weight, layer.out_features) : weight;
}

Number LinearParams(const Arguments& arguments, Layer& layer) {
  if (layer.type == "Conv1D") {  // transformers: nf outputs, nx inputs
    layer.in_features = Arguments::Count(arguments.Keyword("nx"));
    layer.out_features = Arguments::Count(arguments.Keyword("nf"));
  } else {
    layer.in_features = arguments.Width(0, "in_features");
    layer.out_features = arguments.Width(1, "out_features");
  }
  const Number weight = Arguments::Product(layer.in_features, layer.out_features);
  return arguments.Flag("bias", true) ? Arguments::Sum(weight, layer.out_features) : weight;
}

Number NormParams(const Arguments& arguments, Layer& layer) {
  const std::string_view first = arguments.At(0);
  Shape shape;
  if (layer.type.contains("GroupNorm")) {
    layer.in_features = arguments.Width(1, "num_channels");
  } else if (ParseShape(first, shape) && !shape.empty()) {
    layer.in_features = shape.Elements();
  } else {
    layer.in_features = arguments.Width(0, "num_features");
  }
  layer.out_features = layer.in_features;
  const bool instance = layer.type.starts_with("InstanceNorm");
  const bool affine =
      arguments.Flag("affine", !instance) && arguments.Flag("elementwise_affine", true);
  if (!affine) return 0;
  const bool shift = !layer.type.contains("RMS") && arguments.Flag("bias", true);
  return Arguments::Product(layer.in_features, shift ? 2 : 1);
}

Number RecurrentParams(const Arguments& arguments, Layer& layer) {
  layer.in_features = arguments.Width(0, "input_size");
  const Number hidden = arguments.Width(1, "hidden_size");
  const Number projected = Arguments::Count(arguments.Keyword("proj_size"));  // LSTM only
  const Number state = projected ? projected : hidden;
  const std::int64_t layers = arguments.Whole("num_layers", 1);
  const std::int64_t ways = arguments.Flag("bidirectional", false) ? 2 : 1;
  layer.out_features = Arguments::Product(state, ways);
  const std::int64_t gates = layer.type.starts_with("LSTM")  ? 4
                             : layer.type.starts_with("GRU") ? 3
                                                             : 1;
  const std::int64_t biases = arguments.Flag("bias", true) ? 2 : 0;
  // The weights of one layer in one direction. Each gate reads the input and the state, and the new
  // state may then be projected.
  const auto weights = [&](Number width) {
    const Number columns = Arguments::Sum(Arguments::Sum(width, state), biases);
    const Number rows = Arguments::Product(hidden, gates);
    const Number projection = projected ? Arguments::Product(projected, hidden) : Number(0);
    return Arguments::Sum(Arguments::Product(rows, columns), projection);
  };
  Number params = weights(layer.in_features);
  if (layers > 1)
    params = Arguments::Sum(params, Arguments::Product(weights(layer.out_features), layers - 1));
  return Arguments::Product(params, ways);
}

}  // namespace

std::optional<std::int64_t> ReadConstructor(std::string_view text, Layer& layer) {
  const Arguments arguments(text);
  layer.inplace = arguments.Flag("inplace", arguments.At(0) == "inplace");
  switch (OpOf(layer.type)) {
    case Op::kConv:
      return ConvParams(arguments, layer);
    case Op::kLinear:
      return LinearParams(arguments, layer);
    case Op::kBatchNorm:
    case Op::kLayerNorm:
      return NormParams(arguments, layer);
    case Op::kEmbedding:
      layer.in_features = arguments.Width(0, "num_embeddings");
      layer.out_features = arguments.Width(1, "embedding_dim");
      return Arguments::Product(layer.in_features, layer.out_features);
    case Op::kRecurrent:
      return RecurrentParams(arguments, layer);
    case Op::kDropout: {
      for (const std::string_view name : {"p", "drop_prob"}) {
        const auto rate = base::ParseDouble(arguments.Keyword(name));
        if (rate && *rate >= 0 && *rate <= 1) layer.dropout = rate;
      }
      return 0;
    }
    case Op::kActivation:
      return layer.type == "PReLU" ? arguments.Whole("num_parameters", 1) : 0;
    case Op::kPool:
    case Op::kReshape:
      return 0;
    case Op::kAttention:
    case Op::kOther:
      break;
  }
  return std::nullopt;
}

std::int64_t AttentionParams(const Layer& projection) {
  const Number width = projection.out_features;
  const Number weight = Arguments::Product(Arguments::Product(width, width), 3);
  const bool bias = projection.params > Arguments::Product(width, width).value_or(0);
  const Number all = bias ? Arguments::Sum(weight, Arguments::Product(width, 3)) : weight;
  return all.value_or(0);
}

}  // namespace carma::model
