// Shows what `carma estimate` reports besides memory: a task's GPU activity, and its slowdown when
// it shares a GPU.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>

#include "api/knowledge_view.h"
#include "estimate/activity_guess.h"

namespace carma::cli {

// What the task's model summary shows about its GPU activity.
struct ModelWork {
  std::optional<double> grain;                   // see core/values/profile.h
  std::optional<estimate::ActivityGuess> guess;  // for a task that has not run
};
// Lists the task's SM activity when running alone, the source of that number, the time per
// iteration, and the predicted slowdown next to an identical task. If `beside` is not empty, adds
// the slowdown next to tasks with these activities.
std::string ActivityText(const api::KnowledgeView& known, const ModelWork& model,
                         std::span<const double> beside);
// The same facts as JSON (docs/use/api.md).
nlohmann::json ActivityJson(const api::KnowledgeView& known, const ModelWork& model,
                            std::span<const double> beside);

}  // namespace carma::cli
