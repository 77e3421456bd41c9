#include "lab/verbs/profile/measure.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "base/try.h"
#include "lab/verbs/profile/keeper.h"
#include "task/mps/mps.h"
#include "task/verdict/oom_detect.h"

namespace carma::cli {
namespace {

constexpr double kNsPerS = 1e9;
// Minimum real time between two readings of the GPUs, independent of a simulated server's clock
// speed.
constexpr std::int64_t kLeastLookNs = 20'000'000;
// The driver may still list a process briefly after it exits.
constexpr std::int64_t kOthersPatienceNs = 5'000'000'000;
constexpr std::size_t kMaxOutput = std::size_t{256} << 20;

// This process's environment as "NAME=value", without CUDA_MPS_* variables and with those in
// `wanted` set or replaced.
std::vector<std::string> EnvironmentWith(const std::map<std::string, std::string>& wanted) {
  std::vector<std::string> list;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view line = *each;
    const std::string name(line.substr(0, line.find('=')));
    if (!name.starts_with("CUDA_MPS_") && !wanted.contains(name)) list.emplace_back(line);
  }
  for (const auto& [name, value] : wanted) list.push_back(name + "=" + value);
  return list;
}

std::vector<std::string> WatcherCommand(Watcher watcher) {
  if (watcher == Watcher::kNvidiaSmi) {
    return {"nvidia-smi", "--query-gpu=utilization.gpu,memory.used,power.draw", "--format=csv",
            "-l", "1"};
  }
  // The same counters that carmad reads.
  return {"dcgmi", "dmon", "-e", "203,1001,1002,1003,1004,1005,1006,1007,1008,155,156",
          "-d",    "1000"};
}

// Returns the last line of a program's output, for an error message.
std::string LastLine(const std::string& text) {
  std::string_view last;
  for (const std::string_view line : base::Split(text, '\n')) {
    if (!base::Trim(line).empty()) last = base::Trim(line);
  }
  return last.empty() ? "without output" : base::Printable(last);
}

ProfileSample SampleOf(const gpu::Reading& reading, double at_s) {
  return {.at_s = at_s,
          .sm_active = reading.sm_active,
          .utilization = reading.utilization,
          .used_mib = reading.used_mib,
          .energy_j = reading.energy_j};
}

// ---- one run ----

class ActiveRun {
 public:
  ActiveRun(PlannedRun run, const Lane& lane, const MeasureOptions& options,
            const gpu::Reading& before)
      : run_(std::move(run)),
        lane_(lane),
        options_(options),
        start_ns_(base::BootTimeNs()),
        slots_(run_.members.size()),
        samples_{SampleOf(before, 0)} {}

  // Starts the MPS daemon and the watcher, if the run needs them, and all members. Returns an error
  // if one of them cannot be started.
  Result<Unit> Begin() {
    if (run_.method == ProfileMethod::kMps) {
      auto mps = KeptMps::Start({.shim = base::ExecutableDir() + "/carma-shim",
                                 .program = options_.settings.mps_control,
                                 .gpu = lane_.uuids[0],
                                 .simgpu_state = options_.settings.simgpu_state,
                                 .timeout = options_.settings.mps_timeout});
      if (!mps) return base::Wrap(mps.error(), "MPS");
      mps_.emplace(std::move(*mps));
    }
    if (run_.cost_of == Watcher::kNvidiaSmi || run_.cost_of == Watcher::kDcgmi) {
      watcher_.emplace(CARMA_TRY(KeptProgram::Start({.command = WatcherCommand(*run_.cost_of),
                                                     .environment = EnvironmentWith({}),
                                                     .output = "/dev/null"})));
    }
    start_ns_ = base::BootTimeNs();
    for (std::size_t i = 0; i < slots_.size(); ++i) CARMA_TRY(StartMember(i));
    return Unit{};
  }

