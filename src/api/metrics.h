// Writes the text of a Prometheus scrape (exposition format 0.0.4).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace carma::api {

// Label names with their values, which may hold any bytes.
using Labels = std::vector<std::pair<std::string_view, std::string>>;

// Counts observations in buckets with fixed bounds.
class Histogram {
 public:
  // bounds: ascending upper edges in the metric's base unit; a last edge of +Inf is implied.
  explicit Histogram(std::vector<double> bounds);
  void Observe(double value);

  const std::vector<double>& bounds() const { return bounds_; }
  // The count of each bucket, and of a last bucket for values beyond the highest bound; not
  // cumulative.
  const std::vector<std::uint64_t>& counts() const { return counts_; }
  double sum() const { return sum_; }

 private:
  std::vector<double> bounds_;
  std::vector<std::uint64_t> counts_;
  double sum_ = 0;
};

// Writes metric families one after the other. All samples of a family follow its Begin().
class MetricsText {
 public:
  // type: "gauge", "counter" or "histogram"; help: one line.
  void Begin(std::string_view name, std::string_view type, std::string_view help);
  void Sample(double value, const Labels& labels = {});
  // Writes the family's buckets, sum and count.
  void Sample(const Histogram& histogram, const Labels& labels = {});
  // Writes a family with a single sample: a number or a histogram.
  void One(std::string_view name, std::string_view type, std::string_view help,
           const auto& sample) {
    Begin(name, type, help);
    Sample(sample);
  }
  const std::string& text() const { return text_; }

 private:
  void Line(std::string_view suffix, const Labels& labels, std::string_view value);

  std::string name_;
  std::string text_;
};

}  // namespace carma::api
