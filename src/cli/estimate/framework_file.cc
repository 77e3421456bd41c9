#include "cli/estimate/framework_file.h"

#include <algorithm>
#include <initializer_list>

namespace carma::cli {
namespace {

// True if any line begins with one of the keys.
bool HasKey(std::string_view text, std::initializer_list<std::string_view> keys) {
  return std::ranges::any_of(keys, [&](std::string_view key) {
    for (std::size_t at = text.find(key); at != std::string_view::npos;
         at = text.find(key, at + 1)) {
      const bool begins = at == 0 || text[at - 1] == '\n';
      if (begins && at + key.size() < text.size() && text[at + key.size()] == ':') return true;
    }
    return false;
  });
}

bool IsYaml(std::string_view path) {
  return path.ends_with(".yaml") || path.ends_with(".yml");
}

}  // namespace

bool MayBeTraining(std::string_view path) {
  return IsYaml(path) || path.ends_with(".py") || path.ends_with(".toml") ||
         path.ends_with(".json");
}

Result<std::vector<std::string>> CommandOfFile(const std::string& path, std::string_view text) {
  using Words = std::vector<std::string>;
  const auto refuse = [&](std::string_view framework, std::string_view usage) {
    return Invalid("{}: {} configuration files do not name a model; use {}", path, framework,
                   usage);
  };
  if (path.ends_with(".py")) return Words{"python3", path};
  if (path.ends_with(".toml") && text.find("[training]") != std::string_view::npos)
    return Words{"torchrun", "-m", "torchtitan.train", "--job.config_file", path};
  if (path.ends_with(".json") && text.find("\"zero_optimization\"") != std::string_view::npos)
    return refuse("DeepSpeed", "carma estimate --hf-config config.json --deepspeed FILE");
  if (!IsYaml(path)) return Words{};
  if (text.find("_component_:") != std::string_view::npos)
    return Words{"tune", "run", "recipe", "--config", path};
  if (HasKey(text, {"base_model"})) return Words{"axolotl", "train", path};
  if (HasKey(text, {"cutoff_len", "finetuning_type"}))
    return Words{"llamafactory-cli", "train", path};
  if (HasKey(text, {"model_name_or_path"})) return Words{"trl", "sft", "--config", path};
  if (HasKey(text, {"distributed_type"}))
    return refuse("accelerate", "carma estimate -- accelerate launch --config_file FILE train.py");
  return Words{};
}

}  // namespace carma::cli
