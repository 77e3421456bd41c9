// What the scheduler knows, and its steps; private to core. One part per file: lifecycle.cc (events
// and steps of tasks), waiting.cc (who may be looked at), placement.cc (which GPUs), recovery.cc
// (out of memory), host_line.cc (cores and memory of the machine), turns.cc (who leaves for
// others), expecting.cc (when they start), learning.cc (what running tasks teach), explain.cc
// (why), books.cc. What can stand by itself does: Queue, LineUp, FairShare, Limits, Ledger,
// Dependencies, Arrays, Deadlines, Lessons, RecoveryHold, ReservationBook, LaunchTrouble,
// PreemptionPlan.
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

// Every look at a waiting recovery task costs time in each decision; those behind wait for the
// first to go.
inline constexpr std::size_t kRecoveryLooks = 64;

// Notes about a held task that no restart needs. Most of those that have never started have none.
struct Life {
  bool shared = false;  // the current attempt had neighbours at some time
  // Of its current attempt, as predicted: the part of its run time alone that it had done at a
  // moment, and how much it does a second since then.
  double done_s = 0;
  double speed = 1;
  Time done_at{};
  // Of its current attempt, as seen: SM activity alone times the seconds it held, up to a moment.
  double activity_s = 0;
  std::optional<Time> active_from;  // the first time that any was seen
  Time active_at{};
  std::shared_ptr<const GpuChoice> choice;  // by its request; null: any GPU
  bool unfit = false;                       // restored on a server that can never take it
  bool restored = false;       // from an earlier life of the daemon, and not started since
  std::optional<double> cpus;  // hardware threads that it keeps busy, all its GPUs together
};

// A place on a GPU that somebody has left for this task.
struct KeptPlace {
  TaskId task{};
  Time until{};
};

struct GpuState {
  GpuInfo info;
  double pace = 1;  // PacesOf() all
  std::optional<GpuSample> sample;
  std::string sample_trouble;  // what is wrong with the last sample; empty: nothing
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
  std::uint64_t crowd = 0;  // counts what has changed of them
  Time crowd_changed{};     // the last one came or left
  bool Drained() const { return drained_by_person || drained_by_rule; }
};

// Stands for a task that is only asked about.
inline constexpr TaskId kNewcomer{std::numeric_limits<std::uint64_t>::max()};

inline constexpr double kNotThere = -std::numeric_limits<double>::infinity();

// Tasks of one priority that ask for the same, in the order of the line: the first that waits still
// stands for all. Where lines go by shares, of one line.
struct Group {
  std::size_t hash = 0;
  std::int64_t priority = 0;
  std::size_t line = 0;  // LineUp::Next::line
  bool starving = false;
  bool unplaceable = false;     // by the last look at them no GPU took them
  Need need;                    // of the first
  std::optional<TaskId> first;  // of those that wait still; empty: all have started
  std::vector<TaskId> behind;   // of them the last one is the next
  std::span<double> scores;     // of the first on each GPU; kNotThere: not now
  double score = kNotThere;     // the mean of the best GPUs, less what its user has too much
  std::span<const Limits::BoundBy> limits;  // on all of them
  bool limited = false;                     // one of these keeps the first
};

// A look at the main line. It is kept from one decision to the next only for its room.
struct LineLook {
  std::vector<Group> groups;         // of those who were looked at last
  std::vector<double> scores;        // of each group on each GPU
  std::vector<std::uint32_t> slots;  // by hash; 0: no group
  TaskSet looked_at;
  TaskSet unplaceable;              // of them, whom no GPU takes
  std::vector<TaskId> passed_over;  // of them, who had been refused
  std::optional<Time> eases;        // State::next_easing, of them
  void Clear() {
    groups.clear();
    looked_at.Clear();
    unplaceable.Clear();
    passed_over.clear();
    eases.reset();
  }
};

// How things stood when nobody of the main line could start.
struct NoStartSnapshot {
  std::uint64_t line = 0;           // Queue::changes
  std::uint64_t host = 0;           // HostBooks::changes
  std::uint64_t lessons = 0;        // Lessons::changes
  std::uint64_t limits = 0;         // Limits::changes
  std::uint64_t booked = 0;         // ReservationBook::changes
  std::uint64_t shares = 0;         // FairShare::changes
  std::optional<double> idle_cpus;  // of the machine
  std::optional<Time> order_until;  // it may change then by time alone; empty: it does not
  std::vector<GpuFingerprint> gpus;
};

