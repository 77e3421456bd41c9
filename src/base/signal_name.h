// Names of signals as they appear in options and the API: "USR1".
#pragma once

#include <optional>
#include <string_view>

namespace carma::base {

// Returns the number of a signal that is given by its name (with or without SIG, in any case) or by
// its number. Empty if no such signal can be sent.
std::optional<int> SignalNumber(std::string_view text);
// Whether the text is a signal name in the form in which it is stored: "USR1", "TERM".
bool IsSignalName(std::string_view text);
// Whether the text is a signal name, and programs can handle the signal. KILL and STOP cannot be
// handled.
bool IsHandledSignal(std::string_view text);

}  // namespace carma::base
