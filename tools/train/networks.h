// The networks of estimate/gpumemnet_network.h as libtorch trains them, with the same computation
// and the same parameter names.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "estimate/gpumemnet_network.h"

namespace carma::train {

// Several examples side by side. Each network reads only what it needs.
struct Batch {
  torch::Tensor aggregates;  // [examples, aggregates], standardised
  // [examples, longest, types + sizes], with zeros after shorter sequences
  torch::Tensor layers;
  torch::Tensor ln_repeats;  // [examples, longest + 1]: 0 for the aggregates; very small: no layer
};

class Member : public torch::nn::Module {
 public:
  virtual torch::Tensor Logits(const Batch& batch) = 0;  // [examples, classes]
};

// Creates an MLP with `hidden` hidden layers of `width` units each.
std::shared_ptr<Member> MakeMlp(std::int64_t hidden, std::int64_t width, std::int64_t classes);

struct EncoderShape {
  std::int64_t width = 32;
  std::int64_t heads = 2;
  std::int64_t blocks = 2;
  std::int64_t feedforward = 64;
  std::int64_t hidden = 64;  // of the classifier after the encoder
};
std::shared_ptr<Member> MakeEncoder(const EncoderShape& shape, std::int64_t classes);

}  // namespace carma::train
