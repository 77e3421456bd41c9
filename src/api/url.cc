#include "api/url.h"

#include <charconv>
#include <cstdint>
#include <optional>

#include "base/text.h"

namespace carma::api {
namespace {

std::unexpected<base::Error> BadTarget(std::string_view target, std::string_view what) {
  return Invalid("request target '{}': {}", base::Printable(target, 100), what);
}

std::optional<std::string> Unescape(std::string_view text, bool plus_is_blank) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '+' && plus_is_blank) c = ' ';
    if (c == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      std::uint8_t byte = 0;
      const char* const end = text.data() + i + 3;
      if (std::from_chars(end - 2, end, byte, 16).ptr != end) return std::nullopt;
      c = static_cast<char>(byte);
      i += 2;
    }
    // Rejects NUL, which would truncate paths and names in C interfaces.
    if (c == '\0') return std::nullopt;
    out.push_back(c);
  }
  return out;
}

}  // namespace

Result<Target> ParseTarget(std::string_view target) {
  if (target.empty() || target[0] != '/') return BadTarget(target, "expected an absolute path");
  const std::size_t question = target.find('?');
  Target parsed;
  auto path = Unescape(target.substr(0, question), false);
  if (!path) return BadTarget(target, "expected valid %XX escapes without NUL (%00)");
  parsed.path = std::move(*path);
  if (question == std::string_view::npos) return parsed;
  for (std::string_view pair : base::Split(target.substr(question + 1), '&')) {
    if (pair.empty()) continue;
    const std::size_t equals = pair.find('=');
    auto key = Unescape(pair.substr(0, equals), true);
    auto value = Unescape(
        equals == std::string_view::npos ? std::string_view() : pair.substr(equals + 1), true);
    if (!key || !value) return BadTarget(target, "expected valid %XX escapes without NUL (%00)");
    parsed.query.emplace_back(std::move(*key), std::move(*value));
  }
  return parsed;
}

std::string Escape(std::string_view text) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  for (char c : text) {
    if (kPlain.find(c) != std::string_view::npos) {
      out.push_back(c);
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out.push_back('%');
      out.push_back(kHex[byte >> 4]);
      out.push_back(kHex[byte & 15]);
    }
  }
  return out;
}

}  // namespace carma::api
