#include "cli/doctor/gpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"
#include "cli/doctor/packages.h"
#include "config/activity_rule.h"
#include "gpu/counters.h"
#include "gpu/health.h"

namespace carma::cli {
namespace {

using gpu::ComputeMode;
using gpu::CounterSource;
using gpu::RecoveryAction;

// A value that a GPU can report besides the activity counters, and the name shown to the user.
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

// If a source has no counters, or only SM activity, reports this in one message instead of twelve.
std::vector<std::string> MissingValues(const gpu::Reading& reading) {
  std::vector<std::string> names = ValueNames(reading, false);
  if (CounterNames(reading, true).size() <= 1) {
    names.emplace_back("counters besides SM activity");
    return names;
  }
  const std::vector<std::string> counters = CounterNames(reading, false);
  names.insert(names.end(), counters.begin(), counters.end());
  return names;
}

// ---- one GPU ----

struct RecoveryAdvice {
  RecoveryAction action;
  Level level;
  const char* text;
  const char* remedy;
};
constexpr RecoveryAdvice kRecoveries[] = {
    {RecoveryAction::kGpuReset, Level::kBad, "the driver asks for a GPU reset",
     "stop its processes and reset it: nvidia-smi -r"},
    {RecoveryAction::kNodeReboot, Level::kBad, "the driver asks for a reboot",
     "drain all GPUs and reboot"},
    {RecoveryAction::kDrainP2p, Level::kBad,
     "the driver asks for traffic between GPUs to be stopped",
     "stop the multi-GPU tasks, then check again"},
    {RecoveryAction::kDrainAndReset, Level::kWarn, "the GPU is running with reduced capacity",
     "drain it (carma drain) and reset it when its tasks have ended"},
};
constexpr RecoveryAdvice kUnknownRecovery = {
    RecoveryAction::kOther, Level::kBad,
    "the driver asks for a recovery action that this version does not know",
    "see nvidia-smi -q, and update CARMA"};

struct XidAdvice {
  gpu::XidClass meaning;
  Level level;
  const char* remedy;
};
constexpr XidAdvice kXidAdvice[] = {
    {gpu::XidClass::kNews, Level::kOk, ""},
    {gpu::XidClass::kTask, Level::kWarn,
     "caused by a program: find the task that failed (carma list --state failed)"},
    {gpu::XidClass::kContained, Level::kWarn, "reset it (nvidia-smi -r) when its tasks have ended"},
    {gpu::XidClass::kDevice, Level::kBad,
     "stop its processes and reset it (nvidia-smi -r); have it examined if this happens again"},
};

class GpuCheck {
 public:
  GpuCheck(std::size_t index, const DriverFacts& driver, const config::Settings& settings)
      : index_(index), facts_((*driver.gpus)[index]), driver_(driver), settings_(settings) {}

  std::vector<Finding> Run() {
    if (!facts_.info.trouble.empty()) {
      Trouble();
      return std::move(findings_);
    }
    if (!facts_.reading) {
      Add(Level::kBad, base::Printable(facts_.reading.error().Sentence()),
          facts_.reading.error().code == ErrorCode::kNotFound
              ? "the GPU is lost: reset it (nvidia-smi -r) or reboot; CARMA serves the other GPUs"
              : "CARMA keeps this GPU closed until the driver responds properly; see the kernel "
                "log");
      return std::move(findings_);
    }
    Identity();
    MemorySum();
    Activity();
    Missing();
    Condition();
    Xids();
    Modes();
    Processes();
    return std::move(findings_);
  }

 private:
  void Add(Level level, std::string text, std::string remedy = "") {
    findings_.push_back(
        {fmt::format("gpu {}", index_), level, std::move(text), std::move(remedy), index_});
  }

  void Trouble() {
    const std::string text = base::Printable(facts_.info.trouble.Sentence());
    switch (facts_.info.trouble.cause) {
      case gpu::TroubleCause::kSharedMemory:
        return Add(Level::kWarn, text,
                   "partition it without splitting instances (nvidia-smi mig -cgi PROFILES -C)");
      case gpu::TroubleCause::kNoInstance:
        return Add(Level::kBad, text,
                   "partition it as needed (nvidia-smi mig), or turn MIG off (nvidia-smi -mig 0); "
                   "CARMA serves the other GPUs");
      case gpu::TroubleCause::kHangs:
        return Add(
            Level::kBad, text,
            "see the kernel log (dmesg: Xid); drain the GPU (carma drain GPU), then reset it "
            "(nvidia-smi -r -i GPU) or reboot; CARMA serves the other GPUs");
      case gpu::TroubleCause::kHiddenInstances:
      case gpu::TroubleCause::kOther:
        return Add(Level::kBad, text,
                   "see nvidia-smi -q and the kernel log (dmesg); a lost GPU needs a reset "
                   "(nvidia-smi -r) or a reboot; CARMA serves the other GPUs");
    }
  }

