// Shows the part of `carma estimate` beyond memory: a task's GPU activity, and its slowdown beside
// other tasks.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "api/knowledge_view.h"
#include "base/json.h"
#include "estimate/activity_guess.h"

namespace carma::cli {

// What the task's model summary shows about its GPU activity.
struct ModelWork {
  std::optional<double> grain;                   // of its kernels (core/profile.h)
  std::optional<estimate::ActivityGuess> guess;  // for a task that has not run
};
// Lines of text: SM activity alone and its source, the time of an iteration, and the predicted
// slowdown beside an equal task. Also the slowdown beside neighbours of the given activities, if
// there are any.
std::string ActivityText(const api::KnowledgeView& known, const ModelWork& model,
                         std::span<const double> beside);
// The same facts as JSON (docs/use/api.md).
base::Json ActivityJson(const api::KnowledgeView& known, const ModelWork& model,
                        std::span<const double> beside);

}  // namespace carma::cli
