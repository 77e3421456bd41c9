// Reads the convolutions of a sound encoder (wav2vec 2.0, HuBERT, WavLM) from its config.json.
#pragma once

#include "base/json.h"
#include "estimate/transformer_config.h"

namespace carma::estimate {

// Adds the convolutions that turn each 20 ms of a sound into one token. trained: whether they are
// trained, as in pretraining; then the tensors that they keep count. In fine-tuning they are
// frozen, and autograd keeps nothing for them. Mistakes are recorded in `in`.
void ReadWaves(base::JsonReader& in, bool trained, TransformerConfig& config);

}  // namespace carma::estimate
