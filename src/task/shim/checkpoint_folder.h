// The folder in which a task keeps what it saves (CARMA_CHECKPOINT_DIR): in its working directory,
// the same for all its starts. What is in it is the user's.
#pragma once

#include <string>

#include "base/result.h"
#include "task/shim/shim_protocol.h"

namespace carma::task {

// In the folder once something was saved: whose it is, one line of JSON. Not before, because
// programs take a folder that is not empty for one to go on from.
inline constexpr char kCheckpointOwnerFile[] = ".carma-task";

std::string CheckpointFolder(const ShimOrder& order);

// What follows runs with the user's rights.

// Makes it for a task that is known to save; one that may not have it there saves elsewhere.
// Errors: kConflict: one is there that is another user's, or a task's of another carmad.
base::Result<base::Unit> PrepareCheckpoints(const ShimOrder& order);

// At the end of a start: an empty one goes; any other says whose it is.
void SettleCheckpoints(const ShimOrder& order, const std::string& user);

}  // namespace carma::task
