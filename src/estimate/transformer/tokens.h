// Computes the part of a transformer's training memory that grows with the number of tokens:
// activations, temporaries and the loss.
#pragma once

#include "estimate/transformer/rank.h"

namespace carma::estimate {

// Bytes per token.
struct PerToken {
  double inputs = 0;       // inputs of all blocks, kept from the forward pass onwards
  double block = 0;        // `kept`, plus temporaries of one block's forward pass
  double kept = 0;         // what one block keeps for its backward pass
  double temporaries = 0;  // temporaries of one block's backward pass
  double loss = 0;         // memory of the logits at the loss
  double held = 0;         // memory of the logits during the last block's backward pass
  double above = 0;        // memory around the loss, except for the logits
  double stays = 0;        // what FSDP holds with frozen weights in the last block's backward pass
  // Halfway through a U-Net's backward pass: the bytes still kept (0 if this moment is not
  // considered), and the share of all gradients that exist by then.
  double midway = 0;
  double midway_gradients = 0;
  double encodes = 0;  // memory while an autoencoder makes the first block's input
};

// Blocks that run on the same tokens: all blocks of a model, or those of its encoder or decoder.
struct Stack {
  double layers = 0;
  double keys = 0;   // tokens that attention reads; for a decoder, in both attention layers
  double read = 0;   // for a decoder: encoder tokens per decoder token; 0: no encoder
  bool last = true;  // the loss follows
};

// shares_weights: as in Static.
PerToken PerTokenOf(const TransformerConfig& config, const TrainingPlan& plan, const Sizes& sizes,
                    const Adapters& adapters, const Stack& stack, bool shares_weights);
// Bytes of an encoder and a decoder together, per decoder token. tokens: the decoder's tokens; the
// encoder has sizes.tokens.
PerToken PerTokenOfBoth(const TransformerConfig& config, const TrainingPlan& plan,
                        const Sizes& sizes, const Adapters& adapters, double tokens,
                        bool shares_weights);

// Bytes per token of a model with a list of blocks (config.blocks), such as a U-Net.
PerToken PerTokenOfBlocks(const TransformerConfig& config, const TrainingPlan& plan,
                          const Sizes& sizes, const Adapters& adapters, bool shares_weights);
// Adds the stacks for the other inputs of each sample, such as the text that belongs to an image
// (config.towers).
void AddTowers(const TransformerConfig& config, const TrainingPlan& plan, PerToken& per);

}  // namespace carma::estimate
