// Assumes output shapes for a model whose summary is a printed module tree, because such a tree
// contains none.
#pragma once

#include <cstdint>
#include <optional>

#include "model/layers.h"

namespace carma::estimate {

// The text length assumed for a list without shapes, unless the model accepts only shorter texts.
inline constexpr int kAssumedTokens = 512;

// The longest text that the model accepts, in tokens: the number of entries in its table of learned
// positions. Empty if there is no table with a recognised name.
std::optional<std::int64_t> LongestText(const model::LayerList& list);
std::int64_t AssumedTokens(const model::LayerList& list);
// Returns true if the assumed text length is the longest that the model accepts.
bool AssumesTheLongest(const model::LayerList& list);

// A copy of the model with assumed shapes [batch, AssumedTokens, width]. The widths come from the
// model's linear layers, norms and tables. A module tree lists modules in order of declaration, so
// an activation listed after two linear layers is moved between them. A list with convolutions or
// recurrent layers is returned unchanged, without shapes.
model::LayerList WithAssumedTokens(const model::LayerList& list);

// Returns true if no row has an output shape.
bool LacksShapes(const model::LayerList& list);

}  // namespace carma::estimate
