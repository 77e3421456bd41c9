// Counts kept bytes for summaries that print blocks as one row, so that their contents are hidden.
#pragma once

#include <optional>

#include "estimate/structural/kept.h"
#include "model/layers.h"

namespace carma::estimate {

// The kept bytes of a model with mostly hidden layers (model::HidesMost), derived from the total
// output size below the table. Visible rows (convolutions, tables, scores) count as usual. Empty if
// the size or its batch is unknown.
std::optional<Kept> KeptByTotals(const model::LayerList& list);

}  // namespace carma::estimate
