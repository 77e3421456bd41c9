// A model in a dozen numbers: what GPUMemNet's networks and Horus look at.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "model/layers.h"

namespace carma::model {

// Rows that are operations (op.h), Identity, Flatten and their kind left out; a module called twice
// counts twice. Names of the features: GPUMemNet (arXiv 2602.17817).
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
  std::string activation_function;  // class name of the commonest, the first of equals; "": none
  friend bool operator==(const Features&, const Features&) = default;
};
Features Summarize(const LayerList& list);

enum class Family { kMlp, kCnn, kTransformer };
std::string_view FamilyName(Family family);  // "mlp", "cnn", "transformer"
// Layer norms, more linear layers than convolutions, and attention or an embedding: transformer.
// Otherwise any convolution: CNN. The rest: MLP.
Family Classify(const LayerList& list);

// torchinfo prints three levels unless told otherwise. Where what is below holds most of the model,
// the rows say too little about it.
bool HidesMost(const LayerList& list);

// Of the batch that the script loads what one of its GPUs gets, the fullest one. A model in
// torch.nn.DataParallel is handed to each of them with a part; all others load for each GPU.
std::int64_t BatchOfOneGpu(const LayerList& list, std::int64_t batch, int gpus);

}  // namespace carma::model
