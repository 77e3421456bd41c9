// Reads settings from YAML, JSON and command-line options as names and values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace carma::estimate {

struct Setting {
  std::string key;    // of nested mappings with dots: "optimizer.fused", "datasets.0.path"
  std::string value;  // as written, without quotes; scalars of a list are separated by commas
  std::string from;   // "lora.yaml:7"
  friend bool operator==(const Setting&, const Setting&) = default;
};

// Maximum number of settings in one file, and their maximum nesting.
inline constexpr std::size_t kMaxSettings = 5'000;
inline constexpr int kMaxSettingDepth = 32;

// Reads the part of YAML that training configurations use: mappings and lists, in blocks and in
// brackets, quotes, comments. Text in blocks (| and >), anchors and aliases are ignored; of several
// documents only the first is read. where: the file's name for sources and messages. Errors:
// kInvalid "where:line: …": tabs as indentation, brackets or quotes without an end, or more than
// the limits above.
Result<std::vector<Setting>> ReadYaml(std::string_view text, std::string_view where);

// Reads a JSON object in the same way; `from` is the file's name. Errors: those of base::ParseJson,
// with the name; kInvalid if it is not an object or exceeds the limits.
Result<std::vector<Setting>> ReadJsonSettings(std::string_view text, std::string_view where);

}  // namespace carma::estimate
