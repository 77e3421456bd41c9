// Strong types for task, task kind and GPU numbers, and aliases for times and task records.
#pragma once

#include <cstdint>
#include <map>

#include "base/time.h"

namespace carma::core {

using base::Duration;
using base::Time;

enum class TaskId : std::uint64_t {};
// Tasks of one user with the same KindId run the same program in the same way, so they need the
// same amount of memory. 0 if unknown. Set by the core's caller (docs/use/estimates.md).
enum class KindId : std::uint64_t {};
// Position in the server's GPU list, which is in PCI order. The store identifies GPUs by UUID
// instead.
enum class GpuIndex : std::uint32_t {};

constexpr std::uint64_t Number(TaskId id) {
  return static_cast<std::uint64_t>(id);
}
constexpr std::uint64_t Number(KindId kind) {
  return static_cast<std::uint64_t>(kind);
}
constexpr std::uint32_t Number(GpuIndex gpu) {
  return static_cast<std::uint32_t>(gpu);
}
// Formats the id as its number.
constexpr std::uint64_t format_as(TaskId id) {
  return Number(id);
}
constexpr std::uint32_t format_as(GpuIndex gpu) {
  return Number(gpu);
}

struct TaskRecord;  // core/values/task.h
// Tasks by id. The core keeps only tasks that are not final.
using TaskRecords = std::map<TaskId, TaskRecord>;

}  // namespace carma::core
