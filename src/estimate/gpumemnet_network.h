// The networks of GPUMemNet, which predict a model's memory class (Yousefzadeh-Asl-Miandoab et al.,
// arXiv 2602.17817). Inference only; the weights are trained by tools/train.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "estimate/gpumemnet_input.h"
#include "estimate/safetensors.h"
#include "model/features.h"

namespace carma::estimate {

enum class NetworkKind { kMlp, kTransformer };
std::string_view NetworkKindName(NetworkKind kind);  // "mlp", "transformer"

// An ensemble of classifiers for one family of models. Class k contains models that need [k, k + 1)
// * class_mib; the last class also contains all larger models.
//
// A weights file is a safetensors file (F = aggregates, T = layer types, C = classes) with
//   metadata   format "carma-gpumemnet-1", kind, family, class_mib, runs (number of measured
//              training runs), the input names of gpumemnet_input.h (aggregates, layer_types,
//              layer_sizes), and heads (transformer)
//   aggregates.mean, .scale, .low, .high   [F]   standardisation, and the range seen in training
//   classes.point                          [C]   median peak of the training runs in each class
//   check.aggregates [n, F], check.probabilities [n, C]   examples and the answers of the trainer's
//              own library; check.layers [m, 5], check.lengths [n] (transformer): rows of
//              LayerToken
//   members.I…                             weights [out, in] and biases [out] of each member:
//     mlp          hidden.K (ReLU), output
//     transformer  aggregates [d, F] (the first token), layer [d, T + 3] (one-hot type, sizes),
//                  blocks.K: norm1, attention.in [3d, d], attention.out, norm2, feedforward.in,
//                  feedforward.out (pre-norm, ReLU); norm, hidden [h, d + F] of the first token
//                  and the aggregates (ReLU), output
//     layers.mean, layers.scale [3] standardise the layer sizes
// Equal layers are merged into one token, whose attention weight is multiplied by their number. The
// result is exactly that of the unmerged sequence, because the encoder does not encode positions.
class Network {
 public:
  // Returns kInvalid ("path: what, expected") for an unknown format, family or input; for tensors
  // that are missing, unexpected or of the wrong shape; and for an ensemble whose answers differ by
  // more than 1e-4 from the examples in its file.
  static Result<Network> Load(const TensorFile& file, std::string_view path);
  Network(Network&&) noexcept;
  Network& operator=(Network&&) noexcept;
  ~Network();

  NetworkKind kind() const { return kind_; }
  model::Family family() const { return family_; }
  std::int64_t class_mib() const { return class_mib_; }
  std::int64_t runs() const { return runs_; }
  std::span<const float> class_points() const { return points_; }  // MiB, one per class

  // The probability of each class, averaged over the members. Empty if inputs or weights are so
  // large that the computation overflows.
  std::vector<double> Probabilities(const NetworkInput& input) const;
  // Names of the aggregates outside the training data's range.
  std::vector<std::string_view> Unfamiliar(const NetworkInput& input) const;

 private:
  class Member;
  class Loader;
  class Mlp;
  class Encoder;
  Network();
  // The steps of Load(), in order. The loader records errors. TakeMembers() needs the number of
  // attention heads, which TakeScales() returns (1 for a network without attention).
  void TakeFacts(Loader& in);
  std::int64_t TakeScales(Loader& in);
  void TakeClasses(Loader& in);
  void TakeMembers(Loader& in, std::int64_t heads);
  // Compares the network's answers with the example answers in its file.
  Result<Unit> Check(const TensorFile& file, std::string_view path) const;

  NetworkKind kind_ = NetworkKind::kMlp;
  model::Family family_ = model::Family::kMlp;
  std::int64_t class_mib_ = 0;
  std::int64_t runs_ = 0;
  std::vector<float> mean_, scale_, low_, high_, points_;
  std::vector<float> layer_mean_, layer_scale_;
  std::vector<std::unique_ptr<Member>> members_;
};

// The name of the weights file for one kind and family: "gpumemnet-mlp-cnn.safetensors".
std::string WeightsFileName(NetworkKind kind, model::Family family);
// Metadata that describes the inputs computed by this program. Used by Load and by the trainer.
std::string AggregateNameList();
std::string LayerSizeNameList();
inline constexpr std::string_view kWeightsFormat = "carma-gpumemnet-1";

}  // namespace carma::estimate
