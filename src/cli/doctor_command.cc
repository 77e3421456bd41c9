// doctor: looks over the machine for whatever CARMA needs, and records what the driver answers.
#include <fcntl.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "cli/calls.h"
#include "cli/command.h"
#include "cli/doctor.h"
#include "cli/verbs.h"
#include "gpu/load_probe.h"
#include "gpu/recording.h"

namespace carma::cli {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Result;

// Real time until the driver has answered everything once.
constexpr std::chrono::seconds kDriverPatience{20};
// Counters are means between two samples, which NVML wants at least 100 ms apart.
constexpr std::chrono::milliseconds kSamplePause{300};
constexpr std::chrono::seconds kRecordPeriod{1};

struct DoctorFlags {
  std::string config;  // empty: the ordinary files
  std::string record;  // empty: no recording
  std::string replay;  // a recording to look at in place of this machine's GPUs
  int seconds = 60;
  bool socket_given = false;
};

// The call may never come back: then its thread is left to the end of the process.
template <class T>
std::optional<T> Within(std::chrono::seconds patience, std::function<T()> call) {
  struct Meeting {
    std::mutex mutex;
    std::condition_variable done;
    std::optional<T> value;
  };
  auto meeting = std::make_shared<Meeting>();  // shared: either side may be the last
  std::thread([meeting, call = std::move(call)] {
    T value = call();
    const std::scoped_lock lock(meeting->mutex);
    meeting->value = std::move(value);
    meeting->done.notify_one();
  }).detach();
  std::unique_lock lock(meeting->mutex);
  meeting->done.wait_for(lock, patience, [&] { return meeting->value.has_value(); });
  return std::move(meeting->value);
}

gpu::ProbeOptions OptionsOf(const config::Settings& settings) {
  return {.nvml_library = settings.nvml_library,
          .source = settings.activity_source,
          .period = settings.sample_period};
}

DriverFacts AskDriver(const config::Settings& settings) {
  DriverFacts facts{.versions = gpu::AskDriverVersions(settings.nvml_library),
                    .gpus = {},
                    .dcgm_trouble = "",
                    .simulated = !settings.simgpu_state.empty()};
  if (!facts.versions) return facts;
  Result<gpu::LoadedProbe> loaded = gpu::LoadProbe(OptionsOf(settings));
  if (!loaded) {
    facts.gpus = std::unexpected(loaded.error());
    return facts;
  }
  const Result<std::vector<gpu::DeviceInfo>> devices = loaded->probe->Devices();
  if (!devices) {
    facts.gpus = std::unexpected(devices.error());
    return facts;
  }
  std::this_thread::sleep_for(kSamplePause);
  base::SystemClock clock;
  for (std::size_t i = 0; i < devices->size(); ++i) {
    facts.gpus->push_back({(*devices)[i], loaded->probe->Read(i, clock.Now())});
  }
  if (loaded->dcgm_trouble) facts.dcgm_trouble = loaded->dcgm_trouble();
  return facts;
}

DriverFacts AskDriverPatiently(const config::Settings& settings) {
  std::optional<DriverFacts> facts =
      Within<DriverFacts>(kDriverPatience, [settings] { return AskDriver(settings); });
  if (facts) return std::move(*facts);
  return {.versions = Fail(ErrorCode::kUnavailable, "the driver has not answered for " +
                                                        std::to_string(kDriverPatience.count()) +
                                                        " s: it hangs"),
          .gpus = {},
          .dcgm_trouble = "",
          .simulated = !settings.simgpu_state.empty(),
          .hangs = true};
}

// The last answers of a recording, which somebody else's machine gave.
Result<DriverFacts> AskRecording(const std::string& path) {
  const Result<std::string> text = base::ReadFile(path, gpu::kMaxRecordingBytes);
  if (!text) return std::unexpected(text.error());
  const Result<gpu::Recording> recording = gpu::ParseRecording(*text);
  if (!recording) return base::Wrap(recording.error(), path);
  DriverFacts facts{.versions = gpu::DriverVersions{.driver = recording->driver},
                    .gpus = {},
                    .dcgm_trouble = "",
                    .simulated = false};
  for (const gpu::DeviceInfo& info : recording->devices) {
    facts.gpus->push_back({info, Fail(ErrorCode::kUnavailable, "nothing was recorded of it")});
  }
  for (const gpu::RecordedAnswer& answer : recording->answers) {
    (*facts.gpus)[answer.device].reading = answer.reading;
  }
  return facts;
}

Result<DiskFacts> AskDisk(std::string path) {
  while (!base::Exists(path) && path.size() > 1) {
    const std::size_t slash = path.rfind('/');
    path = slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
  }
  struct statvfs disk {};
  if (::statvfs(path.c_str(), &disk) != 0) return base::FailErrno(errno, path);
  return DiskFacts{.path = path,
                   .free_bytes = std::uint64_t{disk.f_bavail} * disk.f_frsize,
                   .free_files = disk.f_favail,
                   .counts_files = disk.f_files > 0};
}

ClockFacts AskClock(const Result<api::StatusView>& status) {
  timex answer{};
  ClockFacts clock{.now_ms = base::ToMs(base::SystemClock().Now()),
                   .synchronised = ::adjtimex(&answer) != TIME_ERROR,
                   .daemon_ms = {}};
  if (status && status->time_scale == 1) clock.daemon_ms = status->now_ms;
  return clock;
}

// Of the daemon where there is one, for it is the one that makes groups; else of this process.
task::CgroupBase AskCgroups(const Result<api::StatusView>& status) {
  if (!status) return task::FindCgroupBase();
  const std::string process = "/proc/" + std::to_string(status->pid);
  constexpr std::size_t kMaxText = 1 << 20;
  const Result<std::string> group = base::ReadFile(process + "/cgroup", kMaxText);
  const Result<std::string> mounts = base::ReadFile(process + "/mountinfo", kMaxText);
  if (!group || !mounts) return {.root = "", .path = "", .reason = "the daemon's group is hidden"};
  return task::ParseCgroupPlace(*group, *mounts);
}

// For the configuration of a daemon that runs as root, or not. The simulated driver finds its
// server by the environment, as it does below the daemon.
Result<config::Settings> LoadSettings(const DoctorFlags& flags, bool of_root) {
  const std::optional<std::string> file =
      flags.config.empty() ? std::nullopt : std::optional(flags.config);
  Result<config::Loaded> loaded = config::Load(config::StandardSources(file, of_root));
  if (!loaded) return std::unexpected(loaded.error());
  const std::string& simulated = loaded->settings.simgpu_state;
  if (!simulated.empty()) ::setenv("CARMA_SIMGPU_STATE", simulated.c_str(), 1);
  return std::move(loaded->settings);
}

Result<api::StatusView> AskDaemon(Context& context) {
  auto answer = GetStatus(context.client());
  if (!answer) return std::unexpected(answer.error());
  return std::move(answer->value);
}

void RunDoctor(Context& context, const DoctorFlags& flags) {
  if (!flags.config.empty() && !flags.socket_given) {
    const Result<config::Settings> named = LoadSettings(flags, ::geteuid() == 0);
    if (!named) return context.Fail(named.error());
    context.socket_path = named->socket;
  }
  const Result<api::StatusView> status = AskDaemon(context);
  // A daemon that serves everybody is root's, whoever asks.
  const bool of_root = status ? status->uid == 0 : ::geteuid() == 0;
  const Result<config::Settings> loaded = LoadSettings(flags, of_root);
  if (!loaded) return context.Fail(loaded.error());
  const config::Settings& settings = *loaded;
  Result<DriverFacts> facts = flags.replay.empty()
                                  ? Result<DriverFacts>(AskDriverPatiently(settings))
                                  : AskRecording(flags.replay);
  if (!facts) return context.Fail(facts.error());

  std::vector<Finding> findings = CheckDriver(*facts, settings);
  const auto add = [&](std::vector<Finding> more) {
    std::move(more.begin(), more.end(), std::back_inserter(findings));
  };
  if (flags.replay.empty()) {
    add(CheckRights("", ::geteuid() == 0, facts->simulated));
    add({CheckMps("", settings), CheckCgroups(AskCgroups(status), settings),
         CheckDisk(AskDisk(settings.state_dir)), CheckClock(AskClock(status))});
    add(CheckDaemon(status, context.socket_path));
  }
  Print(context,
        context.json ? DoctorJson(findings, *facts) : DoctorText(findings, ScreenOf(context.out)));
  if (Worst(findings) == Level::kBad) context.exit_code = kExitFailure;
}

// ---- recording ----

// Errors: kIo, and those of the driver before the first line is written.
Result<std::size_t> Record(const config::Settings& settings, const std::string& version,
                           const DoctorFlags& flags) {
  Result<gpu::LoadedProbe> loaded = gpu::LoadProbe(OptionsOf(settings));
  if (!loaded) return std::unexpected(loaded.error());
  const Result<std::vector<gpu::DeviceInfo>> devices = loaded->probe->Devices();
  if (!devices) return std::unexpected(devices.error());
  const base::UniqueFd file(
      ::open(flags.record.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file) return base::FailErrno(errno, flags.record);
  gpu::Recording head{
      .made_by = "carma " + version,
      .driver =
          gpu::AskDriverVersions(settings.nvml_library).value_or(gpu::DriverVersions{}).driver,
      .devices = *devices,
      .answers = {}};
  if (auto wrote = base::WriteAll(file.get(), gpu::RecordingHead(head)); !wrote) {
    return base::Wrap(wrote.error(), flags.record);
  }
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
      lines += gpu::RecordingLine({now - *began, i, loaded->probe->Read(i, now)});
    }
    if (auto wrote = base::WriteAll(file.get(), lines); !wrote) {
      return base::Wrap(wrote.error(), flags.record);
    }
  }
  return answers;
}

