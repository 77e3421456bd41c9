// The configuration of a running daemon: what is in force, and how it is read again.
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

// Numbers of the groups of daemon.allow_groups. May wait for a name service. Errors: kNotFound, …:
// as base::FindGroup.
base::Result<std::vector<std::uint32_t>> FindAllowedGroups(const config::Settings& settings);

// The file of estimate.profiles; null: none is named. Errors: kNotFound, kInvalid with the line, …
base::Result<std::shared_ptr<const estimate::MeasuredProfiles>> ReadMeasuredProfiles(
    const config::Settings& settings);

// Lives on the loop. Files and groups are asked for on a thread, which may hang.
class Configuration {
 public:
  // What everybody goes by.
  struct InForce {
    config::Settings settings;  // keys that need a restart have their values of before
    std::vector<std::uint32_t> allow_groups;
    std::shared_ptr<const estimate::MeasuredProfiles> profiles;
  };

  using Take = std::function<void(InForce)>;

  // sources: says where to read it; called on the thread. take: called for each sound reading, also
  // if nothing has changed. clock: outlives it.
  Configuration(std::shared_ptr<boost::asio::io_context> loop, config::Loaded loaded,
                std::function<config::Sources()> sources, base::Clock& clock, Take take);

  // Soon, once. What comes of it is logged: each changed key, each key that needs a restart, or
  // what is wrong, one line each. Asked again meanwhile, it is read once more afterwards.
  void ReadAgain();

  base::Time read_at() const { return read_at_; }  // when what is in force was last read
  // Why the last reading changed nothing; empty: it was sound.
  const std::string& trouble() const { return trouble_; }
  // Keys whose values in the files are not those in force.
  const std::vector<std::string>& need_restart() const { return need_restart_; }

 private:
  struct Outcome {
    config::Reread reread;
    std::vector<std::uint32_t> allow_groups;
    std::shared_ptr<const estimate::MeasuredProfiles> profiles;
  };
  static base::Result<Outcome> Read(const config::Sources& sources, const config::Loaded& running);
  void TakeOutcome(base::Result<Outcome> outcome);

  config::Loaded loaded_;
  std::function<config::Sources()> sources_;
  base::Clock& clock_;
  Take take_;
  base::Time read_at_;
  std::string trouble_;
  std::vector<std::string> need_restart_;
  bool reading_ = false;
  bool once_more_ = false;
  BackgroundWorker worker_;
};

}  // namespace carma::daemon
