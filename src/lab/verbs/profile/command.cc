// profile: measures workloads alone and together on this server's GPUs.
#include "lab/verbs/profile/command.h"

#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <filesystem>
#include <map>
#include <set>

#include "base/cpu_list.h"
#include "base/file.h"
#include "base/server_clock.h"
#include "base/text.h"
#include "base/try.h"
#include "cli/calls.h"
#include "cli/client/verbs.h"
#include "cli/doctor/ask.h"
#include "cli/progress_line.h"
#include "gpu/reader/load_probe.h"
#include "lab/verbs/noted_signals.h"
#include "lab/verbs/profile/findings.h"
#include "lab/verbs/profile/measure.h"
#include "lab/verbs/profile/plan.h"
#include "lab/verbs/profile/results.h"
#include "lab/verbs/profile/tables.h"
#include "lab/verbs/profile/workloads.h"
#include "lab/verbs/trace/files.h"
#include "task/mps/mps_control.h"

namespace carma::cli {
namespace {

constexpr int kExitInterrupted = 130;
constexpr std::chrono::seconds kLogEvery{30};
// Computing time of built-in workloads in seconds.
constexpr double kRealSeconds = 60, kSimulatedSeconds = 300;
constexpr const char* kWorkloadsFile = "workloads.jsonl";
constexpr const char* kCalibratedFile = "calibrated.jsonl";

// Parses "1-7", "2,4" or "none".
Result<std::vector<int>> ParseDegrees(const std::string& text) {
  if (text == "none") return std::vector<int>{};
  std::optional<std::vector<int>> degrees;
  if (base::Trim(text) == text) degrees = base::ParseCpuList(text);
  if (!degrees || degrees->empty() || degrees->front() < 1 ||
      degrees->back() > kMostProfileDegree) {
    return Invalid("--degrees: expected none or numbers up to {}, such as '1-7' or '2,4', not '{}'",
                   kMostProfileDegree, base::Printable(text, 40));
  }
  return *std::move(degrees);
}

// The training script for real hardware, installed or in the source tree.
Result<std::string> TrainScript() {
  const std::string bin = base::ExecutableDir();
  const std::array places{bin + "/../share/carma/gpu-proof/train_task.py",
                          bin + "/../../../bench/gpu/train_task.py"};
  for (const std::string& place : places) {
    if (base::Exists(place)) return place;
  }
  return NotFound("the built-in workloads (" + places[0] +
                  ") are not installed; pass your own workload file");
}

Result<std::vector<ProfiledWorkload>> WantedWorkloads(const ProfileFlags& flags, bool simulated) {
  if (!flags.file.empty()) {
    const std::string text = CARMA_TRY(ReadInput(flags.file, kMaxWorkloadsBytes));
    return ParseProfiledWorkloads(text, InputName(flags.file));
  }
  if (simulated) {
    return SimulatedWorkloads(flags.built_in, base::ExecutableDir() + "/carma-simtask",
                              flags.seconds.value_or(kSimulatedSeconds));
  }
  const std::string script = CARMA_TRY(TrainScript());
  return TrainedWorkloads(flags.built_in, flags.python, script,
                          flags.seconds.value_or(kRealSeconds));
}

// Refuses GPUs on which a daemon could start tasks at any moment.
Result<Unit> RefuseSharedGpus(Context& context, std::span<const Lane> lanes) {
  const Called<std::vector<api::GpuView>> known = ListGpus(context.client());
  if (!known) return Unit{};  // without a daemon, no GPU is shared
  for (const Lane& lane : lanes) {
    for (const std::string& uuid : lane.uuids) {
      const auto found = std::ranges::find(known->value, uuid, &api::GpuView::uuid);
      if (found == known->value.end() || found->state == "drain") continue;
      return Conflict(
          "the daemon may start tasks on GPU {0}: run carma drain {0} first, and carma resume {0} "
          "afterwards (or use --beside-others to measure anyway)",
          found->index);
    }
  }
  return Unit{};
}

// ---- one invocation of the verb ----

class ProfileCall {
 public:
  ProfileCall(Context& context, const ProfileFlags& flags, config::Settings settings,
              ResultFolder folder)
      : context_(context),
        flags_(flags),
        settings_(std::move(settings)),
        folder_(std::move(folder)) {}