  bool WantsSamples() const { return !run_.cost_of || run_.cost_of == Watcher::kCarma; }
  bool over() const {
    return std::ranges::none_of(slots_, [](const Slot& slot) { return slot.program.has_value(); });
  }
  // True if all members have exited and, if the run needs samples, one was taken after the last
  // exit.
  bool complete() const { return over() && (!WantsSamples() || read_after_); }
  const PlannedRun& planned() const { return run_; }
  bool out_of_memory() const { return out_of_memory_; }

  void AddFds(std::vector<pollfd>& entries) const {
    for (const Slot& slot : slots_) {
      if (slot.program) entries.push_back({slot.program->fd(), POLLIN, 0});
    }
  }

  // Handles the exits of members, restarting them until every one has finished once. Returns a
  // system error if a restart fails.
  Result<Unit> TakeNews() {
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      Slot& slot = slots_[i];
      if (!slot.program) continue;
      slot.program->Listen();
      if (slot.program->ended()) TakeEnd(i);
    }
    if (watcher_) {
      watcher_->Listen();
      if (watcher_->ended()) Fails(std::string(base::WordOf(*run_.cost_of)) + " exited on its own");
    }
    const bool all = std::ranges::all_of(slots_, [](const Slot& slot) { return slot.ended_once; });
    if (all || !failed_.empty()) {
      stopping_ = true;
      for (Slot& slot : slots_) {
        if (slot.program) slot.program->Stop();
      }
      return Unit{};
    }
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (!slots_[i].program) CARMA_TRY(StartMember(i));
    }
    return Unit{};
  }

  void TakeSample(const gpu::Reading& reading, std::int64_t at_ns) {
    const double at_s = Since(at_ns);
    if (at_s <= samples_.back().at_s) return;
    read_after_ = over();
    samples_.push_back(SampleOf(reading, at_s));
  }

  // Called if the driver does not respond. A run whose members have exited then ends without a
  // final sample.
  void NotAnswered() { read_after_ = over(); }

  MeasuredRun Measured() const {
    MeasuredRun measured{.run = run_, .gpu = lane_.board, .instances = instances_};
    measured.failed = failed_;
    if (!WantsSamples() || run_.method == ProfileMethod::kMig) return measured;
    const ProfileSample& before = samples_.front();
    std::int64_t most_mib = before.used_mib;
    for (const ProfileSample& each : samples_) most_mib = std::max(most_mib, each.used_mib);
    measured.memory_mib = most_mib - before.used_mib;
    if (before.energy_j && samples_.back().energy_j &&
        *samples_.back().energy_j >= *before.energy_j)
      measured.energy_j = *samples_.back().energy_j - *before.energy_j;
    if (run_.members.size() > 1 || instances_.empty()) return measured;
    const RunInstance& only = instances_.front();
    const std::optional<ActiveSpan> active = ActiveSpanOf(samples_);
    if (!active) return measured;
    const double length_s = only.end_s - only.begin_s;
    measured.load_s = std::clamp(active->from_s - only.begin_s, 0.0, length_s);
    measured.unload_s = std::clamp(only.end_s - active->until_s, 0.0, only.end_s - active->from_s);
    measured.sm_active =
        MeanSmActive(samples_, active->from_s, std::min(active->until_s, only.end_s));
    return measured;
  }

 private:
  // One of the workloads that run together.
  struct Slot {
    std::optional<KeptProgram> program;
    bool ended_once = false;
  };

  double Since(std::int64_t ns) const {
    return static_cast<double>(ns - start_ns_) / kNsPerS * options_.time_scale;
  }

  std::vector<std::string> EnvironmentOf(std::size_t member) const {
    const bool own_instance = run_.method == ProfileMethod::kMig;
    std::map<std::string, std::string> wanted =
        mps_ ? task::MpsClientEnvironment(mps_->dir, {::getuid(), ::getgid(), lane_.uuids[0]}, {},
                                          false)
             : task::WithoutMpsEnvironment();
    wanted["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID";
    wanted["CUDA_VISIBLE_DEVICES"] = lane_.uuids[own_instance ? member : 0];
    return EnvironmentWith(wanted);
  }

  std::string OutputOf(std::size_t member) const {
    return fmt::format("{}/{}-{}.log", options_.outputs, lane_.devices[0], member + 1);
  }

  Result<Unit> StartMember(std::size_t i) {
    const auto workload =
        std::ranges::find(options_.workloads, run_.members[i], &ProfiledWorkload::name);
    CARMA_CHECK(workload != options_.workloads.end(), "a planned workload is unknown");
    slots_[i].program.emplace(CARMA_TRY(KeptProgram::Start({.command = workload->command,
                                                            .environment = EnvironmentOf(i),
                                                            .workdir = workload->workdir,
                                                            .output = OutputOf(i)})));
    return Unit{};
  }

  void TakeEnd(std::size_t i) {
    Slot& slot = slots_[i];
    const Result<KeptRun> outcome = slot.program->Outcome();
    slot.program.reset();
    if (!outcome) return Fails(run_.members[i] + ": " + outcome.error().message);
    instances_.push_back({.member = static_cast<int>(i),
                          .begin_s = std::max(0.0, Since(outcome->began_ns)),
                          .end_s = std::max(0.0, Since(outcome->ended_ns)),
                          .code = outcome->code,
                          .stopped = stopping_});
    slot.ended_once = true;
    if (outcome->code != 0 && !stopping_) {
      const std::string output = base::ReadFile(OutputOf(i), kMaxOutput).value_or("");
      out_of_memory_ = task::FindOomText(output).has_value();
      Fails(fmt::format("{} exited with code {}: {}", run_.members[i], outcome->code,
                        LastLine(output)));
    }
  }

  void Fails(const std::string& why) {
    if (failed_.empty() && !stopping_) failed_ = why;
  }

  PlannedRun run_;
  const Lane& lane_;
  const MeasureOptions& options_;
  std::int64_t start_ns_;
  std::optional<KeptMps> mps_;  // must outlive its clients
  std::optional<KeptProgram> watcher_;
  std::vector<Slot> slots_;
  std::vector<RunInstance> instances_;
  std::vector<ProfileSample> samples_;
  std::string failed_;
  bool out_of_memory_ = false;
  bool stopping_ = false;
  bool read_after_ = false;
};

