// The blocks of a model whose blocks are no equal attention blocks: a U-Net, state-space layers.
#pragma once

#include <vector>

namespace carma::estimate {

// What one block keeps for its backward pass, in elements for each token of the model. A token of a
// U-Net is a pixel of its input, so a block that runs at half the resolution counts for a quarter.
struct BlockKeeps {
  double parameters = 0;
  double input = 0;  // of the block, which is all that stays if it is computed again
  double wide = 0;   // read by norms and by the activations behind them: in fp32 under autocast
  double read = 0;   // read by linear layers: not kept if their weights are frozen
  double kept = 0;   // read by convolutions (frozen or not), attention, products, activations
  double cast = 0;   // 16-bit copies that only autocast makes
  double without_kernels = 0;  // bytes that the written-out code keeps where fused kernels do not
  double matrix = 0;           // elements of an unfused attention matrix, for each token and token
  double widest = 0;           // input and output of its largest convolution
  double made = 0;             // by its backward pass, on the way
  bool again = true;           // gradient checkpointing computes it again
  bool early = false;          // lies before the middle of the model: its gradients come last
};

// Matrices that adapters of a kind go to, all blocks together.
struct AdaptedMatrices {
  double inputs = 0;  // elements for each token
  double widths = 0;  // sum of all widths, in and out
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

}  // namespace carma::estimate
