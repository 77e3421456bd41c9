// Summaries that print blocks as one row: what is inside is not told, its totals may be.
#pragma once

#include <optional>

#include "estimate/structural/kept.h"
#include "model/layers.h"

namespace carma::estimate {

// What a model keeps most of whose layers are hidden (model::HidesMost), by the size of all outputs
// that stands below the table; what the visible rows tell besides (convolutions, tables, scores) is
// as they say. Empty: the size, or the batch it is of, is not told.
std::optional<Kept> KeptByTotals(const model::LayerList& list);

}  // namespace carma::estimate
