#include "lab/trace/workloads.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <string>
#include <utility>

#include "base/csv.h"
#include "base/text.h"
#include "base/try.h"

namespace carma::trace {

extern const std::string_view kCatalogueCsv;  // data/workloads/catalogue.csv

namespace {

// Number of convolutions and linear layers in the usual implementations, including projections.
// Names consist only of letters and digits.
constexpr std::pair<std::string_view, int> kNetworks[] = {
    {"alexnet", 8},       {"vgg11", 11},          {"vgg13", 13},       {"vgg16", 16},
    {"vgg19", 19},        {"resnet18", 21},       {"resnet34", 37},    {"resnet50", 54},
    {"resnet101", 105},   {"resnet152", 156},     {"inception", 95},   {"inceptionv3", 95},
    {"xception", 75},     {"efficientnetb0", 82}, {"mobilenetv2", 53}, {"mobilenetv3large", 64},
    {"densenet121", 121},
};

using base::CsvRow;
using base::CsvTable;

constexpr std::int64_t kNoEstimate = 40'000;
constexpr double kMaxMemoryMib = 1 << 24;
constexpr int kMaxGpus = 1024;
constexpr std::size_t kMaxIdBytes = 256;

constexpr std::array kMemoryColumns{"memory_mib", "memory_mib_run60", "memory_mib_thesis",
                                    "memory_mib_rad2"};
constexpr std::array kSecondMemoryColumns{"memory_mib_gpu2", "memory_mib_run60_gpu2"};

// The value of the first column that has one, rounded up.
template <class Columns>
Result<std::optional<std::int64_t>> Mib(const CsvRow& row, const Columns& columns) {
  for (const std::string_view column : columns) {
    const std::optional<double> mib = CARMA_TRY(row.Number(column, 0.001, kMaxMemoryMib));
    if (mib) return static_cast<std::int64_t>(std::ceil(*mib));
  }
  return std::optional<std::int64_t>();
}

Result<std::optional<int>> WholeNumber(const CsvRow& row, std::string_view column, double high) {
  const std::optional<double> number = CARMA_TRY(row.Number(column, 1, high));
  return number ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

// Reads measured parameters, or guesses them from the row's other columns.
Result<Unit> ReadInterference(const CsvRow& row, double sm_active, Workload& workload,
                              std::string& missing) {
  const std::string domain = base::ToLower(base::Trim(row.Text("domain")));
  core::TaskTraits& traits = workload.traits;
  traits.transformer = domain == "transformer";
  traits.batch_size = CARMA_TRY(WholeNumber(row, "batch_size", 1 << 24));
  traits.layers = CARMA_TRY(WholeNumber(row, "layers", 1 << 20));
  if (!traits.layers) traits.layers = LayersOf(base::Trim(row.Text("model")));
  const std::optional<double> sensitivity = CARMA_TRY(row.Number("mps_sensitivity", 0, 1000));
  const std::optional<double> pressure = CARMA_TRY(row.Number("mps_pressure", 0, 1000));
  if (!(sensitivity && pressure) && domain.empty() && !traits.batch_size && !traits.layers) {
    missing = sensitivity ? "mps_pressure" : "mps_sensitivity";
    return Unit{};
  }
  const core::MpsParameters guess = core::GuessMps(sm_active, traits);
  workload.mps_sensitivity = sensitivity.value_or(guess.sensitivity);
  workload.mps_pressure = pressure.value_or(guess.pressure);
  return Unit{};
}

// Converts the row to a workload; `missing` lists values that a replay needs but the row lacks.
Result<Workload> ReadRow(const CsvRow& row, std::string& missing) {
  Workload workload;
  workload.id = base::Trim(row.Text("workload_id"));
  if (workload.id.empty() || workload.id.size() > kMaxIdBytes || !base::IsUtf8(workload.id))
    return row.Wrong("column 'workload_id': expected a name of at most 256 bytes of UTF-8");
  workload.weight_class = base::Printable(base::Trim(row.Text("weight_class")), 40);
  const double gpus = CARMA_TRY(row.Number("gpus", 1, kMaxGpus)).value_or(0);
  workload.gpus = static_cast<int>(gpus);
  if (gpus != workload.gpus || gpus < 1) return row.Wrong("column 'gpus': expected a whole number");

  const auto need = [&](const char* column, double low, double high) -> Result<double> {
    const std::optional<double> number = CARMA_TRY(row.Number(column, low, high));
    if (!number) missing = column;
    return number.value_or(0);
  };
  workload.solo_s = CARMA_TRY(need("solo_seconds", kMinSoloS, kMaxSoloS));
  const double sm_active = CARMA_TRY(need("solo_smact", 0, 1));
  CARMA_TRY(ReadInterference(row, sm_active, workload, missing));
  workload.sm_active.assign(1, sm_active);
  workload.sm_active.resize(static_cast<std::size_t>(workload.gpus),
                            CARMA_TRY(row.Number("solo_smact_gpu2", 0, 1)).value_or(sm_active));

  const std::optional<std::int64_t> memory = CARMA_TRY(Mib(row, kMemoryColumns));
  if (!memory) missing = "memory";
  workload.memory_mib.assign(1, memory.value_or(0));
  workload.memory_mib.resize(
      static_cast<std::size_t>(workload.gpus),
      CARMA_TRY(Mib(row, kSecondMemoryColumns)).value_or(workload.memory_mib[0]));
  for (std::size_t i = 0; i < kEstimateColumns.size(); ++i) {
    workload.estimates_mib[i] =
        CARMA_TRY(Mib(row, std::array{fmt::format("{}_mib", kEstimateColumns[i])}));
  }
  workload.summary_file = base::Trim(row.Text("summary_file"));
  if (workload.summary_file.contains('/'))
    return row.Wrong("column 'summary_file': expected a file name without a folder");
  workload.optimizer = base::ToLower(base::Trim(row.Text("optimizer")));
  workload.cpus = CARMA_TRY(row.Number("cpus", 0, kMaxWorkloadCpus));
  return workload;
}

std::string Numbers(const auto& values) {
  return fmt::format("{}", fmt::join(values, ","));
}

}  // namespace

Result<std::string_view> ParseEstimateSource(std::string_view name) {
  const auto found = std::ranges::find(kEstimateSources, name);
  if (found != kEstimateSources.end()) return *found;
  const auto last = kEstimateSources.end() - 1;
  return Invalid("expected {} or {}, not '{}'", fmt::join(kEstimateSources.begin(), last, ", "),
                 *last, base::Printable(name, 40));
}

MemoryEstimate Estimate(const Workload& workload, std::string_view source) {
  if (source == "oracle") return {.mib = *std::ranges::max_element(workload.memory_mib)};
  for (std::size_t i = 0; i < kEstimateColumns.size(); ++i) {
    if (kEstimateColumns[i] != source) continue;
    const std::optional<std::int64_t> mib = workload.estimates_mib[i];
    if (mib == kNoEstimate) return {.whole_gpu = true};
    return {.mib = mib};
  }
  return {};
}

std::vector<std::string> SimTaskArguments(const Workload& workload) {
  return {"--memory-mib",  Numbers(workload.memory_mib),
          "--solo-s",      fmt::format("{}", workload.solo_s),
          "--sm-active",   Numbers(workload.sm_active),
          "--sensitivity", fmt::format("{}", workload.mps_sensitivity),
          "--pressure",    fmt::format("{}", workload.mps_pressure)};
}

Result<Catalogue> Catalogue::Parse(std::string_view csv, std::string_view path) {
  const std::string where = base::Printable(path, 200);
  const CsvTable table = CARMA_TRY(CsvTable::Parse(
      csv, {"workload_id", "gpus", "solo_seconds", "solo_smact", "mps_sensitivity", "mps_pressure"},
      kMaxWorkloads, where));
  if (std::ranges::none_of(kMemoryColumns,
                           [&](const char* column) { return table.HasColumn(column); })) {
    return Invalid(where + ": no column 'memory_mib' in the header");
  }
  Catalogue catalogue;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const CsvRow row = table.Row(i);
    std::string missing;
    Workload workload = CARMA_TRY(ReadRow(row, missing));
    std::string id = workload.id;
    if (catalogue.workloads_.contains(id) || catalogue.unusable_.contains(id))
      return row.Wrong("workload '" + base::Printable(id, 60) + "' is listed twice");
    if (missing.empty()) {
      catalogue.workloads_.emplace(std::move(id), std::move(workload));
    } else {
      catalogue.unusable_.emplace(std::move(id), missing);
    }
  }
  return catalogue;
}

Result<Catalogue> Catalogue::BuiltIn() {
  return Parse(kCatalogueCsv, "built-in catalogue");
}

Result<const Workload*> Catalogue::Find(const std::string& id) const {
  if (const auto found = workloads_.find(id); found != workloads_.end()) return &found->second;
  const std::string shown = "workload '" + base::Printable(id, 60) + "'";
  if (const auto found = unusable_.find(id); found != unusable_.end()) {
    return Invalid(shown + " cannot be replayed: the catalogue does not contain its " +
                   found->second);
  }
  return NotFound(shown + " is not in the catalogue");
}

Result<Unit> Catalogue::CheckEstimates(std::string_view source) const {
  const auto column = std::ranges::find(kEstimateColumns, source);
  if (column == kEstimateColumns.end()) return Unit{};
  const auto i = static_cast<std::size_t>(column - kEstimateColumns.begin());
  if (std::ranges::any_of(
          workloads_, [i](const auto& each) { return each.second.estimates_mib[i].has_value(); }))
    return Unit{};
  return Invalid(
      "the catalogue has no estimates in a column '{}_mib'; add them or choose another estimator",
      source);
}

std::optional<int> LayersOf(std::string_view model) {
  std::string name;
  for (const char c : base::ToLower(model)) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) name += c;
  }
  for (const auto& [known, layers] : kNetworks) {
    if (known == name) return layers;
  }
  return std::nullopt;
}

}  // namespace carma::trace