struct Place {
  const Lane& lane;
  std::unique_ptr<ActiveRun> run = nullptr;
  std::int64_t busy_since_ns = 0;  // since when another process has used the lane; 0: not used
};

// ---- all runs ----

class Measurement {
 public:
  Measurement(const MeasureOptions& options, gpu::Probe& probe, std::span<const Lane> lanes,
              std::deque<PlannedRun> plan, const MeasureListener& listener)
      : options_(options), probe_(probe), plan_(std::move(plan)), listener_(listener) {
    for (const Lane& lane : lanes) places_.push_back({lane});
  }

  Result<Unit> Run() {
    while (!plan_.empty() ||
           std::ranges::any_of(places_, [](const Place& place) { return place.run != nullptr; })) {
      CARMA_TRY(Step());
    }
    if (failed_.empty()) return Unit{};
    return Conflict("{}", fmt::join(failed_, "; "));
  }

 private:
  Result<Unit> Step() {
    if (options_.interrupted && *options_.interrupted) return Conflict("interrupted");
    CARMA_TRY(TakeNews());
    for (Place& place : places_) {
      if (!place.run) CARMA_TRY(StartOn(place));
    }
    std::vector<std::string> under_way;
    for (const Place& place : places_) {
      if (place.run) under_way.push_back(base::Join(place.run->planned().members, " + "));
    }
    listener_.show(under_way);
    Wait();
    ReadGpus();
    return Unit{};
  }

