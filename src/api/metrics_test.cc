#include "api/metrics.h"

#include <gtest/gtest.h>

#include <limits>

namespace carma::api {
namespace {

TEST(MetricsText, WritesFamiliesWithEscapedLabels) {
  MetricsText out;
  out.Begin("carma_tasks", "gauge", "Tasks by state.\nNow.");
  out.Sample(3, {{"state", "queued"}});
  out.Sample(0.25, {{"state", "a\"b\\c\nd"}, {"gpu", "0"}});
  out.Begin("carma_up", "gauge", "One.");
  out.Sample(1);
  EXPECT_EQ(out.text(),
            "# HELP carma_tasks Tasks by state.\\nNow.\n"
            "# TYPE carma_tasks gauge\n"
            "carma_tasks{state=\"queued\"} 3\n"
            "carma_tasks{state=\"a\\\"b\\\\c\\nd\",gpu=\"0\"} 0.25\n"
            "# HELP carma_up One.\n"
            "# TYPE carma_up gauge\n"
            "carma_up 1\n");
}

TEST(MetricsText, BucketsCountValuesUpToTheirBound) {
  Histogram histogram({0.5, 1});
  for (double value : {0.5, 0.6, 1.0, 7.0}) histogram.Observe(value);
  MetricsText out;
  out.Begin("carma_wait_seconds", "histogram", "Waiting.");
  out.Sample(histogram, {{"queue", "main"}});
  EXPECT_EQ(out.text(),
            "# HELP carma_wait_seconds Waiting.\n"
            "# TYPE carma_wait_seconds histogram\n"
            "carma_wait_seconds_bucket{queue=\"main\",le=\"0.5\"} 1\n"
            "carma_wait_seconds_bucket{queue=\"main\",le=\"1\"} 3\n"
            "carma_wait_seconds_bucket{queue=\"main\",le=\"+Inf\"} 4\n"
            "carma_wait_seconds_sum{queue=\"main\"} 9.1\n"
            "carma_wait_seconds_count{queue=\"main\"} 4\n");
}

TEST(MetricsText, SpellsNumbersAsTheFormatDoes) {
  MetricsText out;
  out.Begin("x", "gauge", "x");
  out.Sample(std::numeric_limits<double>::quiet_NaN());
  out.Sample(std::numeric_limits<double>::infinity());
  out.Sample(-std::numeric_limits<double>::infinity());
  out.Sample(1e300);
  EXPECT_TRUE(out.text().ends_with("x NaN\nx +Inf\nx -Inf\nx 1e+300\n")) << out.text();
}

}  // namespace
}  // namespace carma::api
