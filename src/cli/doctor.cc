#include "cli/doctor.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/file.h"
#include "base/json.h"
#include "base/process_id.h"
#include "base/text.h"
#include "gpu/counters.h"

namespace carma::cli {
namespace {

using gpu::ComputeMode;
using gpu::CounterSource;
using gpu::RecoveryAction;

constexpr std::uint64_t kMib = std::uint64_t{1} << 20;
constexpr std::uint64_t kLittleDisk = 1'024 * kMib;
constexpr std::uint64_t kTooLittleDisk = 100 * kMib;
constexpr std::uint64_t kTooFewFiles = 1'000;
constexpr std::int64_t kClockSlackMs = 5'000;
constexpr std::int64_t kFirstBelievableMs = 1'704'067'200'000;  // 2024
constexpr std::size_t kMaxFile = 1 << 20;

// What is read besides the counters, for people.
struct Value {
  const char* name;
  bool (*told)(const gpu::Reading& reading);
};
constexpr Value kValues[] = {
    {"utilization", [](const gpu::Reading& r) { return r.utilization.has_value(); }},
    {"power", [](const gpu::Reading& r) { return r.power_w.has_value(); }},
    {"energy", [](const gpu::Reading& r) { return r.energy_j.has_value(); }},
    {"temperature", [](const gpu::Reading& r) { return r.temperature_c.has_value(); }},
    {"clocks", [](const gpu::Reading& r) { return r.sm_clock_mhz.has_value(); }},
    {"ECC errors", [](const gpu::Reading& r) { return r.condition.ecc_corrected.has_value(); }},
    {"remapped rows", [](const gpu::Reading& r) { return r.condition.rows_remapped.has_value(); }},
    {"compute mode", [](const gpu::Reading& r) { return r.condition.compute_mode.has_value(); }},
    {"MIG mode", [](const gpu::Reading& r) { return r.condition.mig.has_value(); }},
    {"recovery action", [](const gpu::Reading& r) { return r.condition.recovery.has_value(); }},
};

// Those that were told, or those that were not.
std::vector<std::string> Values(const gpu::Reading& reading, bool told) {
  std::vector<std::string> names;
  for (const Value& value : kValues) {
    if (value.told(reading) == told) names.emplace_back(value.name);
  }
  return names;
}

std::vector<std::string> CounterNames(const gpu::Reading& reading, bool told) {
  std::vector<std::string> names;
  for (const gpu::Counter& counter : gpu::Counters()) {
    if ((reading.*counter.value).has_value() == told) names.emplace_back(counter.name);
  }
  return names;
}

// For people: a source that counts nothing or SM activity alone is one piece of news, not twelve.
std::vector<std::string> MissingValues(const gpu::Reading& reading) {
  std::vector<std::string> names = Values(reading, false);
  if (CounterNames(reading, true).size() <= 1) {
    names.emplace_back("counters besides SM activity");
    return names;
  }
  const std::vector<std::string> counters = CounterNames(reading, false);
  names.insert(names.end(), counters.begin(), counters.end());
  return names;
}

// ---- one GPU ----

class GpuCheck {
 public:
  GpuCheck(std::size_t index, const GpuFacts& facts, const DriverFacts& driver,
           const config::Settings& settings)
      : topic_("gpu " + std::to_string(index)),
        facts_(facts),
        driver_(driver),
        settings_(settings) {}

  std::vector<Finding> Run() {
    if (!facts_.reading) {
      Add(Level::kBad, base::Printable(facts_.reading.error().message),
          facts_.reading.error().code == base::ErrorCode::kNotFound
              ? "the GPU is lost: reset it (nvidia-smi -r) or reboot; CARMA serves the others"
              : "CARMA keeps this GPU closed until a good answer comes; see the kernel's log");
      return std::move(findings_);
    }
    Identity();
    Activity();
    Condition();
    Modes();
    Processes();
    return std::move(findings_);
  }

 private:
  void Add(Level level, std::string text, std::string remedy = "") {
    findings_.push_back({topic_, level, std::move(text), std::move(remedy)});
  }

  void Identity() {
    const gpu::Reading& reading = *facts_.reading;
    const std::vector<std::string> missing = MissingValues(reading);
    std::string text = fmt::format("{}, {} of {} in use, {}", base::Printable(facts_.info.name),
                                   base::FormatMib(reading.used_mib),
                                   base::FormatMib(reading.total_mib - reading.reserved_mib),
                                   base::Printable(facts_.info.uuid));
    if (!missing.empty()) text += "; not told: " + base::Join(missing, ", ");
    Add(Level::kOk, std::move(text));
  }

