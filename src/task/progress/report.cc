#include "task/progress/report.h"

#include <algorithm>

#include "base/fields_json.h"
#include "base/try.h"

namespace carma::task {
namespace {

constexpr std::int64_t kLeastStallMs = 600'000;
constexpr std::int64_t kStallSteps = 10;

}  // namespace

bool ProgressReport::IsPhase(std::string_view text) {
  return text == "train" || text == "eval";
}

bool ProgressReport::IsUnit(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= 'a' && c <= 'z'; });
}

std::string ToText(const ProgressReport& report) {
  return base::DumpJson(base::FieldsToJson(report, base::Absent::kLeftOut)) + "\n";
}

Result<ProgressReport> ParseProgressReport(std::string_view text) {
  const base::Json json = CARMA_TRY(base::ParseJson(text));
  Result<ProgressReport> report =
      base::FieldsFromJson<ProgressReport>(json, "", base::Unknown::kPassedOver);
  // Users see the phase and the unit unchanged, so both are checked here.
  if (report && (!ProgressReport::IsPhase(report->phase) || !ProgressReport::IsUnit(report->unit)))
    return Invalid("progress: unknown phase or unit");
  return report;
}

bool IsStalled(const ProgressReport& report, std::int64_t now_ms) {
  return now_ms - report.changed_ms > std::max(kLeastStallMs, kStallSteps * report.longest_step_ms);
}

}  // namespace carma::task
