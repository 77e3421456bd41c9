#include "estimate/recipe/stated_settings.h"

#include <algorithm>
#include <functional>

#include "base/text.h"
#include "estimate/recipe/post_training.h"

namespace carma::estimate {
namespace {

bool IsNone(const Setting& setting) {
  return IsOneOf(base::ToLower(setting.value), {"none", "null", "~", "", "auto", "false"});
}

}  // namespace

bool IsOneOf(std::string_view word, SettingNames words) {
  return std::ranges::find(words, word) != words.end();
}

std::string PlainName(std::string_view name) {
  std::string plain = base::ToLower(name);
  std::ranges::replace(plain, '-', '_');
  return plain;
}

StatedSettings::StatedSettings(const std::vector<Setting>& settings) {
  for (std::size_t i = 0; i < settings.size(); ++i) {
    Entries& entries = settings[i].value == kUnknownValue ? unknown_ : last_;
    entries[PlainName(settings[i].key)] = {&settings[i], i};
  }
}

const Setting* StatedSettings::Latest(const Entries& entries, SettingNames names) {
  const Entry* latest = nullptr;
  for (const std::string_view name : names) {
    const auto found = entries.find(name);
    if (found != entries.end() && (latest == nullptr || found->second.order > latest->order))
      latest = &found->second;
  }
  return latest == nullptr ? nullptr : latest->setting;
}

const Setting* StatedSettings::Any(SettingNames names) const {
  return Latest(last_, names);
}

const Setting* StatedSettings::Unknown(SettingNames names) const {
  return Latest(unknown_, names);
}

const Setting* StatedSettings::Doubt(SettingNames names) const {
  const Setting* known = Any(names);
  const Setting* unknown = Unknown(names);
  if (known == nullptr || unknown == nullptr) return unknown;
  // Both settings are elements of one list, in which later settings take precedence. But if both
  // are from the same file, the one with the known value takes precedence, because this value may
  // be the default of the other.
  const auto file = [](const Setting& each) { return each.from.substr(0, each.from.find(':')); };
  const bool later = std::less<>()(known, unknown);
  return later && file(*known) != file(*unknown) ? unknown : nullptr;
}

const Setting* StatedSettings::Used(SettingNames names) const {
  const Setting* known = Value(names);
  if (known == nullptr) return Unknown(names);
  const Setting* doubt = Doubt({PlainName(known->key)});
  return doubt != nullptr ? doubt : known;
}

const Setting* StatedSettings::Value(SettingNames names) const {
  const Setting* setting = Any(names);
  return setting == nullptr || IsNone(*setting) ? nullptr : setting;
}

const Setting* StatedSettings::Yes(SettingNames names) const {
  const Setting* setting = Any(names);
  return setting != nullptr && TruthOf(setting->value) == true ? setting : nullptr;
}

bool StatedSettings::No(SettingNames names) const {
  const Setting* setting = Any(names);
  return setting != nullptr && TruthOf(setting->value) == false;
}

std::optional<bool> TruthOf(std::string_view value) {
  const std::string plain = base::ToLower(value);
  if (IsOneOf(plain, {"true", "yes", "on", "1", ""})) return true;
  if (IsOneOf(plain, {"false", "no", "off", "0", "none", "null", "~"})) return false;
  return std::nullopt;
}

std::string PlaceOf(const Setting& setting) {
  // These are CARMA's own keys, which do not occur in files.
  if (IsOneOf(setting.key, {kTrainerKind, kUnsloth, kEngine})) return setting.from;
  // The source of an option already contains its name.
  return setting.from.contains("--") ? setting.from : setting.from + ": " + setting.key;
}

void AddWord(std::string_view name, std::string value, const Setting& setting,
             TrainingWords& words) {
  words.push_back({std::string(name), std::move(value), base::Printable(PlaceOf(setting), 500)});
}

}  // namespace carma::estimate
