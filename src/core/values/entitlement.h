// Shares, priorities and limits of users, accounts and classes as plain values, and the texts that
// configure them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "base/words.h"
#include "core/values/ids.h"
#include "core/values/task_request.h"

namespace carma::core {

// The order of tasks with equal priority.
enum class QueueOrder {
  kFifo,  // in order of submission
  kFair,  // least usage first (core/books/fair_share.h)
};
inline constexpr std::pair<QueueOrder, std::string_view> kQueueOrderWords[] = {
    {QueueOrder::kFifo, "fifo"},
    {QueueOrder::kFair, "fair"},
};

// A value of `--qos`. The class's priority is added to the task's own priority.
struct QosClass {
  std::string name;
  std::int64_t priority = 0;
  bool preempts = false;     // its tasks may preempt tasks of preemptible classes of lower priority
  bool preemptible = false;  // its tasks may be preempted
  friend bool operator==(const QosClass&, const QosClass&) = default;
};
// Class of tasks that do not name one. It has priority 0 if it is not configured.
inline constexpr std::string_view kUsualQos = "normal";

// The users that may use an account; "*" stands for all users.
struct AccountRule {
  std::string name;
  std::vector<std::string> users;
  friend bool operator==(const AccountRule&, const AccountRule&) = default;
};

// The weight of a user or an account ("@vision"). A user or account without an entry has weight 1.
struct ShareWeight {
  std::string who;
  double weight = 1;
  friend bool operator==(const ShareWeight&, const ShareWeight&) = default;
};

struct FairRules {
  Duration half_life{86'400'000};  // usage of this age counts half as much
  // A user with waiting tasks goes first after this long without a start.
  Duration patience{43'200'000};
  std::vector<ShareWeight> weights;
};

// A limit on a set of tasks. In `user`, `account` and `qos`, a name applies the limit to that user,
// account or class only. "*" limits each one separately, and an empty value limits all of them
// together.
struct LimitRule {
  std::string user;
  std::string account;
  std::string qos;
  std::optional<std::int64_t> running;          // tasks that hold GPUs
  std::optional<std::int64_t> gpus;             // held by these tasks in total
  std::optional<std::int64_t> memory_mib;       // GPU memory promised to these tasks
  std::optional<std::int64_t> cpus;             // cores promised to these tasks
  std::optional<std::int64_t> host_memory_mib;  // host memory promised to these tasks
  std::optional<std::int64_t> queued;           // tasks that are not final
  std::optional<double> gpu_hours;              // used by attempts within the period
  Duration period{};                            // the period of gpu_hours
  std::optional<Duration> length;               // maximum time limit of a task
  friend bool operator==(const LimitRule&, const LimitRule&) = default;
};

// What happens to a task at the end of its time slice if it is not known to checkpoint.
enum class WithoutCheckpoint {
  kNever,  // the task stays
  kOnce,   // the task leaves once, but not again if it did not save
  kEnd,    // the task leaves
};
inline constexpr std::pair<WithoutCheckpoint, std::string_view> kWithoutCheckpointWords[] = {
    {WithoutCheckpoint::kNever, "never"},
    {WithoutCheckpoint::kOnce, "once"},
    {WithoutCheckpoint::kEnd, "end"},
};

// Time slices (core/policy/slots.h).
struct SlotRules {
  // How long a task may run before it must make room for a waiting task. If empty, there are no
  // time slices.
  std::optional<Duration> length;
  Duration notice{600'000};          // how long before the end a task is asked to checkpoint
  Duration preempt_notice{60'000};   // the same before a preemption
  Duration shutdown_notice{90'000};  // the same before the machine shuts down
  WithoutCheckpoint without_checkpoint = WithoutCheckpoint::kNever;
  // Checkpoint signal for tasks that do not name one.
  std::string checkpoint_signal = "USR1";
  // Exit codes that a task uses to report that it has saved and should be requeued.
  std::vector<int> exit_codes{85, 99};
  // Classes whose tasks may opt out of time slices (--no-slots). Administrators' tasks always may.
  std::vector<std::string> exempt;
};

// Parse and format texts such as "interactive priority=1000 preempts"; "vision: ada bob"; "ada=2";
// "user=* qos=interactive running=1 gpu_hours=200/7d memory=80G cpus=32 host_memory=256G
// length=12h". Invalid text yields kInvalid with the expected form.
Result<QosClass> ParseQosClass(std::string_view text);
Result<AccountRule> ParseAccountRule(std::string_view text);
Result<ShareWeight> ParseShareWeight(std::string_view text);
Result<LimitRule> ParseLimitRule(std::string_view text);
std::string TextOf(const QosClass& qos);
std::string TextOf(const AccountRule& account);
std::string TextOf(const ShareWeight& weight);
std::string TextOf(const LimitRule& rule);
// Describes the tasks that a rule applies to: "each user, class interactive".
std::string WhomOf(const LimitRule& rule);

// Returns the name of the request's class, or kUsualQos if it names none. Valid as long as the
// request.
const std::string& QosOf(const TaskRequest& request);
// The name of the request's user, or the UID if the name is unknown.
std::string UserOf(const TaskRequest& request);

}  // namespace carma::core

template <>
inline constexpr carma::base::Words<carma::core::QueueOrder>
    carma::base::kWordsOf<carma::core::QueueOrder> = carma::core::kQueueOrderWords;
template <>
inline constexpr carma::base::Words<carma::core::WithoutCheckpoint>
    carma::base::kWordsOf<carma::core::WithoutCheckpoint> = carma::core::kWithoutCheckpointWords;
