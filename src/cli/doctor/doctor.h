// The facts and checks of `carma doctor`. The checks use only these facts, which ask.h gathers, so
// tests need no GPU, root privileges or broken machine.
#pragma once

#include <cstddef>
#include <expected>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/terminal.h"
#include "config/settings.h"
#include "gpu/memory_sum.h"
#include "gpu/mig_mode.h"
#include "gpu/nvml_probe.h"
#include "gpu/probe.h"

namespace carma::cli {

struct ContextFacts;

enum class Level {
  kOk,
  kWarn,  // CARMA works, but with limitations
  kBad,   // something will not work
};

struct Finding {
  std::string topic;  // "driver", "gpu 0", "rights" …
  Level level = Level::kOk;
  std::string text;                     // one line
  std::string remedy = {};              // what to do, one line; empty for kOk
  std::optional<std::size_t> gpu = {};  // if the finding is about a single GPU
};

// A whole GPU, or a MIG instance.
struct GpuFacts {
  gpu::DeviceInfo info;
  gpu::ReadResult<gpu::Reading> reading;
};

struct DriverFacts {
  std::expected<gpu::DriverVersions, gpu::NoDriver> versions;
  Result<std::vector<GpuFacts>> gpus;
  std::string dcgm_trouble;
  bool simulated = false;
  bool hangs = false;  // the driver did not answer in time (see `versions`)
  std::vector<gpu::PendingMigMode> pending_mig = {};
  std::vector<gpu::UnevenMemory> uneven_memory = {};
};

// Checks the versions of the driver and its library, or reports why there is no driver. Then checks
// each GPU's metric sources, sharing rule and condition, and explains the effect of MIG on tasks.
// settings.policy must be the policy for the sharing method in use (config::PolicyFor).
std::vector<Finding> CheckDriver(const DriverFacts& facts, const config::Settings& settings);

// One line for each finding, with its remedy below. Identical findings for several GPUs are merged.
// The last line names the worst level.
std::string DoctorText(const std::vector<Finding>& findings, const Screen& screen);
// {"worst":"warn","findings":[{"topic","level","text","remedy"}]}.
nlohmann::json FindingsJson(const std::vector<Finding>& findings);
// Returns the object of FindingsJson() with two more keys:
// "gpus":[{"uuid","name","pci","activity":"gpm","counters":[names of activity
// counters],"values":[names of other values]}] and "contexts":[{"gpu_type","gpu","measured_mib" or
// "not_measured","assumed_mib","taught_by"}].
std::string DoctorJson(const std::vector<Finding>& findings, const DriverFacts& facts,
                       const std::vector<ContextFacts>& contexts);
Level Worst(const std::vector<Finding>& findings);

}  // namespace carma::cli