  auto Read(std::size_t device) const {
    return probe_.Read(device, base::FromMs(base::BootTimeNs() / 1'000'000));
  }

  // Reads the lane's GPUs before a run and returns the first reading. If another process uses the
  // lane, returns nothing and describes that process in `by`. Returns the driver's errors.
  Result<std::optional<gpu::Reading>> ReadBefore(const Lane& lane, std::string& by) const {
    std::optional<gpu::Reading> first;
    for (const std::size_t device : lane.devices) {
      const auto reading = Read(device);
      if (!reading) return std::unexpected(reading.error().AsError());
      for (const gpu::ProcessUse& use : reading->processes) {
        if (use.mps_server || options_.beside_others) continue;
        by = fmt::format("process {}", use.pid);
        return std::nullopt;
      }
      // In many containers the driver lists no processes. Memory in use is then the only sign that
      // another process is running.
      if (reading->used_mib > options_.settings.unattributed_mib && !options_.beside_others) {
        by = fmt::format("a process that holds {}", base::FormatMib(reading->used_mib));
        return std::nullopt;
      }
      if (!first) first = *reading;
    }
    return first;
  }

  // A physical GPU takes only one run at a time. While the cost of monitoring is being measured, no
  // other run may use the machine.
  bool MayStart(const Place& place, const PlannedRun& run) const {
    if (run.gpu_type != place.lane.gpu_type) return false;
    if (run.method == ProfileMethod::kMig && run.members.size() > place.lane.devices.size())
      return false;
    return std::ranges::none_of(places_, [&](const Place& other) {
      return other.run &&
             (run.cost_of || other.run->planned().cost_of || other.lane.board == place.lane.board);
    });
  }

  // Workloads whose solo runs have not all ended.
  std::set<std::string> StillAlone(const std::string& gpu_type) const {
    std::set<std::string> names;
    const auto note = [&](const PlannedRun& run) {
      if (run.alone() && !run.cost_of && run.gpu_type == gpu_type) names.insert(run.members[0]);
    };
    for (const PlannedRun& run : plan_) note(run);
    for (const Place& each : places_) {
      if (each.run) note(each.run->planned());
    }
    return names;
  }

  Result<Unit> StartOn(Place& place) {
    // Solo runs must come first, because they show whether the members fit on the GPU together.
    const std::set<std::string> alone = StillAlone(place.lane.gpu_type);
    const auto next = std::ranges::find_if(plan_, [&](const PlannedRun& run) {
      return MayStart(place, run) &&
             (run.alone() || std::ranges::none_of(run.members, [&](const std::string& member) {
                return alone.contains(member);
              }));
    });
    if (next == plan_.end()) return Unit{};
    if (std::string why = listener_.refuse(*next); !why.empty()) {
      MeasuredRun refused{.run = std::move(*next), .gpu = place.lane.board};
      refused.failed = std::move(why);
      plan_.erase(next);
      return listener_.take(std::move(refused));
    }
    std::string by;
    const auto before = CARMA_TRY(ReadBefore(place.lane, by));
    if (!before) {
      const std::int64_t now_ns = base::BootTimeNs();
      if (place.busy_since_ns == 0) place.busy_since_ns = now_ns;
      if (now_ns - place.busy_since_ns < kOthersPatienceNs) return Unit{};
      return Conflict("GPU {} is used by {}; use a free GPU (or --beside-others to measure anyway)",
                      place.lane.devices[0], by);
    }
    place.busy_since_ns = 0;
    place.run = std::make_unique<ActiveRun>(std::move(*next), place.lane, options_, *before);
    plan_.erase(next);
    return place.run->Begin();
  }

