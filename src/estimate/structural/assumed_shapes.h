// Shapes for a printed module tree, which has none.
#pragma once

#include "model/layers.h"

namespace carma::estimate {

// Assumed length of a text where the list has no shapes.
inline constexpr int kAssumedTokens = 512;

// The same model with shapes [batch, kAssumedTokens, width], as the widths of its linear layers,
// norms and tables have it. A tree lists modules as they were declared; an activation that stands
// behind two linear layers is put between them. A list of other layers stays without shapes.
model::LayerList WithAssumedTokens(const model::LayerList& list);

// Whether no row says what it makes.
bool LacksShapes(const model::LayerList& list);

}  // namespace carma::estimate
