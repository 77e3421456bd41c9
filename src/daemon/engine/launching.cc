#include "daemon/engine/launching.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include <optional>
#include <utility>

#include "base/file.h"
#include "base/log.h"
#include "base/try.h"
#include "base/unique_fd.h"
#include "task/describe/spec_json.h"
#include "task/process/group_limiter.h"
#include "task/shim/shim_launcher.h"

namespace carma::daemon {

Result<Launching> OpenLaunching(const config::Settings& settings, const std::string& shim_path) {
  Launching opened;
  task::ShimLauncherOptions options{shim_path, {}};
  if (settings.cgroups) options.cgroup = task::FindCgroupBase();
  opened.controls = task::EnableControls(options.cgroup);
  if (!settings.cgroups) opened.controls.why_not = "task.cgroups is false";
  opened.processes_counted_by_user =
      !options.cgroup.path.empty() && settings.max_processes > 0 && !opened.controls.processes;
  opened.groups = options.cgroup;
  if (!settings.cgroups) opened.groups.reason = "task.cgroups is false";
  opened.machine = task::ReadHostFacts("", options.cgroup.path);
  std::unique_ptr<task::Launcher> shims = CARMA_TRY(task::MakeShimLauncher(std::move(options)));
  opened.launcher = CARMA_TRY(
      task::LeaseLauncher::Make(std::move(shims), {.ends_dir = settings.socket + ".ends"}));
  return opened;
}

namespace {

// Enables the dmem controller in all groups above the tasks' groups. Service managers leave it off,
// and the kernel cannot limit the tasks without it. Kernels before 6.14 have no dmem; on those, the
// driver does the accounting.
void PassOnDmem(const task::CgroupBase& groups) {
  for (std::size_t end = groups.root.size(); end != std::string::npos;
       end = end == groups.path.size()
                 ? std::string::npos
                 : std::min(groups.path.find('/', end + 1), groups.path.size())) {
    const std::string control = groups.path.substr(0, end) + "/cgroup.subtree_control";
    const base::UniqueFd file(::open(control.c_str(), O_WRONLY | O_CLOEXEC));
    if (file) (void)base::WriteAll(file.get(), "+dmem");
  }
}

}  // namespace

std::string TryMemoryLimits(const task::CgroupBase& groups, const std::vector<std::string>& limiter,
                            const std::string& gpu_uuid) {
  if (gpu_uuid.empty()) return "no whole GPU responds";
  if (groups.path.empty()) return "tasks have no control groups: " + groups.reason;
  PassOnDmem(groups);
  const Result<task::TaskCgroup> group =
      task::TaskCgroup::Create(groups.path, fmt::format("carma-trial-{}", ::getpid()));
  if (!group) return group.error().message;
  // The soft limit is 0, because guaranteeing memory to this group would also affect the groups
  // above it.
  constexpr std::int64_t kAnyMib = 1024;
  const std::vector<std::string> words = task::LimitWords({{gpu_uuid, 0, kAnyMib}});
  Result<Unit> tried = task::LimitGpuMemory(limiter, group->path(), words);
  if (tried) tried = task::LimitGpuMemory(limiter, group->path(), task::NoLimitWords(words));
  group->Remove();
  return tried ? "" : tried.error().message;
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
