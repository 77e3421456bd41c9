#include "daemon/loop/configuration.h"

#include <utility>

#include "base/file.h"
#include "base/log.h"
#include "base/try.h"
#include "base/user.h"
#include "config/names.h"

namespace carma::daemon {

Result<std::vector<std::uint32_t>> FindAllowedGroups(const config::Settings& settings) {
  std::vector<std::uint32_t> groups;
  for (const std::string& name : settings.allow_groups) {
    const Result<std::uint32_t> group = base::FindGroup(name);
    if (!group && group.error().code != ErrorCode::kNotFound)
      return base::Wrap(group.error(), config::kAllowGroups);
    groups.push_back(group.value_or(kNoGroup));
  }
  return groups;
}

Result<std::shared_ptr<const estimate::MeasuredProfiles>> ReadMeasuredProfiles(
    const config::Settings& settings) {
  const std::string& path = settings.estimate_profiles;
  if (path.empty()) return nullptr;
  const Result<std::string> text = base::ReadFile(path, profile::kMaxProfilesBytes);
  if (!text) return base::Wrap(text.error(), "estimate.profiles");
  Result<std::vector<profile::WorkloadProfile>> profiles = profile::ParseProfiles(*text, path);
  if (!profiles) return base::Wrap(profiles.error(), "estimate.profiles");
  return std::make_shared<const estimate::MeasuredProfiles>(*std::move(profiles));
}

Configuration::Configuration(std::shared_ptr<boost::asio::io_context> loop, config::Loaded loaded,
                             std::function<config::Sources()> sources, base::Clock& clock,
                             Take take)
    : loaded_(std::move(loaded)),
      sources_(std::move(sources)),
      clock_(clock),
      take_(std::move(take)),
      read_at_(clock.Now()),
      worker_(std::move(loop), BackgroundWorker::AtEnd::kLeave) {}

Result<Configuration::Outcome> Configuration::Read(const config::Sources& sources,
                                                   const config::Loaded& running) {
  config::Reread reread = CARMA_TRY(config::LoadAgain(sources, running));
  // A changed daemon.socket_group takes effect at the next restart. An unknown group would make
  // that restart fail, so such a change is refused now.
  const Result<config::Loaded> next = config::Load(sources);
  CARMA_TRY(next ? config::CheckSocketGroup(next->settings) : Unit{});
  std::vector<std::uint32_t> groups = CARMA_TRY(FindAllowedGroups(reread.loaded.settings));
  auto profiles = CARMA_TRY(ReadMeasuredProfiles(reread.loaded.settings));
  return Outcome{std::move(reread), std::move(groups), std::move(profiles)};
}

void Configuration::ReadAgain() {
  once_more_ = reading_;
  if (std::exchange(reading_, true)) return;
  worker_.Ask([sources = sources_, running = loaded_] { return Read(sources(), running); },
              [this](Result<Outcome> outcome) {
                TakeOutcome(std::move(outcome));
                reading_ = false;
                if (once_more_) ReadAgain();
              });
}

void Configuration::CheckNames() {
  worker_.Ask([settings = loaded_.settings] { return config::UnknownNames(settings); },
              [this](const std::vector<config::NameMistake>& unknown) {
                unknown_groups_.clear();
                for (const auto& [key, what] : unknown) {
                  const std::string& origin = loaded_.origins.at(key).where;
                  base::LogWarn("unknown_name", {{"key", key}, {"why", what}, {"origin", origin}});
                  if (key == config::kAllowGroups) unknown_groups_.push_back(what);
                }
              });
}

void Configuration::TakeOutcome(Result<Outcome> outcome) {
  if (!outcome) {
    trouble_ = outcome.error().message;
    return base::LogError("config_not_read", {{"why", trouble_}});
  }
  config::Reread& reread = outcome->reread;
  for (const std::string& key : reread.changed) {
    base::LogInfo("config_changed", {{"key", key},
                                     {"from", loaded_.origins.at(key).value},
                                     {"to", reread.loaded.origins.at(key).value},
                                     {"origin", reread.loaded.origins.at(key).where}});
  }
  for (const std::string& key : reread.need_restart)
    base::LogWarn("config_needs_restart", {{"key", key}});
  base::LogInfo("config_read",
                {{"changed", reread.changed.size()}, {"need_restart", reread.need_restart.size()}});
  trouble_.clear();
  need_restart_ = std::move(reread.need_restart);
  read_at_ = clock_.Now();
  loaded_ = std::move(reread.loaded);
  CheckNames();
  take_({loaded_.settings, std::move(outcome->allow_groups), std::move(outcome->profiles)});
}

}  // namespace carma::daemon
