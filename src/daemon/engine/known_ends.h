// Looks up the final states of tasks that other tasks depend on.
#pragma once

#include <vector>

#include "core/values/task_request.h"
#include "core/values/task_state.h"
#include "store/store.h"

namespace carma::daemon {

// Sets `known_final` for all dependencies on tasks that have ended. Returns kNotFound for a
// dependency on an unknown task, and the errors of the store.
inline Result<Unit> FillKnownEnds(store::Store& store,
                                  std::vector<core::Dependency>& dependencies) {
  for (core::Dependency& dependency : dependencies) {
    Result<std::optional<core::TaskState>> state = store.StateOf(dependency.task);
    if (!state) return std::unexpected(state.error());
    if (!*state)
      return NotFound("cannot depend on task {}: no such task (see carma list --all)",
                      dependency.task);
    if (core::IsFinal(**state)) dependency.known_final = *state;
  }
  return Unit{};
}

}  // namespace carma::daemon
