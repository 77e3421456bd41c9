#include "ensemble.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "base/rng.h"

namespace carma::train {
namespace {

using estimate::kAggregateNames;
using estimate::kLayerSizeNames;
using estimate::kLayerTypes;
using estimate::LayerToken;
using estimate::NetworkKind;
using torch::Tensor;

constexpr std::size_t kAsideParts = 8;
constexpr std::size_t kExamples = 4;
constexpr float kNoLayer = -1e9F;  // attention factor for positions without a layer
constexpr double kWarmUp = 0.3;    // share of the steps during which the rate rises

// 7 ensemble members of one width with 1 to 7 hidden layers, and 6 of another width with 1 to 6
// (dissertation, section 5.4.4; the widths are our choice).
constexpr int kNarrowMembers = 7;
constexpr std::int64_t kNarrow = 48;
constexpr std::int64_t kWide = 64;

std::shared_ptr<Member> MakeMember(const Recipe& recipe, int i) {
  if (recipe.kind == NetworkKind::kTransformer) return MakeEncoder({}, recipe.classes);
  return i < kNarrowMembers ? MakeMlp(1 + i, kNarrow, recipe.classes)
                            : MakeMlp(1 + i - kNarrowMembers, kWide, recipe.classes);
}

double NormalBelow(double x) {
  return 0.5 * std::erfc(-x / std::numbers::sqrt2);
}

// The weight of a run in each class.
std::vector<float> Target(const Run& run, const Recipe& recipe) {
  std::vector<float> target(static_cast<std::size_t>(recipe.classes), 0.F);
  if (run.censored || recipe.blur <= 0) {
    target[static_cast<std::size_t>(ClassOf(run, recipe))] = 1;
    return target;
  }
  const double spread = recipe.blur * run.measured_mib;
  double below = 0;
  for (std::int64_t k = 0; k < recipe.classes; ++k) {
    const double edge = static_cast<double>((k + 1) * recipe.class_mib);
    const double up_to =
        k + 1 == recipe.classes ? 1 : NormalBelow((edge - run.measured_mib) / spread);
    target[static_cast<std::size_t>(k)] = static_cast<float>(up_to - below);
    below = up_to;
  }
  return target;
}

Tensor Targets(const std::vector<Run>& runs, const Indices& which, const Recipe& recipe) {
  Tensor targets = torch::empty({static_cast<std::int64_t>(which.size()), recipe.classes});
  float* out = targets.data_ptr<float>();
  for (const std::size_t i : which) out = std::ranges::copy(Target(runs[i], recipe), out).out;
  return targets;
}

// Rare classes weigh more, by the square root of their rarity. With the full factor, a handful of
// runs would dominate.
Tensor ClassWeights(const std::vector<Run>& runs, const Indices& train, const Recipe& recipe) {
  std::vector<float> counts(static_cast<std::size_t>(recipe.classes), 0.F);
  for (const std::size_t i : train) ++counts[static_cast<std::size_t>(ClassOf(runs[i], recipe))];
  Tensor weights = torch::ones({recipe.classes});
  double sum = 0;
  for (std::int64_t k = 0; k < recipe.classes; ++k) {
    const float count = std::max(1.F, counts[static_cast<std::size_t>(k)]);
    weights[k] = 1 / std::sqrt(count);
    sum += std::sqrt(count);
  }
  return weights * (static_cast<double>(train.size()) / sum);
}

// Rises from a twenty-fifth of the peak, then falls to almost zero along half a cosine.
double RateAt(double progress, double peak) {
  if (progress < kWarmUp) return peak * (0.04 + 0.96 * progress / kWarmUp);
  const double down = (progress - kWarmUp) / (1 - kWarmUp);
  return peak * (0.0001 + 0.5 * (1 + std::cos(std::numbers::pi * down)));
}

// Batches of sequences of about equal length, because padding costs time. Each run occurs once, in
// random order.
std::vector<Indices> Batches(const std::vector<Run>& runs, Indices train, const Recipe& recipe,
                             base::Rng& rng) {
  const auto shuffle = [&](auto& items) {
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[rng.Below(i)]);
  };
  shuffle(train);
  const auto size = static_cast<std::size_t>(recipe.batch);
  const std::size_t chunk = recipe.kind == NetworkKind::kTransformer ? 8 * size : size;
  std::vector<Indices> batches;
  for (std::size_t begin = 0; begin < train.size(); begin += chunk) {
    const auto first = train.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last =
        train.begin() + static_cast<std::ptrdiff_t>(std::min(begin + chunk, train.size()));
    if (recipe.kind == NetworkKind::kTransformer) {
      std::stable_sort(first, last, [&](std::size_t a, std::size_t b) {
        return runs[a].input.layers.size() < runs[b].input.layers.size();
      });
    }
    for (auto at = first; at < last;) {
      const auto next = at + std::min<std::ptrdiff_t>(recipe.batch, last - at);
      batches.emplace_back(at, next);
      at = next;
    }
  }
  shuffle(batches);
  return batches;
}

// The memory in MiB that represents each class.
std::vector<float> ClassPoints(const std::vector<Run>& runs, const Indices& train,
                               const Recipe& recipe) {
  std::vector<float> points;
  for (std::int64_t k = 0; k < recipe.classes; ++k) {
    std::vector<double> inside;
    for (const std::size_t i : train) {
      if (!runs[i].censored && ClassOf(runs[i], recipe) == k)
        inside.push_back(runs[i].measured_mib);
    }
    const auto low = static_cast<double>(k * recipe.class_mib);
    double point = low + static_cast<double>(recipe.class_mib) / 2;
    if (!inside.empty()) {
      const auto middle = inside.begin() + static_cast<std::ptrdiff_t>(inside.size() / 2);
      std::nth_element(inside.begin(), middle, inside.end());
      point = *middle;
    }
    points.push_back(static_cast<float>(point));
  }
  return points;
}

estimate::Tensor ToTensor(const Tensor& tensor) {
  const Tensor flat = tensor.detach().contiguous().to(torch::kFloat);
  return {{tensor.sizes().begin(), tensor.sizes().end()},
          {flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel()}};
}

estimate::Tensor ToTensor(const std::vector<float>& values) {
  return {{static_cast<std::int64_t>(values.size())}, values};
}

void Standardise(const std::vector<std::vector<float>>& rows, std::vector<float>& mean,
                 std::vector<float>& spread) {
  const std::size_t columns = rows.front().size();
  mean.assign(columns, 0);
  spread.assign(columns, 0);
  for (std::size_t k = 0; k < columns; ++k) {
    double sum = 0;
    double squares = 0;
    for (const auto& row : rows) sum += row[k];
    const double average = sum / static_cast<double>(rows.size());
    for (const auto& row : rows) squares += (row[k] - average) * (row[k] - average);
    mean[k] = static_cast<float>(average);
    const double deviation = std::sqrt(squares / static_cast<double>(rows.size()));
    // A feature that never varies in training must not affect any later prediction.
    spread[k] = static_cast<float>(deviation < 1e-6 ? 1e6 : deviation);
  }
}

}  // namespace

