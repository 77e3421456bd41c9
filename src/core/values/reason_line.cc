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

std::string AsClause(std::string_view sentence) {
  std::string out(sentence.substr(0, sentence.size() - (sentence.ends_with('.') ? 1 : 0)));
  const bool word = out.size() > 1 && out[1] >= 'a' && out[1] <= 'z';
  if (word && out[0] >= 'A' && out[0] <= 'Z') out[0] = static_cast<char>(out[0] - 'A' + 'a');
  return out;
}

std::string AsSentence(std::string_view clause) {
  std::string out = std::string(clause) + ".";
  if (out[0] >= 'a' && out[0] <= 'z') out[0] = static_cast<char>(out[0] - 'a' + 'A');
  return out;
}

std::string CanNeverRun(std::string_view name, std::string_view reason) {
  return fmt::format("task '{}' can never run here: {}", base::Printable(name, 60),
                     AsClause(reason));
}

ReasonCode ReasonOfLine(std::string_view line) {
  const auto code = base::FromWord<ReasonCode>(line.substr(0, line.find(kEndOfName)));
  return code.value_or(ReasonCode::kNone);
}

}  // namespace carma::core
