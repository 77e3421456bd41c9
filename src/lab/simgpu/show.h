// Shows a simulated server to people and programs (carma-simgpu show).
#pragma once

#include <string>

#include "base/result.h"
#include "lab/simgpu/state.h"

namespace carma::simgpu {

// A table of GPUs, then tables of processes and faults, if any.
Result<std::string> ShowText(Server& server);
// {"now_s", "time_scale", "origin_time_ms", "gpus": [{"index", "uuid", "type", "used_mib", …}],
//  "instances": of divided GPUs, with the number of theirs as "gpu",
//  "residents": [{"pid", "sharing", "work_left_s", "pace", "shares": [{"gpu", "memory_mib"}]}],
//  "faults": []}
Result<std::string> ShowJson(Server& server);

// Lists processes, memory and memory limits left on the GPUs; empty if there are none. Errors:
// those of Server::Look.
Result<std::string> Audit(Server& server);

}  // namespace carma::simgpu
