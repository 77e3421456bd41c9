#include "config/settings.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>

#include "base/file.h"
#include "base/suggest.h"
#include "base/text.h"
#include "base/try.h"
#include "config/keys.h"
#include "config/names.h"
#include "config/toml_text.h"
#include "core/scheduler/published_rules.h"

namespace carma::config {

namespace {

constexpr std::size_t kMaxSettingsBytes = 1 << 20;

std::string ValueOr(const std::map<std::string, std::string>& environment, const char* name,
                    const std::string& fallback) {
  const auto found = environment.find(name);
  return found == environment.end() || found->second.empty() ? fallback : found->second;
}

// Sets the default paths. For a daemon run by an ordinary user, they follow the XDG Base Directory
// Specification.
void SetDefaultPaths(const Sources& sources, Settings& settings) {
  if (sources.root) {
    settings.socket = "/run/carma/carmad.sock";
    settings.state_dir = "/var/lib/carma";
    settings.mps_dir = "/run/carma/mps";
    return;
  }
  const auto& environment = sources.environment;
  const std::string home = ValueOr(environment, "HOME", "/nonexistent");
  settings.socket = OwnSocketPath(ValueOr(environment, "XDG_RUNTIME_DIR", ""));
  settings.state_dir = ValueOr(environment, "XDG_STATE_HOME", home + "/.local/state") + "/carma";
  settings.mps_dir = settings.socket.substr(0, settings.socket.rfind('/')) + "/mps";
}

std::string Suggest(const std::optional<std::string>& nearest) {
  return nearest ? fmt::format(", did you mean {}?", *nearest) : "";
}

// Finds the key that was probably meant. A key written without its section is the best match.
std::optional<std::string> NearestKey(const std::string& name) {
  std::vector<std::string> names;
  for (const Key& key : AllKeys()) {
    if (key.name.ends_with("." + name)) return key.name;
    names.push_back(key.name);
  }
  return base::DidYouMean(name, names, 3);
}

// The keys whose defaults depend on the mapper (core::MapperValues).
constexpr std::array<std::string_view, 6> kKeysOfMapper{"policy.sm_cap",   "policy.margin",
                                                        "policy.floor",    "policy.min_gain",
                                                        "policy.backfill", "policy.pass_limit"};

}  // namespace

bool FollowsMapper(std::string_view key) {
  return std::ranges::find(kKeysOfMapper, key) != kKeysOfMapper.end();
}

namespace {

// Few tasks share a GPU under streams, so the head of the queue waits a long time; backfill lets
// other tasks start meanwhile.
constexpr std::string_view kTurnsMapper = "magm";
constexpr int kTurnsBackfill = 10;

// Uses by-work only under MPS, where it pays off (docs/evidence/policies.md). Under streams and
// MIG, it has no benefit on a server that has not learned from earlier runs.
std::string_view MapperWhere(core::SharingMethod method, const Settings& settings) {
  if (method == core::SharingMethod::kAlone) return core::kNeverSharing;
  const bool pays = method == core::SharingMethod::kMps && !settings.divided && !settings.published;
  return pays ? "by-work" : kTurnsMapper;
}

// Sets the mapper for this sharing method, and applies the mapper's defaults to keys that are not
// configured.
void UseMapper(Settings& settings, core::SharingMethod method) {
  settings.policy.mapper =
      settings.mapper == kAutoMapper ? MapperWhere(method, settings) : settings.mapper;
  if (settings.published) return;
  Settings brought;
  brought.policy.mapper = settings.policy.mapper;
  core::UseMapperValues(brought.policy);
  for (const std::string_view name : kKeysOfMapper) {
    if (!settings.chosen.contains(name)) FindKey(name)->copy(settings, brought);
  }
  const bool turns = method == core::SharingMethod::kStreams && !settings.divided;
  if (turns && settings.policy.mapper == kTurnsMapper &&
      !settings.chosen.contains("policy.backfill"))
    settings.policy.backfill = kTurnsBackfill;
}

// Loads the configuration once. Holds the settings read so far and the origin of each value.
class Loading {
 public:
  explicit Loading(const Sources& sources) {
    SetDefaultPaths(sources, loaded_.settings);
    for (const Key& key : AllKeys()) loaded_.origins[key.name].where = "default";
  }

