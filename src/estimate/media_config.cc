#include "estimate/media_config.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/json.h"
#include "estimate/block_list.h"

namespace carma::estimate {
namespace {

constexpr std::int64_t kMaxLayers = 10'000;
constexpr std::int64_t kMaxWidth = 100'000;
constexpr std::int64_t kMaxSide = 100'000;
// The autoencoder reduces the image's height and width by this factor.
constexpr std::int64_t kLatentPixels = 8;

// Parameters per block, in multiples of the squared width. Values are taken from the models in
// diffusers 0.30 to 0.35.
struct PatchModel {
  std::string_view name;
  double squares = 12;       // 4 for attention and 8 for a plain feed-forward part
  double single = 0;         // `squares` of later blocks, in which image and text share matrices
  bool reads_text = false;   // each block also has cross-attention to the text
  bool norms_heads = false;  // queries and keys are normalised
  std::int64_t text = 0;     // text tokens in the sequence
  std::int64_t side = 128;   // default side of a latent
  std::int64_t patch = 2;
  std::int64_t frames = 1;  // default number of frames of a latent video
  double vectors = 0;       // modulation vectors per block, computed from time_embed_dim numbers
};

constexpr PatchModel kPatchModels[] = {
    // 18 = 12 for attention and the feed-forward part, plus 6 for the six modulation vectors.
    {.name = "DiTTransformer2DModel", .squares = 18, .side = 32},
    {.name = "Transformer2DModel", .squares = 18, .side = 32},
    {.name = "PixArtTransformer2DModel", .squares = 16, .reads_text = true},
    // Each block has an image stream and a text stream, with separate matrices and modulation.
    {.name = "SD3Transformer2DModel", .squares = 36, .text = 333},
    {.name = "FluxTransformer2DModel",
     .squares = 36,
     .single = 15,
     .norms_heads = true,
     .text = 512},
    {.name = "QwenImageTransformer2DModel", .squares = 36, .norms_heads = true, .text = 512},
    {.name = "CogVideoXTransformer3DModel",
     .norms_heads = true,
     .text = 226,
     .frames = 13,
     .vectors = 12},
    {.name = "WanTransformer3DModel",
     .squares = 16,
     .reads_text = true,
     .norms_heads = true,
     .frames = 21},
};

constexpr std::string_view kUNets[] = {"UNet2DConditionModel", "UNet2DModel"};

const PatchModel* FindModel(std::string_view name) {
  const auto* const found = std::ranges::find(kPatchModels, name, &PatchModel::name);
  return found == std::end(kPatchModels) ? nullptr : found;
}

void ReadUNetModel(base::JsonReader& in, TransformerConfig& config) {
  UNet net = ReadUNet(in);
  config.layers = std::max<std::int64_t>(1, std::ssize(net.list.blocks));
  config.other_parameters = net.other_parameters;
  config.positions = net.sample * net.sample;
  config.token_pixels = config.family == kUNets[0] ? kLatentPixels : 1;
  config.blocks = std::move(net.list);
}

// Reads a number, or the last element of a list such as [1, 2, 2] for time, height and width.
std::int64_t GetPatch(base::JsonReader& in, std::int64_t usual) {
  const base::Json* found = in.Raw("patch_size");
  if (found == nullptr || found->is_null()) return usual;
  const base::Json& one = found->is_array() && !found->empty() ? found->back() : *found;
  if (!one.is_number_integer() || one.get<std::int64_t>() < 1 ||
      one.get<std::int64_t>() > kMaxSide) {
    in.Complain("patch_size", "a number");
    return usual;
  }
  return one.get<std::int64_t>();
}

// Reads the number of image or video patches and the number of text tokens.
void GetTokens(base::JsonReader& in, const PatchModel& model, TransformerConfig& config) {
  std::int64_t patch = GetPatch(in, model.patch);
  if (patch == 1 && model.single > 0)
    patch = model.patch;  // the input is already split into patches
  std::int64_t height = model.side;
  in.Get("sample_size", height, 1, kMaxSide);
  std::int64_t width = height;
  in.Get("sample_height", height, 1, kMaxSide);
  in.Get("sample_width", width, 1, kMaxSide);
  config.text_tokens = model.text;
  if (model.text > 0) in.Get("max_text_seq_length", config.text_tokens, 0, kMaxSide);
  std::int64_t frames = 0;
  std::int64_t squeezed = 4;
  in.Get("temporal_compression_ratio", squeezed, 1, 1'000);
  config.frames = model.frames;
  if (in.Get("sample_frames", frames, 1, kMaxSide)) config.frames = (frames - 1) / squeezed + 1;
  config.token_pixels = kLatentPixels * patch;
  config.positions = std::max<std::int64_t>(1, height / patch) *
                         std::max<std::int64_t>(1, width / patch) * config.frames +
                     config.text_tokens;
}

void ReadPatchModel(base::JsonReader& in, const PatchModel& model, TransformerConfig& config) {
  std::int64_t single = 0;
  const auto need = [&](const char* key, std::int64_t& target, std::int64_t high) {
    if (!in.Get(key, target, 1, high)) in.Complain(key, "a number");
  };
  need("num_layers", config.layers, kMaxLayers);
  need("num_attention_heads", config.heads, kMaxWidth);
  need("attention_head_dim", config.head_width, kMaxWidth);
  in.Get("num_single_layers", single, 0, kMaxLayers);
  if (in.error()) return;
  config.hidden = config.heads * config.head_width;
  config.kv_heads = config.heads;
  config.feed_forward = 4 * config.hidden;
  const bool told = in.Get("ffn_dim", config.feed_forward, 1, kMaxWidth);
  const auto width = static_cast<double>(config.hidden);
  const auto forward = static_cast<double>(config.feed_forward);
  const auto both = static_cast<double>(config.layers);
  const double square = width * width;
  config.block_parameters = model.squares * square + (told ? 2 * width * forward - 8 * square : 0);
  std::int64_t embedding = 512;
  in.Get("time_embed_dim", embedding, 1, kMaxWidth);
  config.block_parameters += model.vectors * width * static_cast<double>(embedding);
  config.layers += single;
  config.block_parameters =
      (both * config.block_parameters + static_cast<double>(single) * model.single * square) /
      static_cast<double>(config.layers);
  config.side_by_side = static_cast<double>(single) / static_cast<double>(config.layers);
  config.reads_text = model.reads_text;
  config.norms_heads = model.norms_heads;
  config.modulated = true;
  // Embeddings of the patches, the time step and the text.
  std::int64_t text = 0;
  for (const char* key : {"joint_attention_dim", "caption_channels", "text_dim", "text_embed_dim"})
    if (in.Get(key, text, 1, kMaxWidth)) break;
  config.other_parameters = width * (static_cast<double>(text) + 3 * width);
  GetTokens(in, model, config);
}

}  // namespace

bool IsDiffusion(std::string_view class_name) {
  return FindModel(class_name) != nullptr ||
         std::ranges::find(kUNets, class_name) != std::end(kUNets);
}

void ReadDiffusion(base::JsonReader& in, TransformerConfig& config) {
  config.gated = config.rms_norm = false;
  config.sees_images = config.one_length = config.classifies = true;
  config.diffuses = true;
  const PatchModel* model = FindModel(config.family);
  if (model == nullptr) return ReadUNetModel(in, config);
  ReadPatchModel(in, *model, config);
}

std::vector<std::string> DiffusionClasses() {
  std::vector<std::string> names(std::begin(kUNets), std::end(kUNets));
  for (const PatchModel& model : kPatchModels) names.emplace_back(model.name);
  return names;
}

void ReadWaves(base::JsonReader& in, bool trained, TransformerConfig& config) {
  std::vector<double> widths(7, 512);
  std::vector<double> strides = {5, 2, 2, 2, 2, 2, 2};
  std::vector<double> kernels = {10, 3, 3, 3, 3, 2, 2};
  for (const auto& [key, target] :
       {std::pair("conv_dim", &widths), std::pair("conv_stride", &strides),
        std::pair("conv_kernel", &kernels)}) {
    const base::Json* list = in.Raw(key);
    if (list == nullptr || !list->is_array()) continue;
    target->clear();
    for (const base::Json& each : *list) {
      if (!each.is_number_integer() || each.get<double>() < 1 || each.get<double>() > 100'000 ||
          target->size() == 64)
        return in.Complain(key, "numbers from 1 to 100000");
      target->push_back(each.get<double>());
    }
  }
  if (widths.size() != strides.size() || widths.size() != kernels.size() || widths.empty())
    return in.Complain("conv_dim", "as many numbers as in conv_stride and conv_kernel");
  // The last layer has one position per token. Going backwards, the stride of each layer multiplies
  // the number of positions.
  BlockKeeps all = {.again = false};
  double positions = 1;
  for (std::size_t i = widths.size(); i-- > 0;) {
    const double before = i == 0 ? 1 : widths[i - 1];
    all.parameters += kernels[i] * before * widths[i];
    all.kept += positions * widths[i] * (i == 0 ? 3 : 2);  // the first layer has a norm
    all.widest = std::max(all.widest, positions * widths[i]);
    positions *= strides[i];
  }
  const auto width = static_cast<double>(config.hidden);
  constexpr double kPositionKernel = 128;
  constexpr double kGroups = 16;
  config.other_parameters = widths.back() * width + kPositionKernel * width * width / kGroups;
  config.usual_length = 1000;  // 20 seconds
  config.remarks.emplace_back("one token is 20 ms of audio, so --seq-len 500 means 10 seconds");
  if (!trained) {
    config.other_parameters += all.parameters;
    config.remarks.emplace_back("the audio convolutions are assumed to be frozen");
    return;
  }
  TransformerConfig waves;
  waves.layers = 1;
  waves.classifies = true;
  waves.blocks = BlockList{.blocks = {all}};
  config.towers.push_back(std::move(waves));
}

}  // namespace carma::estimate
