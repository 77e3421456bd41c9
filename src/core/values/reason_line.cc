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

ReasonCode ReasonOfLine(std::string_view line) {
  const auto code = base::FromWord<ReasonCode>(line.substr(0, line.find(kEndOfName)));
  return code.value_or(ReasonCode::kNone);
}

}  // namespace carma::core
