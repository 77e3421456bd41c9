// Reduces a model to about ten numbers, for GPUMemNet's networks and for Horus.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "model/layers.h"

namespace carma::model {

// Counts of operations (op.h) by kind, except Identity, Flatten and the like. A module that is
// called twice counts twice. The fields are named as in GPUMemNet (arXiv 2602.17817).
struct Features {
  int linear = 0;
  int conv = 0;
  int batch_norm = 0;
  int layer_norm = 0;
  int dropout = 0;
  int activation = 0;
  int embedding = 0;
  int depth = 0;                    // number of operations
  std::int64_t params = 0;          // model parameters
  std::int64_t activations = 0;     // elements of all outputs per sample; 0: no known shape
  std::string activation_function;  // most frequent class name; "": none
  friend bool operator==(const Features&, const Features&) = default;
};
Features Summarize(const LayerList& list);

enum class Family { kMlp, kCnn, kTransformer };
inline constexpr std::array kFamilies{Family::kMlp, Family::kCnn, Family::kTransformer};
std::string_view FamilyName(Family family);  // "mlp", "cnn", "transformer"
// A model with layer norms, more linear layers than convolutions, and attention or an embedding is
// a transformer. Any other model with a convolution is a CNN. All other models are MLPs.
Family Classify(const LayerList& list);

// True if the rows show too little of the model because most of it is below the printed levels.
// torchinfo prints three levels by default.
bool HidesMost(const LayerList& list);

// The largest part of the script's batch that any one GPU gets. torch.nn.DataParallel splits the
// batch among the GPUs; other models load a full batch on each GPU.
std::int64_t BatchOfOneGpu(const LayerList& list, std::int64_t batch, int gpus);

}  // namespace carma::model
