// Reads models of images, videos and audio from their config.json: diffusers' diffusion models
// (U-Nets, and transformers that work on patches of a noisy image or video), and the convolutions
// of audio encoders (wav2vec 2.0, HuBERT, WavLM).
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

// Reads a model and sets config.family to its class. A transformer's blocks have attention, a
// feed-forward part, and scales, shifts and gates that depend on the noise step. A transformer's
// tokens are patches and, in some classes, also text tokens. Errors are recorded in `in`.
void ReadDiffusion(base::JsonReader& in, TransformerConfig& config);

// The names of all supported classes, used for suggestions.
std::vector<std::string> DiffusionClasses();

// Adds the convolutions that turn each 20 ms of audio into one token. In pretraining they are
// trained, and the tensors that they keep are counted. In fine-tuning (trained: false) they are
// frozen, and autograd keeps nothing for them. Errors are recorded in `in`.
void ReadWaves(base::JsonReader& in, bool trained, TransformerConfig& config);

}  // namespace carma::estimate
