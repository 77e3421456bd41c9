// Names of signals as in options and the API: "USR1".
#pragma once

#include <optional>
#include <string_view>

namespace carma::base {

// Returns the number of a signal, given by its name (with or without SIG, in any case) or by its
// number; empty if no such signal can be sent.
std::optional<int> SignalNumber(std::string_view text);
// Whether the text is a signal name in stored form: "USR1", "TERM".
bool IsSignalName(std::string_view text);
// Whether it is also a signal that a program can handle, so not KILL or STOP.
bool IsHandledSignal(std::string_view text);

}  // namespace carma::base
