// Finds which row reads which tensor. This is the first of the three passes of CountKept (kept.h).
//
// A summary lists modules in the order they finish. A row reads the newest tensor if the size fits.
// Otherwise the row reads an earlier tensor (a branch, a shortcut) or the result of code between
// the modules, such as a sum or concatenation (docs/inside/estimators.md, "Code without a row").
// Where sizes are misleading, a named correction takes precedence (corrections.h).
#pragma once

#include "estimate/structural/rows.h"
#include "estimate/structural/trail.h"
#include "model/layers.h"

namespace carma::estimate {

struct Graph {
  Rows types;  // owns the rules that the rows point to
  std::vector<Row>& rows() { return types.rows; }
  const std::vector<Row>& rows() const { return types.rows; }
  Trail trail;                 // all tensors, and whether a backward pass needs them
  int last = Tensor::kNobody;  // the model's result
  bool leaves_only = true;     // no row is a block, so code in PyTorch's own layers has no rows
  bool collapsed = false;      // blocks are printed as one row
};

// The list must outlive the graph. A tensor is `kept` if a row holds it (keep_rules.h), or if code
// between the modules multiplied it by another tensor.
Graph MakeGraph(const model::LayerList& list);

}  // namespace carma::estimate
