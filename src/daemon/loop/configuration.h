// Holds the settings that a running daemon uses, and reloads the configuration on request.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "config/settings.h"
#include "daemon/loop/background_worker.h"
#include "estimate/measured_profiles.h"

namespace carma::daemon {

// A GID that does not belong to any group.
inline constexpr std::uint32_t kNoGroup = 0xFFFF'FFFF;
// The GIDs of daemon.allow_groups. A group that does not exist becomes kNoGroup, because an empty
// list would allow everybody. May block on a name service. Fails with kUnavailable.
Result<std::vector<std::uint32_t>> FindAllowedGroups(const config::Settings& settings);

// Reads the file named by estimate.profiles; null if none is configured. Fails, for example, with
// kNotFound, or with kInvalid and the line number.
Result<std::shared_ptr<const estimate::MeasuredProfiles>> ReadMeasuredProfiles(
    const config::Settings& settings);

// Used only on the loop's thread. Another thread, which may hang, reads files and groups.
class Configuration {
 public:
  struct InForce {
    config::Settings settings;  // keys that need a restart keep their old values
    std::vector<std::uint32_t> allow_groups;
    std::shared_ptr<const estimate::MeasuredProfiles> profiles;
    std::string profiles_trouble;  // why the profiles could not be read at the start
  };

  using Take = std::function<void(InForce)>;

  // sources: returns where to read the configuration from; called on the reading thread. take:
  // called after each successful reload, even if nothing has changed. clock must outlive this
  // object.
  Configuration(std::shared_ptr<boost::asio::io_context> loop, config::Loaded loaded,
                std::function<config::Sources()> sources, base::Clock& clock, Take take);

  // Starts reloading the configuration. Logs one line for each changed key, for each key that needs
  // a restart, and for each error. If a reload is already in progress, another one follows.
  void ReadAgain();

  // Logs which users and groups in the settings do not exist on this machine. The other thread
  // looks them up. ReadAgain() includes this check.
  void CheckNames();

  base::Time read_at() const { return read_at_; }  // when the settings in force were read
  // Why the configuration was ignored when it was last read; empty if it was valid.
  const std::string& trouble() const { return trouble_; }
  // Errors about daemon.allow_groups that CheckNames() found, such as "no group 'vision'".
  const std::vector<std::string>& unknown_groups() const { return unknown_groups_; }
  // Keys whose configured values are not in force yet.
  const std::vector<std::string>& need_restart() const { return need_restart_; }

 private:
  struct Outcome {
    config::Reread reread;
    std::vector<std::uint32_t> allow_groups;
    std::shared_ptr<const estimate::MeasuredProfiles> profiles;
  };
  static Result<Outcome> Read(const config::Sources& sources, const config::Loaded& running);
  void TakeOutcome(Result<Outcome> outcome);

  config::Loaded loaded_;
  std::function<config::Sources()> sources_;
  base::Clock& clock_;
  Take take_;
  base::Time read_at_;
  std::string trouble_;
  std::vector<std::string> need_restart_, unknown_groups_;
  bool reading_ = false;
  bool once_more_ = false;
  BackgroundWorker worker_;
};

}  // namespace carma::daemon
