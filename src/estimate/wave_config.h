// The convolutions of an encoder of sounds (wav2vec 2.0, HuBERT, WavLM) from its config.json.
#pragma once

#include "base/json.h"
#include "estimate/transformer_config.h"

namespace carma::estimate {

// Adds the convolutions that turn each 20 ms of a sound into one token. trained: the convolutions
// are trained, as in pretraining, so the tensors that they keep count; in fine-tuning they are
// frozen, and autograd keeps nothing of them. Mistakes are recorded in `in`.
void ReadWaves(base::JsonReader& in, bool trained, TransformerConfig& config);

}  // namespace carma::estimate