  Result<Unit> Run() {
    std::vector<int> degrees = CARMA_TRY(ParseDegrees(flags_.degrees));
    std::vector<ProfiledWorkload> wanted = CARMA_TRY(WantedWorkloads(flags_, simulated()));
    CARMA_TRY(FindGpus());
    CARMA_TRY(TakeWorkloads(std::move(wanted)));
    MakePlan(PlanOptionsHere(std::move(degrees)));
    Say(fmt::format("{} on {} ({} already measured); {}", base::Counted(planned_, "run"),
                    base::Counted(std::ssize(lanes_), "GPU"), planned_ - plan_.size(), LeftText()));
    if (flags_.dry_run) {
      PrintPlan();
      return Unit{};
    }
    CARMA_TRY(base::MakeDirs(folder_.path() + "/output"));
    const NotedSignals signals;
    Result<Unit> measured = Calibrate();
    if (measured) measured = Measure();
    // The measurements so far are useful even after an error.
    if (!folder_.runs().empty()) CARMA_TRY(WriteTables());
    if (failed_.empty()) return measured;
    if (!measured) failed_.insert(measured.error().message);
    return Conflict("{}", fmt::join(failed_, "; "));
  }

 private:
  bool simulated() const { return !settings_.simgpu_state.empty(); }

  Result<std::vector<ProfiledWorkload>> ReadWorkloads(const std::string& file) const {
    const std::string text = CARMA_TRY(folder_.Read(file));
    if (text.empty()) return std::vector<ProfiledWorkload>{};
    return ParseProfiledWorkloads(text, folder_.path() + "/" + file);
  }

  Result<Unit> WriteWorkloads(const std::string& file,
                              const std::vector<ProfiledWorkload>& workloads) const {
    std::string lines;
    for (const ProfiledWorkload& each : workloads) lines += ProfiledWorkloadJson(each) + "\n";
    return folder_.Write(file, lines);
  }

  void Say(const std::string& text) const {
    std::fprintf(context_.err, "%s\n", text.c_str());
    std::fflush(context_.err);
  }

  Result<Unit> FindGpus() {
    if (simulated()) {
      const base::ClockOrigin clock = CARMA_TRY(base::ReadServerClock(settings_.simgpu_state));
      time_scale_ = clock.time_scale;
    }
    probe_ = gpu::LoadProbe(ProbeOptionsOf(settings_));
    const auto devices = probe_.probe->Devices();
    if (!devices) return std::unexpected(devices.error().AsError());
    devices_ = *devices;
    lanes_ = CARMA_TRY(LanesOf(devices_, flags_.gpus));
    return flags_.beside_others ? Result<Unit>(Unit{}) : RefuseSharedGpus(context_, lanes_);
  }

  bool WasMeasured(const std::string& workload) const {
    return std::ranges::any_of(folder_.runs(), [&](const MeasuredRun& run) {
      return std::ranges::find(run.run.members, workload) != run.run.members.end();
    });
  }

  // Within a folder, a name must always mean the same workload; otherwise its runs could not be
  // compared.
  Result<Unit> TakeWorkloads(std::vector<ProfiledWorkload> wanted) {
    all_ = CARMA_TRY(ReadWorkloads(kWorkloadsFile));
    for (const ProfiledWorkload& each : wanted) {
      const auto same = std::ranges::find(all_, each.name, &ProfiledWorkload::name);
      if (same == all_.end()) {
        all_.push_back(each);
      } else if (*same != each && !WasMeasured(each.name)) {
        *same = each;  // such as a command that was mistyped at first
      } else if (*same != each) {
        return Conflict(
            "{}: '{}' has already been measured with a different command; choose another --output "
            "or another name",
            folder_.path(), each.name);
      }
    }
    workloads_ = std::move(wanted);
    return flags_.dry_run ? Result<Unit>(Unit{}) : WriteWorkloads(kWorkloadsFile, all_);
  }

