// One task as people read it: all facts, why it waits, what happened.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/views.h"
#include "cli/terminal.h"

namespace carma::cli {

// Sentences that differ by the number of the GPU alone are one, with the others behind it.
std::string SaidOnce(std::string_view sentences);

// Every fact, predicted, promised and measured memory apart.
std::string TaskFacts(const api::TaskView& task, std::int64_t now_ms);
// In sentences, one per GPU for a waiting task.
std::string Explanation(const api::ExplainView& explain);
// gpus: to name those of events by their numbers.
std::string EventLines(const std::vector<api::EventView>& events,
                       const std::vector<api::GpuView>& gpus, const Screen& screen = {});

}  // namespace carma::cli
