// Compresses text for browsers to about a quarter.
#pragma once

#include <string>
#include <string_view>

namespace carma::page {

enum class Effort {
  kOnce,   // compressed once, sent often
  kEvery,  // compressed every second
};

// Gzip format (RFC 1952). The same text gives the same bytes.
std::string Gzip(std::string_view text, Effort effort);

}  // namespace carma::page
