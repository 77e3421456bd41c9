// Writes the text of a Prometheus scrape (exposition format 0.0.4).
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace carma::api {

// Names and values of labels. Values may contain any bytes.
using Labels = std::vector<std::pair<std::string_view, std::string>>;

// Counts observations in buckets with fixed bounds.
class Histogram {
 public:
  // bounds: upper bounds of the buckets in ascending order, in the metric's base unit. A last bound
  // of +Inf is implied.
  explicit Histogram(std::vector<double> bounds);
  void Observe(double value);

  const std::vector<double>& bounds() const { return bounds_; }
  // The count of each bucket (not cumulative). The last bucket counts the values above the highest
  // bound.
  const std::vector<std::uint64_t>& counts() const { return counts_; }
  double sum() const { return sum_; }

 private:
  std::vector<double> bounds_;
  std::vector<std::uint64_t> counts_;
  double sum_ = 0;
};

// Writes metric families one after the other. All samples of a family must follow its Begin().
class MetricsText {
 public:
  // type: "gauge", "counter" or "histogram"; help: one line.
  void Begin(std::string_view name, std::string_view type, std::string_view help);
  void Sample(double value, const Labels& labels = {});
  void Sample(std::integral auto value, const Labels& labels = {}) {
    Sample(static_cast<double>(value), labels);
  }
  // Writes the family's buckets, sum and count.
  void Sample(const Histogram& histogram, const Labels& labels = {});
  // Writes a family with a single sample, which is either a number or a histogram.
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
