// Looks up training settings, which each framework names differently.
#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimate/recipe/plan_files.h"
#include "estimate/recipe/settings.h"

namespace carma::estimate {

using SettingNames = std::initializer_list<std::string_view>;

// Names are case-insensitive, and '-' and '_' are equivalent. If several names have the same
// meaning, the last setting is used. Only Unknown(), Doubt() and Used() return settings with
// kUnknownValue.
class StatedSettings {
 public:
  // The settings must outlive this object.
  explicit StatedSettings(const std::vector<Setting>& settings);
  // The last setting with one of these names. Null if there is none.
  const Setting* Any(SettingNames names) const;
  // Like Any(), but null if the value is empty, "none", or left to another program ("auto").
  const Setting* Value(SettingNames names) const;
  // Like Any(), but null unless the value means yes.
  const Setting* Yes(SettingNames names) const;
  bool No(SettingNames names) const;
  // The last setting with one of these names whose value is unknown. Null if there is none.
  const Setting* Unknown(SettingNames names) const;
  // Like Unknown(), but null if the result of Any() takes precedence, because it was stated later
  // or in the same file.
  const Setting* Doubt(SettingNames names) const;
  // Like Value(), but unknown if this option is in doubt, or if no value is known. An unknown value
  // of another option does not replace a known one.
  const Setting* Used(SettingNames names) const;

 private:
  struct Entry {
    const Setting* setting = nullptr;
    std::size_t order = 0;
  };
  using Entries = std::map<std::string, Entry, std::less<>>;
  static const Setting* Latest(const Entries& entries, SettingNames names);
  Entries last_;
  Entries unknown_;
};

bool IsOneOf(std::string_view word, SettingNames words);
// The form in which names are compared: "Max-Len" -> "max_len".
std::string PlainName(std::string_view name);
// True for a value that means yes, false for one that means no. Empty for any other value.
std::optional<bool> TruthOf(std::string_view value);

// Where the setting was found, with the setting's name.
std::string PlaceOf(const Setting& setting);
// Adds a word to the plan, with the setting as its source.
void AddWord(std::string_view name, std::string value, const Setting& setting,
             TrainingWords& words);

}  // namespace carma::estimate
