// How tasks share a GPU.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/words.h"

namespace carma::core {

// How the processes of one attempt share their GPUs. The core's caller chooses the method when it
// starts the attempt.
enum class SharingMethod {
  kUnknown,  // not started yet, started by an older daemon, or without GPUs
  kAlone,    // the task has no neighbours, now or later
  kStreams,  // the driver's time slices
  kMps,      // clients of an MPS server
  kMig,      // a MIG instance: the hardware enforces memory and SMs
};
inline constexpr std::pair<SharingMethod, std::string_view> kSharingMethodWords[] = {
    {SharingMethod::kUnknown, ""},        {SharingMethod::kAlone, "alone"},
    {SharingMethod::kStreams, "streams"}, {SharingMethod::kMps, "mps"},
    {SharingMethod::kMig, "mig"},
};
struct Sharing {
  SharingMethod method = SharingMethod::kUnknown;
  std::int64_t memory_limit_mib = 0;  // per process, enforced by the MPS server; 0 if none
  int thread_percent = 0;             // SM limit, enforced by the MPS server; 0 if none
  // The task's SM partition (the value of CUDA_MPS_SM_PARTITION) and its number of SMs. Empty and 0
  // if the task has no partition.
  std::string partition = {};
  int partition_sms = 0;
  // The GPUs of the task's MPS server, formatted like task::MpsServerId::gpus. Empty if the task is
  // not an MPS client.
  std::string server;
  std::string note;  // why this differs from the configuration, in one sentence; or empty
  // Limit on the total memory of the task's processes on each of its GPUs, enforced by the kernel;
  // 0 if there is none.
  std::int64_t group_limit_mib = 0;
  // Returns the smaller of the two limits, or 0 if there is none.
  std::int64_t LimitMib() const {
    if (memory_limit_mib == 0 || group_limit_mib == 0)
      return std::max(memory_limit_mib, group_limit_mib);
    return std::min(memory_limit_mib, group_limit_mib);
  }
  friend bool operator==(const Sharing&, const Sharing&) = default;
};

}  // namespace carma::core

// The names of sharing methods in messages, the API and the store.
namespace carma {
template <>
inline constexpr base::Words<core::SharingMethod> base::kWordsOf<core::SharingMethod> =
    core::kSharingMethodWords;
}  // namespace carma

namespace carma::core {

inline std::string_view SharingMethodName(SharingMethod method) {
  return base::WordOf(method);
}

}  // namespace carma::core
