// `carma config check` and `carma config show`.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <memory>

#include "base/text.h"
#include "base/try.h"
#include "cli/calls.h"
#include "cli/client/verbs.h"
#include "cli/command.h"
#include "config/names.h"
#include "config/settings.h"

namespace carma::cli {
namespace {

struct ConfigFlags {
  std::string file;  // empty for the usual files
  bool origin = false;
  std::vector<std::string> keys;  // keys to show; empty for all
};

// Returns the requested keys. A section name selects all of its keys. Returns kInvalid if a key
// does not exist.
Result<std::vector<config::KeyInfo>> Wanted(const std::vector<std::string>& words) {
  const std::vector<config::KeyInfo> all = config::Keys();
  if (words.empty()) return all;
  std::vector<config::KeyInfo> wanted;
  for (const std::string& word : words) {
    const std::size_t before = wanted.size();
    std::ranges::copy_if(all, std::back_inserter(wanted), [&](const config::KeyInfo& key) {
      return key.name == word || key.name.starts_with(word + ".");
    });
    if (wanted.size() == before)
      return Invalid("'{}': expected a configuration key, such as policy.mapper, or a section",
                     base::Printable(word, 60));
  }
  return wanted;
}

Result<config::Loaded> LoadFor(const ConfigFlags& flags) {
  const std::optional<std::string> file =
      flags.file.empty() ? std::nullopt : std::optional(flags.file);
  return config::Load(config::StandardSources(file, ::geteuid() == 0));
}

// Warns that carmad reads another file than this command does without --config.
void WarnOfOtherFile(Context& context, const ConfigFlags& flags, std::string_view verb,
                     std::string_view effect) {
  if (!flags.file.empty()) return;
  const auto status = GetStatus(context.client());
  if (!status || status->value.config_file.empty()) return;
  Warn(context,
       fmt::format("carmad was started with --config {0}; carma config {1} --config {0} {2}",
                   base::Printable(status->value.config_file, 4096), verb, effect));
}

Result<Unit> RunCheck(Context& context, const ConfigFlags& flags) {
  const config::Loaded loaded = CARMA_TRY(LoadFor(flags));
  if (const Result<Unit> group = config::CheckSocketGroup(loaded.settings); !group)
    return Invalid(group.error().message);
  for (const auto& [key, what] : config::UnknownNames(loaded.settings))
    Warn(context, fmt::format("{}: {}: {}", loaded.origins.at(key).where, key, what));
  WarnOfOtherFile(context, flags, "check", "checks that file");
  const auto set = std::ranges::count_if(
      loaded.origins, [](const auto& each) { return each.second.where != "default"; });
  Print(context, context.json ? fmt::format("{{\"sound\":true,\"set\":{}}}\n", set)
                              : fmt::format("The configuration is valid: {} of {} keys are set.\n",
                                            set, loaded.origins.size()));
  return Unit{};
}

// The configuration in TOML, so that the output can be saved as a configuration file.
std::string ShowText(const config::Loaded& loaded, const std::vector<config::KeyInfo>& keys,
                     bool origin) {
  std::size_t width = 0;
  for (const config::KeyInfo& key : keys) {
    const std::string name = key.name.substr(key.name.find('.') + 1);
    width = std::max(width, name.size() + loaded.origins.at(key.name).value.size() + 3);
  }
  std::string text, section;
  for (const config::KeyInfo& key : keys) {
    const std::size_t dot = key.name.find('.');
    if (key.name.substr(0, dot) != section) {
      text += (section.empty() ? "[" : "\n[") + key.name.substr(0, dot) + "]\n";
      section = key.name.substr(0, dot);
    }
    const config::Origin& value = loaded.origins.at(key.name);
    std::string line = key.name.substr(dot + 1) + " = " + value.value;
    // This default depends on the mapper and the sharing method. A value in a configuration file
    // would apply to every mapper and method, so the line is commented out.
    if (value.where == "default" && config::FollowsMapper(key.name)) line.insert(0, "# ");
    if (origin) {
      line.resize(std::max(line.size(), width), ' ');
      line += "  # " + value.where;
    }
    text += line + "\n";
  }
  return text;
}

// The configuration in JSON. The values need no conversion, because they are written the same way
// in TOML and in JSON.
std::string ShowJson(const config::Loaded& loaded, const std::vector<config::KeyInfo>& keys) {
  std::string text;
  for (const config::KeyInfo& key : keys) {
    const config::Origin& value = loaded.origins.at(key.name);
    text += (text.empty() ? "{" : ",") + JsonString(key.name) + ":{\"value\":" + value.value +
            ",\"origin\":" + JsonString(value.where) +
            ",\"live\":" + (key.live ? "true" : "false") + "}";
  }
  return text + "}\n";
}

Result<Unit> RunShowConfig(Context& context, const ConfigFlags& flags) {
  const config::Loaded loaded = CARMA_TRY(LoadFor(flags));
  const auto keys = CARMA_TRY(Wanted(flags.keys));
  WarnOfOtherFile(context, flags, "show", "shows that file's values");
  Print(context, context.json ? ShowJson(loaded, keys) : ShowText(loaded, keys, flags.origin));
  return Unit{};
}

}  // namespace

void AddConfigCommand(Syntax app, Context& context) {
  const Syntax verb = app.AddVerb("config", "Check or show the daemon's configuration");
  verb.NeedsVerb();
  verb.Footer(
      "  carma config check --config new.toml\n"
      "  carma config show --origin\n"
      "  carma config show policy idle.after\n"
      "Reads the same files and environment variables as this user's daemon. The keys are "
      "explained in\n"
      "docs/server/configuration.md. Every verb also takes --json.");
  auto flags = std::make_shared<ConfigFlags>();
  const Syntax check = verb.AddVerb("check", "Check whether the configuration is valid");
  const Syntax show = verb.AddVerb("show", "Print all values in effect");
  for (const Syntax each : {check, show})
    each.AddOption("--config", "FILE", flags->file, "read this file instead of the default ones");
  show.AddOption("keys", "", flags->keys, "only these keys or sections");
  show.AddFlag("--origin", flags->origin, "also show where each value comes from");
  check.OnRun([&context, flags] { context.Report(RunCheck(context, *flags)); });
  show.OnRun([&context, flags] { context.Report(RunShowConfig(context, *flags)); });
}

}  // namespace carma::cli
