// The blocks of models that are not stacks of equal attention blocks: U-Nets and state-space
// models.
#pragma once

#include <vector>

#include "base/json.h"

namespace carma::estimate {

// The elements that one block keeps for its backward pass, for each token of the model. A token of
// a U-Net is a pixel of its input, so a block that runs at half the resolution counts for a
// quarter.
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

// The matrices that get adapters of one kind, summed over all blocks.
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

// The blocks of a state-space model (Mamba) from its config.json. layers: number of blocks; hidden:
// their width. The fused kernels of mamba_ssm keep the output of the input projection and the
// result, and recompute the rest. Without them the scan in plain code keeps its states for each
// token (BlockKeeps::without_kernels). second: Mamba 2, whose heads share the decay of their
// states. Errors are recorded in `in`.
BlockList ReadMamba(base::JsonReader& in, std::int64_t layers, std::int64_t hidden, bool second);

// The blocks of a diffusion U-Net from the config.json of diffusers' UNet2DConditionModel or
// UNet2DModel.
struct UNet {
  BlockList list;
  double other_parameters = 0;  // embeddings of the time and of the condition
  std::int64_t sample = 64;     // height and width of the input, a latent or an image
};

// Counts the parameters of the modules that diffusers builds, without biases (859 of the 860 M of
// Stable Diffusion 1.5), and what autograd saves for each block. Errors are recorded in `in`:
// unknown types of blocks, lists of different lengths.
UNet ReadUNet(base::JsonReader& in);

}  // namespace carma::estimate
