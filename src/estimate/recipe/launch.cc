#include "estimate/recipe/launch.h"

#include <algorithm>
#include <initializer_list>
#include <span>
#include <utility>

#include "base/text.h"
#include "estimate/recipe/post_training.h"
#include "estimate/recipe/stated_settings.h"

namespace carma::estimate {
namespace {

using Words = std::span<const ShellWord>;

bool IsPython(std::string_view program) {
  program = base::BaseName(program);
  if (!program.starts_with("python")) return false;
  return program.substr(6).find_first_not_of("0123456789.") == std::string_view::npos;
}

bool IsEngine(std::string_view name) {
  return name == "vllm" || name == "sglang";
}

bool IsConfiguration(std::string_view word) {
  return word.ends_with(".yaml") || word.ends_with(".yml") || word.ends_with(".json") ||
         word.ends_with(".toml");
}

bool IsOption(const ShellWord& word) {
  return word.text.size() > 1 && word.text[0] == '-' &&
         (word.text[1] == '-' || base::ParseDouble(word.text) == std::nullopt);
}

// "--Max-Len" and Hydra's "+max_len" -> "max_len".
std::string OptionName(std::string_view word) {
  word.remove_prefix(std::min(word.find_first_not_of("-+"), word.size()));
  return PlainName(word);
}

// Returns true if this launcher option takes no value, so the next word is a separate argument.
bool IsLauncherFlag(std::string_view name) {
  return base::IsWordIn(
      " standalone no_python run_path use_env multi_gpu use_fsdp use_deepspeed use_megatron_lm tpu "
      "cpu quiet debug use_xpu no_local_rank no_ssh force_multi save_pid enable_each_rank_log m "
      "module q ",
      name);
}

class CommandReader {
 public:
  CommandReader(Words words, std::string_view place) : words_(words), place_(place) {}

  std::optional<Launch> Read() {
    // Skips words in front of the launcher, such as env, nohup, srun --gres=gpu:2 or uv run.
    while (at_ < words_.size() && !IsLauncher(at_)) ++at_;
    const bool direct = at_ == words_.size();
    if (direct) at_ = ScriptAt();
    if (at_ == words_.size()) return std::nullopt;
    const bool found = direct ? ReadProgram() : ReadLauncher();
    if (!found || launch_.program.empty()) return std::nullopt;
    ReadOptions();
    AddTrainerKind();
    AddEngine();
    Recognise();
    return std::move(launch_);
  }

 private:
  bool IsLauncher(std::size_t at) const {
    const std::string_view name = base::BaseName(words_[at].text);
    if (at + 1 < words_.size() && words_[at + 1].text == "serve") return IsEngine(name);
    return IsPython(name) ||
           IsOneOf(name, {"torchrun", "accelerate", "accelerate-launch", "deepspeed", "axolotl",
                          "llamafactory-cli", "lmf", "tune", "trl", "swift"});
  }

  // The position of a Python script that is started without naming Python: "./train.py" or "uv run
  // train.py", but not "cp train.py old.py".
  std::size_t ScriptAt() const {
    bool starts = true;
    for (std::size_t i = 0; i < words_.size(); ++i) {
      const std::string& word = words_[i].text;
      if (starts && word.ends_with(".py")) return i;
      // $PYTHON train.py
      if (i == 0) starts = !words_[i].known;
      starts = starts || IsOneOf(word, {"run", "exec", "env", "srun", "nohup"});
    }
    return words_.size();
  }

  bool Next(std::string_view word) {
    if (at_ >= words_.size() || words_[at_].text != word) return false;
    ++at_;
    return true;
  }

  bool ReadLauncher() {
    const std::string name(base::BaseName(words_[at_++].text));
    if (IsPython(name)) return ReadPython();
    if (name == "accelerate" && !Next("launch")) return false;
    if (name == "torchrun" || name == "accelerate" || name == "accelerate-launch" ||
        name == "deepspeed") {
      launch_.accelerates = name.starts_with("accelerate");
      ReadLauncherOptions();
      return ReadProgram();
    }
    if (name == "axolotl") return Found(Framework::kAxolotl, Next("train"));
    if (name == "llamafactory-cli" || name == "lmf")
      return Found(Framework::kLlamaFactory, Next("train"));
    if (name == "trl") return ReadTrl();
    if (name == "swift") return Found(Framework::kSwift, Next("sft") || Next("pt"));
    if (IsEngine(name)) {
      launch_.program = name + " serve";
      return Next("serve");
    }
    if (!Next("run")) return false;  // tune
    ReadLauncherOptions();
    if (at_ == words_.size()) return false;
    launch_.framework = Framework::kTorchtune;
    launch_.program = words_[at_++].text;
    if (launch_.program.contains("distributed"))
      launch_.launcher.push_back({"distributed_recipe", "yes", Place("recipe")});
    if (launch_.program.contains("lora"))
      launch_.launcher.push_back({"use_lora", "yes", Place("recipe")});
    return true;
  }

