#include "estimate/block_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace carma::estimate {
namespace {

constexpr std::int64_t kMaxMambaChannels = 10'000'000;

// Bytes that the token loop of the Transformers library keeps for each channel and state: the
// decays, the product of time step and input matrix, and the state before each step, all in fp32.
// With 16-bit weights, the loop also keeps a copy of the state.
constexpr double kScanBytes = 3 * 4;
constexpr double kScanCopyBytes = 2;
// Elements per channel that the loop keeps in addition: the inputs and outputs of two activations
// (one after the convolution, one for the time steps), the sum that the gate multiplies, and the
// activated gate. With 16-bit weights, the loop also keeps an fp32 copy of the input.
constexpr double kLoopElements = 6;

constexpr std::size_t kMaxLevels = 16;
constexpr std::int64_t kMaxChannels = 100'000;
constexpr std::int64_t kMaxUnetLayers = 50;

// All blocks of the U-Net that work at one resolution.
struct Level {
  double channels = 0;
  double layers = 2;  // residual blocks on the way down; one more on the way up
  double depth = 1;   // attention blocks after each residual block
  double heads = 8;
  bool attends = false;  // has attention on the way down and up
  bool attends_up = false;
};

class Builder {
 public:
  explicit Builder(base::JsonReader& in) : in_(in) {}

  UNet Build() {
    const std::vector<Level> levels = Levels();
    if (!in_.error()) Way(levels);
    return std::move(net_);
  }

 private:
  // Reads one number for all levels, or a list with one number per level. Empty if the value is
  // neither.
  std::vector<double> PerLevel(const char* key, std::size_t levels, std::int64_t high) {
    const base::Json* found = in_.Raw(key);
    if (found == nullptr || found->is_null()) return {};
    std::vector<double> values;
    const auto take = [&](const base::Json& each) {
      // Some configurations list one value per layer for each level. Only the first layer's value
      // is used.
      const base::Json& one = each.is_array() && !each.empty() ? each.front() : each;
      if (!one.is_number_integer() || one.get<double>() < 1 ||
          one.get<double>() > static_cast<double>(high))
        return in_.Complain(key, fmt::format("numbers from 1 to {}", high));
      values.push_back(one.get<double>());
    };
    if (found->is_array()) {
      if (found->size() > kMaxLevels) in_.Complain(key, "at most 16 numbers");
      if (in_.error()) return {};
      for (const base::Json& each : *found) take(each);
    } else {
      take(*found);
      if (!values.empty()) values.resize(levels, values.front());
    }
    if (!in_.error() && levels > 0 && values.size() != levels)
      in_.Complain(key,
                   fmt::format("{} numbers, one for each entry of block_out_channels", levels));
    return values;
  }

  std::vector<std::string> Types(const char* key, std::size_t levels) {
    std::vector<std::string> types;
    in_.Get(key, types, kMaxLevels, 100);
    if (!in_.error() && types.size() != levels)
      in_.Complain(key, fmt::format("{} types, one for each entry of block_out_channels", levels));
    for (const std::string& type : types) {
      if (!type.contains("2D"))
        in_.Complain(key, "blocks like DownBlock2D and CrossAttnDownBlock2D");
    }
    return types;
  }

