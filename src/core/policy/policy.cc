#include "core/policy/policy.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <ranges>

#include "core/policy/slots.h"
#include "core/values/task.h"

namespace carma::core {
namespace {

// A server has at most a few terabytes of memory, so a number above this was given in the wrong
// unit.
constexpr std::int64_t kMaxMib = std::int64_t{1} << 30;
constexpr Duration kMaxSpan{std::chrono::hours(24 * 366)};
constexpr int kMaxTasksPerGpu = 1024;
constexpr int kMaxFailures = 1000;
constexpr int kMaxLookahead = 1000;
constexpr int kMaxBackfill = 1'000'000;

struct SpanField {
  std::string_view name;
  Duration value;
  Duration least;
};
struct CountField {
  std::string_view name;
  int value;
  int least;
  int most;
};

}  // namespace

Result<Unit> MayName(const PolicyConfig& config, const TaskRequest& request) {
  const std::string& qos = QosOf(request);
  if (qos != kUsualQos && ClassOf(config.classes, request) == nullptr) {
    std::string known(kUsualQos);
    for (const QosClass& each : config.classes) {
      if (each.name != kUsualQos) known += ", " + each.name;
    }
    return Invalid("qos: expected one of {} (fair.classes), got {}", known, qos);
  }
  if (!request.account) return Unit{};
  const std::string user = UserOf(request);
  std::string own;
  for (const AccountRule& each : config.accounts) {
    const bool may = std::ranges::any_of(
        each.users, [&](const std::string& name) { return name == "*" || name == user; });
    if (!may) continue;
    if (each.name == *request.account) return Unit{};
    own += (own.empty() ? "" : ", ") + each.name;
  }
  return Denied("user {} may not use account '{}' (fair.accounts): {}", user, *request.account,
                own.empty() ? "this user has no accounts" : "expected " + own);
}

std::int64_t FloorMib(const PolicyConfig& config, std::int64_t total_mib) {
  if (config.floor_share <= 0) return config.floor_mib;
  return std::llround(config.floor_share * static_cast<double>(total_mib));
}

std::int64_t PriorityOf(const PolicyConfig& config, const TaskRequest& request) {
  const QosClass* of = ClassOf(config.classes, request);
  return request.priority + (of == nullptr ? 0 : of->priority);
}

namespace {

Result<Unit> ValidateSpans(const PolicyConfig& config) {
  for (const SpanField& field :
       {SpanField{"settle_timeout", config.settle_timeout, Duration{0}},
        SpanField{"stale_after", config.stale_after, Duration{1}},
        SpanField{"fair.half_life", config.fair.half_life, Duration{1000}},
        SpanField{"fair.patience", config.fair.patience, Duration{1000}},
        SpanField{"slots.notice", config.slots.notice, Duration{0}},
        SpanField{"slots.preempt_notice", config.slots.preempt_notice, Duration{0}},
        SpanField{"booking_lead", config.booking_lead, Duration{0}},
        SpanField{"recovery_backoff", config.recovery_backoff, Duration{0}},
        SpanField{"recovery_patience", config.recovery_patience, Duration{0}}}) {
    if (field.value >= field.least && field.value <= kMaxSpan) continue;
    return Invalid("{}: {} s is not between {} s and a year", field.name,
                   base::Seconds(field.value), base::Seconds(field.least));
  }
  if (config.pass_limit && !(*config.pass_limit >= Duration{0} && *config.pass_limit <= kMaxSpan)) {
    return Invalid("pass_limit: {} s is not between 0 s and a year",
                   base::Seconds(*config.pass_limit));
  }
  if (config.plateau_after &&
      !(*config.plateau_after > Duration{0} && *config.plateau_after <= kMaxSpan)) {
    return Invalid("plateau_after: {} s is out of range; expected more than 0 s and at most a year",
                   base::Seconds(*config.plateau_after));
  }
  return Unit{};
}

Result<Unit> ValidateCounts(const PolicyConfig& config) {
  for (const CountField& field :
       {CountField{"max_tasks_per_gpu", config.max_tasks_per_gpu, 1, kMaxTasksPerGpu},
        CountField{"lookahead", config.lookahead, 0, kMaxLookahead},
        CountField{"backfill", config.backfill, 1, kMaxBackfill},
        CountField{"host.cpus_per_gpu", config.cpus_per_gpu, 0, kMaxCpus},
        CountField{"max_launch_failures", config.max_launch_failures, 0, kMaxFailures},
        CountField{"max_node_failures", config.max_node_failures, 0, kMaxFailures},
        CountField{"max_victim_restarts", config.max_victim_restarts, 0, kMaxFailures}}) {
    if (field.value >= field.least && field.value <= field.most) continue;
    return Invalid("{}: {} is not between {} and {}", field.name, field.value, field.least,
                   field.most);
  }
  return Unit{};
}

}  // namespace

Result<Unit> Validate(const PolicyConfig& config) {
  if (FindMapper(config.mapper) == nullptr)
    return Invalid("mapper: unknown policy '{}', expected one of {}", config.mapper,
                   fmt::join(Mappers() | std::views::transform(&MapperEntry::name), ", "));
  if (FindMapper(config.mapper)->name == kScoreMapper && !config.score)
    return Invalid("mapper: \"score\" requires policy.score to be set");
  if (config.sm_cap && !(*config.sm_cap > 0 && *config.sm_cap <= 1))
    return Invalid("sm_cap: {} is out of range; expected more than 0 and at most 1",
                   *config.sm_cap);
  for (const auto& [name, mib] :
       {std::pair("margin_mib", config.margin_mib), std::pair("floor_mib", config.floor_mib),
        std::pair("recovery_step_mib", config.recovery_step_mib),
        std::pair("host.memory_per_gpu", config.host_memory_per_gpu_mib)}) {
    if (mib >= 0 && mib <= kMaxMib) continue;
    return Invalid("{}: {} is not between 0 and {} MiB", name, mib, kMaxMib);
  }
  if (Result<Unit> sound = ValidateSpans(config); !sound) return sound;
  if (config.min_gain && !(*config.min_gain >= 0 && *config.min_gain <= 1))
    return Invalid("min_gain: {} is not between 0 and 1", *config.min_gain);
  if (config.max_slowdown &&
      !(*config.max_slowdown >= 1 && *config.max_slowdown <= kMostSlowdown)) {
    return Invalid("max_slowdown: {} is not between 1 and {}", *config.max_slowdown, kMostSlowdown);
  }
  if (!(config.floor_share >= 0 && config.floor_share < 1))
    return Invalid("floor_share: {} is out of range; expected at least 0 and less than 1",
                   config.floor_share);
  if (Result<Unit> sound = Validate(config.slots); !sound) return sound;
  return ValidateCounts(config);
}

namespace {

// Safety factor on predicted slowdowns, chosen so that the bound holds for 95 of 100 tasks
// (docs/server/policies.md, by work).
double DoubtOf(const Profile& profile, bool mps) {
  if (!profile.sm_active) return 1.5;
  return profile.mps || !mps ? 1.0 : 1.2;
}

}  // namespace

Neighbour NeighbourOf(const PolicyConfig& config, const TaskRequest& request,
                      const Profile& profile) {
  const bool mps = config.sharing == SharingMethod::kMps;
  Load load = LoadOf(profile);
  if (mps && config.users_take_turns) load.user = request.uid;
  if (mps && config.gangs_take_turns && request.gpus > 1) load.user = kNoMpsClient;
  return {.load = mps ? load : AsTurns({}, load),
          .max_slowdown = std::min(config.max_slowdown.value_or(kAnySlowdown),
                                   request.max_slowdown.value_or(kAnySlowdown)),
          .doubt = DoubtOf(profile, mps)};
}

Neighbour OnInstance(const Neighbour& whole, double compute) {
  Neighbour part = whole;
  part.cramped = std::max(1.0, whole.load.sm_active / compute);
  part.load = AsTurns({}, {.sm_active = std::min(1.0, whole.load.sm_active / compute)});
  return part;
}

bool HasOwnRules(const PolicyConfig& config) {
  return config.require || config.score;
}

HostNeed HostNeedOf(const PolicyConfig& config, const TaskRequest& request) {
  const int unsaid = request.gpus == 0 ? 1 : request.gpus * config.cpus_per_gpu;
  const int cpus = request.cpus.value_or(unsaid);
  return {
      .cpus = request.own_cpus ? std::max(1, cpus) : cpus,
      .memory_mib = request.host_memory_mib.value_or(request.gpus * config.host_memory_per_gpu_mib),
      .own_cpus = request.own_cpus};
}

const ReservedPeriod* ReservedAgainst(const PolicyConfig& config, const Need& need,
                                      const GpuView& gpu) {
  if (gpu.booked.empty()) return nullptr;
  // Even if policy.booking_lead is 0, a task must not start exactly when a reservation begins.
  const Duration length = std::max(Duration{1}, need.runs_at_most.value_or(config.booking_lead));
  return RunsInto(gpu.booked,
                  {.from = gpu.at, .to = gpu.at + length, .own = need.own_reservations});
}

std::shared_ptr<const GpuChoice> ChoiceOf(const TaskRequest& request,
                                          std::span<const GpuInfo> gpus) {
  return Chooses(request) ? std::make_shared<const GpuChoice>(request, gpus) : nullptr;
}

Need NeedOf(const PolicyConfig& config, const TaskRequest& request,
            const std::optional<Estimate>& estimate, const Profile& profile) {
  Need need{.idle_gpu = !Shares(config),
            .exclusive = request.exclusive,
            .gpus = request.gpus,
            .sm_share = request.sm_share,
            .load = NeighbourOf(config, request, profile),
            .activity_known = profile.sm_active.has_value(),
            .host = HostNeedOf(config, request)};
  need.linked = request.linked_gpus && request.gpus > 1;
  if (HasOwnRules(config)) need.uid = request.uid;
  if (config.use_given_memory && estimate) need.memory_mib = estimate->peak_mib;
  return need;
}

Need NeedOf(const PolicyConfig& config, const TaskRecord& task, const Profile& profile) {
  Need need = NeedOf(config, task.request, task.estimate, profile);
  need.retry_free_mib = task.retry_free_mib.value_or(0);
  need.idle_gpu |= task.retry_on_idle_gpu;
  need.alone = task.profile->alone;
  need.task = task.id;
  return need;
}

Need NeedOf(const PolicyConfig& config, const TaskRecord& task) {
  return NeedOf(config, task, task.profile);
}

}  // namespace carma::core
