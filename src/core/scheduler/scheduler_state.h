// State of the scheduler; private to core. Its members are the records, what happens (On) and the
// steps of a task's life. What follows from them is decided by functions of the state, one subject
// per header: waiting.h (the places of waiting tasks), line.h, best_first.h (which starts next),
// placement.h (on which GPUs), host_line.h (cores and memory of the machine), recovery.h (out of
// memory), time_slices.h (time slices, preemption, shutdown of the server), learning.h (lessons of
// running tasks), repeats.h (tasks that start again and again), expecting.h (expected starts),
// explain.h (reasons), books.h (consistency). Independent parts have classes of their own: Queue,
// LineUp, FairShare, Limits, Ledger, Dependencies, Arrays, Deadlines, Lessons, RecoveryHold,
// ReservationBook, LaunchTrouble, PreemptionPlan.
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

// Each recovery task considered costs time in every decision; further ones wait for the first to
// start.
inline constexpr std::size_t kRecoveryLooks = 64;

// Notes about a task that a restart does not need. Most tasks that have never started have none.
struct Life {
  bool shared = false;  // the current attempt has had neighbours
  // Predicted progress of its current attempt: the part of its run time alone done at a moment, and
  // the rate per second since then.
  double done_s = 0;
  double speed = 1;
  Time done_at{};
  std::optional<double> alone_s;  // its run time alone, by its own progress
  // Observed in its current attempt, up to a moment: SM activity alone times seconds.
  double activity_s = 0;
  std::optional<Time> active_from;  // when activity was first seen
  Time active_at{};
  std::shared_ptr<const GpuChoice> choice;  // by its request; null: any GPU
  bool unfit = false;                       // restored on a server that can never take it
  bool restored = false;                    // from an earlier run of carmad, not started since
  std::optional<double> cpus;               // busy hardware threads, in total
  double usual_cpus = 0;                    // a sliding mean of them, since cpus_from
  Time cpus_from{}, cpus_at{};              // first and last reading
  int repeats = 0;                          // early requeues in a row (repeats.h)
  std::optional<Time> head_since;           // first in its queue, short of cores or without GPUs
};

// A place on a GPU that another task has left for this one.
struct KeptPlace {
  TaskId task{};
  Time until{};
};

struct GpuState {
  GpuInfo info;
  double pace = 1;  // PacesOf() all
  std::optional<GpuSample> sample;
  std::string sample_trouble;  // trouble with the last sample, or empty
  bool healthy = true;         // the probe's verdict
  std::string trouble;
  std::optional<std::string> drained_by_person;  // why
  std::optional<std::string> drained_by_rule;
  std::optional<Time> empty_by;  // of the administrator's drain
  std::optional<KeptPlace> kept_place;
  std::vector<Neighbour> residents;  // what GpuView shows
  std::vector<std::uint32_t> users;  // as above
  double delivered = 0;
  double slowest = 1;
  std::uint64_t crowd = 0;  // counts changes of its residents
  Time crowd_changed{};     // of the last such change
  bool Drained() const { return drained_by_person || drained_by_rule; }
};

// Id of a hypothetical task, which nobody has submitted.
inline constexpr TaskId kNewcomer{std::numeric_limits<std::uint64_t>::max()};

inline constexpr double kNotThere = -std::numeric_limits<double>::infinity();

// Tasks of one priority with equal needs, in queue order: the first that still waits represents
// all. In fair order they belong to one line.
struct Group {
  std::size_t hash = 0;
  std::int64_t priority = 0;
  std::size_t line = 0;  // LineUp::Next::line
  bool starving = false;
  bool unplaceable = false;                 // at the last pass no GPU took them
  Need need;                                // of the first
  std::optional<TaskId> first;              // first that still waits, if any
  std::vector<TaskId> behind;               // further ones, the next one last
  std::span<double> scores;                 // by GPU; kNotThere: not now
  std::vector<bool> may_be_first;           // by GPU, if need.others_mib
  double score = kNotThere;                 // mean of the best GPUs, less its user's excess
  std::span<const Limits::BoundBy> limits;  // that apply to all
  bool limited = false;                     // one of them blocks the first
};

// A pass over the main queue. It is kept between decisions only to reuse its memory.
struct LineLook {
  std::vector<Group> groups;         // of the last pass
  std::vector<double> scores;        // of each group on each GPU
  std::vector<std::uint32_t> slots;  // by hash; 0: no group
  TaskSet looked_at;
  TaskSet unplaceable;              // of them, tasks that no GPU takes
  std::vector<TaskId> passed_over;  // of them, tasks already refused
  void Clear() {
    groups.clear();
    looked_at.Clear();
    unplaceable.Clear();
    passed_over.clear();
  }
};

// The state in which no task of the main queue could start.
struct NoStartSnapshot {
  std::uint64_t line = 0;           // Queue::changes
  std::uint64_t host = 0;           // HostBooks::changes
  std::uint64_t lessons = 0;        // Lessons::changes
  std::uint64_t limits = 0;         // Limits::changes
  std::uint64_t booked = 0;         // ReservationBook::changes
  std::uint64_t shares = 0;         // FairShare::changes
  std::optional<Time> order_until;  // when time alone may change it
  std::vector<GpuFingerprint> gpus;
};

// A start that is possible now.
struct Pick {
  Group* group = nullptr;
  std::vector<std::size_t> gpus;
};

// The head of the main queue, while it is the head.
struct Passed {
  std::optional<TaskId> task;
  Time since{};
  int times = 0;  // other tasks have started before it
};

