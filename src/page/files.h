// The files of the web page, which are part of the program: nothing to install, nothing to load
// from anywhere else.
#pragma once

#include <string>
#include <string_view>

namespace carma::page {

struct File {
  std::string_view name;  // "main.js"
  std::string_view content_type;
  std::string_view text;
  std::string gzip;  // the same, packed
  std::string etag;  // of this text: another text has another
};

inline constexpr std::string_view kIndex = "index.html";

// What page and report may do: show what this server sends, nothing else. No script and no style
// stands in the page itself, no other site may put it into a frame.
inline constexpr std::string_view kPagePolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
// A report has its style in itself and no script.
inline constexpr std::string_view kReportPolicy =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'";

// Null: there is none of that name. They are packed at the first call.
const File* Find(std::string_view name);

}  // namespace carma::page
