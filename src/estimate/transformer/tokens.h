// Bytes of a transformer's training that grow with the tokens: activations, temporaries, the loss.
#pragma once

#include "estimate/transformer/rank.h"

namespace carma::estimate {

// Bytes per token.
struct PerToken {
  double inputs = 0;       // of all blocks, kept from the forward pass on
  double block = 0;        // what one block keeps for its backward pass, and its temporaries
  double kept = 0;         // the part of this that stays
  double temporaries = 0;  // of one block's backward pass
  double loss = 0;         // of the scores, at the loss
  double held = 0;         // of the scores, while the first blocks run backward
  double above = 0;        // around the loss, without the scores
  double stays = 0;        // what FSDP with frozen weights does not free until then
  // In the middle of a U-Net's backward pass: bytes still kept, and the share of all gradients that
  // already exist. 0: not considered.
  double midway = 0;
  double midway_gradients = 0;
  double encodes = 0;  // while an autoencoder makes what the first block reads
};

// The blocks that run on the same tokens: all of them, or those of an encoder or of a decoder.
struct Stack {
  double layers = 0;
  double keys = 0;   // tokens that an attention sees, both attentions of a decoder together
  double read = 0;   // for a decoder: tokens of the encoder per token of its own; 0: no encoder
  bool last = true;  // is followed by the loss
};

// shares_weights: as Static.
PerToken PerTokenOf(const TransformerConfig& config, const TrainingPlan& plan, const Sizes& sizes,
                    const Adapters& adapters, const Stack& stack, bool shares_weights);
// Bytes per token of an encoder and a decoder together, counted per token of the decoder. tokens:
// number of the decoder's tokens; the encoder's number is sizes.tokens.
PerToken PerTokenOfBoth(const TransformerConfig& config, const TrainingPlan& plan,
                        const Sizes& sizes, const Adapters& adapters, double tokens,
                        bool shares_weights);

// Bytes per token of a model with other kinds of blocks (config.blocks).
PerToken PerTokenOfBlocks(const TransformerConfig& config, const TrainingPlan& plan,
                          const Sizes& sizes, const Adapters& adapters, bool shares_weights);
// Adds stacks that run on other inputs of the same samples (config.towers).
void AddTowers(const TransformerConfig& config, const TrainingPlan& plan, PerToken& per);

}  // namespace carma::estimate
