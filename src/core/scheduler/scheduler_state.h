// The scheduler's state; private to core. Its members are the records, the event handlers (On) and
// the steps of a task's life. Free functions that take the state make the decisions; each subject
// has its own header: waiting.h (positions of waiting tasks), line.h and best_first.h (which task
// starts next), placement.h (on which GPUs), host_line.h (the machine's cores and memory),
// recovery.h (out of memory), time_slices.h (time slices, preemption, server shutdown), learning.h
// (lessons from running tasks), repeats.h (tasks that keep restarting), expecting.h (expected
// starts), explain.h (reasons), books.h (consistency).
#pragma once

#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/books/fair_share.h"
#include "core/books/host.h"
#include "core/books/launch_trouble.h"
#include "core/books/ledger.h"
#include "core/books/lessons.h"
#include "core/books/limits.h"
#include "core/books/recovery_hold.h"
#include "core/books/reservation_book.h"
#include "core/forecast/expected_start.h"
#include "core/forecast/future.h"
#include "core/forecast/preemption_plan.h"
#include "core/policy/gpu_fingerprint.h"
#include "core/policy/gpu_links.h"
#include "core/queue/arrays.h"
#include "core/queue/deadlines.h"
#include "core/queue/dependencies.h"
#include "core/queue/line_up.h"
#include "core/queue/queue.h"
#include "core/scheduler/rules.h"
#include "core/scheduler/scheduler.h"
#include "core/values/task_set.h"

