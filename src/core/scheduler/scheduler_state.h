// State and steps of the scheduler; private to core. One part per file: lifecycle.cc (events and
// steps of tasks), waiting.cc (which tasks are considered), placement.cc (which GPUs), recovery.cc
// (out of memory), host_line.cc (cores and memory of the machine), turns.cc (time slices and
// preemption), expecting.cc (expected starts), learning.cc (lessons of running tasks), explain.cc
// (reasons), books.cc (consistency). Independent parts have classes of their own: Queue, LineUp,
// FairShare, Limits, Ledger, Dependencies, Arrays, Deadlines, Lessons, RecoveryHold,
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
  // Observed in its current attempt, up to a moment: SM activity alone times seconds.
  double activity_s = 0;
  std::optional<Time> active_from;  // when activity was first seen
  Time active_at{};
  std::shared_ptr<const GpuChoice> choice;  // by its request; null: any GPU
  bool unfit = false;                       // restored on a server that can never take it
  bool restored = false;                    // from an earlier run of carmad, not started since
  std::optional<double> cpus;               // busy hardware threads, in total
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
  std::optional<Time> empty_by;  // of the person's drain
  std::optional<KeptPlace> kept_place;
  std::vector<Neighbour> residents;  // what GpuView shows
  std::vector<std::uint32_t> users;  // likewise
  double delivered = 0;
  double slowest = 1;
  std::uint64_t crowd = 0;  // counts changes of its residents
  Time crowd_changed{};     // of the last such change
  bool Drained() const { return drained_by_person || drained_by_rule; }
};

