// The folder for a task's checkpoints (CARMA_CHECKPOINT_DIR): in its working directory, the same
// for all its starts. Its contents are the user's.
#pragma once

#include <string>

#include "base/result.h"
#include "task/shim/shim_protocol.h"

namespace carma::task {

// Written to the folder once it has checkpoints: its owner, one line of JSON. Not before, because
// programs try to resume from a folder that is not empty.
inline constexpr char kCheckpointOwnerFile[] = ".carma-task";

std::string CheckpointFolder(const ShimOrder& order);

// The following functions run with the user's rights.

// Makes the folder for a task known to checkpoint; if it cannot be made there, the task has to save
// elsewhere. Errors: kConflict: it belongs to another user, or to a task of another carmad.
Result<Unit> PrepareCheckpoints(const ShimOrder& order);

// Called at the end of an attempt: removes the folder if it is empty, else writes the owner file.
void SettleCheckpoints(const ShimOrder& order, const std::string& user);

}  // namespace carma::task