// A start that is possible now.
struct Pick {
  Group* group = nullptr;
  std::vector<std::size_t> gpus;
};

// The first of the main line, for as long as it is that.
struct Passed {
  std::optional<TaskId> task;
  Time since{};
  int times = 0;  // that another one started before it
};

// Of a line for which starts are expected.
struct WholeLine {
  Pass pass = Pass::kInOrder;
  std::int64_t lowest = std::numeric_limits<std::int64_t>::max();  // priority in it
  std::optional<std::int64_t> preempting;  // highest of classes that preempt
  bool by_turns = false;                   // the ends of turns count
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
  base::SharedOptional<Estimate> last_estimate;  // equal ones in a row are one
  FairShare shares;
  Limits limits;
  Passed passed;
  // The first of the main line since it was only the machine's own cores and memory that kept it
  // waiting, and the first of those without GPUs since it waits.
  Passed short_of_host;
  Passed first_without_gpus;
  NoStartSnapshot no_start_without_gpus;  // of the line without GPUs; counters alone
  std::optional<NoStartSnapshot> no_start;
  // Those who were looked at then and could not start: as long as nothing else has changed they
  // need no other look. For look-up only.
  TaskSet refused;
  TaskSet unplaceable;  // of them, and of those before: whom no GPU took
  // GPUs on which somebody was started since all of them were asked: another crowd may gain more.
  std::set<GpuIndex> taken_since;
  LineLook look_at_line;
  bool waiting_pays = false;  // by the look ahead, although some could start
  // No task's memory has stood still for long enough before this that has not taught already.
  std::optional<Time> next_plateau;
  std::optional<HostSampled> host_use;  // the last one
  std::optional<double> idle_cpus;      // GpuView::idle_cpus, by that and by what has started
  // The next moment at which a task that was looked at asks for less.
  std::optional<Time> next_easing;
  std::set<TaskId> leaving;                 // they run on, and were asked to save
  std::map<TaskId, TaskId> room_for;        // of them, for whom at the last look
  std::optional<Time> planned_preemptions;  // the last look
  std::optional<Time> next_turn;            // the next moment at which somebody may have to leave
  std::optional<Time> wake;                 // the last WakeAt, while it lies ahead

  // Of the events being handled.
  std::vector<Action> actions;
  std::set<TaskId> moved;     // their state is not the one that was last kept
  std::set<TaskId> unsorted;  // their place in the queue is to be found

