#include "estimate/recipe/find.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/text.h"
#include "estimate/recipe/launch.h"
#include "estimate/recipe/post_training.h"
#include "estimate/recipe/pretraining.h"
#include "estimate/recipe/settings.h"
#include "estimate/recipe/stated_settings.h"
#include "estimate/training_words.h"
#include "estimate/transformer/peak.h"

namespace carma::estimate {
namespace {

constexpr int kMaxNesting = 3;  // levels of scripts that start other scripts
constexpr std::size_t kMaxPathBytes = 4096;

// Returns true if this is a valid model name on the Hugging Face Hub. Rejects names that would
// escape the cache folder.
bool IsHubName(std::string_view name) {
  if (name.empty() || name.size() > 200 || name.contains("..")) return false;
  if (std::ranges::count(name, '/') > 1 || name.front() == '/' || name.back() == '/') return false;
  return std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("_-./").contains(static_cast<char>(c));
  });
}

bool IsRevision(std::string_view text) {
  return !text.empty() && text.size() <= 64 &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

class Finder {
 public:
  Finder(const task::TaskSpec& spec, const FileReader& read) : spec_(spec), read_(read) {}

  TrainingFound Find() {
    LookAtTask();
    LookAtOtherBranches();
    KeepTheLast();
    // A file may contain anything, so values that would make the task description invalid are
    // cleaned or dropped.
    for (task::TrainingWord& word : best_.words) word.from = base::Printable(word.from, 500);
    std::erase_if(best_.words, [](const task::TrainingWord& word) {
      return word.value.size() > 1000 || word.value != base::Printable(word.value, 1000);
    });
    return std::move(best_);
  }

 private:
  void LookAtTask() {
    if (spec_.script) {
      const std::string name(spec_.script_path ? base::BaseName(*spec_.script_path) : "");
      LookAtScript(*spec_.script, name, KnownWords(spec_.script_args), spec_.workdir,
                   spec_.environment, 0);
    } else {
      LookAtCommand({.words = KnownWords(spec_.command), .line = 0}, "", spec_.workdir, 0);
    }
  }

  // Reads the scripts again: first without the branches that replace a variable's value, then with
  // only the first branch of each condition, then also with the second, and so on.
  void LookAtOtherBranches() {
    constexpr int kMostBranches = 8;
    std::set<std::int64_t> needs_mib{run_mib_};
    const int seen = std::min(branches_.seen, kMostBranches);
    for (branches_.most = -1; branches_.most < seen; ++branches_.most) {
      run_mib_ = -1;
      reads_ = scripts_ = 0;
      background_.clear();
      LookAtTask();
      needs_mib.insert(run_mib_);
    }
    needs_mib.erase(-1);
    if (needs_mib.size() > 1)
      Note(fmt::format("conditions in the script decide between {} and {}: the larger is used",
                       base::FormatMib(*needs_mib.begin()), base::FormatMib(*needs_mib.rbegin())));
  }

  // Keeps only the last word with each name, because it overrides the earlier ones.
  void KeepTheLast() {
    TrainingWords last;
    for (task::TrainingWord& word : best_.words) {
      std::erase_if(last, [&](const task::TrainingWord& each) { return each.name == word.name; });
      last.push_back(std::move(word));
    }
    best_.words = std::move(last);
  }

  void LookAtScript(std::string_view text, const std::string& name,
                    const std::vector<ShellWord>& args, const std::string& folder,
                    const std::map<std::string, std::string>& environment, int depth) {
    if (text.size() > task::kMaxScriptBytes) return;
    constexpr int kMostReads = 500;
    const SourceReader source = [&](const std::string& below, const std::string& path) {
      return reads_ > kMostReads ? NotFound("too many files")
                                 : Read(Below(Below(folder, below), path), task::kMaxScriptBytes);
    };
    for (ShellCommand& command : CommandsOf(text, args, environment, source, branches_)) {
      if (reads_ > kMostReads) return Note("only the first training runs of the script are read");
      if (depth > 0) command.settings.insert(environment.begin(), environment.end());
      const std::string& file = command.file.empty() ? name : command.file;
      const std::string place = file.empty() ? "" : fmt::format("{}:{}", file, command.line);
      LookAtCommand(command, place, Below(folder, command.folder), depth);
    }
  }

  void LookAtCommand(const ShellCommand& command, const std::string& place,
                     const std::string& folder, int depth) {
    // These programs only print or handle the files that they name.
    if (base::IsWordIn(" echo printf cat cp mv rm ln ls chmod touch sed grep tar git rsync scp ",
                       command.words.front().text))
      return;
    if (std::optional<Launch> launch = LaunchOf(command.words, place))
      return LookAtLaunch(*launch, command, folder);
    if (depth >= kMaxNesting) return;
    const std::optional<NestedScript> nested = NestedScriptOf(command.words);
    if (!nested || ++scripts_ > kMaxTrainingFiles) return;
    // A command's environment contains exported variables and variables set in front of the command
    // (CONFIG_FILE=x ./run_train.sh).
    std::map<std::string, std::string> inside = command.settings;
    inside.insert(spec_.environment.begin(), spec_.environment.end());
    if (nested->path.empty())
      return LookAtScript(nested->text, place.substr(0, place.find(':')), nested->args, folder,
                          inside, depth + 1);
    if (const Result<std::string> text = Read(Below(folder, nested->path), task::kMaxScriptBytes))
      LookAtScript(*text, std::string(base::BaseName(nested->path)), nested->args, folder, inside,
                   depth + 1);
  }

  // ---- a training run ----

  void LookAtLaunch(const Launch& launch, const ShellCommand& command, const std::string& folder) {
    variables_ = command.settings;
    std::vector<Setting> settings;
    TrainingWords words;
    AddProgram(launch.program, folder, settings);
    for (const std::string& file : launch.files) AddFile(file, folder, "", settings);
    AddHydra(launch, folder, settings);
    AddAccelerate(launch, folder, settings);
    settings.insert(settings.end(), launch.launcher.begin(), launch.launcher.end());
    settings.insert(settings.end(), launch.options.begin(), launch.options.end());
    if (IsOfTorchtitan(settings)) return LookAtTorchtitan(settings, folder);
    AddNamedFiles(folder, settings, words);
    AddPlainNames(settings);
    Framework framework = launch.framework;
    const bool is_trl = StatedSettings(settings).Any({kTrainerKind}) != nullptr;
    if (is_trl && framework == Framework::kTrainer) framework = Framework::kTrl;
    Meaning meaning = MeaningOf(settings, framework);
    if (!meaning.engine.empty()) LookAtEngine(meaning);
    if (!meaning.not_modelled.empty()) return Note(meaning.not_modelled);
    if (!meaning.trains || settings.empty()) return;
    // A script for Hugging Face's Trainer might train something other than a transformer; such runs
    // are ignored. A missing model is therefore noted only if the run certainly trains a
    // transformer.
    const bool is_megatron = IsOfMegatron(settings);
    const bool surely = framework != Framework::kTrainer || meaning.model.contains('/');
    std::string path = StatedConfig();
    if (path.empty() && is_megatron)
      return Note(
          "the model is described only by Megatron options; pass its config.json with --hf-config");
    if (path.empty() && meaning.model.empty()) {
      if (surely || meaning.model_from.ends_with("model_name_or_path"))
        Note(meaning.model_from.empty()
                 ? "the training settings do not name a model"
                 : meaning.model_from + ": the model is known only when the script runs");
      return;
    }
    if (path.empty()) path = ConfigOf(meaning, folder, surely, words);
    if (path.empty()) return;
    for (std::string& note : meaning.notes) Note(std::move(note));
    AddValid(WordsOfPostTraining(settings), meaning.words);
    if (is_megatron) AddValid(WordsOfMegatron(settings), meaning.words);
    meaning.words.insert(meaning.words.end(), words.begin(), words.end());
    if (path.ends_with("/unet/config.json") || path.ends_with("/transformer/config.json"))
      AddDiffusion(std::string(base::BaseName(launch.program)), settings, meaning.words);
    AddAllocator(meaning.words);
    const bool adapts = std::ranges::any_of(meaning.words, [](const task::TrainingWord& word) {
      return word.name == "method" && word.value != "full";
    });
    const StatedSettings said(settings);
    const Setting* frozen = said.Any({"requires_grad", "unfrozen_parameters"});
    if (frozen == nullptr)
      frozen = said.Yes({"freeze_backbone", "freeze_base_model", "freeze_encoder", "freeze_llm"});
    if (frozen != nullptr && !adapts)
      Note(PlaceOf(*frozen) +
           ": frozen parts are counted like trained ones, so the estimate may be too high");
    if (command.background &&
        (command.repeated || !background_.insert(Variable("CUDA_VISIBLE_DEVICES")).second))
      Note("training runs in the background may share a GPU, but their memory is not added up");
    Judge(path, std::move(meaning));
  }

  void LookAtEngine(const Meaning& meaning) {
    // Used only to compare an engine with the training runs of the same script. The estimate itself
    // is a share of the server's largest GPU.
    constexpr double kUsualGpuMib = 80 * 1024;
    for (const std::string& note : meaning.notes) Note(note);
    const double share = base::ParseDouble(meaning.engine.back().value).value_or(0);
    KeepIfMost(std::llround(share * kUsualGpuMib), "", meaning.engine);
  }

  // Adds the valid words, and adds a note for each invalid word.
  void AddValid(TrainingWords more, TrainingWords& words) {
    std::vector<std::string> notes;
    for (task::TrainingWord& word : more) AddIfValid(std::move(word), words, notes);
    for (std::string& note : notes) Note(std::move(note));
  }

  // Adds the configuration file given to the launcher. Without one, "accelerate launch" reads the
  // file that "accelerate config" writes.
  void AddAccelerate(const Launch& launch, const std::string& folder,
                     std::vector<Setting>& settings) {
    const Setting* named = StatedSettings(launch.launcher).Any({"config_file"});
    if (named != nullptr) return AddFile(named->value, folder, "", settings);
    const std::string usual = Cache() + "/accelerate/default_config.yaml";
    if (launch.accelerates && Read(usual, kMaxConfigBytes)) AddFile(usual, folder, "", settings);
  }

  // Adds the configuration file of a script that uses Hydra. The file is named by --config-path
  // FOLDER --config-name NAME, relative to the script's folder.
  void AddHydra(const Launch& launch, const std::string& folder, std::vector<Setting>& settings) {
    const StatedSettings said(launch.options);
    const Setting* name = said.Value({"config_name"});
    if (name == nullptr) return;
    const Setting* path = said.Value({"config_path"});
    const std::size_t slash = launch.program.rfind('/');
    const std::string beside =
        slash == std::string::npos ? folder : Below(folder, launch.program.substr(0, slash));
    const std::string file = name->value.ends_with(".yaml") ? name->value : name->value + ".yaml";
    const std::string whole =
        Below(beside, path == nullptr ? file : fmt::format("{}/{}", path->value, file));
    // A script without Hydra may also have options with these names, so a missing file is not an
    // error.
    if (Read(whole, kMaxConfigBytes)) AddFile(whole, folder, "", settings);
  }

  // Adds words that a diffusers script implies. A script that trains adapters is recognised by its
  // name, and loads the frozen weights in autocast's precision.
  void AddDiffusion(const std::string& program, const std::vector<Setting>& settings,
                    TrainingWords& words) {
    std::vector<std::string> ignored;
    const auto add = [&](const char* name, const std::string& value, const std::string& from) {
      AddIfValid({name, value, from}, words, ignored);
    };
    const bool adapters = program.contains("lora");
    if (adapters) {
      add("method", "lora", program);
      add("lora-rank", "4", program);
    }
    for (const Setting& setting : settings) {
      const bool on = base::ToLower(setting.value) == "true";
      if (setting.key == "resolution") add("resolution", setting.value, setting.from);
      if (setting.key == "rank") add("lora-rank", setting.value, setting.from);
      if (setting.key == "train_text_encoder" && on)
        Note(PlaceOf(setting) +
             ": the text encoder is counted as frozen, so the estimate is too low");
      if (setting.key == "use_ema" && on) add("ema", "on", setting.from);
      if (setting.key == "use_8bit_adam" && on) add("optimizer", "adamw-8bit", setting.from);
      if (setting.key == "mixed_precision" && adapters)
        add("weights", setting.value == "no" ? "fp32" : setting.value, setting.from);
    }
  }

  void LookAtTorchtitan(const std::vector<Setting>& settings, const std::string& folder) {
    Meaning meaning = ReadTorchtitan(settings);
    for (std::string& note : meaning.notes) Note(std::move(note));
    if (meaning.model.empty())
      return Note("the training settings do not name the folder that contains the model's files");
    const std::string path = ConfigOf(meaning, folder, true, meaning.words);
    if (path.empty()) return;
    AddAllocator(meaning.words);
    Judge(path, std::move(meaning));
  }

  // Adds words for PyTorch's allocator, which is configured by environment variables.
  void AddAllocator(TrainingWords& words) const {
    for (const char* const name : {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}) {
      if (Variable(name).contains("expandable_segments:True"))
        words.push_back({"expandable-segments", "on", name});
    }
  }

  // Settings in the script itself have the lowest precedence. A missing script is ignored.
  void AddProgram(const std::string& program, const std::string& folder,
                  std::vector<Setting>& settings) {
    if (!program.ends_with(".py")) return;
    const Result<std::string> text = Read(Below(folder, program), kMaxConfigBytes);
    if (text) settings = ReadPythonText(*text, base::BaseName(program));
  }

  void AddFile(const std::string& name, const std::string& folder, const std::string& prefix,
               std::vector<Setting>& settings) {
    const Result<std::string> text = Read(Below(folder, name), kMaxConfigBytes);
    if (!text) return Note(text.error().message);
    const std::string shown(base::BaseName(name));
    Result<std::vector<Setting>> read = name.ends_with(".json")   ? ReadJsonSettings(*text, shown)
                                        : name.ends_with(".toml") ? ReadToml(*text, shown)
                                                                  : ReadYaml(*text, shown);
    if (!read) return Note(read.error().message);
    for (Setting& setting : *read) {
      if (!prefix.empty()) setting.key = prefix + setting.key;
      settings.push_back(std::move(setting));
    }
  }

  // Reads the files that settings refer to: DeepSpeed, FSDP and adapter configurations.
  void AddNamedFiles(const std::string& folder, std::vector<Setting>& settings,
                     TrainingWords& words) {
    const std::vector<Setting> named = settings;
    for (const Setting& setting : named) {
      const bool is_file = setting.value.ends_with(".json") || setting.value.ends_with(".yaml");
      if (!is_file) continue;
      if (IsOneOf(setting.key, {"deepspeed", "deepspeed_config", "deepspeed_config_file",
                                "deepspeed_config.deepspeed_config_file"})) {
        AddWords(&ReadDeepSpeed, setting.value, folder, words);
      } else if (setting.key == "fsdp_config") {
        AddFile(setting.value, folder, "fsdp_config.", settings);
      } else if (base::BaseName(setting.value) == "adapter_config.json") {
        AddWords(&ReadAdapterConfig, setting.value, folder, words);
      }
    }
  }

  void AddWords(Result<TrainingWords> (*reader)(std::string_view, std::string_view),
                const std::string& name, const std::string& folder, TrainingWords& words) {
    const Result<std::string> text = Read(Below(folder, name), kMaxConfigBytes);
    if (!text) return Note(text.error().message);
    const Result<TrainingWords> read = reader(*text, base::BaseName(name));
    if (!read) return Note(read.error().message);
    words.insert(words.end(), read->begin(), read->end());
  }

  // ---- the model ----

  // The config.json that the task names as its summary; "" if it names none.
  std::string StatedConfig() {
    if (!spec_.model_summary) return "";
    const Result<std::string> text = Read(*spec_.model_summary, kMaxConfigBytes);
    if (!text || !ParseTransformerConfig(*text, *spec_.model_summary)) return "";
    return *spec_.model_summary;
  }

  // The path of the model's config.json. If there is none, returns "", and adds a note if `told` is
  // true.
  std::string ConfigOf(const Meaning& meaning, const std::string& folder, bool told,
                       TrainingWords& words) {
    const std::string& model = meaning.model;
    if (model.size() > kMaxPathBytes || base::HasControls(model)) return "";
    const std::string local =
        Below(folder, model.ends_with(".json") ? model : model + "/config.json");
    if (Read(local, kMaxConfigBytes)) return local;
    const std::string cached = CachedFolder(model);
    if (!cached.empty() && Read(cached + "/config.json", kMaxConfigBytes))
      return cached + "/config.json";
    for (const std::string& place : {Below(folder, model), cached}) {
      if (place.empty()) continue;
      if (const std::string part = PartOf(place + "/model_index.json", words); !part.empty())
        return part;
    }
    if (told)
      Note(
          fmt::format("{}: no config.json for '{}' here or in the Hugging Face cache (pass it with "
                      "--hf-config)",
                      meaning.model_from, base::Printable(model, 80)));
    return "";
  }

  // Path of the config.json of the model that a diffusers pipeline trains. Also adds keywords for
  // the pipeline's untrained parts to `words`.
  std::string PartOf(const std::string& index, TrainingWords& words) {
    const Result<std::string> text = Read(index, kMaxConfigBytes);
    if (!text) return "";
    const Result<PipelineFound> found = ReadPipeline(
        *text, index, [&](const std::string& file) { return Read(file, kMaxConfigBytes); });
    if (!found) {
      Note(found.error().message);
      return "";
    }
    if (!Read(found->config, kMaxConfigBytes)) return "";
    words.insert(words.begin(), found->words.begin(), found->words.end());
    return found->config;
  }

  // The model's folder in the Hugging Face Hub cache, where each model has one folder per revision.
  std::string CachedFolder(const std::string& name) {
    if (!IsHubName(name)) return "";
    std::string escaped = name;
    if (const std::size_t slash = escaped.find('/'); slash != std::string::npos)
      escaped.replace(slash, 1, "--");
    const std::string own = Variable("HF_HUB_CACHE");
    const std::string folder = (own.empty() ? Cache() + "/hub" : own) + "/models--" + escaped;
    const Result<std::string> text = Read(folder + "/refs/main", 1000);
    if (!text || !IsRevision(base::Trim(*text))) return "";
    return fmt::format("{}/snapshots/{}", folder, base::Trim(*text));
  }

  // Hugging Face's folder, which contains the caches of its programs.
  std::string Cache() const {
    if (std::string home = Variable("HF_HOME"); !home.empty()) return Below("", home);
    const std::string shared = Variable("XDG_CACHE_HOME");
    return (shared.empty() ? Variable("HOME") + "/.cache" : shared) + "/huggingface";
  }

  std::string Variable(const std::string& name) const {
    if (const auto own = variables_.find(name); own != variables_.end()) return own->second;
    const auto found = spec_.environment.find(name);
    return found == spec_.environment.end() ? "" : found->second;
  }

  // Keeps this training run if it needs more memory than those found before.
  void Judge(const std::string& path, Meaning meaning) {
    const Result<std::string> text = Read(path, kMaxConfigBytes);
    if (!text) return;
    const Result<TransformerConfig> config = ParseTransformerConfig(*text, path);
    if (!config) return Note(config.error().message);
    const TrainingWords beside = ReadBeside(
        path, *config, [&](const std::string& file) { return Read(file, kMaxConfigBytes); });
    // Stated settings come last because they take precedence.
    meaning.words.insert(meaning.words.begin(), beside.begin(), beside.end());
    const Result<TrainingPlan> plan = PlanOf(meaning.words, *config);
    if (!plan) return Note(plan.error().message);
    constexpr double kAnyCoverage = 0.9;
    const Result<TransformerEstimate> estimate = EstimateTransformer(*config, *plan, kAnyCoverage);
    if (!estimate) return Note(estimate.error().message);
    KeepIfMost(estimate->shown.point_mib, path, std::move(meaning.words));
  }

  void KeepIfMost(std::int64_t mib, const std::string& config, TrainingWords words) {
    run_mib_ = std::max(run_mib_, mib);
    if (mib <= most_mib_) return;
    most_mib_ = mib;
    best_.config = config;
    best_.words = std::move(words);
  }

  // ---- files ----

  std::string Below(const std::string& folder, const std::string& path) const {
    if (path.empty()) return folder;
    if (path.starts_with('/')) return path;
    if (path.starts_with("~/")) return Variable("HOME") + path.substr(1);
    std::string_view rest = path;
    while (rest.starts_with("./")) rest.remove_prefix(2);
    return fmt::format("{}/{}", folder, rest);
  }

  Result<std::string> Read(const std::string& path, std::size_t max_bytes) {
    const bool readable = path.starts_with('/') && path.size() <= kMaxPathBytes &&
                          base::IsUtf8(path) && !base::HasControls(path);
    const bool more = files_.size() < kMaxTrainingFiles || files_.contains(path);
    if (!readable || !more)
      return NotFound("{}: the file cannot be read", base::Printable(path, 200));
    ++reads_;
    files_.insert(path);
    return read_(path, max_bytes);
  }

  void Note(std::string text) {
    constexpr std::size_t kMostNotes = 20;
    text = base::Printable(text, 500);
    const bool known = std::ranges::find(best_.notes, text) != best_.notes.end();
    if (!known && best_.notes.size() < kMostNotes) best_.notes.push_back(std::move(text));
  }

  const task::TaskSpec& spec_;
  const FileReader& read_;
  std::map<std::string, std::string> variables_;  // set by the script for the current run
  std::set<std::string> files_;
  int reads_ = 0;                     // including files read before
  int scripts_ = 0;                   // nested ones, also if they were read before
  std::set<std::string> background_;  // the GPUs of training runs that end with "&"
  std::int64_t most_mib_ = -1;
  std::int64_t run_mib_ = -1;  // as most_mib_, but for the current way to read branches
  ShellBranches branches_;
  TrainingFound best_;
};

}  // namespace

TrainingFound FindTraining(const task::TaskSpec& spec, const FileReader& read) {
  return Finder(spec, read).Find();
}

}  // namespace carma::estimate
