// Names that users and frameworks use for optimizers and precisions.
#include <algorithm>
#include <string>

#include "base/text.h"
#include "estimate/estimator.h"

namespace carma::estimate {
namespace {

template <class Value>
struct Word {
  std::string_view name;
  Value meaning;
};

// Each name is mapped to the optimizer that keeps the same number of parameter-sized tensors
// (torch.optim).
constexpr Word<Optimizer> kOptimizers[] = {
    {"sgd", Optimizer::kSgd},           {"sgd-momentum", Optimizer::kMomentum},
    {"momentum", Optimizer::kMomentum}, {"sgdm", Optimizer::kMomentum},
    {"nesterov", Optimizer::kMomentum}, {"rmsprop", Optimizer::kMomentum},
    {"adagrad", Optimizer::kAdam},      {"lion", Optimizer::kMomentum},
    {"adam", Optimizer::kAdam},         {"adamw", Optimizer::kAdam},
    {"adamax", Optimizer::kAdam},       {"nadam", Optimizer::kAdam},
    {"radam", Optimizer::kAdam},        {"adadelta", Optimizer::kAdam},
    {"lamb", Optimizer::kAdam}};

constexpr Word<Precision> kPrecisions[] = {
    {"fp32", Precision::kFp32},      {"float32", Precision::kFp32}, {"tf32", Precision::kFp32},
    {"amp", Precision::kMixed},      {"mixed", Precision::kMixed},  {"amp-fp16", Precision::kMixed},
    {"amp-bf16", Precision::kMixed}, {"fp16", Precision::kHalf},    {"float16", Precision::kHalf},
    {"half", Precision::kHalf},      {"bf16", Precision::kHalf},    {"bfloat16", Precision::kHalf}};

// Finds a word regardless of case. '_' and '-' are equivalent.
template <class Value, std::size_t kCount>
std::optional<Value> Meaning(const Word<Value> (&words)[kCount], std::string_view name) {
  std::string wanted = base::ToLower(base::Trim(name));
  std::replace(wanted.begin(), wanted.end(), '_', '-');
  const auto* found =
      std::ranges::find_if(words, [&](const Word<Value>& word) { return word.name == wanted; });
  return found == std::end(words) ? std::nullopt : std::optional(found->meaning);
}

}  // namespace

std::optional<Optimizer> ParseOptimizer(std::string_view name) {
  return Meaning(kOptimizers, name);
}

std::optional<Precision> ParsePrecision(std::string_view name) {
  return Meaning(kPrecisions, name);
}

}  // namespace carma::estimate
