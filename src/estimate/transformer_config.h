// The sizes of a transformer as a Hugging Face config.json gives them.
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

// How the matrices of the blocks are stored; embedding, head and norms are never quantised.
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

// Equal blocks between an embedding and a head over the vocabulary: one stack, or an encoder and a
// decoder that reads its result. All counts are within the limits that
// ParseTransformerConfig checks; their products fit a double.
struct TransformerConfig {
  std::string family;  // model_type of config.json
  std::int64_t layers = 0;
  std::int64_t decoder_layers = 0;  // of these: blocks with a second attention, to an encoder
  std::int64_t hidden = 0;          // width of the residual stream
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  // fewer than heads: grouped keys and values
  std::int64_t head_width = 0;
  std::int64_t value_width = 0;   // of a head's values; 0: as wide as its keys
  std::int64_t feed_forward = 0;  // inner width of one feed-forward part, or of one expert
  std::int64_t vocabulary = 0;
  std::int64_t table_width = 0;        // of the table of tokens; 0: hidden
  std::int64_t positions = 0;          // rows of a learned table of positions; 0: none
  std::int64_t decoder_positions = 0;  // a decoder's, if they differ; 0: the same
  bool gated = true;                   // three matrices in a feed-forward part instead of two
  bool rms_norm = true;                // false: LayerNorm
  bool tied = false;                   // one matrix is embedding and head
  bool classifies = false;         // a head of a few classes in place of one over the vocabulary
  bool sees_images = false;        // its tokens are patches
  bool one_length = false;         // each sample has as many tokens as there are positions
  bool capped_scores = false;      // tanh over the scores
  bool written_out_gelu = false;   // an activation of several operations, each with its own result
  bool quick_gelu = false;         // x * sigmoid(1.702 x), which also keeps the sigmoid's result
  bool drops_out = false;          // after attention and after the feed-forward part
  bool drops_forward = false;      // and after the activation
  bool repeats_block = false;      // all blocks share the parameters of one
  bool drops_scores = false;       // the weights of attention as well
  bool wide_scores = false;        // softmax in fp32 although the norms are LayerNorm
  bool unfused_attention = false;  // attention by matrix products, even if fused kernels exist
  bool one_projection = false;     // queries, keys and values come from one matrix
  bool plain_loss = false;         // its loss reads the scores without a copy in fp32
  double latent_parameters = 0;    // of an attention part with factored matrices; 0: it has none
  std::int64_t experts = 1;
  std::int64_t active_experts = 1;  // that each token passes through
  std::int64_t shared_forward = 0;  // inner width of the additional part that all tokens pass
  std::int64_t dense_layers = 0;    // of `layers`: blocks without experts
  std::int64_t dense_forward = 0;   // their inner width
  double block_parameters = 0;      // of a block that has more than attention and feed-forward part
  bool reads_text = false;          // each block has a second attention, to a few tokens of a text
  bool norms_heads = false;         // queries and keys have norms of their own
  std::int64_t norms = 2;           // of a block
  bool modulated = false;           // scales, shifts and gates in each block depend on the sample
  bool encodes_only = false;        // only the encoder of a family with encoder and decoder
  double side_by_side = 0;          // share of blocks whose two parts read the same norm
  bool diffuses = false;            // a diffusion model
  std::int64_t token_pixels = 0;    // height and width of what a token stands for; 0: no image
  std::int64_t frames = 1;          // of a video, in tokens
  std::int64_t text_tokens = 0;     // in the sequence, in addition to those of the image
  std::int64_t usual_length = 0;    // in tokens, where no length is stated; 0: 2048
  std::optional<BlockList> blocks;  // blocks of other kinds; then the sizes above have no meaning
  std::vector<TransformerConfig> towers;     // stacks for the sample's other inputs (CLIP's text)
  std::vector<std::string> remarks;          // one sentence each: what is assumed
  double other_parameters = 0;               // of image encoders outside the stack
  std::vector<std::string> uncounted;        // parts with sizes that are not counted here, by key
  std::optional<double> stated_parameters;   // if a source gives them; else they are computed
  std::optional<Dtype> dtype;                // torch_dtype
  std::optional<Quantisation> quantisation;  // quantization_config

  double QueryWidth() const;
  double KeyValueWidth() const;  // of the keys
  double ValueWidth() const;
  double OutputWidth() const;  // of the weighted values
  double TableWidth() const;
  double Attentions() const;     // per block, on average
  double ActiveForward() const;  // inner width that a token passes in a block, on average
  // Parameters of the matrices in one block, in all blocks, and in the whole model. Biases are left
  // out, because they are less than 0.2 % of any model.
  double BlockParameters() const;
  double ExpertParameters() const;  // of these: of experts
  double MatrixParameters() const;
  double TotalParameters() const;
};

// Whether a class of Transformers ("BertForSequenceClassification") is a classifier, whose head is
// only a few classes wide.
bool IsClassifier(std::string_view class_name);

// text: config.json; where: its name for messages. Different keys with one meaning
// (num_hidden_layers, n_layer …) are treated alike. Properties that a family's code has without a
// key (gated, norm, tied) are in a table by model_type (transformer_family.h). In a model that
// reads images and text, the text part counts completely (text_config), the image part only by its
// weights; in one that compares both (CLIP), both count completely. Files of diffusers:
// diffusion_config.h. Errors: kInvalid, one line with the place: text that is not JSON, a family
// that is not in the table, a missing or impossible number, or a kind of quantisation that is not
// modelled.
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
