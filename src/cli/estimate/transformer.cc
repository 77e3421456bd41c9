#include "cli/estimate/transformer.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <utility>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "base/try.h"
#include "cli/client/describe.h"
#include "cli/client/verbs.h"
#include "cli/table.h"
#include "estimate/recipe/plan_files.h"
#include "estimate/training_plan.h"
#include "estimate/training_words.h"
#include "estimate/transformer/peak.h"
#include "estimate/transformer_config.h"

namespace carma::cli {
namespace {

using estimate::MemoryBound;
using estimate::MemoryParts;
using estimate::TrainingPlan;
using estimate::TransformerConfig;
using estimate::TransformerEstimate;

// The parts of the estimate, with their names in JSON and in text.
std::array<std::pair<const char*, double>, 9> NamedParts(const TransformerEstimate& estimate) {
  const MemoryParts& parts = estimate.parts;
  return {{{"weights", parts.weights},
           {"gradients", parts.gradients},
           {"optimizer", parts.optimizer},
           {"logits", parts.logits},
           {"activations", parts.activations},
           {"working", parts.working},
           {"beside", parts.beside},
           {"fragmentation", estimate.fragmentation_mib},
           {"context", estimate.context_mib}}};
}

const char* PhaseText(estimate::TrainingPhase phase) {
  switch (phase) {
    case estimate::TrainingPhase::kStep:
      return "the optimizer's step";
    case estimate::TrainingPhase::kLoss:
      return "the loss";
    case estimate::TrainingPhase::kLayer:
      return "the backward pass of the last block";
    case estimate::TrainingPhase::kEnd:
      return "the end of the backward pass";
    case estimate::TrainingPhase::kSave:
      return "gathering the weights to save them";
    case estimate::TrainingPhase::kEncode:
      return "encoding images before the first block";
  }
  return "";
}

Result<std::string> ReadConfigFile(const std::string& path) {
  return base::ReadFile(path, estimate::kMaxConfigBytes);
}

// Reads the model to be trained: for a diffusers pipeline, its U-Net or transformer. Adds training
// settings found in neighbouring files to `words`.
Result<TransformerConfig> ReadModel(const std::string& path, const std::string& text,
                                    std::vector<task::TrainingWord>& words) {
  std::string config_path = path;
  std::string config_text = text;
  if (estimate::IsPipeline(text)) {
    estimate::PipelineFound found = CARMA_TRY(estimate::ReadPipeline(text, path, ReadConfigFile));
    std::string inner = CARMA_TRY(ReadConfigFile(found.config));
    words.insert(words.end(), found.words.begin(), found.words.end());
    config_path = found.config;
    config_text = std::move(inner);
  }
  Result<TransformerConfig> config =
      estimate::ParseTransformerConfig(config_text, InputName(config_path));
  if (!config || path == "-") return config;
  const estimate::TrainingWords beside = estimate::ReadBeside(config_path, *config, ReadConfigFile);
  words.insert(words.end(), beside.begin(), beside.end());
  return config;
}

std::string TransformerText(const std::string& file, const TransformerConfig& config,
                            const TrainingPlan& plan, const TransformerEstimate& estimate) {
  std::string text =
      fmt::format("{}: {}, {}, {:.1f} M parameters, {:.1f} M trained\n",
                  base::Printable(file, 4096), config.family, base::Counted(config.layers, "layer"),
                  estimate.parameters / 1e6, estimate.trained_parameters / 1e6);
  text += fmt::format("{} x {} tokens per GPU and step; the peak is reached in {}\n\n", plan.batch,
                      plan.sequence, PhaseText(estimate.phase));
  Table parts({{"PART"}, {"SIZE", true}});
  for (const auto& [name, mib] : NamedParts(estimate)) {
    if (mib > 0 || std::string_view(name) != "beside")
      parts.Add({{name}, {base::FormatMib(std::llround(mib))}});
  }
  text += parts.Text(Screen{}) + "\n";
  Table sums({{"MEMORY"}, {"POINT", true}, {"BOUND", true}, {"MEANING"}});
  const auto add = [&](const char* name, const MemoryBound& bound, const char* meaning) {
    sums.Add({{name},
              {base::FormatMib(bound.point_mib)},
              {base::FormatMib(bound.bound_mib)},
              {meaning}});
  };
  add("needed", estimate.needed, "allocated by PyTorch");
  add("reserved", estimate.reserved, "including its allocator's cache");
  add("shown", estimate.shown, "as nvidia-smi shows it; request this much per GPU");
  text += sums.Text(Screen{});
  text += fmt::format(
      "\nValues for the GPU that needs the most memory; BOUND covers {:g} % of similar runs.\n",
      100 * estimate.coverage);
  for (const std::string& warning : estimate.warnings) text += "note: " + warning + "\n";
  return text;
}

// One JSON object; see docs/use/api.md.
std::string TransformerJson(const std::string& file, const TransformerConfig& config,
                            const TransformerEstimate& estimate) {
  base::Json parts = base::Json::object();
  for (const auto& [name, mib] : NamedParts(estimate)) parts[fmt::format("{}_mib", name)] = mib;
  const auto bound = [](const MemoryBound& each) {
    return base::Json{{"point_mib", each.point_mib}, {"bound_mib", each.bound_mib}};
  };
  return base::DumpJson({{"file", file},
                         {"method", "transformer"},
                         {"family", config.family},
                         {"parameters", std::llround(estimate.parameters)},
                         {"trained_parameters", std::llround(estimate.trained_parameters)},
                         {"phase", base::WordOf(estimate.phase)},
                         {"parts", std::move(parts)},
                         {"needed", bound(estimate.needed)},
                         {"reserved", bound(estimate.reserved)},
                         {"shown", bound(estimate.shown)},
                         {"point_mib", estimate.shown.point_mib},
                         {"bound_mib", estimate.shown.bound_mib},
                         {"coverage", estimate.coverage},
                         {"warnings", estimate.warnings}}) +
         "\n";
}

}  // namespace

void AddTransformerOptions(Syntax verb, TransformerFlags& flags) {
  const std::string group = "Transformers";
  for (const task::TrainingOption& option : task::TrainingOptions()) {
    // The caller parses --weights itself, because the option may instead name a gpumemnet folder.
    if (option.shared || option.name == "weights") continue;
    const std::string name(option.name);
    const auto keep = [&flags, name](const std::string& value) -> Result<Unit> {
      flags.words.push_back({name, value.empty() ? "on" : value, ""});
      return Unit{};
    };
    if (option.value.empty()) {
      verb.AddFlag(
              "--" + name, [keep] { (void)keep("on"); }, std::string(option.help))
          .Group(group);
    } else {
      verb.AddParsed("--" + name, std::string(option.value), keep, std::string(option.help))
          .Group(group);
    }
  }
  verb.AddOption(
          "--hf-config", "FILE", flags.config,
          "config.json of a Hugging Face model, model_index.json of a pipeline, or their folder")
      .Group(group);
  const auto add_file = [&](const char* name, task::PlanFile::Kind kind, const char* help) {
    const auto keep = [&flags, kind](const std::string& path) -> Result<Unit> {
      flags.plan_files.push_back({kind, path});
      return Unit{};
    };
    verb.AddParsed(name, "FILE", keep, help).Group(group);
  };
  add_file("--adapter-config", task::PlanFile::Kind::kAdapter,
           "PEFT's adapter_config.json; implies lora");
  add_file("--deepspeed", task::PlanFile::Kind::kDeepSpeed, "DeepSpeed configuration in JSON");
  verb.AddOption("--gpu-memory", "MIB", flags.gpu_mib,
                 "GPU memory; when it is almost full, the allocator frees cached memory")
      .Group(group)
      .Positive();
}

std::string ConfigFileOf(const std::string& path) {
  std::error_code none;
  if (!std::filesystem::is_directory(path, none)) return path;
  const bool is_pipeline = std::filesystem::exists(path + "/model_index.json", none);
  return path + (is_pipeline ? "/model_index.json" : "/config.json");
}

Result<Unit> RunTransformer(Context& context, const TransformerFlags& flags) {
  const std::string path = ConfigFileOf(flags.config);
  const std::string text = CARMA_TRY(ReadInput(path, estimate::kMaxConfigBytes));
  const std::string name = InputName(path);
  std::vector<task::TrainingWord> beside;
  const TransformerConfig config = CARMA_TRY(ReadModel(path, text, beside));
  std::vector<task::TrainingWord> words = CARMA_TRY(ReadPlanFiles(flags.plan_files));
  words.insert(words.begin(), beside.begin(), beside.end());
  words.insert(words.end(), flags.words.begin(), flags.words.end());
  TrainingPlan plan = CARMA_TRY(estimate::PlanOf(words, config));
  if (flags.gpu_mib > 0) plan.gpu_mib = static_cast<double>(flags.gpu_mib);
  TransformerEstimate estimate = CARMA_TRY(estimate::EstimateTransformer(
      config, plan, flags.coverage > 0 ? flags.coverage : kUsualCoverage));
  for (std::string& assumed : estimate::Assumptions(words, config, plan))
    estimate.warnings.push_back(std::move(assumed));
  Print(context, context.json ? TransformerJson(name, config, estimate)
                              : TransformerText(name, config, plan, estimate));
  return Unit{};
}

}  // namespace carma::cli
