// Properties of transformer families that are defined in their code and may be missing from
// config.json.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace carma::estimate {

// Defaults from a family's code; 0 means no default. They apply to keys that may be missing when
// the family's config is part of a larger model's config. A separate config.json has all of these
// keys.
struct FamilySizes {
  std::int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, feed_forward = 0, vocabulary = 0;
};

struct TransformerFamily {
  std::string_view name;        // model_type of config.json
  bool one_projection = false;  // queries, keys and values come from one matrix
  bool plain_loss = false;      // the loss reads the logits without an fp32 copy
  bool quick_gelu = false;      // x * sigmoid(1.702 x), unless an activation is named
  bool drops_forward = false;   // dropout after the activation, unless its rate is 0
  bool gated = true;            // three matrices in a feed-forward part
  bool rms_norm = true;         // false: LayerNorm
  bool tied = false;            // default of tie_word_embeddings
  bool learned_positions = false;
  bool one_key_head = false;      // multi_query is on unless set to false
  bool drops_out = false;         // dropout, unless its rate is set to 0
  bool halved_forward = false;    // intermediate_size counts both halves of the gated part
  bool encodes_decodes = false;   // two stacks; the second's blocks also read the first's output
  bool sees_images = false;       // tokens are image patches, the head is a classifier
  bool hears = false;             // the encoder's tokens are pieces of a fixed-length audio clip
  bool hears_waves = false;       // convolutions make tokens from audio of any length
  bool compares = false;          // two towers, for texts and for images
  std::int64_t mamba = 0;         // Mamba version of its blocks; 0: attention blocks
  bool norms_heads = false;       // queries and keys have their own norms
  std::int64_t norms = 2;         // per block
  bool wide_scores = false;       // its attention code computes softmax in fp32, like RMSNorm code
  bool repeats_block = false;     // all blocks share one block's parameters
  bool unfused = false;           // attention uses matrix products even if fused kernels exist
  bool written_out_gelu = false;  // activation made of several operations, unless one is named

  std::int64_t head_width = 0;  // default; 0: hidden / heads
  FamilySizes sizes = {};
};

// One row for each model_type.
std::span<const TransformerFamily> TransformerFamilies();
// Null if the family is unknown.
const TransformerFamily* FindFamily(std::string_view name);

}  // namespace carma::estimate
