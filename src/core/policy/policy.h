// Guards decide whether a GPU may take a task, and a mapper chooses among the eligible GPUs. Both
// are pure: they depend only on the values passed to them.
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
  // Retry on GPUs whose free memory exceeds the last claim by at least recovery_step_mib. Each
  // retry demands more, and the last one uses idle GPUs.
  kEscalate,
};
// When decisions are made: at every event or, for comparison, on a published system's schedule
// (published_rules.h).
enum class Pacing { kImmediate, kThesis, kV2 };

// What to compare with the SM cap if a GPU with tasks does not report its SM activity.
enum class WithoutActivity {
  kUtilization,  // the share of time in which a kernel ran; an upper bound, so no GPU gets too full
  kMemory,       // nothing: only memory decides
  kNever,        // a GPU without SM activity is never shared
};
// What to do with a task that holds GPUs without using them.
enum class IdleAction {
  kTell,   // only report it
  kShare,  // let other tasks join it, even if it is exclusive
  kEnd,    // stop it
};
// Settings whose defaults depend on the mapper, so that configuring the mapper's name is enough.
struct MapperValues {
  // Maximum mean SM activity (over the window) at which a GPU may take another task; empty if
  // unlimited.
  std::optional<double> sm_cap = 0.80;
  std::int64_t margin_mib = 2048;  // added to an estimate
  // Free memory required for a task without an estimate; 0 turns this check off.
  std::int64_t floor_mib = 5120;
  double floor_share = 0;  // share of the GPU's memory; replaces floor_mib unless 0
  // Minimum gain for joining other tasks: the GPU's throughput (ThroughputOf) must rise by at least
  // this share of the task's own activity. Applies to tasks with an estimate and a known activity,
  // in place of the SM cap and settling. Empty turns this check off.
  std::optional<double> min_gain;
  // Number of tasks at the front of the main queue that may start. If one of them cannot start yet,
  // the tasks behind it may start first. 1 means only the head, plus tasks for GPUs that no task
  // ahead of them can ever use.
  int backfill = 1;
  // How long the head of the queue may be overtaken before GPUs are set aside for it; empty if
  // unlimited.
  std::optional<Duration> pass_limit = Duration{3'600'000};
};
// All settings of a policy. docs/server/policies.md lists their names in the configuration file.
struct PolicyConfig : MapperValues {
  std::string mapper = "magm";
  WithoutActivity without_activity = WithoutActivity::kUtilization;
  // How long a task that never appears in its GPU's samples can keep other tasks off the GPU.
  Duration settle_timeout{180'000};
  Duration stale_after{5'000};  // a GPU is closed if its last sample is older than this
  // Once a task's memory has not risen for this long, its promise is reduced to what it has used
  // (NeedAfterPlateau). Waiting tasks of its kind then request the same amount, or more if one of
  // them ran out of memory. If empty, promises and estimates are never adjusted.
  std::optional<Duration> plateau_after = Duration{600'000};
  // Maximum predicted slowdown of any task. If empty, only limits set by the tasks themselves
  // apply.
  std::optional<double> max_slowdown;
  // The site rule, if any: a GPU takes a task only if this expression is true.
  std::optional<GpuRule> require;
  // The expression that the mapper "score" uses to rank GPUs. Required by that mapper.
  std::optional<GpuRule> score;
  // Number of possible starts to simulate to the end (Future). They are compared with each other
  // and with starting nothing. 0 turns this off. Used only by mappers that choose the task, and
  // only if all run times are known.
  int lookahead = 16;
  // The sharing method that throughput estimates assume: kMps or kStreams.
  SharingMethod sharing = SharingMethod::kMps;
  bool settle = true;          // close a GPU after a placement until its window shows the task
  int max_tasks_per_gpu = 16;  // MPS allows 48 clients per device
  // Used instead of sm_cap and max_tasks_per_gpu on shared MIG instances and, through
  // config::PolicyFor, on servers that share GPUs through streams.
  std::optional<double> streams_sm_cap = 0.40;
  int streams_tasks = 3;
  bool idle_first = false;  // tasks go to idle GPUs first, whatever the mapper
  // If true, margin, floor and SM cap are waived for every task on an empty GPU. Otherwise, they
  // are waived only for tasks that need an empty GPU.
  bool waive_on_idle = true;
  RecoveryMode recovery = RecoveryMode::kEscalate;
  std::int64_t recovery_step_mib = 5120;
  // Delay before the first retry. Doubles with each further retry, up to 10 min.
  Duration recovery_backoff{10'000};
  Duration recovery_patience{
      600'000};                  // GPUs are kept for a recovery task that waits longer than this
  bool recovery_blocks = false;  // the main queue stops while a task waits in recovery
  bool every_failure_is_oom = false;  // a task goes to recovery after any abnormal end
  int max_launch_failures = 3;
  int max_node_failures = 1;
  int max_victim_restarts = 5;  // restarts allowed after neighbours' faults; then the task fails
  // A task without a time limit is not placed on a GPU if a reservation begins there within this
  // time.
  Duration booking_lead{std::chrono::hours(4)};
  bool share_mig = false;  // MIG instances may hold several tasks, like whole GPUs
  IdleAction idle_action = IdleAction::kTell;
  Pacing pacing = Pacing::kImmediate;
  // Cores and memory promised per GPU to a task that does not request any; 0 means none.
  int cpus_per_gpu = 0;
  std::int64_t host_memory_per_gpu_mib = 0;
  bool use_given_memory = true;  // false: estimates are ignored; only floor and cap apply
  // Order of tasks with equal priority.
  QueueOrder order = QueueOrder::kFifo;
  FairRules fair;
  std::vector<AccountRule> accounts;  // the accounts that tasks may name
  // The classes that tasks may name.
  std::vector<QosClass> classes{{"interactive", 1000}, {"normal", 0}, {"background", -1000}};
  std::vector<LimitRule> limits{{.user = "*", .qos = "interactive", .running = 1}};
  SlotRules slots;  // when running tasks make room for waiting tasks
  // Under MPS each user has a separate MPS server, so tasks of different users take turns.
  bool users_take_turns = true;
  // With one MPS server per GPU, a task that uses several GPUs cannot be an MPS client, so it takes
  // turns with all other tasks.
  bool gangs_take_turns = false;
};
// Checks the account and class that the request names. Returns kInvalid if the class is not
// configured and kDenied if the user may not use the account. Both messages list the valid names.
Result<Unit> MayName(const PolicyConfig& config, const TaskRequest& request);
// Free memory required on a GPU of that size for a task without an estimate.
std::int64_t FloorMib(const PolicyConfig& config, std::int64_t total_mib);
// The task's own priority plus its class's priority.
std::int64_t PriorityOf(const PolicyConfig& config, const TaskRequest& request);
// Returns kInvalid if a setting is invalid, naming the setting and the expected value.
Result<Unit> Validate(const PolicyConfig& config);

// The cores and host memory that a task needs.
struct HostNeed {
  int cpus = 0;                 // hardware threads; 0 if not counted
  std::int64_t memory_mib = 0;  // 0 if not counted
  bool own_cpus = false;        // no other task may use its threads
  friend bool operator==(const HostNeed&, const HostNeed&) = default;
};
// The cores and memory that the task requests, or else the server's default. A task that requests
// neither GPUs nor cores counts as needing one CPU; otherwise, a thousand such tasks could start at
// once.
HostNeed HostNeedOf(const PolicyConfig& config, const TaskRequest& request);

// What a task currently needs on each of its GPUs and from the machine.
struct Need {
  std::optional<std::int64_t> memory_mib;  // expected peak; empty if no estimate
  // Expected peak on every GPU except the first, if it is known to be lower than the first GPU's
  // peak.
  std::optional<std::int64_t> others_mib;
  std::int64_t retry_free_mib = 0;  // after an OOM: required free memory, margin included
  bool idle_gpu = false;            // only empty GPUs may be used
  bool exclusive = false;           // no task may join later
  int gpus = 1;                     // number of GPUs that the whole task needs
  std::optional<double> sm_share;   // TaskRequest::sm_share
  Neighbour load;                   // its effect on neighbours
  bool activity_known = false;      // load.sm_active was measured, not assumed
  double uses_cpus = 0;             // hardware threads that it is expected to keep busy, in total
  std::optional<Duration> alone;    // Profile::alone
  Duration waited{};                // time since its submission
  // True if the task has waited for kTurnsAfter, so it may take turns with other tasks.
  bool takes_turns = false;
  bool nobody_behind = false;  // no other task is waiting for GPUs
  HostNeed host;
  TaskId task{};
  // The GPUs that the task's request allows; null means any GPU. Computed once per task and shared
  // by all of its Needs.
  std::shared_ptr<const GpuChoice> choice;
  bool linked = false;  // all its GPUs must be connected to each other
  // The task's time limit and the reservations that admit it. Used to check reserved GPUs.
  std::optional<Duration> runs_at_most;
  std::vector<ReservationId> own_reservations;
  std::uint32_t uid = 0;  // its user's UID if the site has its own rules, else 0
};

// How a task with this profile affects its neighbours, and its maximum slowdown (the smaller of the
// server's limit and the task's own limit).
Neighbour NeighbourOf(const PolicyConfig& config, const TaskRequest& request,
                      const Profile& profile);

// How tasks share a GPU. Tasks on a MIG instance take turns, whatever method the server uses.
inline SharingMethod SharingOn(const PolicyConfig& config, bool mig) {
  return mig ? SharingMethod::kStreams : config.sharing;
}
inline const std::optional<double>& SmCapOn(const PolicyConfig& config, bool mig) {
  return mig ? config.streams_sm_cap : config.sm_cap;
}

// The same task on a MIG instance with a fraction `compute` of the GPU's SMs (GpuView::compute).
// The task keeps the instance busier than a whole GPU. It runs longer if it needs more SMs than the
// instance has.
Neighbour OnInstance(const Neighbour& whole, double compute);
// The same task on this GPU or instance. gpu: a GpuView or a GpuInfo.
inline Neighbour OnPart(const Neighbour& whole, const auto& gpu) {
  return gpu.mig ? OnInstance(whole, gpu.compute) : whole;
}
// True if the site has configured rules of its own (require, score).
bool HasOwnRules(const PolicyConfig& config);

// Returns the GPUs that the request allows, or null if it allows any.
std::shared_ptr<const GpuChoice> ChoiceOf(const TaskRequest& request,
                                          std::span<const GpuInfo> gpus);

// Returns the Need of a task that has not run yet. Need::choice is not set.
Need NeedOf(const PolicyConfig& config, const TaskRequest& request,
            const std::optional<Estimate>& estimate, const Profile& profile = {});
// Returns the Need of a task, taking earlier failed attempts into account. profile: what is now
// known about tasks of its kind; task.profile by default.
Need NeedOf(const PolicyConfig& config, const TaskRecord& task, const Profile& profile);
Need NeedOf(const PolicyConfig& config, const TaskRecord& task);

// Whether the task's first GPU or another one is being chosen. The first GPU may need more free
// memory than the others, but every GPU must have enough total memory to be the first.
enum class Part { kFirst, kOther };
enum class Fit { kFits, kNotNow, kNever };
inline constexpr std::pair<Fit, std::string_view> kFitWords[] = {
    {Fit::kFits, "fits"}, {Fit::kNotNow, "not_now"}, {Fit::kNever, "never"}};
struct Verdict {
  Fit fit = Fit::kFits;
  Reason reason;  // empty when it fits
};

// Returns the reservation that keeps the task off the GPU, or null if there is none.
const ReservedPeriod* ReservedAgainst(const PolicyConfig& config, const Need& need,
                                      const GpuView& gpu);

// Runs all guards, in this order: the task's own choice, instances for tasks that need
// several GPUs, driver upgrade, health, MIG, drain, reservations, recovery holds, exclusivity, idle
// GPUs, tasks per GPU, idle CPU cores, memory, settling, SM activity, tasks that take turns,
// declared shares of SMs, slowdown, gain, the site rule. The first guard that refuses decides. The
// verdict is kNever only if waiting cannot help.
//
// A GPU without tasks or foreign processes is never too busy, and margin and floor are waived on
// it. If waive_on_idle is off, margin and floor are waived only for tasks with idle_gpu or
// exclusive.
Verdict CheckGuards(const PolicyConfig& config, const Need& need, const GpuView& gpu,
                    Part part = Part::kFirst);
// Same verdict as CheckGuards, without the reason. Much faster, so it is used to choose among GPUs.
Fit FitOf(const PolicyConfig& config, const Need& need, const GpuView& gpu,
          Part part = Part::kFirst);

// Under MPS, tasks of different users take turns, as do multi-GPU tasks if each GPU has its own MPS
// server. Taking turns slows down all of them and gains little. A task may therefore take turns
// only while less than this share of the GPU is used (UseOf, docs/evidence/policies.md).
inline constexpr double kTurnsBelow = 0.4;
// After waiting in its queue for this long, a task may take turns on any GPU.
inline constexpr Duration kTurnsAfter{std::chrono::hours(6)};

// True if the GPU could take the task once all tasks there have ended. If false, waiting cannot
// help.
bool CouldEverTake(const Need& need, const GpuView& gpu);

class Mapper {
 public:
  virtual ~Mapper() = default;
  // How well an eligible GPU suits the task. A task takes the GPUs with the highest scores; ties go
  // to the lowest index.
  virtual double Score(const Need& need, const GpuView& gpu) const = 0;
  // Called with the GPUs that the task was actually given. Round robin then advances its pointer.
  virtual void Placed(std::span<const Placement> placement) { (void)placement; }
};

struct MapperEntry {
  std::string_view name;
  std::string_view alias;  // the dissertation's abbreviation, or empty
  std::string_view description;
  std::unique_ptr<Mapper> (*make)(const PolicyConfig& config);
  MapperValues values = {};
  bool shares = true;  // false if limited to one task per GPU
  // If true, the waiting task with the highest score starts first, instead of the head of the
  // queue. (A task's score is the mean over its GPUs.) Tasks of higher priority still go first.
  bool chooses_task = false;
};
// All mappers: exclusive, round-robin (rr), magm, lug, mug, first-fit, best-fit, worst-fit, by-work
// (bw), score.
std::span<const MapperEntry> Mappers();
const MapperEntry* FindMapper(std::string_view name_or_alias);
// Applies the default settings of the configured mapper. Does nothing if the mapper is unknown.
void UseMapperValues(PolicyConfig& config);
// The mapper that never shares a GPU.
inline constexpr std::string_view kNeverSharing = "exclusive";
// The mapper that ranks by PolicyConfig::score.
inline constexpr std::string_view kScoreMapper = "score";
// Returns MapperEntry::shares of the configured mapper, or true if the mapper is unknown.
bool Shares(const PolicyConfig& config);

}  // namespace carma::core

template <>
inline constexpr carma::base::Words<carma::core::Fit> carma::base::kWordsOf<carma::core::Fit> =
    carma::core::kFitWords;
