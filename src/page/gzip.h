// Text as browsers take it in a quarter of the bytes.
#pragma once

#include <string>
#include <string_view>

namespace carma::page {

enum class Effort {
  kOnce,   // for what is packed once and sent often
  kEvery,  // for what is packed every second
};

// RFC 1952. The same text gives the same bytes.
std::string Gzip(std::string_view text, Effort effort);

}  // namespace carma::page