  bool ReadTrl() {
    if (at_ == words_.size()) return false;
    const std::string kind = words_[at_].text;
    launch_.program = "trl " + kind;
    launch_.framework = Framework::kTrl;
    if (!Next("sft") && TrainerKindOf(kind).empty()) return false;
    if (kind != "sft") {
      ++at_;
      launch_.launcher.push_back({std::string(kTrainerKind), kind, Place(launch_.program)});
    }
    return true;
  }

  bool Found(Framework framework, bool trains) {
    launch_.framework = framework;
    launch_.program = base::WordOf(framework);
    return trains;
  }

  bool ReadPython() {
    while (at_ < words_.size() && IsOption(words_[at_]) && words_[at_].text != "-m") {
      if (words_[at_].text == "-c") return false;
      at_ += IsOneOf(words_[at_].text, {"-X", "-W"}) ? 2 : 1;
    }
    if (at_ >= words_.size()) return false;
    if (!Next("-m")) return ReadProgram();
    if (at_ >= words_.size()) return false;
    const std::string module = words_[at_++].text;
    if (IsOneOf(module, {"torch.distributed.run", "torch.distributed.launch",
                         "accelerate.commands.launch", "deepspeed.launcher.runner"})) {
      launch_.accelerates = module.starts_with("accelerate");
      ReadLauncherOptions();
      return ReadProgram();
    }
    launch_.program = module;
    return true;
  }

  // Reads the launcher's options up to the program or to "-m MODULE".
  void ReadLauncherOptions() {
    while (at_ < words_.size() && IsOption(words_[at_])) {
      const std::string& word = words_[at_].text;
      const std::string name = OptionName(word.substr(0, word.find('=')));
      if (name == "m" || name == "module") return;
      ++at_;
      if (word.contains('=')) {
        Keep(launch_.launcher, name, word.substr(word.find('=') + 1), word);
      } else if (IsLauncherFlag(name)) {
        Keep(launch_.launcher, name, "true", word);
      } else if (at_ < words_.size()) {
        if (words_[at_].known) Keep(launch_.launcher, name, words_[at_].text, word);
        ++at_;
      }
    }
  }

  bool ReadProgram() {
    if (at_ < words_.size() && IsOneOf(words_[at_].text, {"-m", "--module"})) ++at_;
    // An unknown word in front of the program may expand to options or to nothing.
    while (at_ + 1 < words_.size() && !words_[at_].known && !IsOption(words_[at_ + 1])) ++at_;
    if (at_ >= words_.size()) return false;
    launch_.program = words_[at_++].text;
    return true;
  }

  // Reads options and arguments of the forms "--name value", "--name=value", "--flag", "name=value"
  // and "recipe.yaml".
  void ReadOptions() {
    while (at_ < words_.size()) {
      const ShellWord& word = words_[at_++];
      const std::size_t equals = word.text.find('=');
      if (IsOption(word)) {
        ReadOption(word, equals);
      } else if (equals != std::string::npos && equals > 0) {
        const std::string spelled = word.text.substr(0, equals);
        Keep(launch_.options, OptionName(spelled),
             word.known ? word.text.substr(equals + 1) : std::string(kUnknownValue), spelled);
      } else if (word.known && IsConfiguration(word.text)) {
        launch_.files.push_back(word.text);
      }
    }
  }

