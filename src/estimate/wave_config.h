// The convolutions of an encoder of sounds (wav2vec 2.0, HuBERT, WavLM) from its config.json.
#pragma once

#include "base/json.h"
#include "estimate/transformer_config.h"

namespace carma::estimate {

// Adds the convolutions that make one token of each 20 ms of a sound. trained: before fine-tuning,
// when what they keep counts as well; later they are frozen, and autograd keeps nothing of them.
// Mistakes are left in `in`.
void ReadWaves(base::JsonReader& in, bool trained, TransformerConfig& config);

}  // namespace carma::estimate
