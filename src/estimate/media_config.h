// Reads the config.json of models for images, video and audio. Supports diffusion models built with
// diffusers, and the convolutions of audio encoders (wav2vec 2.0, HuBERT, WavLM). Diffusion models
// are U-Nets, or transformers that work on patches of a noisy image or video.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "estimate/transformer_config.h"

namespace carma::base {
class JsonReader;
}

namespace carma::estimate {

// Returns true if CARMA supports the diffusers class with this name.
bool IsDiffusion(std::string_view class_name);

// Reads a diffusion model and sets config.family to its class. The tokens of a transformer are
// patches and, in some classes, also text. Its blocks have attention, a feed-forward part, and
// scales, shifts and gates that depend on the noise step. Errors are recorded in `in`.
void ReadDiffusion(base::JsonReader& in, TransformerConfig& config);

// The names of all supported classes, used for suggestions.
std::vector<std::string> DiffusionClasses();

// Adds the convolutions that turn each 20 ms of audio into one token. If they are trained, as in
// pretraining, the tensors that they keep are counted. Otherwise autograd keeps nothing for them.
// Errors are recorded in `in`.
void ReadWaves(base::JsonReader& in, bool trained, TransformerConfig& config);

}  // namespace carma::estimate
