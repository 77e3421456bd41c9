#include "estimate/gpumemnet_network.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "base/text.h"

namespace carma::estimate {
namespace {

using Eigen::MatrixXf;
using Eigen::VectorXf;
using Index = Eigen::Index;

// The shipped networks use less than a tenth of these limits. Larger networks would need more than
// a few milliseconds per inference.
constexpr Index kMaxFeatures = 512;
constexpr Index kMaxClasses = 64;
constexpr int kMaxMembers = 32;
constexpr int kMaxDepth = 16;
constexpr std::int64_t kMaxClassMib = 1 << 20;

constexpr float kNormEpsilon = 1e-5F;
constexpr double kCheckTolerance = 1e-4;

constexpr Index kAggregateCount = kAggregateNames.size();
constexpr Index kTypeCount = kLayerTypes.size();
constexpr Index kSizeCount = kLayerSizeNames.size();

// Computes weight * x + bias for each column.
struct Linear {
  MatrixXf weight;
  VectorXf bias;
  MatrixXf operator()(const MatrixXf& x) const { return (weight * x).colwise() + bias; }
};

struct Norm {
  VectorXf weight;
  VectorXf bias;
  MatrixXf operator()(const MatrixXf& x) const {
    const Eigen::RowVectorXf mean = x.colwise().mean();
    MatrixXf centred = x.rowwise() - mean;
    const Eigen::RowVectorXf deviation =
        (centred.array().square().colwise().mean() + kNormEpsilon).sqrt();
    centred.array().rowwise() /= deviation.array();
    centred.array().colwise() *= weight.array();
    return centred.colwise() + bias;
  }
};

MatrixXf Relu(const MatrixXf& x) {
  return x.cwiseMax(0.F);
}

// Applies softmax to each column in place.
void SoftmaxColumns(MatrixXf& x) {
  const Eigen::RowVectorXf largest = x.colwise().maxCoeff();
  x = (x.rowwise() - largest).array().exp();
  const Eigen::RowVectorXf sum = x.colwise().sum();
  x.array().rowwise() /= sum.array();
}

// The encoder's input, one column per token.
struct Sequence {
  MatrixXf tokens;      // [types + sizes, n]: one-hot type, standardised sizes
  VectorXf ln_repeats;  // [n + 1]: 0 for the aggregates, which come first
};

VectorXf VectorOf(const std::vector<float>& values) {
  return Eigen::Map<const VectorXf>(values.data(), static_cast<Index>(values.size()));
}

}  // namespace

class Network::Member {
 public:
  virtual ~Member() = default;
  virtual Index classes() const = 0;
  // Returns the class logits. `aggregates` must be standardised.
  virtual VectorXf Logits(const VectorXf& aggregates, const Sequence& sequence) const = 0;
};

// Takes tensors from a file by name and records the first error. After an error, returns tensors of
// the size that a valid file would have.
class Network::Loader {
 public:
  static constexpr Index kAny = -1;  // any size up to kMaxFeatures

  Loader(const TensorFile& file, std::string_view path) : file_(file), path_(path) {}

  bool Has(const std::string& name) const { return file_.tensors.contains(name); }

  VectorXf Vector(const std::string& name, Index size) {
    const Tensor* tensor = Take(name, {size});
    return tensor == nullptr ? VectorXf::Zero(std::max<Index>(1, size)) : VectorOf(tensor->values);
  }
  MatrixXf Matrix(const std::string& name, Index rows, Index columns) {
    const Tensor* tensor = Take(name, {rows, columns});
    if (tensor == nullptr)
      return MatrixXf::Zero(std::max<Index>(1, rows), std::max<Index>(1, columns));
    using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    return Eigen::Map<const RowMajor>(tensor->values.data(), tensor->shape[0], tensor->shape[1]);
  }
  Linear TakeLinear(const std::string& name, Index out, Index in) {
    Linear linear;
    linear.weight = Matrix(name + ".weight", out, in);
    linear.bias = Vector(name + ".bias", linear.weight.rows());
    return linear;
  }
  Norm TakeNorm(const std::string& name, Index width) {
    return {Vector(name + ".weight", width), Vector(name + ".bias", width)};
  }
  std::vector<float> Values(const std::string& name, Index size) {
    const VectorXf vector = Vector(name, size);
    return {vector.begin(), vector.end()};
  }

