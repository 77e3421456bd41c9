// What `carma estimate` tells of a task beside its memory: how it computes, and how much longer it
// takes beside others.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "api/views.h"
#include "base/json.h"
#include "estimate/activity_guess.h"

namespace carma::cli {

// Lines with their ends: SM activity alone and who told it, one iteration, and the predicted
// slowdown beside a task like itself and beside neighbours of these activities (none: left out).
// model: what the summary tells of how the task computes.
struct ModelWork {
  std::optional<double> grain;                   // of its kernels (core/profile.h)
  std::optional<estimate::ActivityGuess> guess;  // of a task that has not run
};
std::string ActivityText(const api::KnowledgeView& known, const ModelWork& model,
                         std::span<const double> beside);
// docs/use/api.md.
base::Json ActivityJson(const api::KnowledgeView& known, const ModelWork& model,
                        std::span<const double> beside);

}  // namespace carma::cli
