#include "base/field_check.h"

#include <fmt/format.h>

namespace carma::base {

void FieldChecker::Text(const char* name, std::string_view text, const FieldRule& rule) {
  if (rule.fits != nullptr && (text.size() > rule.max_bytes || !rule.fits(text)))
    Complain(name, rule.expected);
}

void FieldChecker::Whole(const char* name, std::int64_t number, const FieldRule& rule) {
  if (rule.unless_empty && number == 0) return;
  if (number >= rule.low && number <= rule.high) return;
  Complain(name, rule.expected.empty() ? fmt::format("a number from {} to {}", rule.low, rule.high)
                                       : std::string(rule.expected));
}

void FieldChecker::Complain(const char* name, std::string_view expected) {
  if (!mistake_) mistake_ = {ErrorCode::kInvalid, fmt::format("{}: expected {}", name, expected)};
}

}  // namespace carma::base
