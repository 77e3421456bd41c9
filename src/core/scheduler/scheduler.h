// The deciding core: told what happened, answers what to do. Pure: no clock, file, socket, thread,
// or unseeded chance.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/books/host.h"
#include "core/books/limits.h"
#include "core/books/reservation_book.h"
#include "core/policy/policy.h"
#include "core/scheduler/events.h"

namespace carma::core {

// What is kept for a task on one of its GPUs.
struct Promise {
  TaskId task{};
  std::int64_t claim_mib = 0;
  std::int64_t promised_mib = 0;
  bool plateau = false;  // its memory stands still, and what was seen counts instead of its claim
};

// Why one GPU does or does not take a task now.
struct GpuVerdict {
  GpuIndex gpu{};
  Verdict verdict;
  std::int64_t claimed_mib = 0;
  std::int64_t promised_mib = 0;
  std::int64_t used_mib = 0;  // by everybody, in the last sample
};
// Why the machine itself does or does not take a task now.
struct HostVerdict {
  HostNeed need;
  HostView host;
  Verdict verdict;
};
// When a waiting task starts; what cannot be said is empty.
struct ExpectedStart {
  // At the latest, if everybody takes all of his time limit, nobody goes before it who does not
  // stand before it now, and the GPUs stay as they are.
  std::optional<Time> latest;
  // About when, by what is predicted (LikelyStarts): run times as of the same things before, else
  // time limits.
  std::optional<Time> likely;
  friend bool operator==(const ExpectedStart&, const ExpectedStart&) = default;
};
// Tasks in line, the first one first.
struct TasksInLine {
  std::vector<TaskId> with_gpus;  // crashed ones, then the main queue
  std::vector<TaskId> without_gpus;
};
struct Explanation {
  TaskId id{};
  TaskState state{};
  Reason reason;                     // of the whole task
  std::vector<GpuVerdict> gpus;      // only while it is queued and wants GPUs
  std::optional<HostVerdict> host;   // only while it is queued and the machine is described
  std::optional<std::size_t> ahead;  // tasks that go before it in its queue, while queued
  // What others of its kind have taught it to ask for instead of its estimate, while queued.
  std::optional<std::int64_t> taught_mib;
};

// Of so many tasks in line it is said when they start.
inline constexpr std::size_t kLongestTold = 2000;

class Scheduler {
 public:
  struct State;  // private to core (scheduler_state.h)

  explicit Scheduler(PolicyConfig config);  // must have passed Validate()
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Takes one event and returns what the shell must do, in order. `now` never goes back. Events
  // about tasks the core does not hold, or of an older attempt, change nothing. Equal histories
  // give equal actions.
  std::vector<Action> Handle(Time now, const Event& event);

  // Takes several events of one moment and decides once, after the last: the same as Handle for
  // each, but a batch of submissions costs one pass over the queue.
  std::vector<Action> HandleAll(Time now, const std::vector<Event>& events);

  // Could this request ever run here, on idle and healthy GPUs? Empty: yes. (`carma submit` refuses
  // at once.)
  std::optional<Reason> NeverFits(const TaskRequest& request,
                                  const std::optional<Estimate>& estimate) const;

  // May it start as far as the machine's own cores and memory go?
  HostVerdict HostFor(const TaskRequest& request, Time now) const;

  // Tasks in line that a newcomer would have to wait for: those of the main queue that go before
  // it (tasks with GPUs before one with, tasks without before one without), and crashed ones where
  // they stop that queue (recovery_blocks). Who waits for anything else than GPUs (a person, a
  // time, another task, its array) is not in line.
  std::size_t AheadOf(const TaskRequest& request) const;

  // Why so many more tasks like this may not be submitted: a limit that no waiting can meet, or on
  // what waits and runs. What waiting can meet keeps a task from starting only (kLimit).
  std::optional<LimitHit> LimitOnSubmission(const TaskRequest& request, std::size_t more) const;
  // The time limit that its user, account or class allows at most; empty: any.
  std::optional<Duration> LongestAllowed(const TaskRequest& request) const;

  // Null: not held. Final tasks are dropped at once; tasks that depend on them keep their final
  // state in Dependency::known_final.
  const TaskRecord* Find(TaskId id) const;
  // Every task that is not final, by id.
  const TaskRecords& Tasks() const;
  // With the reason computed for this moment (queued tasks that are not at the head get kPriority).
  std::optional<Explanation> Explain(TaskId id, Time now) const;
  // Reason of a held task at this moment, cheaper than Explain.
  Reason ReasonFor(TaskId id, Time now) const;

  // Why nothing is started at the moment though GPUs may be free, in a sentence; empty: nothing
  // keeps tasks from starting.
  std::string MachineTrouble() const;

  // In the order in which they are looked at now; at most `most` of each line.
  TasksInLine InLine(std::size_t most) const;
  // Of the first `most` tasks in line, those of which something can be said.
  std::map<TaskId, ExpectedStart> ExpectedStarts(Time now, std::size_t most = kLongestTold) const;
  // Of a newcomer.
  ExpectedStart ExpectedStartOf(const TaskRequest& request, const std::optional<Estimate>& estimate,
                                Time now) const;
  // What a newcomer needs of each of its GPUs.
  Need NeedOfNew(const TaskRequest& request, const std::optional<Estimate>& estimate) const;

  // What the core was told of reservations, by now; which GPUs are kept for them.
  std::vector<ReservationStatus> ReservationsNow() const;

  // What holds GPUs, as if each attempt ended now; by task.
  std::vector<AttemptEnded> Attempts(Time now) const;

  std::vector<GpuView> Gpus(Time now) const;
  // What of the machine itself is promised.
  const HostBooks& Host() const;
  // Of the tasks on that GPU, by id.
  std::vector<Promise> PromisesOn(GpuIndex gpu, Time now) const;
  const std::vector<GpuInfo>& GpuInfos() const;
  const PolicyConfig& config() const;

  // Compares every book with every other: claims with tasks, queues with states. Empty: all
  // balance.
  std::optional<std::string> CheckBooks() const;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace carma::core
