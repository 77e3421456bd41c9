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

std::string PublicText(ReasonCode code, std::string_view text) {
  const bool ended = code == ReasonCode::kNonZeroExit || code == ReasonCode::kSignal ||
                     code == ReasonCode::kGpuFault;
  if (const std::size_t at = text.find(kEndOfName); ended && at != std::string_view::npos)
    return std::string(text.substr(0, at)) + ".";
  const std::size_t from = text.find(" (");
  if (code != ReasonCode::kOutOfMemory || from == std::string_view::npos) return std::string(text);
  // The line that the task wrote may itself contain parentheses, and a long text may have been cut
  // within that line.
  const std::size_t retry = text.rfind("). Retry ");
  const bool whole = retry != std::string_view::npos && retry > from;
  return std::string(text.substr(0, from)).append(whole ? text.substr(retry + 1) : ".");
}

std::string PublicLine(std::string_view line) {
  const ReasonCode code = ReasonOfLine(line);
  const std::size_t begin = line.find(kEndOfName);
  if (code == ReasonCode::kNone || begin == std::string_view::npos) return std::string(line);
  const std::size_t at = begin + kEndOfName.size();
  return std::string(line.substr(0, at)) + PublicText(code, line.substr(at));
}

std::string PublicDetail(std::string_view detail) {
  if (!detail.starts_with("exit code ") && !detail.starts_with("killed by signal ")) return "";
  return std::string(detail.substr(0, detail.find_first_of(":;")));
}

}  // namespace carma::core
