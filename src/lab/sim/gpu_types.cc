#include "lab/sim/gpu_types.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/csv.h"
#include "base/text.h"
#include "base/try.h"

namespace carma::sim {

extern const std::string_view kGpuTypesCsv;

namespace {

constexpr std::array kProfiles{
    MigProfile{1, 1.0, 1.0},
    MigProfile{2, 3.0 / 7, 4.0 / 8},
    MigProfile{3, 2.0 / 7, 2.0 / 8},
    MigProfile{7, 1.0 / 7, 1.0 / 8},
};

Result<GpuType> ParseRow(const base::CsvRow& row) {
  GpuType gpu;
  gpu.type = row.Text("type");
  gpu.nvml_name = row.Text("nvml_name");
  if (gpu.type.empty() || gpu.type.size() > kMaxTypeBytes ||
      gpu.nvml_name.size() > kMaxNvmlNameBytes)
    return row.Wrong("type or nvml_name is empty or too long");
  gpu.total_mib = static_cast<std::int64_t>(CARMA_TRY(row.Required("total_mib", 1, 1e9)));
  gpu.reserved_mib = static_cast<std::int64_t>(CARMA_TRY(row.Required("reserved_mib", 0, 1e9)));
  gpu.sms = static_cast<int>(CARMA_TRY(row.Required("sms", 1, 1e5)));
  gpu.power.idle_w = CARMA_TRY(row.Required("idle_w", 0, 1e5));
  gpu.power.dynamic_w = CARMA_TRY(row.Required("dynamic_w", 0, 1e5));
  gpu.power.k = CARMA_TRY(row.Required("k", 0, 100));
  gpu.power.max_w = CARMA_TRY(row.Required("max_w", 0, 1e5));
  gpu.relative_speed = CARMA_TRY(row.Required("relative_speed", 0.001, 1000));
  return gpu;
}

Result<GpuType> FindType(std::string_view name) {
  std::vector<std::string> known;
  for (const GpuType& gpu : GpuTypes()) {
    if (base::ToLower(gpu.type) == base::ToLower(name)) return gpu;
    known.push_back(gpu.type);
  }
  return Invalid("unknown GPU type '{}', expected one of {}", base::Printable(name, 60),
                 base::Join(known, ", "));
}

// The MIG instances of an A100, which later GPUs also offer (NVIDIA's MIG user guide).
constexpr std::array kMigSlices{
    MigSlices{7, 8, 0},  MigSlices{4, 4, 5},  MigSlices{3, 4, 9},
    MigSlices{2, 2, 14}, MigSlices{1, 2, 15}, MigSlices{1, 1, 19},
};

Result<MigSlices> FindProfile(const GpuType& type, std::string_view name) {
  std::vector<std::string> known;
  for (const MigSlices& slices : kMigSlices) {
    known.push_back(MigProfileName(type, slices));
    if (known.back() == base::ToLower(name)) return slices;
  }
  return Invalid("unknown MIG profile '{}' of {}, expected one of {}", base::Printable(name, 40),
                 type.type, base::Join(known, ", "));
}

// Parses a MIG partition such as "mig=3g.20gb+2g.10gb".
Result<std::vector<MigSlices>> ParseMig(const GpuType& type, std::string_view text) {
  constexpr std::string_view kPrefix = "mig=";
  text = base::Trim(text);
  if (!base::ToLower(text).starts_with(kPrefix))
    return Invalid("'" + base::Printable(text, 40) + "': expected mig=PROFILE+PROFILE");
  if (!CanBeDivided(type)) return Invalid(type.type + " does not support MIG");
  text.remove_prefix(kPrefix.size());
  std::vector<MigSlices> instances;
  if (base::Trim(text).empty()) return instances;
  int compute = 0, memory = 0;
  for (const std::string_view name : base::Split(text, '+')) {
    const MigSlices slices = CARMA_TRY(FindProfile(type, base::Trim(name)));
    compute += slices.compute;
    memory += slices.memory;
    instances.push_back(slices);
    if (compute > kMigComputeSlices || memory > kMigMemorySlices)
      return Invalid("'" + base::Printable(text, 60) + "' needs more slices than one " + type.type +
                     " has");
  }
  return instances;
}

// Removes a count such as "4x" from the beginning of a group and returns it. Returns 1 if there is
// no count.
std::int64_t TakeCount(std::string_view& group) {
  group = base::Trim(group);
  const std::size_t cross = group.find_first_of("xX");
  // "RTX3090-24GB" contains an x too, so only digits before the x are a count.
  if (cross == std::string_view::npos || cross == 0) return 1;
  const auto number = base::ParseInt(group.substr(0, cross));
  if (!number) return 1;
  group = base::Trim(group.substr(cross + 1));
  return *number;
}

}  // namespace

bool CanBeDivided(const GpuType& type) {
  return type.type.starts_with("A100-") || type.type.starts_with("H100-") ||
         type.type.starts_with("H200-");
}

Result<std::vector<GpuType>> ParseGpuTypes(std::string_view csv) {
  const base::CsvTable table = CARMA_TRY(
      base::CsvTable::Parse(csv, {"type", "nvml_name", "total_mib", "reserved_mib", "sms", "idle_w",
                                  "dynamic_w", "k", "max_w", "relative_speed"}));
  std::vector<GpuType> types;
  for (std::size_t i = 0; i < table.size(); ++i) types.push_back(CARMA_TRY(ParseRow(table.Row(i))));
  return types;
}

const std::vector<GpuType>& GpuTypes() {
  static const std::vector<GpuType> types = [] {
    Result<std::vector<GpuType>> parsed = ParseGpuTypes(kGpuTypesCsv);
    CARMA_CHECK(parsed && !parsed->empty(), "the built-in data/gpus/gpus.csv is broken");
    return std::move(*parsed);
  }();
  return types;
}

Result<std::vector<GpuType>> ParseShape(std::string_view shape) {
  const std::vector<ShapedGpu> shaped = CARMA_TRY(ParseDividedShape(shape));
  std::vector<GpuType> gpus;
  for (const ShapedGpu& gpu : shaped) {
    if (gpu.mig)
      return Invalid("shape '" + base::Printable(shape, 60) + "': expected GPUs without MIG");
    gpus.push_back(gpu.type);
  }
  return gpus;
}

Result<std::vector<ShapedGpu>> ParseDividedShape(std::string_view shape) {
  std::vector<ShapedGpu> gpus;
  for (std::string_view group : base::Split(shape, ',')) {
    const std::int64_t count = TakeCount(group);
    const std::size_t colon = group.find(':');
    const Result<GpuType> type = FindType(base::Trim(group.substr(0, colon)));
    if (!type) return base::Wrap(type.error(), "shape");
    ShapedGpu gpu{*type, std::nullopt};
    if (colon != group.npos) {
      auto mig = ParseMig(*type, group.substr(colon + 1));
      if (!mig) return base::Wrap(mig.error(), "shape");
      gpu.mig = std::move(*mig);
    }
    if (count < 1 || count > kMaxServerGpus - static_cast<std::int64_t>(gpus.size()))
      return Invalid("shape '" + base::Printable(shape, 60) + "': expected 1 to 64 GPUs in total");
    gpus.insert(gpus.end(), static_cast<std::size_t>(count), gpu);
  }
  return gpus;
}

std::string MigProfileName(const GpuType& type, const MigSlices& slices) {
  // The size of the whole GPU is in its type's name: "A100-40GB".
  const std::size_t dash = type.type.rfind('-');
  const double whole_gb = std::atof(type.type.c_str() + (dash == std::string::npos ? 0 : dash + 1));
  const long gb = std::lround(whole_gb * slices.memory / kMigMemorySlices);
  return std::to_string(slices.compute) + "g." + std::to_string(gb) + "gb";
}

const MigProfile* FindMigProfile(int instances) {
  const auto* found = std::ranges::find(kProfiles, instances, &MigProfile::instances);
  return found == kProfiles.end() ? nullptr : found;
}

double MigSpeed(double compute, double sm_active) {
  constexpr double kKnee = 4;
  if (compute >= 1) return 1;
  return std::pow((1 + std::pow(sm_active, kKnee)) / (1 + std::pow(sm_active / compute, kKnee)),
                  1 / kKnee);
}

}  // namespace carma::sim
