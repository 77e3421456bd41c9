// What users, accounts and classes of tasks are entitled to, as an administrator says it: shares,
// priorities, limits. Plain values and their texts.
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
#include "core/values/task.h"

namespace carma::core {

// In which order tasks of one priority go.
enum class QueueOrder {
  kFifo,  // as they were submitted
  kFair,  // those first whose users and accounts have taken least (core/fair_share.h)
};
inline constexpr std::pair<QueueOrder, std::string_view> kQueueOrderWords[] = {
    {QueueOrder::kFifo, "fifo"},
    {QueueOrder::kFair, "fair"},
};

// What `--qos` may say. The priority is added to the task's own.
struct QosClass {
  std::string name;
  std::int64_t priority = 0;
  bool preempts = false;     // its tasks take the places of preemptible ones of less priority
  bool preemptible = false;  // its tasks leave for those
  friend bool operator==(const QosClass&, const QosClass&) = default;
};
// The class of tasks that name none; of priority 0 where it is not listed.
inline constexpr std::string_view kUsualQos = "normal";

// Who may use an account: these users, or everybody ("*").
struct AccountRule {
  std::string name;
  std::vector<std::string> users;
  friend bool operator==(const AccountRule&, const AccountRule&) = default;
};

// What a user, or an account ("@vision"), is entitled to beside others, who have 1.
struct ShareWeight {
  std::string who;
  double weight = 1;
  friend bool operator==(const ShareWeight&, const ShareWeight&) = default;
};

struct FairRules {
  Duration half_life{86'400'000};  // what was taken so long ago counts half
  // Of whom nothing has started for so long, although something of him stood in line, goes first.
  Duration patience{43'200'000};
  std::vector<ShareWeight> weights;
};

// A limit on those tasks that it names: a word names one user (account, class), "*" each of them by
// itself, and nothing all of them together.
struct LimitRule {
  std::string user;
  std::string account;
  std::string qos;
  std::optional<std::int64_t> running;          // tasks that hold GPUs
  std::optional<std::int64_t> gpus;             // that they hold, each task's counted
  std::optional<std::int64_t> memory_mib;       // that is promised to them
  std::optional<std::int64_t> cpus;             // likewise, of the server
  std::optional<std::int64_t> host_memory_mib;  // likewise
  std::optional<std::int64_t> queued;           // tasks that are not final
  std::optional<double> gpu_hours;  // of attempts that run or have ended within the period
  Duration period{};                // of gpu_hours
  std::optional<Duration> length;   // time limit of each
  friend bool operator==(const LimitRule&, const LimitRule&) = default;
};

// What becomes, at the end of its turn, of a task that is not known to save what it has done.
enum class WithoutCheckpoint {
  kNever,  // it stays
  kOnce,   // it leaves once, and is not asked again if it did not save then
  kEnd,    // it leaves
};
inline constexpr std::pair<WithoutCheckpoint, std::string_view> kWithoutCheckpointWords[] = {
    {WithoutCheckpoint::kNever, "never"},
    {WithoutCheckpoint::kOnce, "once"},
    {WithoutCheckpoint::kEnd, "end"},
};

// Turns on the GPUs (core/slots.h).
struct SlotRules {
  // A task that has run for so long leaves its place to one that waits for it; empty: never.
  std::optional<Duration> length;
  Duration notice{600'000};          // it is asked to save so long before
  Duration preempt_notice{60'000};   // likewise one that leaves for a class that preempts
  Duration shutdown_notice{90'000};  // likewise all that run when the machine goes down
  WithoutCheckpoint without_checkpoint = WithoutCheckpoint::kNever;
  // Asks tasks to save that name no signal of their own.
  std::string checkpoint_signal = "USR1";
  // With these exit codes says a task that was asked that it has saved and is to go on later.
  std::vector<int> exit_codes{85, 99};
  // Classes whose tasks may be excepted from slots (--no-slots); administrators always may.
  std::vector<std::string> exempt;
};

// "interactive priority=1000 preempts"; "vision: ada bob"; "ada=2"; "user=* qos=interactive
// running=1 gpu_hours=200/7d memory=80G cpus=32 host_memory=256G length=12h". What is read can be
// written. Errors: kInvalid, with what was expected.
base::Result<QosClass> ParseQosClass(std::string_view text);
base::Result<AccountRule> ParseAccountRule(std::string_view text);
base::Result<ShareWeight> ParseShareWeight(std::string_view text);
base::Result<LimitRule> ParseLimitRule(std::string_view text);
std::string TextOf(const QosClass& qos);
std::string TextOf(const AccountRule& account);
std::string TextOf(const ShareWeight& weight);
std::string TextOf(const LimitRule& rule);
// Whom the rule is about: "each user, class interactive".
std::string WhomOf(const LimitRule& rule);

// Of the class that the task is in.
std::string QosOf(const TaskRequest& request);
// Its user's name, or his number where the name is not known.
std::string UserOf(const TaskRequest& request);

}  // namespace carma::core

template <>
inline constexpr carma::base::Words<carma::core::QueueOrder>
    carma::base::kWordsOf<carma::core::QueueOrder> = carma::core::kQueueOrderWords;
template <>
inline constexpr carma::base::Words<carma::core::WithoutCheckpoint>
    carma::base::kWordsOf<carma::core::WithoutCheckpoint> = carma::core::kWithoutCheckpointWords;
