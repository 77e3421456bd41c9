// The reasons why a task is waiting or has ended.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/copy_on_write.h"
#include "base/words.h"

namespace carma::core {

// Why a task is waiting or has reached its final state. Users see the code's name: "(GpuMemory)".
enum class ReasonCode : std::uint8_t {
  kNone,
  kPriority,         // tasks ahead in the queue are waiting too
  kResources,        // too few eligible GPUs, for mixed reasons
  kGpuMemory,        // every GPU's memory is claimed or used
  kSmBusy,           // SM activity above the cap
  kWarmUp,           // the GPU's samples do not yet show the last placement
  kHostBusy,         // the machine's cores are busy, so another task would starve
  kExclusive,        // needs an idle GPU, or an exclusive task holds it
  kDraining,         // closed by the administrator
  kDriverUpgrade,    // closed until the installed driver is loaded
  kGpuHealth,        // the driver is lost, or samples are stale or contradictory
  kTasksPerGpu,      // the GPU has as many tasks as allowed
  kRecoveryReserve,  // kept free for a task in recovery
  kHeld,             // held by its owner or an administrator
  kBeginTime,
  kDependency,
  kDependencyNeverMet,
  kArrayLimit,  // the array already has as many running tasks as allowed
  kBackoff,     // waits before its next attempt
  kPacing,      // the "as published" mode sleeps between decisions
  kEstimating,
  kNeverFits,
  kLaunchFailed,
  kOutOfMemory,
  kNonZeroExit,
  kSignal,
  kTimeLimit,
  kCancelledByUser,
  kRequeuedByUser,
  kNodeFail,        // lost with its machine or its shim
  kVictim,          // failed because of a neighbour's fault, not its own
  kGpuFault,        // failed because its own program caused a GPU fault (shown by its Xid)
  kMigInstance,     // a MIG instance cannot take a task that needs several GPUs
  kGain,            // it would add too little to the GPU's throughput
  kSlowdown,        // the task or a neighbour would be slowed down too much
  kIdleHolder,      // held GPUs without using them
  kMachineTrouble,  // launches on this machine are currently failing, or this one hangs
  kFairShare,       // other users have used less
  kLimit,           // a limit of its user, account or class is reached
  kRule,            // a site rule excludes the GPU
  kTimeSlot,        // its time slice was over while other tasks waited for its GPUs
  kPreempted,       // a task of a preempting class needed its GPUs
  kCpus,            // the server's cores are promised to others
  kHostMemory,      // the server's memory is promised to others
  kGpuChoice,       // not a GPU that the task asks for
  kNotLinked,       // the GPUs are not linked as the task requests
  kReserved,        // the GPUs are reserved for others
};
inline constexpr std::pair<ReasonCode, std::string_view> kReasonWords[] = {
    {ReasonCode::kNone, ""},
    {ReasonCode::kPriority, "Priority"},
    {ReasonCode::kResources, "Resources"},
    {ReasonCode::kGpuMemory, "GpuMemory"},
    {ReasonCode::kSmBusy, "SmBusy"},
    {ReasonCode::kWarmUp, "WarmUp"},
    {ReasonCode::kHostBusy, "HostBusy"},
    {ReasonCode::kExclusive, "Exclusive"},
    {ReasonCode::kDraining, "Draining"},
    {ReasonCode::kDriverUpgrade, "DriverUpgrade"},
    {ReasonCode::kGpuHealth, "GpuHealth"},
    {ReasonCode::kTasksPerGpu, "TasksPerGpu"},
    {ReasonCode::kRecoveryReserve, "RecoveryReserve"},
    {ReasonCode::kHeld, "Held"},
    {ReasonCode::kBeginTime, "BeginTime"},
    {ReasonCode::kDependency, "Dependency"},
    {ReasonCode::kDependencyNeverMet, "DependencyNeverMet"},
    {ReasonCode::kArrayLimit, "ArrayLimit"},
    {ReasonCode::kBackoff, "Backoff"},
    {ReasonCode::kPacing, "Pacing"},
    {ReasonCode::kEstimating, "Estimating"},
    {ReasonCode::kNeverFits, "NeverFits"},
    {ReasonCode::kLaunchFailed, "LaunchFailed"},
    {ReasonCode::kOutOfMemory, "OutOfMemory"},
    {ReasonCode::kNonZeroExit, "NonZeroExit"},
    {ReasonCode::kSignal, "Signal"},
    {ReasonCode::kTimeLimit, "TimeLimit"},
    {ReasonCode::kCancelledByUser, "CancelledByUser"},
    {ReasonCode::kRequeuedByUser, "RequeuedByUser"},
    {ReasonCode::kNodeFail, "NodeFail"},
    {ReasonCode::kVictim, "Victim"},
    {ReasonCode::kGpuFault, "GpuFault"},
    {ReasonCode::kMigInstance, "MigInstance"},
    {ReasonCode::kGain, "Gain"},
    {ReasonCode::kSlowdown, "Slowdown"},
    {ReasonCode::kIdleHolder, "IdleHolder"},
    {ReasonCode::kMachineTrouble, "MachineTrouble"},
    {ReasonCode::kFairShare, "FairShare"},
    {ReasonCode::kLimit, "Limit"},
    {ReasonCode::kRule, "Rule"},
    {ReasonCode::kTimeSlot, "TimeSlot"},
    {ReasonCode::kPreempted, "Preempted"},
    {ReasonCode::kCpus, "Cpus"},
    {ReasonCode::kHostMemory, "HostMemory"},
    {ReasonCode::kGpuChoice, "GpuChoice"},
    {ReasonCode::kNotLinked, "NotLinked"},
    {ReasonCode::kReserved, "Reserved"},
};

struct Reason {
  ReasonCode code = ReasonCode::kNone;
  // One simple sentence with the numbers, for `carma show` and `carma explain`. Empty for most
  // waiting tasks.
  base::CopyOnWrite<std::string> text;
  friend bool operator==(const Reason&, const Reason&) = default;
};

}  // namespace carma::core

// The names of reason codes in messages, the API and the store.
namespace carma {
template <>
inline constexpr base::Words<core::ReasonCode> base::kWordsOf<core::ReasonCode> =
    core::kReasonWords;
}  // namespace carma

namespace carma::core {

inline std::string_view ReasonName(ReasonCode code) {
  return base::WordOf(code);
}

}  // namespace carma::core