namespace carma::core {

// Maximum number of recovery tasks to consider; each costs time in every decision. The rest wait
// until some of these have started.
inline constexpr std::size_t kRecoveryLooks = 64;

// Notes about a task that are not needed after a restart. Most tasks that have never started have
// no notes.
struct Life {
  bool shared = false;  // the current attempt has had neighbours
  // Predicted progress of the current attempt: the work done by `done_at`, in seconds of the solo
  // run time, and the speed since then.
  double done_s = 0;
  double speed = 1;
  Time done_at{};
  std::optional<double> alone_s;  // its solo run time, from its progress output
  // SM activity of the current attempt (as if running alone), integrated over time up to
  // `active_at`, in seconds.
  double activity_s = 0;
  std::optional<Time> active_from;  // when activity was first seen
  Time active_at{};
  std::shared_ptr<const GpuChoice> choice;  // from its request; null: any GPU
  bool unfit = false;                       // the last result of UnfitNow
  // The task is from an earlier run of carmad and has not started since then.
  bool restored = false;
  std::optional<double> cpus;     // busy hardware threads of the task, in total
  double usual_cpus = 0;          // moving average of `cpus` since cpus_from
  Time cpus_from{}, cpus_at{};    // first and last reading
  std::optional<Time> stop_sent;  // when carmad stopped the current attempt
  std::optional<Time> ended;      // when the last attempt's process exited
  // Attempt::launched as it was before the current attempt; empty if no earlier attempt has
  // started.
  std::optional<Time> launched_before;
  // While an edited task is out of the queue: HolderLine::waits_since of the line that it left.
  std::optional<Time> line_since;
  int repeats = 0;  // early requeues in a row (repeats.h)
  // When the task first became the head of its queue, plus the total time for which a limit has
  // kept it from starting. overtakes_before: the value of Heads::overtakes at that time.
  std::optional<Time> head_since;
  std::optional<Time> limited_since;  // a limit keeps it from starting now
  int overtakes_before = 0;
};

// How long a freed GPU is kept for a task.
struct KeptPlace {
  TaskId task{};
  Time until{};
};

struct GpuState {
  GpuInfo info;
  double pace = 1;  // from PacesOf() of all GPUs
  std::optional<GpuSample> sample;
  std::string sample_trouble;  // why the last sample is unusable, or empty
  bool healthy = true;         // the probe's last verdict
  std::string trouble;
  std::optional<std::string> drained_by_person;  // the reason
  std::optional<std::string> drained_by_rule;
  std::optional<Time> empty_by;  // deadline of the administrator's drain
  std::optional<KeptPlace> kept_place;
  std::vector<Neighbour> residents;  // as in GpuView, like the next three
  std::vector<std::uint32_t> users;
  double delivered = 0;
  double slowest = 1;
  bool limited = false;     // as GpuView::limited
  std::uint64_t crowd = 0;  // counts changes to its residents
  Time crowd_changed{};     // when `crowd` last changed
  bool Drained() const { return drained_by_person || drained_by_rule; }
};

// The id of a hypothetical task that was never submitted.
inline constexpr TaskId kNewcomer{std::numeric_limits<std::uint64_t>::max()};

inline constexpr double kNotThere = -std::numeric_limits<double>::infinity();

// Tasks of equal priority and equal needs, in queue order. The first one still waiting represents
// the group. In fair order, all tasks of a group belong to one line.
struct Group {
  std::size_t hash = 0;
  std::int64_t priority = 0;
  std::size_t line = 0;  // LineUp::Next::line
  bool starving = false;
  bool unplaceable = false;                 // they did not fit on any GPU in the last pass
  Need need;                                // the first task's need
  std::optional<TaskId> first;              // the first task still waiting, if any
  std::vector<TaskId> behind;               // the remaining tasks in reverse order
  std::span<double> scores;                 // by GPU; kNotThere: the GPU does not take them now
  std::vector<bool> may_be_first;           // by GPU; only used with Need::others_mib
  double score = kNotThere;                 // mean of the best GPUs' scores minus LineUp::Excess
  std::span<const Limits::BoundBy> limits;  // limits that apply to all of them
  bool limited = false;                     // one of `limits` blocks the first task
};

// Data of a pass over the main queue. Kept between decisions only to reuse its memory.
struct LineLook {
  std::vector<Group> groups;         // the groups of the last pass
  std::vector<double> scores;        // each group's score on each GPU
  std::vector<std::uint32_t> slots;  // hash table of groups; 0 marks an empty slot
  TaskSet looked_at;
  TaskSet unplaceable;              // tasks in looked_at that did not fit on any GPU
  std::vector<TaskId> passed_over;  // tasks in looked_at that were already refused
  void Clear() {
    groups.clear();
    looked_at.Clear();
    unplaceable.Clear();
    passed_over.clear();
  }
};

// The state when no task of the main queue could start. No new pass is needed until it changes.
struct NoStartSnapshot {
  std::uint64_t line = 0;           // Queue::changes
  std::uint64_t host = 0;           // HostBooks::changes
  std::optional<TaskId> host_kept;  // HostKeptFor
  std::uint64_t lessons = 0;        // Lessons::changes
  std::uint64_t limits = 0;         // Limits::changes
  std::uint64_t booked = 0;         // ReservationBook::changes
  std::uint64_t shares = 0;         // FairShare::changes
  std::optional<Time> order_until;  // when the order can next change without an event
  std::vector<GpuFingerprint> gpus;
};

// A start that is possible now. `gpus` are indices into the views.
struct Pick {
  Group* group = nullptr;
  std::vector<std::size_t> gpus;
};

// The head of a queue, and the time at which it became the head (HeadSince).
struct Passed {
  std::optional<TaskId> task;
  Time since{};
};

struct Heads {
  Passed passed;            // the main queue's head; replaced when another task becomes its head
  int overtakes = 0;        // number of tasks that have overtaken a head of the main queue
  std::uint64_t noted = 0;  // OrderChanges when `passed` was set
  // A task that was at the head of the main queue and lacked only CPU cores or host memory.
  // short_of_host_first: true if it is still the head. If false, nothing is kept for it, so the
  // tasks now ahead of it may use the cores and memory.
  Passed short_of_host;
  bool short_of_host_first = false;
  Passed without_gpus;  // the head of the queue without GPUs, while it waits
};

// Results of passes over the queues. Passes need not be repeated until something changes.
struct Passes {
  NoStartSnapshot no_start_without_gpus;  // for the queue without GPUs; only its counters are used
  std::optional<NoStartSnapshot> no_start;
  // Tasks that were considered and could not start. Used only for look-ups.
  TaskSet refused;
  TaskSet unplaceable;  // refused tasks that did not fit on any GPU
  // GPUs where a task has started since all GPUs were last checked. A waiting task might now have
  // better neighbours there. The start might also allow tasks further back in the queue to be
  // considered.
  std::set<GpuIndex> taken_since;
  bool gave_up_place = false;  // a start in this pass freed GPUs that were kept for its task
  bool waiting_pays = false;   // look-ahead starts no task even though some fit
  // The next time at which one of the considered tasks can begin to take turns (TakesTurnsAt).
  std::optional<Time> next_turns;
  // True if one of the considered tasks is waiting for idle cores. Passes are then repeated after
  // each HostSampled.
  bool lacks_cores = false;
  LineLook memory;

  // Makes the next pass consider every task on every GPU.
  void Forget() {
    no_start_without_gpus = {};
    no_start.reset();
    lacks_cores = false;
    refused.Clear();
    unplaceable.Clear();
  }
};

struct Preemptions {
  std::set<TaskId> leaving;           // tasks asked to checkpoint that are still running
  std::map<TaskId, TaskId> room_for;  // the task that each leaving task makes room for
  std::optional<Time> planned;        // when the plan was last made
  std::optional<Time> next_turn;      // when the next task might have to leave
};

struct ServerGpus {
  std::vector<GpuInfo> infos;
  std::vector<std::int64_t> sizes_mib;
  std::int64_t largest_mib = 0;  // the maximum of sizes_mib
  GpuLinks links;
  std::vector<GpuState> all;
};

// The machine's cores and memory.
struct Machine {
  HostBooks books;
  std::optional<HostSampled> use;   // the last sample
  std::optional<double> idle_cpus;  // GpuView::idle_cpus minus the CPUs of later starts
};

// The results of the events that are being handled.
struct Output {
  std::vector<Action> actions;
  std::set<TaskId> moved;    // tasks whose state changed since they were last stored
  std::optional<Time> wake;  // time of the last WakeAt if in the future
};

// Properties of a whole queue, for computing expected starts.
struct WholeLine {
  Pass pass = Pass::kInOrder;
  std::int64_t lowest = std::numeric_limits<std::int64_t>::max();  // lowest priority in the queue
  std::optional<std::int64_t> preempting;                          // highest preempting priority
  bool by_turns = false;                                           // expiring time slices free GPUs
};

// A choice of GPUs for a task, or the reason why none was made.
struct Choice {
  std::vector<Placement> placement;
  std::string why;
};

struct Scheduler::State : LineUp::Host {
  explicit State(PolicyConfig policy);

