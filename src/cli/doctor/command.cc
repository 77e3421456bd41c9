// `carma doctor`: checks the machine for everything that CARMA needs, and records the driver's
// responses.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "base/file.h"
#include "base/try.h"
#include "base/unique_fd.h"
#include "cli/client/verbs.h"
#include "cli/command.h"
#include "cli/doctor/ask.h"
#include "cli/doctor/context.h"
#include "cli/doctor/doctor.h"
#include "cli/doctor/machine.h"
#include "cli/doctor/mps.h"
#include "config/client_socket.h"
#include "gpu/reader/load_probe.h"
#include "gpu/recording.h"

namespace carma::cli {
namespace {

constexpr std::chrono::seconds kRecordPeriod{1};

struct DoctorFlags {
  std::string config;  // empty for the usual files
  std::string record;  // empty for no recording
  std::string replay;  // recording to read instead of this machine's GPUs
  int seconds = 60;
  bool measure = true;  // measure the memory of a CUDA context
  bool socket_given = false;
};

void Append(std::vector<Finding> more, std::vector<Finding>& findings) {
  std::ranges::move(more, std::back_inserter(findings));
}

std::vector<ContextFacts> LookAtContexts(Context& context, const DoctorFlags& flags,
                                         const config::Settings& settings,
                                         const DriverFacts& driver) {
  std::vector<ContextFacts> contexts;
  if (!driver.versions || !driver.gpus) return contexts;
  for (ContextCandidate& candidate : ContextCandidates(*driver.gpus)) {
    const std::string& type = (*driver.gpus)[candidate.gpu].info.name;
    if (!flags.measure) candidate.obstacle = "--no-measure";
    if (driver.simulated) candidate.obstacle = "the driver is simulated";
    contexts.push_back({.gpu_type = type,
                        .gpu = candidate.gpu,
                        .not_measured = std::move(candidate.obstacle),
                        .assumed = AskAssumed(context.client(), type, settings)});
  }
  MeasureContexts(settings, driver, contexts);
  return contexts;
}

std::vector<std::string> TypesOf(const DriverFacts& driver) {
  std::vector<std::string> types;
  if (!driver.gpus) return types;
  for (const GpuFacts& gpu : *driver.gpus) types.push_back(gpu.info.name);
  return types;
}

// Runs all checks except the driver checks.
std::vector<Finding> LookAround(const config::Settings& settings, const DaemonFacts& daemon,
                                const DriverFacts& driver, const MpsTrial& trial, bool of_root) {
  const bool is_root = ::geteuid() == 0;
  const bool is_told = daemon.status && !daemon.status->state_dir.empty();  // --state-dir
  const std::string& state_dir = is_told ? daemon.status->state_dir : settings.state_dir;
  std::vector<Finding> findings = CheckRights("", is_root, driver.simulated);
  Append(CheckMps("", settings, base::GetEnv("PATH", "/usr/bin:/bin"), is_root == of_root, trial),
         findings);
  Append({CheckCgroups(AskCgroups(daemon), settings),
          CheckDisk(AskDisk(state_dir, is_root == of_root)), CheckClock(AskClock(daemon))},
         findings);
  Append(CheckSettings("", settings), findings);
  Append(CheckNotices("", settings), findings);
  // An ordinary user's daemon usually may not read the kernel log, and the user cannot change that.
  if (is_root) Append(CheckKernelLog("", settings), findings);
  if (!settings.estimate_profiles.empty())
    findings.push_back(CheckProfiles(settings, TypesOf(driver)));
  Append(CheckDaemon(daemon, findings), findings);
  return findings;
}

// Returns the settings with the policy that applies to the sharing method actually in use. Streams
// have an SM cap and a task limit of their own.
config::Settings WithPolicyInForce(const config::Settings& settings, const DaemonFacts& daemon,
                                   const MpsTrial& trial) {
  const std::string line = daemon.status ? daemon.status->collocation : "";
  config::Settings in_force = settings;
  in_force.policy = config::PolicyFor(settings, MethodInForce(settings, line, trial));
  return in_force;
}

Result<Unit> RunDoctor(Context& context, const DoctorFlags& flags) {
  if (!flags.config.empty() && !flags.socket_given)
    context.socket_path = CARMA_TRY(LoadServerSettings(flags.config, ::geteuid() == 0)).socket;
  const DaemonFacts daemon = AskDaemon(context.client());
  // A daemon for all users runs as root, no matter which user runs carma doctor.
  const bool of_root = daemon.status
                           ? daemon.status->uid == 0
                           : ::geteuid() == 0 || context.Socket() == config::kServerSocket;
  // The settings of the running carmad, unless this user may not read its --config file.
  std::string file = flags.config;
  if (file.empty() && daemon.status && ::access(daemon.status->config_file.c_str(), R_OK) == 0)
    file = daemon.status->config_file;
  const config::Settings settings =
      CARMA_TRY(LoadServerSettings(file, of_root, daemon.simulated_state));
  const DriverFacts driver =
      flags.replay.empty() ? AskDriver(settings) : CARMA_TRY(AskRecording(flags.replay));

  MpsTrial trial;
  if (flags.replay.empty()) trial = TryMps(settings, (::geteuid() == 0) == of_root);
  std::vector<Finding> findings = CheckDriver(driver, WithPolicyInForce(settings, daemon, trial));
  std::vector<ContextFacts> contexts;
  if (flags.replay.empty()) {
    Append(CheckSameDriver(daemon, driver), findings);
    contexts = LookAtContexts(context, flags, settings, driver);
    for (const ContextFacts& each : contexts) findings.push_back(CheckContext(each));
    Append(LookAround(settings, daemon, driver, trial, of_root), findings);
  }
  Print(context, context.json ? DoctorJson(findings, driver, contexts)
                              : DoctorText(findings, ScreenOf(context.out)));
  if (Worst(findings) == Level::kBad) context.exit_code = kExitFailure;
  return Unit{};
}

// ---- recording ----

// Returns the number of recorded responses. Returns a driver error if the GPUs cannot be listed, or
// a system error if the file cannot be written.
Result<std::size_t> Record(const config::Settings& settings, const std::string& version,
                           const DoctorFlags& flags) {
  const gpu::LoadedProbe loaded = gpu::LoadProbe(ProbeOptionsOf(settings));
  const gpu::ReadResult<std::vector<gpu::DeviceInfo>> devices = loaded.probe->Devices();
  if (!devices) return std::unexpected(devices.error().AsError());
  const base::UniqueFd file(
      ::open(flags.record.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file) return FailErrno(errno, flags.record);
  gpu::Recording head{
      .made_by = "carma " + version,
      .driver =
          gpu::AskDriverVersions(settings.nvml_library).value_or(gpu::DriverVersions{}).driver,
      .devices = *devices};
  CARMA_TRY(base::Wrap(base::WriteAll(file.get(), gpu::RecordingHead(head)), flags.record));
  base::SystemClock clock;
  std::optional<base::Time> began;
  auto next = std::chrono::steady_clock::now();
  std::size_t answers = 0;
  for (int second = 0; second < flags.seconds; ++second) {
    std::this_thread::sleep_until(next += kRecordPeriod);
    std::string lines;
    for (std::size_t i = 0; i < devices->size(); ++i, ++answers) {
      const base::Time now = clock.Now();
      if (!began) began = now;
      lines += gpu::RecordingLine({now - *began, i, loaded.probe->Read(i, now)});
    }
    CARMA_TRY(base::Wrap(base::WriteAll(file.get(), lines), flags.record));
  }
  return answers;
}

Result<Unit> RunRecord(Context& context, const DoctorFlags& flags) {
  const config::Settings settings = CARMA_TRY(LoadServerSettings(flags.config, ::geteuid() == 0));
  const std::size_t answers = CARMA_TRY(Record(settings, context.version, flags));
  Print(context, context.json
                     ? fmt::format("{{\"answers\":{}}}\n", answers)
                     : fmt::format("Recorded {} driver responses in {}\n", answers, flags.record));
  return Unit{};
}

}  // namespace

void AddDoctorCommand(Syntax app, Context& context) {
  const Syntax verb =
      app.AddVerb("doctor", "Check the driver, the GPUs, permissions and the environment");
  verb.Footer(
      "  carma doctor\n"
      "  carma doctor --record gpus.jsonl --seconds 60   # the driver's responses, once a second\n"
      "  carma doctor --replay gpus.jsonl                # check the GPUs in a recording\n"
      "Exit code: 1 if something is wrong, otherwise 0. Every verb also takes --json and --socket "
      "PATH.");
  auto flags = std::make_shared<DoctorFlags>();
  verb.AddOption("--config", "FILE", flags->config, "read this file instead of the default ones");
  const Option record = verb.AddOption("--record", "FILE", flags->record,
                                       "record the driver's responses instead of checking");
  verb.AddOption("--seconds", "", flags->seconds, "how many seconds to record")
      .Range(1, 86'400)
      .Needs(record)
      .ShowDefault();
  verb.AddOption("--replay", "FILE", flags->replay, "check the GPUs in a recording")
      .Excludes(record);
  verb.AddFlag("!--no-measure", flags->measure,
               "do not create a CUDA context on an idle GPU to measure its memory");
  verb.OnRun([&context, flags, app] {
    flags->socket_given = app.Given("--socket") || !base::GetEnv("CARMA_SOCKET").empty();
    context.Report(flags->record.empty() ? RunDoctor(context, *flags) : RunRecord(context, *flags));
  });
}

}  // namespace carma::cli