  void Identity() {
    const gpu::Reading& reading = *facts_.reading;
    Add(Level::kOk, fmt::format("{}, {} of {} in use, {}", base::Printable(facts_.info.name),
                                base::FormatMib(reading.used_mib),
                                base::FormatMib(reading.total_mib - reading.reserved_mib),
                                base::Printable(facts_.info.uuid)));
  }

  void MemorySum() {
    const auto& uneven = driver_.uneven_memory;
    const auto found = std::ranges::find(uneven, facts_.info.uuid, &gpu::UnevenMemory::uuid);
    if (found == uneven.end()) return;
    Add(Level::kWarn,
        fmt::format("the driver's memory figures do not add up: {} in total, but {} reserved, {} "
                    "free and {} used",
                    base::FormatMib(found->total_mib), base::FormatMib(found->reserved_mib),
                    base::FormatMib(found->free_mib), base::FormatMib(found->used_mib)),
        "CARMA trusts the reserved and used figures; compare with nvidia-smi -q -d MEMORY, and "
        "raise policy.margin if too much is promised");
  }

  void Missing() {
    const std::vector<std::string> missing = MissingValues(*facts_.reading);
    if (!missing.empty()) Add(Level::kOk, "not reported: " + base::Join(missing, ", "));
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
    if (facts_.info.mig) return NoActivityOfInstances();
    std::string text = "no source reports SM activity";
    if (!driver_.dcgm_trouble.empty()) text += " (" + base::Printable(driver_.dcgm_trouble) + ")";
    if (const std::string rule = config::RuleWithoutActivity(settings_.policy, false);
        !rule.empty())
      text += "; " + rule;
    Add(Level::kWarn, text,
        "install DCGM 3 or newer" + InstallCommand("", Missing::kDcgm) +
            ", so that `dcgmi dmon -e 1002` shows numbers; otherwise see "
            "policy.without_sm_activity");
  }

  // DCGM is not suggested here, because its rows cannot be assigned to MIG instances
  // (docs/server/gpus.md).
  void NoActivityOfInstances() {
    const std::string text =
        "GPUs older than Hopper do not report the SM activity of MIG instances";
    const core::PolicyConfig& policy = settings_.policy;
    if (!policy.share_mig) return Add(Level::kOk, text + "; one task at a time");
    if (!policy.streams_sm_cap || policy.without_activity == core::WithoutActivity::kMemory)
      return Add(Level::kOk, text + "; " + config::RuleWithoutActivity(policy, true));
    // Utilisation is no substitute, because instances do not report it either.
    Add(Level::kWarn, text + ": tasks do not share this instance, despite collocation.share_mig",
        "set collocation.share_mig = false, or policy.without_sm_activity = \"memory\" to share "
        "based on memory alone");
  }

