#include "sim/gpu_types.h"

#include "base/csv.h"
#include "base/text.h"

namespace carma::sim {

extern const std::string_view kGpuTypesCsv;

namespace {

base::Result<GpuType> ParseRow(const base::CsvRow& row) {
  GpuType gpu;
  gpu.type = row.Text("type");
  gpu.nvml_name = row.Text("nvml_name");
  if (gpu.type.empty() || gpu.type.size() > kMaxTypeBytes ||
      gpu.nvml_name.size() > kMaxNvmlNameBytes) {
    return base::Fail(base::ErrorCode::kInvalid, "line " + std::to_string(row.line()) +
                                                     ": type or nvml_name empty or too long");
  }
  struct Column {
    const char* name;
    double low, high;
    double* target;
  };
  double total = 0, reserved = 0, sms = 0;
  const Column columns[] = {{"total_mib", 1, 1e9, &total},
                            {"reserved_mib", 0, 1e9, &reserved},
                            {"sms", 1, 1e5, &sms},
                            {"idle_w", 0, 1e5, &gpu.power.idle_w},
                            {"dynamic_w", 0, 1e5, &gpu.power.dynamic_w},
                            {"k", 0, 100, &gpu.power.k},
                            {"max_w", 0, 1e5, &gpu.power.max_w},
                            {"relative_speed", 0.001, 1000, &gpu.relative_speed}};
  for (const Column& column : columns) {
    const base::Result<double> value = row.Required(column.name, column.low, column.high);
    if (!value) return std::unexpected(value.error());
    *column.target = *value;
  }
  gpu.total_mib = static_cast<std::int64_t>(total);
  gpu.reserved_mib = static_cast<std::int64_t>(reserved);
  gpu.sms = static_cast<int>(sms);
  return gpu;
}

base::Result<GpuType> FindType(std::string_view name) {
  std::vector<std::string> known;
  for (const GpuType& gpu : GpuTypes()) {
    if (base::ToLower(gpu.type) == base::ToLower(name)) return gpu;
    known.push_back(gpu.type);
  }
  return base::Fail(base::ErrorCode::kInvalid, "unknown GPU type '" + base::Printable(name, 60) +
                                                   "', expected one of " + base::Join(known, ", "));
}

}  // namespace

base::Result<std::vector<GpuType>> ParseGpuTypes(std::string_view csv) {
  const base::Result<base::CsvTable> table =
      base::CsvTable::Parse(csv, {"type", "nvml_name", "total_mib", "reserved_mib", "sms", "idle_w",
                                  "dynamic_w", "k", "max_w", "relative_speed"});
  if (!table) return std::unexpected(table.error());
  std::vector<GpuType> types;
  for (std::size_t i = 0; i < table->size(); ++i) {
    base::Result<GpuType> gpu = ParseRow(table->Row(i));
    if (!gpu) return std::unexpected(gpu.error());
    types.push_back(std::move(*gpu));
  }
  return types;
}

const std::vector<GpuType>& GpuTypes() {
  static const std::vector<GpuType> types = [] {
    base::Result<std::vector<GpuType>> parsed = ParseGpuTypes(kGpuTypesCsv);
    CARMA_CHECK(parsed && !parsed->empty(), "data/gpus/gpus.csv, built in, is broken");
    return std::move(*parsed);
  }();
  return types;
}

base::Result<std::vector<GpuType>> ParseShape(std::string_view shape) {
  std::vector<GpuType> gpus;
  for (std::string_view group : base::Split(shape, ',')) {
    group = base::Trim(group);
    std::int64_t count = 1;
    const std::size_t cross = group.find_first_of("xX");
    // "RTX3090-24GB" has an x too: only digits before it are a count.
    if (cross != std::string_view::npos && cross > 0) {
      if (const auto number = base::ParseInt(group.substr(0, cross))) {
        count = *number;
        group = base::Trim(group.substr(cross + 1));
      }
    }
    const base::Result<GpuType> type = FindType(group);
    if (!type) return base::Wrap(type.error(), "shape");
    if (count < 1 || count > kMaxServerGpus - static_cast<std::int64_t>(gpus.size())) {
      return base::Fail(base::ErrorCode::kInvalid,
                        "shape '" + base::Printable(shape, 60) + "': expected 1 to 64 GPUs in all");
    }
    gpus.insert(gpus.end(), static_cast<std::size_t>(count), *type);
  }
  return gpus;
}

}  // namespace carma::sim
