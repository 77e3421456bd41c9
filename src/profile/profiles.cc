#include "profile/profiles.h"

#include <fmt/format.h>

#include <cmath>
#include <set>
#include <utility>

#include "base/csv.h"
#include "base/text.h"
#include "base/try.h"

namespace carma::profile {
namespace {

using base::CsvRow;

constexpr std::string_view kHeader =
    "workload,gpu_type,sm_active,sensitivity,pressure,load_s,time_s,iterations,memory_mib,runs,"
    "time_spread,meetings,fit_error,signature\n";
constexpr double kMostSeconds = 1e9;
constexpr double kMostCount = 1e6;
constexpr double kMostMib = static_cast<double>(std::int64_t{1} << 40);
constexpr double kMostParameter = 1e3;  // as accepted by carma-simtask

// With "{}", fmt prints the shortest text that is read back as exactly the same number.
std::string Number(const std::optional<double>& value) {
  return value ? fmt::format("{}", *value) : "";
}

Result<std::string> Name(const CsvRow& row, std::string_view column) {
  const std::string_view text = row.Text(column);
  if (!IsName(text)) return row.Wrong(fmt::format("column '{}': {}", column, kNameRule));
  return std::string(text);
}

Result<int> Count(const CsvRow& row, std::string_view column) {
  return static_cast<int>(CARMA_TRY(row.Required(column, 0, kMostCount)));
}

Result<WorkloadProfile> ReadRow(const CsvRow& row) {
  WorkloadProfile profile;
  profile.workload = CARMA_TRY(Name(row, "workload"));
  profile.gpu_type = CARMA_TRY(Name(row, "gpu_type"));
  if (!row.Text("signature").empty()) profile.signature = CARMA_TRY(Name(row, "signature"));
  profile.sm_active = CARMA_TRY(row.Number("sm_active", 0, 1));
  profile.sensitivity = CARMA_TRY(row.Number("sensitivity", 0, kMostParameter));
  profile.pressure = CARMA_TRY(row.Number("pressure", 0, kMostParameter));
  profile.load_s = CARMA_TRY(row.Required("load_s", 0, kMostSeconds));
  profile.time_s = CARMA_TRY(row.Required("time_s", 1e-6, kMostSeconds));
  profile.iterations = CARMA_TRY(row.Number("iterations", 1e-6, 1e15));
  if (const auto mib = CARMA_TRY(row.Number("memory_mib", 0, kMostMib)))
    profile.memory_mib = std::llround(*mib);
  profile.runs = CARMA_TRY(Count(row, "runs"));
  profile.time_spread = CARMA_TRY(row.Required("time_spread", 0, 1e3));
  profile.meetings = CARMA_TRY(Count(row, "meetings"));
  profile.fit_error = CARMA_TRY(row.Number("fit_error", 0, 1e3));
  if (profile.sensitivity.has_value() != profile.pressure.has_value())
    return row.Wrong("expected both sensitivity and pressure or neither");
  return profile;
}

}  // namespace

bool IsName(std::string_view text) {
  return !text.empty() && text.size() <= kMaxNameBytes && !text.starts_with('#') &&
         base::IsUtf8(text) && !base::HasControls(text);
}

std::optional<double> IterationS(const WorkloadProfile& profile) {
  if (!profile.iterations) return std::nullopt;
  return profile.time_s / *profile.iterations;
}

std::string ProfilesCsv(std::span<const WorkloadProfile> profiles) {
  std::string text(kHeader);
  for (const WorkloadProfile& each : profiles) {
    fmt::format_to(
        std::back_inserter(text), "{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n",
        base::CsvCell(each.workload), base::CsvCell(each.gpu_type), Number(each.sm_active),
        Number(each.sensitivity), Number(each.pressure), each.load_s, each.time_s,
        Number(each.iterations), each.memory_mib ? std::to_string(*each.memory_mib) : "", each.runs,
        each.time_spread, each.meetings, Number(each.fit_error), base::CsvCell(each.signature));
  }
  return text;
}

Result<std::vector<WorkloadProfile>> ParseProfiles(std::string_view text, std::string_view where) {
  const base::CsvTable table = CARMA_TRY(
      base::CsvTable::Parse(text,
                            {"workload", "gpu_type", "sm_active", "sensitivity", "pressure",
                             "load_s", "time_s", "memory_mib", "runs", "time_spread", "meetings"},
                            kMaxProfiles, where));
  std::vector<WorkloadProfile> profiles;
  std::set<std::pair<std::string, std::string>> seen;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const CsvRow row = table.Row(i);
    WorkloadProfile profile = CARMA_TRY(ReadRow(row));
    if (!seen.emplace(profile.workload, profile.gpu_type).second)
      return row.Wrong("an earlier line already describes this workload and GPU type");
    profiles.push_back(std::move(profile));
  }
  return profiles;
}

}  // namespace carma::profile
