// A running task's progress as stored and shown.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/fields.h"
#include "base/result.h"

namespace carma::task {

struct ProgressReport {
  std::string phase;
  std::string unit;
  double done = 0;
  std::optional<double> total;
  std::optional<double> rate_per_s;
  std::optional<double> loss;
  std::optional<double> epoch;
  std::optional<double> fraction;
  std::optional<std::int64_t> ends_ms;
  std::int64_t changed_ms = 0;
  std::int64_t longest_step_ms = 0;
  bool stalled = false;

  static void VisitFields(auto& field, auto& report) {
    constexpr base::FieldRule kCount{.least = 0, .most = 1e15};
    field("phase", report.phase, "The present phase.",
          {.max_bytes = 16, .fits = IsPhase, .words = "train,eval"});
    field("unit", report.unit, "What the innermost loop counts: step, iter, epoch, sample …",
          {.max_bytes = 16, .fits = IsUnit, .expected = "up to 16 lowercase letters"});
    field("done", report.done, "Number of units done.", kCount);
    field("total", report.total, "Total number of units; null if unknown.", kCount);
    field("rate_per_s", report.rate_per_s, "Units per second, as printed by the program.", kCount);
    field("loss", report.loss, "The last training loss that the program printed.");
    field("epoch", report.epoch, "The current epoch, counted from 1.", kCount);
    field("fraction", report.fraction, "Fraction of the whole run that is done; null if unknown.",
          {.least = 0, .most = 1});
    field("ends_ms", report.ends_ms,
          "When the run will probably end (ms since the epoch); null if unknown.", {.low = 0});
    field("changed_ms", report.changed_ms, "When the counters last changed (ms since the epoch).",
          {.low = 0});
    field("longest_step_ms", report.longest_step_ms,
          "The longest time between two changes of the counters.", {.low = 0});
    field("stalled", report.stalled,
          "The counters have not changed for ten times longest_step_ms and at least ten minutes.");
  }
  friend bool operator==(const ProgressReport&, const ProgressReport&) = default;

  static bool IsPhase(std::string_view text);
  static bool IsUnit(std::string_view text);
};

// Convert to one line of JSON and back. ParseProgressReport returns kInvalid for any other bytes.
std::string ToText(const ProgressReport& report);
Result<ProgressReport> ParseProgressReport(std::string_view text);

// Returns true if the progress has been unchanged for more than ten minutes and for more than ten
// times the longest step.
bool IsStalled(const ProgressReport& report, std::int64_t now_ms);

}  // namespace carma::task
