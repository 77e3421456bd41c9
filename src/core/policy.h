// Guards say whether a GPU may take a task; a mapper chooses among the eligible. Both are pure and
// see only values.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/gpu.h"
#include "core/task.h"

namespace carma::core {

enum class RecoveryMode {
  kExclusive,  // retry on idle GPUs only (as published)
  kEscalate,   // retry where at least the last claim + step is free, growing; idle GPUs at last
};
// How decisions are paced; the published ones are for comparison.
enum class Pacing {
  kImmediate,  // at every event
  kThesis,  // August 2025: 5 s scan, 30 s pause, idle GPUs, 30 s pause, policy (docs/policies.md)
  kV2,      // November 2025: every 3 s (docs/policies.md)
};

// What the SM cap looks at on a GPU with tasks that does not tell its SM activity.
enum class WithoutActivity {
  kUtilization,  // the share of time in which a kernel ran: an upper bound, so no GPU is too full
  kMemory,       // nothing: memory alone decides
  kNever,        // no task joins another there
};
// What happens to a task that holds GPUs and does not use them.
enum class IdleAction {
  kTell,   // it is shown and told, nothing else
  kShare,  // others may join it, although it asked for its GPUs alone
  kEnd,    // it is stopped
};
// Everything a policy can be told. Names in the configuration file are those of docs/policies.md.
struct PolicyConfig {
  std::string mapper = "magm";
  std::optional<double> sm_cap =
      0.80;  // windowed mean SM activity at most this; empty: no condition
  WithoutActivity without_activity = WithoutActivity::kUtilization;
  std::int64_t margin_mib = 2048;  // on top of an estimate
  std::int64_t floor_mib = 5120;   // free memory wanted without an estimate; 0: no condition
  Duration settle_timeout{
      180'000};  // a placement that never shows on the GPU stops closing it after this
  Duration stale_after{5'000};  // a GPU whose last sample is older is closed
  bool settle = true;           // close a GPU after a placement until its window has seen the task
  int max_tasks_per_gpu = 16;   // MPS allows 48 clients per device
  bool idle_first = false;  // idle GPUs before any collocation, whatever the mapper (as published)
  RecoveryMode recovery = RecoveryMode::kEscalate;
  std::int64_t recovery_step_mib = 5120;
  Duration recovery_backoff{
      10'000};  // before the first retry, doubled for each further one, at most 10 min
  Duration recovery_patience{600'000};  // a recovery task that waited longer gets GPUs reserved
  // As published: the main queue stands still while a task waits in the recovery queue.
  bool recovery_blocks = false;
  bool every_failure_is_oom = false;  // as published: any abnormal end goes to recovery
  int max_launch_failures = 3;
  int max_node_failures = 1;
  int max_victim_restarts = 5;  // after neighbours' faults; then the task ends as failed
  bool share_mig = false;       // several tasks on one MIG instance, by the rules of a GPU
  IdleAction idle_action = IdleAction::kTell;
  Pacing pacing = Pacing::kImmediate;
  bool use_given_memory = true;  // false: estimates are ignored, only floor and cap decide
};
// Strict rules of the original, for comparison: "thesis" (August 2025) and "v2" (November 2025).
// base keeps what the original leaves to the user: the mapper, the SM cap, the floor or the margin
// of a policy that has one, whether estimates are used, and what it has no rule for (stale_after,
// without_activity, max_launch_failures, max_node_failures, max_victim_restarts, MIG instances,
// idle holders). Reproduced: the loop with its pauses (Pacing), idle GPUs first, head-only FIFO,
// the recovery queue that stops the main queue, every failure taken for lack of memory, restarts on
// idle GPUs only. thesis: free memory and SM activity are those published every 92 s, launches in
// progress are not counted. v2: 512 MiB less free memory; a GPU is closed from a launch until its
// window starts after the task was first seen. Not reproduced: the length of the window is the
// shell's (set 92 s for thesis, 30 s for v2); v2's risk index, SM occupancy and DRAM conditions
// (the plain mean of SM activity decides); endless retries (max_recoveries bounds them); first-fit
// and best-fit passing the recovery queue. Errors: kInvalid for another name.
base::Result<PolicyConfig> AsPublished(std::string_view era, PolicyConfig base);
// Errors: kInvalid naming the field and what was expected.
base::Result<base::Unit> Validate(const PolicyConfig& config);

// What a task needs of each of its GPUs at this moment.
struct Need {
  std::optional<std::int64_t> memory_mib;  // expected peak; empty: no estimate
  std::int64_t retry_free_mib = 0;         // after an OOM: at least this much free, margin included
  bool idle_gpu = false;                   // only GPUs with nobody on them
  bool exclusive = false;                  // and nobody may join later
  int gpus = 1;                            // of the whole task
  std::optional<double> sm_share;          // TaskRequest::sm_share
  TaskId task{};
};

// Of a task that has not run yet.
Need NeedOf(const PolicyConfig& config, const TaskRequest& request,
            const std::optional<Estimate>& estimate);
// The same with what its failures have taught.
Need NeedOf(const PolicyConfig& config, const TaskRecord& task);

enum class Fit { kFits, kNotNow, kNever };
struct Verdict {
  Fit fit = Fit::kFits;
  Reason reason;  // empty when it fits
};

// All guards in order: health, MIG, drain, recovery reserve, exclusivity, idle GPUs, tasks per GPU,
// settling, memory, SM activity, declared shares of SMs. The first that does not fit answers;
// kNever only for what no waiting can change. A GPU without tasks and foreign processes is never
// too busy, and margin and floor are waived there (as published only where idle_gpu or exclusive is
// asked for).
Verdict CheckGuards(const PolicyConfig& config, const Need& need, const GpuView& gpu);
// The same without the words, many times faster: for choosing among GPUs.
Fit FitOf(const PolicyConfig& config, const Need& need, const GpuView& gpu);

class Mapper {
 public:
  virtual ~Mapper() = default;
  // Orders `eligible` by preference, best first, into `order` (indices into eligible). Ties by
  // lowest GPU index.
  virtual void Rank(const Need& need, std::span<const GpuView> eligible,
                    std::vector<std::size_t>& order) = 0;
  // The GPUs that were really taken (round robin moves its pointer).
  virtual void Placed(std::span<const Placement> placement) { (void)placement; }
};

struct MapperEntry {
  std::string_view name;
  std::string_view alias;  // the dissertation's abbreviation, or empty
  std::string_view description;
  std::unique_ptr<Mapper> (*make)();
};
// exclusive, round-robin (rr), magm, lug, mug, first-fit, best-fit, worst-fit.
std::span<const MapperEntry> Mappers();
const MapperEntry* FindMapper(std::string_view name_or_alias);

}  // namespace carma::core
