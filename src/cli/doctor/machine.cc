#include "cli/doctor/machine.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "api/gpu_standing.h"
#include "api/troubles.h"
#include "base/file.h"
#include "base/process_id.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "cli/doctor/packages.h"
#include "config/names.h"
#include "profile/profiles.h"

namespace carma::cli {
namespace {

constexpr std::uint64_t kMib = std::uint64_t{1} << 20;
constexpr std::uint64_t kLittleDisk = 1'024 * kMib;
constexpr std::uint64_t kTooLittleDisk = 100 * kMib;
constexpr std::uint64_t kTooFewFiles = 1'000;
constexpr std::int64_t kClockSlackMs = 5'000;
constexpr std::int64_t kFirstBelievableMs = 1'704'067'200'000;  // January 2024
constexpr std::size_t kMaxFile = 1 << 20;
constexpr int kFewSamples = 3;

std::string Seconds(base::Duration span) {
  return fmt::format("{:g} s", base::Seconds(span));
}

// GPUs that are closed for the same reason and therefore share one finding.
struct Closed {
  std::string why;
  bool down;
  std::vector<std::string> gpus;
};

std::vector<Closed> ClosedGpus(const std::vector<api::GpuView>& gpus) {
  std::vector<Closed> closed;
  for (const api::GpuView& gpu : gpus) {
    if (gpu.trouble.empty()) continue;
    const bool down = api::StandingOf(gpu) == api::GpuStanding::kDown;
    auto found = std::ranges::find_if(
        closed, [&](const Closed& each) { return each.why == gpu.trouble && each.down == down; });
    if (found == closed.end()) found = closed.insert(closed.end(), {gpu.trouble, down, {}});
    found->gpus.push_back(std::to_string(gpu.index));
  }
  return closed;
}

// With daemon.gpus, carmad numbers only its own GPUs, so its numbers can differ from the driver's.
std::vector<Finding> CheckSameNumbers(const std::vector<api::GpuView>& ours,
                                      const Result<std::vector<GpuFacts>>& drivers) {
  const auto differs = [&](const api::GpuView& gpu) {
    if (gpu.index < 0 || gpu.index >= std::ssize(*drivers)) return false;
    const std::string& uuid = (*drivers)[static_cast<std::size_t>(gpu.index)].info.uuid;
    return !uuid.empty() && !uuid.starts_with(gpu::kUnknownGpu) && uuid != gpu.uuid;
  };
  if (!drivers || std::ranges::none_of(ours, differs)) return {};
  std::vector<std::string> names;
  for (const api::GpuView& gpu : ours)
    names.push_back(fmt::format("{} is {}", gpu.index, base::Printable(gpu.uuid)));
  return {
      {"daemon", Level::kOk,
       "carma numbers GPUs differently from the driver (daemon.gpus): " + base::Join(names, ", ")}};
}

// True if the findings about closed GPUs already report this problem. A driver that does not
// respond counts as reported if any GPU is down.
bool ToldByGpus(const std::string& trouble, const DaemonFacts& daemon) {
  if (trouble == api::TroubleOfDriver(daemon.status->driver)) {
    return std::ranges::any_of(daemon.gpus, [](const api::GpuView& gpu) {
      return api::StandingOf(gpu) == api::GpuStanding::kDown;
    });
  }
  return std::ranges::any_of(daemon.gpus, [&](const api::GpuView& gpu) {
    // A GPU's `trouble` may combine the reason given by a health rule with another problem.
    const auto tells = [&](const std::string& begin) {
      return trouble.starts_with(begin) && gpu.trouble.contains(trouble.substr(begin.size()));
    };
    return !gpu.trouble.empty() &&
           (tells(api::TroubleOfGpu(gpu.index, "")) || tells(api::ClosedByRule(gpu.index, "")));
  });
}

// Unenforced limits cause no warning, because most drivers do not let the kernel enforce any.
Finding MemoryLimitsFinding(const api::StatusView& status) {
  std::string text = "task limits are not enforced";
  if (status.memory_limits == "kernel") {
    text = "enforced by the kernel, for each task as a whole";
  } else if (status.memory_limits == "mps") {
    text = "enforced by MPS, for each process of a task";
  } else if (status.collocation.starts_with("mps:")) {
    text += " (collocation.mps_servers = \"gpu\" enforces them)";
  }
  if (!status.no_memory_limits.empty())
    text += "; not by the kernel: " + base::Printable(status.no_memory_limits, 400);
  return {"GPU memory", Level::kOk, std::move(text)};
}

}  // namespace

std::vector<Finding> CheckRights(const std::string& root, bool is_root, bool simulated) {
  std::vector<Finding> findings;
  const auto add = [&](Level level, std::string text, std::string remedy) {
    findings.push_back({"rights", level, std::move(text), std::move(remedy)});
  };
  const std::string mounts = base::ReadFile(root + "/proc/mounts", kMaxFile).value_or("");
  if (const std::string hidden = base::HiddenProcesses(mounts); !hidden.empty() && !is_root) {
    add(Level::kBad, "processes of other users are hidden (" + base::Printable(hidden, 40) + ")",
        "run carmad as root, or mount /proc without hidepid, so that other users' GPU processes "
        "can be identified");
  }
  char target[64] = {};
  const ssize_t length =
      ::readlink((root + "/proc/self/ns/pid").c_str(), target, sizeof target - 1);
  // The inode of the initial pid namespace, a constant in the kernel (include/linux/proc_ns.h).
  if (!simulated && length > 0 && std::string_view(target) != "pid:[4026531836]") {
    add(Level::kBad, "this is a separate pid namespace, but the driver reports the host's pids",
        "run carmad on the host, or run its container in the host's pid namespace (--pid=host)");
  }
  const std::string only =
      base::NamedLine(root + "/proc/driver/nvidia/params", "RmProfilingAdminOnly:");
  if (!is_root && only == "1") {
    add(Level::kWarn, "performance counters are restricted to administrators",
        "run carmad as root, or load the driver with NVreg_RestrictProfilingToAdminUsers=0");
  }
  const std::string control = root + "/dev/nvidiactl";
  if (base::Exists(control) && ::access(control.c_str(), R_OK | W_OK) != 0) {
    add(Level::kBad, "no permission to open /dev/nvidiactl",
        "run carmad as root, or add this user to the device files' group");
  }
  if (findings.empty()) {
    findings.push_back({"rights", Level::kOk,
                        is_root ? "root: every process can be seen and attributed"
                                : "all required access is permitted; a daemon run by this user "
                                  "serves only this user"});
  }
  return findings;
}

Finding CheckCgroups(const task::CgroupBase& place, const config::Settings& settings) {
  if (!settings.cgroups) return {"cgroups", Level::kOk, "not used (task.cgroups = false)"};
  if (place.path.empty()) {
    return {"cgroups", Level::kWarn, base::Printable(place.reason),
            "run carmad as a systemd service with Delegate=yes; until then tasks are tracked by "
            "process group and ancestry"};
  }
  return {"cgroups", Level::kOk, "one cgroup per task below " + base::Printable(place.path)};
}

Finding CheckDisk(const Result<DiskFacts>& disk) {
  if (!disk) {
    return {"disk", Level::kBad, base::Printable(disk.error().message),
            "set daemon.state_dir to a folder that carmad can reach"};
  }
  if (!disk->writable) {
    return {"disk", Level::kBad,
            base::Printable(disk->path) + " is not writable, but must contain daemon.state_dir",
            "set daemon.state_dir to a folder that carmad can create and write to"};
  }
  std::string text = fmt::format(
      "{} free at {}", base::FormatMib(static_cast<std::int64_t>(disk->free_bytes / kMib)),
      base::Printable(disk->path));
  const bool no_files = disk->counts_files && disk->free_files < kTooFewFiles;
  if (no_files) text += fmt::format(", room for {} files", disk->free_files);
  const Level level = disk->free_bytes < kTooLittleDisk || no_files ? Level::kBad
                      : disk->free_bytes < kLittleDisk              ? Level::kWarn
                                                                    : Level::kOk;
  return {
      "disk", level, std::move(text),
      level == Level::kOk ? "" : "free some space: new tasks are refused when the disk is full"};
}

Finding CheckClock(const ClockFacts& clock) {
  const std::string now = base::FormatTimeIso(base::FromMs(clock.now_ms));
  if (clock.now_ms < kFirstBelievableMs) {
    return {"clock", Level::kBad, "the clock shows " + now,
            "set the clock: begin times and task history depend on it"};
  }
  if (clock.daemon_ms && std::abs(*clock.daemon_ms - clock.now_ms) > kClockSlackMs) {
    return {"clock", Level::kWarn,
            fmt::format("the daemon's clock differs by {} s",
                        std::abs(*clock.daemon_ms - clock.now_ms) / 1'000),
            "restart carmad: the clock was changed after carmad started, and carmad's own clock "
            "never goes back"};
  }
  if (!clock.synchronised) {
    return {"clock", Level::kWarn, now + ", not synchronised",
            "run a time service (systemd-timesyncd, chrony)"};
  }
  return {"clock", Level::kOk, now + ", synchronised"};
}

Finding CheckProfiles(const config::Settings& settings, const std::vector<std::string>& gpu_types) {
  const std::string path = base::Printable(settings.estimate_profiles);
  const auto broken = [](const std::string& why) {
    return Finding{
        "profiles", Level::kWarn, "estimate.profiles: " + base::Printable(why),
        "recreate it with carma profile, or set estimate.profiles = \"\"; carmad works without it"};
  };
  const Result<std::string> text =
      base::ReadFile(settings.estimate_profiles, profile::kMaxProfilesBytes);
  if (!text && text.error().code == ErrorCode::kDenied)
    return {"profiles", Level::kOk, path + ": not checked (no permission to read it)"};
  if (!text) return broken(text.error().message);
  const auto profiles = profile::ParseProfiles(*text, settings.estimate_profiles);
  if (!profiles) return broken(profiles.error().message);
  const auto signed_lines = std::ranges::count_if(
      *profiles, [](const profile::WorkloadProfile& each) { return !each.signature.empty(); });
  if (signed_lines == 0) {
    return {"profiles", Level::kWarn,
            fmt::format("{}: none of {} profiles has a signature", path, profiles->size()),
            "measure your own commands (docs/server/profile.md): built-in workloads do not match "
            "users' tasks"};
  }
  const bool of_here = std::ranges::any_of(*profiles, [&](const profile::WorkloadProfile& each) {
    return !each.signature.empty() &&
           std::ranges::find(gpu_types, each.gpu_type) != gpu_types.end();
  });
  if (!gpu_types.empty() && !of_here) {
    return {"profiles", Level::kWarn,
            fmt::format("{}: none of its profiles was measured on this server's GPUs", path),
            "run carma profile here; measurements on other GPUs contribute only SM activity"};
  }
  return {
      "profiles", Level::kOk,
      fmt::format("{}: {} of {} profiles have a signature", path, signed_lines, profiles->size())};
}

std::vector<Finding> CheckNotices(const std::string& root, const config::Settings& settings) {
  const auto allowed = [&](std::string_view kind) {
    return settings.notify_enabled && std::ranges::count(settings.notify_allow, kind) > 0;
  };
  std::vector<Finding> findings;
  if (allowed("mail")) {
    const std::string shown = base::Printable(settings.notify_sendmail);
    findings.push_back({"notices", Level::kOk, "mail through " + shown});
    if (!base::IsProgram(root + settings.notify_sendmail)) {
      findings.back() = {
          "notices", Level::kWarn, "mail cannot be sent: there is no program " + shown,
          "install a program that accepts mail as sendmail(8) does" +
              InstallCommand(root, Missing::kMail) + ", or remove mail from notify.allow"};
    }
  }
  if (allowed("webhook")) {
    findings.push_back({"notices", Level::kOk, "webhooks through curl"});
    const auto has_curl = [&](const char* folder) {
      return base::IsProgram(root + folder + "/curl");
    };
    constexpr std::array kFolders{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin",
                                  "/usr/bin",        "/sbin",          "/bin"};
    if (std::ranges::none_of(kFolders, has_curl)) {
      findings.back() = {"notices", Level::kWarn,
                         "webhooks cannot be called: curl is not installed",
                         "install curl" + InstallCommand(root, Missing::kCurl) +
                             ", or remove webhooks from notify.allow"};
    }
  }
  return findings;
}

std::vector<Finding> CheckSettings(const std::string& root, const config::Settings& settings) {
  std::vector<Finding> findings;
  const auto warn = [&](std::string text, std::string remedy) {
    findings.push_back({"settings", Level::kWarn, std::move(text), std::move(remedy)});
  };
  for (const std::string& target : settings.notify_admin) {
    if (!target.starts_with('/') || base::IsProgram(root + target)) continue;
    warn(fmt::format("notify.admin: {} is not an executable program", base::Printable(target)),
         "install it, chmod +x it, and give it a first line such as #!/bin/sh");
  }
  if (settings.window < kFewSamples * settings.sample_period) {
    warn(fmt::format(
             "monitor.window of {} holds fewer than {} samples (one every {}): a pause between two "
             "steps looks like an idle GPU",
             Seconds(settings.window), kFewSamples, Seconds(settings.sample_period)),
         "set monitor.window to 30 s or more");
  }
  if (settings.policy.stale_after < kFewSamples * settings.sample_period) {
    warn(fmt::format("policy.stale_after of {} is less than {} times monitor.sample_period: one "
                     "late sample closes a GPU",
                     Seconds(settings.policy.stale_after), kFewSamples),
         "raise policy.stale_after, or lower monitor.sample_period");
  }
  if (settings.idle_after && *settings.idle_after < settings.window) {
    warn(fmt::format("idle.after of {} is shorter than monitor.window: tasks that are loading "
                     "their data count as idle",
                     Seconds(*settings.idle_after)),
         "set idle.after to several minutes");
  }
  const auto warn_if_small = [&](const char* key, std::int64_t mib, std::int64_t usual_mib) {
    if (mib <= 0 || mib >= usual_mib) return;
    warn(fmt::format("{} is only {}M; a number without a unit is in MiB", key, mib),
         fmt::format("did you mean \"{}G\"?", mib));
  };
  warn_if_small("policy.margin", settings.policy.margin_mib, 256);
  if (settings.policy.floor_share == 0)
    warn_if_small("policy.floor", settings.policy.floor_mib, 256);
  warn_if_small("host.memory", settings.host_memory_mib.value_or(0), 1024);
  if (const Result<Unit> group = config::CheckSocketGroup(settings); !group) {
    findings.push_back({"settings", Level::kBad, group.error().message + ": carmad will not start",
                        "create the group, or correct its name"});
  }
  for (const auto& [key, what] : config::UnknownNames(settings)) {
    warn(fmt::format("{}: {}", key, what),
         "correct the name (carma config show --origin names the files), or remove it");
  }
  return findings;
}

std::vector<Finding> CheckKernelLog(const std::string& root, const config::Settings& settings) {
  const bool shares = settings.collocation != core::SharingMethod::kStreams;
  if (!shares || settings.kernel_log.empty() || !settings.simgpu_state.empty()) return {};
  const std::string path = root + settings.kernel_log;
  // Opens the device as the daemon does, because the file's mode alone does not decide who may read
  // it.
  if (base::UniqueFd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC))) return {};
  return {{"settings", Level::kWarn,
           fmt::format("monitor.kernel_log: cannot open {} ({}), so the wrong task may be blamed "
                       "for a fault under MPS",
                       base::Printable(settings.kernel_log), std::strerror(errno)),
           "give carmad permission to open it, and CAP_SYSLOG (also in a container)"}};
}

