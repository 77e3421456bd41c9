#include "estimate/gpumemnet.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "base/try.h"
#include "model/features.h"

namespace carma::estimate {

// Generated from data/estimators by carma_embed_binary.
extern const std::string_view kWeightsMlpMlp;
extern const std::string_view kWeightsMlpCnn;
extern const std::string_view kWeightsMlpTransformer;
extern const std::string_view kWeightsTransformerMlp;
extern const std::string_view kWeightsTransformerCnn;
extern const std::string_view kWeightsTransformerTransformer;

namespace {

using model::Family;
using model::kFamilies;

std::string NameOf(NetworkKind kind) {
  return fmt::format("gpumemnet-{}", NetworkKindName(kind));
}

// A network trained on fewer measured runs than this cannot be trusted for its model family.
constexpr std::int64_t kFewRuns = 500;

// Indexed by kind and family.
constexpr std::array<std::array<const std::string_view*, kFamilies.size()>, 2> kShippedWeights{
    {{&kWeightsMlpMlp, &kWeightsMlpCnn, &kWeightsMlpTransformer},
     {&kWeightsTransformerMlp, &kWeightsTransformerCnn, &kWeightsTransformerTransformer}}};

std::string_view ShippedWeights(NetworkKind kind, Family family) {
  return *kShippedWeights[static_cast<std::size_t>(kind)][static_cast<std::size_t>(family)];
}

Result<Network> LoadBytes(NetworkKind kind, Family family, std::string_view bytes,
                          const std::string& path) {
  const auto tensors = CARMA_TRY(ParseTensors(bytes, path));
  auto network = Network::Load(tensors, path);
  if (network && (network->kind() != kind || network->family() != family)) {
    return Invalid("{}: kind {}, family {}, expected {}, {}", path,
                   NetworkKindName(network->kind()), model::FamilyName(network->family()),
                   NetworkKindName(kind), model::FamilyName(family));
  }
  return network;
}

// One network per family, loaded on first use.
class Networks {
 public:
  explicit Networks(NetworkKind kind) : kind_(kind) {}

  const Result<Network>& Of(Family family) const {
    Slot& slot = slots_[static_cast<std::size_t>(family)];
    std::call_once(slot.once, [&] {
      slot.network.emplace(
          LoadBytes(kind_, family, ShippedWeights(kind_, family), WeightsFileName(kind_, family)));
    });
    return *slot.network;
  }
  void Set(Family family, Network network) {
    Slot& slot = slots_[static_cast<std::size_t>(family)];
    std::call_once(slot.once, [&] { slot.network.emplace(std::move(network)); });
  }

 private:
  struct Slot {
    std::once_flag once;
    std::optional<Result<Network>> network;
  };
  NetworkKind kind_;
  mutable std::array<Slot, kFamilies.size()> slots_;
};

int MostProbable(std::span<const double> probabilities) {
  return static_cast<int>(std::ranges::max_element(probabilities) - probabilities.begin());
}

class GpuMemNet : public Estimator {
 public:
  GpuMemNet(NetworkKind kind, std::unique_ptr<Networks> networks)
      : name_(NameOf(kind)), networks_(std::move(networks)) {}

  Result<Answer> Ask(const Question& question) const override {
    if (question.layers == nullptr) {
      return NotFound(question.summary_trouble.empty() ? "there is no model summary"
                                                       : question.summary_trouble);
    }
    if (!question.batch) return NotFound("the batch size is unknown");
    const model::LayerList& list = *question.layers;
    const NetworkInput input =
        DescribeForNetworks(list, std::max<std::int64_t>(1, *question.batch));
    if (input.layers.empty()) return NotFound("the summary has no layers");
    if (std::ranges::none_of(list.layers, [](const auto& each) { return !each.out.empty(); }))
      return NotFound("the summary has no shapes, so the activations are unknown");

    const Result<Network>& network = networks_->Of(model::Classify(list));
    if (!network) return NotFound("the weights cannot be used: " + network.error().message);
    const std::vector<double> probabilities = network->Probabilities(input);
    if (probabilities.empty())
      return NotFound("the model is too large for the network: its result overflows");
    Answer answer = AnswerFromClasses(probabilities, network->class_points(), network->class_mib(),
                                      network->family(), question.coverage);
    answer.method = name_;
    answer.warnings = Warnings(question, *network, input, answer.bound_mib);
    return answer;
  }

