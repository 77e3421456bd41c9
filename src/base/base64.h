// Base64 encoding (RFC 4648, with padding).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace carma::base {

std::string EncodeBase64(std::string_view bytes);
// Returns nothing if the text is not valid base64.
std::optional<std::string> DecodeBase64(std::string_view text);

}  // namespace carma::base
