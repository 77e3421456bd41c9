// Guards say whether a GPU may take a task; a mapper chooses among the eligible. Both are pure and
// see only values.
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
#include "core/values/task.h"

namespace carma::core {

enum class RecoveryMode {
  kExclusive,  // retry on idle GPUs only (as published)
  kEscalate,   // retry where at least the last claim + step is free, growing; idle GPUs at last
};
// When decisions are made: at every event, or in the loops of a published system, for comparison
// (published_rules.h).
enum class Pacing { kImmediate, kThesis, kV2 };

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
// Everything a policy can be told. Names in the configuration file are those of
// docs/server/policies.md.
struct PolicyConfig {
  std::string mapper = "magm";
  // Windowed mean SM activity at most this; empty: no condition.
  std::optional<double> sm_cap = 0.80;
  WithoutActivity without_activity = WithoutActivity::kUtilization;
  std::int64_t margin_mib = 2048;  // on top of an estimate
  // Free memory wanted without an estimate; 0: no condition.
  std::int64_t floor_mib = 5120;
  double floor_share = 0;  // of the GPU's memory, in place of floor_mib; 0: floor_mib holds
  // A placement that never shows on the GPU stops closing it after this.
  Duration settle_timeout{180'000};
  Duration stale_after{5'000};  // a GPU whose last sample is older is closed
  // A task whose memory has not risen for so long is promised what it was seen to need, and tasks
  // of its kind that wait ask for that, or for more than what ran out of memory had; empty: claims
  // and estimates stand.
  std::optional<Duration> plateau_after = Duration{600'000};
  // A task whose memory need and activity are known joins others only where it adds at least this
  // share of its own activity to what the GPU gets done (ThroughputOf); neither the SM cap nor
  // settling is asked of it then. Empty: no condition.
  std::optional<double> min_gain;
  // Nobody is to take longer than so many times its run time alone; empty: no condition but those
  // of single tasks.
  std::optional<double> max_slowdown;
  // The server's own condition: no GPU takes a task for which it does not hold. Empty: none.
  std::optional<GpuRule> require;
  // What the mapper "score" goes by; it must be there for that one.
  std::optional<GpuRule> score;
  // Places of the main line that are looked at: those behind a task that must wait may start before
  // it. 1: its first only.
  int backfill = 1;
  // Once the first of the line has been passed for so long, GPUs are kept for it; empty: never.
  std::optional<Duration> pass_limit = Duration{3'600'000};
  // Where the run times alone of all tasks are known: so many starts are compared by what they come
  // to in the end (Future), and with none. For mappers that choose the task. 0: none is.
  int lookahead = 16;
  // How tasks share a GPU, for the outlook: kMps or kStreams.
  SharingMethod sharing = SharingMethod::kMps;
  bool settle = true;          // close a GPU after a placement until its window has seen the task
  int max_tasks_per_gpu = 16;  // MPS allows 48 clients per device
  bool idle_first = false;     // idle GPUs before any collocation, whatever the mapper
  // A GPU with nobody on it is taken without margin, floor and SM cap; false: only by tasks that
  // ask for such a GPU.
  bool waive_on_idle = true;
  RecoveryMode recovery = RecoveryMode::kEscalate;
  std::int64_t recovery_step_mib = 5120;
  // Before the first retry, doubled for each further one, at most 10 min.
  Duration recovery_backoff{10'000};
  Duration recovery_patience{600'000};  // a recovery task that waited longer gets GPUs reserved
  bool recovery_blocks = false;         // the main queue stands still while a crashed task waits
  bool every_failure_is_oom = false;    // any abnormal end goes to recovery, whatever its chances
  int max_launch_failures = 3;
  int max_node_failures = 1;
  int max_victim_restarts = 5;  // after neighbours' faults; then the task ends as failed
  // A task without a time limit is not put where a reservation begins within that time.
  Duration booking_lead{std::chrono::hours(4)};
  bool share_mig = false;  // several tasks on one MIG instance, by the rules of a GPU
  IdleAction idle_action = IdleAction::kTell;
  Pacing pacing = Pacing::kImmediate;
  // What a task is promised of the machine for each of its GPUs if it does not say; 0: nothing is
  // counted for it then.
  int cpus_per_gpu = 0;
  std::int64_t host_memory_per_gpu_mib = 0;
  bool use_given_memory = true;  // false: estimates are ignored, only floor and cap decide
  // Who goes first among tasks of one priority, and what nobody may go beyond.
  QueueOrder order = QueueOrder::kFifo;
  FairRules fair;
  std::vector<AccountRule> accounts;  // those that tasks may name
  // Those that tasks may name.
  std::vector<QosClass> classes{{"interactive", 1000}, {"normal", 0}, {"background", -1000}};
  std::vector<LimitRule> limits{{.user = "*", .qos = "interactive", .running = 1}};
  SlotRules slots;  // when tasks leave their GPUs to others
  // Under MPS each user's tasks have a server of their own, so those of several users take turns.
  bool users_take_turns = true;
  // With an MPS server for each GPU a task of several GPUs cannot be a client: it takes turns with
  // those that are, and with other tasks of several GPUs.
  bool gangs_take_turns = false;
};
// Errors: kInvalid for a class that is not configured, kDenied for an account that its user may not
// use, each naming those that there are.
base::Result<base::Unit> MayName(const PolicyConfig& config, const TaskRequest& request);
// Free memory wanted on a GPU of that size without an estimate.
std::int64_t FloorMib(const PolicyConfig& config, std::int64_t total_mib);
// What of its class is added to the task's own priority.
std::int64_t PriorityOf(const PolicyConfig& config, const TaskRequest& request);
// Errors: kInvalid naming the field and what was expected.
base::Result<base::Unit> Validate(const PolicyConfig& config);

// What a task needs of the machine itself.
struct HostNeed {
  int cpus = 0;                 // hardware threads; 0: not counted
  std::int64_t memory_mib = 0;  // likewise
  bool own_cpus = false;        // threads that no other task may use
  friend bool operator==(const HostNeed&, const HostNeed&) = default;
};
// As it says, or as the server's rules have it; one CPU of a task that wants no GPU and says
// nothing, because nothing else would be in the way of a thousand such.
HostNeed HostNeedOf(const PolicyConfig& config, const TaskRequest& request);

// What a task needs at this moment: of each of its GPUs, and of the machine.
struct Need {
  std::optional<std::int64_t> memory_mib;  // expected peak; empty: no estimate
  std::int64_t retry_free_mib = 0;         // after an OOM: at least this much free, margin included
  bool idle_gpu = false;                   // only GPUs with nobody on them
  bool exclusive = false;                  // and nobody may join later
  int gpus = 1;                            // of the whole task
  std::optional<double> sm_share;          // TaskRequest::sm_share
  Neighbour load;                          // what it would be to its neighbours
  bool activity_known = false;             // load.sm_active was measured, not assumed
  double uses_cpus = 0;  // hardware threads that it is expected to keep busy, for all its GPUs
  std::optional<Duration> alone;  // Profile::alone
  Duration waited{};              // since its submission
  bool nobody_behind = false;     // no other task waits for GPUs: what it leaves free is for nobody
  HostNeed host;
  TaskId task{};
  // Which GPUs it may have by what it says; null: any. Made once for a task and seen by each of the
  // many needs that a decision makes of it.
  std::shared_ptr<const GpuChoice> choice;
  bool linked = false;  // all its GPUs are to be connected with each other
  // Where GPUs are reserved: its time limit, and the reservations that are for it.
  std::optional<Duration> runs_at_most;
  std::vector<ReservationId> own_reservations;
  std::uint32_t uid = 0;  // whose it is, where a rule of the server's own may ask; else 0
};

// What a task of that profile is to its neighbours, and at most may suffer from them: by the
// server's rule and by what it asks for itself, whichever is less.
Neighbour NeighbourOf(const PolicyConfig& config, const TaskRequest& request,
                      const Profile& profile);

// The same on a part of a GPU with that share of its SMs (GpuView::compute): it fills the part the
// sooner, and takes as much longer as it finds too few.
Neighbour OnSmaller(const PolicyConfig& config, const Neighbour& whole, double compute);
inline Neighbour OnPart(const PolicyConfig& config, const Neighbour& whole, double compute) {
  return compute >= 1 ? whole : OnSmaller(config, whole, compute);
}
// Has the server rules of its own (require, score)?
bool HasOwnRules(const PolicyConfig& config);

// Null where the task says nothing of it.
std::shared_ptr<const GpuChoice> ChoiceOf(const TaskRequest& request,
                                          std::span<const GpuInfo> gpus);

// Of a task that has not run yet; which GPUs it may have is not known here.
Need NeedOf(const PolicyConfig& config, const TaskRequest& request,
            const std::optional<Estimate>& estimate);
// The same with what its failures have taught.
Need NeedOf(const PolicyConfig& config, const TaskRecord& task);

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
// exclusivity, idle GPUs, tasks per GPU, the machine's cores, settling, memory, SM activity,
// declared shares of SMs, slowdown, gain, the server's own condition. The first that does not fit
// answers; kNever only for what no waiting can change. A GPU without tasks and foreign processes is
// never too busy, and margin and floor are waived there (without waive_on_idle only where idle_gpu
// or exclusive is asked for).
Verdict CheckGuards(const PolicyConfig& config, const Need& need, const GpuView& gpu);
// The same without the words, many times faster: for choosing among GPUs.
Fit FitOf(const PolicyConfig& config, const Need& need, const GpuView& gpu);

// May the GPU take it once everything there has ended? False: no waiting can change that.
bool CouldEverTake(const Need& need, const GpuView& gpu);

class Mapper {
 public:
  virtual ~Mapper() = default;
  // How well the GPU, which may take the task, suits it: the highest is taken, ties go to the
  // lowest index. A task of several GPUs takes the highest ones.
  virtual double Score(const Need& need, const GpuView& gpu) const = 0;
  // The GPUs that were really taken (round robin moves its pointer).
  virtual void Placed(std::span<const Placement> placement) { (void)placement; }
};

// The values that a mapper brings along, so that naming it is all that a policy takes. Fields are
// those of PolicyConfig.
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
  bool shares = true;  // false: its tasks go to idle GPUs alone, and nobody joins them
  // Of the tasks in line the one goes first whose score (the mean over its GPUs) is highest, not
  // the first in line; a higher priority goes before all of a lower one.
  bool chooses_task = false;
};
// exclusive, round-robin (rr), magm, lug, mug, first-fit, best-fit, worst-fit, by-work (bw), score.
std::span<const MapperEntry> Mappers();
const MapperEntry* FindMapper(std::string_view name_or_alias);
// Gives the policy the values of its mapper; an unknown mapper has none.
void UseMapperValues(PolicyConfig& config);
// The mapper that never shares, for those who are told not to.
inline constexpr std::string_view kNeverSharing = "exclusive";
// The one that goes by PolicyConfig::score.
inline constexpr std::string_view kScoreMapper = "score";
// MapperEntry::shares of the mapper named there; true for an unknown one.
bool Shares(const PolicyConfig& config);

}  // namespace carma::core

template <>
inline constexpr carma::base::Words<carma::core::Fit> carma::base::kWordsOf<carma::core::Fit> =
    carma::core::kFitWords;
