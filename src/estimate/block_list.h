// Computes the blocks of models that are not stacks of identical attention blocks: U-Nets and
// state-space models.
#pragma once

#include <cstdint>
#include <vector>

namespace carma::base {
class JsonReader;
}

namespace carma::estimate {

// What one block keeps for its backward pass, in elements per token of the model. A token of a
// U-Net is a pixel of the U-Net's input, so a block at half the resolution has a quarter of a pixel
// per token.
struct BlockKeeps {
  double parameters = 0;
  double input = 0;  // the block's input; a recomputed block keeps nothing else
  double wide = 0;   // inputs of norms and of the activations after them; fp32 under autocast
  double read = 0;   // inputs of linear layers; not kept if their weights are frozen
  double kept = 0;   // for convolutions (even if frozen), attention, products and activations
  double cast = 0;   // 16-bit copies made only under autocast
  double without_kernels = 0;        // additional bytes kept without fused kernels
  double without_kernels_16bit = 0;  // the same with 16-bit weights or autocast
  double matrix = 0;                 // elements of an unfused attention matrix per pair of tokens
  double widest = 0;                 // input and output of the largest convolution
  double made = 0;                   // temporaries of the backward pass
  bool again = true;                 // gradient checkpointing recomputes the block
  bool early = false;                // precedes the middle block; its gradients are computed last
};

// Totals over all blocks for one kind of matrix that can have adapters.
struct AdaptedMatrices {
  double inputs = 0;  // input elements per token
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
// width of each block. second: true for Mamba 2, which has one decay per head. The fused kernels of
// mamba_ssm keep the output of the input projection and the result of the scan, and recompute
// everything else. Without these kernels, the scan keeps its states for each token
// (BlockKeeps::without_kernels). Errors are recorded in `in`.
BlockList ReadMamba(base::JsonReader& in, std::int64_t layers, std::int64_t hidden, bool second);

// The blocks of a diffusion U-Net, read from the config.json of diffusers' UNet2DConditionModel or
// UNet2DModel.
struct UNet {
  BlockList list;
  double other_parameters = 0;  // time and condition embeddings
  std::int64_t sample = 64;     // height and width of the input, a latent or an image
};

// Counts the parameters of the modules that diffusers builds, and what autograd saves for each
// block. Biases are ignored, so the count for Stable Diffusion 1.5 is 859 M instead of 860 M.
// Records unknown block types and lists of the wrong length as errors in `in`.
UNet ReadUNet(base::JsonReader& in);

}  // namespace carma::estimate
