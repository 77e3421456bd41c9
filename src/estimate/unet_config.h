// The blocks of a diffusion U-Net from the config.json of diffusers' UNet2DConditionModel or
// UNet2DModel.
#pragma once

#include "base/json.h"
#include "estimate/block_list.h"

namespace carma::estimate {

struct UNet {
  BlockList list;
  double other_parameters = 0;  // embeddings of the time and of what the image is made from
  std::int64_t sample = 64;     // height and width of its input: a latent of an image, or an image
};

// Counts the parameters of the modules that diffusers builds, without biases (859 of the 860 M of
// Stable Diffusion 1.5), and what autograd saves for each block. Mistakes are recorded in `in`:
// unknown types of blocks, lists of different lengths.
UNet ReadUNet(base::JsonReader& in);

}  // namespace carma::estimate
