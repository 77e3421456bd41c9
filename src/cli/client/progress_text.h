// A task's progress in words.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "task/progress/report.h"

namespace carma::cli {

// "42% 1:10:00": done and left of the run. If only a loop is known: "42% of epoch 3", "42% of
// steps", "1200 steps". "-" for none.
std::string ProgressBrief(const std::optional<task::ProgressReport>& progress, std::int64_t now_ms);
// "42.0% done, about 1:10:00 left; training, epoch 3, step 120 of 1000, 2.1 per second, loss 0.41".
std::string ProgressSentence(const task::ProgressReport& progress, std::int64_t now_ms);

}  // namespace carma::cli