std::vector<Finding> CheckSameDriver(const DaemonFacts& daemon, const DriverFacts& driver) {
  if (!daemon.status || daemon.gpus.empty() || driver.hangs) return {};
  if (driver.versions) return CheckSameNumbers(daemon.gpus, driver.gpus);
  if (daemon.status->driver != api::kDriverIsWell) return {};
  return {{"settings", Level::kWarn,
           fmt::format("carmad found {}, but this command found none: their settings differ",
                       base::Counted(std::ssize(daemon.gpus), "GPU")),
           "run this command with carmad's settings (--config or the CARMA_ variables)"}};
}

std::vector<Finding> CheckDaemon(const DaemonFacts& daemon, const std::vector<Finding>& told) {
  const Result<api::StatusView>& status = daemon.status;
  if (!status) {
    return {{"daemon", Level::kWarn, base::Printable(status.error().message),
             "if carmad listens elsewhere, name its socket with --socket"}};
  }
  std::vector<Finding> findings = {
      {"daemon", Level::kOk,
       fmt::format("carmad {}, pid {}, {}", base::Printable(status->version, 40), status->pid,
                   base::Printable(status->policy))}};
  const auto warn = [&](std::string text, std::string remedy) {
    findings.push_back({"daemon", Level::kWarn, std::move(text), std::move(remedy)});
  };
  const api::HostView& host = status->host;
  if (!host.not_enforced.empty() && (host.cpus > 0 || host.memory_mib > 0)) {
    findings.push_back(
        {"cores and memory", Level::kWarn,
         "promised to tasks, but not enforced: " + base::Printable(host.not_enforced, 400),
         "run carmad as the packaged systemd service, together with carmad-tasks.service"});
  }
  if (!status->memory_limits.empty()) findings.push_back(MemoryLimitsFinding(*status));
  for (const std::string& trouble : status->troubles) {
    const auto tells = [&](const Finding& each) {
      return each.topic == "settings" && trouble.contains(each.text);
    };
    if (!ToldByGpus(trouble, daemon) && std::ranges::none_of(told, tells))
      warn(base::Printable(trouble), "see carma status and the daemon's log");
  }
  for (const Closed& each : ClosedGpus(daemon.gpus)) {
    const std::string gpus = base::Join(each.gpus, ",");
    warn(fmt::format("gpu {} {} no tasks: {}", gpus, each.gpus.size() == 1 ? "takes" : "take",
                     base::Printable(each.why)),
         each.down ? "carmad retries automatically; see gpu above and the daemon's log"
                   : "once that is fixed, run carma resume " + gpus);
  }
  return findings;
}

}  // namespace carma::cli
