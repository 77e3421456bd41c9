// A reason as the history tells it, in one line: "OutOfMemory: the sentence", or either of them
// alone.
#pragma once

#include <string>
#include <string_view>

#include "core/values/task.h"

namespace carma::core {

// Of bounded length.
std::string ReasonLine(const Reason& reason);
// "task 'train' can never run here: it asks …": the reason begins small, and has no full stop.
std::string CanNeverRun(std::string_view name, std::string_view reason);
// The code that such a line begins with; kNone: it has none.
ReasonCode ReasonOfLine(std::string_view line);

}  // namespace carma::core
