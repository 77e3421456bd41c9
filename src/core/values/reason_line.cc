#include "core/values/reason_line.h"

#include <fmt/format.h>

#include "base/text.h"

namespace carma::core {
namespace {

constexpr std::string_view kEndOfName = ": ";
constexpr std::size_t kMaxText = 500;

}  // namespace

std::string ReasonLine(const Reason& reason) {
  const std::string_view name = ReasonName(reason.code);
  const std::string text = base::Printable(*reason.text, kMaxText);
  return fmt::format("{}{}{}", name, name.empty() || text.empty() ? "" : kEndOfName, text);
}

std::string CanNeverRun(std::string_view name, std::string_view reason) {
  std::string out(reason.substr(0, reason.size() - (reason.ends_with('.') ? 1 : 0)));
  const bool word = out.size() > 1 && out[1] >= 'a' && out[1] <= 'z';
  if (word && out[0] >= 'A' && out[0] <= 'Z') out[0] = static_cast<char>(out[0] - 'A' + 'a');
  return fmt::format("task '{}' can never run here: {}", base::Printable(name, 60), out);
}

ReasonCode ReasonOfLine(std::string_view line) {
  const auto code = base::FromWord<ReasonCode>(line.substr(0, line.find(kEndOfName)));
  return code.value_or(ReasonCode::kNone);
}

}  // namespace carma::core