  std::string Text(const std::string& key) {
    const auto found = file_.metadata.find(key);
    if (found == file_.metadata.end()) Complain(fmt::format("metadata has no '{}'", key));
    return found == file_.metadata.end() ? std::string() : found->second;
  }
  std::int64_t Number(const std::string& key, std::int64_t low, std::int64_t high) {
    const std::string text = Text(key);
    const auto number = base::ParseInt(text);
    if (number && *number >= low && *number <= high) return *number;
    Complain(fmt::format("metadata '{}' is '{}', expected {}..{}", key, base::Printable(text, 40),
                         low, high));
    return low;
  }
  void Expect(const std::string& key, std::string_view wanted) {
    if (const std::string text = Text(key); text != wanted) {
      Complain(fmt::format("metadata '{}' is '{}', expected '{}'", key, base::Printable(text, 300),
                           wanted));
    }
  }
  void Complain(const std::string& what) {
    if (!error_) error_ = {ErrorCode::kInvalid, fmt::format("{}: {}", path_, what)};
  }
  // Reports unknown tensors as an error, because the file's author expects them to have an effect.
  void NoOthers() {
    for (const auto& [name, tensor] : file_.tensors) {
      if (!name.starts_with("check.") && !taken_.contains(name)) {
        Complain(fmt::format("tensor '{}' does not belong in this kind of network",
                             base::Printable(name, 80)));
      }
    }
  }
  const std::optional<base::Error>& error() const { return error_; }

 private:
  const Tensor* Take(const std::string& name, const std::vector<Index>& shape) {
    const auto found = file_.tensors.find(name);
    if (found == file_.tensors.end()) {
      Complain(fmt::format("no tensor '{}'", name));
      return nullptr;
    }
    taken_.insert(name);
    const std::vector<std::int64_t>& actual = found->second.shape;
    const bool fits = std::ranges::equal(actual, shape, [](std::int64_t is, Index wanted) {
      return wanted == kAny ? is <= kMaxFeatures : is == wanted;
    });
    if (fits) return &found->second;
    Complain(fmt::format("tensor '{}' is {}, expected {} (-1: 1..{})", name, actual, shape,
                         kMaxFeatures));
    return nullptr;
  }

  const TensorFile& file_;
  std::string_view path_;
  std::set<std::string> taken_;
  std::optional<base::Error> error_;
};

class Network::Mlp : public Network::Member {
 public:
  Mlp(Loader& in, const std::string& name, Index classes) {
    Index width = kAggregateCount;
    for (int k = 0; in.Has(fmt::format("{}.hidden.{}.weight", name, k)) && k < kMaxDepth; ++k) {
      hidden_.push_back(in.TakeLinear(fmt::format("{}.hidden.{}", name, k), Loader::kAny, width));
      width = hidden_.back().weight.rows();
    }
    output_ = in.TakeLinear(name + ".output", classes, width);
  }
  Index classes() const override { return output_.weight.rows(); }
  VectorXf Logits(const VectorXf& aggregates, const Sequence&) const override {
    VectorXf x = aggregates;
    for (const Linear& layer : hidden_) x = (layer.weight * x + layer.bias).cwiseMax(0.F);
    return output_.weight * x + output_.bias;
  }

