// Infers what a row reads if the summary does not show it (torchsummary, some of torchinfo).
#pragma once

#include "estimate/structural/layer_rule.h"
#include "estimate/structural/trail.h"
#include "model/layers.h"

namespace carma::estimate {

// torchsummary prints only outputs, with the batch size in place of their first dimension. So the
// size of a row's input follows from its parameters (a 1x1 convolution with 64 weights per output
// reads 64 channels), and windows that were folded into the first dimension show up as fewer tokens
// than in the output of the row before. One object per model, because it remembers the windows.
class UnseenInput {
 public:
  struct Read {
    double elements = 0;  // per sample, windows counted
    double windows = 1;   // multiply the printed output by this
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
