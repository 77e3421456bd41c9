// Trains an ensemble of networks, evaluates it, and writes it as a weights file.
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
  std::int64_t classes = 5;  // the last class is open
  std::uint64_t seed = 1;
  int epochs = 120;  // at most; a member stops after `patience` epochs without improvement
  int patience = 30;
  int batch = 64;      // runs per step
  double rate = 6e-3;  // peak learning rate
  double weight_decay = 1e-2;
  // A measurement determines its class only up to measurement noise and effects that no feature
  // describes. So its weight is spread as a normal distribution of this relative width, and a run
  // near an edge counts for both classes.
  double blur = 0.06;
  int members = 13;
};

using Indices = std::vector<std::size_t>;

// The class of a run. Censored runs belong to the open class.
std::int64_t ClassOf(const Run& run, const Recipe& recipe);

class Ensemble {
 public:
  // Trains on the runs at `train`. With `watch`, every member stops early by its loss on those
  // runs. Without `watch`, each member sets aside a different eighth of the models for this, so
  // that together the members use all runs.
  static Ensemble Train(const std::vector<Run>& runs, const Indices& train, const Indices* watch,
                        const Recipe& recipe);

  // Returns one row of probabilities per run, like estimate::Network.
  std::vector<std::vector<double>> Ask(const std::vector<Run>& runs, const Indices& which) const;

  // Median of the training runs in each class, or the middle of the class if it has none, in MiB.
  const std::vector<float>& class_points() const { return points_; }

  // Builds the weights file. `runs` are the training runs, some of which become its examples.
  estimate::TensorFile Export(const std::vector<Run>& runs, const Indices& train,
                              const std::string& family) const;

 private:
  // Mean and spread of the networks' inputs over the training runs.
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
