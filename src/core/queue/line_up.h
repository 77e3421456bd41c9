// The main queue as it goes: who is first, and who would be next if all before had been started.
// Private to core.
//
// By fair order those of the highest priority go first; among them the account (a user without one
// is an account by himself) that has taken least of the GPUs by its weight, in it the user who has,
// and of his tasks the first submitted. What runs counts as if it ran kRunsOn longer, and each task
// that is passed on counts as running: so that users take turns, one who has waited with nothing
// running before one who holds much. A line from which nothing has started for the patience of the
// rules goes before all others, whatever its share and priority; the one that waits longest first.
// A line whose first task may not start because of a limit is left out, behind that task.
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

// What runs counts as if it ran so much longer.
inline constexpr Duration kRunsOn{3'600'000};
// Shares are those at the end of the minute, so that by time alone the order changes once in a
// minute: at the next SharesChange.
Time SharesChange(Time now);

class LineUp {
 public:
  // What is known of a waiting task.
  class Host {
   public:
    virtual ~Host() = default;
    // Null: not one that the core holds; it takes nothing then, and nothing limits it.
    virtual const TaskRecord* Find(TaskId task) const = 0;
    // Whole GPUs at once, as FairShare counts them, if it were started.
    virtual double WouldTake(const TaskRecord& task) const = 0;
    // What may keep all tasks of its line from starting, and whether it does. The first stays as
    // long as the line is gone through.
    virtual std::span<const Limits::BoundBy> BoundsOn(const TaskRecord& task) const = 0;
    virtual bool IsLimited(const TaskRecord& task,
                           std::span<const Limits::BoundBy> bounds) const = 0;
  };
  struct Next {
    TaskId task{};
    std::size_t line = 0;  // a number for its line
    bool starving = false;
    std::int64_t priority = 0;           // with that of its class
    const TaskRecord* record = nullptr;  // Host::Find
    // Host::BoundsOn; empty where nobody is limited.
    std::span<const Limits::BoundBy> bounds;
  };
  struct Rules {
    QueueOrder order = QueueOrder::kFifo;
    Duration patience{};
    bool limited = false;  // somebody may be (Host::IsLimited)
  };
  // One who does not stand in the queue yet, last of his line and priority.
  struct Newcomer {
    LineKey line;
    std::string user;
    QueueKey key;
  };

  // All outlive it. The line may lose tasks that have been passed on, and no others. By fair order
  // it stays the same until the line or the shares are changed, SharesChange, or the patience of
  // somebody who waits is over.
  LineUp(const WaitingLine& main, const FairShare& shares, const Rules& rules, Time now,
         const Host& host, const std::optional<Newcomer>& newcomer = {});

  // Empty: nobody is left.
  std::optional<Next> Pop();
  // What the account of the line has taken, in seconds of a whole GPU by its weight (a user's where
  // there is no account), as its rank is made of it.
  double ShareOf(std::size_t line) const { return sums_[lines_[line].account].Share(); }
  // Empty: nobody stands in such a line. Only while none that was passed on has left the queue.
  std::optional<std::size_t> Find(const LineKey& key) const;
  // By how much more (positive) or less than its due part of everything that is taken the account
  // of the line has, as a share of it: 0 in other orders.
  double Excess(std::size_t line) const;
  // The line takes that much more from here on.
  void Charge(std::size_t line, double rate);

 private:
  struct Sum {  // of an account, or of a user in one
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
    std::size_t user = 0;     // within the account; the same without one
    std::optional<Time> starving_since;
    std::optional<std::span<const Limits::BoundBy>> bounds;  // once they were asked for
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
  // By fair order the lines of one account: when its share grows, their order among themselves
  // stays. Else all.
  using Heap = std::vector<Rank>;  // the first on top
  std::size_t AddSum(const FairShare::Use& use, double weight);
  void AddLine(const LineKey& key, const HolderLine* line, const std::string& user,
               const FairShare& shares, const Rules& rules, Time now);
  Rank RankOf(std::size_t line) const;  // among those of its account, whose share is left out
  Rank AmongAll(Rank rank) const;
  // Brings the first of such lines on top, as ranks are now; false: nobody is left there.
  bool SetRight(Heap& heap) const;
  bool IsLimited(Line& line, const TaskRecord& first) const;
  static void DropFirst(Heap& heap);
  // Likewise the lines of which the first of all is one; null: nobody is left.
  Heap* FirstOfAll();

  const Host& host_;
  bool fair_ = false;
  bool limited_ = false;
  // Of the line that was added last; lines come by account and user.
  const LineKey* last_key_ = nullptr;
  std::vector<Sum> sums_;
  std::vector<Line> lines_;
  std::vector<Heap> accounts_;
  // Each account's first line, and the account; as it was ranked last, the first on top.
  std::vector<std::pair<Rank, std::size_t>> firsts_;
  double all_seconds_ = 0;
  double all_weights_ = 0;
};

}  // namespace carma::core
