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
