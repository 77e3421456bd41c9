// Enforces limits on users, accounts and classes (LimitRule) and tracks how much of each is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/books/fair_share.h"
#include "core/policy/policy.h"
#include "core/values/entitlement.h"
#include "core/values/ids.h"
#include "core/values/promise.h"
#include "core/values/task_request.h"

namespace carma::core {

// A rule that keeps a task from starting.
struct LimitHit {
  enum class What { kRunning, kGpus, kMemory, kCpus, kHostMemory, kQueued, kGpuHours, kLength };
  const LimitRule* rule = nullptr;
  What what{};
  double have = 0;   // current use
  double wants = 0;  // what this task would add
};

// Tasks whose requests are the same as far as limits are concerned.
struct AlikeTasks {
  TaskRequest request;
  std::size_t count = 0;
};

class Limits {
  struct Count;

 public:
  // What starting a task would add to the counts.
  struct Wants {
    int gpus = 0;
    std::int64_t promised_mib = 0;  // promised on each of these GPUs
    HostNeed host;
  };
  // A rule that can keep a task from starting, with its current usage.
  struct BoundBy {
    const LimitRule* rule = nullptr;
    const Count* count = nullptr;
  };

  // Sets new rules and clears all counts. The caller must then Join and Start the tasks again.
  // Attempts that ended under an earlier gpu_hours rule still count.
  void Follow(std::vector<LimitRule> rules, Time now);

  // Forgets ended attempts. Call it before Follow(), then pass every attempt that counts under the
  // new rules to Past().
  void ForgetEnded() { ended_.clear(); }
  // Called when a task enters the core (Join) and when the core drops it (Leave).
  void Join(const TaskRecord& task);
  void Leave(const TaskRecord& task);
  // Called when the task takes the GPUs of its attempt (Start) or releases them (End). Starting a
  // task twice or ending one that has not started has no effect.
  void Start(const TaskRecord& task);
  void End(const TaskRecord& task);
  void Past(const Taken& taken, Time now);
  // A copy in which the starts and ends of tasks can be tried out. The copy counts past GPU hours,
  // but its Advance() does not drop any.
  Limits ForPlan() const;
  // Drops attempts that ended before the period of every rule began. Call it before each decision.
  void Advance(Time now);

  // True if any task in the core is subject to a rule that can keep it from starting.
  bool Concerns() const { return concerned_ > 0; }
  // True if any rule limits promised memory. Otherwise, Wants::promised_mib is unused.
  bool CountMemory() const { return count_memory_; }
  // Returns the limit that keeps the task from starting now, if any.
  std::optional<LimitHit> AgainstStart(const TaskRecord& task, const Wants& wants, Time now) const;
  // Faster than AgainstStart, for frequent calls. `rules` is the result of Bound for the task's
  // request.
  static std::optional<LimitHit> Against(std::span<const BoundBy> rules, const Wants& would_have,
                                         Time now);
  // True if the two sets of rules share a count, so starting a task under `one` can change what
  // `other` allows.
  static bool CountTogether(std::span<const BoundBy> one, std::span<const BoundBy> other);
  // The rules that apply to tasks with the request's user, account and class. Valid until Follow.
  // Empty if no such task has ever been in the core.
  std::span<const BoundBy> Bound(const TaskRequest& request) const;
  // True if any rule can keep a task with the request's user, account and class from starting.
  bool MayKeep(const TaskRequest& request) const;
  // Returns the limit that forbids submitting `more` tasks like this one, if any. If `more` is 0,
  // checks only limits that the task would exceed however long it waited. counted: the old request
  // of a task that is being edited; it is already in the counts. beside: other tasks of the same
  // submission.
  std::optional<LimitHit> AgainstQueueing(const TaskRequest& request, const HostNeed& host,
                                          std::size_t more, const TaskRequest* counted = nullptr,
                                          std::span<const AlikeTasks> beside = {}) const;
  // Returns the limit that keeps a task like this one from ever starting, if any. Only a limit that
  // was lowered after the task's submission can do so.
  std::optional<LimitHit> AgainstEver(const TaskRequest& request, const HostNeed& host) const;
  // Returns when gpu_hours usage next changes on its own: either old usage drops out of the period,
  // or running tasks use up a limit. Empty if never.
  std::optional<Time> NextChange(Time now) const;
  // Returns the most memory that the rules allow a task like this one on each of its GPUs; empty if
  // unlimited.
  std::optional<std::int64_t> MostMibFor(const TaskRequest& request) const;
  // Returns the longest time limit that the rules allow for a task like this one; empty if
  // unlimited.
  std::optional<Duration> LongestFor(const TaskRequest& request) const;

  std::size_t running() const { return running_.size(); }  // number of running tasks
  // Incremented whenever a task might have become able to start, and whenever the passage of time
  // alone has made a task unable to start.
  std::uint64_t changes() const { return changes_; }

 private:
  struct Use {
    std::int64_t tasks = 0;  // tasks that are not final
    std::int64_t running = 0;
    std::int64_t gpus = 0;
    std::int64_t memory_mib = 0;
    std::int64_t cpus = 0;
    std::int64_t host_memory_mib = 0;
    double launched_s = 0;  // sum of start times, counted once per held GPU
    double past_s = 0;      // total GPU seconds in Count::past
    bool used_up = false;   // gpu_hours are used up; set by Advance
  };
  struct Count : Use {
    std::deque<std::pair<Time, double>> past;  // end time and GPU seconds of each attempt
  };
  // Identifies a count by rule, user, account and class. If a name is empty, all users, accounts or
  // classes share the count.
  using Key = std::tuple<std::size_t, std::string, std::string, std::string>;
  struct Names {
    std::string user;
    std::string account;
    std::string qos;
    friend bool operator==(const Names&, const Names&) = default;
  };
  struct HashOfNames {
    std::size_t operator()(const Names& names) const;
  };
  struct Running {
    Names names;
    std::int64_t gpus = 0;
    std::int64_t memory_mib = 0;
    HostShare host;
    Time launched{};
  };
  static Names NamesOf(const TaskRequest& request);
  bool IsAbout(const LimitRule& rule, const Names& names) const;
  Key KeyOf(std::size_t rule, const Names& names) const;
  static std::optional<LimitHit> AgainstEver(const LimitRule& rule, const TaskRequest& request,
                                             const HostNeed& host);
  static double HoursOf(const Count& count, Time now);
  const Count& CountOf(std::size_t rule, const Names& names) const;
  std::vector<BoundBy> RulesAbout(const Names& names) const;
  template <class Change>
  void ForEach(const Names& names, Change change);
  void CountPast(const Taken& taken, Time now);
  void Add(const Running& running, int sign);

  std::vector<LimitRule> rules_;
  std::map<Key, Count> counts_;
  // Caches RulesAbout, because each pass over the queue needs the rules of every task. Never
  // iterated.
  std::unordered_map<Names, std::vector<BoundBy>, HashOfNames> bound_;
  bool count_memory_ = false;
  std::unordered_map<std::uint64_t, Running> running_;  // by task; for look-up only
  std::deque<Taken> ended_;                             // ended within the longest gpu_hours period
  Duration longest_{};
  std::size_t concerned_ = 0;
  std::uint64_t changes_ = 0;
};

// Describes the limit in one sentence: its numbers, the users to which it applies, and the rule as
// configured.
std::string TextOf(const LimitHit& hit);

}  // namespace carma::core