std::int64_t ClassOf(const Run& run, const Recipe& recipe) {
  if (run.censored) return recipe.classes - 1;
  const auto index = static_cast<std::int64_t>(run.measured_mib) / recipe.class_mib;
  return std::min(index, recipe.classes - 1);
}

Ensemble Ensemble::Train(const std::vector<Run>& runs, const Indices& train, const Indices* watch,
                         const Recipe& recipe) {
  Ensemble ensemble;
  ensemble.recipe_ = recipe;
  ensemble.points_ = ClassPoints(runs, train, recipe);
  std::vector<std::vector<float>> rows;
  std::vector<std::vector<float>> layers;
  for (const std::size_t i : train) {
    const estimate::NetworkInput& input = runs[i].input;
    rows.emplace_back(input.aggregates.begin(), input.aggregates.end());
    for (const LayerToken& token : input.layers) {
      layers.emplace_back(token.sizes.begin(), token.sizes.end());
    }
  }
  Scale& scale = ensemble.scale_;
  Standardise(rows, scale.mean, scale.spread);
  Standardise(layers, scale.layer_mean, scale.layer_spread);
  scale.low = scale.high = rows.front();
  for (const auto& row : rows) {
    for (std::size_t k = 0; k < row.size(); ++k) {
      scale.low[k] = std::min(scale.low[k], row[k]);
      scale.high[k] = std::max(scale.high[k], row[k]);
    }
  }

  const std::vector<std::size_t> aside = Parts(runs, kAsideParts, recipe.seed + 1);
  for (int m = 0; m < recipe.members; ++m) {
    const std::uint64_t seed = recipe.seed * 1000 + static_cast<std::uint64_t>(m);
    torch::manual_seed(seed);
    auto member = MakeMember(recipe, m);
    Indices learn = train;
    Indices look;
    if (watch != nullptr) {
      look = *watch;
    } else {
      learn.clear();
      for (const std::size_t i : train) {
        const bool here = aside[i] == static_cast<std::size_t>(m) % kAsideParts;
        (here ? look : learn).push_back(i);
      }
    }
    ensemble.Fit(*member, runs, learn, look, seed);
    ensemble.members_.push_back(std::move(member));
  }
  return ensemble;
}

