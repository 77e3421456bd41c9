#include "runs.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "base/csv.h"
#include "base/file.h"
#include "base/rng.h"
#include "model/summary.h"

namespace carma::train {
namespace {

constexpr std::size_t kMaxCsvBytes = 256 << 20;

struct Measurement {
  std::int64_t batch = 0;
  double measured_mib = 0;
  bool censored = false;
};
using Measurements = std::unordered_map<std::string, std::vector<Measurement>>;

base::Result<Measurements> ReadMeasured(const std::string& path, LeftOut& left_out) {
  const auto text = base::ReadFile(path, kMaxCsvBytes);
  if (!text) return std::unexpected(text.error());
  const auto table = base::CsvTable::Parse(*text, {"model", "batch", "measured_mib", "censored"});
  if (!table) return base::Wrap(table.error(), path);
  Measurements measurements;
  for (std::size_t i = 0; i < table->size(); ++i) {
    const base::CsvRow row = table->Row(i);
    const auto batch = row.Required("batch", 1, 1e9);
    if (!batch) return base::Wrap(batch.error(), path);
    const auto measured = row.Required("measured_mib", 0, 1e9);
    if (!measured) return base::Wrap(measured.error(), path);
    const auto censored = row.Required("censored", 0, 1);
    if (!censored) return base::Wrap(censored.error(), path);
    if (*censored != 0 && row.Text("reason") == "incomplete") {
      ++left_out.incomplete;
      continue;
    }
    measurements[std::string(row.Text("model"))].push_back(
        {static_cast<std::int64_t>(*batch), *measured, *censored != 0});
  }
  return measurements;
}

}  // namespace

base::Result<std::vector<Run>> LoadRuns(const RunFiles& files, model::Family family,
                                        LeftOut& left_out) {
  auto measurements = ReadMeasured(files.measured, left_out);
  if (!measurements) return std::unexpected(measurements.error());
  std::vector<Run> runs;
  const auto read = model::ForEachModel(files.layers, [&](const model::LayerList& list) {
    const auto found = measurements->find(list.model);
    if (found == measurements->end()) return true;
    const bool wanted = model::Classify(list) == family;
    for (const Measurement& each : found->second) {
      left_out.other_family += wanted ? 0 : 1;
      if (!wanted) continue;
      runs.push_back({list.model, estimate::DescribeForNetworks(list, each.batch),
                      each.measured_mib, each.censored});
    }
    measurements->erase(found);
    return true;
  });
  if (!read) return std::unexpected(read.error());
  if (!measurements->empty()) {
    return base::Fail(
        base::ErrorCode::kInvalid,
        files.layers + ": no model '" + measurements->begin()->first + "', which was measured");
  }
  return runs;
}

std::vector<std::size_t> Parts(const std::vector<Run>& runs, std::size_t parts,
                               std::uint64_t seed) {
  std::map<std::string, std::size_t> part_of;
  for (const Run& run : runs) part_of.emplace(run.model, 0);
  std::vector<std::size_t*> shuffled;
  shuffled.reserve(part_of.size());
  for (auto& [model, part] : part_of) shuffled.push_back(&part);
  base::Rng rng(seed);
  for (std::size_t i = shuffled.size(); i > 1; --i) {
    std::swap(shuffled[i - 1], shuffled[rng.Below(i)]);
  }
  for (std::size_t i = 0; i < shuffled.size(); ++i) *shuffled[i] = i % parts;
  std::vector<std::size_t> result;
  result.reserve(runs.size());
  for (const Run& run : runs) result.push_back(part_of.at(run.model));
  return result;
}

}  // namespace carma::train
