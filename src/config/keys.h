// The single table of all configuration keys: how they are parsed, their ranges and their defaults.
// `carma config show` prints it, and a test compares the documentation with it.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "config/settings.h"

namespace carma::config {

// The TOML types that a key accepts in a file. Values from the environment and from flags are text,
// which can represent any of these types.
enum Form : unsigned { kText = 1, kNumber = 2, kBool = 4, kTextList = 8, kNumberList = 16 };

// When a changed value takes effect after a running daemon rereads its configuration.
enum class Takes {
  kLive,     // immediately, for the next decision, task or log line
  kRestart,  // only after a restart
};

// The environment variable that sets a key: "CARMA_POLICY_SM_CAP" for "policy.sm_cap".
std::string VariableOf(std::string_view name);

struct Key {
  std::string name;     // "policy.sm_cap"
  std::string type;     // what is expected, for messages and documentation
  std::string meaning;  // one line
  unsigned forms = 0;   // of Form, or-ed
  // Sets the value. If the text does not match `type`, returns false and leaves the settings
  // unchanged. A list is one string with commas between its items.
  std::function<bool(Settings&, std::string_view)> set;
  // Returns the value as it would appear in the configuration file: "magm" (with its quotes), 0.8,
  // false, ["ada"].
  std::function<std::string(const Settings&)> get;
  std::function<void(Settings& to, const Settings& from)> copy;
  Takes takes = Takes::kLive;
  // Describes what is wrong with text that `set` rejects, and where. Absent if `type` explains
  // enough.
  std::function<std::string(std::string_view)> trouble = {};

  std::string Variable() const { return VariableOf(name); }
};

// All keys in documentation order, grouped by section.
const std::vector<Key>& AllKeys();
const Key* FindKey(std::string_view name);

}  // namespace carma::config