  Result<Unit> TakeNews() {
    for (Place& place : places_) {
      if (!place.run) continue;
      CARMA_TRY(place.run->TakeNews());
      if (!place.run->complete()) continue;
      MeasuredRun measured = place.run->Measured();
      const bool out_of_memory = place.run->out_of_memory();
      // Other processes may be the cause, so this says nothing about the workload.
      const bool beside_others = out_of_memory && options_.beside_others;
      if (beside_others) measured.failed += " (other processes may hold the memory)";
      place.run.reset();  // also stops its MPS server
      const bool solo = measured.run.members.size() == 1 && !measured.run.cost_of;
      if (solo && !measured.failed.empty() && (!out_of_memory || beside_others)) {
        Skip(measured);
      } else if (beside_others) {
        failed_.insert(base::Join(measured.run.members, " + ") + ": " + measured.failed);
      } else {
        CARMA_TRY(listener_.take(std::move(measured)));
      }
    }
    return Unit{};
  }

  // Skips the remaining runs of a workload that failed alone. They are not recorded, so they are
  // tried again when the command is repeated.
  void Skip(const MeasuredRun& failed) {
    failed_.insert("alone, " + failed.failed);
    std::erase_if(plan_, [&](const PlannedRun& run) {
      return run.gpu_type == failed.run.gpu_type &&
             std::ranges::count(run.members, failed.run.members[0]) > 0;
    });
  }

  void ReadGpus() {
    const std::int64_t now_ns = base::BootTimeNs();
    if (now_ns < next_look_ns_) return;
    const double period_s = base::Seconds(options_.settings.sample_period) / options_.time_scale;
    next_look_ns_ = now_ns + std::max(kLeastLookNs, static_cast<std::int64_t>(period_s * kNsPerS));
    for (const Place& place : places_) {
      if (!place.run || !place.run->WantsSamples()) continue;
      const std::int64_t at_ns = base::BootTimeNs();
      if (const auto reading = Read(place.lane.devices[0])) {
        place.run->TakeSample(*reading, at_ns);
      } else {
        place.run->NotAnswered();
      }
    }
  }

  void Wait() {
    std::vector<pollfd> entries;
    for (const Place& place : places_) {
      if (place.run) place.run->AddFds(entries);
    }
    const std::int64_t left_ns = std::max<std::int64_t>(0, next_look_ns_ - base::BootTimeNs());
    ::poll(entries.data(), entries.size(), static_cast<int>((left_ns + 999'999) / 1'000'000));
  }

  const MeasureOptions& options_;
  gpu::Probe& probe_;
  std::deque<PlannedRun> plan_;
  const MeasureListener& listener_;
  std::vector<Place> places_;
  std::set<std::string> failed_;  // why runs failed that are not recorded
  std::int64_t next_look_ns_ = 0;
};

}  // namespace

Result<Unit> MeasureRuns(const MeasureOptions& options, gpu::Probe& probe,
                         std::span<const Lane> lanes, std::deque<PlannedRun> plan,
                         const MeasureListener& listener) {
  return Measurement(options, probe, lanes, std::move(plan), listener).Run();
}

Result<std::string> RunCalibration(MeasureOptions options, gpu::Probe& probe, const Lane& lane,
                                   const ProfiledWorkload& workload) {
  const std::string name = "calibration of " + workload.name;
  options.workloads = {{.name = name, .command = workload.calibrate, .workdir = workload.workdir}};
  const MeasureListener nobody{.take = [](MeasuredRun run) -> Result<Unit> {
                                 if (run.failed.empty()) return Unit{};
                                 return Conflict(run.failed);
                               },
                               .refuse = [](const PlannedRun&) { return std::string(); },
                               .show = [](const std::vector<std::string>&) {}};
  const PlannedRun run{ProfileMethod::kStreams, lane.gpu_type, {name}, 1, std::nullopt};
  CARMA_TRY(MeasureRuns(options, probe, {&lane, 1}, {run}, nobody));
  return base::ReadFile(fmt::format("{}/{}-1.log", options.outputs, lane.devices[0]), kMaxOutput);
}

}  // namespace carma::cli
