#include "lab/verbs/profile/measure.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "base/try.h"
#include "task/mps/mps.h"

namespace carma::cli {
namespace {

constexpr double kNsPerS = 1e9;
// Minimum real time between two readings of the GPUs, independent of a simulated server's clock
// speed.
constexpr std::int64_t kLeastLookNs = 20'000'000;
// The driver may still list a process briefly after it exits.
constexpr std::int64_t kOthersPatienceNs = 5'000'000'000;
constexpr std::size_t kMaxOutput = std::size_t{256} << 20;

// This process's environment as "NAME=value", with the variables in `wanted` set or replaced.
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

// Returns the last line of a file, for a message.
std::string LastLine(const std::string& path) {
  const std::string text = base::ReadFile(path, kMaxOutput).value_or("");
  std::string_view last;
  for (const std::string_view line : base::Split(text, '\n')) {
    if (!base::Trim(line).empty()) last = base::Trim(line);
  }
  return last.empty() ? "without output" : base::Printable(last);
}

}  // namespace

// ---- one run ----

class Measurement::ActiveRun {
 public:
  ActiveRun(PlannedRun run, const Lane& lane, const Options& options, ProfileSample before)
      : run_(std::move(run)), lane_(lane), options_(options), start_ns_(base::BootTimeNs()) {
    before.at_s = 0;
    samples_.push_back(before);
    for (const std::string& member : run_.members) slots_.push_back({.workload = member});
  }