  Result<Unit> AddFile(const std::string& path, bool optional) {
    std::error_code none;
    const bool link = std::filesystem::is_symlink(std::filesystem::symlink_status(path, none));
    if (optional && !link && !base::Exists(path)) return Unit{};
    Result<std::string> text = base::ReadFile(path, kMaxSettingsBytes);
    if (!text && text.error().code == ErrorCode::kNotFound)
      return Invalid("configuration: {}{}", text.error().message,
                     link ? ": the link is broken; restore its target or remove the link" : "");
    if (!text) return base::Wrap(text.error(), "configuration");
    return AddText(path, *text);
  }

  Result<Unit> AddText(const std::string& path, std::string_view text) {
    std::vector<Entry> entries = CARMA_TRY(ParseToml(path, text));
    for (const Entry& entry : entries) {
      const std::string where = fmt::format("{}:{}", path, entry.line);
      const Key* key = FindKey(entry.name);
      if (key == nullptr) {
        Note(Unknown(where, entry.name).error());
      } else if ((key->forms & entry.form) == 0) {
        Note(WrongForm(where, *key, entry).error());
      } else if (Result<Unit> set = Set(*key, entry.text, where); !set) {
        Note(set.error());
      }
    }
    return Unit{};
  }

  // Reports the errors from all sources in one line, so the user can correct them in one pass.
  Result<Unit> Mistakes() const {
    if (mistakes_.empty()) return Unit{};
    constexpr std::size_t kMost = 20;
    std::vector<std::string> shown(
        mistakes_.begin(),
        mistakes_.begin() + static_cast<std::ptrdiff_t>(std::min(kMost, mistakes_.size())));
    if (mistakes_.size() > kMost)
      shown.push_back(fmt::format("and {} more mistakes", mistakes_.size() - kMost));
    return Invalid(base::Join(shown, "; "));
  }

  Result<Unit> AddEnvironment(const std::map<std::string, std::string>& environment) {
    std::vector<std::string> variables;
    for (const Key& key : AllKeys()) {
      variables.push_back(key.Variable());
      const auto found = environment.find(variables.back());
      if (found == environment.end()) continue;
      if (Result<Unit> set = Set(key, found->second, found->first); !set) Note(set.error());
    }
    for (const auto& [name, value] : environment) {
      if (!name.starts_with("CARMA_") || std::ranges::count(variables, name) > 0) continue;
      const std::optional<std::string> nearest = base::DidYouMean(name, variables, 2);
      if (nearest) Note({ErrorCode::kInvalid, name + ": no such key" + Suggest(nearest)});
    }
    return Unit{};
  }

  Result<Unit> AddOverrides(const std::vector<std::pair<std::string, std::string>>& overrides) {
    for (const auto& [name, value] : overrides) {
      std::string flag = "--" + name.substr(name.rfind('.') + 1);
      std::replace(flag.begin(), flag.end(), '_', '-');
      const Key* key = FindKey(name);
      if (key == nullptr) {
        Note(Unknown(flag, name).error());
      } else if (Result<Unit> set = Set(*key, value, flag); !set) {
        Note(set.error());
      }
    }
    return Unit{};
  }

  // Keeps the running daemon's value of the key, and its origin.
  void Keep(const Key& key, const Loaded& running) {
    key.copy(loaded_.settings, running.settings);
    if (running.settings.chosen.contains(key.name)) {
      loaded_.settings.chosen.insert(key.name);
    } else {
      loaded_.settings.chosen.erase(key.name);
    }
    loaded_.origins[key.name].where = running.origins.at(key.name).where;
  }

