// Names of signals as in options and the API: "USR1".
#pragma once

#include <optional>
#include <string_view>

namespace carma::base {

// The number of a signal by its name (with or without SIG, in upper or lower case) or number;
// empty: not a signal that can be sent.
std::optional<int> SignalNumber(std::string_view text);
// Whether this is a name in stored form: "USR1", "TERM".
bool IsSignalName(std::string_view text);
// The same, but not KILL or STOP, which no program can handle.
bool IsHandledSignal(std::string_view text);

}  // namespace carma::base
