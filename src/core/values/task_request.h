// A task's request: what its submitter asked for, and the allowed range of each value.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fields.h"
#include "base/signal_name.h"
#include "base/words.h"
#include "core/values/ids.h"
#include "core/values/task_state.h"

namespace carma::core {

enum class DependencyKind { kAfterOk, kAfterAny, kAfterNotOk };
inline constexpr std::array<std::pair<DependencyKind, std::string_view>, 3> kDependencyWords{{
    {DependencyKind::kAfterOk, "afterok"},
    {DependencyKind::kAfterAny, "afterany"},
    {DependencyKind::kAfterNotOk, "afternotok"},
}};
struct Dependency {
  TaskId task{};
  DependencyKind kind = DependencyKind::kAfterOk;
  // Final state of `task`, filled in by the core's caller once `task` has left the core. Empty
  // while `task` is in the core. Exception: if `task` was requeued after the task that depends on
  // it had started, its final state stays here.
  std::optional<TaskState> known_final;

  static void VisitFields(auto& field, auto& dependency) {
    field("task", dependency.task, "Task number.",
          {.low = 1, .required = true, .expected = "a task number from 1"});
    field("kind", dependency.kind, "How the other task must end before this task may start.");
    field("known_final", dependency.known_final,
          "Final state of that task if the daemon no longer has a record of it; set by the daemon.",
          {.expected = "a final task state"});
  }
  friend bool operator==(const Dependency&, const Dependency&) = default;
};

// Allowed ranges for the values of a request. Every parser enforces them.
inline constexpr int kMaxGpus = 1024;
inline constexpr std::int64_t kMaxMemoryMib = std::int64_t{1} << 24;  // 16 TiB on one GPU
inline constexpr double kMinSmShare = 0.01;
inline constexpr double kMostSlowdown = 1000;
inline constexpr std::int64_t kMaxPriority = 1'000'000'000;
inline constexpr std::int64_t kMaxBeginMs = 7'258'118'400'000;  // the year 2200
inline constexpr std::size_t kMaxDependencies = 1000;
inline constexpr Duration kMaxTimeLimit = std::chrono::hours(24 * 3660);
inline constexpr Duration kMaxSignalBefore = std::chrono::seconds(65'535);  // the same as Slurm's
inline constexpr int kMaxRecoveries = 1000;
inline constexpr int kMaxCpus = 65'536;
inline constexpr std::int64_t kMaxHostMemoryMib = std::int64_t{1} << 30;  // 1 PiB
inline constexpr std::int64_t kMaxArrayIndex = 1'000'000'000;
// True if the text could be a GPU index or UUID.
bool IsGpuName(std::string_view name);
// True if the text could be part of a GPU model's name: letters, digits, blanks and "-_.", as in
// "a100" or "RTX 6000".
bool IsGpuTypeWord(std::string_view word);
inline constexpr base::FieldRule kGpuNames{.max_bytes = 64,
                                           .max_items = kMaxGpus,
                                           .fits = IsGpuName,
                                           .unless_empty = true,
                                           .expected = "a GPU index or UUID"};
// True if an account or a class may have this name: 1 to 64 letters, digits or any of '_', '-',
// '+', '.'.
bool IsShareName(std::string_view name);
inline constexpr base::FieldRule kShareName{
    .max_bytes = 64,
    .fits = IsShareName,
    .expected = "1 to 64 letters, digits or any of '_', '-', '+', '.'"};

// VisitFields lists the fields of a task's description in JSON (task/describe/spec.h). They are
// also columns of the store (store/tables.h).
struct TaskRequest {
  int gpus = 1;
  std::optional<std::int64_t> memory_mib;
  std::optional<int> cpus;
  std::optional<std::int64_t> host_memory_mib;
  bool own_cpus = false;
  std::optional<std::string> gpu_type;
  std::optional<std::int64_t> gpu_memory_min_mib;
  std::vector<std::string> on_gpus;
  std::vector<std::string> not_on_gpus;
  bool linked_gpus = false;
  bool exclusive = false;
  std::optional<double> sm_share;
  std::optional<double> max_slowdown;  // the smaller of this and the server's own limit applies
  std::int64_t priority = 0;
  std::uint32_t uid = 0;               // set by the daemon, not a JSON field
  std::string user;                    // the user's name, also set by the daemon; stored elsewhere
  std::optional<std::string> account;  // its usage is also charged to this account
  std::optional<std::string> qos;      // its class (core/values/entitlement.h); default: kUsualQos
  std::optional<Time> begin;
  std::vector<Dependency> dependencies;
  std::optional<Duration> time_limit;
  std::optional<Duration> signal_before;  // how long before the limit it gets a signal
  int max_recoveries = 3;
  bool requeue = true;
  bool no_slots = false;
  std::optional<std::string> checkpoint_signal;
  bool held = false;
  std::optional<TaskId> array;  // the first task of its array; set by the daemon, not a JSON field
  int array_limit = 0;

  static void VisitFields(auto& field, auto& task) {
    field("gpus", task.gpus,
          "Number of GPUs, all on one server; 0 if the task uses only CPU cores and memory.",
          {.low = 0, .high = kMaxGpus});
    field("memory_mib", task.memory_mib, "Expected peak memory per GPU, as stated by the user.",
          {.low = 1, .high = kMaxMemoryMib, .expected = "a number from 1 to 16777216 MiB per GPU"});
    field("cpus", task.cpus, "CPU cores reserved for the task.", {.low = 1, .high = kMaxCpus});
    field("host_memory_mib", task.host_memory_mib,
          "Host memory reserved for the task; it may not use more.",
          {.low = 1, .high = kMaxHostMemoryMib});
    field("own_cpus", task.own_cpus,
          "Whether the cores are dedicated: they do not change, and no other task may use them.",
          {.unless_empty = true});
    field("gpu_type", task.gpu_type, "Only GPUs whose model name contains this text, such as a100.",
          {.max_bytes = 64, .fits = IsGpuTypeWord, .expected = "part of a GPU name"});
    field("gpu_memory_min_mib", task.gpu_memory_min_mib,
          "Only GPUs with at least this much memory in total.", {.low = 1, .high = kMaxMemoryMib});
    field("on_gpus", task.on_gpus, "The only GPUs that the task may use.", kGpuNames);
    field("not_on_gpus", task.not_on_gpus, "GPUs that the task may not use.", kGpuNames);
    field("linked_gpus", task.linked_gpus, "Only GPUs that are connected to each other (NVLink).",
          {.unless_empty = true});
    field("exclusive", task.exclusive, "No other task may use its GPUs.");
    field("sm_share", task.sm_share,
          "Maximum share of each GPU's SMs, enforced only by sharing methods that can do so (MPS).",
          {.least = kMinSmShare, .most = 1, .expected = "a fraction from 0.01 to 1"});
    field("max_slowdown", task.max_slowdown,
          "Maximum predicted slowdown, relative to running alone; checked when the task is placed "
          "and when neighbours are added.",
          {.least = 1, .most = kMostSlowdown, .expected = "a number from 1 to 1000"});
    field("priority", task.priority,
          "Tasks with a higher value start first; only administrators may set it above 0.",
          {.low = -kMaxPriority, .high = kMaxPriority});
    field("account", task.account, "Account to which the task's GPU usage is charged.", kShareName);
    field("qos", task.qos, "The task's class: one of the configured classes, such as interactive.",
          kShareName);
    field("time_limit_s", task.time_limit, "The task is stopped after running this long.",
          {.low = 1,
           .high = kMaxTimeLimit.count(),
           .expected = "more than 0 seconds and at most 10 years"});
    field("signal_before_s", task.signal_before,
          "How long before its time limit the task gets a signal.",
          {.low = 1,
           .high = kMaxSignalBefore.count(),
           .expected = "more than 0 seconds and at most 65535"});
    field("begin_ms", task.begin, "The task is not started before this time (ms since the epoch).",
          {.low = 0, .high = kMaxBeginMs, .expected = "a time between the years 1970 and 2200"});
    field("dependencies", task.dependencies, "",
          {.max_items = kMaxDependencies, .unless_empty = true});
    field("max_recoveries", task.max_recoveries,
          "Maximum number of restarts after running out of GPU memory; 0 disables restarts.",
          {.low = 0, .high = kMaxRecoveries});
    field("requeue", task.requeue, "Whether the task is restarted if its machine or GPU is lost.");
    field("no_slots", task.no_slots, "Whether the task may keep running when its time slice ends.",
          {.unless_empty = true});
    field("checkpoint_signal", task.checkpoint_signal,
          "Signal that asks the task to save its work before it is stopped and requeued, such as "
          "USR1.",
          {.max_bytes = 16, .fits = base::IsSignalName, .expected = "a signal name such as USR1"});
    field("held", task.held, "Submitted on hold.");
    field("array_limit", task.array_limit,
          "Maximum number of the array's tasks that may run at once.",
          {.low = 1, .high = kMaxArrayIndex, .unless_empty = true});
  }
  friend bool operator==(const TaskRequest&, const TaskRequest&) = default;
};

}  // namespace carma::core

// The names of dependency kinds in messages, the API and the store.
namespace carma {
template <>
inline constexpr base::Words<core::DependencyKind> base::kWordsOf<core::DependencyKind> =
    core::kDependencyWords;
}  // namespace carma