 private:
  static std::vector<std::string> Warnings(const Question& question, const Network& network,
                                           const NetworkInput& input, std::int64_t bound_mib) {
    std::vector<std::string> warnings;
    const bool same_optimizer = question.optimizer == Optimizer::kAdam;
    const bool same_precision = question.precision == Precision::kFp32;
    if (!same_optimizer || !same_precision) {
      const bool differs =
          (question.optimizer && !same_optimizer) || (question.precision && !same_precision);
      warnings.emplace_back(differs ? "the networks cover only runs with Adam in fp32"
                                    : "assumes Adam and fp32, as in the networks' training data");
    }
    if (question.layers->collapsed)
      warnings.emplace_back("the summary hides layers inside blocks, so the estimate is too low");
    if (const auto names = network.Unfamiliar(input); !names.empty()) {
      warnings.push_back(
          fmt::format("outside the networks' training data: {}", fmt::join(names, ", ")));
    }
    if (network.runs() < kFewRuns) {
      warnings.push_back(fmt::format("trained on only {} measured runs of {} models",
                                     network.runs(), model::FamilyName(network.family())));
    }
    const auto closed = static_cast<std::int64_t>(network.class_points().size() - 1);
    if (bound_mib > closed * network.class_mib()) {
      warnings.push_back(
          fmt::format("the bound is in the largest class, which has no upper limit: {} MiB or more",
                      closed * network.class_mib()));
    }
    return warnings;
  }

  std::string name_;
  std::unique_ptr<Networks> networks_;
};

std::unique_ptr<Estimator> Shipped(NetworkKind kind) {
  return std::make_unique<GpuMemNet>(kind, std::make_unique<Networks>(kind));
}

bool IsLeavesOnly(const model::LayerList& list) {
  return !list.layers.empty() && std::ranges::all_of(list.layers, [](const model::Layer& layer) {
    return layer.kind == model::RowKind::kLeaf && !layer.out.empty();
  });
}

}  // namespace

std::optional<AlikeClass> ClassAmongAlike(const Question& question) {
  static const Networks shipped(NetworkKind::kTransformer);
  const bool as_trained = question.optimizer == Optimizer::kAdam &&
                          question.precision.value_or(Precision::kFp32) == Precision::kFp32;
  if (question.layers == nullptr || question.batch.value_or(0) < 1 || !as_trained)
    return std::nullopt;
  const model::LayerList& list = *question.layers;
  if (!IsLeavesOnly(list) || model::Classify(list) != Family::kCnn) return std::nullopt;
  const Result<Network>& network = shipped.Of(Family::kCnn);
  if (!network) return std::nullopt;
  const NetworkInput input = DescribeForNetworks(list, *question.batch);
  if (input.layers.empty() || !network->Unfamiliar(input).empty()) return std::nullopt;
  const std::vector<double> probabilities = network->Probabilities(input);
  if (probabilities.empty()) return std::nullopt;
  const int chosen = MostProbable(probabilities);
  AlikeClass answer{.low_mib = chosen * network->class_mib()};
  if (chosen + 1 < static_cast<int>(probabilities.size()))
    answer.high_mib = answer.low_mib + network->class_mib();
  return answer;
}

Answer AnswerFromClasses(std::span<const double> probabilities, std::span<const float> points,
                         std::int64_t class_mib, Family family, double coverage) {
  const std::size_t count = probabilities.size();
  double mean = 0;
  for (std::size_t k = 0; k < count; ++k) mean += probabilities[k] * points[k];
  std::size_t below = 0;  // number of classes below the bound
  for (double reached = 0; below < count && reached < coverage; ++below)
    reached += probabilities[below];

  Answer answer;
  answer.coverage = coverage;
  const int most_probable = MostProbable(probabilities);
  answer.classes.push_back({class_mib, most_probable});
  if (family == Family::kMlp) {
    std::vector<double> pairs((count + 1) / 2);
    for (std::size_t k = 0; k < count; ++k) pairs[k / 2] += probabilities[k];
    answer.classes.push_back({2 * class_mib, MostProbable(pairs)});
  }
  const std::int64_t low = most_probable * class_mib;
  const bool open = most_probable + 1 == static_cast<int>(count);
  answer.point_mib = std::max(low, static_cast<std::int64_t>(std::llround(mean)));
  if (!open) answer.point_mib = std::min(answer.point_mib, low + class_mib - 1);
  answer.bound_mib = std::max(static_cast<std::int64_t>(below) * class_mib, answer.point_mib);
  return answer;
}

std::unique_ptr<Estimator> MakeGpuMemNetMlp() {
  return Shipped(NetworkKind::kMlp);
}

std::unique_ptr<Estimator> MakeGpuMemNetTransformer() {
  return Shipped(NetworkKind::kTransformer);
}

Result<std::unique_ptr<Estimator>> LoadGpuMemNet(NetworkKind kind, const std::string& folder) {
  auto networks = std::make_unique<Networks>(kind);
  for (const Family family : kFamilies) {
    const std::string path = folder + "/" + WeightsFileName(kind, family);
    const auto bytes = CARMA_TRY(base::ReadFile(path, kMaxTensorFileBytes));
    auto network = CARMA_TRY(LoadBytes(kind, family, bytes, path));
    networks->Set(family, std::move(network));
  }
  return std::make_unique<GpuMemNet>(kind, std::move(networks));
}

Result<std::unique_ptr<Estimator>> MakeWithWeights(const EstimatorEntry& entry,
                                                   const std::string& folder) {
  for (const NetworkKind kind : {NetworkKind::kMlp, NetworkKind::kTransformer}) {
    if (!folder.empty() && entry.name == NameOf(kind)) return LoadGpuMemNet(kind, folder);
  }
  return entry.make();
}

}  // namespace carma::estimate
