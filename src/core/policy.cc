#include "core/policy.h"

#include <fmt/format.h>

#include <utility>

namespace carma::core {
namespace {

using base::ErrorCode;

// A server has terabytes at most; larger numbers are mistakes of units.
constexpr std::int64_t kMaxMib = std::int64_t{1} << 30;
constexpr Duration kMaxSpan{std::chrono::hours(24 * 366)};
constexpr int kMaxTasksPerGpu = 1024;
constexpr int kMaxFailures = 1000;

std::string MapperNames() {
  std::string names;
  for (const MapperEntry& entry : Mappers()) {
    if (!names.empty()) names += ", ";
    names += entry.name;
  }
  return names;
}

struct MibField {
  std::string_view name;
  std::int64_t value;
};
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

base::Result<base::Unit> Validate(const PolicyConfig& config) {
  if (FindMapper(config.mapper) == nullptr) {
    return base::Fail(ErrorCode::kInvalid, fmt::format("mapper: no policy '{}', expected one of {}",
                                                       config.mapper, MapperNames()));
  }
  if (config.sm_cap && !(*config.sm_cap > 0 && *config.sm_cap <= 1)) {
    return base::Fail(
        ErrorCode::kInvalid,
        fmt::format("sm_cap: {} is not a fraction above 0 and at most 1", *config.sm_cap));
  }
  for (const MibField& field :
       {MibField{"margin_mib", config.margin_mib}, MibField{"floor_mib", config.floor_mib},
        MibField{"recovery_step_mib", config.recovery_step_mib}}) {
    if (field.value >= 0 && field.value <= kMaxMib) continue;
    return base::Fail(ErrorCode::kInvalid, fmt::format("{}: {} is not between 0 and {} MiB",
                                                       field.name, field.value, kMaxMib));
  }
  for (const SpanField& field :
       {SpanField{"settle_timeout", config.settle_timeout, Duration{0}},
        SpanField{"stale_after", config.stale_after, Duration{1}},
        SpanField{"recovery_backoff", config.recovery_backoff, Duration{0}},
        SpanField{"recovery_patience", config.recovery_patience, Duration{0}}}) {
    if (field.value >= field.least && field.value <= kMaxSpan) continue;
    return base::Fail(ErrorCode::kInvalid,
                      fmt::format("{}: {} s is not between {} s and a year", field.name,
                                  base::Seconds(field.value), base::Seconds(field.least)));
  }
  if (config.plateau_after &&
      !(*config.plateau_after > Duration{0} && *config.plateau_after <= kMaxSpan)) {
    return base::Fail(ErrorCode::kInvalid,
                      fmt::format("plateau_after: {} s is not above 0 s and at most a year",
                                  base::Seconds(*config.plateau_after)));
  }
  for (const CountField& field :
       {CountField{"max_tasks_per_gpu", config.max_tasks_per_gpu, 1, kMaxTasksPerGpu},
        CountField{"max_launch_failures", config.max_launch_failures, 0, kMaxFailures},
        CountField{"max_node_failures", config.max_node_failures, 0, kMaxFailures},
        CountField{"max_victim_restarts", config.max_victim_restarts, 0, kMaxFailures}}) {
    if (field.value >= field.least && field.value <= field.most) continue;
    return base::Fail(ErrorCode::kInvalid,
                      fmt::format("{}: {} is not between {} and {}", field.name, field.value,
                                  field.least, field.most));
  }
  return base::Unit{};
}

Need NeedOf(const PolicyConfig& config, const TaskRequest& request,
            const std::optional<Estimate>& estimate) {
  Need need{.idle_gpu = !Shares(config),
            .exclusive = request.exclusive,
            .gpus = request.gpus,
            .sm_share = request.sm_share};
  if (config.use_given_memory && estimate) need.memory_mib = estimate->peak_mib;
  return need;
}

Need NeedOf(const PolicyConfig& config, const TaskRecord& task) {
  Need need = NeedOf(config, task.request, task.estimate);
  need.retry_free_mib = task.retry_free_mib.value_or(0);
  need.idle_gpu |= task.retry_on_idle_gpu;
  need.task = task.id;
  return need;
}

}  // namespace carma::core
