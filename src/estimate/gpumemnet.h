// GPUMemNet as an estimator: turns the classes of its networks into a point and a bound.
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

// Converts probabilities of classes to MiB. Does not set method and warnings.
//   classes  the most probable class; for MLPs also the most probable class of twice the width
//   point    each class counts as the median need of the training runs in it; their mean by
//            probability, kept within the most probable class
//   bound    upper edge of the lowest classes that together reach `coverage`. The last class is
//            open: a bound at its edge, probabilities.size() * class_mib, only means that the need
//            is large.
// Each class has one probability and one point (MiB, inside the class). There must be at least one
// class.
Answer AnswerFromClasses(std::span<const double> probabilities, std::span<const float> points,
                         std::int64_t class_mib, model::Family family, double coverage);

// A class predicted by gpumemnet-transformer for a convolutional network that is similar to its
// training data: only leaves, Adam in fp32, and every aggregate within the range of the data.
struct AlikeClass {
  std::int64_t low_mib = 0;
  std::optional<std::int64_t> high_mib;  // lower edge of the next class; empty: the open class
};
// Empty if the network is not similar to the training data. Thread-safe; the first call loads the
// shipped weights.
std::optional<AlikeClass> ClassAmongAlike(const Question& question);

// The estimator "gpumemnet-mlp" or "gpumemnet-transformer" with weights from a folder instead of
// the shipped weights. The folder must have all three families (WeightsFileName). Errors: kNotFound
// and kInvalid with the file's name, as from Network::Load.
Result<std::unique_ptr<Estimator>> LoadGpuMemNet(NetworkKind kind, const std::string& folder);
// Makes the estimator of an entry. GPUMemNet's two estimators use the weights in `folder`, or the
// shipped weights if it is "". Errors: as LoadGpuMemNet().
Result<std::unique_ptr<Estimator>> MakeWithWeights(const EstimatorEntry& entry,
                                                   const std::string& folder);

}  // namespace carma::estimate
