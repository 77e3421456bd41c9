// Shares, priorities and limits of users, accounts and classes, as configured. Plain values and
// their texts.
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

// Order of tasks of one priority.
enum class QueueOrder {
  kFifo,  // by submission
  kFair,  // least usage first (core/books/fair_share.h)
};
inline constexpr std::pair<QueueOrder, std::string_view> kQueueOrderWords[] = {
    {QueueOrder::kFifo, "fifo"},
    {QueueOrder::kFair, "fair"},
};

// A value of `--qos`. Its priority is added to the task's own.
struct QosClass {
  std::string name;
  std::int64_t priority = 0;
  bool preempts = false;     // may preempt preemptible ones of lower priority
  bool preemptible = false;  // may be preempted
  friend bool operator==(const QosClass&, const QosClass&) = default;
};
// The class of tasks that name none; priority 0 if not configured.
inline constexpr std::string_view kUsualQos = "normal";

// Who may use an account: these users, or everybody ("*").
struct AccountRule {
  std::string name;
  std::vector<std::string> users;
  friend bool operator==(const AccountRule&, const AccountRule&) = default;
};

// The weight of a user or an account ("@vision"); others have 1.
struct ShareWeight {
  std::string who;
  double weight = 1;
  friend bool operator==(const ShareWeight&, const ShareWeight&) = default;
};

struct FairRules {
  Duration half_life{86'400'000};  // usage of this age counts half
  // A user whose queued tasks have waited this long without any start goes first.
  Duration patience{43'200'000};
  std::vector<ShareWeight> weights;
};

// A limit on the tasks that it selects: a name selects one user (account, class), "*" selects each
// of them separately, and no value selects all of them together.
struct LimitRule {
  std::string user;
  std::string account;
  std::string qos;
  std::optional<std::int64_t> running;          // tasks that hold GPUs
  std::optional<std::int64_t> gpus;             // held by them in all
  std::optional<std::int64_t> memory_mib;       // promised to them
  std::optional<std::int64_t> cpus;             // cores promised to them
  std::optional<std::int64_t> host_memory_mib;  // as above
  std::optional<std::int64_t> queued;           // tasks that are not final
  std::optional<double> gpu_hours;              // of attempts within the period
  Duration period{};                            // of gpu_hours
  std::optional<Duration> length;               // time limit of each
  friend bool operator==(const LimitRule&, const LimitRule&) = default;
};

// What happens at the end of a time slice to a task that is not known to checkpoint.
enum class WithoutCheckpoint {
  kNever,  // it stays
  kOnce,   // leaves once; if it did not save, never again
  kEnd,    // it leaves
};
inline constexpr std::pair<WithoutCheckpoint, std::string_view> kWithoutCheckpointWords[] = {
    {WithoutCheckpoint::kNever, "never"},
    {WithoutCheckpoint::kOnce, "once"},
    {WithoutCheckpoint::kEnd, "end"},
};

// Time slices (core/policy/slots.h).
struct SlotRules {
  // A task that has run for this long makes room for a waiting one; empty: never.
  std::optional<Duration> length;
  Duration notice{600'000};          // how long before it is asked to checkpoint
  Duration preempt_notice{60'000};   // the same for preempted tasks
  Duration shutdown_notice{90'000};  // the same when the machine shuts down
  WithoutCheckpoint without_checkpoint = WithoutCheckpoint::kNever;
  // Checkpoint signal of tasks that name none.
  std::string checkpoint_signal = "USR1";
  // Exit codes by which a task reports that it has saved and should be requeued.
  std::vector<int> exit_codes{85, 99};
  // Classes whose tasks may opt out of time slices (--no-slots); administrators always may.
  std::vector<std::string> exempt;
};

// "interactive priority=1000 preempts"; "vision: ada bob"; "ada=2"; "user=* qos=interactive
// running=1 gpu_hours=200/7d memory=80G cpus=32 host_memory=256G length=12h". Parse these texts,
// and write them again. Errors: kInvalid, with what was expected.
Result<QosClass> ParseQosClass(std::string_view text);
Result<AccountRule> ParseAccountRule(std::string_view text);
Result<ShareWeight> ParseShareWeight(std::string_view text);
Result<LimitRule> ParseLimitRule(std::string_view text);
std::string TextOf(const QosClass& qos);
std::string TextOf(const AccountRule& account);
std::string TextOf(const ShareWeight& weight);
std::string TextOf(const LimitRule& rule);
// The tasks of a rule in words: "each user, class interactive".
std::string WhomOf(const LimitRule& rule);

// The name of the request's class.
std::string QosOf(const TaskRequest& request);
// The name of the request's user, or the user id if the name is unknown.
std::string UserOf(const TaskRequest& request);

}  // namespace carma::core

template <>
inline constexpr carma::base::Words<carma::core::QueueOrder>
    carma::base::kWordsOf<carma::core::QueueOrder> = carma::core::kQueueOrderWords;
template <>
inline constexpr carma::base::Words<carma::core::WithoutCheckpoint>
    carma::base::kWordsOf<carma::core::WithoutCheckpoint> = carma::core::kWithoutCheckpointWords;
