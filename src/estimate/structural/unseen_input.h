// Infers the input of a row if the summary does not show it (torchsummary, some output of
// torchinfo).
#pragma once

#include "estimate/structural/layer_rule.h"
#include "estimate/structural/trail.h"
#include "model/layers.h"

namespace carma::estimate {

// torchsummary prints only outputs, with the batch size in place of their first dimension. So the
// size of a row's input is derived from its parameters (a 1x1 convolution with 64 weights per
// output reads 64 channels). Windows folded into the first dimension appear as fewer tokens than in
// the output of the row before. Each model needs its own object, which stores the windows.
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
