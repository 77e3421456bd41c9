#include "daemon/server/from_settings.h"

#include <algorithm>
#include <utility>

#include "base/server_clock.h"
#include "base/words.h"
#include "daemon/gpus/gpu_speeds.h"
#include "daemon/loop/boot_mark.h"
#include "gpu/mig_mode.h"
#include "gpu/near_cpus.h"

namespace carma::daemon {
namespace {

constexpr base::Duration kMpsLinger{60'000};
constexpr std::chrono::nanoseconds kLeastMpsLinger = std::chrono::milliseconds(500);
constexpr base::Duration kMpsBackoff{30'000};

}  // namespace

Result<std::unique_ptr<base::Clock>> MakeClock(const config::Settings& settings) {
  if (settings.simgpu_state.empty()) return std::make_unique<base::SystemClock>();
  const Result<base::ClockOrigin> clock = base::ReadServerClock(settings.simgpu_state);
  if (!clock) return base::Wrap(clock.error(), "simulation.state");
  return std::make_unique<base::SystemClock>(clock->time_scale, base::FromMs(clock->origin_time_ms),
                                             clock->origin_boot_ns);
}

gpu::ProbeOptions ProbeOptionsOf(const config::Settings& settings, const base::Clock& clock,
                                 const std::string& reader) {
  gpu::ProbeOptions probe{
      .reader = reader,
      .nvml_library = settings.nvml_library,
      .source = settings.activity_source,
      .period = std::chrono::duration_cast<base::Duration>(clock.RealSpan(settings.sample_period)),
      .patience = settings.probe_timeout};
  // The wait for the probe's first response must end before the driver would count as hung.
  probe.first_answer = std::min(probe.first_answer, settings.probe_timeout / 2);
  return probe;
}

task::MpsSetup MpsSetupOf(const config::Settings& settings, const std::string& shim_path) {
  task::MpsSetup setup{shim_path, settings.mps_control, settings.mps_dir, {}};
  if (!settings.simgpu_state.empty())
    setup.environment["CARMA_SIMGPU_STATE"] = settings.simgpu_state;
  return setup;
}

MpsServersOptions MpsServersOptionsOf(const config::Settings& settings, const base::Clock& clock,
                                      const std::string& shim_path) {
  MpsServersOptions options;
  options.setup = MpsSetupOf(settings, shim_path);
  options.clients = static_cast<std::size_t>(settings.mps_clients);
  options.timeout = settings.mps_timeout;
  // This minimum keeps control daemons from restarting constantly if a simulated minute takes only
  // a moment.
  options.linger = std::max(clock.RealSpan(kMpsLinger), kLeastMpsLinger);
  options.backoff = clock.RealSpan(kMpsBackoff);
  return options;
}

MonitorOptions MonitorOptionsOf(const config::Settings& settings) {
  return {.window = settings.window,
          .ewma = settings.ewma,
          .history = settings.history,
          .health = settings.health,
          .unattributed_mib = settings.unattributed_mib};
}

NoticeSenderOptions SenderOptionsOf(const config::Settings& settings, const std::string& program) {
  return {program, settings.notify_sendmail, settings.notify_time_limit, settings.max_processes};
}

estimate::AppraisalRules AppraisalRulesOf(const Configuration::InForce& in_force,
                                          estimate::AppraisalRules rules) {
  rules.method = in_force.settings.estimate_method;
  rules.coverage = in_force.settings.estimate_coverage;
  rules.prefer_given = in_force.settings.estimate_prefer_given;
  rules.measured = in_force.profiles;
  return rules;
}

EngineOptions EngineOptionsOf(const config::Settings& settings, const task::HostFacts& machine,
                              const task::CgroupControls& controls) {
  EngineOptions options;
  options.policy = settings.policy;
  options.host = task::ForTasks(machine, settings.host_cpus, settings.host_memory_mib);
  options.controls = controls;
  options.all_cores = machine.cpus;
  options.cpu_cap = settings.cpu_cap;
  options.state_dir = settings.state_dir;
  options.socket = settings.socket;
  options.machine_start = MachineStart();
  options.kill_grace = settings.kill_grace;
  options.max_output_bytes = settings.max_output_mib << 20;
  options.output_rotations = settings.output_rotations;
  options.max_processes = settings.max_processes;
  options.max_queued_tasks = settings.max_queued_tasks;
  options.max_queued_per_user = settings.max_queued_per_user;
  options.default_time_limit = settings.default_time_limit;
  options.notices.enabled = settings.notify_enabled;
  options.notices.per_user_and_hour = settings.notify_per_hour;
  options.notices.sendmail = settings.notify_sendmail;
  options.notices.allowed.clear();
  for (const std::string& word : settings.notify_allow) {
    if (const auto kind = base::FromWord<task::NotifyKind>(word))
      options.notices.allowed.push_back(*kind);
  }
  options.share_by_mps = settings.collocation == core::SharingMethod::kMps;
  options.mps_dir = settings.mps_dir;
  options.mps_memory_limit = settings.mps_memory_limit;
  options.mps_servers = settings.mps_servers;
  options.sm_partitions = settings.sm_partitions;
  if (!settings.simgpu_state.empty())
    options.task_environment["CARMA_SIMGPU_STATE"] = settings.simgpu_state;
  return options;
}

std::vector<core::GpuInfo> GpuInfosOf(const config::Settings& settings,
                                      const std::vector<gpu::DeviceInfo>& devices,
                                      const task::HostFacts& machine) {
  const bool simulated = !settings.simgpu_state.empty();
  std::vector<core::GpuInfo> infos;
  for (const gpu::DeviceInfo& device : devices) {
    std::vector<int> near = simulated
                                ? gpu::NearCpusSimulated(machine.cpus, infos.size(), devices.size())
                                : gpu::NearCpus("", device.pci);
    infos.push_back({.uuid = device.uuid,
                     .type = device.name,
                     .total_mib = device.total_mib,
                     .reserved_mib = device.reserved_mib,
                     .mig = device.mig.has_value(),
                     .compute = device.mig ? gpu::ComputeShareOf(*device.mig) : 1,
                     .speed = SpeedOfModel(device.name, settings.gpu_speeds),
                     .near_cpus = std::move(near),
                     .linked_to = device.linked_to});
  }
  return infos;
}

}  // namespace carma::daemon
