// Computes what autograd keeps for the backward pass of a list of layers, in three passes:
//   graph.h        finds which row reads which tensor, and which tensors are kept
//   keep_rules.h   adds bytes by kind of layer, from a table of facts about PyTorch
//   corrections.h  adds the bytes that the other two miss; each entry names a model that needs it
// docs/inside/estimators.md, section "Kept bytes", explains how to extend the tables.
#pragma once

#include <vector>

#include "model/layers.h"

namespace carma::estimate {

inline constexpr double kElementBytes = 4;

// Amounts are in bytes, with four bytes per element. "Per sample" amounts grow with the batch.
struct Kept {
  double per_sample = 0;
  double operations = 0;      // rows without children; also the number of tensors
  double constant = 0;        // independent of the batch
  double masks = 0;           // part of per_sample with one byte per element at any precision
  double wide = 0;            // part of per_sample that autocast leaves in fp32: LayerNorm, softmax
  double widest_conv = 0;     // per sample: input and output of the largest dense convolution
  double largest = 0;         // per sample: the largest single tensor
  double largest_inside = 0;  // per sample: the largest tensor except a language model's logits
  double logits = 0;          // per sample: a language model's logits, as the loss keeps them
  bool has_conv = false;
  bool has_embedding = false;
  // True if attention consists of separate matrix products, whose kept bytes are the least certain.
  bool unfused_attention = false;
  // Bytes of the trained parameters of each layer, in descending order.
  std::vector<double> weights;

  void AddElements(double elements) { per_sample += kElementBytes * elements; }
};

// list: must have output shapes; input shapes make the result more accurate. A list without any
// shapes is treated as a token model (assumed_shapes.h) if its layers give their widths. per_sample
// is 0 if nothing is known.
Kept CountKept(const model::LayerList& list);

}  // namespace carma::estimate
