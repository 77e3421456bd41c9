// The workload catalogue: resources and behaviour of training tasks, for replaying traces.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/values/mps_guess.h"

namespace carma::trace {

inline constexpr std::size_t kMaxWorkloads = 100'000;
// Durations in a catalogue or trace range from kMinSoloS to kMaxSoloS, which is ten years.
inline constexpr double kMinSoloS = 0.001;
inline constexpr double kMaxWorkloadCpus = 10'000;
inline constexpr double kMaxSoloS = 10.0 * 366 * 86400;

// Sources of a replayed task's memory estimate: none, the true peak, or a published estimator.
inline constexpr std::array<std::string_view, 5> kEstimateSources{"none", "oracle", "horus",
                                                                  "faketensor", "gpumemnet"};
// Published estimators whose estimates a catalogue may contain, each in a column NAME_mib.
inline constexpr auto kEstimateColumns = std::span(kEstimateSources).subspan<2>();
// Parses one of kEstimateSources. The result is valid for the program's lifetime. Returns kInvalid
// "expected none, oracle, …, not 'x'" for any other name.
Result<std::string_view> ParseEstimateSource(std::string_view name);

struct Workload {
  std::string id;
  std::string weight_class;  // "light", "medium", "heavy" or empty
  int gpus = 1;
  double solo_s = 0;              // duration when running alone on its GPUs
  std::vector<double> sm_active;  // when running alone, per GPU, 0..1
  double mps_sensitivity = 0;     // s in slowdown_i = 1 + s_i * sum p_j
  double mps_pressure = 0;        // p in the same formula
  core::TaskTraits traits;
  std::vector<std::int64_t> memory_mib;  // peak, per GPU
  std::array<std::optional<std::int64_t>, kEstimateColumns.size()> estimates_mib;
  std::string summary_file;  // summary of its model, a file in the summaries folder; empty: none
  std::string optimizer;     // "adam" …; empty: unknown
  // Number of server cores that the workload's data loading keeps busy; empty: unknown.
  std::optional<double> cpus;
};

// The memory that a submission requests.
struct MemoryEstimate {
  std::optional<std::int64_t> mib;  // peak per GPU; empty: unknown
  bool whole_gpu = false;           // no estimate is possible, so the task takes whole GPUs
  friend bool operator==(const MemoryEstimate&, const MemoryEstimate&) = default;
};

// source: from ParseEstimateSource. "oracle" is the true peak on the GPU that needs the most
// memory. In the catalogue's estimate columns, 40000 means "no estimate".
MemoryEstimate Estimate(const Workload& workload, std::string_view source);

// Arguments that make carma-simtask run the workload, without the program name.
std::vector<std::string> SimTaskArguments(const Workload& workload);

class Catalogue {
 public:
  // Parses CSV with workload_id, gpus, solo_seconds, solo_smact, mps_sensitivity, mps_pressure and
  // at least one memory column. Memory is the first value among memory_mib, memory_mib_run60,
  // memory_mib_thesis and memory_mib_rad2. The second GPU's memory and solo_smact_gpu2 default to
  // the first GPU's values. Optional columns: summary_file, optimizer, cpus, batch_size, layers (or
  // a model that LayersOf knows) and domain ("transformer"). If a row has one of the last three,
  // its sensitivity and pressure can be empty (GuessMps). A row without time, activity or memory is
  // accepted but not usable. Returns kInvalid "path:7: …" for an invalid row.
  static Result<Catalogue> Parse(std::string_view csv, std::string_view path);
  // The project's own catalogue (data/workloads/catalogue.csv).
  static Result<Catalogue> BuiltIn();

  // Returns kNotFound if no workload has this id, or kInvalid if its row lacks values for a replay.
  Result<const Workload*> Find(const std::string& id) const;
  // Returns kInvalid if `source` is a published estimator and no workload has an estimate from it.
  Result<Unit> CheckEstimates(std::string_view source) const;
  // Only the usable workloads.
  const std::map<std::string, Workload>& workloads() const { return workloads_; }

 private:
  std::map<std::string, Workload> workloads_;
  std::map<std::string, std::string> unusable_;  // id -> what is missing
};

// Number of layers with weights in a well-known convolutional network; case and separators of the
// name are ignored ("resnet50", "EfficientNet-B0"). Empty for other models.
std::optional<int> LayersOf(std::string_view model);

}  // namespace carma::trace
