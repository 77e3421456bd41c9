// One task as text for people: all facts, why it waits, what happened.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/explain_view.h"
#include "api/gpu_view.h"
#include "api/status_view.h"
#include "api/task_view.h"
#include "cli/terminal.h"

namespace carma::cli {

// All facts, with predicted, promised and measured memory separately.
std::string TaskFacts(const api::TaskView& task, std::int64_t now_ms);
// The explanation in sentences, one per GPU for a waiting task.
std::string Explanation(const api::ExplainView& explain);
// gpus: for showing GPUs of events by number.
std::string EventLines(const std::vector<api::EventView>& events,
                       const std::vector<api::GpuView>& gpus, const Screen& screen = {});

}  // namespace carma::cli
