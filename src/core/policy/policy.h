// Guards decide whether a GPU may take a task; a mapper chooses among the eligible GPUs. Both are
// pure and see only values.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/words.h"
#include "core/policy/gpu_rule.h"
#include "core/values/entitlement.h"
#include "core/values/gpu.h"
#include "core/values/gpu_choice.h"
#include "core/values/ids.h"
#include "core/values/promise.h"
#include "core/values/reason.h"
#include "core/values/sharing.h"
#include "core/values/task_request.h"

namespace carma::core {

enum class RecoveryMode {
  kExclusive,  // retry on idle GPUs only (as published)
  kEscalate,   // retry where at least the last claim + step is free, growing; finally idle GPUs
};
// When decisions are made: at every event, or in the loops of a published system, for comparison
// (published_rules.h).
enum class Pacing { kImmediate, kThesis, kV2 };

// What the SM cap is compared with if a GPU with tasks does not report SM activity.
enum class WithoutActivity {
  kUtilization,  // the share of time in which a kernel ran: an upper bound, so no GPU is too full
  kMemory,       // nothing: only memory decides
  kNever,        // no task joins another there
};
// What happens to a task that holds GPUs and does not use them.
enum class IdleAction {
  kTell,   // report it only
  kShare,  // let others join it, even if it is exclusive
  kEnd,    // it is stopped
};
// All settings of a policy. docs/server/policies.md has their names in the configuration file.
struct PolicyConfig {
  std::string mapper = "magm";
  // Maximum windowed mean SM activity of a GPU that takes another task; empty: no condition.
  std::optional<double> sm_cap = 0.80;
  WithoutActivity without_activity = WithoutActivity::kUtilization;
  std::int64_t margin_mib = 2048;  // on top of an estimate
  // Free memory required for a task without an estimate; 0: no condition.
  std::int64_t floor_mib = 5120;
  double floor_share = 0;  // of the GPU's memory, in place of floor_mib; 0: floor_mib applies
  // A task that never shows on its GPU closes that GPU to others no longer than this.
  Duration settle_timeout{180'000};
  Duration stale_after{5'000};  // a GPU whose last sample is older is closed
  // Once a task's memory has not risen for this long, its promise drops to what it used, and
  // waiting tasks of its kind ask for that amount (or for more, if one of them ran out of memory).
  // Empty: claims and estimates stay as they are.
  std::optional<Duration> plateau_after = Duration{600'000};
  // A task of known memory need and activity joins others only if it adds at least this share of
  // its own activity to the GPU's throughput (ThroughputOf); the SM cap and settling do not apply
  // to it then. Empty: no condition.
  std::optional<double> min_gain;
  // Maximum predicted slowdown of any task; empty: only the limits that tasks set themselves.
  std::optional<double> max_slowdown;
  // Site rule: a GPU takes a task only if this is true. Empty: none.
  std::optional<GpuRule> require;
  // Expression of the mapper "score", which requires it.
  std::optional<GpuRule> score;
  // How many places of the main queue are considered: tasks behind one that must wait may start
  // before it. 1: the head only.
  int backfill = 1;
  // Once others have passed the head for this long, GPUs are kept for it; empty: never.
  std::optional<Duration> pass_limit = Duration{3'600'000};
  // If all run times are known, this many possible starts, and no start, are compared by simulating
  // each to the end (Future). For mappers that choose the task. 0: off.
  int lookahead = 16;
  // How tasks share a GPU, for throughput estimates: kMps or kStreams.
  SharingMethod sharing = SharingMethod::kMps;
  bool settle = true;          // close a GPU after a placement until its window has seen the task
  int max_tasks_per_gpu = 16;  // MPS allows 48 clients per device
  bool idle_first = false;     // idle GPUs before any collocation, whatever the mapper
  // An empty GPU takes a task without margin, floor and SM cap; false: only a task that needs an
  // empty GPU.
  bool waive_on_idle = true;
  RecoveryMode recovery = RecoveryMode::kEscalate;
  std::int64_t recovery_step_mib = 5120;
  // Wait before the first retry, doubled for each further one, at most 10 min.
  Duration recovery_backoff{10'000};
  Duration recovery_patience{600'000};  // a recovery task that waited longer gets GPUs reserved
  bool recovery_blocks = false;         // the main queue stops while a crashed task waits
  bool every_failure_is_oom = false;    // any abnormal end goes to recovery
  int max_launch_failures = 3;
  int max_node_failures = 1;
  int max_victim_restarts = 5;  // by neighbours' faults; then it fails
  // A task without a time limit is not placed where a reservation begins within this time.
  Duration booking_lead{std::chrono::hours(4)};
  bool share_mig = false;  // several tasks on one MIG instance, by the rules of a GPU
  IdleAction idle_action = IdleAction::kTell;
  Pacing pacing = Pacing::kImmediate;
  // Cores and memory promised per GPU to a task that states none; 0: nothing is counted.
  int cpus_per_gpu = 0;
  std::int64_t host_memory_per_gpu_mib = 0;
  bool use_given_memory = true;  // false: estimates are ignored, only floor and cap decide
  // Order of tasks with the same priority, and limits.
  QueueOrder order = QueueOrder::kFifo;
  FairRules fair;
  std::vector<AccountRule> accounts;  // that tasks may name
  // The classes that tasks may name.
  std::vector<QosClass> classes{{"interactive", 1000}, {"normal", 0}, {"background", -1000}};
  std::vector<LimitRule> limits{{.user = "*", .qos = "interactive", .running = 1}};
  SlotRules slots;  // when tasks make room for others
  // Under MPS each user's tasks have an MPS server of their own, so tasks of different users take
  // turns.
  bool users_take_turns = true;
  // With one MPS server per GPU a task of several GPUs cannot be a client: it takes turns with the
  // clients, and with other tasks of several GPUs.
  bool gangs_take_turns = false;
};
// Errors: kInvalid for a class that is not configured, kDenied for an account that its user may not
// use, both listing the valid names.
Result<Unit> MayName(const PolicyConfig& config, const TaskRequest& request);
// Free memory required on a GPU of that size for a task without an estimate.
std::int64_t FloorMib(const PolicyConfig& config, std::int64_t total_mib);
// The task's own priority plus that of its class.
std::int64_t PriorityOf(const PolicyConfig& config, const TaskRequest& request);
// Errors: kInvalid with the field and what was expected.
Result<Unit> Validate(const PolicyConfig& config);

// Cores and main memory that a task needs.
struct HostNeed {
  int cpus = 0;                 // hardware threads; 0: not counted
  std::int64_t memory_mib = 0;  // 0: not counted
  bool own_cpus = false;        // threads that no other task may use
  friend bool operator==(const HostNeed&, const HostNeed&) = default;
};
// What the task states, else the server's defaults. A task without GPUs that states nothing needs
// one CPU, because otherwise a thousand of them could start at once.
HostNeed HostNeedOf(const PolicyConfig& config, const TaskRequest& request);

// What a task needs at this moment: on each of its GPUs, and of the machine.
struct Need {
  std::optional<std::int64_t> memory_mib;  // expected peak; empty: no estimate
  // Expected peak on every GPU but the first, if it is known to be lower.
  std::optional<std::int64_t> others_mib;
  std::int64_t retry_free_mib = 0;  // after an OOM: at least this much free, margin included
  bool idle_gpu = false;            // only empty GPUs
  bool exclusive = false;           // no task may join later
  int gpus = 1;                     // of the whole task
  std::optional<double> sm_share;   // TaskRequest::sm_share
  Neighbour load;                   // its effect on neighbours
  bool activity_known = false;      // load.sm_active was measured, not assumed
  double uses_cpus = 0;  // hardware threads that it is expected to keep busy, for all its GPUs
  std::optional<Duration> alone;  // Profile::alone
  Duration waited{};              // since its submission
  bool takes_turns = false;       // it has waited for kTurnsAfter
  bool nobody_behind = false;     // no other task waits for GPUs
  HostNeed host;
  TaskId task{};
  // The GPUs that the task chose; null: any. Made once per task and shared by all Needs that a
  // decision makes for it.
  std::shared_ptr<const GpuChoice> choice;
  bool linked = false;  // all its GPUs must be connected with each other
  // For reserved GPUs: its time limit, and the reservations that admit it.
  std::optional<Duration> runs_at_most;
  std::vector<ReservationId> own_reservations;
  std::uint32_t uid = 0;  // its user, if a site rule may ask; else 0
};

// How a task of that profile affects its neighbours, and its maximum slowdown: the smaller of the
// server's limit and its own.
Neighbour NeighbourOf(const PolicyConfig& config, const TaskRequest& request,
                      const Profile& profile);

// The same on a part of a GPU with that share of its SMs (GpuView::compute): it keeps the part
// busier, and takes longer if it needs more SMs than the part has.
Neighbour OnSmaller(const PolicyConfig& config, const Neighbour& whole, double compute);
inline Neighbour OnPart(const PolicyConfig& config, const Neighbour& whole, double compute) {
  return compute >= 1 ? whole : OnSmaller(config, whole, compute);
}
// Whether the site has rules of its own (require, score).
bool HasOwnRules(const PolicyConfig& config);

// The GPUs that the task chose; null: any.
std::shared_ptr<const GpuChoice> ChoiceOf(const TaskRequest& request,
                                          std::span<const GpuInfo> gpus);

// The need of a task that has not run yet, without its choice of GPUs.
Need NeedOf(const PolicyConfig& config, const TaskRequest& request,
            const std::optional<Estimate>& estimate);
// The same for a task that has run: includes what its failures have shown.
Need NeedOf(const PolicyConfig& config, const TaskRecord& task);

// Which of the task's GPUs is being chosen: the others may need less free memory than the first.
// Each must be large enough to be the first.
enum class Part { kFirst, kOther };
enum class Fit { kFits, kNotNow, kNever };
inline constexpr std::pair<Fit, std::string_view> kFitWords[] = {
    {Fit::kFits, "fits"}, {Fit::kNotNow, "not_now"}, {Fit::kNever, "never"}};
struct Verdict {
  Fit fit = Fit::kFits;
  Reason reason;  // empty when it fits
};

// The reservation that keeps the task away from the GPU; null: none.
const ReservedPeriod* ReservedAgainst(const PolicyConfig& config, const Need& need,
                                      const GpuView& gpu);

// All guards in order: the task's own choice, health, MIG, drain, reservations, recovery reserve,
// exclusivity, idle GPUs, tasks per GPU, the machine's cores, settling, memory, SM activity, tasks
// that take turns, declared shares of SMs, slowdown, gain, the site rule. The first that refuses
// decides; kNever only if waiting cannot help. A GPU without tasks and foreign processes is never
// too busy, and margin and floor are waived there (without waive_on_idle only for tasks with
// idle_gpu or exclusive).
Verdict CheckGuards(const PolicyConfig& config, const Need& need, const GpuView& gpu,
                    Part part = Part::kFirst);
// The verdict of CheckGuards without its text: many times faster, for choosing among GPUs.
Fit FitOf(const PolicyConfig& config, const Need& need, const GpuView& gpu,
          Part part = Part::kFirst);

// Tasks take turns if they belong to two users under MPS, or use several GPUs while each GPU has an
// MPS server of its own. Both are slowed down, and little is gained. So such a task joins others
// only while less than this share of the GPU is used (UseOf, docs/evidence/policies.md),
inline constexpr double kTurnsBelow = 0.4;
// or once it has waited in its queue for this long.
inline constexpr Duration kTurnsAfter{std::chrono::hours(6)};

// Whether the GPU could take the task once all tasks there have ended. False: waiting cannot help.
bool CouldEverTake(const Need& need, const GpuView& gpu);

class Mapper {
 public:
  virtual ~Mapper() = default;
  // How well an eligible GPU suits the task. The highest score wins, ties go to the lowest index. A
  // task of several GPUs takes the highest ones.
  virtual double Score(const Need& need, const GpuView& gpu) const = 0;
  // Reports the GPUs that were actually taken (round robin moves its pointer).
  virtual void Placed(std::span<const Placement> placement) { (void)placement; }
};

// Settings that a mapper brings along, so that naming it is enough. Fields as in PolicyConfig.
struct MapperValues {
  std::optional<double> sm_cap = 0.80;
  std::int64_t margin_mib = 2048;
  std::int64_t floor_mib = 5120;
  double floor_share = 0;
  std::optional<double> min_gain;
  int backfill = 1;
  std::optional<Duration> pass_limit = Duration{3'600'000};
};

struct MapperEntry {
  std::string_view name;
  std::string_view alias;  // the dissertation's abbreviation, or empty
  std::string_view description;
  std::unique_ptr<Mapper> (*make)(const PolicyConfig& config);
  MapperValues values = {};
  bool shares = true;  // false: one task per GPU
  // The waiting task with the highest score (mean over its GPUs) starts first, not the head; a
  // higher priority still goes before all lower ones.
  bool chooses_task = false;
};
// exclusive, round-robin (rr), magm, lug, mug, first-fit, best-fit, worst-fit, by-work (bw), score.
std::span<const MapperEntry> Mappers();
const MapperEntry* FindMapper(std::string_view name_or_alias);
// Applies the values of the policy's mapper; an unknown mapper has none.
void UseMapperValues(PolicyConfig& config);
// The mapper that never shares a GPU.
inline constexpr std::string_view kNeverSharing = "exclusive";
// The mapper that uses PolicyConfig::score.
inline constexpr std::string_view kScoreMapper = "score";
// MapperEntry::shares of the configured mapper; true for an unknown one.
bool Shares(const PolicyConfig& config);

}  // namespace carma::core

template <>
inline constexpr carma::base::Words<carma::core::Fit> carma::base::kWordsOf<carma::core::Fit> =
    carma::core::kFitWords;