  std::vector<Level> Levels() {
    const std::vector<double> channels = PerLevel("block_out_channels", 0, kMaxChannels);
    if (channels.empty() && !in_.error()) in_.Complain("block_out_channels", "a list of numbers");
    if (in_.error()) return {};
    const std::size_t count = channels.size();
    const std::vector<std::string> down = Types("down_block_types", count);
    std::vector<std::string> up = Types("up_block_types", count);
    const std::vector<double> layers = PerLevel("layers_per_block", count, kMaxUnetLayers);
    const std::vector<double> depths =
        PerLevel("transformer_layers_per_block", count, kMaxUnetLayers);
    // Without num_attention_heads, diffusers takes the number of heads from attention_head_dim.
    std::vector<double> heads = PerLevel("num_attention_heads", count, kMaxChannels);
    if (heads.empty()) heads = PerLevel("attention_head_dim", count, kMaxChannels);
    const std::vector<double> texts = PerLevel("cross_attention_dim", count, kMaxChannels);
    text_ = texts.empty() ? 0 : texts.back();
    in_.Get("sample_size", net_.sample, 1, 100'000);
    in_.Get("in_channels", channels_in_, 1, kMaxChannels);
    in_.Get("use_linear_projection", linear_);
    std::int64_t added = 0;
    in_.Get("projection_class_embeddings_input_dim", added, 0, kMaxChannels);
    added_ = static_cast<double>(added);
    if (in_.error()) return {};
    std::ranges::reverse(up);
    std::vector<Level> levels(count);
    for (std::size_t i = 0; i < count; ++i) {
      levels[i].channels = channels[i];
      if (!layers.empty()) levels[i].layers = layers[i];
      if (!depths.empty()) levels[i].depth = depths[i];
      levels[i].heads = heads.empty() ? std::max(1.0, channels[i] / 8) : heads[i];
      levels[i].attends = down[i].contains("Attn");
      levels[i].attends_up = up[i].contains("Attn");
    }
    return levels;
  }

  // ---- the blocks, in the order in which they run ----

  void Way(const std::vector<Level>& levels) {
    const double first = levels.front().channels;
    embedding_ = 4 * first;
    net_.other_parameters =
        embedding_ * (first + embedding_) + (added_ > 0 ? embedding_ * (added_ + embedding_) : 0);
    double share = 1;
    double width = first;
    Convolution(static_cast<double>(channels_in_), first, share, true);
    for (std::size_t i = 0; i < levels.size(); ++i) {
      const Level& level = levels[i];
      for (double j = 0; j < level.layers; ++j) {
        Residual(width, level.channels, share, true);
        if (level.attends) Attention(level, share, true);
        width = level.channels;
      }
      if (i + 1 == levels.size()) break;
      Convolution(width, width, share, true);
      share /= 4;
    }
    const Level& middle = levels.back();
    Residual(width, width, share, false);
    Attention(middle, share, false);
    Residual(width, width, share, false);
    for (std::size_t i = levels.size(); i-- > 0;) {
      const Level& level = levels[i];
      const double above = i == 0 ? first : levels[i - 1].channels;
      for (double j = 0; j <= level.layers; ++j) {
        const double skipped = j == level.layers ? above : level.channels;
        Residual(width + skipped, level.channels, share, false);
        if (level.attends_up) Attention(level, share, false);
        width = level.channels;
      }
      if (i == 0) break;
      share *= 4;
      Convolution(width, width, share, false);
    }
    BlockKeeps last = {.wide = 2 * first, .again = false};
    last.kept = first;
    last.parameters = 9 * first * static_cast<double>(channels_in_);
    net_.list.blocks.push_back(last);
  }

  void Convolution(double in, double out, double share, bool early) {
    net_.list.blocks.push_back({.parameters = 9 * in * out,
                                .kept = share * in,
                                .widest = share * (in + out),
                                .again = false,
                                .early = early});
  }

  // A residual block: two norms, each followed by an activation and a convolution, and a shortcut.
  void Residual(double in, double out, double share, bool early) {
    const bool narrows = in != out;
    net_.list.blocks.push_back(
        {.parameters = 9 * in * out + 9 * out * out + embedding_ * out + (narrows ? in * out : 0),
         .input = share * in,
         .wide = share * 2 * (in + out),
         .kept = share * (in + out),
         .cast = share * (narrows ? in : 0),
         .widest = share * (in + out),
         .early = early});
  }

  // An attention block: a norm and a projection, `depth` transformer blocks, and another
  // projection. Each transformer block has self-attention, attention to the text, and a gated
  // feed-forward part that is four times as wide.
  void Attention(const Level& level, double share, bool early) {
    const double width = level.channels;
    const double text = text_;
    BlockKeeps around = {
        .parameters = 2 * width * width, .wide = share * width, .again = false, .early = early};
    (linear_ ? around.read : around.kept) = share * 2 * width;
    if (text == 0) {  // a bare attention layer
      around = {.parameters = 4 * width * width,
                .input = share * width,
                .wide = share * width,
                .read = share * width,
                .kept = share * 4 * width,
                .matrix = share * share * level.heads,
                .early = early};
      net_.list.blocks.push_back(around);
      Adapt(width, width, share, share, 1);
      return;
    }
    net_.list.blocks.push_back(around);
    const double feed = 4 * width;
    for (double i = 0; i < level.depth; ++i) {
      net_.list.blocks.push_back(
          {.parameters = 6 * width * width + 2 * text * width + 3 * feed * width,
           .input = share * width,
           .wide = share * 3 * width,
           .read = share * (3 * width + feed),
           .kept = share * (3 * width + width + 2 * width + 3 * feed),
           .matrix = share * share * level.heads,
           .made = share * 3 * feed,
           .early = early});
    }
    Adapt(width, width, share, share, level.depth);
    Adapt(width, text, share, 0, level.depth);  // the text tokens are too few to count
  }

  // Adds the adapters of `count` attention layers, each `width` wide. For each token of the model,
  // keys and values are computed from `tokens` vectors of width `read`.
  void Adapt(double width, double read, double share, double tokens, double count) {
    const auto add = [&](AdaptedMatrices& matrices, double in, double per_token) {
      matrices.inputs += count * per_token * in;
      matrices.widths += count * (in + width);
    };
    add(net_.list.query, width, share);
    add(net_.list.key, read, tokens);
    add(net_.list.value, read, tokens);
    add(net_.list.output, width, share);
  }

  base::JsonReader& in_;
  UNet net_;
  double embedding_ = 0;  // width of the time embedding
  double added_ = 0;
  double text_ = 0;  // width of the text tokens; 0: no text input
  std::int64_t channels_in_ = 4;
  bool linear_ = false;
};

}  // namespace

BlockList ReadMamba(base::JsonReader& in, std::int64_t layers, std::int64_t hidden, bool second) {
  std::int64_t states = second ? 128 : 16;
  std::int64_t kernel = 4;
  double grows = 2;
  in.Get("state_size", states, 1, kMaxMambaChannels);
  in.Get("conv_kernel", kernel, 1, 1'000);
  in.Get("expand", grows, 0.01, 1'000);
  std::int64_t inner = std::llround(grows * static_cast<double>(hidden));
  in.Get("intermediate_size", inner, 1, kMaxMambaChannels);
  const auto width = static_cast<double>(hidden);
  const auto wide = static_cast<double>(inner);
  const auto state = static_cast<double>(states);
  double projected = 2 * wide;  // output width of the input projection
  double more = 0;              // parameters of the selective scan
  if (second) {
    std::int64_t heads = std::max<std::int64_t>(1, inner / 64);
    std::int64_t groups = 8;
    in.Get("num_heads", heads, 1, kMaxMambaChannels);
    in.Get("n_groups", groups, 1, kMaxMambaChannels);
    projected += 2 * static_cast<double>(groups) * state + static_cast<double>(heads);
  } else {
    std::int64_t rank = (hidden + 15) / 16;
    const base::Json* told = in.Raw("time_step_rank");
    if (told != nullptr && told->is_number()) in.Get("time_step_rank", rank, 1, kMaxMambaChannels);
    const auto narrow = static_cast<double>(rank);
    more = wide * (narrow + 2 * state) + narrow * wide + wide * state;
  }
  const BlockKeeps block = {
      .parameters = width * projected + wide * width + static_cast<double>(kernel) * wide + more,
      .input = width,
      .wide = 2 * width,  // the norm's input and its normalised copy
      .read = width,
      .kept = projected + wide,
      .without_kernels = wide * (kScanBytes * state + 4 * kLoopElements),
      .without_kernels_16bit =
          wide * ((kScanBytes + kScanCopyBytes) * state + 2 * kLoopElements + 4),
      // The recomputed outputs of the convolution and of the time steps, their gradients, and the
      // gradients of `kept`.
      .made = 6 * wide};
  BlockList list;
  list.blocks.assign(static_cast<std::size_t>(layers), block);
  return list;
}

UNet ReadUNet(base::JsonReader& in) {
  return Builder(in).Build();
}

}  // namespace carma::estimate
