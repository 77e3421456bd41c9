// Properties of a transformer family that are in its code and may be missing in its config.json.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace carma::estimate {

// Defaults of a family's code for keys that the config of a larger model leaves out; 0: none. A
// separate config.json has all of these keys.
struct FamilySizes {
  std::int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, feed_forward = 0, vocabulary = 0;
};

struct TransformerFamily {
  std::string_view name;        // model_type of config.json
  bool one_projection = false;  // queries, keys and values come from one matrix
  bool plain_loss = false;      // its loss reads the scores as they are, without a copy in fp32
  bool quick_gelu = false;      // x * sigmoid(1.702 x), unless an activation is named
  bool drops_forward = false;   // also after the activation, unless its rate is 0
  bool gated = true;            // three matrices in a feed-forward part
  bool rms_norm = true;         // false: LayerNorm
  bool tied = false;            // unless tie_word_embeddings differs
  bool learned_positions = false;
  bool one_key_head = false;     // multi_query is on unless set to false
  bool drops_out = false;        // unless its rate is set to 0
  bool halved_forward = false;   // intermediate_size counts both halves of the gated part
  bool encodes_decodes = false;  // two stacks; the blocks of the second also read the first
  bool sees_images = false;      // its tokens are the patches of an image, its head is a classifier
  bool hears = false;            // its encoder's tokens are pieces of a sound of fixed length
  bool hears_waves = false;      // convolutions make its tokens of a sound of any length
  bool compares = false;         // two towers, of texts and of images
  std::int64_t mamba = 0;        // blocks of this kind of state-space model; 0: attention
  bool norms_heads = false;      // queries and keys have norms of their own
  std::int64_t norms = 2;        // of a block
  bool wide_scores = false;      // its own attention takes softmax in fp32, as with RMSNorm
  bool repeats_block = false;    // all blocks share one block's parameters
  bool unfused = false;          // attention by matrix products, even if fused kernels exist
  bool written_out_gelu = false;  // unless an activation is named

  std::int64_t head_width = 0;  // unless the file states it; 0: hidden / heads
  FamilySizes sizes = {};
};

// One row for each model_type, each name once.
std::span<const TransformerFamily> TransformerFamilies();
// Null: an unknown family.
const TransformerFamily* FindFamily(std::string_view name);

}  // namespace carma::estimate
