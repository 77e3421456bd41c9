// What `carma doctor` looks at, and what it makes of it. Checks are functions of facts; gathering
// the facts (doctor_ask.h) stands apart, so that tests need no GPU, no root and no broken machine.
#pragma once

#include <cstddef>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
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
  kWarn,  // CARMA works, with less than it could
  kBad,   // something will not work
};
std::string_view LevelName(Level level);  // "ok", "warn", "bad"

struct Finding {
  std::string topic;  // "driver", "gpu 0", "rights" …
  Level level = Level::kOk;
  std::string text;                     // one line
  std::string remedy;                   // what to do, one line; empty for kOk
  std::optional<std::size_t> gpu = {};  // which one it is about, if about a single one
};

// A whole GPU, or one instance of a divided one.
struct GpuFacts {
  gpu::DeviceInfo info;
  gpu::ReadResult<gpu::Reading> reading;
};

struct DriverFacts {
  std::expected<gpu::DriverVersions, gpu::NoDriver> versions;
  base::Result<std::vector<GpuFacts>> gpus;
  std::string dcgm_trouble;
  bool simulated = false;
  bool hangs = false;  // it did not answer in time; `versions` says so
  std::vector<gpu::PendingMigMode> pending_mig = {};
  std::vector<gpu::UnevenMemory> uneven_memory = {};
};

// Versions of driver and library, or why there are none; then one or more findings per GPU: what is
// read from whom, by which rule tasks come to share it, and its condition; then what MIG means for
// the tasks of this server.
std::vector<Finding> CheckDriver(const DriverFacts& facts, const config::Settings& settings);

// One line per finding, its remedy below it; what is the same for several GPUs is said once. The
// worst is said last.
std::string DoctorText(const std::vector<Finding>& findings, const Screen& screen);
// {"worst":"warn","findings":[{"topic","level","text","remedy"}],"gpus":[{"uuid","name","pci",
// "activity":"gpm","counters":[names of what it counts],"values":[names of what else is told]}],
// "contexts":[{"gpu_type","gpu","measured_mib" or "not_measured","assumed_mib","taught_by"}]}.
std::string DoctorJson(const std::vector<Finding>& findings, const DriverFacts& facts,
                       const std::vector<ContextFacts>& contexts);
Level Worst(const std::vector<Finding>& findings);

}  // namespace carma::cli