  // Starts the run. Fails if MPS is not available, or with a system error.
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
      auto watcher = CARMA_TRY(KeptProgram::Start({.command = WatcherCommand(*run_.cost_of),
                                                   .environment = EnvironmentWith({}),
                                                   .output = "/dev/null"}));
      watcher_.emplace(std::move(watcher));
    }
    start_ns_ = base::BootTimeNs();
    for (std::size_t i = 0; i < slots_.size(); ++i) CARMA_TRY(StartMember(i));
    return Unit{};
  }

  bool WantsSamples() const { return !run_.cost_of || run_.cost_of == Watcher::kCarma; }
  bool over() const {
    return std::ranges::none_of(slots_, [](const Slot& slot) { return slot.program.has_value(); });
  }
  // Whether all members have exited and the activity has been read up to that point.
  bool complete() const { return over() && (!WantsSamples() || read_after_); }
  const PlannedRun& planned() const { return run_; }

  void AddFds(std::vector<pollfd>& entries) const {
    for (const Slot& slot : slots_) {
      if (slot.program) entries.push_back({slot.program->fd(), POLLIN, 0});
    }
  }

  // Returns a system error if a member cannot be restarted.
  Result<Unit> TakeNews() {
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      Slot& slot = slots_[i];
      if (!slot.program) continue;
      slot.program->Listen();
      if (slot.program->ended()) TakeEnd(i);
    }
    if (watcher_) {
      watcher_->Listen();
      if (watcher_->ended() && failed_.empty())
        Fails(std::string(base::WordOf(*run_.cost_of)) + " exited on its own");
    }
    const bool all = std::ranges::all_of(slots_, [](const Slot& slot) { return slot.ended_once; });
    if (all || !failed_.empty()) return StopAll();
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].program) continue;
      CARMA_TRY(StartMember(i));
    }
    return Unit{};
  }

  void TakeSample(ProfileSample sample, std::int64_t at_ns) {
    sample.at_s = Since(at_ns);
    if (sample.at_s <= samples_.back().at_s) return;
    read_after_ = over();
    samples_.push_back(sample);
  }

  // If the driver does not respond, the run does not wait for a final reading.
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

  std::string OutputOf(std::size_t member) const {
    return fmt::format("{}/{}-{}.log", options_.outputs, lane_.devices[0], member + 1);
  }

 private:
  struct Slot {
    std::string workload;
    std::optional<KeptProgram> program = {};
    bool ended_once = false;
  };

  double Since(std::int64_t ns) const {
    return static_cast<double>(ns - start_ns_) / kNsPerS * options_.time_scale;
  }

  std::vector<std::string> EnvironmentOf(std::size_t member) const {
    const bool own_instance = run_.method == ProfileMethod::kMig;
    std::map<std::string, std::string> wanted = task::WithoutMpsEnvironment();
    if (mps_) {
      wanted = task::MpsClientEnvironment(mps_->dir(), {::getuid(), ::getgid(), lane_.uuids[0]}, {},
                                          false);
    }
    wanted["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID";
    wanted["CUDA_VISIBLE_DEVICES"] = lane_.uuids[own_instance ? member : 0];
    return EnvironmentWith(wanted);
  }

  Result<Unit> StartMember(std::size_t i) {
    const auto workload =
        std::ranges::find(options_.workloads, slots_[i].workload, &ProfiledWorkload::name);
    CARMA_CHECK(workload != options_.workloads.end(), "a planned workload is unknown");
    auto program = CARMA_TRY(KeptProgram::Start({.command = workload->command,
                                                 .environment = EnvironmentOf(i),
                                                 .workdir = workload->workdir,
                                                 .output = OutputOf(i)}));
    slots_[i].program.emplace(std::move(program));
    return Unit{};
  }

  void TakeEnd(std::size_t i) {
    Slot& slot = slots_[i];
    const Result<KeptRun> outcome = slot.program->Outcome();
    slot.program.reset();
    if (!outcome) return Fails(slot.workload + ": " + outcome.error().message);
    instances_.push_back({.member = static_cast<int>(i),
                          .begin_s = std::max(0.0, Since(outcome->began_ns)),
                          .end_s = std::max(0.0, Since(outcome->ended_ns)),
                          .code = outcome->code,
                          .stopped = stopping_});
    slot.ended_once = true;
    if (outcome->code != 0 && !stopping_) {
      Fails(fmt::format("{} exited with code {}: {}", slot.workload, outcome->code,
                        LastLine(OutputOf(i))));
    }
  }

  void Fails(const std::string& why) {
    if (failed_.empty() && !stopping_) failed_ = why;
  }

  Result<Unit> StopAll() {
    stopping_ = true;
    for (Slot& slot : slots_) {
      if (slot.program) slot.program->Stop();
    }
    return Unit{};
  }

  PlannedRun run_;
  const Lane& lane_;
  const Options& options_;
  std::int64_t start_ns_;
  std::optional<KeptMps> mps_;  // must outlive its clients
  std::optional<KeptProgram> watcher_;
  std::vector<Slot> slots_;
  std::vector<RunInstance> instances_;
  std::vector<ProfileSample> samples_;
  std::string failed_;
  bool stopping_ = false;
  bool read_after_ = false;
};

// A lane with its current run.
class Measurement::Place {
 public:
  Place(Lane lane, gpu::Probe& probe) : lane_(std::move(lane)), probe_(probe) {}

  const Lane& lane() const { return lane_; }
  std::unique_ptr<ActiveRun>& run() { return run_; }
  const ActiveRun* run() const { return run_.get(); }

  // Samples the lane before the run. Empty if another process uses the GPU; `by` then describes
  // that process. Returns the driver's errors.
  Result<std::optional<ProfileSample>> LookBefore(const Options& options, std::string& by) const {
    std::optional<ProfileSample> first;
    for (const std::size_t device : lane_.devices) {
      const auto reading = probe_.Read(device, base::FromMs(base::BootTimeNs() / 1'000'000));
      if (!reading) return std::unexpected(reading.error().AsError());
      for (const gpu::ProcessUse& use : reading->processes) {
        if (use.mps_server || options.beside_others) continue;
        by = fmt::format("process {}", use.pid);
        return std::nullopt;
      }
      // In many containers the driver lists no processes, so memory in use also counts as a sign of
      // other processes.
      if (reading->used_mib > options.settings.unattributed_mib && !options.beside_others) {
        by = fmt::format("a process that holds {}", base::FormatMib(reading->used_mib));
        return std::nullopt;
      }
      if (!first) first = SampleOf(*reading);
    }
    return first;
  }