  void UseMapper();  // creates the mapper that `config` names

  PolicyConfig config;
  std::unique_ptr<Mapper> mapper;
  const MapperEntry* mapper_entry = nullptr;
  std::unique_ptr<Rules> rules;
  Time now{};
  ServerGpus gpus;
  Machine machine;
  Ledger ledger;
  Queue queue;
  TaskRecords tasks;                              // all tasks that are not final
  std::unordered_map<std::uint64_t, Life> lives;  // for some of `tasks`; for look-up only
  Dependencies dependencies;
  Arrays arrays;
  Deadlines deadlines;
  RecoveryHold recovery_hold;
  ReservationBook reservations;
  LaunchTrouble launch_trouble;
  std::optional<ServerClosed> closing;  // empty: the server is open
  Lessons lessons;
  base::SharedOptional<Estimate> last_estimate;  // shared by successive tasks with equal estimates
  FairShare shares;
  Limits limits;
  Heads heads;
  Passes passes;
  Preemptions preemptions;
  // When to check for memory plateaus next. Empty if no check is scheduled.
  std::optional<Time> next_plateau;

  Output out;
  std::set<TaskId> unsorted;  // tasks whose place in the queue is not determined yet

  // ---- task_events.cc ----
  void On(const TaskSubmitted& event);
  void On(const TaskRestored& event);
  void On(const AttemptRestored& event);
  void On(const EstimateReady& event);
  void On(const SharingChosen& event);
  void On(const TaskStarted& event);
  void On(const TaskIdle& event);
  void On(const LaunchFailed& event);
  void On(const TaskExited& event);
  // ---- request_events.cc ----
  void On(const CancelRequested& event);
  void On(const HoldRequested& event);
  void On(const ReleaseRequested& event);
  void On(const RequeueRequested& event);
  void On(const PriorityChanged& event);
  void On(const TaskEdited& event);
  // ---- server_events.cc; ServerClosed and ServerOpened are in time_slices.cc ----
  void On(const GpusDiscovered& event);
  void On(const HostDiscovered& event);
  void On(const GpuSampled& event);
  void On(const HostSampled& event);
  void On(const ProgressSeen& event);
  void On(const GpuHealthChanged& event);
  void On(const DrainRequested& event);
  void On(const ResumeRequested& event);
  void On(const ServerClosed& event);
  void On(const ServerOpened& event);
  void On(const ReservationsChanged& event);
  void On(const PolicyChanged& event);
  void On(const WakeUp& event);

  // ---- task_life.cc ----
  TaskRecord* Held(TaskId id);
  TaskRecord* InAttempt(TaskId id, int attempt);  // null if unknown or the attempt is over
  const Life& LifeOf(TaskId id) const;            // default notes if the task has none
  Life& EditLife(TaskId id) { return lives[Number(id)]; }
  void Move(TaskRecord& task, TaskState to);                      // aborts if the step is not legal
  void Keep(const TaskRecord& task);                              // adds the action TaskChanged
  void Finish(TaskRecord& task, TaskState state, Reason reason);  // destroys the record
  void Enqueue(TaskRecord& task, QueueKind kind, Reason reason);
  void Stop(TaskRecord& task, StopCause cause, Reason reason);
  // exit: how the task's process ended. Empty if it never ran or its end is unknown.
  void LeaveGpus(TaskRecord& task, std::optional<ExitKind> exit = std::nullopt);
  void Restart(TaskRecord& task, Reason reason);  // from the beginning (AsSubmitted)
  // known_mib: memory that this attempt is known to have held.
  void TakeGpus(const TaskRecord& task, std::int64_t known_mib);

  // ---- LineUp::Host, line.cc ----
  const TaskRecord* Find(TaskId task) const override;
  double WouldTake(const TaskRecord& task) const override;
  std::span<const Limits::BoundBy> BoundsOn(const TaskRecord& task) const override;
  bool IsLimited(const TaskRecord& task, std::span<const Limits::BoundBy> bounds) const override;
};

using State = Scheduler::State;

}  // namespace carma::core
