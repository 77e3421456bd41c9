// Computes the blocks of models that are not stacks of equal attention blocks: U-Nets and
// state-space models.
#pragma once

#include <vector>

#include "base/json.h"

namespace carma::estimate {

// What one block keeps for its backward pass, in elements per token of the model. A token of a
// U-Net is a pixel of the U-Net's input, so a block at half the resolution counts for a quarter.
struct BlockKeeps {
  double parameters = 0;
  double input = 0;  // input of the block; all that stays if the block is recomputed
  double wide = 0;   // read by norms and by the activations after them: in fp32 under autocast
  double read = 0;   // read by linear layers: not kept if their weights are frozen
  double kept = 0;   // read by convolutions (frozen or not), attention, products, activations
  double cast = 0;   // 16-bit copies that only autocast makes
  double without_kernels = 0;        // additional bytes kept by plain code instead of fused kernels
  double without_kernels_16bit = 0;  // the same for weights or autocast in 16 bits
  double matrix = 0;                 // elements of an unfused attention matrix per pair of tokens
  double widest = 0;                 // input and output of the largest convolution
  double made = 0;                   // temporaries of the backward pass
  bool again = true;                 // gradient checkpointing recomputes it
  bool early = false;                // before the model's middle, so its gradients come last
};

// All matrices that can get adapters of one kind, summed over the blocks.
struct AdaptedMatrices {
  double inputs = 0;  // elements for each token
  double widths = 0;  // sum of all input and output widths
};

struct BlockList {
  std::vector<BlockKeeps> blocks;
  AdaptedMatrices query, key, value, output;
  double Parameters() const {
    double sum = 0;
    for (const BlockKeeps& block : blocks) sum += block.parameters;
    return sum;
  }
};

// The blocks of a state-space model (Mamba) from its config.json. layers: number of blocks. hidden:
// their width. second: Mamba 2, whose heads share the decay of their states. The fused kernels of
// mamba_ssm keep the result and the output of the input projection, and recompute everything else.
// Without these kernels, the scan keeps its states for each token (BlockKeeps::without_kernels).
// Errors are recorded in `in`.
BlockList ReadMamba(base::JsonReader& in, std::int64_t layers, std::int64_t hidden, bool second);

// The blocks of a diffusion U-Net, read from the config.json of diffusers' UNet2DConditionModel or
// UNet2DModel.
struct UNet {
  BlockList list;
  double other_parameters = 0;  // embeddings of the time and of the condition
  std::int64_t sample = 64;     // height and width of the input, a latent or an image
};

// Counts the parameters of the modules that diffusers builds, and what autograd saves for each
// block. Biases are ignored: the count is 859 M of Stable Diffusion 1.5's 860 M. Records unknown
// block types and lists of different lengths as errors in `in`.
UNet ReadUNet(base::JsonReader& in);

}  // namespace carma::estimate
