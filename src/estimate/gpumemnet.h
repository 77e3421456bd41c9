// GPUMemNet as an estimator. Converts the class probabilities of its networks to a point estimate
// and an upper bound.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "estimate/estimator.h"
#include "estimate/gpumemnet_network.h"
#include "model/features.h"

namespace carma::estimate {

// Converts class probabilities to MiB. Does not set `method` or `warnings`.
//   classes  the most probable class; for MLPs also the most probable class at twice the width
//   point    mean of the class points, weighted by probability and clamped to the most probable
//            class. A class point is the median peak of the training runs in the class.
//   bound    upper edge of the lowest classes that together reach `coverage`. The last class has no
//            upper edge, so a bound of probabilities.size() * class_mib means only that the task
//            needs a lot of memory.
// Requires at least one class, and one probability and one point (MiB, inside the class) per class.
Answer AnswerFromClasses(std::span<const double> probabilities, std::span<const float> points,
                         std::int64_t class_mib, model::Family family, double coverage);

// The memory class that gpumemnet-transformer predicts for a convolutional network. The network
// must be similar to the training data: all its rows are leaves, it is trained with Adam in fp32,
// and its aggregates are within the range seen in training.
struct AlikeClass {
  std::int64_t low_mib = 0;
  std::optional<std::int64_t> high_mib;  // upper edge of the class; empty: no upper edge
};
// Empty if the network is not similar to the training data. Thread-safe. The first call loads the
// shipped weights.
std::optional<AlikeClass> ClassAmongAlike(const Question& question);

// Creates "gpumemnet-mlp" or "gpumemnet-transformer" with weights from a folder. The folder must
// contain the weights of all three families (WeightsFileName). Returns kNotFound or kInvalid,
// naming the file, if a file is missing or unsuitable.
Result<std::unique_ptr<Estimator>> LoadGpuMemNet(NetworkKind kind, const std::string& folder);
// Creates an entry's estimator. `folder` contains the weights for GPUMemNet's two estimators; ""
// selects the shipped weights. Fails like LoadGpuMemNet().
Result<std::unique_ptr<Estimator>> MakeWithWeights(const EstimatorEntry& entry,
                                                   const std::string& folder);

}  // namespace carma::estimate