void Ensemble::Fit(Member& member, const std::vector<Run>& runs, Indices train,
                   const Indices& watch, std::uint64_t seed) const {
  torch::optim::AdamW optimizer(
      member.parameters(),
      torch::optim::AdamWOptions(recipe_.rate).weight_decay(recipe_.weight_decay));
  const Tensor weights = ClassWeights(runs, train, recipe_);
  const Batch watched = Gather(runs, watch);
  const Tensor watched_targets = Targets(runs, watch, recipe_);
  base::Rng rng(seed);

  double best = std::numeric_limits<double>::infinity();
  int best_epoch = 0;
  std::vector<Tensor> best_parameters;
  for (int epoch = 0; epoch < recipe_.epochs && epoch - best_epoch <= recipe_.patience; ++epoch) {
    const std::vector<Indices> batches = Batches(runs, train, recipe_, rng);
    for (std::size_t step = 0; step < batches.size(); ++step) {
      const double progress =
          (epoch + static_cast<double>(step) / static_cast<double>(batches.size())) /
          recipe_.epochs;
      for (auto& group : optimizer.param_groups()) {
        static_cast<torch::optim::AdamWOptions&>(group.options())
            .lr(RateAt(progress, recipe_.rate));
      }
      const Tensor logs = torch::log_softmax(member.Logits(Gather(runs, batches[step])), 1);
      const Tensor loss = -(Targets(runs, batches[step], recipe_) * weights * logs).sum(1).mean();
      optimizer.zero_grad();
      loss.backward();
      torch::nn::utils::clip_grad_norm_(member.parameters(), 1.0);
      optimizer.step();
    }
    const torch::NoGradGuard no_gradients;
    const Tensor logs = torch::log_softmax(member.Logits(watched), 1);
    const double loss = -(watched_targets * logs).sum(1).mean().item<double>();
    if (loss >= best) continue;
    best = loss;
    best_epoch = epoch;
    best_parameters.clear();
    for (const Tensor& each : member.parameters()) best_parameters.push_back(each.clone());
  }
  const torch::NoGradGuard no_gradients;
  std::vector<Tensor> parameters = member.parameters();
  for (std::size_t i = 0; i < best_parameters.size(); ++i) parameters[i].copy_(best_parameters[i]);
}

Batch Ensemble::Gather(const std::vector<Run>& runs, const Indices& which) const {
  const auto count = static_cast<std::int64_t>(which.size());
  constexpr std::int64_t kTypes = kLayerTypes.size();
  constexpr std::int64_t kSizes = kLayerSizeNames.size();
  Batch batch;
  batch.aggregates = torch::empty({count, static_cast<std::int64_t>(kAggregateNames.size())});
  float* out = batch.aggregates.data_ptr<float>();
  for (const std::size_t i : which) {
    for (std::size_t k = 0; k < kAggregateNames.size(); ++k) {
      *out++ = (runs[i].input.aggregates[k] - scale_.mean[k]) / scale_.spread[k];
    }
  }
  if (recipe_.kind != NetworkKind::kTransformer) return batch;
  std::size_t longest = 0;
  for (const std::size_t i : which) longest = std::max(longest, runs[i].input.layers.size());
  const auto length = static_cast<std::int64_t>(longest);
  batch.layers = torch::zeros({count, length, kTypes + kSizes});
  batch.ln_repeats = torch::full({count, length + 1}, kNoLayer);
  float* layers = batch.layers.data_ptr<float>();
  float* repeats = batch.ln_repeats.data_ptr<float>();
  for (const std::size_t i : which) {
    repeats[0] = 0;
    float* token_out = layers;
    for (std::size_t t = 0; t < runs[i].input.layers.size(); ++t) {
      const LayerToken& token = runs[i].input.layers[t];
      token_out[token.type] = 1;
      for (std::size_t k = 0; k < token.sizes.size(); ++k) {
        token_out[kTypes + static_cast<std::int64_t>(k)] =
            (token.sizes[k] - scale_.layer_mean[k]) / scale_.layer_spread[k];
      }
      repeats[t + 1] = token.ln_repeats;
      token_out += kTypes + kSizes;
    }
    layers += length * (kTypes + kSizes);
    repeats += length + 1;
  }
  return batch;
}

