#include "daemon/engine/launching.h"

#include <optional>
#include <utility>
#include <vector>

#include "base/log.h"
#include "task/describe/spec_json.h"
#include "task/shim/shim_launcher.h"

namespace carma::daemon {

using base::Result;

Result<Launching> OpenLaunching(const config::Settings& settings, const std::string& shim_path) {
  Launching opened;
  task::ShimLauncherOptions options{shim_path, {}};
  if (settings.cgroups) options.cgroup = task::FindCgroupBase();
  opened.controls = task::EnableControls(options.cgroup);
  if (!settings.cgroups) opened.controls.why_not = "task.cgroups is false";
  opened.processes_counted_by_user =
      !options.cgroup.path.empty() && settings.max_processes > 0 && !opened.controls.processes;
  opened.machine = task::ReadHostFacts("", options.cgroup.path);
  Result<std::unique_ptr<task::Launcher>> shims = task::MakeShimLauncher(std::move(options));
  if (!shims) return std::unexpected(shims.error());
  Result<std::unique_ptr<task::LeaseLauncher>> leases =
      task::LeaseLauncher::Make(*std::move(shims), {.ends_dir = settings.socket + ".ends"});
  if (!leases) return std::unexpected(leases.error());
  opened.launcher = *std::move(leases);
  return opened;
}

void WatchWaitingLeases(store::Store& store, task::LeaseLauncher& launcher) {
  const Result<std::vector<store::StoredTask>> unfinished = store.Unfinished();
  if (!unfinished) return base::LogWarn("leases_not_read", {{"why", unfinished.error().message}});
  for (const store::StoredTask& stored : *unfinished) {
    const std::optional<task::TaskSpec> spec = task::LeaseSpecIn(stored.spec_json);
    const auto process = spec ? task::ParseLeaseProcess(*spec->lease) : std::nullopt;
    if (!process) continue;
    launcher.Watch(stored.record.id, *process, task::ParseLeaseKey(spec->lease_key.value_or("")));
  }
}

}  // namespace carma::daemon