struct Heads {
  Passed passed;
  // A head of the main queue that only the machine's cores and memory keep waiting, and whether it
  // still is the head: nothing is kept from tasks in front of it.
  Passed short_of_host;
  bool short_of_host_first = false;
  Passed without_gpus;  // the head of the queue without GPUs, since it waits
};

// What passes over the queues have found: until something changes they need not be repeated.
struct Passes {
  NoStartSnapshot no_start_without_gpus;  // of the queue without GPUs; counters only
  std::optional<NoStartSnapshot> no_start;
  // Tasks that were considered and could not start. For look-up only.
  TaskSet refused;
  TaskSet unplaceable;  // tasks that no GPU took
  // GPUs with a start since all were checked: a task may gain more beside the new neighbours, and
  // a start may let tasks further back in the queue be considered.
  std::set<GpuIndex> taken_since;
  bool waiting_pays = false;  // look-ahead starts none, though some fit
  // When one of the considered tasks next accepts turns (TakesTurnsAt).
  std::optional<Time> next_turns;
  // With this many idle cores, one of the considered tasks would no longer wait for them.
  std::optional<double> cpus_wanted;
  LineLook memory;

  // The next pass considers every task on every GPU.
  void Forget() {
    no_start_without_gpus = {};
    no_start.reset();
    cpus_wanted.reset();
    refused.Clear();
    unplaceable.Clear();
  }
};

struct Preemptions {
  std::set<TaskId> leaving;           // asked to checkpoint, still running
  std::map<TaskId, TaskId> room_for;  // leaving task to waiting task
  std::optional<Time> planned;        // when the plan was last made
  std::optional<Time> next_turn;      // when a task may next have to leave
};

struct ServerGpus {
  std::vector<GpuInfo> infos;
  std::vector<std::int64_t> sizes_mib;
  GpuLinks links;
  std::vector<GpuState> all;
};

// Cores and memory of the machine.
struct Machine {
  HostBooks books;
  std::optional<HostSampled> use;   // the last one
  std::optional<double> idle_cpus;  // GpuView::idle_cpus, less later starts
};

// What the events being handled result in.
struct Output {
  std::vector<Action> actions;
  std::set<TaskId> moved;    // state changed since last stored
  std::optional<Time> wake;  // the last WakeAt, if in the future
};

// Data for computing the expected starts of a queue.
struct WholeLine {
  Pass pass = Pass::kInOrder;
  std::int64_t lowest = std::numeric_limits<std::int64_t>::max();  // priority in it
  std::optional<std::int64_t> preempting;                          // highest priority that preempts
  bool by_turns = false;                                           // ends of time slices count
};

// A choice of GPUs for a task, or why there is none.
struct Choice {
  std::vector<Placement> placement;
  std::string why;
};

struct Scheduler::State : LineUp::Host {
  explicit State(PolicyConfig policy);

  void UseMapper();  // that of config

  PolicyConfig config;
  std::unique_ptr<Mapper> mapper;
  const MapperEntry* mapper_entry = nullptr;
  std::unique_ptr<Rules> rules;
  Time now{};
  ServerGpus gpus;
  Machine machine;
  Ledger ledger;
  Queue queue;
  TaskRecords tasks;                              // not final
  std::unordered_map<std::uint64_t, Life> lives;  // of some of `tasks`; for look-up only
  Dependencies dependencies;
  Arrays arrays;
  Deadlines deadlines;
  RecoveryHold recovery_hold;
  ReservationBook reservations;
  LaunchTrouble launch_trouble;
  std::optional<ServerClosed> closing;  // empty: the server is open
  Lessons lessons;
  base::SharedOptional<Estimate> last_estimate;  // equal successive ones share memory
  FairShare shares;
  Limits limits;
  Heads heads;
  Passes passes;
  Preemptions preemptions;
  // The earliest time at which a plateau may become a new lesson.
  std::optional<Time> next_plateau;

  Output out;
  std::set<TaskId> unsorted;  // place in the queue not yet found

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
  // ---- server_events.cc, closing.cc ----
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
  TaskRecord* InAttempt(TaskId id, int attempt);  // null: unknown, or attempt is over
  const Life& LifeOf(TaskId id) const;            // initial notes if it has none
  Life& EditLife(TaskId id) { return lives[Number(id)]; }
  void Move(TaskRecord& task, TaskState to);  // one legal step; aborts on any other
  void Keep(const TaskRecord& task);          // emits TaskChanged
  void Finish(TaskRecord& task, TaskState state, Reason reason);  // destroys the record
  void Enqueue(TaskRecord& task, QueueKind kind, Reason reason);
  void Stop(TaskRecord& task, StopCause cause, Reason reason);
  // exit: how its process ended; empty: it never ran, or unknown.
  void LeaveGpus(TaskRecord& task, std::optional<ExitKind> exit = std::nullopt);
  void Restart(TaskRecord& task, Reason reason);  // as submitted
  // known_mib: what this attempt is known to have held.
  void TakeGpus(const TaskRecord& task, std::int64_t known_mib);

  // ---- LineUp::Host, line.cc ----
  const TaskRecord* Find(TaskId task) const override;
  double WouldTake(const TaskRecord& task) const override;
  std::span<const Limits::BoundBy> BoundsOn(const TaskRecord& task) const override;
  bool IsLimited(const TaskRecord& task, std::span<const Limits::BoundBy> bounds) const override;
};

using State = Scheduler::State;

}  // namespace carma::core
