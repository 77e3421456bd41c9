// The files of the web page. They are compiled into the program, so nothing is installed or loaded
// from elsewhere.
#pragma once

#include <string>
#include <string_view>

namespace carma::page {

struct File {
  std::string_view name;  // "main.js"
  std::string_view content_type;
  std::string_view text;
  std::string gzip;  // the text, compressed
  std::string etag;  // changes with the text
};

inline constexpr std::string_view kIndex = "index.html";

// The page may only load from this server. It has no inline scripts or styles, and other sites
// cannot put it into a frame.
inline constexpr std::string_view kPagePolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
// A report has inline styles and no scripts.
inline constexpr std::string_view kReportPolicy =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'";

// Returns null for an unknown name. Files are compressed at the first call.
const File* Find(std::string_view name);

}  // namespace carma::page