 private:
  std::vector<Linear> hidden_;
  Linear output_;
};

class Network::Encoder : public Network::Member {
 public:
  Encoder(Loader& in, const std::string& name, Index classes, Index heads) : heads_(heads) {
    aggregates_ = in.TakeLinear(name + ".aggregates", Loader::kAny, kAggregateCount);
    const Index width = aggregates_.weight.rows();
    if (width % heads != 0)
      in.Complain(
          fmt::format("width {} is not a multiple of the number of heads ({})", width, heads));
    layer_ = in.TakeLinear(name + ".layer", width, kTypeCount + kSizeCount);
    for (int k = 0; in.Has(fmt::format("{}.blocks.{}.norm1.weight", name, k)) && k < kMaxDepth;
         ++k) {
      const std::string block = fmt::format("{}.blocks.{}", name, k);
      Block taken;
      taken.norm1 = in.TakeNorm(block + ".norm1", width);
      taken.attention_in = in.TakeLinear(block + ".attention.in", 3 * width, width);
      taken.attention_out = in.TakeLinear(block + ".attention.out", width, width);
      taken.norm2 = in.TakeNorm(block + ".norm2", width);
      taken.feedforward_in = in.TakeLinear(block + ".feedforward.in", Loader::kAny, width);
      taken.feedforward_out =
          in.TakeLinear(block + ".feedforward.out", width, taken.feedforward_in.weight.rows());
      blocks_.push_back(std::move(taken));
    }
    norm_ = in.TakeNorm(name + ".norm", width);
    hidden_ = in.TakeLinear(name + ".hidden", Loader::kAny, width + kAggregateCount);
    output_ = in.TakeLinear(name + ".output", classes, hidden_.weight.rows());
  }
  Index classes() const override { return output_.weight.rows(); }

  VectorXf Logits(const VectorXf& aggregates, const Sequence& sequence) const override {
    MatrixXf x(aggregates_.weight.rows(), sequence.tokens.cols() + 1);
    x.leftCols(1) = aggregates_(aggregates);
    x.rightCols(sequence.tokens.cols()) = layer_(sequence.tokens);
    for (const Block& block : blocks_) {
      // Only the first token is used after the last block.
      const Index needed = &block == &blocks_.back() ? 1 : x.cols();
      const MatrixXf mixed =
          Attend(block.attention_in(block.norm1(x)), sequence.ln_repeats, needed);
      x = x.leftCols(needed).eval() + block.attention_out(mixed);
      x += block.feedforward_out(Relu(block.feedforward_in(block.norm2(x))));
    }
    VectorXf summary(x.rows() + aggregates.size());
    summary << norm_(x.leftCols(1)), aggregates;
    return output_(Relu(hidden_(summary)));
  }

 private:
  struct Block {
    Norm norm1;
    Linear attention_in;
    Linear attention_out;
    Norm norm2;
    Linear feedforward_in;
    Linear feedforward_out;
  };

  // The attention result for the first `needed` tokens. The rows of `qkv` are the queries, keys and
  // values of all heads, in that order.
  MatrixXf Attend(const MatrixXf& qkv, const VectorXf& ln_repeats, Index needed) const {
    const Index width = qkv.rows() / 3;
    const Index size = width / heads_;
    const float scale = 1 / std::sqrt(static_cast<float>(size));
    MatrixXf mixed(width, needed);
    MatrixXf weights;
    for (Index head = 0; head < heads_; ++head) {
      const auto queries = qkv.block(head * size, 0, size, needed);
      const auto keys = qkv.middleRows(width + head * size, size);
      const auto values = qkv.middleRows(2 * width + head * size, size);
      weights.noalias() = scale * (keys.transpose() * queries);
      weights.colwise() += ln_repeats;
      SoftmaxColumns(weights);
      mixed.middleRows(head * size, size).noalias() = values * weights;
    }
    return mixed;
  }

