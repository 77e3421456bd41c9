// A reason as one line of the history: "OutOfMemory: the sentence", or either part alone.
#pragma once

#include <string>
#include <string_view>

#include "core/values/reason.h"

namespace carma::core {

// The line of a reason, of bounded length.
std::string ReasonLine(const Reason& reason);
// A reason's sentence as the end of another: it begins in lower case and has no full stop.
std::string AsClause(std::string_view sentence);
std::string AsSentence(std::string_view clause);  // the reverse
// "task 'train' can never run here: it asks …"
std::string CanNeverRun(std::string_view name, std::string_view reason);
// The code at the beginning of such a line; kNone: none.
ReasonCode ReasonOfLine(std::string_view line);
// The part that everybody may read of a reason's sentence, of such a line and of ExitInfo::detail:
// what the task wrote to its error stream is left out.
std::string PublicText(ReasonCode code, std::string_view text);
std::string PublicLine(std::string_view line);
std::string PublicDetail(std::string_view detail);

}  // namespace carma::core