  // Takes a sample; empty if the driver did not respond this time.
  std::optional<ProfileSample> Look() const {
    const auto reading =
        probe_.Read(lane_.devices[0], base::FromMs(base::BootTimeNs() / 1'000'000));
    if (!reading) return std::nullopt;
    return SampleOf(*reading);
  }

  // How long another process has used the lane, in nanoseconds.
  std::int64_t BusyFor(std::int64_t now_ns) {
    if (busy_since_ns_ == 0) busy_since_ns_ = now_ns;
    return now_ns - busy_since_ns_;
  }
  void NotBusy() { busy_since_ns_ = 0; }

 private:
  static ProfileSample SampleOf(const gpu::Reading& reading) {
    return {.at_s = 0,
            .sm_active = reading.sm_active,
            .utilization = reading.utilization,
            .used_mib = reading.used_mib,
            .energy_j = reading.energy_j};
  }

  Lane lane_;
  gpu::Probe& probe_;
  std::unique_ptr<ActiveRun> run_;
  std::int64_t busy_since_ns_ = 0;
};

// ---- all runs ----

Measurement::Measurement(Options options, gpu::Probe& probe, std::vector<Lane> lanes)
    : options_(std::move(options)), probe_(probe) {
  for (Lane& lane : lanes) places_.push_back(std::make_unique<Place>(std::move(lane), probe_));
}

Measurement::~Measurement() = default;

// Only one run at a time is allowed on a board. While the cost of monitoring is being measured, no
// other run may use the machine.
bool Measurement::MayStart(const Place& place, const PlannedRun& run) const {
  if (run.gpu_type != place.lane().gpu_type) return false;
  if (run.method == ProfileMethod::kMig && run.members.size() > place.lane().devices.size())
    return false;
  return std::ranges::none_of(places_, [&](const std::unique_ptr<Place>& each) {
    const ActiveRun* other = std::as_const(*each).run();
    return other &&
           (run.cost_of || other->planned().cost_of || each->lane().board == place.lane().board);
  });
}

// Workloads that still have solo runs to do.
std::set<std::string> Measurement::StillAlone(const std::string& gpu_type,
                                              const std::deque<PlannedRun>& plan) const {
  std::set<std::string> names;
  const auto note = [&](const PlannedRun& run) {
    if (run.alone() && !run.cost_of && run.gpu_type == gpu_type) names.insert(run.members[0]);
  };
  for (const PlannedRun& run : plan) note(run);
  for (const std::unique_ptr<Place>& each : places_) {
    if (const ActiveRun* run = std::as_const(*each).run()) note(run->planned());
  }
  return names;
}

Result<Unit> Measurement::StartOn(Place& place, std::deque<PlannedRun>& plan,
                                  const Listener& listener) {
  // Solo runs must come first, because they show whether the members fit on the GPU together.
  const std::set<std::string> alone = StillAlone(place.lane().gpu_type, plan);
  const auto next = std::ranges::find_if(plan, [&](const PlannedRun& run) {
    return MayStart(place, run) &&
           (run.alone() || std::ranges::none_of(run.members, [&](const std::string& member) {
              return alone.contains(member);
            }));
  });
  if (next == plan.end()) return Unit{};
  if (std::string why = listener.refuse(*next); !why.empty()) {
    MeasuredRun refused{.run = std::move(*next), .gpu = place.lane().board};
    refused.failed = std::move(why);
    plan.erase(next);
    return listener.take(std::move(refused));
  }
  std::string by;
  const auto before = CARMA_TRY(place.LookBefore(options_, by));
  if (!before) {
    if (place.BusyFor(base::BootTimeNs()) < kOthersPatienceNs) return Unit{};
    return Conflict("GPU {} is used by {}; use a free GPU (--beside-others measures anyway)",
                    place.lane().devices[0], by);
  }
  place.NotBusy();
  PlannedRun run = std::move(*next);
  plan.erase(next);
  place.run() = std::make_unique<ActiveRun>(std::move(run), place.lane(), options_, *before);
  return place.run()->Begin();
}

