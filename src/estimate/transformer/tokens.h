// Bytes of a transformer's training that grow with the tokens: activations, temporaries, the loss.
#pragma once

#include "estimate/transformer/rank.h"

namespace carma::estimate {

// Bytes per token.
struct PerToken {
  double inputs = 0;       // of all blocks, kept from the forward pass on
  double block = 0;        // one block keeps for its backward pass, and makes on the way
  double kept = 0;         // of this what stays
  double temporaries = 0;  // of one block's backward pass
  double loss = 0;         // of the scores, at the loss
  double held = 0;         // of the scores, while the first blocks run backward
  double above = 0;        // around the loss, without the scores
  double stays = 0;        // what FSDP with frozen weights does not free on the way
  // When the backward pass of a U-Net is at its middle: bytes still kept, share of all gradients
  // made. 0: not looked at.
  double midway = 0;
  double midway_gradients = 0;
  double encodes = 0;  // while an autoencoder makes what the first block reads
};

// The blocks that run on the same tokens: all of them, or those of an encoder or of a decoder.
struct Stack {
  double layers = 0;
  double keys = 0;   // tokens that an attention sees, both attentions of a decoder together
  double read = 0;   // of a decoder: tokens of the encoder for each of its own; 0: it reads none
  bool last = true;  // has the loss above it
};

// shares_weights: as Static.
PerToken PerTokenOf(const TransformerConfig& config, const TrainingPlan& plan, const Sizes& sizes,
                    const Adapters& adapters, const Stack& stack, bool shares_weights);
// An encoder's tokens come before the decoder's, which stand for both: what the former keep counts
// for the latter. tokens: of the decoder; those of the encoder are sizes.tokens.
PerToken PerTokenOfBoth(const TransformerConfig& config, const TrainingPlan& plan,
                        const Sizes& sizes, const Adapters& adapters, double tokens,
                        bool shares_weights);

// Of blocks of other kinds (config.blocks).
PerToken PerTokenOfBlocks(const TransformerConfig& config, const TrainingPlan& plan,
                          const Sizes& sizes, const Adapters& adapters, bool shares_weights);
// Adds stacks that run on other inputs of the same samples (config.towers).
void AddTowers(const TransformerConfig& config, const TrainingPlan& plan, PerToken& per);

}  // namespace carma::estimate
