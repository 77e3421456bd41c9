#include "report/html_parts.h"

#include <algorithm>

#include "report/svg.h"

namespace carma::report {

std::string NameOf(const std::string& label) {
  return label.empty() ? "this run" : label;
}

void PutFigure(std::string& out, std::string_view caption, const std::string& drawing) {
  Put(out, "<figure>");
  if (!caption.empty()) Put(out, "<figcaption>{}</figcaption>", Escape(caption, 400));
  Put(out, "{}</figure>\n", drawing);
}

std::string Swatch(std::string_view shape) {
  return fmt::format(R"(<svg viewBox="0 0 22 11" aria-hidden="true">{}</svg>)", shape);
}

void PutTable(std::string& out, std::string_view heading,
              std::initializer_list<std::string_view> titles, const std::string& rows,
              std::string_view notes) {
  if (rows.empty()) return;
  Put(out, "<section><h2>{}</h2><div class=\"scroll\"><table><thead><tr>", heading);
  for (const std::string_view title : titles) {
    const char* css = title == "run" ? " class=\"run\"" : title == "why" ? " class=\"words\"" : "";
    Put(out, "<th{}>{}</th>", css, title);
  }
  Put(out, "</tr></thead><tbody>\n{}</tbody></table></div>{}</section>\n", rows, notes);
}

Recorded RecordsOf(std::span<const Report> reports) {
  Recorded cases;
  for (const Report& report : reports) {
    if (!report.run) continue;
    const std::string& label = report.metrics.label;
    auto known = std::ranges::find_if(
        cases, [&](const auto& each) { return !label.empty() && each.first == label; });
    if (known == cases.end()) known = cases.insert(cases.end(), {label, {}});
    known->second.push_back(&*report.run);
  }
  return cases;
}

}  // namespace carma::report
