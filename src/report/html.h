// Writes reports as one HTML file with tables and figures, for the screen (light and dark) and for
// paper (A4 landscape). It has no scripts and loads nothing.
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

// A page about a record's GPUs from beginning to end, with the memory promised to its tasks.
std::string GpusHtml(const RunRecord& run, std::string_view title, Clock clock);

// Compares all cases with the first. The same reports give the same bytes. The page has at most
// about 2 MB per drawn run, however long the run. clock: for a real run; if it is empty or several
// runs are drawn, axes begin at 0.
std::string Html(std::span<const Report> reports, std::string_view title,
                 const std::optional<Clock>& clock = {});

}  // namespace carma::report