  // ---- lifecycle.cc ----
  void On(const GpusDiscovered& event);
  void On(const HostDiscovered& event);
  void SortOutUnfit();  // of those that wait: whom this server can take
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
  TaskRecord* InAttempt(TaskId id, int attempt);  // null: not held, or that attempt is over
  const Life& LifeOf(TaskId id) const;            // as they begin, of one without notes
  Life& EditLife(TaskId id) { return lives[Number(id)]; }
  void NoteUnfit(const TaskRecord& task);
  void NoteChoice(const TaskRecord& task);
  void Move(TaskRecord& task, TaskState to);  // one legal step; aborts on any other
  void Keep(const TaskRecord& task);          // emits TaskChanged
  void Finish(TaskRecord& task, TaskState state, Reason reason);  // the record is gone afterwards
  void Enqueue(TaskRecord& task, QueueKind kind, Reason reason);
  void Stop(TaskRecord& task, StopCause cause, Reason reason);
  void EndIdle(TaskRecord& task);
  void StopExpired();
  void WarnExpiring();
  void CutToGpus(TaskRecord& task) const;   // what was predicted, to what its GPUs have
  void AskEstimate(TaskRecord& task);       // of one whose state says so; keeps it
  void AskEstimateAgain(TaskRecord& task);  // of one that waits
  // exit: how its process ended; empty: it never ran, or nobody knows.
  void LeaveGpus(TaskRecord& task, std::optional<ExitKind> exit = std::nullopt);
  AttemptEnded AttemptOf(const TaskRecord& task, Time to) const;  // without its exit
  double RateNow(const TaskRecord& task) const;                   // of one that has been placed
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
  void SortWaiting();  // finds the places of unsorted tasks; of very many in several goes
  void SortIn(TaskRecord& task);
  // Queue::Put of one that may be another than when it was looked at.
  void PutInQueue(const TaskRecord& task, Place place, Time due, Time waits_since);
  Place PlaceFor(const TaskRecord& task) const;  // were there no limits of arrays
  void LeaveArray(const TaskRecord& task);       // its place goes to the next one
  Time EarliestStart(const TaskRecord& task) const;
  std::optional<Time> NextOrder() const;  // when the line may go in another, by time alone
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
  // Views of all GPUs, after a start on some.
  void Refresh(const std::vector<Placement>& taken, std::vector<GpuView>& views) const;
  void SettleReservations();
  std::vector<TaskId> ConflictingTasks(const Reservation& booking, GpuIndex gpu) const;
  // Those whose GPUs are reserved for them: nobody else's place in line matters there.
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
  bool OpensNothingSince(const NoStartSnapshot& look) const;  // for those who were looked at
  // Of GPUs: those that may take one who fitted on none then.
  std::vector<bool> OpenedSince(const NoStartSnapshot& look) const;
  bool SameLineSince(const NoStartSnapshot& look) const;  // the same are looked at
  void StartInOrder(std::vector<GpuView>& views);
  // Of those in the next so many places who are not refused.
  void FindGroups(LineUp& line, std::size_t places, LineLook& found) const;
  double DoneS(TaskId task) const;  // of its run time alone, as predicted
  std::optional<std::vector<FutureRun>> RunsNow() const;
  std::optional<std::vector<FutureTask>> LineAhead() const;
  void ScoreOn(Group& group, const GpuView& view, std::size_t place) const;
  bool IsLimited(const Group& group) const;
  void Advance(Group& group) const;  // its first one has started
  // opened: the GPUs that may take one of `unplaceable`.
  void ScoreFirst(Group& group, const std::vector<GpuView>& views, const std::vector<bool>& opened,
                  const LineUp& line) const;
  void Rate(Group& group, const LineUp& line) const;  // from its scores
  // What to start next; empty: nothing at the moment.
  std::optional<Pick> PickOf(std::vector<Group>& groups, const std::vector<GpuView>& views);
  // opened: the GPUs that may take one of `unplaceable`.
  void StartBestFirst(std::vector<GpuView>& views, const std::vector<bool>& opened);
  // How many.
  std::size_t StartBestOf(LineLook& look, LineUp& line, std::vector<GpuView>& views,
                          const std::vector<bool>& opened);
  void NoteStartOf(const Group& started, const std::vector<Placement>& taken,
                   const std::vector<GpuView>& views, LineLook& look, const LineUp& line) const;
  static void NoteOnNoGpu(LineLook& look);
  // Behind those that were looked at: on the GPUs that none of the tasks before could ever take.
  void StartBeside(std::vector<GpuView>& views);
  bool StartOnOpen(TaskRecord& task, const std::vector<bool>& open, std::vector<GpuView>& views);
  bool HasPlaceBeside(const TaskRecord& task, Time at) const;
  void NoteHead();
  void StartTrial();                     // one task, while the machine starts nothing
  std::vector<TaskId> ForTrial() const;  // the first of each line

  // ---- host_line.cc ----
  // For whom cores and memory are kept: the one of whose line others have started for long enough.
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
  // Of the GPUs that such a task may have at all, the largest first.
  std::vector<std::int64_t> UsableSizes(const TaskRequest& request) const;
  // What each of its GPUs together can have; 0: there are not so many.
  std::int64_t MostFor(const TaskRequest& request) const;
  void UpdateReservation();

