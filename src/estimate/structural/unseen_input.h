// Infers a row's input if the summary does not show it (torchsummary, some torchinfo output).
#pragma once

#include "estimate/structural/layer_rule.h"
#include "estimate/structural/trail.h"
#include "model/layers.h"

namespace carma::estimate {

// Derives the size of a row's input from the row's parameters, because torchsummary prints only
// output shapes. For example, a 1x1 convolution with 64 weights per output reads 64 channels. Some
// models fold attention windows into the batch dimension, so their rows seem to have fewer tokens.
// The object remembers the number of windows, so each model needs its own object.
class UnseenInput {
 public:
  struct Read {
    double elements = 0;  // per sample, in all windows
    double windows = 1;   // factor for the printed output
  };
  // current: the last tensor; null before the first row.
  Read Of(const model::Layer& layer, const LayerRule& rule, const Tensor* current,
          const Trail& trail);

 private:
  Read OfLinear(const model::Layer& layer, const Tensor* current);
  Read OfElementwise(const model::Layer& layer, const Tensor& current) const;
  double WindowsOf(const model::Shape& out) const;
  void EnterWindows(const Tensor& current, double width, double tokens);

  double window_tokens_ = 0;
  double windows_ = 1;
};

}  // namespace carma::estimate
