// Reads a transformer's dimensions from a Hugging Face config.json.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/words.h"
#include "estimate/block_list.h"

namespace carma::estimate {

inline constexpr std::size_t kMaxConfigBytes = std::size_t{1} << 20;

// How the blocks' matrices are stored. Embedding, head and norms are never quantised.
enum class Quantisation { kNone, kNf4, kNf4Double, kGptq4, kInt8 };
inline constexpr std::pair<Quantisation, std::string_view> kQuantisationWords[] = {
    {Quantisation::kNone, "none"},        {Quantisation::kNf4, "nf4"},
    {Quantisation::kNf4Double, "nf4-dq"}, {Quantisation::kGptq4, "gptq4"},
    {Quantisation::kGptq4, "awq4"},       {Quantisation::kInt8, "int8"},
    {Quantisation::kInt8, "gptq8"}};

enum class Dtype { kBf16, kFp16, kFp32 };
inline constexpr std::pair<Dtype, std::string_view> kDtypeWords[] = {
    {Dtype::kBf16, "bf16"},     {Dtype::kFp16, "fp16"},    {Dtype::kFp32, "fp32"},
    {Dtype::kBf16, "bfloat16"}, {Dtype::kFp16, "float16"}, {Dtype::kFp32, "float32"}};

// A model with identical blocks between an embedding and a head over the vocabulary. The blocks
// form one stack, or an encoder and a decoder that reads the encoder's result.
// ParseTransformerConfig limits all counts so that their products fit into a double.
struct TransformerConfig {
  std::string family;  // model_type of config.json
  std::int64_t layers = 0;
  std::int64_t decoder_layers = 0;  // part of `layers`: blocks that also attend to an encoder
  std::int64_t hidden = 0;          // width of the residual stream
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  // fewer than heads: grouped keys and values
  std::int64_t head_width = 0;
  std::int64_t value_width = 0;   // width of a head's values; 0: same as its keys
  std::int64_t feed_forward = 0;  // inner width of one feed-forward part, or of one expert
  std::int64_t vocabulary = 0;
  std::int64_t table_width = 0;        // token embedding width; 0: same as hidden
  std::int64_t positions = 0;          // rows of a learned position table; 0: none
  std::int64_t decoder_positions = 0;  // positions of a decoder; 0: same as `positions`
  bool gated = true;                   // three matrices in a feed-forward part instead of two
  bool rms_norm = true;                // false: LayerNorm
  bool tied = false;                   // embedding and head share one matrix
  bool classifies = false;             // the head has a few classes instead of the vocabulary
  bool sees_images = false;            // its tokens are patches
  bool one_length = false;             // each sample has as many tokens as there are positions
  bool capped_scores = false;          // tanh is applied to the logits
  bool written_out_gelu = false;       // activation made of operations with separate results
  bool quick_gelu = false;             // x * sigmoid(1.702 x); also keeps the sigmoid's result
  bool drops_out = false;              // dropout after attention and after the feed-forward part
  bool drops_forward = false;          // dropout after the activation as well
  bool repeats_block = false;          // all blocks share one block's parameters
  bool drops_scores = false;           // dropout on the attention weights
  bool wide_scores = false;            // softmax in fp32 even though the norms are LayerNorm
  bool unfused_attention = false;      // attention uses matrix products even if fused kernels exist
  bool one_projection = false;         // queries, keys and values come from one matrix
  bool plain_loss = false;             // the loss reads the logits without an fp32 copy
  double latent_parameters = 0;        // parameters of factored attention matrices; 0: none
  std::int64_t experts = 1;
  std::int64_t active_experts = 1;  // experts per token
  std::int64_t shared_forward = 0;  // inner width of the experts that process all tokens
  std::int64_t dense_layers = 0;    // part of `layers`: blocks without experts
  std::int64_t dense_forward = 0;   // inner width of blocks without experts
  double block_parameters = 0;      // set if a block has parts beyond attention and feed-forward
  bool reads_text = false;          // each block also attends to a few text tokens
  bool norms_heads = false;         // queries and keys have their own norms
  std::int64_t norms = 2;           // per block
  bool modulated = false;         // blocks have scales, shifts and gates that depend on the sample
  bool encodes_only = false;      // only the encoder of an encoder-decoder family
  double side_by_side = 0;        // share of blocks whose attention and feed-forward share a norm
  bool diffuses = false;          // a diffusion model
  std::int64_t token_pixels = 0;  // height and width of a token's patch; 0: no image
  std::int64_t frames = 1;        // frames of a latent video; 1 for an image
  std::int64_t text_tokens = 0;   // text tokens in the sequence, in addition to image tokens
  std::int64_t usual_length = 0;  // number of tokens if no length is stated; 0: 2048
  std::optional<BlockList> blocks;  // blocks of other kinds; the sizes above are then meaningless
  std::vector<TransformerConfig> towers;     // stacks for the sample's other inputs (CLIP's text)
  std::vector<std::string> remarks;          // assumptions, one sentence each
  double other_parameters = 0;               // parameters of image encoders outside the stack
  std::vector<std::string> uncounted;        // keys of parts that are not counted
  std::optional<double> stated_parameters;   // empty: computed from the sizes
  std::optional<Dtype> dtype;                // torch_dtype
  std::optional<Quantisation> quantisation;  // quantization_config

  double QueryWidth() const;
  double KeyValueWidth() const;  // width of all keys
  double ValueWidth() const;
  double OutputWidth() const;  // width of the weighted values
  double TableWidth() const;
  double Attentions() const;     // attention layers per block, on average
  double ActiveForward() const;  // inner width per token and block, on average
  // Parameters of the matrices in one block, in all blocks, and in the whole model. Biases are
  // ignored: they make up less than 0.2 % of any model.
  double BlockParameters() const;
  double ExpertParameters() const;  // the part of a block's parameters that belongs to experts
  double MatrixParameters() const;
  double TotalParameters() const;
};

// Returns true if a Transformers class such as "BertForSequenceClassification" is a classifier, so
// that its head does not cover the vocabulary.
bool IsClassifier(std::string_view class_name);

// Parses config.json. where: the file name used in messages. Keys with the same meaning
// (num_hidden_layers, n_layer …) are treated alike. Properties that only a family's code defines
// (gated, norm, tied) come from a table by model_type (transformer_family.h). If a model reads
// images and text, only the weights of its image part are counted; the text part (text_config) is
// counted completely. If a model compares images with texts (CLIP), both parts are counted
// completely. media_config.h covers diffusers files. Returns kInvalid, as one line with the
// location, for text that is not JSON, an unknown family, a missing or impossible number, or an
// unsupported quantisation.
Result<TransformerConfig> ParseTransformerConfig(std::string_view text, std::string_view where);

}  // namespace carma::estimate

namespace carma {
template <>
inline constexpr base::Words<estimate::Quantisation> base::kWordsOf<estimate::Quantisation> =
    estimate::kQuantisationWords;
template <>
inline constexpr base::Words<estimate::Dtype> base::kWordsOf<estimate::Dtype> =
    estimate::kDtypeWords;
}  // namespace carma