void RunRecord(Context& context, const DoctorFlags& flags) {
  const Result<config::Settings> settings = LoadSettings(flags, ::geteuid() == 0);
  if (!settings) return context.Fail(settings.error());
  const Result<std::size_t> answers = Record(*settings, context.version, flags);
  if (!answers) return context.Fail(answers.error());
  if (context.json) {
    Print(context, "{\"answers\":" + std::to_string(*answers) + "}\n");
  } else {
    Print(context, "Recorded " + std::to_string(*answers) + " answers in " + flags.record + "\n");
  }
}

}  // namespace

void AddDoctorCommand(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand("doctor", "Look over driver, GPUs, rights and surroundings");
  verb->footer(
      "  carma doctor\n"
      "  carma doctor --record gpus.jsonl --seconds 60   # what the driver answers, once a second\n"
      "  carma doctor --replay gpus.jsonl                # the GPUs of a recording\n"
      "Exit code: 0 nothing is bad, 1 something is. Every verb also takes --json and --socket "
      "PATH.");
  auto flags = std::make_shared<DoctorFlags>();
  verb->add_option("--config", flags->config, "this file instead of the ordinary ones")
      ->type_name("FILE");
  CLI::Option* record = verb->add_option("--record", flags->record,
                                         "write what the driver answers, and check nothing")
                            ->type_name("FILE");
  verb->add_option("--seconds", flags->seconds, "how long to record")
      ->check(CLI::Range(1, 86'400))
      ->needs(record)
      ->capture_default_str();
  verb->add_option("--replay", flags->replay, "look at the GPUs of a recording")
      ->type_name("FILE")
      ->excludes(record);
  const CLI::Option* socket = app.get_option("--socket");
  verb->callback([&context, flags, socket] {
    flags->socket_given = socket->count() > 0 || !base::GetEnv("CARMA_SOCKET").empty();
    if (flags->record.empty()) {
      RunDoctor(context, *flags);
    } else {
      RunRecord(context, *flags);
    }
  });
}

}  // namespace carma::cli
