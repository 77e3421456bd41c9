// The files of the web page. They are compiled into the program, so there is nothing to install and
// nothing is loaded from another server.
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

// The page may load files only from this server. It has no inline scripts or styles, and other
// sites cannot embed it in a frame.
inline constexpr std::string_view kPagePolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
// A report has inline styles but no scripts.
inline constexpr std::string_view kReportPolicy =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'";

// Returns null for an unknown name. The files are compressed on the first call.
const File* Find(std::string_view name);

}  // namespace carma::page
