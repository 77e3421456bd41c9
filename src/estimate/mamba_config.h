// The blocks of a state-space model (Mamba) from its config.json.
#pragma once

#include "base/json.h"
#include "estimate/block_list.h"

namespace carma::estimate {

// layers blocks of this width. What the fused kernels of mamba_ssm keep: what the input projection
// made, and the result; the rest they compute again. Without them the written-out scan keeps its
// states for each token, which BlockKeeps::without_kernels has. second: Mamba 2, whose heads share
// the decay of their states. Mistakes are left in `in`.
BlockList ReadMamba(base::JsonReader& in, std::int64_t layers, std::int64_t hidden, bool second);

}  // namespace carma::estimate
