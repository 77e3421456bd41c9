#include "estimate/mamba_config.h"

#include <algorithm>
#include <cmath>

namespace carma::estimate {
namespace {

constexpr std::int64_t kMaxChannels = 10'000'000;

// Bytes that Transformers' loop over the tokens keeps for each channel and state: in fp32 the
// decays, the steps times the input's matrix, and the state before each step. In 16 bits that state
// is also copied.
constexpr double kScanBytes = 3 * 4;
constexpr double kScanCopyBytes = 2;
// Further elements for each channel: input and result of the convolution's activation, the same of
// the steps, the sum that the gate multiplies, and the activated gate. In 16 bits, also a copy of
// the input in fp32.
constexpr double kLoopElements = 6;

}  // namespace

BlockList ReadMamba(base::JsonReader& in, std::int64_t layers, std::int64_t hidden, bool second) {
  std::int64_t states = second ? 128 : 16;
  std::int64_t kernel = 4;
  double grows = 2;
  in.Get("state_size", states, 1, kMaxChannels);
  in.Get("conv_kernel", kernel, 1, 1'000);
  in.Get("expand", grows, 0.01, 1'000);
  std::int64_t inner = std::llround(grows * static_cast<double>(hidden));
  in.Get("intermediate_size", inner, 1, kMaxChannels);
  const auto width = static_cast<double>(hidden);
  const auto wide = static_cast<double>(inner);
  const auto state = static_cast<double>(states);
  double projected = 2 * wide;  // by the input projection
  double more = 0;              // parameters of what depends on the input
  if (second) {
    std::int64_t heads = std::max<std::int64_t>(1, inner / 64);
    std::int64_t groups = 8;
    in.Get("num_heads", heads, 1, kMaxChannels);
    in.Get("n_groups", groups, 1, kMaxChannels);
    projected += 2 * static_cast<double>(groups) * state + static_cast<double>(heads);
  } else {
    std::int64_t rank = (hidden + 15) / 16;
    const base::Json* told = in.Raw("time_step_rank");
    if (told != nullptr && told->is_number()) in.Get("time_step_rank", rank, 1, kMaxChannels);
    const auto narrow = static_cast<double>(rank);
    more = wide * (narrow + 2 * state) + narrow * wide + wide * state;
  }
  const BlockKeeps block = {
      .parameters = width * projected + wide * width + static_cast<double>(kernel) * wide + more,
      .input = width,
      .wide = 2 * width,  // the norm's input and its quotient
      .read = width,
      .kept = projected + wide,
      .without_kernels = wide * (kScanBytes * state + 4 * kLoopElements),
      .without_kernels_16bit =
          wide * ((kScanBytes + kScanCopyBytes) * state + 2 * kLoopElements + 4),
      // The results of the convolution and the steps, computed again, with their gradients and
      // those of `kept`.
      .made = 6 * wide};
  BlockList list;
  list.blocks.assign(static_cast<std::size_t>(layers), block);
  return list;
}

}  // namespace carma::estimate