  Index heads_;
  Linear aggregates_;
  Linear layer_;
  std::vector<Block> blocks_;
  Norm norm_;
  Linear hidden_;
  Linear output_;
};

std::string_view NetworkKindName(NetworkKind kind) {
  return kind == NetworkKind::kMlp ? "mlp" : "transformer";
}

std::string WeightsFileName(NetworkKind kind, model::Family family) {
  return fmt::format("gpumemnet-{}-{}.safetensors", NetworkKindName(kind),
                     model::FamilyName(family));
}

std::string AggregateNameList() {
  return fmt::format("{}", fmt::join(kAggregateNames, ", "));
}

std::string LayerSizeNameList() {
  return fmt::format("{}", fmt::join(kLayerSizeNames, ", "));
}

Network::Network() = default;
Network::Network(Network&&) noexcept = default;
Network& Network::operator=(Network&&) noexcept = default;
Network::~Network() = default;

Result<Network> Network::Load(const TensorFile& file, std::string_view path) {
  Loader in(file, path);
  Network network;
  network.TakeFacts(in);
  const std::int64_t heads = network.TakeScales(in);
  network.TakeClasses(in);
  network.TakeMembers(in, heads);
  in.NoOthers();
  if (in.error()) return std::unexpected(*in.error());
  if (const auto checked = network.Check(file, path); !checked)
    return std::unexpected(checked.error());
  return network;
}

void Network::TakeFacts(Loader& in) {
  in.Expect("format", kWeightsFormat);
  in.Expect("aggregates", AggregateNameList());
  class_mib_ = in.Number("class_mib", 1, kMaxClassMib);
  runs_ = in.Number("runs", 0, 1'000'000'000);
  const std::string kind = in.Text("kind");
  if (kind == NetworkKindName(NetworkKind::kTransformer)) {
    kind_ = NetworkKind::kTransformer;
  } else if (kind != NetworkKindName(NetworkKind::kMlp)) {
    in.Complain("metadata 'kind': expected mlp or transformer");
  }
  const std::string family = in.Text("family");
  const auto* named = std::ranges::find(model::kFamilies, family, &model::FamilyName);
  if (named == model::kFamilies.end())
    return in.Complain("metadata 'family': expected mlp, cnn or transformer");
  family_ = *named;
}

std::int64_t Network::TakeScales(Loader& in) {
  mean_ = in.Values("aggregates.mean", kAggregateCount);
  scale_ = in.Values("aggregates.scale", kAggregateCount);
  low_ = in.Values("aggregates.low", kAggregateCount);
  high_ = in.Values("aggregates.high", kAggregateCount);
  std::int64_t heads = 1;
  if (kind_ == NetworkKind::kTransformer) {
    in.Expect("layer_types", kLayerTypeNames);
    in.Expect("layer_sizes", LayerSizeNameList());
    heads = in.Number("heads", 1, kMaxFeatures);
    layer_mean_ = in.Values("layers.mean", kSizeCount);
    layer_scale_ = in.Values("layers.scale", kSizeCount);
  }
  for (const auto* scales : {&scale_, &layer_scale_}) {
    if (std::ranges::any_of(*scales, [](float scale) { return scale <= 0; }))
      in.Complain("expected scales above 0");
  }
  return heads;
}

void Network::TakeClasses(Loader& in) {
  points_ = in.Values("classes.point", Loader::kAny);
  const auto classes = static_cast<Index>(points_.size());
  if (!in.error() && (classes < 2 || classes > kMaxClasses))
    in.Complain(fmt::format("{} classes, expected 2..{}", classes, kMaxClasses));
  for (Index k = 0; k < classes; ++k) {
    const auto width = static_cast<float>(class_mib_);
    const float low = static_cast<float>(k) * width;
    const float point = points_[static_cast<std::size_t>(k)];
    if (point < low || (point >= low + width && k + 1 < classes))
      in.Complain(fmt::format("point {} of class {} lies outside the class", point, k));
  }
}

void Network::TakeMembers(Loader& in, std::int64_t heads) {
  const auto classes = static_cast<Index>(points_.size());
  const auto has_member = [&](int i) { return in.Has(fmt::format("members.{}.output.weight", i)); };
  for (int i = 0; !in.error() && has_member(i) && i < kMaxMembers; ++i) {
    const std::string name = fmt::format("members.{}", i);
    if (kind_ == NetworkKind::kMlp) {
      members_.push_back(std::make_unique<Mlp>(in, name, classes));
    } else {
      members_.push_back(std::make_unique<Encoder>(in, name, classes, heads));
    }
  }
  if (members_.empty()) in.Complain("no tensor 'members.0.output.weight'");
}

std::vector<double> Network::Probabilities(const NetworkInput& input) const {
  const VectorXf raw = Eigen::Map<const VectorXf>(input.aggregates.data(), kAggregateCount);
  const VectorXf aggregates = (raw - VectorOf(mean_)).array() / VectorOf(scale_).array();
  Sequence sequence;
  if (kind_ == NetworkKind::kTransformer) {
    const auto count = static_cast<Index>(input.layers.size());
    sequence.tokens = MatrixXf::Zero(kTypeCount + kSizeCount, count);
    sequence.ln_repeats = VectorXf::Zero(count + 1);
    for (Index i = 0; i < count; ++i) {
      const LayerToken& token = input.layers[static_cast<std::size_t>(i)];
      sequence.tokens(token.type, i) = 1;
      for (Index k = 0; k < kSizeCount; ++k) {
        const auto at = static_cast<std::size_t>(k);
        sequence.tokens(kTypeCount + k, i) = (token.sizes[at] - layer_mean_[at]) / layer_scale_[at];
      }
      sequence.ln_repeats(i + 1) = token.ln_repeats;
    }
  }
  Eigen::ArrayXd sum = Eigen::ArrayXd::Zero(static_cast<Index>(points_.size()));
  for (const auto& member : members_) {
    MatrixXf logits = member->Logits(aggregates, sequence);
    SoftmaxColumns(logits);
    sum += logits.array().cast<double>();
  }
  if (!sum.isFinite().all()) return {};
  sum /= sum.sum();
  return {sum.begin(), sum.end()};
}

std::vector<std::string_view> Network::Unfamiliar(const NetworkInput& input) const {
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < kAggregateNames.size(); ++i) {
    if (input.aggregates[i] < low_[i] || input.aggregates[i] > high_[i])
      names.push_back(kAggregateNames[i]);
  }
  return names;
}

Result<Unit> Network::Check(const TensorFile& file, std::string_view path) const {
  const auto fail = [&](std::string_view what) { return Invalid("{}: {}", path, what); };
  constexpr Index kMaxExamples = 16;
  const auto find = [&](const char* name, Index columns) -> const Tensor* {
    const auto found = file.tensors.find(name);
    if (found == file.tensors.end() || found->second.shape.empty()) return nullptr;
    const std::vector<std::int64_t>& shape = found->second.shape;
    const Index actual = shape.size() == 2 ? shape[1] : 1;
    return shape.size() <= 2 && actual == columns ? &found->second : nullptr;
  };
  const auto classes = static_cast<Index>(points_.size());
  const bool sequences = kind_ == NetworkKind::kTransformer;
  const Tensor* aggregates = find("check.aggregates", kAggregateCount);
  const Tensor* wanted = find("check.probabilities", classes);
  const Tensor* layers = sequences ? find("check.layers", kSizeCount + 2) : nullptr;
  const Tensor* lengths = sequences ? find("check.lengths", 1) : nullptr;
  if (aggregates == nullptr || wanted == nullptr || aggregates->shape[0] > kMaxExamples ||
      aggregates->shape[0] != wanted->shape[0] ||
      (sequences &&
       (layers == nullptr || lengths == nullptr || lengths->shape[0] != wanted->shape[0]))) {
    return fail(fmt::format("expected 1..{} examples in check.aggregates and check.probabilities",
                            kMaxExamples));
  }
  std::size_t row = 0;
  for (Index i = 0; i < wanted->shape[0]; ++i) {
    NetworkInput input;
    const auto at = static_cast<std::size_t>(i);
    std::copy_n(aggregates->values.begin() + i * kAggregateCount, kAggregateCount,
                input.aggregates.begin());
    const float length = sequences ? lengths->values[at] : 0;
    if (length < 0 || length > static_cast<float>(kMaxTokens))
      return fail("check.lengths: a length is out of range");
    for (auto left = static_cast<std::size_t>(length); left > 0; --left, ++row) {
      const std::size_t begin = row * (kSizeCount + 2);
      if (begin >= layers->values.size()) return fail("check.layers has too few rows");
      const float* values = layers->values.data() + begin;
      if (!(values[0] >= 0 && values[0] < static_cast<float>(kTypeCount)))
        return fail("check.layers: expected valid layer types");
      input.layers.push_back({.type = static_cast<int>(values[0]),
                              .sizes = {values[1], values[2], values[3]},
                              .ln_repeats = values[4]});
    }
    const std::vector<double> answer = Probabilities(input);
    for (Index k = 0; k < classes; ++k) {
      const auto column = static_cast<std::size_t>(k);
      const double expected = wanted->values[at * static_cast<std::size_t>(classes) + column];
      if (answer.empty() || !(std::abs(answer[column] - expected) <= kCheckTolerance)) {
        return fail(fmt::format("example {}: class {} has probability {}, expected {}", i, k,
                                answer.empty() ? std::nan("") : answer[column], expected));
      }
    }
  }
  return Unit{};
}

}  // namespace carma::estimate
