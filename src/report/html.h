// Reports as one HTML file: tables and figures, nothing to load, no scripts; for the screen (light
// and dark) and for paper (A4 landscape).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "report/clock.h"
#include "report/report.h"

namespace carma::report {

// A page with the style of reports: the title as its heading, then the body, which is HTML.
std::string HtmlPage(std::string_view title, std::string_view body);

// What the GPUs of a record did from its beginning to its end; of its tasks what was promised to
// them is shown.
std::string GpusHtml(const RunRecord& run, std::string_view title, Clock clock);

// The first case is what the others are compared with. The same reports give the same bytes. Size:
// at most about 2 MB per drawn run, however long the run was. clock: of a run that happened at its
// times; where it is empty, or several are drawn side by side, axes begin at 0.
std::string Html(std::span<const Report> reports, std::string_view title,
                 const std::optional<Clock>& clock = {});

}  // namespace carma::report
