// Makes all scheduling decisions: takes events and returns actions. Pure: it uses no clock, file,
// socket, thread or unseeded randomness.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/books/host.h"
#include "core/books/limits.h"
#include "core/books/reservation_book.h"
#include "core/policy/policy.h"
#include "core/scheduler/events.h"

namespace carma::core {

// A task's promise on one of its GPUs.
struct Promise {
  TaskId task{};
  std::int64_t claim_mib = 0;
  std::int64_t promised_mib = 0;
  std::int64_t observed_mib = 0;  // in the last sample
  bool plateau = false;           // on a plateau: the memory it uses replaces its claim
};

// Why one GPU can or cannot take a task now.
struct GpuVerdict {
  GpuIndex gpu{};
  Verdict verdict;
  std::int64_t claimed_mib = 0;
  std::int64_t promised_mib = 0;
  std::int64_t used_mib = 0;  // by all processes, in the last sample
};
// Why the machine itself can or cannot take a task now.
struct HostVerdict {
  HostNeed need;
  HostView host;
  Verdict verdict;
};
// Latest and likely start of a waiting task. Each is empty if unknown.
struct ExpectedStart {
  // The latest start, assuming that all tasks use their whole time limits, that no task behind this
  // one overtakes it, and that the GPUs stay as they are.
  std::optional<Time> latest;
  // The likely start (LikelyStarts), based on the run times of earlier runs or else on time limits.
  std::optional<Time> likely;
  friend bool operator==(const ExpectedStart&, const ExpectedStart&) = default;
};
// Queued tasks, in order.
struct TasksInLine {
  std::vector<TaskId> with_gpus;  // first the recovery queue, then the main queue
  std::vector<TaskId> without_gpus;
};
struct Explanation {
  TaskId id{};
  TaskState state{};
  Reason reason;                     // for the task as a whole
  std::vector<GpuVerdict> gpus;      // only while the task is queued and needs GPUs
  std::optional<HostVerdict> host;   // only while it is queued and after HostDiscovered
  std::optional<std::size_t> ahead;  // tasks before it in its queue; only while it is queued
  // Memory that a queued task requests instead of its estimate, based on lessons from similar
  // tasks.
  std::optional<std::int64_t> taught_mib;
};

// The expected start is computed for at most this many queued tasks.
inline constexpr std::size_t kLongestTold = 2000;

class Scheduler {
 public:
  struct State;  // private to core (scheduler_state.h)

  explicit Scheduler(PolicyConfig config);  // must have passed Validate()
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Handles one event and returns what the caller must do, in order. `now` must never decrease.
  // Events about unknown tasks or older attempts have no effect. Identical histories produce
  // identical actions.
  std::vector<Action> Handle(Time now, const Event& event);

  // Handles several simultaneous events and decides once, after the last event. A batch of
  // submissions therefore costs only one pass over the queue.
  std::vector<Action> HandleAll(Time now, const std::vector<Event>& events);

  // Why this request could never run here, even if all GPUs were idle and healthy. Empty if it
  // could. `carma submit` refuses such a request immediately.
  std::optional<Reason> NeverFits(const TaskRequest& request,
                                  const std::optional<Estimate>& estimate) const;

  // Checks whether the machine's own cores and memory let the task start.
  HostVerdict HostFor(const TaskRequest& request, Time now) const;

  // Number of queued tasks that go before a new task. Counts the tasks of its main queue (with or
  // without GPUs), and recovery tasks if they block that queue (recovery_blocks). Does not count
  // tasks that wait for a user, a time, another task or their array.
  std::size_t AheadOf(const TaskRequest& request) const;

  // Why a closed server or a limit would keep a new task waiting. Empty if neither would.
  std::optional<Reason> BarredFor(const TaskRequest& request,
                                  const std::optional<Estimate>& estimate, Time now) const;

  // The limit that forbids submitting `more` tasks like this one: a limit on the number of
  // unfinished tasks, or one that the task would exceed however long it waited. Other limits only
  // make a task wait (kLimit). For `counted` and `beside`, see Limits::AgainstQueueing.
  std::optional<LimitHit> LimitOnSubmission(const TaskRequest& request, std::size_t more,
                                            const TaskRequest* counted = nullptr,
                                            std::span<const AlikeTasks> beside = {}) const;
  // The longest time limit that the limits of the request's user, account and class allow, or empty
  // if they allow any.
  std::optional<Duration> LongestAllowed(const TaskRequest& request) const;

  // Returns null if the task is unknown. Final tasks are dropped immediately; tasks that depend on
  // them store the final state in Dependency::known_final.
  const TaskRecord* Find(TaskId id) const;
  // Every task that is not final, by id.
  const TaskRecords& Tasks() const;
  // Explains why the task is in its current state. Queued tasks behind the head of the queue get
  // the reason kPriority. Returns nothing if the task is unknown.
  std::optional<Explanation> Explain(TaskId id, Time now) const;
  // Returns only the reason from Explain, which is cheaper to compute. The core must have a record
  // of the task.
  Reason ReasonFor(TaskId id, Time now) const;

  // A sentence that explains why no tasks are starting even though GPUs may be free. Empty if tasks
  // can start.
  std::string MachineTrouble() const;

  // Queued tasks in the order in which the scheduler would consider them now: the first `most` with
  // GPUs, and the first `most` without.
  TasksInLine InLine(std::size_t most) const;
  // The expected starts of the first `most` queued tasks. Tasks whose start cannot be estimated are
  // omitted.
  std::map<TaskId, ExpectedStart> ExpectedStarts(Time now, std::size_t most = kLongestTold) const;
  // The expected start of a new task.
  ExpectedStart ExpectedStartOf(const TaskRequest& request, const std::optional<Estimate>& estimate,
                                Time now) const;
  Need NeedOfNew(const TaskRequest& request, const std::optional<Estimate>& estimate) const;

  // The reservations that the core has received, and the GPUs kept for them.
  std::vector<ReservationStatus> ReservationsNow() const;

  // The usage of all attempts that hold GPUs, ordered by task id, as if all of them ended now.
  std::vector<AttemptEnded> Attempts(Time now) const;

  std::vector<GpuView> Gpus(Time now) const;
  // Promises of the machine's own cores and memory.
  const HostBooks& Host() const;
  // The promises on that GPU, by task id.
  std::vector<Promise> PromisesOn(GpuIndex gpu, Time now) const;
  const std::vector<GpuInfo>& GpuInfos() const;
  const PolicyConfig& config() const;

  // Compares all records with each other, such as claims with tasks and queues with states. Returns
  // the first contradiction, or nothing if there is none.
  std::optional<std::string> CheckBooks() const;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace carma::core
