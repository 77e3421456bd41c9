// The folder for a task's checkpoints (CARMA_CHECKPOINT_DIR). It is in the task's working directory
// and is shared by all attempts. Its contents belong to the user.
#pragma once

#include <string>

#include "base/result.h"
#include "task/shim/shim_protocol.h"

namespace carma::task {

// Names the folder's owner in one line of JSON. Written only once the folder contains checkpoints,
// because programs try to resume from any folder that is not empty.
inline constexpr char kCheckpointOwnerFile[] = ".carma-task";

std::string CheckpointFolder(const ShimOrder& order);

// The following functions run with the user's privileges.

// Creates the folder for a task that is known to checkpoint. If this fails, the task must save
// elsewhere. Returns kConflict if the folder belongs to another user, or to a task of another
// carmad.
Result<Unit> PrepareCheckpoints(const ShimOrder& order);

// Called at the end of an attempt. Removes the folder if it is empty; otherwise writes the owner
// file.
void SettleCheckpoints(const ShimOrder& order, const std::string& user);

}  // namespace carma::task
