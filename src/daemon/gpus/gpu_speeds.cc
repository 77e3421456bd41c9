#include "daemon/gpus/gpu_speeds.h"

#include <string_view>
#include <vector>

#include "base/csv.h"
#include "base/result.h"

namespace carma::daemon {

extern const std::string_view kGpuTypesCsv;
extern const std::string_view kGpuSpeedsCsv;

namespace {

// The speeds in both built-in tables, by GPU type and by the driver's names for the types (from
// gpus.csv).
std::vector<core::TypeSpeed> BuiltIn() {
  std::vector<core::TypeSpeed> speeds;
  for (const std::string_view csv : {kGpuTypesCsv, kGpuSpeedsCsv}) {
    const Result<base::CsvTable> table = base::CsvTable::Parse(csv, {"type", "relative_speed"});
    CARMA_CHECK(table, "the built-in table of GPU types is broken");
    for (std::size_t i = 0; i < table->size(); ++i) {
      const base::CsvRow row = table->Row(i);
      const double speed = row.Required("relative_speed", 0.001, 1000).value();
      speeds.push_back({std::string(row.Text("type")), speed});
      if (table->HasColumn("nvml_name"))
        speeds.push_back({std::string(row.Text("nvml_name")), speed});
    }
  }
  return speeds;
}

}  // namespace

double SpeedOfModel(const std::string& name, std::span<const core::TypeSpeed> configured) {
  static const std::vector<core::TypeSpeed> kBuiltIn = BuiltIn();
  const double told = core::SpeedOf(configured, name);
  return told > 0 ? told : core::SpeedOf(kBuiltIn, name);
}

}  // namespace carma::daemon
