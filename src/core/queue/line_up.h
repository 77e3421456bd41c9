// The order of the main queue: which task comes next once all tasks ahead of it have started.
// Private to core.
//
// In fair order, tasks are sorted by priority, then by their account's usage relative to its
// weight, then by the user's usage within the account, then by age. A user without an account
// counts as an account. A running task is charged as if it kept running for another kRunsOn. Each
// task returned by Pop counts as running, so users alternate.
//
// A line holds the tasks of one class, user and account (LineKey). It is starving once it has
// waited for a start as long as the configured patience. Starving lines go before all other lines,
// longest wait first, regardless of share and priority.
//
// If a limit keeps the first task of a line from starting, the rest of that line is skipped.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/books/limits.h"
#include "core/queue/queue.h"

namespace carma::core {

// A running task is charged as if it kept running for this much longer.
inline constexpr Duration kRunsOn{3'600'000};
// The next time at which the order can change without an event. Shares are computed as of the end
// of the current minute, so the order changes at most once a minute.
Time SharesChange(Time now);

class LineUp {
 public:
  // Access to the core's data about a waiting task.
  class Host {
   public:
    virtual ~Host() = default;
    // Returns null if the core has no record of the task. Such a task is charged nothing, and no
    // limits apply to it.
    virtual const TaskRecord* Find(TaskId task) const = 0;
    // The rate at which FairShare would charge the task once it has started.
    virtual double WouldTake(const TaskRecord& task) const = 0;
    // BoundsOn returns the limits on starting that apply to this task's whole line; the span must
    // stay valid during the pass. IsLimited returns whether one of these limits keeps the task from
    // starting now.
    virtual std::span<const Limits::BoundBy> BoundsOn(const TaskRecord& task) const = 0;
    virtual bool IsLimited(const TaskRecord& task,
                           std::span<const Limits::BoundBy> bounds) const = 0;
  };
  struct Next {
    TaskId task{};
    std::size_t line = 0;  // the number of its line, to be passed to the functions below
    bool starving = false;
    std::int64_t priority = 0;           // including its class's priority
    const TaskRecord* record = nullptr;  // Host::Find
    // The limits returned by Host::BoundsOn, or empty if they were not checked.
    std::span<const Limits::BoundBy> bounds;
  };
  struct Rules {
    QueueOrder order = QueueOrder::kFifo;
    Duration patience{};
    bool limited = false;  // some task might be limited (Host::IsLimited)
  };
  // A task that is not in the queue yet. It goes behind all tasks of the same priority in its
  // line.
  struct Newcomer {
    LineKey line;
    std::string user;
    QueueKey key;
  };

  // The arguments must outlive this object. While it exists, only tasks returned by Pop may leave
  // the queue. A fair order becomes invalid when the queue or the shares change, at the time
  // returned by SharesChange, or when a waiting user's patience runs out.
  LineUp(const WaitingLine& main, const FairShare& shares, const Rules& rules, Time now,
         const Host& host, const std::optional<Newcomer>& newcomer = {});

  // Removes the next task from the order and returns it. Empty if no task is left.
  std::optional<Next> Pop();
  // The usage that ranks the line, in whole-GPU seconds: the usage of its account (or of its user
  // if it has no account), divided by the weight.
  double ShareOf(std::size_t line) const { return sums_[lines_[line].account].Share(); }
  // The usage that ranks the line's user within the account.
  double ShareInAccount(std::size_t line) const { return sums_[lines_[line].user].Share(); }
  // The number of a line; empty if the line has no tasks. Call it only before the first popped task
  // leaves the queue.
  std::optional<std::size_t> Find(const LineKey& key) const;
  // How far the usage of the line's account is above (positive) or below its fair share, relative
  // to all usage. 0 unless the queue is in fair order.
  double Excess(std::size_t line) const;
  // Charges the line at this rate from now on, on top of its current charges.
  void Charge(std::size_t line, double rate);

 private:
  struct Sum {  // usage of an account, or of a user within an account
    double seconds = 0;
    double weight = 1;
    double Share() const { return seconds / weight; }
  };
  struct Line {
    const LineKey* key = nullptr;
    std::set<QueueKey>::const_iterator at;
    std::set<QueueKey>::const_iterator end;
    std::optional<QueueKey> newcomer;
    std::size_t account = 0;  // index in sums_
    std::size_t user = 0;     // index in sums_ of the user within the account
    std::optional<Time> starving_since;
    std::optional<std::span<const Limits::BoundBy>> bounds;  // empty until they are needed
    const QueueKey* First() const;
  };
  struct Rank {
    Time starving_since = Time::max();
    std::int64_t less_priority = 0;
    double account = 0;
    double user = 0;
    Time since{};
    TaskId task{};
    std::size_t line = 0;
    friend auto operator<=>(const Rank&, const Rank&) = default;
  };
  // A range of ranks_ with the best rank at its front. In fair order, each account has a range,
  // because its lines keep their relative order when its share grows. Otherwise, one range contains
  // all lines. A range becomes a real heap only when a second task is requested.
  struct Heap {
    std::size_t begin = 0;
    std::size_t size = 0;
    bool made = false;
  };
  std::span<Rank> RanksOf(const Heap& heap);
  std::span<Rank> Made(Heap& heap);  // turns the range into a heap
  std::size_t AddSum(const FairShare::Use& use, double weight);
  void AddLine(const LineKey& key, const HolderLine* line, const std::string& user,
               const FairShare& shares, const Rules& rules, Time now);
  Rank RankOf(std::size_t line) const;            // within its account: Rank::account is not set
  double AccountShareOf(std::size_t line) const;  // for Rank::account
  // Updates ranks until the line at the front really ranks first. Returns false if no task is left.
  bool SetRight(Heap& heap);
  bool IsLimited(Line& line, const TaskRecord& first) const;
  void DropFirst(Heap& heap);
  // The heap whose first line goes before those of all other heaps; null if no task is left.
  Heap* FirstOfAll();

  const Host& host_;
  bool fair_ = false;
  bool limited_ = false;
  // The key of the last line that was added. Lines are added in order of account and user.
  const LineKey* last_key_ = nullptr;
  std::vector<Sum> sums_;
  std::vector<Line> lines_;
  std::vector<Rank> ranks_;
  std::vector<Heap> accounts_;
  // A heap of the accounts with the first account on top. Each entry holds the last known rank of
  // the account's first line.
  std::vector<std::pair<Rank, std::size_t>> firsts_;
  double all_seconds_ = 0;
  double all_weights_ = 0;
};

}  // namespace carma::core