// Id of a task that is only asked about.
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
  std::optional<Time> eases;        // State::next_easing, of them
  void Clear() {
    groups.clear();
    looked_at.Clear();
    unplaceable.Clear();
    passed_over.clear();
    eases.reset();
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
  std::optional<double> idle_cpus;  // of the machine
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

// Data for computing the expected starts of a queue.
struct WholeLine {
  Pass pass = Pass::kInOrder;
  std::int64_t lowest = std::numeric_limits<std::int64_t>::max();  // priority in it
  std::optional<std::int64_t> preempting;                          // highest priority that preempts
  bool by_turns = false;                                           // ends of time slices count
};

// Where a task may go now.
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
  std::vector<GpuInfo> gpu_infos;
  std::vector<std::int64_t> gpu_sizes_mib;
  GpuLinks links;
  std::vector<GpuState> gpus;
  Ledger ledger;
  HostBooks host;
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
  Passed passed;
  // The head of the main queue, since only the machine's cores and memory keep it waiting; and the
  // head of the queue without GPUs, since it waits.
  Passed short_of_host;
  Passed first_without_gpus;
  NoStartSnapshot no_start_without_gpus;  // of the queue without GPUs; counters only
  std::optional<NoStartSnapshot> no_start;
  // Tasks that were considered then and could not start: until something changes they need not be
  // considered again. For look-up only.
  TaskSet refused;
  TaskSet unplaceable;  // tasks that no GPU took
  // GPUs with a start since all were checked: a task may gain more beside the new neighbours.
  std::set<GpuIndex> taken_since;
  LineLook look_at_line;
  bool waiting_pays = false;  // look-ahead starts none, though some fit
  // No plateau that has not become a lesson yet ends before this time.
  std::optional<Time> next_plateau;
  std::optional<HostSampled> host_use;  // the last one
  std::optional<double> idle_cpus;      // GpuView::idle_cpus, less later starts
  // When the next considered task asks for less (EasesAt).
  std::optional<Time> next_easing;
  std::set<TaskId> leaving;                 // asked to checkpoint, still running
  std::map<TaskId, TaskId> room_for;        // leaving task to waiting task
  std::optional<Time> planned_preemptions;  // the last look
  std::optional<Time> next_turn;            // when a task may next have to leave
  std::optional<Time> wake;                 // the last WakeAt, if in the future

  // Actions of the events being handled.
  std::vector<Action> actions;
  std::set<TaskId> moved;     // state changed since last stored
  std::set<TaskId> unsorted;  // place in the queue not yet found

  // ---- lifecycle.cc ----
  void On(const GpusDiscovered& event);
  void On(const HostDiscovered& event);
  void SortOutUnfit();  // marks waiting tasks that can never fit
  void On(const TaskSubmitted& event);
  void On(const TaskRestored& event);
  void On(const AttemptRestored& event);
  void On(const EstimateReady& event);
  int TasksFromElsewhere(const GpuSampled& event) const;
  void On(const GpuSampled& event);
  void On(const HostSampled& event);
  void On(const GpuHealthChanged& event);
  void On(const SharingChosen& event);
  void On(const TaskStarted& event);
  void On(const TaskIdle& event);
  void On(const LaunchFailed& event);
  void On(const TaskExited& event);
  void On(const CancelRequested& event);
  void On(const HoldRequested& event);
  void On(const ReleaseRequested& event);
  void On(const RequeueRequested& event);
  void On(const PriorityChanged& event);
  void On(const TaskEdited& event);
  void On(const DrainRequested& event);
  void On(const ResumeRequested& event);
  void On(const ServerClosed& event);
  void On(const ServerOpened& event);
  void On(const ReservationsChanged& event);
  void On(const PolicyChanged& event);
  void On(const WakeUp& event);
  TaskRecord* Held(TaskId id);
  TaskRecord* InAttempt(TaskId id, int attempt);  // null: unknown, or attempt is over
  const Life& LifeOf(TaskId id) const;            // initial notes if it has none
  Life& EditLife(TaskId id) { return lives[Number(id)]; }
  void NoteUnfit(const TaskRecord& task);
  void NoteChoice(const TaskRecord& task);
  void Move(TaskRecord& task, TaskState to);  // one legal step; aborts on any other
  void Keep(const TaskRecord& task);          // emits TaskChanged
  void Finish(TaskRecord& task, TaskState state, Reason reason);  // destroys the record
  void Enqueue(TaskRecord& task, QueueKind kind, Reason reason);
  void Stop(TaskRecord& task, StopCause cause, Reason reason);
  void EndIdle(TaskRecord& task);
  void StopExpired();
  void WarnExpiring();
  void CutToGpus(TaskRecord& task) const;   // cuts predictions to its GPUs' sizes
  void AskEstimate(TaskRecord& task);       // for an estimating task; stores it
  void AskEstimateAgain(TaskRecord& task);  // for a waiting task
  // exit: how its process ended; empty: it never ran, or unknown.
  void LeaveGpus(TaskRecord& task, std::optional<ExitKind> exit = std::nullopt);
  AttemptEnded AttemptOf(const TaskRecord& task, Time to) const;  // without its exit
  double RateNow(const TaskRecord& task) const;                   // for a placed task
  void GiveBack(const TaskRecord& task, std::optional<ExitKind> exit);
  bool KeepsGpusAlone(const TaskRecord& task) const;
  void FollowEntitlements();  // those of config
  void EndStopped(TaskRecord& task);
  void RequeueLost(TaskRecord& task, Reason reason);
  void RequeueVictim(TaskRecord& task);
  void RefundRetries(const std::map<TaskId, int>& innocent);
  void Restart(TaskRecord& task, Reason reason);  // as submitted
  // known_mib: what this attempt is known to have held.
  void TakeGpus(const TaskRecord& task, std::int64_t known_mib);

  // ---- waiting.cc ----
  void SortWaiting();  // places unsorted tasks, many in steps
  void SortIn(TaskRecord& task);
  // Queue::Put for a task that may have changed since it was considered.
  void PutInQueue(const TaskRecord& task, Place place, Time due, Time waits_since);
  Place PlaceFor(const TaskRecord& task) const;  // ignoring limits of arrays
  void LeaveArray(const TaskRecord& task);       // passes its place on
  Time EarliestStart(const TaskRecord& task) const;
  std::optional<Time> NextOrder() const;  // when time alone may change it
  void AskForWake();

  // ---- placement.cc ----
  bool IsExclusive(const Resident& resident) const;
  GpuView ViewOf(GpuIndex gpu, Time at) const;
  std::vector<GpuView> Views(Time at) const;
  std::optional<Reason> NeverTogether(int wanted) const;  // because GPUs are divided (MIG)
  std::optional<Reason> NeverFits(const TaskRequest& request,
                                  const std::optional<Estimate>& estimate) const;
  std::int64_t ClaimOf(const TaskRecord& task, GpuIndex gpu) const;
  std::optional<Choice> ChooseIdle(const TaskRecord& task, const std::vector<GpuView>& views) const;
  std::optional<Choice> ChooseByPolicy(const TaskRecord& task, const std::vector<GpuView>& views);
  std::int64_t BoundOf(const TaskRecord& task) const;  // StartTask::bound_mib
  Choice Chosen(const TaskRecord& task, const std::vector<GpuView>& best, std::size_t eligible,
                std::string_view rule) const;
  bool TryStart(TaskId id, std::vector<GpuView>& views);
  // Updates the views of all GPUs after a start on some.
  void Refresh(const std::vector<Placement>& taken, std::vector<GpuView>& views) const;
  void SettleReservations();
  std::vector<TaskId> ConflictingTasks(const Reservation& booking, GpuIndex gpu) const;
  // Starts tasks on GPUs reserved for them, regardless of other tasks' places in the queue.
  void StartOnReserved(std::vector<GpuView>& views);
  void Start(TaskRecord& task, Choice choice);
  void StartWhatFits();  // the recovery queue, then the main line
  LineUp Line(LineKind kind, const std::optional<LineUp::Newcomer>& newcomer = {}) const;
  LineUp MainLine() const { return Line(LineKind::kWithGpus); }
  const TaskRecord* Find(TaskId task) const override;
  double WouldTake(const TaskRecord& task) const override;
  std::optional<LimitHit> LimitOn(const TaskRecord& task, Time at) const;
  std::span<const Limits::BoundBy> BoundsOn(const TaskRecord& task) const override;
  bool IsLimited(const TaskRecord& task, std::span<const Limits::BoundBy> bounds) const override;
  bool IsLimited(const TaskRecord& task) const;
  Limits::Wants WantsOf(const Need& need) const;
  Limits::Wants WantsOf(const TaskRecord& task) const;
  NoStartSnapshot LookNow(const std::vector<GpuView>& views) const;
  bool OpensNothingSince(const NoStartSnapshot& look) const;  // for the tasks considered then
  // By GPU: whether it may now take a task that fitted on none then.
  std::vector<bool> OpenedSince(const NoStartSnapshot& look) const;
  bool SameLineSince(const NoStartSnapshot& look) const;  // the same tasks are considered
  void StartInOrder(std::vector<GpuView>& views);
  // Groups the tasks in the next `places` places, without those in `refused`.
  void FindGroups(LineUp& line, std::size_t places, LineLook& found) const;
  double DoneS(TaskId task) const;  // of its run time alone, as predicted
  std::optional<std::vector<FutureRun>> RunsNow() const;
  std::optional<std::vector<FutureTask>> LineAhead() const;
  void ScoreOn(Group& group, const GpuView& view, std::size_t place) const;
  bool IsLimited(const Group& group) const;
  void Advance(Group& group) const;  // after its first one has started
  // opened: the GPUs that may take one of `unplaceable`.
  void ScoreFirst(Group& group, const std::vector<GpuView>& views, const std::vector<bool>& opened,
                  const LineUp& line) const;
  void Rate(Group& group, const LineUp& line) const;  // from its scores
  // What to start next; empty: nothing now.
  std::optional<Pick> PickOf(std::vector<Group>& groups, const std::vector<GpuView>& views);
  // opened: the GPUs that may take one of `unplaceable`.
  void StartBestFirst(std::vector<GpuView>& views, const std::vector<bool>& opened);
  // How many.
  std::size_t StartBestOf(LineLook& look, LineUp& line, std::vector<GpuView>& views,
                          const std::vector<bool>& opened);
  void NoteStartOf(const Group& started, const std::vector<Placement>& taken,
                   const std::vector<GpuView>& views, LineLook& look, const LineUp& line) const;
  static void NoteOnNoGpu(LineLook& look);
  // Starts tasks behind those considered, on GPUs that none of the tasks before could ever take.
  void StartBeside(std::vector<GpuView>& views);
  bool StartOnOpen(TaskRecord& task, const std::vector<bool>& open, std::vector<GpuView>& views);
  bool HasPlaceBeside(const TaskRecord& task, Time at) const;
  void NoteHead();
  void StartTrial();                     // one task, during machine trouble
  std::vector<TaskId> ForTrial() const;  // the head of each queue

  // ---- host_line.cc ----
  // The task that cores and memory are kept for: a head passed for too long.
  std::optional<TaskId> HostKeptFor(Time at) const;
  HostView HostFor(TaskId task, Time at) const;  // what is free for it
  bool HostTakes(TaskId task, const HostNeed& need) const;
  bool GpusTake(const TaskRecord& task) const;
  Choice WithoutGpus(const TaskRecord& task) const;
  HostShare ShareFor(const TaskRecord& task, const std::vector<Placement>& placement) const;
  void StartWithoutGpus();
  void NoteShortOfHost();

  // ---- recovery.cc ----
  // tried_mib: TaskExited's.
  void Recover(TaskRecord& task, Reason reason, std::int64_t tried_mib = 0);
  void EndOutOfMemory(TaskRecord& task, std::int64_t tried_mib);
  void EndFailed(TaskRecord& task, Reason reason);
  std::int64_t RoomItHadMib(const TaskRecord& task) const;
  bool MayKeepOthers(const TaskRecord& task) const;
  std::int64_t RetryDemandMib(const TaskRecord& task, std::int64_t tried_mib) const;
  bool FailedAloneOnLargest(const TaskRecord& task) const;
  bool KeptBelowGpu(const TaskRecord& task) const;
  void RaiseDemand(TaskRecord& task, std::int64_t tried_mib);
  // Sizes of the GPUs that such a task may use, the largest first.
  std::vector<std::int64_t> UsableSizes(const TaskRequest& request) const;
  // The most memory available on each of its GPUs at once; 0: too few GPUs.
  std::int64_t MostFor(const TaskRequest& request) const;
  void UpdateReservation();

  // ---- learning.cc ----
  void LookAtResidents(GpuIndex gpu);  // after residents or their profiles changed
  void NoteProgress(TaskId task);
  void LearnActivity(GpuIndex gpu);              // from its last sample
  Profile SeenOf(const TaskRecord& task) const;  // in its attempt that ends now
  void NoteActivity(TaskId id);                  // closes its observation so far
  std::optional<double> ActivityNow(TaskId id) const;
  Profile ProfileNow(const TaskRecord& task) const;  // with its kind's lessons
  Time PlateauFrom(Time at) const;                   // promises count memory stable since then
  void LearnPlateaus();
  // What it asks for because of its kind's lessons; empty: no lesson.
  std::optional<std::int64_t> TaughtMib(const TaskRecord& task) const;
  // Hardware threads that it keeps busy, or should by its kind, or else by running tasks.
  double UsesCpus(const TaskRecord& task) const;
  void CountIdleCpus();
  bool IsKnown(const TaskRecord& task) const;  // both memory and activity
  void ShowActivity(GpuIndex gpu, Time at, GpuView& view) const;
  // Whether its promise falls while it waits (large predictions).
  bool IsEased(const TaskRecord& task) const;
  // Its promise by now; when that next falls, or it takes turns (kTurnsAfter).
  std::int64_t EasedMib(const TaskRecord& task) const;
  std::optional<Time> EasesAt(const TaskRecord& task) const;
  // Considers refused tasks again once they ask for less memory.
  void ForgetLooksOnceEased();
  Need NeedNow(const TaskRecord& task) const;  // with all lessons
  // Adds its choice of GPUs and its reservations to the need.
  void AddWhere(const TaskRequest& request, std::shared_ptr<const GpuChoice> choice,
                Need& need) const;

  // ---- expecting.cc ----
  LineUp::Newcomer NewcomerOf(const TaskRecord& task) const;
  GpuView EmptyView(GpuIndex gpu) const;
  // By when all tasks on it have ended; empty: unknown.
  std::optional<Time> EndOn(GpuIndex gpu, Time at, const WholeLine& line) const;
  ExpectedTask ExpectedOf(const TaskRecord& task, const WholeLine& line) const;
  WholeLine WholeLineOf(const std::vector<const TaskRecord*>& in_line) const;
  bool MayComeBack(const TaskRecord& task, const WholeLine& line) const;
  bool MayBePreempted(const TaskRecord& task, const WholeLine& line) const;
  // Running tasks that may return to the queue.
  std::vector<ExpectedReturn> Returning(const WholeLine& line) const;
  bool LeavesByTurn(const TaskRecord& task, const WholeLine& line) const;
  // Latest starts of the first tasks, where time slices of others end before their limits.
  std::vector<std::optional<Time>> StartsByTurns(Time at,
                                                 const std::vector<const TaskRecord*>& in_line,
                                                 WholeLine line) const;
  // Likely starts of the first tasks.
  std::vector<std::optional<Time>> LikelyOf(Time at, const std::vector<const TaskRecord*>& in_line,
                                            std::size_t most) const;
  Need NeedOfOne(const TaskRecord& task) const;
  bool FirstOnly() const;  // only the head may start
  Pass PassThrough(const std::vector<const TaskRecord*>& line) const;
  // The first queued tasks in order; for tasks with GPUs the recovery queue comes first.
  std::vector<TaskId> InLine(LineKind kind, std::size_t most,
                             const TaskRecord* newcomer = nullptr) const;
  // newcomer: null, or a task that is last of its line.
  std::map<TaskId, ExpectedStart> ExpectedStarts(Time at, const TaskRecord* newcomer,
                                                 std::size_t most) const;

  // ---- turns.cc ----
  void TakeTurns();  // asks tasks to leave, stops late ones
  void EmptyDrained();
  void MakeRoom();
  void PlanPreemptions();
  bool AnyTurns() const;  // by the rules in force
  void WakeForTurns(Time when);
  void AskToLeave(TaskRecord& task, StopCause cause, Time by);
  void CancelPreemption(TaskRecord& task);
  void StopAsked(TaskRecord& task);
  Reason ReasonToLeave(const TaskRecord& task) const;
  Reason ReasonOfLeaving(const TaskRecord& task) const;  // while it still runs
  bool GoesOnLater(const TaskRecord& task) const;        // judged by how it ended
  void EndSaved(TaskRecord& task);                       // of a task that is requeued
  void EndAsked(TaskRecord& task, Reason reason);        // of a task that was stopped
  std::string WhatItCost(const TaskRecord& task) const;
  void GoOnLater(TaskRecord& task, Reason reason);
  bool MustBeEmpty(GpuIndex gpu) const;

  // ---- closing.cc ----
  void EmptyServer();
  Time AskedBeforeShutdown() const;  // from then on, while the server is closed
  bool MustAllLeave() const;
  Reason ReasonOfShutdown(const TaskRecord& task) const;
  // Share of its account or user as in LineUp, with this much less current usage.
  double ShareOf(const TaskRequest& request, double without) const;
  bool YieldsTo(const TaskRecord& running, const TaskRecord& waiting) const;
  StopCause LeavesFor(const TaskRecord& running, const TaskRecord& waiting) const;
  std::vector<TaskId> LeaversFor(const TaskRecord& waiting) const;
  PreemptionPlan PreemptionPlanNow() const;
  std::optional<TaskId> KeptFor(const GpuState& gpu, Time at) const;
  Reason WithTurns(const TaskRecord& task, Reason reason) const;

  // ---- explain.cc ----
  Verdict VerdictOn(const TaskRecord& task, const GpuView& view) const;
  HostVerdict HostVerdictOn(const TaskRecord& task, Time at) const;
  Reason ReasonOf(const TaskRecord& task, Time at) const;
  std::size_t AheadOf(const TaskRecord& task) const;
  bool IsLookedAt(const TaskRecord& task) const;  // its place in the main queue is
  std::optional<Reason> ReasonBehindLimited(const TaskRecord& task, Time at) const;
  Reason ReasonBehind(const TaskRecord& task, TaskId first) const;
  // A sentence with a leading space; empty: nothing is kept, or will be.
  std::string WhatIsKeptFor(const TaskRecord& task, Time at) const;
  Reason ReasonInLine(const TaskRecord& task, Time at) const;
  Reason ReasonAtHead(const TaskRecord& task, Time at) const;

  // ---- books.cc ----
  std::optional<std::string> CheckClaims() const;
  std::optional<std::string> CheckHostShares() const;
  std::optional<std::string> CheckQueue() const;
  bool StandsInItsLine(const TaskRecord& task) const;
  std::optional<std::string> CheckTimers() const;
  std::optional<std::string> CheckEntitlements() const;
};

}  // namespace carma::core
