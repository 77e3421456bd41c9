// The settings of a training, looked up by the names that frameworks give to one thing.
#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimate/recipe/settings.h"

namespace carma::estimate {

using SettingNames = std::initializer_list<std::string_view>;

// Names with '-' or '_', in any case; if several have the same meaning, the last setting counts.
class StatedSettings {
 public:
  // The settings must live as long as this.
  explicit StatedSettings(const std::vector<Setting>& settings);
  // Null: none of these is stated.
  const Setting* Any(SettingNames names) const;
  // The stated setting, unless it is empty, "none", or left to another program ("auto").
  const Setting* Value(SettingNames names) const;
  // The setting that says yes; null if none does.
  const Setting* Yes(SettingNames names) const;
  bool No(SettingNames names) const;

 private:
  struct Entry {
    const Setting* setting = nullptr;
    std::size_t order = 0;
  };
  std::map<std::string, Entry, std::less<>> last_;
};

// Empty if the value means neither yes nor no.
std::optional<bool> TruthOf(std::string_view value);

// Where the setting was found, with its name.
std::string PlaceOf(const Setting& setting);

}  // namespace carma::estimate
