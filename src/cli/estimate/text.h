// Shows estimates as text and JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/knowledge_view.h"
#include "base/result.h"
#include "cli/estimate/activity.h"
#include "cli/terminal.h"
#include "estimate/calibration.h"
#include "estimate/estimator.h"
#include "model/layers.h"
#include "task/describe/training.h"

namespace carma::cli {

// One estimator's result for the task.
struct Opinion {
  std::string estimator;
  Result<estimate::Answer> answer;
};

// Everything to show. The pointers are not owned.
struct EstimateSheet {
  std::string file;
  const model::LayerList* layers = nullptr;  // null if there is no readable summary
  const estimate::Question* question = nullptr;
  std::optional<std::string> optimizer, precision;  // as in the question; empty if not stated
  std::vector<task::TrainingWord> training;         // known facts about a transformer's training
  std::vector<std::string> remarks;             // about the question: unknown words, no daemon …
  std::optional<api::KnowledgeView> knowledge;  // from the daemon; empty if there was no answer
  estimate::Site site;
  std::vector<Opinion> opinions;
  ModelWork work;              // from the model summary
  std::vector<double> beside;  // SM activities of neighbours to show
};

// A table of all estimates. With `explain`, also the model, the parts of each number, the warnings
// and the calibration.
std::string EstimateText(const EstimateSheet& sheet, bool explain, const Screen& screen);
// One JSON object; see docs/use/api.md.
std::string EstimateJson(const EstimateSheet& sheet);

}  // namespace carma::cli
