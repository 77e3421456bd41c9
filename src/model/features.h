// A model in a dozen numbers, for GPUMemNet's networks and Horus.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "model/layers.h"

namespace carma::model {

// Counts rows that are operations (op.h), without Identity, Flatten and the like; a module called
// twice counts twice. Names of the features: GPUMemNet (arXiv 2602.17817).
struct Features {
  int linear = 0;
  int conv = 0;
  int batch_norm = 0;
  int layer_norm = 0;
  int dropout = 0;
  int activation = 0;
  int embedding = 0;
  int depth = 0;                    // all of the above and every other operation
  std::int64_t params = 0;          // of the whole model
  std::int64_t activations = 0;     // elements of all outputs, per sample; 0: no shape is known
  std::string activation_function;  // class name of the most frequent one; "": none
  friend bool operator==(const Features&, const Features&) = default;
};
Features Summarize(const LayerList& list);

enum class Family { kMlp, kCnn, kTransformer };
std::string_view FamilyName(Family family);  // "mlp", "cnn", "transformer"
// A model with layer norms, more linear layers than convolutions, and attention or an embedding is
// a transformer. Any other with a convolution is a CNN. The rest are MLPs.
Family Classify(const LayerList& list);

// Whether most of the model is below the printed levels (torchinfo prints three by default), so
// that the rows show too little of the model.
bool HidesMost(const LayerList& list);

// The largest part of the script's batch that any one GPU gets. torch.nn.DataParallel splits the
// batch among the GPUs; other models load a batch per GPU.
std::int64_t BatchOfOneGpu(const LayerList& list, std::int64_t batch, int gpus);

}  // namespace carma::model
