#include "daemon/present/server_status.h"

#include <unistd.h>

#include <chrono>
#include <cmath>
#include <utility>
#include <vector>

#include "api/troubles.h"
#include "base/file.h"
#include "daemon/present/present.h"
#include "task/shim/shim_launcher.h"

namespace carma::daemon {
namespace {

std::vector<std::string> Troubles(const StatusSources& of) {
  std::vector<std::string> troubles;
  if (!of.driver_trouble.empty()) troubles.push_back(api::TroubleOfDriver(of.driver_trouble));
  if (!of.missing_gpus.empty()) troubles.push_back(of.missing_gpus);
  if (of.engine != nullptr && !of.engine->store_trouble().empty())
    troubles.push_back(api::TroubleOfStore(of.engine->store_trouble()));
  if (of.engine != nullptr && !of.engine->scheduler().MachineTrouble().empty())
    troubles.push_back("machine: " + of.engine->scheduler().MachineTrouble());
  if (of.engine != nullptr && of.engine->closing())
    troubles.push_back(api::ServerIsClosed(of.engine->closing()->why));
  const base::Duration step = of.clock.WallStep();
  if (std::chrono::abs(step) > base::kClockSlack) {
    troubles.push_back(
        fmt::format("clock: since carmad started, the machine's clock was set {} by {:.0f} s; "
                    "restart carmad to use the new time",
                    step > base::Duration{0} ? "forward" : "back", std::abs(base::Seconds(step))));
  }
  if (base::IsReplaced())
    troubles.emplace_back("carmad: its program was replaced; restart carmad (tasks continue)");
  if (!of.configuration.trouble().empty())
    troubles.push_back(api::TroubleOfConfiguration(of.configuration.trouble()));
  for (const std::string& group : of.configuration.unknown_groups())
    troubles.push_back(api::UnknownGroup(group));
  if (!of.profiles_trouble.empty()) {
    troubles.push_back(api::TroubleOfEstimates(
        fmt::format("{}; correct the file and reload carmad", of.profiles_trouble)));
  }
  if (of.forecast_drift != nullptr) {
    for (const std::string& drift : of.forecast_drift->Sentences())
      troubles.push_back(api::TroubleOfEstimates(drift));
  }
  if (of.mps != nullptr) {
    for (std::string& trouble : of.mps->Troubles()) troubles.push_back(std::move(trouble));
  }
  // If the whole driver does not respond, the GPUs' problems are omitted, because they have the
  // same cause.
  if (of.monitor != nullptr && of.driver_trouble.empty()) {
    for (std::string& trouble : of.monitor->Troubles()) troubles.push_back(std::move(trouble));
  }
  return troubles;
}

}  // namespace

api::StatusView PresentStatus(const StatusSources& of) {
  api::StatusView view;
  view.version = of.version;
  view.uid = ::getuid();
  view.pid = ::getpid();
  view.now_ms = base::ToMs(of.clock.Now());
  view.time_scale = of.clock.Scale();
  view.policy = PolicyLine(of.settings);
  view.collocation = CollocationLine(of.settings, of.monitor);
  if (of.engine != nullptr) {
    view.memory_limits = MemoryLimitsBy(of.settings, of.monitor);
    view.no_memory_limits = of.settings.without_limits;
  }
  view.driver = !of.driver_trouble.empty() ? of.driver_trouble
                : of.monitor != nullptr    ? of.monitor->DriverState()
                                           : "being asked";
  if (of.engine != nullptr) view.host = PresentHost(*of.engine, of.settings.cpu_cap);
  view.starting = of.engine == nullptr && of.driver_trouble.empty();
  if (of.engine != nullptr && of.engine->closing()) {
    const core::ServerClosed& closing = *of.engine->closing();
    view.closed = closing.why;
    view.leave_by_ms = base::ToMs(closing.empty_by);
    const base::Duration ending = of.settings.kill_grace + task::ShimLauncherOptions().hang_margin;
    view.gone_by_ms =
        base::ToMs(closing.empty_by) +
        static_cast<std::int64_t>(static_cast<double>(ending.count()) * view.time_scale);
  }
  if (const auto counts = of.store.Counts()) {
    for (const auto& [state, count] : *counts)
      view.task_counts.emplace_back(core::TaskStateName(state), count);
  }
  view.longest_turn_s = of.counters.longest_turn_s;
  view.troubles = Troubles(of);
  view.state_dir = of.settings.state_dir;
  view.config_file = of.config_file;
  view.config_read_ms = base::ToMs(of.configuration.read_at());
  view.config_needs_restart = of.configuration.need_restart();
  return view;
}

}  // namespace carma::daemon
