// Names of signals, as people and the API write them: "USR1".
#pragma once

#include <optional>
#include <string_view>

namespace carma::base {

// The number of a signal by its name, with or without SIG in front, in either case, or by its
// number; empty: none that a process may be sent.
std::optional<int> SignalNumber(std::string_view text);
// Whether this is a name as it is kept: "USR1", "TERM".
bool IsSignalName(std::string_view text);

}  // namespace carma::base
