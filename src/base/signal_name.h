// Signal names as they appear in options and the API: "USR1".
#pragma once

#include <optional>
#include <string_view>

namespace carma::base {

// Parses a signal name (with or without SIG, in any case) or number, and returns the number. Empty
// if no such signal can be sent.
std::optional<int> SignalNumber(std::string_view text);
// True if the text is a signal name in its stored form, such as "USR1" or "TERM".
bool IsSignalName(std::string_view text);
// True if the text names a signal other than KILL and STOP, which programs cannot handle.
bool IsHandledSignal(std::string_view text);

}  // namespace carma::base