  Result<Loaded> Finish() {
    Settings& settings = loaded_.settings;
    for (const NameMistake& each : NameMistakes(settings))
      Note(Contradiction(each.key, each.what).error());
    CARMA_TRY(Mistakes());
    if (settings.collocation == core::SharingMethod::kAlone)
      Decide("collocation.method", [&] { settings.mapper = core::kNeverSharing; });
    if (settings.sm_partitions && !settings.chosen.contains("collocation.mps_servers"))
      Decide("collocation.sm_partitions", [&] { settings.mps_servers = task::MpsScope::kGpu; });
    const auto method = settings.collocation.value_or(core::SharingMethod::kMps);
    if (settings.chosen.contains("policy.mapper")) {
      Decide("policy.mapper", [&] { UseMapper(settings, method); });
    } else {
      UseMapper(settings, method);
    }
    if (settings.published) {
      Result<core::PolicyConfig> policy = core::AsPublished(*settings.published, settings.policy);
      if (!policy) return Contradiction("policy.published", policy.error().message);
      Decide("policy.published", [&] { settings.policy = *std::move(policy); });
    }
    if (Result<Unit> valid = core::Validate(settings.policy); !valid)
      return WrongPolicy(valid.error());
    if (settings.window < settings.sample_period) {
      return Contradiction("monitor.window", "expected at least monitor.sample_period",
                           "monitor.sample_period");
    }
    if (settings.policy.stale_after <= settings.sample_period) {
      return Contradiction(
          "policy.stale_after",
          "expected more than monitor.sample_period; otherwise every GPU would be closed",
          "monitor.sample_period");
    }
    CARMA_TRY(CheckIdle());
    CARMA_TRY(CheckMps());
    for (const Key& key : AllKeys()) loaded_.origins[key.name].value = key.get(settings);
    return std::move(loaded_);
  }

 private:
  void Note(base::Error mistake) { mistakes_.push_back(std::move(mistake.message)); }

  Result<Unit> CheckIdle() {
    using core::IdleAction;
    const Settings& settings = loaded_.settings;
    const IdleAction action = settings.policy.idle_action;
    if (!settings.idle_after && action != IdleAction::kTell) {
      return Contradiction(
          "idle.action",
          "expected \"tell\" while idle.after is false, because idle tasks are then not detected");
    }
    if (settings.idle_after && *settings.idle_after < settings.sample_period) {
      return Contradiction("idle.after", "expected at least monitor.sample_period",
                           "monitor.sample_period");
    }
    if (action == IdleAction::kShare && !core::Shares(settings.policy)) {
      return Contradiction("idle.action",
                           "expected \"tell\" or \"end\" with policy.mapper = \"exclusive\", which "
                           "never shares a GPU");
    }
    return Unit{};
  }

  // Also checks the default mps_dir: an ordinary user's default comes from the environment and has
  // not been checked yet.
  Result<Unit> CheckMps() {
    const Settings& settings = loaded_.settings;
    if (settings.sm_partitions && settings.mps_servers != task::MpsScope::kGpu) {
      return Contradiction("collocation.sm_partitions",
                           "expected false unless collocation.mps_servers is \"gpu\"");
    }
    if (settings.collocation != core::SharingMethod::kMps)
      return Unit{};  // "auto" works without MPS
    const Key* key = FindKey("collocation.mps_dir");
    Settings probe;
    if (key->set(probe, settings.mps_dir)) return Unit{};
    return Contradiction(key->name, fmt::format("expected {}, not '{}'", key->type,
                                                base::Printable(settings.mps_dir, 120)));
  }

  Result<Unit> Set(const Key& key, std::string_view text, const std::string& where) {
    if (!key.set(loaded_.settings, text)) return WrongValue(where, key, text);
    loaded_.origins[key.name].where = where;
    return Unit{};
  }

  // Applies a key that sets other keys, and records this key as the origin of their values.
  template <class Change>
  void Decide(const std::string& by, Change change) {
    const Settings before = loaded_.settings;
    change();
    for (const Key& key : AllKeys()) {
      if (key.get(before) == key.get(loaded_.settings)) continue;
      loaded_.origins[key.name].where = fmt::format("{} ({})", by, loaded_.origins[by].where);
    }
  }

