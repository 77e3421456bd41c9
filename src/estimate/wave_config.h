// Reads the convolutions of a sound encoder (wav2vec 2.0, HuBERT, WavLM) from its config.json.
#pragma once

#include "base/json.h"
#include "estimate/transformer_config.h"

namespace carma::estimate {

// Adds the convolutions that turn each 20 ms of audio into one token. trained: true in pretraining,
// where the tensors that the convolutions keep are counted; false in fine-tuning, where they are
// frozen and autograd keeps nothing. Errors are recorded in `in`.
void ReadWaves(base::JsonReader& in, bool trained, TransformerConfig& config);

}  // namespace carma::estimate