  MeasureOptions OptionsHere() const {
    return {.settings = settings_,
            .workloads = workloads_,
            .outputs = folder_.path() + "/output",
            .beside_others = flags_.beside_others,
            .time_scale = time_scale_,
            .interrupted = &interrupted};
  }

  Result<ProfiledWorkload> Calibrated(const ProfiledWorkload& workload) {
    Say("calibrating " + workload.name);
    const std::string output =
        CARMA_TRY(RunCalibration(OptionsHere(), *probe_.probe, lanes_.front(), workload));
    const Result<double> steps = StepsTold(output);
    if (!steps) return base::Wrap(steps.error(), "calibration of " + workload.name);
    return WithSteps(workload, *steps);
  }

  // Runs the workloads' calibrations, once per folder, and sets their numbers of steps. If a
  // calibration fails, the runs of its workload are skipped.
  Result<Unit> Calibrate() {
    std::vector<ProfiledWorkload> known = CARMA_TRY(ReadWorkloads(kCalibratedFile));
    for (ProfiledWorkload& each : all_) {
      if (each.calibrate.empty()) continue;
      auto found = std::ranges::find(known, each.name, &ProfiledWorkload::name);
      const auto wanted = std::ranges::find(workloads_, each.name, &ProfiledWorkload::name);
      if (found == known.end()) {
        if (wanted == workloads_.end()) continue;
        Result<ProfiledWorkload> calibrated = Calibrated(each);
        if (!calibrated && interrupted) return std::unexpected(calibrated.error());
        if (!calibrated) {
          failed_.insert(calibrated.error().message);
          planned_ -= std::erase_if(plan_, [&](const PlannedRun& run) {
            return std::ranges::count(run.members, each.name) > 0;
          });
          continue;
        }
        known.push_back(*std::move(calibrated));
        found = known.end() - 1;
        // Appends to the file, so that its comments are kept.
        std::string text = CARMA_TRY(folder_.Read(kCalibratedFile));
        if (!text.empty() && !text.ends_with('\n')) text += '\n';
        CARMA_TRY(folder_.Write(kCalibratedFile, text + ProfiledWorkloadJson(known.back()) + "\n"));
      }
      each = *found;
      if (wanted != workloads_.end()) *wanted = *found;
    }
    return Unit{};
  }

  PlanOptions PlanOptionsHere(std::vector<int> degrees) {
    PlanOptions options{
        .repeats = flags_.repeats, .pairs = flags_.pairs, .degrees = std::move(degrees)};
    for (const std::string& word : flags_.methods)
      options.methods.push_back(*base::FromWord<ProfileMethod>(word));
    const bool whole = std::ranges::any_of(lanes_, [](const Lane& lane) { return !lane.mig; });
    if (std::ranges::count(options.methods, ProfileMethod::kMps) > 0 && whole) {
      const auto trial =
          task::TryMps({base::ExecutableDir() + "/carma-shim", settings_.mps_control, "", {}},
                       false, std::chrono::steady_clock::now() + settings_.mps_timeout);
      if (!trial) {
        Warn(context_, "skipped: mps: " + trial.error().message);
        std::erase(options.methods, ProfileMethod::kMps);
      }
    }
    if (!flags_.watching) return options;
    options.watchers = {Watcher::kNobody, Watcher::kCarma};
    // NVIDIA's tools would measure the real GPUs instead of the simulated ones.
    const std::string path = base::GetEnv("PATH", "/usr/bin:/bin");
    for (const Watcher tool : {Watcher::kNvidiaSmi, Watcher::kDcgmi}) {
      if (!simulated() && !base::FindOnPath(path, base::WordOf(tool)).empty())
        options.watchers.push_back(tool);
    }
    return options;
  }

  void MakePlan(const PlanOptions& options) {
    std::vector<std::string> names;
    for (const ProfiledWorkload& each : workloads_) names.push_back(each.name);
    const std::vector<PlannedRun> plan = PlanOf(names, TypesOf(lanes_), options);
    std::set<std::string> done;
    for (const MeasuredRun& run : folder_.runs()) done.insert(KeyOf(run.run));
    planned_ = plan.size();
    for (const PlannedRun& run : plan) {
      if (!done.contains(KeyOf(run))) plan_.push_back(run);
    }
  }