  std::string Rule() const {
    const core::PolicyConfig& policy = settings_.policy;
    const bool mig = facts_.info.mig.has_value();
    if ((mig && !policy.share_mig) || !core::Shares(policy)) return "; one task at a time";
    const bool by_streams =
        core::SharingOn(policy, mig) == core::SharingMethod::kStreams && !settings_.published;
    const char* const key = by_streams ? "collocation.streams_sm_cap" : "policy.sm_cap";
    const std::optional<double>& cap = core::SmCapOn(policy, mig);
    if (!cap) return fmt::format("; not needed ({} = false)", key);
    return fmt::format("; a task may join others while the mean over {} s is at most {:.0f} % ({})",
                       settings_.window.count() / 1'000, *cap * 100, key);
  }

  void Condition() {
    const gpu::Condition& condition = facts_.reading->condition;
    if (condition.recovery.value_or(RecoveryAction::kNone) != RecoveryAction::kNone) Recovery();
    if (condition.remap_failed.value_or(false)) {
      Add(Level::kBad, "memory rows could not be remapped: no spare rows are left",
          "drain this GPU (carma drain) and have it replaced");
    } else if (condition.remap_pending.value_or(false)) {
      Add(Level::kWarn, "memory rows are waiting to be remapped",
          "drain this GPU and reset it (nvidia-smi -r) when its tasks have ended");
    }
    if (condition.ecc_uncorrected.value_or(0) > 0) {
      Add(Level::kWarn,
          fmt::format("{} uncorrectable memory errors since the driver was loaded",
                      *condition.ecc_uncorrected),
          "they may have caused a task to fail; reset the GPU, and check whether they recur");
    }
  }

  void Recovery() {
    const RecoveryAction action = *facts_.reading->condition.recovery;
    const auto* const known = std::ranges::find(kRecoveries, action, &RecoveryAdvice::action);
    const RecoveryAdvice& advice = known == std::end(kRecoveries) ? kUnknownRecovery : *known;
    Add(advice.level, advice.text, advice.remedy);
  }

  void Xids() {
    for (const int xid : facts_.reading->xids) {
      const gpu::XidFact fact = gpu::DescribeXid(xid);
      const auto& [meaning, level, remedy] =
          *std::ranges::find(kXidAdvice, fact.meaning, &XidAdvice::meaning);
      Add(level, fmt::format("Xid {} during the check: {}", xid, fact.text), remedy);
    }
  }

  // Checks the compute mode, which a MIG instance shares with its board.
  void Modes() {
    const ComputeMode mode = facts_.reading->condition.compute_mode.value_or(ComputeMode::kDefault);
    if (mode == ComputeMode::kDefault) return;
    if (mode == ComputeMode::kProhibited) {
      return Add(Level::kBad, "compute mode PROHIBITED: no task can run here",
                 "nvidia-smi -c DEFAULT");
    }
    // "auto" means MPS where available, otherwise streams.
    switch (settings_.collocation.value_or(core::SharingMethod::kMps)) {
      case core::SharingMethod::kUnknown:
      case core::SharingMethod::kAlone:
      case core::SharingMethod::kMig:
        return;
      case core::SharingMethod::kStreams:
        return Add(Level::kBad,
                   "compute mode EXCLUSIVE: a second task on this GPU fails when it starts",
                   "nvidia-smi -c DEFAULT, or collocation.method = \"mps\"");
      case core::SharingMethod::kMps:
        return Add(Level::kWarn,
                   "compute mode EXCLUSIVE: only one user's MPS server can serve this GPU at a "
                   "time, and a task that falls back to streams cannot run alongside it",
                   "nvidia-smi -c DEFAULT, unless only one user has tasks");
    }
  }

  void Processes() {
    const auto& processes = facts_.reading->processes;
    const auto unknown =
        std::ranges::count_if(processes, [](const gpu::ProcessUse& use) { return !use.used_mib; });
    if (unknown == 0) return;
    Add(Level::kWarn,
        fmt::format(
            "memory use is not reported for {} of {}", unknown,
            processes.size() == 1 ? "1 process" : fmt::format("{} processes", processes.size())),
        "run carmad as root on the host, not in its own container; CARMA counts memory "
        "without a known owner against the GPU");
  }

  std::size_t index_;
  const GpuFacts& facts_;
  const DriverFacts& driver_;
  const config::Settings& settings_;
  std::vector<Finding> findings_;
};

struct Division {
  std::map<std::string, int> profiles;  // number of instances of each profile
  std::set<std::string> boards;         // divided boards
  std::size_t whole = 0;
};

Division DivisionOf(const std::vector<GpuFacts>& gpus) {
  Division division;
  for (const GpuFacts& gpu : gpus) {
    if (!gpu.info.trouble.empty()) continue;
    if (!gpu.info.mig) {
      ++division.whole;
      continue;
    }
    const std::string& profile = gpu.info.mig->profile_name;
    ++division.profiles[profile.empty() ? "unnamed profile" : profile];
    division.boards.insert(gpu.info.mig->parent_uuid);
  }
  return division;
}

std::string CountedProfiles(const std::map<std::string, int>& profiles) {
  std::vector<std::string> pieces;
  pieces.reserve(profiles.size());
  for (const auto& [profile, count] : profiles)
    pieces.push_back(fmt::format("{} x {}", count, base::Printable(profile, 40)));
  return base::Join(pieces, ", ");
}

}  // namespace

std::vector<std::string> CounterNames(const gpu::Reading& reading, bool told) {
  std::vector<std::string> names;
  for (const gpu::Counter& counter : gpu::Counters()) {
    if ((reading.*counter.value).has_value() == told) names.emplace_back(counter.name);
  }
  return names;
}

std::vector<std::string> ValueNames(const gpu::Reading& reading, bool told) {
  std::vector<std::string> names;
  for (const Value& value : kValues) {
    if (value.told(reading) == told) names.emplace_back(value.name);
  }
  return names;
}

std::vector<Finding> CheckGpu(std::size_t index, const DriverFacts& driver,
                              const config::Settings& settings) {
  return GpuCheck(index, driver, settings).Run();
}

std::vector<Finding> CheckMig(const DriverFacts& driver, const config::Settings& settings) {
  std::vector<Finding> findings;
  findings.reserve(driver.pending_mig.size() + 2);
  for (const gpu::PendingMigMode& pending : driver.pending_mig) {
    findings.push_back(
        {"mig", Level::kWarn,
         fmt::format("MIG mode of {} will be turned {} at its next reset",
                     base::Printable(pending.uuid), pending.on ? "on" : "off"),
         "drain it, reset it (nvidia-smi -r) when its tasks have ended, and restart carmad"});
  }
  const Division division = DivisionOf(*driver.gpus);
  if (division.profiles.empty()) return findings;
  const char* const sharing = settings.policy.share_mig
                                  ? "shared using streams (collocation.share_mig)"
                                  : "one task each (collocation.share_mig = false)";
  findings.push_back({"mig", Level::kOk,
                      fmt::format("{} of {} boards partitioned: {}; {}", division.boards.size(),
                                  division.boards.size() + division.whole,
                                  CountedProfiles(division.profiles), sharing)});
  if (division.whole == 0) {
    findings.push_back({"mig", Level::kWarn,
                        "every GPU is partitioned: multi-GPU tasks can never run, because a task "
                        "cannot span instances",
                        "leave enough GPUs unpartitioned (nvidia-smi -mig 0) for such a task"});
  }
  return findings;
}

}  // namespace carma::cli
