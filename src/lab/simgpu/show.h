// Prints the state of a simulated server as a table or as JSON (carma-simgpu show).
#pragma once

#include <string>

#include "base/result.h"
#include "lab/simgpu/state.h"

namespace carma::simgpu {

// A table of GPUs, followed by tables of processes and faults if there are any.
Result<std::string> ShowText(Server& server);
// {"now_s", "time_scale", "origin_time_ms", "gpus": [{"index", "uuid", "type", "used_mib", …}],
//  "instances": [instances of MIG GPUs, each with its GPU's number as "gpu"],
//  "residents": [{"pid", "sharing", "work_left_s", "pace", "shares": [{"gpu", "memory_mib"}]}],
//  "faults": []}
Result<std::string> ShowJson(Server& server);

// Lists the processes, memory and memory limits that remain on the GPUs; empty if there are none.
// Returns the errors of Server::Look.
Result<std::string> Audit(Server& server);

}  // namespace carma::simgpu
