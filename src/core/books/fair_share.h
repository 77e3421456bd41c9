// What users and accounts have taken of the GPUs, so that those who took least may go first.
//
// A task takes from others, on each of its GPUs, the larger of the share of its memory that is
// promised to it and the share of its SMs that it is predicted to keep busy; all of it, if nobody
// may join it. That counts from the decision to start to the end of the attempt, in seconds of a
// whole GPU, and what was taken a half-life ago counts half.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

#include "core/values/entitlement.h"
#include "core/values/task.h"

namespace carma::core {

// What one attempt took.
struct Taken {
  std::uint32_t uid = 0;
  std::string user;
  std::string account;  // empty: its user alone
  std::string qos;
  int gpus = 0;
  double rate = 0;  // whole GPUs at once
  Time from{};
  Time to{};
  friend bool operator==(const Taken&, const Taken&) = default;
};

// The rate of a task that has been placed. usable_mib: of all GPUs of the server. alone: nobody may
// join it.
double RateOf(const TaskRecord& task, std::span<const std::int64_t> usable_mib, bool alone);
// The same of one that waits, as far as it is known before: promised_mib on each GPU.
double RateOf(const TaskRecord& task, std::int64_t promised_mib, std::int64_t usable_mib,
              bool alone);

// A user who works for himself, or for one of his accounts.
struct Holder {
  std::string account;
  std::uint32_t uid = 0;
  friend auto operator<=>(const Holder&, const Holder&) = default;
};
Holder HolderOf(const TaskRequest& request);

class FairShare {
 public:
  // What was taken and what counts of it by now.
  struct Use {
    double seconds = 0;  // of a whole GPU
    double rate = 0;     // that is being taken
  };

  explicit FairShare(const FairRules& rules) { Follow(rules); }
  void Follow(const FairRules& rules);  // from now on

  // The task takes that much from then on (not later than `now`), until Release. Once.
  void Take(const TaskRecord& task, double rate, Time from, Time now);
  void Release(TaskId task, Time now);  // one that takes nothing is passed over
  void Past(const Taken& taken, Time now);

  Use OfHolder(const Holder& holder, Time now) const;
  Use OfAccount(const std::string& account, Time now) const;
  double WeightOf(const std::string& who) const;  // a user's name, or "@account"

  std::size_t taking() const { return taking_.size(); }  // tasks
  // Another number whenever shares have changed otherwise than by time.
  std::uint64_t changes() const { return changes_; }

 private:
  // Exact at any time after `as_of`.
  struct Decaying {
    double seconds = 0;
    double rate = 0;
    Time as_of{};
  };
  struct Taking {
    Holder holder;
    double rate = 0;
  };
  double Half(Duration age) const;  // of what was taken at once so long ago
  // Of a rate from `from` to `to`, at `now`.
  double Sum(double rate, Time from, Time to, Time now) const;
  Use At(const Decaying& use, Time now) const;
  void Add(const Holder& holder, double seconds, double rate, Time now);
  void AddTo(Decaying& use, double seconds, double rate, Time now) const;

  Duration half_life_{};
  std::map<std::string, double, std::less<>> weights_;
  std::map<Holder, Decaying> holders_;
  std::map<std::string, Decaying> accounts_;          // sums of their users
  std::unordered_map<std::uint64_t, Taking> taking_;  // by task; for look-up only
  std::uint64_t changes_ = 0;
};

}  // namespace carma::core
