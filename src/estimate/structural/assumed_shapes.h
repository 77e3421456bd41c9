// Shapes for a printed module tree, which has none.
#pragma once

#include <cstdint>
#include <optional>

#include "model/layers.h"

namespace carma::estimate {

// Text length assumed for a list without shapes, unless the model only accepts shorter texts.
inline constexpr int kAssumedTokens = 512;

// The longest text that the model accepts, in tokens: the number of entries in its table of learned
// positions. Empty if it has no such table with a recognised name.
std::optional<std::int64_t> LongestText(const model::LayerList& list);
std::int64_t AssumedTokens(const model::LayerList& list);
// Whether the model accepts no text longer than the assumed one.
bool AssumesTheLongest(const model::LayerList& list);

// The same model with shapes [batch, AssumedTokens, width], where the widths are those of its
// linear layers, norms and tables. A tree lists modules as they were declared; an activation that
// is listed after two linear layers is put between them. A list with other layers stays without
// shapes.
model::LayerList WithAssumedTokens(const model::LayerList& list);

// Whether no row has an output shape.
bool LacksShapes(const model::LayerList& list);

}  // namespace carma::estimate
