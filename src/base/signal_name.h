// Signal names as they appear in options and the API: "USR1".
#pragma once

#include <optional>
#include <string_view>

namespace carma::base {

// Parses a signal name (with or without SIG, in any case) or number, and returns the number. Empty
// if no such signal can be sent.
std::optional<int> SignalNumber(std::string_view text);
// Whether the text is a signal name as it is stored: "USR1", "TERM".
bool IsSignalName(std::string_view text);
// Whether the text is the name of a signal that programs can handle. KILL and STOP cannot be
// handled.
bool IsHandledSignal(std::string_view text);

}  // namespace carma::base