  // ---- learning.cc ----
  void LookAtResidents(GpuIndex gpu);  // who is there, or what is known of them, has changed
  void NoteProgress(TaskId task);
  void LearnActivity(GpuIndex gpu);              // from its last sample
  Profile SeenOf(const TaskRecord& task) const;  // by its attempt that ends now
  void NoteActivity(TaskId id);                  // what has been seen of it so far ends now
  std::optional<double> ActivityNow(TaskId id) const;
  Profile ProfileNow(const TaskRecord& task) const;  // with what others of its kind have shown
  Time PlateauFrom(Time at) const;  // memory that has stood still since then makes a promise
  void LearnPlateaus();
  // What others of its kind have taught it to ask for; empty: nothing.
  std::optional<std::int64_t> TaughtMib(const TaskRecord& task) const;
  // Hardware threads that it keeps busy, or is expected to: as its kind, else as those that run.
  double UsesCpus(const TaskRecord& task) const;
  void CountIdleCpus();
  bool IsKnown(const TaskRecord& task) const;  // both its memory and its activity
  void ShowActivity(GpuIndex gpu, Time at, GpuView& view) const;
  // Is its promise one that comes down while it waits?
  bool IsEased(const TaskRecord& task) const;
  // Of such a task: what it is promised by now, and when that is less; empty: never.
  std::int64_t EasedMib(const TaskRecord& task) const;
  std::optional<Time> EasesAt(const TaskRecord& task) const;
  // Tasks that were refused ask for less now: they are looked at again.
  void ForgetLooksOnceEased();
  Need NeedNow(const TaskRecord& task) const;  // with what its own and others' attempts taught
  // Which GPUs, and which reservations matter to it.
  void AddWhere(const TaskRequest& request, std::shared_ptr<const GpuChoice> choice,
                Need& need) const;

  // ---- expecting.cc ----
  LineUp::Newcomer NewcomerOf(const TaskRecord& task) const;
  GpuView EmptyView(GpuIndex gpu) const;
  // By when everything on it has ended; empty: it cannot be said.
  std::optional<Time> EndOn(GpuIndex gpu, Time at, const WholeLine& line) const;
  ExpectedTask ExpectedOf(const TaskRecord& task, const WholeLine& line) const;
  WholeLine WholeLineOf(const std::vector<const TaskRecord*>& in_line) const;
  bool MayComeBack(const TaskRecord& task, const WholeLine& line) const;
  bool MayBePreempted(const TaskRecord& task, const WholeLine& line) const;
  // Those that run.
  std::vector<ExpectedReturn> Returning(const WholeLine& line) const;
  bool LeavesByTurn(const TaskRecord& task, const WholeLine& line) const;
  // Of the first ones of the line, where the turns of others end before their limits.
  std::vector<std::optional<Time>> StartsByTurns(Time at,
                                                 const std::vector<const TaskRecord*>& in_line,
                                                 WholeLine line) const;
  // About, of the first ones of the line.
  std::vector<std::optional<Time>> LikelyOf(Time at, const std::vector<const TaskRecord*>& in_line,
                                            std::size_t most) const;
  Need NeedOfOne(const TaskRecord& task) const;
  bool FirstOnly() const;  // of the line may start
  Pass PassThrough(const std::vector<const TaskRecord*>& line) const;
  // The first in order; with those for recovery before all others that want GPUs.
  std::vector<TaskId> InLine(LineKind kind, std::size_t most,
                             const TaskRecord* newcomer = nullptr) const;
  // newcomer: null, or one who stands last of his line.
  std::map<TaskId, ExpectedStart> ExpectedStarts(Time at, const TaskRecord* newcomer,
                                                 std::size_t most) const;

  // ---- turns.cc ----
  void TakeTurns();  // who has to leave is asked, and ended when his time is up
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
  bool GoesOnLater(const TaskRecord& task) const;        // by its end, which it chose itself
  void EndSaved(TaskRecord& task);                       // of one that goes on later
  void EndAsked(TaskRecord& task, Reason reason);        // of one that was ended
  std::string WhatItCost(const TaskRecord& task) const;
  void GoOnLater(TaskRecord& task, Reason reason);
  bool MustBeEmpty(GpuIndex gpu) const;

  // ---- closing.cc ----
  void EmptyServer();
  Time AskedBeforeShutdown() const;  // from when on; only while the server is closed
  bool MustAllLeave() const;
  Reason ReasonOfShutdown(const TaskRecord& task) const;
  // Of its account or user, as LineUp has it, while so much less is being taken.
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
  bool IsLookedAt(const TaskRecord& task) const;  // its place in the main line is
  std::optional<Reason> ReasonBehindLimited(const TaskRecord& task, Time at) const;
  Reason ReasonBehind(const TaskRecord& task, TaskId first) const;
  // A sentence with a blank before it; empty: nothing is kept, or will be.
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