  void Activity() {
    switch (facts_.reading->counters) {
      case CounterSource::kGpm:
        return Add(Level::kOk, "SM activity from the driver's counters (GPM)" + Rule());
      case CounterSource::kDcgm:
        return Add(Level::kOk, "SM activity from DCGM (dcgmi dmon)" + Rule());
      case CounterSource::kNone:
        break;
    }
    std::string text = "nobody counts SM activity";
    if (!driver_.dcgm_trouble.empty()) text += " (" + base::Printable(driver_.dcgm_trouble) + ")";
    if (!settings_.policy.sm_cap) {
      return Add(Level::kWarn, text + "; tasks share it by memory alone (policy.sm_cap = false)",
                 "install DCGM 3 or newer, so that `dcgmi dmon -e 1002` shows numbers");
    }
    Add(Level::kWarn,
        text +
            "; NVML's coarse utilisation cannot stand in for it, so no task joins another here "
            "(policy.sm_cap)",
        "install DCGM 3 or newer, so that `dcgmi dmon -e 1002` shows numbers; or set policy.sm_cap "
        "= false to share by memory alone");
  }

  std::string Rule() const {
    if (!settings_.policy.sm_cap) return "; not asked for (policy.sm_cap = false)";
    return fmt::format("; a task joins others while its mean over {} s is at most {:.0f} %",
                       settings_.window.count() / 1'000, *settings_.policy.sm_cap * 100);
  }

  void Condition() {
    const gpu::Condition& condition = facts_.reading->condition;
    if (condition.recovery.value_or(RecoveryAction::kNone) != RecoveryAction::kNone) Recovery();
    if (condition.remap_failed.value_or(false)) {
      Add(Level::kBad, "memory rows could not be remapped: the spares are used up",
          "drain this GPU (carma drain) and have it replaced");
    } else if (condition.remap_pending.value_or(false)) {
      Add(Level::kWarn, "memory rows wait to be remapped",
          "drain this GPU and reset it (nvidia-smi -r) when its tasks have ended");
    }
    if (condition.ecc_uncorrected.value_or(0) > 0) {
      Add(Level::kWarn,
          fmt::format("{} memory errors beyond repair since the driver was loaded",
                      *condition.ecc_uncorrected),
          "a task may have failed by them; reset the GPU, and watch whether they come back");
    }
  }

  void Recovery() {
    switch (*facts_.reading->condition.recovery) {
      case RecoveryAction::kGpuReset:
        return Add(Level::kBad, "the driver asks for a reset of this GPU",
                   "end its processes and reset it: nvidia-smi -r");
      case RecoveryAction::kNodeReboot:
        return Add(Level::kBad, "the driver asks for a reboot", "drain all GPUs and reboot");
      case RecoveryAction::kDrainP2p:
        return Add(Level::kBad, "the driver asks to stop traffic between GPUs",
                   "end the multi-GPU tasks, then ask again");
      case RecoveryAction::kDrainAndReset:
        return Add(Level::kWarn, "the GPU runs with reduced capacity",
                   "drain it (carma drain) and reset it when its tasks have ended");
      case RecoveryAction::kNone:
      case RecoveryAction::kOther:
        return Add(Level::kBad, "the driver asks for a recovery that this version does not know",
                   "see nvidia-smi -q, and update CARMA");
    }
  }

  void Modes() {
    const gpu::Condition& condition = facts_.reading->condition;
    const ComputeMode mode = condition.compute_mode.value_or(ComputeMode::kDefault);
    const bool mps = settings_.collocation == config::CollocationMethod::kMps;
    if (mode == ComputeMode::kProhibited) {
      Add(Level::kBad, "compute mode PROHIBITED: no task can run here", "nvidia-smi -c DEFAULT");
    } else if (mode != ComputeMode::kDefault && !mps &&
               settings_.collocation != config::CollocationMethod::kExclusive) {
      Add(Level::kBad, "compute mode EXCLUSIVE: a second task on this GPU fails at its start",
          "nvidia-smi -c DEFAULT, or collocation.method = \"mps\"");
    }
    if (condition.mig.value_or(false)) {
      Add(Level::kWarn,
          "divided into MIG instances, which CARMA sees only as one GPU; the driver tells less "
          "about it",
          "turn MIG off for GPUs that CARMA shall share (nvidia-smi -mig 0), or drain them");
    }
  }

  void Processes() {
    const auto& processes = facts_.reading->processes;
    const auto unknown = std::count_if(processes.begin(), processes.end(),
                                       [](const gpu::ProcessUse& use) { return !use.used_mib; });
    if (unknown == 0) return;
    Add(Level::kWarn,
        fmt::format("the memory of {} of {} processes is not told", unknown, processes.size()),
        "run carmad as root on the host, not in a container of its own; CARMA counts what nobody "
        "is known to hold against the GPU");
  }

  std::string topic_;
  const GpuFacts& facts_;
  const DriverFacts& driver_;
  const config::Settings& settings_;
  std::vector<Finding> findings_;
};

// Value of "key: value" in the text of a file below /proc/driver.
std::string ParameterOf(std::string_view text, std::string_view key) {
  for (std::string_view line : base::Split(text, '\n')) {
    const std::size_t colon = line.find(':');
    if (colon != std::string_view::npos && base::Trim(line.substr(0, colon)) == key) {
      return std::string(base::Trim(line.substr(colon + 1)));
    }
  }
  return "";
}

// The option that hides other users' processes, as it stands in /proc/mounts; empty: none.
std::string HiddenProcesses(std::string_view mounts) {
  for (std::string_view line : base::Split(mounts, '\n')) {
    const std::vector<std::string_view> words = base::SplitWords(line);
    if (words.size() < 4 || words[1] != "/proc") continue;
    for (std::string_view option : base::Split(words[3], ',')) {
      if (option.starts_with("hidepid=") && option != "hidepid=0" && option != "hidepid=off") {
        return std::string(option);
      }
    }
  }
  return "";
}

}  // namespace

std::string_view LevelName(Level level) {
  switch (level) {
    case Level::kOk:
      return "ok";
    case Level::kWarn:
      return "warn";
    case Level::kBad:
      return "bad";
  }
  return "bad";
}

std::vector<Finding> CheckDriver(const DriverFacts& facts, const config::Settings& settings) {
  std::vector<Finding> findings;
  if (!facts.versions) {
    const char* const remedy =
        facts.hangs ? "see the kernel's log (dmesg) for NVRM and Xid lines; a reset or a reboot is "
                      "likely to be needed"
                    : "install the NVIDIA driver so that nvidia-smi works, or name its library "
                      "with monitor.nvml_library";
    findings.push_back(
        {"driver", Level::kBad, base::Printable(facts.versions.error().message), remedy});
    return findings;
  }
  std::vector<std::string> pieces;
  const auto add = [&](const char* name, const std::string& version) {
    if (!version.empty()) pieces.push_back(name + base::Printable(version, 60));
  };
  add(facts.simulated ? "simulated driver " : "driver ", facts.versions->driver);
  add("NVML ", facts.versions->nvml);
  add("CUDA up to ", facts.versions->cuda);
  findings.push_back({"driver", Level::kOk, base::Join(pieces, ", "), ""});
  if (!facts.gpus) {
    findings.push_back({"gpus", Level::kBad, base::Printable(facts.gpus.error().message),
                        "see the kernel's log (dmesg) for NVRM lines; a reboot may be needed"});
    return findings;
  }
  if (facts.gpus->empty()) {
    findings.push_back({"gpus", Level::kBad, "the driver knows no GPU",
                        "see lspci and the kernel's log (dmesg) for NVRM lines"});
  }
  for (std::size_t i = 0; i < facts.gpus->size(); ++i) {
    std::vector<Finding> of_gpu = GpuCheck(i, (*facts.gpus)[i], facts, settings).Run();
    std::move(of_gpu.begin(), of_gpu.end(), std::back_inserter(findings));
  }
  return findings;
}

std::vector<Finding> CheckRights(const std::string& root, bool is_root, bool simulated) {
  std::vector<Finding> findings;
  const auto add = [&](Level level, std::string text, std::string remedy) {
    findings.push_back({"rights", level, std::move(text), std::move(remedy)});
  };
  const std::string mounts = base::ReadFile(root + "/proc/mounts", kMaxFile).value_or("");
  if (const std::string hidden = HiddenProcesses(mounts); !hidden.empty() && !is_root) {
    add(Level::kBad, "processes of other users are hidden (" + base::Printable(hidden, 40) + ")",
        "run carmad as root, or mount /proc without hidepid: foreign GPU users cannot be named");
  }
  char target[64] = {};
  const ssize_t length =
      ::readlink((root + "/proc/self/ns/pid").c_str(), target, sizeof target - 1);
  // The kernel's own number of the first pid namespace (include/linux/proc_ns.h).
  if (!simulated && length > 0 && std::string_view(target) != "pid:[4026531836]") {
    add(Level::kBad, "this is a pid namespace of its own, while the driver tells pids of the host",
        "run carmad on the host, or its container with the host's pids (--pid=host)");
  }
  const std::string parameters =
      base::ReadFile(root + "/proc/driver/nvidia/params", kMaxFile).value_or("");
  if (!is_root && ParameterOf(parameters, "RmProfilingAdminOnly") == "1") {
    add(Level::kWarn, "performance counters are for administrators only",
        "run carmad as root, or load the driver with NVreg_RestrictProfilingToAdminUsers=0");
  }
  const std::string control = root + "/dev/nvidiactl";
  if (base::Exists(control) && ::access(control.c_str(), R_OK | W_OK) != 0) {
    add(Level::kBad, "/dev/nvidiactl is not ours to open",
        "run carmad as root, or give this user the group of the device files");
  }
  if (findings.empty()) {
    findings.push_back({"rights", Level::kOk,
                        is_root ? "root: every process can be seen and attributed"
                                : "everything that was looked for is allowed; a daemon of this "
                                  "user serves this user alone",
                        ""});
  }
  return findings;
}

Finding CheckMps(const std::string& root, const config::Settings& settings) {
  const std::string folder = root + settings.mps_dir;
  const std::string shown = base::Printable(settings.mps_dir);
  const std::optional<std::int64_t> pid = base::ParseInt(
      base::Trim(base::ReadFile(folder + "/nvidia-cuda-mps-control.pid", 64).value_or("")));
  const bool alive = pid && *pid > 0 && base::Exists(root + "/proc/" + std::to_string(*pid));
  if (settings.collocation != config::CollocationMethod::kMps) {
    if (!alive) return {"mps", Level::kOk, "not used (collocation.method)", ""};
    return {
        "mps", Level::kWarn,
        fmt::format("an MPS control daemon (pid {}) serves {}, though collocation.method is not "
                    "\"mps\"",
                    *pid, shown),
        "end it (echo quit | nvidia-cuda-mps-control), or set collocation.method = \"mps\": "
        "tasks of one user would join it, unknown to CARMA"};
  }
  const std::string start =
      "start it as the user whose tasks shall share: CUDA_MPS_PIPE_DIRECTORY=" + shown +
      " nvidia-cuda-mps-control -d";
  if (!base::Exists(folder)) return {"mps", Level::kBad, "there is no " + shown, start};
  if (!alive) return {"mps", Level::kBad, "no MPS control daemon serves " + shown, start};
  if (::access((folder + "/control").c_str(), R_OK | W_OK) != 0) {
    return {
        "mps", Level::kBad, shown + "/control is not ours to use",
        "tasks of this user would run without MPS, silently; start a control daemon of its own"};
  }
  return {"mps", Level::kOk, fmt::format("control daemon with pid {} serves {}", *pid, shown), ""};
}

Finding CheckCgroups(const task::CgroupBase& place, const config::Settings& settings) {
  if (!settings.cgroups) return {"cgroups", Level::kOk, "not used (task.cgroups = false)", ""};
  if (place.path.empty()) {
    return {"cgroups", Level::kWarn, base::Printable(place.reason),
            "run carmad as a systemd service with Delegate=yes; until then tasks are followed by "
            "process group and descent"};
  }
  return {"cgroups", Level::kOk, "one group per task below " + base::Printable(place.path), ""};
}

Finding CheckDisk(const base::Result<DiskFacts>& disk) {
  if (!disk) {
    return {"disk", Level::kBad, base::Printable(disk.error().message),
            "make daemon.state_dir a folder that carmad can reach"};
  }
  std::string text = fmt::format(
      "{} free at {}", base::FormatMib(static_cast<std::int64_t>(disk->free_bytes / kMib)),
      base::Printable(disk->path));
  const bool no_files = disk->counts_files && disk->free_files < kTooFewFiles;
  if (no_files) text += fmt::format(", room for {} files", disk->free_files);
  const Level level = disk->free_bytes < kTooLittleDisk || no_files ? Level::kBad
                      : disk->free_bytes < kLittleDisk              ? Level::kWarn
                                                                    : Level::kOk;
  return {"disk", level, std::move(text),
          level == Level::kOk ? "" : "make space: on a full disk new tasks are refused"};
}

Finding CheckClock(const ClockFacts& clock) {
  const std::string now = base::FormatTimeIso(base::FromMs(clock.now_ms));
  if (clock.now_ms < kFirstBelievableMs) {
    return {"clock", Level::kBad, "it is said to be " + now,
            "set the clock: begin times and the history of tasks depend on it"};
  }
  if (clock.daemon_ms && std::abs(*clock.daemon_ms - clock.now_ms) > kClockSlackMs) {
    return {"clock", Level::kWarn,
            fmt::format("the daemon's clock differs by {} s",
                        std::abs(*clock.daemon_ms - clock.now_ms) / 1'000),
            "the clock was set after carmad started, which never goes back; restart carmad"};
  }
  if (!clock.synchronised) {
    return {"clock", Level::kWarn, now + ", not synchronised",
            "run a time service (systemd-timesyncd, chrony)"};
  }
  return {"clock", Level::kOk, now + ", synchronised", ""};
}

std::vector<Finding> CheckDaemon(const base::Result<api::StatusView>& status,
                                 const std::string& socket_path) {
  if (!status) {
    return {{"daemon", Level::kWarn, base::Printable(status.error().message),
             "start carmad, or name its socket with --socket (tried " +
                 base::Printable(socket_path) + ")"}};
  }
  std::vector<Finding> findings = {
      {"daemon", Level::kOk,
       fmt::format("carmad {}, pid {}, {}", base::Printable(status->version, 40), status->pid,
                   base::Printable(status->policy)),
       ""}};
  for (const std::string& trouble : status->troubles) {
    findings.push_back({"daemon", Level::kWarn, base::Printable(trouble),
                        "see carma status and the daemon's log"});
  }
  return findings;
}

Level Worst(const std::vector<Finding>& findings) {
  Level worst = Level::kOk;
  for (const Finding& finding : findings) worst = std::max(worst, finding.level);
  return worst;
}

std::string DoctorText(const std::vector<Finding>& findings, const Screen& screen) {
  constexpr Colour kColours[] = {Colour::kGood, Colour::kWaiting, Colour::kBad};
  std::size_t width = 0;
  for (const Finding& finding : findings) width = std::max(width, finding.topic.size());
  std::string text;
  for (const Finding& finding : findings) {
    const std::string level(LevelName(finding.level));
    text += Paint(level, kColours[static_cast<int>(finding.level)], screen) +
            std::string(6 - level.size(), ' ') +
            fmt::format("{:<{}}  {}\n", finding.topic, width, finding.text);
    if (!finding.remedy.empty()) {
      text += fmt::format("{:{}}-> {}\n", "", width + 8, finding.remedy);
    }
  }
  const auto count = [&](Level level) {
    return std::count_if(findings.begin(), findings.end(),
                         [level](const Finding& finding) { return finding.level == level; });
  };
  const auto bad = count(Level::kBad), warnings = count(Level::kWarn);
  if (bad == 0 && warnings == 0) return text + "All is well.\n";
  return text + fmt::format("{} bad, {} to be looked at.\n", bad, warnings);
}

std::string DoctorJson(const std::vector<Finding>& findings, const DriverFacts& facts) {
  base::Json json = {{"worst", LevelName(Worst(findings))},
                     {"findings", base::Json::array()},
                     {"gpus", base::Json::array()}};
  for (const Finding& finding : findings) {
    json["findings"].push_back({{"topic", finding.topic},
                                {"level", LevelName(finding.level)},
                                {"text", finding.text},
                                {"remedy", finding.remedy}});
  }
  if (!facts.gpus) return base::DumpJson(json) + "\n";
  for (const GpuFacts& known : *facts.gpus) {
    base::Json gpu = {
        {"uuid", known.info.uuid}, {"name", known.info.name}, {"pci", known.info.pci}};
    if (known.reading) {
      gpu["activity"] = gpu::CounterSourceName(known.reading->counters);
      gpu["counters"] = CounterNames(*known.reading, true);
      gpu["values"] = Values(*known.reading, true);
    }
    json["gpus"].push_back(std::move(gpu));
  }
  return base::DumpJson(json) + "\n";
}

}  // namespace carma::cli
