// Reads the convolutions of an audio encoder (wav2vec 2.0, HuBERT, WavLM) from its config.json.
#pragma once

#include "estimate/transformer_config.h"

namespace carma::base {
class JsonReader;
}

namespace carma::estimate {

// Adds the convolutions that turn each 20 ms of audio into one token. In pretraining they are
// trained, and the tensors that they keep are counted. In fine-tuning (trained: false) they are
// frozen, and autograd keeps nothing for them. Errors are recorded in `in`.
void ReadWaves(base::JsonReader& in, bool trained, TransformerConfig& config);

}  // namespace carma::estimate
