#include "report/html_parts.h"

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

}  // namespace carma::report
