// Measures the GPU usage of users and accounts, so that those with the least usage go first.
//
// A task is charged from the decision to start it until the attempt ends. On each of its GPUs, the
// charge is the largest of its promised memory share, its predicted SM share, and 1 / max_slowdown.
// A task that does not share its GPUs is charged for whole GPUs. Usage is in whole-GPU seconds and
// counts half as much after each half-life.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

#include "core/values/entitlement.h"
#include "core/values/ids.h"
#include "core/values/task_request.h"

namespace carma::core {

// The usage of one attempt.
struct Taken {
  std::uint32_t uid = 0;
  std::string user;
  std::string account;  // empty if charged to its user alone
  std::string qos;
  int gpus = 0;
  double rate = 0;  // in whole GPUs
  Time from{};
  Time to{};
  friend bool operator==(const Taken&, const Taken&) = default;
};

// The rate, in GPUs, at which a placed task is charged. usable_mib: usable memory of each of the
// server's GPUs. alone: the task does not share its GPUs.
double RateOf(const TaskRecord& task, std::span<const std::int64_t> usable_mib, bool alone);
// The rate at which a waiting task would be charged. promised_mib: per GPU.
double RateOf(const TaskRecord& task, std::int64_t promised_mib, std::int64_t usable_mib,
              bool alone);

// A user within an account, or a user without an account.
struct Holder {
  std::string account;
  std::uint32_t uid = 0;
  friend auto operator<=>(const Holder&, const Holder&) = default;
};
Holder HolderOf(const TaskRequest& request);

class FairShare {
 public:
  // Decayed usage and its current growth rate.
  struct Use {
    double seconds = 0;  // whole-GPU seconds
    double rate = 0;     // total rate of the running tasks, in whole GPUs
  };

  explicit FairShare(const FairRules& rules) { Follow(rules); }
  void Follow(const FairRules& rules);  // applies from now on

  // Charges the task at this rate until Release, starting at `from` (not later than `now`). Call it
  // once per task.
  void Take(const TaskRecord& task, double rate, Time from, Time now);
  // Stops charging the task as of `ended` (not later than `now`). Does nothing if the task is not
  // being charged.
  void Release(TaskId task, Time ended, Time now);
  void Past(const Taken& taken, Time now);

  Use OfHolder(const Holder& holder, Time now) const;
  Use OfAccount(const std::string& account, Time now) const;
  double WeightOf(const std::string& who) const;  // a user's name, or "@account"

  std::size_t taking() const { return taking_.size(); }  // number of charged tasks
  // Incremented whenever shares change for any reason other than decay.
  std::uint64_t changes() const { return changes_; }

 private:
  // A decaying sum. `seconds` is its value at `as_of`; later values are computed from it.
  struct Decaying {
    double seconds = 0;
    double rate = 0;
    Time as_of{};
  };
  struct Taking {
    Holder holder;
    double rate = 0;
  };
  double Half(Duration age) const;  // weight of usage of this age
  // The value at `now`, after decay, of usage that accumulated at a constant rate between `from`
  // and `to`.
  double Sum(double rate, Time from, Time to, Time now) const;
  Use At(const Decaying& use, Time now) const;
  void Add(const Holder& holder, double seconds, double rate, Time now);
  void AddTo(Decaying& use, double seconds, double rate, Time now) const;

  Duration half_life_{};
  std::map<std::string, double, std::less<>> weights_;
  std::map<Holder, Decaying> holders_;
  std::map<std::string, Decaying> accounts_;          // sums over each account's users
  std::unordered_map<std::uint64_t, Taking> taking_;  // by task; for look-up only
  std::uint64_t changes_ = 0;
};

}  // namespace carma::core