std::vector<std::vector<double>> Ensemble::Ask(const std::vector<Run>& runs,
                                               const Indices& which) const {
  const torch::NoGradGuard no_gradients;
  std::vector<std::vector<double>> answers;
  constexpr std::size_t kAtOnce = 64;
  for (std::size_t begin = 0; begin < which.size(); begin += kAtOnce) {
    const Indices some(
        which.begin() + static_cast<std::ptrdiff_t>(begin),
        which.begin() + static_cast<std::ptrdiff_t>(std::min(begin + kAtOnce, which.size())));
    const Batch batch = Gather(runs, some);
    Tensor sum =
        torch::zeros({static_cast<std::int64_t>(some.size()), recipe_.classes}, torch::kDouble);
    for (const auto& member : members_) {
      sum += torch::softmax(member->Logits(batch).to(torch::kDouble), 1);
    }
    sum /= static_cast<double>(members_.size());
    const double* row = sum.data_ptr<double>();
    for (std::size_t i = 0; i < some.size(); ++i, row += recipe_.classes) {
      answers.emplace_back(row, row + recipe_.classes);
    }
  }
  return answers;
}

estimate::TensorFile Ensemble::Export(const std::vector<Run>& runs, const Indices& train,
                                      const std::string& family) const {
  estimate::TensorFile file;
  const bool sequences = recipe_.kind == NetworkKind::kTransformer;
  file.metadata = {{"format", std::string(estimate::kWeightsFormat)},
                   {"kind", std::string(estimate::NetworkKindName(recipe_.kind))},
                   {"family", family},
                   {"class_mib", std::to_string(recipe_.class_mib)},
                   {"runs", std::to_string(train.size())},
                   {"aggregates", estimate::AggregateNameList()}};
  auto& tensors = file.tensors;
  tensors["aggregates.mean"] = ToTensor(scale_.mean);
  tensors["aggregates.scale"] = ToTensor(scale_.spread);
  tensors["aggregates.low"] = ToTensor(scale_.low);
  tensors["aggregates.high"] = ToTensor(scale_.high);
  if (sequences) {
    file.metadata["layer_types"] = estimate::kLayerTypeNames;
    file.metadata["layer_sizes"] = estimate::LayerSizeNameList();
    file.metadata["heads"] = std::to_string(EncoderShape{}.heads);
    tensors["layers.mean"] = ToTensor(scale_.layer_mean);
    tensors["layers.scale"] = ToTensor(scale_.layer_spread);
  }

  tensors["classes.point"] = ToTensor(points_);

  for (std::size_t m = 0; m < members_.size(); ++m) {
    for (const auto& parameter : members_[m]->named_parameters()) {
      tensors[fmt::format("members.{}.{}", m, parameter.key())] = ToTensor(parameter.value());
    }
  }

  Indices examples;
  for (std::size_t i = 0; i < kExamples; ++i) {
    examples.push_back(train[i * (train.size() - 1) / (kExamples - 1)]);
  }
  const auto columns = static_cast<std::int64_t>(kAggregateNames.size());
  estimate::Tensor aggregates{{static_cast<std::int64_t>(kExamples), columns}, {}};
  estimate::Tensor answers{{static_cast<std::int64_t>(kExamples), recipe_.classes}, {}};
  estimate::Tensor layers{{0, static_cast<std::int64_t>(kLayerSizeNames.size()) + 2}, {}};
  std::vector<float> lengths;
  const auto probabilities = Ask(runs, examples);
  for (std::size_t i = 0; i < kExamples; ++i) {
    const estimate::NetworkInput& input = runs[examples[i]].input;
    aggregates.values.insert(aggregates.values.end(), input.aggregates.begin(),
                             input.aggregates.end());
    answers.values.insert(answers.values.end(), probabilities[i].begin(), probabilities[i].end());
    lengths.push_back(static_cast<float>(input.layers.size()));
    for (const LayerToken& token : input.layers) {
      layers.values.push_back(static_cast<float>(token.type));
      layers.values.insert(layers.values.end(), token.sizes.begin(), token.sizes.end());
      layers.values.push_back(token.ln_repeats);
      ++layers.shape[0];
    }
  }
  tensors["check.aggregates"] = std::move(aggregates);
  tensors["check.probabilities"] = std::move(answers);
  if (sequences) {
    tensors["check.layers"] = std::move(layers);
    tensors["check.lengths"] = ToTensor(lengths);
  }
  return file;
}

}  // namespace carma::train
