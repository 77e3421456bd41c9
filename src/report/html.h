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

// The GPUs of a record from beginning to end, with the promises to its tasks.
std::string GpusHtml(const RunRecord& run, std::string_view title, Clock clock);

// The others are compared with the first case. The same reports give the same bytes. Size: at most
// about 2 MB per drawn run, however long the run was. clock: for a real run; if it is empty, or
// several runs are drawn, axes begin at 0.
std::string Html(std::span<const Report> reports, std::string_view title,
                 const std::optional<Clock>& clock = {});

}  // namespace carma::report
