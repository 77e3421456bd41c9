// What `carma estimate` tells of a task beside its memory: how it computes, and how much longer it
// takes beside others.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "api/views.h"
#include "base/json.h"

namespace carma::cli {

// Lines with their ends: SM activity alone and who told it, one iteration, and the predicted
// slowdown beside a task like itself and beside neighbours of these activities (none: left out).
// grain: of the model that is asked about (core/profile.h), if known.
std::string ActivityText(const api::KnowledgeView& known, std::optional<double> grain,
                         std::span<const double> beside);
// docs/use/api.md.
base::Json ActivityJson(const api::KnowledgeView& known, std::optional<double> grain,
                        std::span<const double> beside);

}  // namespace carma::cli