  static std::unexpected<base::Error> WrongForm(const std::string& where, const Key& key,
                                                const Entry& entry) {
    const auto comma = std::ranges::find_if(
        entry.items, [](const std::string& item) { return item.find(',') != item.npos; });
    if (comma == entry.items.end() || (key.forms & kTextList) == 0)
      return WrongValue(where, key, entry.text);
    return Invalid("{}: {}: '{}' must not contain a comma", where, key.name,
                   base::Printable(*comma, 100));
  }

  static std::unexpected<base::Error> WrongValue(const std::string& where, const Key& key,
                                                 std::string_view text) {
    const std::string trouble = key.trouble ? key.trouble(text) : "";
    // For a list, `trouble` already contains the invalid item and what was expected.
    if ((key.forms & kTextList) != 0 && !trouble.empty())
      return Invalid("{}: {}: {}", where, key.name, trouble);
    const std::string got =
        text.empty() ? "" : fmt::format(", not '{}'", base::Printable(text, 60));
    const std::string why = trouble.empty() ? "" : ": " + trouble;
    return Invalid("{}: {}: expected {}{}{}", where, key.name, key.type, got, why);
  }

  static std::unexpected<base::Error> Unknown(const std::string& where, const std::string& name) {
    const bool is_section = std::ranges::any_of(
        AllKeys(), [&](const Key& key) { return key.name.starts_with(name + "."); });
    if (is_section) return Invalid("{}: {}: expected a section, [{}]", where, name, name);
    return Invalid("{}: {}: no such key{}", where, base::Printable(name, 80),
                   Suggest(NearestKey(name)));
  }

  // other: the key to blame if `name` is at its default value.
  std::unexpected<base::Error> Contradiction(const std::string& name, const std::string& what,
                                             const std::string& other = "") {
    const bool set = other.empty() || loaded_.settings.chosen.contains(name);
    return Invalid("{}: {}: {}", loaded_.origins[set ? name : other].where, name, what);
  }

  // Messages from the core begin with a field's name, such as "sm_cap" (for policy.sm_cap) or
  // "slots.length".
  std::unexpected<base::Error> WrongPolicy(const base::Error& error) {
    const std::size_t colon = error.message.find(": ");
    const std::string field = error.message.substr(0, colon);
    for (const std::string& name : {"policy." + field, field}) {
      if (FindKey(name) != nullptr) return Contradiction(name, error.message.substr(colon + 2));
    }
    return base::Wrap(error, "policy");
  }

