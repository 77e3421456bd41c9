// Formats a reason as one line of the history: "OutOfMemory: the sentence", or only the code or
// only the sentence.
#pragma once

#include <string>
#include <string_view>

#include "core/values/reason.h"

namespace carma::core {

// The reason as one line of limited length.
std::string ReasonLine(const Reason& reason);
// Changes a reason's sentence so that it can end another one: lower-case first letter, no period.
std::string AsClause(std::string_view sentence);
std::string AsSentence(std::string_view clause);  // the reverse
// "task 'train' can never run here: it asks …"
std::string CanNeverRun(std::string_view name, std::string_view reason);
// The reason code at the beginning of a line produced by ReasonLine. kNone if the line has none.
ReasonCode ReasonOfLine(std::string_view line);
// Remove what the task wrote to its error stream, so that the result can be shown to anyone.
// PublicText takes a reason's sentence, PublicLine a line from ReasonLine, and PublicDetail an
// ExitInfo::detail.
std::string PublicText(ReasonCode code, std::string_view text);
std::string PublicLine(std::string_view line);
std::string PublicDetail(std::string_view detail);

}  // namespace carma::core
