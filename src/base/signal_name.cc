#include "base/signal_name.h"

#include <cstdint>
#include <string>

#include "base/text.h"

namespace carma::base {

std::optional<int> SignalNumber(std::string_view text) {
  const std::optional<std::int64_t> given = ParseInt(text);
  if (given && *given > 0 && *given < 32) return static_cast<int>(*given);
  std::string name = ToLower(text);
  if (name.starts_with("sig")) name.erase(0, 3);
  for (int number = 1; number < 32; ++number) {
    const char* known = ::sigabbrev_np(number);
    if (known != nullptr && name == ToLower(known)) return number;
  }
  return std::nullopt;
}

bool IsSignalName(std::string_view text) {
  const std::optional<int> number = SignalNumber(text);
  return number && text == ::sigabbrev_np(*number);
}

bool IsHandledSignal(std::string_view text) {
  return IsSignalName(text) && text != "KILL" && text != "STOP";
}

}  // namespace carma::base
