// Formats one task as text: all facts, why it is waiting, and what happened to it.
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

// All facts about the task, with predicted, promised and measured memory listed separately.
std::string TaskFacts(const api::TaskView& task, std::int64_t now_ms);
// The explanation in sentences; for a waiting task, with one sentence per GPU.
std::string Explanation(const api::ExplainView& explain);
// Writes one sentence per verdict, for all GPUs that share it, even if their memory usage differs.
std::string VerdictsText(const std::vector<api::VerdictView>& verdicts);
// gpus: needed to show the GPUs in events by index.
std::string EventLines(const std::vector<api::EventView>& events,
                       const std::vector<api::GpuView>& gpus, const Screen& screen = {});

}  // namespace carma::cli
