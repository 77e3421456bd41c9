#include "api/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace carma::api {
namespace {

// Formats a number for the Prometheus text format.
std::string NumberText(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

std::string EscapeText(std::string_view text, bool quotes) {
  std::string out;
  for (char c : text) {
    if (c == '\\') {
      out += "\\\\";
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '"' && quotes) {
      out += "\\\"";
    } else {
      out.push_back(c);
    }
  }
  return out;
}

}  // namespace

Histogram::Histogram(std::vector<double> bounds)
    : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}

void Histogram::Observe(double value) {
  // A bucket counts values up to and including its bound.
  const auto bound = std::lower_bound(bounds_.begin(), bounds_.end(), value);
  ++counts_[static_cast<std::size_t>(bound - bounds_.begin())];
  sum_ += value;
}

void MetricsText::Begin(std::string_view name, std::string_view type, std::string_view help) {
  name_ = name;
  text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, EscapeText(help, false), name, type);
}

void MetricsText::Sample(double value, const Labels& labels) {
  Line("", labels, NumberText(value));
}

void MetricsText::Sample(const Histogram& histogram, const Labels& labels) {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < histogram.counts().size(); ++i) {
    total += histogram.counts()[i];
    Labels with_bound = labels;
    with_bound.emplace_back(
        "le", i < histogram.bounds().size() ? NumberText(histogram.bounds()[i]) : "+Inf");
    Line("_bucket", with_bound, fmt::format("{}", total));
  }
  Line("_sum", labels, NumberText(histogram.sum()));
  Line("_count", labels, fmt::format("{}", total));
}

void MetricsText::Line(std::string_view suffix, const Labels& labels, std::string_view value) {
  text_ += name_;
  text_ += suffix;
  if (!labels.empty()) {
    char before = '{';
    for (const auto& [label, label_value] : labels) {
      text_ += fmt::format("{}{}=\"{}\"", before, label, EscapeText(label_value, true));
      before = ',';
    }
    text_ += '}';
  }
  text_ += ' ';
  text_ += value;
  text_ += '\n';
}

}  // namespace carma::api
