// Reads diffusion models from diffusers' config.json: U-Nets, and transformers that work on patches
// of a noisy image or video.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "estimate/transformer_config.h"

namespace carma::base {
class JsonReader;
}

namespace carma::estimate {

// Whether CARMA supports the diffusers class with this name.
bool IsDiffusion(std::string_view class_name);

// Reads a model and sets config.family to its class. A transformer's blocks have attention, a
// feed-forward part, and scales, shifts and gates that depend on the noise step. A transformer's
// tokens are patches and, in some classes, also text tokens. Errors are recorded in `in`.
void ReadDiffusion(base::JsonReader& in, TransformerConfig& config);

// The names of all supported classes, used for suggestions.
std::vector<std::string> DiffusionClasses();

}  // namespace carma::estimate
