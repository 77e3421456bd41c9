// Bytes as text (RFC 4648, with padding).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace carma::base {

std::string EncodeBase64(std::string_view bytes);
// Empty: not a text of this form.
std::optional<std::string> DecodeBase64(std::string_view text);

}  // namespace carma::base
