// Shapes for a printed module tree, which has none.
#pragma once

#include <cstdint>
#include <optional>

#include "model/layers.h"

namespace carma::estimate {

// Assumed length of a text where the list has no shapes, unless the model takes shorter ones only.
inline constexpr int kAssumedTokens = 512;

// Tokens of the longest text that the model can take: entries of its table of learned positions.
// Empty: it has none, or none that its name tells.
std::optional<std::int64_t> LongestText(const model::LayerList& list);
std::int64_t AssumedTokens(const model::LayerList& list);
// No text is longer than the assumed one.
bool AssumesTheLongest(const model::LayerList& list);

// The same model with shapes [batch, AssumedTokens, width], as the widths of its linear layers,
// norms and tables have it. A tree lists modules as they were declared; an activation that stands
// behind two linear layers is put between them. A list of other layers stays without shapes.
model::LayerList WithAssumedTokens(const model::LayerList& list);

// Whether no row says what it makes.
bool LacksShapes(const model::LayerList& list);

}  // namespace carma::estimate
