// Reads settings as names and values from YAML, JSON, TOML and Python files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace carma::estimate {

struct Setting {
  std::string key;    // nested keys are joined by dots: "optimizer.fused", "datasets.0.path"
  std::string value;  // as written, without quotes; scalars of a list are separated by commas
  std::string from;   // "lora.yaml:7"
  friend bool operator==(const Setting&, const Setting&) = default;
};

// The value of a setting that is stated, but known only when the script runs.
inline constexpr std::string_view kUnknownValue = "?";

// Limits on the number of settings in a file and on their nesting depth.
inline constexpr std::size_t kMaxSettings = 5'000;
inline constexpr int kMaxSettingDepth = 32;

// The position after the closing quote of the quoted text that begins at `at`. npos if there is no
// closing quote.
std::size_t EndOfQuoted(std::string_view text, std::size_t at);

// The value of a scalar without its quotes and escapes.
std::string Unquoted(std::string_view text);

// Reads the subset of YAML that training configurations use: mappings and lists (as blocks or in
// brackets), quotes and comments. Block text (| and >), anchors and aliases are ignored. If the
// text contains several documents, only the first is read. where: the file's name for sources and
// messages. Returns kInvalid ("where:line: …") for tabs as indentation, unclosed brackets or
// quotes, or exceeded limits.
Result<std::vector<Setting>> ReadYaml(std::string_view text, std::string_view where);

// Like ReadYaml(), but for a JSON object. `from` is the file's name. Returns the errors of
// base::ParseJson, prefixed with the file's name, or kInvalid if the text is not an object or
// exceeds the limits.
Result<std::vector<Setting>> ReadJsonSettings(std::string_view text, std::string_view where);

// Reads the subset of TOML that training configurations use: tables, arrays of tables (numbered
// from 0), dotted keys, and values on one line or in brackets over several lines. "[training]
// seq_len = 8_192" is training.seq_len with the value 8192. Text in triple quotes is ignored.
// where: the file's name for sources and messages. Returns kInvalid ("where:line: …") for a line
// that is not a table, key or comment, for unclosed brackets or quotes, or for more than
// kMaxSettings.
Result<std::vector<Setting>> ReadToml(std::string_view text, std::string_view where);

// Reads settings from the text of a training script, which is not executed. Uses only literals
// (numbers, quoted words, lists of them) and the file's variables with literal values. Returns the
// named arguments of calls that configure training (TrainingArguments, SFTConfig, LoraConfig,
// BitsAndBytesConfig, from_pretrained …) or start an inference engine (vLLM's LLM), and the
// defaults of add_argument, dataclass fields and parameters. The settings have the names that
// MeaningOf expects, so LoraConfig's r becomes lora_r. An argument of a call that is not a literal
// has the value kUnknownValue. Returns at most kMaxSettings, in order of appearance. where: the
// file's name.
std::vector<Setting> ReadPythonText(std::string_view text, std::string_view where);

}  // namespace carma::estimate
