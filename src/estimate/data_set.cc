// Reads the data sets for evaluating estimators: models, and measurements of their training runs.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/csv.h"
#include "base/file.h"
#include "base/try.h"
#include "estimate/evaluate.h"
#include "model/features.h"
#include "model/op.h"
#include "model/summary.h"

namespace carma::estimate {
namespace {

constexpr std::size_t kMaxTableBytes = std::size_t{256} << 20;
constexpr double kMaxMib = 1e9;
constexpr double kMaxBatch = 1e9;

// Reduces a layer list to what torchsummary would print: modules with their outputs, the batch as
// the first dimension, and parameter counts only for modules with plain weights and biases.
void ReduceToSummary(model::LayerList& list) {
  list.has_input_shapes = false;
  list.saved.reset();
  list.input = model::Shape();
  std::vector<model::Layer> printed;
  for (model::Layer& layer : list.layers) {
    const model::Op op = model::OpOf(layer.type);
    const bool plain = layer.kind == model::RowKind::kLeaf || op == model::Op::kBatchNorm ||
                       op == model::Op::kLayerNorm;
    // The model itself is the only module without a name, and torchsummary prints no row for it.
    if (layer.name.empty() && layer.kind != model::RowKind::kLeaf) continue;
    if (!plain) layer.params = layer.trainable = 0;
    model::Shape out;
    for (std::size_t i = 0; i < layer.out.rank(); ++i) {
      (void)out.Push(i == 0 ? -1 : std::abs(layer.out[i]));  // cannot fail: `out` has the same rank
    }
    layer.out = out;
    layer.in = model::Shape();
    layer.kind = model::RowKind::kUnknown;
    layer.inplace = false;
    layer.kernel = layer.in_features = layer.out_features = std::nullopt;
    layer.name.clear();
    printed.push_back(std::move(layer));
  }
  list.layers = std::move(printed);
}

// Depth of a module: 0 for the model itself, 3 for "blocks.0.mlp".
int LevelOf(const std::string& name) {
  return name.empty() ? 0 : 1 + static_cast<int>(std::ranges::count(name, '.'));
}

// The module's ancestor at the given depth, or the module itself if it is not deeper:
// "blocks.0.mlp.fc1" -> "blocks.0.mlp".
std::string_view AncestorOf(const std::string& name, int level) {
  std::size_t end = 0;
  for (int i = 0; i < level && end != std::string::npos; ++i) end = name.find('.', end + (i > 0));
  return std::string_view(name).substr(0, end);
}

// The total that torchinfo prints below its rows for a batch of one: all outputs in fp32, counted
// twice because of their gradients.
double PassBytes(const model::LayerList& list) {
  constexpr double kBytes = 2 * sizeof(float);
  double elements = 0;
  for (const model::Layer& layer : list.layers) {
    if (layer.kind == model::RowKind::kLeaf && layer.params > 0)
      elements += static_cast<double>(layer.out.Elements());
  }
  return kBytes * elements;
}

// Reduces a layer list to what torchinfo prints by default: rows down to kDepth, each including the
// layers below it. Modules that never run, such as a ModuleList, have a row without a shape.
void ReduceToTorchInfo(model::LayerList& list) {
  constexpr int kDepth = 3;
  list.format = model::SummaryFormat::kTorchInfo;
  list.has_input_shapes = false;
  list.saved.reset();
  list.input = model::Shape();
  list.batch = 1;
  list.pass_bytes = PassBytes(list);
  std::vector<model::Layer> printed;
  model::Layer hidden;  // represents everything below a row
  const auto print = [&](model::Layer layer) {
    if (layer.params > 0 && layer.kind == model::RowKind::kUnknown) {
      list.collapsed = true;
      list.hidden_params += layer.params;
    }
    printed.push_back(std::move(layer));
  };
  const auto end_block = [&] {
    if (!hidden.name.empty()) print(std::exchange(hidden, {}));
  };
  for (model::Layer& layer : list.layers) {
    const std::string_view ancestor = AncestorOf(layer.name, kDepth);
    if (ancestor != hidden.name) end_block();
    if (LevelOf(layer.name) > kDepth) {
      hidden.type = "ModuleList";
      hidden.name = ancestor;
      hidden.kind = model::RowKind::kUnknown;
      hidden.params += layer.params;
      continue;
    }
    layer.in = model::Shape();
    if (!hidden.name.empty()) {
      layer.params += hidden.params;
      layer.kind = model::RowKind::kUnknown;
      hidden = {};
    }
    print(std::move(layer));
  }
  end_block();
  list.layers = std::move(printed);
}

void Reduce(model::LayerList& list, const ReadOptions& options) {
  if (!options.exact) list.saved.reset();
  if (options.torchinfo) ReduceToTorchInfo(list);
  if (options.summary_only) ReduceToSummary(list);
}

Result<Run> RunOf(const base::CsvRow& row, const ReadOptions& options) {
  Run run;
  run.name = row.Text("model");
  run.family = row.Text("family");
  const double batch = CARMA_TRY(row.Required("batch", 1, kMaxBatch));
  const double measured = CARMA_TRY(row.Required("measured_mib", 1, kMaxMib));
  const std::optional<double> censored = CARMA_TRY(row.Number("censored", 0, 1));
  run.batch = std::llround(batch);
  run.measured_mib = std::llround(measured);
  run.censored = censored.value_or(0) > 0;
  run.optimizer = options.optimizer;
  if (const std::string_view name = row.Text("optimizer"); !name.empty()) {
    run.optimizer = ParseOptimizer(name);
    if (!run.optimizer)
      return row.Wrong(fmt::format("column 'optimizer': unknown optimizer '{}'", name));
  }
  if (const std::string_view name = row.Text("precision"); !name.empty()) {
    run.precision = ParsePrecision(name);
    if (!run.precision)
      return row.Wrong(fmt::format("column 'precision': unknown precision '{}'", name));
  }
  return run;
}

}  // namespace

Result<DataSet> ReadDataSet(const std::string& layers, const std::string& measured,
                            const ReadOptions& options) {
  DataSet set;
  std::map<std::string, std::size_t> by_name;
  CARMA_TRY(model::ForEachModel(layers, [&](model::LayerList list) {
    by_name.emplace(list.model, set.models.size());
    Reduce(list, options);
    set.models.push_back(std::move(list));
  }));
  const base::CsvTable table =
      CARMA_TRY(base::CsvTable::Read(measured, {"model", "batch", "measured_mib"}, kMaxTableBytes));
  for (std::size_t i = 0; i < table.size(); ++i) {
    Run run = CARMA_TRY(RunOf(table.Row(i), options));
    const auto found = by_name.find(run.name);
    if (found == by_name.end()) {
      ++set.without_model;
      continue;
    }
    run.model = found->second;
    if (run.family.empty()) {
      const model::LayerList& list = set.models[run.model];
      run.family = list.arch.empty() ? list.family : list.arch;
    }
    set.runs.push_back(std::move(run));
  }
  if (set.runs.empty())
    return Invalid("{}: none of the {} rows names a model in {}", measured, table.size(), layers);
  return set;
}

Result<DataSet> ReadCatalogue(const std::string& catalogue, const std::string& summaries,
                              const ReadOptions& options) {
  const base::CsvTable table = CARMA_TRY(base::CsvTable::Read(
      catalogue, {"workload_id", "batch_size", "gpus", "summary_file"}, kMaxTableBytes));
  DataSet set;
  std::map<std::string, std::size_t> by_file;
  std::set<std::tuple<std::string, std::int64_t, std::int64_t>> seen;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const base::CsvRow row = table.Row(i);
    std::optional<double> measured;
    for (const char* column : {"memory_mib_run60", "memory_mib_thesis", "memory_mib_rad2"}) {
      const std::optional<double> number = CARMA_TRY(row.Number(column, 1, kMaxMib));
      if (!measured) measured = number;
    }
    if (!measured) continue;
    const double batch = CARMA_TRY(row.Required("batch_size", 1, kMaxBatch));
    const double gpus = CARMA_TRY(row.Required("gpus", 1, 1024));
    Run run;
    run.name = row.Text("workload_id");
    run.family = row.Text("weight_class");
    run.gpus = static_cast<int>(gpus);
    run.batch = std::llround(batch);
    run.measured_mib = std::llround(*measured);
    run.optimizer = options.optimizer;
    if (const std::string_view name = row.Text("optimizer"); !name.empty())
      run.optimizer = ParseOptimizer(name);
    // In data sets that contain guessed activities, this column gives the source of each activity;
    // only "run60" means that it was measured.
    const std::string_view from = row.Text("sim_source");
    if (const auto active = row.Number("solo_smact", 0, 1);
        active && (from.empty() || from == "run60"))
      run.sm_active = *active;
    const std::string file(row.Text("summary_file"));
    if (!seen.emplace(fmt::format("{}\n{}\n{}", row.Text("model"), row.Text("dataset"), file),
                      run.batch, run.measured_mib)
             .second) {
      continue;
    }
    const auto [found, fresh] = by_file.emplace(file, set.models.size());
    if (fresh) {
      const std::string path = summaries + "/" + file;
      const std::string text = CARMA_TRY(base::ReadFile(path, model::kMaxSummaryBytes));
      model::LayerList list = CARMA_TRY(model::ParseSummary(text, path));
      Reduce(list, options);
      set.models.push_back(std::move(list));
    }
    run.model = found->second;
    run.batch = model::BatchOfOneGpu(set.models[run.model], run.batch, run.gpus);
    set.runs.push_back(std::move(run));
  }
  if (set.runs.empty()) return Invalid(catalogue + ": no row states the measured memory");
  return set;
}

}  // namespace carma::estimate
