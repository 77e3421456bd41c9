// The blocks of a state-space model (Mamba) from its config.json.
#pragma once

#include "base/json.h"
#include "estimate/block_list.h"

namespace carma::estimate {

// layers: number of blocks; hidden: their width. The fused kernels of mamba_ssm keep the output of
// the input projection and the result, and recompute the rest. Without them the scan in plain code
// keeps its states for each token (BlockKeeps::without_kernels). second: Mamba 2, whose heads share
// the decay of their states. Mistakes are recorded in `in`.
BlockList ReadMamba(base::JsonReader& in, std::int64_t layers, std::int64_t hidden, bool second);

}  // namespace carma::estimate