  // Expected time for the remaining runs, in seconds. Empty if a workload has not run alone and
  // specifies no approximate time.
  std::optional<double> LeftS() const {
    std::map<std::string, double> by_type;
    std::map<std::pair<std::string, std::string>, std::optional<KnownTime>> known;
    for (const PlannedRun& run : plan_) {
      const auto time = ExpectedS(run, [&](const std::string& name) {
        const auto [at, fresh] = known.try_emplace({run.gpu_type, name});
        if (!fresh) return at->second;
        const auto workload = std::ranges::find(workloads_, name, &ProfiledWorkload::name);
        at->second = KnownTimeOf(*workload, run.gpu_type, folder_.runs());
        if (!at->second && workload->seconds) {
          constexpr double kUsualLoadS = 15;
          at->second = KnownTime{.load_s = kUsualLoadS, .time_s = *workload->seconds};
        }
        return at->second;
      });
      if (!time) return std::nullopt;
      by_type[run.gpu_type] += *time;
    }
    double longest_s = 0;
    for (const auto& [type, sum_s] : by_type) {
      const auto lanes = std::ranges::count(lanes_, type, &Lane::gpu_type);
      longest_s = std::max(longest_s, sum_s / static_cast<double>(lanes) / time_scale_);
    }
    return longest_s;
  }

  std::string LeftText() const {
    const std::optional<double> left_s = LeftS();
    if (!left_s) return "the remaining time will be known once each workload has run alone";
    return "about " + base::FormatSpan(base::Duration(std::llround(*left_s * 1000))) + " to go";
  }

  void PrintPlan() const {
    std::vector<std::string> keys;
    for (const PlannedRun& run : plan_)
      keys.push_back(context_.json ? JsonString(KeyOf(run)) : KeyOf(run));
    if (!context_.json) return Print(context_, keys.empty() ? "" : base::Join(keys, "\n") + "\n");
    const std::optional<double> left_s = LeftS();
    Print(context_,
          fmt::format("{{\"runs\":{},\"kept\":{},\"seconds\":{}}}\n", JsonList(keys),
                      planned_ - plan_.size(), left_s ? fmt::format("{:.0f}", *left_s) : "null"));
  }

  // Returns why the run cannot fit on its GPU, or an empty string. All members have already been
  // measured alone, so their total memory is known.
  std::string Refusal(const PlannedRun& run) const {
    if (run.members.size() == 1 || run.method == ProfileMethod::kMig) return "";
    std::int64_t wanted_mib = 0;
    for (const std::string& member : run.members) {
      std::int64_t most_mib = 0;
      for (const MeasuredRun& each : folder_.runs()) {
        const bool same =
            each.run.alone() && each.run.gpu_type == run.gpu_type && each.run.members[0] == member;
        if (same && !each.failed.empty()) return member + " failed alone";
        if (same) most_mib = std::max(most_mib, each.memory_mib.value_or(0));
      }
      wanted_mib += most_mib;
    }
    const auto device = std::ranges::find(lanes_, run.gpu_type, &Lane::gpu_type)->devices[0];
    const std::int64_t usable_mib = devices_[device].total_mib - devices_[device].reserved_mib;
    if (wanted_mib <= usable_mib) return "";
    return fmt::format("they need {}, but only {} is usable", base::FormatMib(wanted_mib),
                       base::FormatMib(usable_mib));
  }

