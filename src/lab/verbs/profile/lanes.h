// The GPUs that workloads are measured on.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "gpu/probe.h"
#include "lab/verbs/profile/plan.h"

namespace carma::cli {

// Where a run takes place: a whole GPU, or the instances of one type on a divided GPU.
struct Lane {
  std::string gpu_type;
  std::string board;                 // UUID of the whole GPU; lanes of one take turns
  std::vector<std::size_t> devices;  // indexes in the driver's list
  std::vector<std::string> uuids;    // of these
  bool mig = false;
};
// chosen: numbers in the list; empty: all usable ones. Errors: kNotFound: no such GPU, or one in
// trouble.
base::Result<std::vector<Lane>> LanesOf(std::span<const gpu::DeviceInfo> devices,
                                        std::span<const std::size_t> chosen);
// The types of the lanes, each once, with the largest number of instances of a lane.
std::vector<ProfiledType> TypesOf(std::span<const Lane> lanes);

}  // namespace carma::cli
