// Reads settings from YAML, JSON and command-line options as names and values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace carma::estimate {

struct Setting {
  std::string key;    // nested mappings have dots: "optimizer.fused", "datasets.0.path"
  std::string value;  // as written, without quotes; scalars of a list are separated by commas
  std::string from;   // "lora.yaml:7"
  friend bool operator==(const Setting&, const Setting&) = default;
};

// Limits on the settings of one file and on their nesting.
inline constexpr std::size_t kMaxSettings = 5'000;
inline constexpr int kMaxSettingDepth = 32;

// Reads the part of YAML that training configurations use: mappings and lists (as blocks or in
// brackets), quotes and comments. Block text (| and >), anchors and aliases are ignored. Only the
// first of several documents is read. where: the file's name for sources and messages. Errors:
// kInvalid "where:line: …" for tabs as indentation, brackets or quotes without an end, or exceeded
// limits.
Result<std::vector<Setting>> ReadYaml(std::string_view text, std::string_view where);

// Reads a JSON object in the same way; `from` is the file's name. Errors: those of base::ParseJson,
// with the name; kInvalid if the text is not an object or exceeds the limits.
Result<std::vector<Setting>> ReadJsonSettings(std::string_view text, std::string_view where);

}  // namespace carma::estimate
