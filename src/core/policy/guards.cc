#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "core/policy/gpu_fingerprint.h"
#include "core/policy/policy.h"

namespace carma::core {
namespace {

// Memory that the driver and the MPS server can hold on a GPU without tasks. Without this
// allowance, a task that needs the whole GPU might wait forever. The published system allows for
// the same amount (kV2LessFreeMib).
constexpr std::int64_t kIdleLeftoverMib = 512;
// Allows for rounding errors, so that ten shares of 0.1 count as a whole GPU.
constexpr double kShareRounding = 1e-9;

struct Question {
  const PolicyConfig& config;
  const Need& need;
  const GpuView& gpu;
  Part part;
  bool relaxed;  // the GPU is empty, so margin, floor and SM cap do not apply
  // Set by the guard that refuses. `reason` is null if no reason is requested.
  Fit& fit;
  Reason* reason;
};

// Called only if the reason is requested. Most verdicts just help choose a GPU, and formatting the
// text would cost more than everything else; a guard that passes costs only a few comparisons.
template <class Text>
[[gnu::noinline, gnu::cold]] void Explain(Reason& reason, ReasonCode code, const Text& text) {
  reason = {code, std::string(text())};
}
// Sets the verdict and returns false, so that a guard can return the result.
template <class Text>
bool Refuse(const Question& q, Fit fit, ReasonCode code, const Text& text) {
  q.fit = fit;
  if (q.reason != nullptr) Explain(*q.reason, code, text);
  return false;
}
template <class Text>
bool NotNow(const Question& q, ReasonCode code, const Text& text) {
  return Refuse(q, Fit::kNotNow, code, text);
}

std::string WhoIsThere(const GpuView& gpu) {
  std::string text;
  if (gpu.tasks > 0) text = base::Counted(gpu.tasks, "task");
  if (gpu.foreign_processes == 0) return text;
  if (!text.empty()) text += " and ";
  if (gpu.foreign_processes == 1) return text + "1 foreign process";
  return text + fmt::format("{} foreign processes", gpu.foreign_processes);
}

// What holds a GPU's memory, as text: ": 2 tasks hold 20.0G, other processes 8.0G".
std::string MemoryHolders(const GpuView& gpu) {
  std::string text;
  if (gpu.tasks > 0 && gpu.promised_mib > 0)
    text = fmt::format("{} hold{} {}", base::Counted(gpu.tasks, "task"), gpu.tasks == 1 ? "s" : "",
                       base::FormatMib(gpu.promised_mib));
  if (gpu.foreign_mib > 0)
    text += (text.empty() ? "" : ", ") + ("other processes " + base::FormatMib(gpu.foreign_mib));
  return text.empty() ? text : ": " + text;
}

double Percent(double fraction) {
  return std::round(fraction * 1000) / 10;
}

// ---- the guards; each returns true if the GPU may take the task ----

bool CheckChoice(const Question& q) {
  if (!q.need.choice || q.need.choice->Allows(q.gpu.index)) return true;
  return Refuse(q, Fit::kNever, ReasonCode::kGpuChoice,
                [&] { return q.need.choice->WhyNot(q.gpu.index); });
}

// Checked before health, because waiting for a closed instance would not help.
bool CheckGang(const Question& q) {
  if (!q.gpu.mig || q.need.gpus <= 1) return true;
  return Refuse(q, Fit::kNever, ReasonCode::kMigInstance, [&] {
    return fmt::format(
        "GPU {} is a MIG instance, which cannot be combined with the other {} that the task asks "
        "for.",
        q.gpu.index, base::Counted(q.need.gpus - 1, "GPU"));
  });
}

bool CheckHealth(const Question& q) {
  if (q.gpu.healthy) return true;
  return NotNow(q, ReasonCode::kGpuHealth,
                [&] { return fmt::format("GPU {} is closed: {}.", q.gpu.index, q.gpu.trouble); });
}

bool CheckMig(const Question& q) {
  if (!q.gpu.mig || q.config.share_mig || q.gpu.Idle()) return true;
  return NotNow(q, ReasonCode::kExclusive, [&] {
    return fmt::format(
        "GPU {} is a MIG instance, which takes one task at a time, and it already has {}.",
        q.gpu.index, WhoIsThere(q.gpu));
  });
}

// Checked before health, because any driver call may fail after a driver upgrade.
bool CheckDriver(const Question& q) {
  if (!q.gpu.DriverUpgrade()) return true;
  return NotNow(q, ReasonCode::kDriverUpgrade,
                [&] { return fmt::format("GPU {} is closed: {}.", q.gpu.index, q.gpu.trouble); });
}

bool CheckDrain(const Question& q) {
  if (!q.gpu.drained) return true;
  return NotNow(q, ReasonCode::kDraining, [&] {
    return fmt::format("GPU {} is closed{}{}{}.", q.gpu.index,
                       q.gpu.drained_by_rule ? "" : " by the administrator",
                       q.gpu.trouble.empty() ? "" : ": ", q.gpu.trouble);
  });
}

bool CheckBooked(const Question& q) {
  const ReservedPeriod* period = ReservedAgainst(q.config, q.need, q.gpu);
  if (period == nullptr) return true;
  return NotNow(q, ReasonCode::kReserved, [&] {
    const Reservation& booking = period->booking;
    const std::string why = booking.why.empty() ? "" : ": " + booking.why;
    const std::string whom =
        fmt::format("GPU {} is reserved for {}", q.gpu.index, WhomFor(booking));
    if (period->from <= q.gpu.at) {
      return fmt::format("{} until {} (reservation {}{}).", whom, base::FormatTimeIso(period->to),
                         booking.id, why);
    }
    const std::string when =
        fmt::format("{} from {} to {} (reservation {}{})", whom, base::FormatTimeIso(period->from),
                    base::FormatTimeIso(period->to), booking.id, why);
    if (!q.need.runs_at_most) {
      return fmt::format(
          "{}; a task without a time limit must start at least {} before the reservation.", when,
          base::FormatSpan(q.config.booking_lead));
    }
    return fmt::format("{}; the task may run for up to {}.", when,
                       base::FormatSpan(*q.need.runs_at_most));
  });
}

bool CheckReserve(const Question& q) {
  if (!q.gpu.reserved_for || *q.gpu.reserved_for == q.need.task) return true;
  return NotNow(q, ReasonCode::kRecoveryReserve, [&] {
    return fmt::format(
        "GPU {} is kept free for task {}, {}.", q.gpu.index, *q.gpu.reserved_for,
        q.gpu.room_made ? "for which another task has made room" : "which has waited too long");
  });
}

bool CheckExclusivity(const Question& q) {
  if (q.gpu.exclusive_task) {
    return NotNow(q, ReasonCode::kExclusive,
                  [&] { return fmt::format("GPU {} is held by an exclusive task.", q.gpu.index); });
  }
  if (!q.need.exclusive || q.gpu.Idle()) return true;
  return NotNow(q, ReasonCode::kExclusive, [&] {
    return fmt::format(
        "The task needs GPU {} to itself, but {} using it.", q.gpu.index,
        WhoIsThere(q.gpu) + (q.gpu.tasks + q.gpu.foreign_processes == 1 ? " is" : " are"));
  });
}

bool CheckIdle(const Question& q) {
  if (!q.need.idle_gpu || q.gpu.Idle()) return true;
  return NotNow(q, ReasonCode::kExclusive, [&] {
    return fmt::format("The task may start only on an idle GPU, but GPU {} has {}.", q.gpu.index,
                       WhoIsThere(q.gpu));
  });
}

bool CheckTaskCount(const Question& q) {
  if (q.gpu.tasks < (q.gpu.mig ? q.config.streams_tasks : q.config.max_tasks_per_gpu)) return true;
  return NotNow(q, ReasonCode::kTasksPerGpu, [&] {
    return fmt::format("GPU {} already has {}, the maximum allowed.", q.gpu.index,
                       base::Counted(q.gpu.tasks, "task"));
  });
}

// True if the predicted gain decides whether the task may join, without waiting for the GPU to
// settle. Requires a memory estimate and a known activity. If the activity is only assumed, the
// GPU's samples are better evidence than the prediction.
bool IsJudgedByGain(const Question& q) {
  return q.config.min_gain && q.need.memory_mib && q.need.activity_known;
}

bool CheckSettled(const Question& q) {
  if (q.gpu.settled || q.gpu.Idle() || IsJudgedByGain(q)) return true;
  return NotNow(q, ReasonCode::kWarmUp, [&] {
    return fmt::format(
        "Samples from GPU {} do not yet include the task most recently started there{}.",
        q.gpu.index,
        q.gpu.settles_by
            ? fmt::format("; they will by {} at the latest", base::FormatTimeIso(*q.gpu.settles_by))
            : "");
  });
}

// A task that uses at most this many cores hardly slows down others, even if no core is idle.
constexpr double kFewCpus = 0.5;

// An idle GPU is always taken, because using it is worth more than the cores that the task takes
// from other tasks.
bool CheckHostBusy(const Question& q) {
  if (q.gpu.Idle() || !q.gpu.idle_cpus) return true;
  if (q.need.uses_cpus <= std::max(kFewCpus, *q.gpu.idle_cpus)) return true;
  return NotNow(q, ReasonCode::kHostBusy, [&] {
    return fmt::format(
        "The task is expected to keep {:.1f} CPUs busy, but only {:.1f} are idle, so it would slow "
        "down the tasks on GPU {}.",
        q.need.uses_cpus, std::max(0.0, *q.gpu.idle_cpus), q.gpu.index);
  });
}

bool CheckMemory(const Question& q) {
  const GpuView& gpu = q.gpu;
  const std::int64_t most_mib = std::max(q.need.memory_mib.value_or(0), q.need.retry_free_mib);
  if (most_mib > gpu.total_mib) {
    return Refuse(q, Fit::kNever, ReasonCode::kNeverFits, [&] {
      return fmt::format("The task needs {}, but GPU {} has {}.", base::FormatMib(most_mib),
                         gpu.index, base::FormatMib(gpu.total_mib));
    });
  }
  const bool needs_less = q.part == Part::kOther && q.need.others_mib;
  const std::optional<std::int64_t>& expected_mib =
      needs_less ? q.need.others_mib : q.need.memory_mib;
  const std::int64_t need_mib = std::max(expected_mib.value_or(0), q.need.retry_free_mib);
  if (q.relaxed) {
    const std::int64_t free_mib = gpu.free_mib + std::min(gpu.foreign_mib, kIdleLeftoverMib);
    if (need_mib <= free_mib) return true;
    return NotNow(q, ReasonCode::kGpuMemory, [&] {
      return fmt::format("The task needs {}, but idle GPU {} has only {} free.",
                         base::FormatMib(need_mib), gpu.index, base::FormatMib(gpu.free_mib));
    });
  }
  if (!expected_mib) {
    const std::int64_t wanted_mib =
        std::max(FloorMib(q.config, gpu.total_mib), q.need.retry_free_mib);
    if (wanted_mib <= gpu.free_mib) return true;
    return NotNow(q, ReasonCode::kGpuMemory, [&] {
      return fmt::format("A task without an estimate needs {} free, but GPU {} has {}{}.",
                         base::FormatMib(wanted_mib), gpu.index, base::FormatMib(gpu.free_mib),
                         MemoryHolders(gpu));
    });
  }
  const std::int64_t wanted_mib =
      std::max(*expected_mib + q.config.margin_mib, q.need.retry_free_mib);
  if (wanted_mib <= gpu.free_mib) return true;
  return NotNow(q, ReasonCode::kGpuMemory, [&] {
    return fmt::format("The task needs {} free ({} plus the margin), but GPU {} has {}{}.",
                       base::FormatMib(wanted_mib), base::FormatMib(*expected_mib), gpu.index,
                       base::FormatMib(gpu.free_mib), MemoryHolders(gpu));
  });
}

bool CheckWithoutActivity(const Question& q) {
  const GpuView& gpu = q.gpu;
  const double cap = *SmCapOn(q.config, gpu.mig);
  if (q.config.without_activity == WithoutActivity::kMemory) return true;
  if (q.config.without_activity == WithoutActivity::kNever || !gpu.utilization) {
    return NotNow(q, ReasonCode::kGpuHealth, [&] {
      return fmt::format("GPU {} does not report SM activity, so no task may join the {} there.",
                         gpu.index, base::Counted(gpu.tasks, "task"));
    });
  }
  if (*gpu.utilization <= cap) return true;
  return NotNow(q, ReasonCode::kSmBusy, [&] {
    return fmt::format(
        "GPU {} does not report SM activity and ran kernels {} % of the time, above the cap of {} "
        "%.",
        gpu.index, Percent(*gpu.utilization), Percent(cap));
  });
}

bool CheckActivity(const Question& q) {
  const GpuView& gpu = q.gpu;
  const std::optional<double>& cap = SmCapOn(q.config, gpu.mig);
  if (!cap || q.relaxed || IsJudgedByGain(q)) return true;
  if (!gpu.sm_active) {
    if (gpu.tasks == 0) return true;
    return CheckWithoutActivity(q);
  }
  if (*gpu.sm_active <= *cap) return true;
  return NotNow(q, ReasonCode::kSmBusy, [&] {
    return fmt::format("GPU {} has {} % SM activity, above the cap of {} %.", gpu.index,
                       Percent(*gpu.sm_active), Percent(*cap));
  });
}

// Foreign processes come last among the residents. They are not checked, because they do not
// belong to CARMA users.
bool CheckTurns(const Question& q) {
  const GpuView& gpu = q.gpu;
  const auto tasks =
      gpu.residents.first(std::min(gpu.residents.size(), static_cast<std::size_t>(gpu.tasks)));
  const std::uint32_t user = q.need.load.load.user;
  const auto computes_beside = [user](const Neighbour& each) { return each.load.user == user; };
  if (gpu.mig || std::ranges::all_of(tasks, computes_beside) || q.need.takes_turns ||
      q.config.pacing != Pacing::kImmediate) {
    return true;
  }
  const double use = UseOf(gpu);
  if (use < kTurnsBelow) return true;
  return NotNow(q, ReasonCode::kSmBusy, [&] {
    return fmt::format(
        "GPU {} is {} % busy, and this task would take turns with the tasks there (other users' or "
        "multi-GPU tasks); it may join once usage drops below {} %, or after waiting {}.",
        gpu.index, Percent(use), Percent(kTurnsBelow), base::FormatSpan(kTurnsAfter));
  });
}

// A declared share is a promise, so the declared shares on a GPU never add up to more than the
// whole GPU. Tasks without a declared share use the remainder.
bool CheckShares(const Question& q) {
  if (!q.need.sm_share) return true;
  const double wanted = *q.need.sm_share + q.gpu.sm_shares;
  if (wanted <= 1 + kShareRounding) return true;
  return NotNow(q, ReasonCode::kSmBusy, [&] {
    return fmt::format(
        "The task asks for {} % of the SMs, but {} % of GPU {} is promised to other tasks.",
        Percent(*q.need.sm_share), Percent(q.gpu.sm_shares), q.gpu.index);
  });
}

bool CheckThroughput(const Question& q) {
  const GpuView& gpu = q.gpu;
  const bool limited = gpu.limited || q.need.load.max_slowdown < kAnySlowdown;
  const bool alone = gpu.residents.empty();
  if ((alone && gpu.compute >= 1) || (!limited && !IsJudgedByGain(q))) return true;
  const Neighbour newcomer = OnPart(q.need.load, gpu);
  const ThroughputEstimate& with =
      gpu.outlook.With(gpu.residents, newcomer, SaturationOf({}, SharingOn(q.config, gpu.mig)));
  if (!with.bearable) {
    return NotNow(q, ReasonCode::kSlowdown, [&] {
      if (alone) {
        return fmt::format(
            "On GPU {}, a MIG instance, the task would take {:.1f} times as long as on a whole "
            "GPU, which is more than it allows.",
            gpu.index, with.newcomer);
      }
      return fmt::format(
          "Alongside the {} on GPU {}, the task would take {:.1f} times as long as when running "
          "alone, and the slowest task there {:.1f} times as long, which is more than at least one "
          "of them allows{}.",
          base::Counted(std::ssize(gpu.residents), "task"), gpu.index, with.newcomer, with.slowest,
          with.doubt > 1 ? fmt::format(" (until all of them have been measured, the extra time "
                                       "may be up to {:.1f} times as long as predicted)",
                                       with.doubt)
                         : "");
    });
  }
  if (alone || !IsJudgedByGain(q)) return true;
  const double own = newcomer.load.sm_active;
  const double gain = with.delivered - gpu.delivered;
  if (gain >= *q.config.min_gain * own) return true;
  return NotNow(q, ReasonCode::kGain, [&] {
    return fmt::format(
        "Alongside the {} on GPU {}, the task would add only {} % of its own activity to the GPU's "
        "throughput; at least {} % is required.",
        base::Counted(std::ssize(gpu.residents), "task"), gpu.index,
        Percent(own > 0 ? gain / own : 0), Percent(*q.config.min_gain));
  });
}

bool CheckOwnRule(const Question& q) {
  if (!q.config.require || q.config.require->Holds(q.config, q.need, q.gpu)) return true;
  return NotNow(q, ReasonCode::kRule, [&] {
    return fmt::format("Site rule '{1}' (policy.require) excludes GPU {0} for this task.",
                       q.gpu.index, q.config.require->text());
  });
}

// Runs the guards in the order given in policy.h. The first guard that refuses decides. The guards
// are called directly rather than through a table, so that they can be inlined: every decision
// checks every GPU.
bool PassAll(const Question& q) {
  return CheckChoice(q) && CheckGang(q) && CheckDriver(q) && CheckHealth(q) && CheckMig(q) &&
         CheckDrain(q) && CheckBooked(q) && CheckReserve(q) && CheckExclusivity(q) &&
         CheckIdle(q) && CheckTaskCount(q) && CheckHostBusy(q) && CheckMemory(q) &&
         CheckSettled(q) && CheckActivity(q) && CheckTurns(q) && CheckShares(q) &&
         CheckThroughput(q) && CheckOwnRule(q);
}

Fit Ask(const PolicyConfig& config, const Need& need, const GpuView& gpu, Part part,
        Reason* reason) {
  const bool relaxed = gpu.Idle() && (need.idle_gpu || need.exclusive || config.waive_on_idle);
  Fit fit = Fit::kFits;
  PassAll({config, need, gpu, part, relaxed, fit, reason});
  return fit;
}

}  // namespace

bool CouldEverTake(const Need& need, const GpuView& gpu) {
  if (need.choice && !need.choice->Allows(gpu.index)) return false;
  if (gpu.mig && need.gpus > 1) return false;
  return std::max(need.memory_mib.value_or(0), need.retry_free_mib) <= gpu.total_mib;
}

Verdict CheckGuards(const PolicyConfig& config, const Need& need, const GpuView& gpu, Part part) {
  Verdict answer;
  answer.fit = Ask(config, need, gpu, part, &answer.reason);
  return answer;
}

Fit FitOf(const PolicyConfig& config, const Need& need, const GpuView& gpu, Part part) {
  return Ask(config, need, gpu, part, nullptr);
}

}  // namespace carma::core