  void ReadOption(const ShellWord& word, std::size_t equals) {
    const std::string spelled = word.text.substr(0, equals);
    const std::string name = OptionName(spelled);
    if (equals != std::string::npos) {
      const std::string value =
          word.known ? word.text.substr(equals + 1) : std::string(kUnknownValue);
      if (name == "job.config_file" && IsConfiguration(value)) launch_.files.push_back(value);
      Keep(launch_.options, name, value, spelled);
      return;
    }
    bool known = true;
    std::vector<std::string> values;
    // An unknown word may expand to nothing, and these switches are usually given without a value.
    if (IsOneOf(name, {"bf16", "fp16", "gradient_checkpointing", "use_peft", "packing"}))
      while (at_ < words_.size() && !words_[at_].known) ++at_;
    while (at_ < words_.size() && !IsOption(words_[at_])) {
      // A word such as "name=value" after an option's value is an override, not another value. An
      // unknown word may be anything.
      const std::string& value = words_[at_].text;
      if (!values.empty() && (value.contains('=') || !words_[at_].known)) break;
      known = known && words_[at_].known;
      values.push_back(value);
      ++at_;
    }
    if ((name == "config" || name == "job.config_file") && values.size() == 1 &&
        IsConfiguration(values.front()) && known)
      launch_.files.push_back(values.front());
    if (!known) values = {std::string(kUnknownValue)};
    Keep(launch_.options, name, values.empty() ? "true" : base::Join(values, ","), spelled);
  }

  std::string Place(std::string_view spelled) const {
    std::string place(place_);
    if (!place.empty()) place += ": ";
    return base::Printable(place + std::string(spelled), 300);
  }

  void Keep(std::vector<Setting>& settings, std::string name, std::string value,
            std::string_view spelled) const {
    const std::string dashed =
        spelled.starts_with('-') ? std::string(spelled) : "--" + std::string(spelled);
    if (settings.size() < kMaxSettings)
      settings.push_back({std::move(name), std::move(value), Place(dashed)});
  }

  // Adds the kind of trainer, taken from the name of a TRL script such as "dpo.py" or
  // "train_ppo.py".
  void AddTrainerKind() {
    if (launch_.framework != Framework::kTrainer) return;
    const std::string kind = TrainerKindOf(base::BaseName(launch_.program));
    if (kind.empty()) return;
    launch_.framework = Framework::kTrl;
    launch_.launcher.push_back({std::string(kTrainerKind), kind, Place(launch_.program)});
  }

  // Marks the servers of inference engines: "vllm serve", "vllm.entrypoints.openai.api_server",
  // "sglang.launch_server".
  void AddEngine() {
    const std::string& program = launch_.program;
    if (IsEngine(program.substr(0, program.find_first_of(" ."))) && program.contains("serve"))
      launch_.launcher.push_back({std::string(kEngine), "true", Place(program)});
  }

  bool HasOption(SettingNames names) const {
    return std::ranges::any_of(launch_.options,
                               [&](const Setting& each) { return IsOneOf(each.key, names); });
  }

  // Recognises the framework by the program's name or its options.
  void Recognise() {
    const std::string program = base::ToLower(launch_.program);
    const std::string_view file = base::BaseName(program);
    const auto has = [&](std::string_view part) { return program.contains(part); };
    if (launch_.framework != Framework::kTrainer) return;
    if (has("axolotl")) {
      launch_.framework = Framework::kAxolotl;
    } else if (has("llamafactory") || HasOption({"finetuning_type", "cutoff_len"})) {
      launch_.framework = Framework::kLlamaFactory;
    } else if (has("swift") || HasOption({"train_type", "tuner_type", "sft_type"})) {
      launch_.framework = Framework::kSwift;
    } else if (file.contains("sft") || file.contains("trl")) {
      launch_.framework = Framework::kTrl;
    }
  }

  Words words_;
  std::string_view place_;
  std::size_t at_ = 0;
  Launch launch_;
};

}  // namespace

std::optional<Launch> LaunchOf(const std::vector<ShellWord>& words, std::string_view place) {
  return CommandReader(words, place).Read();
}

std::optional<NestedScript> NestedScriptOf(const std::vector<ShellWord>& words) {
  std::size_t at = 0;
  while (at < words.size() && !IsOneOf(base::BaseName(words[at].text), {"bash", "sh", "zsh"}) &&
         !words[at].text.ends_with(".sh"))
    ++at;
  if (at == words.size()) return std::nullopt;
  NestedScript nested;
  if (!words[at].text.ends_with(".sh")) ++at;
  while (at < words.size() && IsOption(words[at])) {
    const std::string& option = words[at++].text;
    if (option.ends_with('c') && !option.starts_with("--") && at < words.size()) {
      if (!words[at].known) return std::nullopt;
      nested.text = words[at].text;
      return nested;
    }
  }
  if (at == words.size() || !words[at].known) return std::nullopt;
  nested.path = words[at++].text;
  nested.args.assign(words.begin() + static_cast<std::ptrdiff_t>(at), words.end());
  return nested;
}

}  // namespace carma::estimate
