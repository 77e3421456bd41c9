// Writes reports as one HTML file with tables and figures, for the screen (light and dark) and for
// paper (A4 landscape). The file contains no scripts and loads no other files.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/values/ids.h"
#include "report/report.h"

namespace carma::report {

// Offset from UTC of the clock on the time axes.
struct Clock {
  core::Duration ahead_of_utc{};
};

// "2026-11-23 14:02:05".
std::string ClockText(core::Time when, Clock clock);

// A page that looks like a report, with a heading and a body. title: plain text. body: HTML.
std::string HtmlPage(std::string_view title, std::string_view body);

// A page that shows a record's GPUs over the whole run, with the memory promised to its tasks.
std::string GpusHtml(const RunRecord& run, std::string_view title, Clock clock);

// Compares all cases with the first. Identical reports produce byte-identical pages. Each run that
// is drawn adds at most about 2 MB, however long it was. clock: the clock of a real run. Without a
// clock, or if several runs are drawn, the axes begin at 0.
std::string Html(std::span<const Report> reports, std::string_view title,
                 const std::optional<Clock>& clock = {});

}  // namespace carma::report
