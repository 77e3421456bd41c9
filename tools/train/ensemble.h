// Trains an ensemble, asks it, and writes it as a weights file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "estimate/gpumemnet_network.h"
#include "estimate/safetensors.h"
#include "networks.h"
#include "runs.h"

namespace carma::train {

struct Recipe {
  estimate::NetworkKind kind = estimate::NetworkKind::kMlp;
  std::int64_t class_mib = 8192;
  std::int64_t classes = 5;  // the last one is open
  std::uint64_t seed = 1;
  int epochs = 120;  // at most; a member stops when `patience` epochs brought nothing
  int patience = 30;
  int batch = 64;      // runs per step
  double rate = 6e-3;  // of learning, at its peak
  double weight_decay = 1e-2;
  // A measurement is a class only up to the noise of measuring and of what no feature says: its
  // weight is spread as a normal distribution of this relative width, so that a run at the edge
  // pulls towards both sides.
  double blur = 0.06;
  int members = 13;
};

using Indices = std::vector<std::size_t>;

// Class of a run; censored ones belong to the open class.
std::int64_t ClassOf(const Run& run, const Recipe& recipe);

class Ensemble {
 public:
  // Learns from the runs at `train`. With `watch` every member stops early by the loss there;
  // without, each keeps another eighth of the models aside for that, so that together they saw all.
  static Ensemble Train(const std::vector<Run>& runs, const Indices& train, const Indices* watch,
                        const Recipe& recipe);

  // One row of probabilities per run, as estimate::Network answers.
  std::vector<std::vector<double>> Ask(const std::vector<Run>& runs, const Indices& which) const;

  // Median of the training runs in each class, its middle where there are none; MiB.
  const std::vector<float>& class_points() const { return points_; }

  // The weights file; `runs` are those it was trained on, a few of them become its examples.
  estimate::TensorFile Export(const std::vector<Run>& runs, const Indices& train,
                              const std::string& family) const;

 private:
  // Mean and spread of what the networks read, from the training runs.
  struct Scale {
    std::vector<float> mean, spread, low, high;
    std::vector<float> layer_mean, layer_spread;
  };
  Batch Gather(const std::vector<Run>& runs, const Indices& which) const;
  void Fit(Member& member, const std::vector<Run>& runs, Indices train, const Indices& watch,
           std::uint64_t seed) const;

  Recipe recipe_;
  Scale scale_;
  std::vector<float> points_;
  std::vector<std::shared_ptr<Member>> members_;
};

}  // namespace carma::train
