// Builds the response to GET /v1/status.
#pragma once

#include <string>
#include <string_view>

#include "api/status_view.h"
#include "base/clock.h"
#include "config/settings.h"
#include "daemon/engine/engine.h"
#include "daemon/engine/forecast_drift.h"
#include "daemon/engine/mps_servers.h"
#include "daemon/gpus/monitor.h"
#include "daemon/loop/configuration.h"
#include "daemon/present/metrics.h"
#include "store/store.h"

namespace carma::daemon {

// All references must be valid for the duration of the call.
struct StatusSources {
  const std::string& version;
  const config::Settings& settings;
  base::Clock& clock;
  store::Store& store;
  const Counters& counters;
  const Configuration& configuration;
  const std::string& driver_trouble;       // as in Sampler
  const std::string& missing_gpus;         // as in Sampler
  std::string_view profiles_trouble = {};  // as in Configuration::InForce
  std::string_view config_file = {};       // as in DaemonOptions
  // Null while no GPU is known.
  const Engine* engine = nullptr;
  const Monitor* monitor = nullptr;
  const ForecastDrift* forecast_drift = nullptr;
  const MpsServers* mps = nullptr;
};

api::StatusView PresentStatus(const StatusSources& of);

}  // namespace carma::daemon
