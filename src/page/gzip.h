// Compresses text for browsers to about a quarter of its size.
#pragma once

#include <string>
#include <string_view>

namespace carma::page {

enum class Effort {
  kOnce,   // best: compressed once, sent often
  kEvery,  // fast: compressed every second
};

// Compresses to the gzip format (RFC 1952). Identical input produces identical output.
std::string Gzip(std::string_view text, Effort effort);

}  // namespace carma::page