  Result<Unit> Measure() {
    ProgressLine line(context_, kLogEvery);
    std::string left = LeftText();
    MeasureListener listener;
    listener.take = [&](MeasuredRun run) {
      const std::string key = KeyOf(run.run);
      Result<Unit> added = folder_.Add(std::move(run));
      std::erase_if(plan_, [&](const PlannedRun& each) { return KeyOf(each) == key; });
      left = LeftText();
      return added;
    };
    listener.refuse = [&](const PlannedRun& run) { return Refusal(run); };
    listener.show = [&](const std::vector<std::string>& under_way) {
      line.Show(fmt::format("{} of {}, {}; now {}", planned_ - plan_.size(),
                            base::Counted(planned_, "run"), left, base::Join(under_way, " | ")));
    };
    const Result<Unit> measured =
        MeasureRuns(OptionsHere(), *probe_.probe, lanes_, plan_, listener);
    line.End();
    return measured;
  }

  void WarnOfOmitted(const std::vector<profile::WorkloadProfile>& profiles) const {
    for (const profile::WorkloadProfile& each : profiles) {
      if (!InCatalogue(each))
        Warn(context_,
             fmt::format("catalogue.csv omits '{}', because its SM activity or memory was "
                         "not measured",
                         each.workload));
    }
  }

  Result<Unit> WriteTables() const {
    std::vector<TypeFindings> findings = FindingsOf(all_, folder_.runs());
    std::error_code unknown;
    const std::string here = std::filesystem::current_path(unknown).string();
    std::vector<profile::WorkloadProfile> profiles;
    for (TypeFindings& type : findings) {
      for (profile::WorkloadProfile& each : type.profiles) {
        const auto workload = std::ranges::find(all_, each.workload, &ProfiledWorkload::name);
        // Stays empty on errors, because a missing signature must not make the profile fail.
        if (!unknown) each.signature = SignatureOf(*workload, here, ::getuid()).value_or("");
        profiles.push_back(each);
      }
    }
    if (!findings.empty()) WarnOfOmitted(findings.front().profiles);
    const std::string json = FindingsJson(findings, folder_.runs());
    const std::array<std::pair<const char*, std::string>, 6> files{{
        {"profiles.csv", profile::ProfilesCsv(profiles)},
        {"slowdowns.csv", MeetingsCsv(findings)},
        {"watching.csv", WatchingCsv(findings)},
        {"catalogue.csv", findings.empty() ? "" : CatalogueCsv(findings.front())},
        {"profile.json", json},
        {"profile.html", FindingsHtml(findings, folder_.runs(), "Profile of this server")},
    }};
    std::vector<std::string> names;
    for (const auto& [name, text] : files) {
      CARMA_TRY(folder_.Write(name, text));
      names.emplace_back(name);
    }
    if (context_.json) {
      Print(context_, json);
    } else {
      Print(context_, FindingsText(findings, folder_.runs(), ScreenOf(context_.out)) +
                          "written to " + folder_.path() + ": " + base::Join(names, ", ") + "\n");
    }
    return Unit{};
  }

  Context& context_;
  const ProfileFlags& flags_;
  config::Settings settings_;
  ResultFolder folder_;
  double time_scale_ = 1;
  gpu::LoadedProbe probe_;
  std::vector<gpu::DeviceInfo> devices_;
  std::vector<Lane> lanes_;
  std::vector<ProfiledWorkload> workloads_;  // workloads of this invocation
  std::vector<ProfiledWorkload> all_;        // including those measured in this folder earlier
  std::deque<PlannedRun> plan_;              // remaining runs
  std::size_t planned_ = 0;
  std::set<std::string> failed_;  // why calibrations failed
};

}  // namespace

void RunProfile(Context& context, const ProfileFlags& flags) {
  const auto settings = LoadServerSettings(flags.config, ::geteuid() == 0);
  if (!settings) return context.Fail(settings.error());
  const Result<std::string> path = AbsolutePath(flags.output);
  if (!path) return context.Fail(path.error());
  Result<ResultFolder> folder =
      flags.dry_run ? ResultFolder::Look(*path) : ResultFolder::Open(*path);
  if (!folder) return context.Fail(folder.error());
  const Result<Unit> done = ProfileCall(context, flags, *settings, std::move(*folder)).Run();
  if (done) return;
  context.Fail(done.error());
  if (!interrupted) return;
  Warn(context, "the measurements so far have been saved; repeat the command to continue");
  context.exit_code = kExitInterrupted;
}

}  // namespace carma::cli
