// What users, accounts and classes may not go beyond (LimitRule), and how much of it they have.
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
#include "core/values/task.h"

namespace carma::core {

// A rule that stands in a task's way.
struct LimitHit {
  enum class What { kRunning, kGpus, kMemory, kCpus, kHostMemory, kQueued, kGpuHours, kLength };
  const LimitRule* rule = nullptr;
  What what{};
  double have = 0;   // of whom the rule counts together
  double wants = 0;  // this task, more
};

class Limits {
  struct Count;

 public:
  // What a task would have more if it started.
  struct Wants {
    int gpus = 0;
    std::int64_t promised_mib = 0;  // on each of them
    HostNeed host;
  };
  // A rule about somebody that may keep him from starting, and what he has of it.
  struct BoundBy {
    const LimitRule* rule = nullptr;
    const Count* count = nullptr;
  };

  // The rules count from nothing; of gpu_hours what has ended since a rule of such a kind is there
  // is counted again. The caller tells of the tasks.
  void Follow(std::vector<LimitRule> rules, Time now);

  // The core holds the task, or holds it no more.
  void Join(const TaskRecord& task);
  void Leave(const TaskRecord& task);
  // It holds the GPUs of its attempt, or gives them up. Starting twice, and ending what has not
  // started, change nothing.
  void Start(const TaskRecord& task);
  void End(const TaskRecord& task);
  void Past(const Taken& taken, Time now);
  // What ended before a rule's period counts no more; before each decision.
  void Advance(Time now);

  // Some task that the core holds falls under a rule that may keep it from starting.
  bool Concerns() const { return concerned_ > 0; }
  // Some rule is about the memory that is promised: else nobody looks at Wants::promised_mib.
  bool CountMemory() const { return count_memory_; }
  // Why the task may not start now though GPUs may be free.
  std::optional<LimitHit> AgainstStart(const TaskRecord& task, const Wants& wants, Time now) const;
  // The same of one that the core holds, by Bound of its request: for those who ask often.
  static std::optional<LimitHit> Against(std::span<const BoundBy> rules, const Wants& would_have,
                                         Time now);
  // What starts of the one changes what the other may have.
  static bool CountTogether(std::span<const BoundBy> one, std::span<const BoundBy> other);
  // Valid until Follow; none of a request like none that the core holds or held.
  std::span<const BoundBy> Bound(const TaskRequest& request) const;
  // Whether a rule is about it that may keep it from starting.
  bool MayKeep(const TaskRequest& request) const;
  // Why so many more tasks like this may not be submitted.
  std::optional<LimitHit> AgainstQueueing(const TaskRequest& request, const HostNeed& host,
                                          std::size_t more) const;
  // When gpu_hours next come back, or are used up by those who run; empty: not by time alone.
  std::optional<Time> NextChange(Time now) const;
  // The shortest length that any rule about it allows.
  std::optional<Duration> LongestFor(const TaskRequest& request) const;

  std::size_t running() const { return running_.size(); }  // tasks
  // Another number whenever somebody may do more than before, or by time alone less.
  std::uint64_t changes() const { return changes_; }

 private:
  struct Count {
    std::int64_t tasks = 0;  // not final
    std::int64_t running = 0;
    std::int64_t gpus = 0;
    std::int64_t memory_mib = 0;
    std::int64_t cpus = 0;
    std::int64_t host_memory_mib = 0;
    double launched_s = 0;                     // sum over the GPUs that are held
    double past_s = 0;                         // of `past`
    bool used_up = false;                      // gpu_hours, by Advance
    std::deque<std::pair<Time, double>> past;  // ends, and GPU seconds
  };
  // Of one rule: whom it counts together.
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
  static double HoursOf(const Count& count, Time now);
  const Count& CountOf(std::size_t rule, const Names& names) const;
  std::vector<BoundBy> RulesAbout(const Names& names) const;
  template <class Change>
  void ForEach(const Names& names, Change change);
  void CountPast(const Taken& taken, Time now);
  void Add(const Running& running, int sign);

  std::vector<LimitRule> rules_;
  std::map<Key, Count> counts_;
  // Of those who have or had tasks, because each look at the line asks for each of them. For
  // look-up only.
  std::unordered_map<Names, std::vector<BoundBy>, HashOfNames> bound_;
  bool count_memory_ = false;
  std::unordered_map<std::uint64_t, Running> running_;  // by task; for look-up only
  std::deque<Taken> ended_;                             // within the longest period of gpu_hours
  Duration longest_{};
  std::size_t concerned_ = 0;
  std::uint64_t changes_ = 0;
};

// One sentence with the numbers, whose limit it is and which key says so.
std::string TextOf(const LimitHit& hit);

}  // namespace carma::core