Result<Unit> Measurement::TakeNews(const Listener& listener) {
  for (const std::unique_ptr<Place>& place : places_) {
    if (!place->run()) continue;
    CARMA_TRY(place->run()->TakeNews());
    if (!place->run()->complete()) continue;
    MeasuredRun measured = place->run()->Measured();
    place->run().reset();  // also stops its MPS server
    if (!measured.failed.empty() && measured.run.members.size() == 1 && !measured.run.cost_of)
      return Invalid("alone, " + measured.failed);
    CARMA_TRY(listener.take(std::move(measured)));
  }
  return Unit{};
}

Result<Unit> Measurement::ReadGpus() {
  const std::int64_t now_ns = base::BootTimeNs();
  if (now_ns < next_look_ns_) return Unit{};
  const double period_s = base::Seconds(options_.settings.sample_period) / options_.time_scale;
  next_look_ns_ = now_ns + std::max(kLeastLookNs, static_cast<std::int64_t>(period_s * kNsPerS));
  for (const std::unique_ptr<Place>& place : places_) {
    if (!place->run() || !place->run()->WantsSamples()) continue;
    const std::int64_t at_ns = base::BootTimeNs();
    if (const auto sample = place->Look()) {
      place->run()->TakeSample(*sample, at_ns);
    } else {
      place->run()->NotAnswered();
    }
  }
  return Unit{};
}

void Measurement::Wait() {
  std::vector<pollfd> entries;
  for (const std::unique_ptr<Place>& place : places_) {
    if (place->run()) place->run()->AddFds(entries);
  }
  const std::int64_t left_ns = std::max<std::int64_t>(0, next_look_ns_ - base::BootTimeNs());
  ::poll(entries.data(), entries.size(), static_cast<int>((left_ns + 999'999) / 1'000'000));
}

Result<Unit> Measurement::Run(std::deque<PlannedRun> plan, const Listener& listener) {
  const auto step = [&]() -> Result<Unit> {
    if (options_.interrupted && *options_.interrupted) return Conflict("interrupted");
    CARMA_TRY(TakeNews(listener));
    for (const std::unique_ptr<Place>& place : places_) {
      if (!place->run()) CARMA_TRY(StartOn(*place, plan, listener));
    }
    std::vector<std::string> under_way;
    for (const std::unique_ptr<Place>& place : places_) {
      if (place->run()) under_way.push_back(base::Join(place->run()->planned().members, " + "));
    }
    listener.show(under_way);
    Wait();
    return ReadGpus();
  };
  const auto working = [&] {
    return !plan.empty() || std::ranges::any_of(places_, [](const std::unique_ptr<Place>& place) {
      return place->run() != nullptr;
    });
  };
  Result<Unit> done = Unit{};
  while (done && working()) done = step();
  for (const std::unique_ptr<Place>& place : places_) place->run().reset();
  return done;
}

Result<std::string> Measurement::Calibrate(const ProfiledWorkload& workload) {
  const Lane& lane = places_.front()->lane();
  const std::string name = "calibration of " + workload.name;
  Measurement::Options options = options_;
  options.workloads = {{.name = name, .command = workload.calibrate, .workdir = workload.workdir}};
  Measurement once(std::move(options), probe_, {lane});
  const Listener nobody{.take = [](MeasuredRun) -> Result<Unit> { return Unit{}; },
                        .refuse = [](const PlannedRun&) { return std::string(); },
                        .show = [](const std::vector<std::string>&) {}};
  const PlannedRun run{ProfileMethod::kStreams, lane.gpu_type, {name}, 1, std::nullopt};
  CARMA_TRY(once.Run({run}, nobody));
  return base::ReadFile(fmt::format("{}/{}-1.log", options_.outputs, lane.devices[0]), kMaxOutput);
}

}  // namespace carma::cli
