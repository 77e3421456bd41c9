// What autograd keeps for the backward pass, reckoned from a list of layers: the rules of
// docs/estimators.md, section "Kept bytes".
#pragma once

#include <string>
#include <vector>

#include "model/layers.h"

namespace carma::estimate {

// Bytes, at four bytes per element; "per sample" grows with the batch.
struct Kept {
  double per_sample = 0;
  double constant = 0;     // independent of the batch
  double masks = 0;        // part of per_sample that is bytes at every precision
  double guessed = 0;      // part of per_sample that code between the modules must have made
  double widest_conv = 0;  // per sample: input and output of the largest dense convolution
  double largest = 0;      // per sample: the largest single tensor
  double logits = 0;       // per sample: a language model's scores, as the loss keeps them
  bool has_conv = false;
  bool has_embedding = false;
  // Attention by separate matrix products was seen: its bytes are the least certain ones.
  bool unfused_attention = false;
  std::vector<double> weights;  // bytes of every layer's own parameters, falling
};

// list: with output shapes; input shapes make it more accurate. A list without any shape counts as
// a model of tokens (assumed_shapes.h), if its layers tell their widths. per_sample is 0 where
// there is nothing to go by.
Kept CountKept(const model::LayerList& list);

}  // namespace carma::estimate