  Loaded loaded_;
  std::vector<std::string> mistakes_;
};

Result<Loading> ReadAll(const Sources& sources) {
  Loading loading(sources);
  for (const auto& [path, optional] : sources.files) CARMA_TRY(loading.AddFile(path, optional));
  CARMA_TRY(loading.AddEnvironment(sources.environment));
  CARMA_TRY(loading.AddOverrides(sources.overrides));
  CARMA_TRY(loading.Mistakes());
  return loading;
}

// True if the key must keep its value until a restart. Running tasks depend on the sharing method
// in force when they started. A daemon that has never shared GPUs has not checked which methods
// work.
bool MustStay(const Key& key, const Settings& wanted, const Settings& running) {
  if (key.name == "policy.mapper")
    return core::Shares(wanted.policy) != core::Shares(running.policy);
  return key.takes == Takes::kRestart;
}

// The files in carma.d that end in .toml, sorted by name.
std::vector<std::string> DropIns(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code ignored;  // a missing folder contains no files
  std::filesystem::directory_iterator each(folder, ignored);
  for (; each != std::filesystem::directory_iterator(); each.increment(ignored)) {
    if (each->path().extension() == ".toml") paths.push_back(each->path().string());
  }
  std::ranges::sort(paths);
  return paths;
}

}  // namespace

std::string_view CollocationName(core::SharingMethod method) {
  return method == core::SharingMethod::kAlone ? "exclusive" : base::WordOf(method);
}

core::PolicyConfig PolicyFor(const Settings& settings, core::SharingMethod method) {
  Settings decided = settings;
  UseMapper(decided, method);
  core::PolicyConfig policy = std::move(decided.policy);
  policy.sharing = method == core::SharingMethod::kMps ? core::SharingMethod::kMps
                                                       : core::SharingMethod::kStreams;
  policy.gangs_take_turns = settings.mps_servers == task::MpsScope::kGpu && !settings.published;
  policy.users_take_turns = settings.mps_servers != task::MpsScope::kShared;
  if (method != core::SharingMethod::kStreams || settings.published) return policy;
  policy.sm_cap = policy.streams_sm_cap;
  policy.max_tasks_per_gpu = policy.streams_tasks;
  return policy;
}

std::string OwnSocketPath(const std::string& runtime_dir) {
  const std::string folder =
      runtime_dir.empty() ? "/tmp/carma-" + std::to_string(::getuid()) : runtime_dir;
  return folder + "/carma/carmad.sock";
}

Sources StandardSources(const std::optional<std::string>& file, bool root) {
  Sources sources;
  sources.root = root;
  for (const auto& [name, value] : base::OwnEnvironment()) {
    if (name.starts_with("CARMA_") || name == "HOME" || name.starts_with("XDG_"))
      sources.environment[name] = value;
  }
  if (file) {
    sources.files.emplace_back(*file, false);
    return sources;
  }
  sources.files.emplace_back("/etc/carma/carma.toml", true);
  for (std::string& path : DropIns("/etc/carma/carma.d"))
    sources.files.emplace_back(std::move(path), true);
  if (!root) {
    const std::string home = ValueOr(sources.environment, "HOME", "/nonexistent");
    sources.files.emplace_back(
        ValueOr(sources.environment, "XDG_CONFIG_HOME", home + "/.config") + "/carma/config.toml",
        true);
  }
  return sources;
}

Result<Loaded> Load(const Sources& sources) {
  Loading loading = CARMA_TRY(ReadAll(sources));
  return loading.Finish();
}

Result<Reread> LoadAgain(const Sources& sources, const Loaded& running) {
  const Loading loading = CARMA_TRY(ReadAll(sources));
  const Loaded wanted = CARMA_TRY(Loading(loading).Finish());
  Loading kept = loading;
  Reread reread;
  for (const Key& key : AllKeys()) {
    if (wanted.origins.at(key.name).value == running.origins.at(key.name).value) continue;
    if (!MustStay(key, wanted.settings, running.settings)) continue;
    kept.Keep(key, running);
    reread.need_restart.push_back(key.name);
  }
  // Validates again, because the kept values may contradict new values or set other keys.
  Result<Loaded> loaded = kept.Finish();
  if (!loaded) {
    return base::Wrap(
        loaded.error(),
        fmt::format("conflict with keys that keep their old values until a restart ({})",
                    base::Join(reread.need_restart, ", ")));
  }
  for (const Key& key : AllKeys()) {
    if (loaded->origins.at(key.name).value != running.origins.at(key.name).value)
      reread.changed.push_back(key.name);
  }
  reread.loaded = *std::move(loaded);
  return reread;
}

Result<Loaded> LoadText(const std::string& name, std::string_view text, bool root) {
  Sources sources;
  sources.root = root;
  Loading loading(sources);
  CARMA_TRY(loading.AddText(name, text));
  CARMA_TRY(loading.Mistakes());
  return loading.Finish();
}

std::vector<KeyInfo> Keys() {
  Settings defaults;
  SetDefaultPaths({.root = true}, defaults);
  UseMapper(defaults, core::SharingMethod::kMps);
  std::vector<KeyInfo> keys;
  for (const Key& key : AllKeys())
    keys.push_back({key.name, key.type, key.get(defaults), key.meaning, key.takes == Takes::kLive});
  return keys;
}

}  // namespace carma::config
