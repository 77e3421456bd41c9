// The order of the main queue: which task is next if all before it are started. Private to core.
//
// In fair order the highest priority goes first; within it the account (a user without an account
// counts as one) that has used least of the GPUs by its weight, then the user of that account who
// has used least, then the oldest task. A running task counts as if it ran kRunsOn longer, and each
// task returned by Pop counts as running, so that users alternate. A line from which nothing has
// started for the configured patience goes before all others, regardless of share and priority; the
// one that has waited longest goes first. If a limit keeps the first task of a line from starting,
// the rest of that line is skipped.
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

// A running task counts as if it ran this much longer.
inline constexpr Duration kRunsOn{3'600'000};
// Shares are computed for the end of the minute, so that time alone changes the order only once a
// minute: at the next SharesChange.
Time SharesChange(Time now);

class LineUp {
 public:
  // Access to what the core knows of a waiting task.
  class Host {
   public:
    virtual ~Host() = default;
    // Null: the core does not hold the task, so it uses nothing and is not limited.
    virtual const TaskRecord* Find(TaskId task) const = 0;
    // The rate at which FairShare would charge it once started.
    virtual double WouldTake(const TaskRecord& task) const = 0;
    // The rules that may keep all tasks of its line from starting, and whether they do. The span
    // must stay valid during the pass.
    virtual std::span<const Limits::BoundBy> BoundsOn(const TaskRecord& task) const = 0;
    virtual bool IsLimited(const TaskRecord& task,
                           std::span<const Limits::BoundBy> bounds) const = 0;
  };
  struct Next {
    TaskId task{};
    std::size_t line = 0;  // number of its line
    bool starving = false;
    std::int64_t priority = 0;           // including its class
    const TaskRecord* record = nullptr;  // Host::Find
    // Host::BoundsOn; empty if no task is limited.
    std::span<const Limits::BoundBy> bounds;
  };
  struct Rules {
    QueueOrder order = QueueOrder::kFifo;
    Duration patience{};
    bool limited = false;  // some task may be (Host::IsLimited)
  };
  // A task that is not in the queue yet: the last of its line with its priority.
  struct Newcomer {
    LineKey line;
    std::string user;
    QueueKey key;
  };

  // All arguments must outlive it. Meanwhile only tasks returned by Pop may leave the queue. A fair
  // order is valid until the queue or the shares change, until SharesChange, or until the patience
  // of a waiting user ends.
  LineUp(const WaitingLine& main, const FairShare& shares, const Rules& rules, Time now,
         const Host& host, const std::optional<Newcomer>& newcomer = {});

  // Removes and returns the next task; empty: no task is left.
  std::optional<Next> Pop();
  // Usage of the line's account (without an account: of the user) divided by its weight, in seconds
  // of a whole GPU, as used for its rank.
  double ShareOf(std::size_t line) const { return sums_[lines_[line].account].Share(); }
  // Empty: no such line has tasks. Call it only while no popped task has left the queue.
  std::optional<std::size_t> Find(const LineKey& key) const;
  // How far the usage of the line's account is above (positive) or below its fair share, relative
  // to all usage; 0 unless the order is fair.
  double Excess(std::size_t line) const;
  // Charges the line at this additional rate from now on.
  void Charge(std::size_t line, double rate);

 private:
  struct Sum {  // of an account, or of a user in it
    double seconds = 0;
    double weight = 1;
    double Share() const { return seconds / weight; }
  };
  struct Line {
    const LineKey* key = nullptr;
    std::set<QueueKey>::const_iterator at;
    std::set<QueueKey>::const_iterator end;
    std::optional<QueueKey> newcomer;
    std::size_t account = 0;  // in sums_
    std::size_t user = 0;     // within the account, if any
    std::optional<Time> starving_since;
    std::optional<std::span<const Limits::BoundBy>> bounds;  // once asked for
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
  // A range of ranks_ with its first line on top. In fair order it has the lines of one account,
  // which keep their relative order when the account's share grows; otherwise all lines. Made a
  // heap only when a second task is requested.
  struct Heap {
    std::size_t begin = 0;
    std::size_t size = 0;
    bool made = false;
  };
  std::span<Rank> RanksOf(const Heap& heap);
  std::span<Rank> Made(Heap& heap);  // all ordered
  std::size_t AddSum(const FairShare::Use& use, double weight);
  void AddLine(const LineKey& key, const HolderLine* line, const std::string& user,
               const FairShare& shares, const Rules& rules, Time now);
  Rank RankOf(std::size_t line) const;  // within its account; without its share
  Rank AmongAll(Rank rank) const;
  // Moves the first line to the top by current ranks; false: no task is left.
  bool SetRight(Heap& heap);
  bool IsLimited(Line& line, const TaskRecord& first) const;
  void DropFirst(Heap& heap);
  // The heap with the first of all lines; null: no task is left.
  Heap* FirstOfAll();

  const Host& host_;
  bool fair_ = false;
  bool limited_ = false;
  // Key of the line that was added last; lines are added by account and user.
  const LineKey* last_key_ = nullptr;
  std::vector<Sum> sums_;
  std::vector<Line> lines_;
  std::vector<Rank> ranks_;
  std::vector<Heap> accounts_;
  // A heap of the accounts, each with the last rank of its first line; the first account is on top.
  std::vector<std::pair<Rank, std::size_t>> firsts_;
  double all_seconds_ = 0;
  double all_weights_ = 0;
};

}  // namespace carma::core
