// Reads diffusion models from the config.json of diffusers: U-Nets, and transformers over patches
// of a noisy image or video.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "estimate/transformer_config.h"

namespace carma::estimate {

// Whether the blocks of this `_class_name` of diffusers are known.
bool IsDiffusion(std::string_view class_name);

// Sets config.family to the class. A transformer has blocks of attention and a feed-forward part,
// with scales, shifts and gates that depend on the noise step; its tokens are patches and, in some
// classes, text tokens too. Errors are recorded in `in`.
void ReadDiffusion(base::JsonReader& in, TransformerConfig& config);

// The names of all known classes, for suggestions.
std::vector<std::string> DiffusionClasses();

}  // namespace carma::estimate
