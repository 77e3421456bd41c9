#include "cli/doctor/context.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "gpu/same_gpus.h"

namespace carma::cli {
namespace {

using Kind = gpu::ContextTrouble::Kind;

// Errors from cuInit or context creation that an administrator can fix.
struct KnownCode {
  int code;
  const char* remedy;
};
constexpr KnownCode kCodes[] = {
    {2, "its memory is in use by an unlisted process: see nvidia-smi on the host"},
    {46, "another process has exclusive use of this GPU: check Compute Mode in nvidia-smi -q"},
    {100, "CUDA sees no GPUs: check that /dev/nvidia* and /dev/nvidia-uvm exist and can be opened"},
    {101,
     "CUDA does not find the GPU that NVML shows: check that both libraries are from the same "
     "driver"},
    {802, "start the fabric manager (nvidia-fabricmanager): GPUs behind NVSwitch need it"},
    {803,
     "libcuda and the loaded kernel driver have different versions: reboot, or reload the kernel "
     "driver"},
    {804, "libcuda is too new for this driver: remove the CUDA compatibility package"},
    {999, "load the nvidia-uvm module (nvidia-modprobe -u), and see the kernel log (dmesg)"},
};

std::string RemedyOf(const gpu::ContextTrouble& trouble) {
  switch (trouble.kind) {
    case Kind::kNoLibrary:
      return "install the driver's CUDA library; in a container, NVIDIA_DRIVER_CAPABILITIES must "
             "include compute";
    case Kind::kRefused: {
      const auto* const known = std::ranges::find(kCodes, trouble.cuda_code, &KnownCode::code);
      return known != std::end(kCodes) ? known->remedy
                                       : "every CUDA program will fail like this; see the kernel "
                                         "log (dmesg) for NVRM and Xid lines";
    }
    case Kind::kHung:
    case Kind::kDied:
      return "see the kernel log (dmesg) for NVRM and Xid lines; a reset or a reboot may be "
             "needed";
    case Kind::kUnclear:
      return "try again while nothing is starting on the GPU; run as root on the host, where the "
             "driver lists processes";
    case Kind::kMachine:
      return "run carma doctor from a complete installation, or use --no-measure";
  }
  return "";
}

// kBad for a problem that also affects tasks, kWarn for a problem that affects only the
// measurement.
Level LevelOf(Kind kind) {
  const bool of_driver = kind == Kind::kRefused || kind == Kind::kHung || kind == Kind::kDied;
  return of_driver ? Level::kBad : Level::kWarn;
}

// The origin of the constant, which is shown if the server does not explain its choice.
std::string ConstantText(const AssumedContext& assumed) {
  if (assumed.taught_by.empty()) return "as shipped";
  return fmt::format("learned from {} on {}", base::Counted(assumed.tasks, "task"),
                     base::Printable(assumed.taught_by, 60));
}

std::string AssumedText(const AssumedContext& assumed) {
  return fmt::format(
      "estimates assume {} MiB, including PyTorch and cuBLAS ({})", assumed.mib,
      assumed.reason.empty() ? ConstantText(assumed) : base::Printable(assumed.reason, 200));
}

Finding Compare(const std::string& type, const gpu::ContextCost& cost,
                const AssumedContext& assumed) {
  Finding finding{"context", Level::kOk,
                  fmt::format("{}: {} MiB (measured{}); {}", type, cost.mib,
                              cost.of_process ? "" : " by the increase in GPU memory use",
                              AssumedText(assumed))};
  // The assumed value includes libraries, and only finished tasks show how much memory those need.
  // So only a value below the measured context is certainly wrong.
  const std::int64_t libraries_mib = assumed.mib - cost.mib;
  if (libraries_mib >= 0) return finding;
  finding.level = Level::kWarn;
  finding.text += fmt::format(": {} MiB less than the bare context, so predictions are too low",
                              -libraries_mib);
  finding.remedy =
      assumed.learns ? "run tasks with a model summary: after five have finished, CARMA uses this "
                       "server's value (docs/inside/estimators.md)"
                     : "set estimate.history = true: after five tasks with a model summary have "
                       "finished, CARMA uses this server's value (docs/inside/estimators.md)";
  return finding;
}

// True if the GPU is hung or lost, or cannot be read for a reason other than its MIG layout.
bool IsSilent(const GpuFacts& gpu) {
  return gpu.info.trouble.empty() ? !gpu.reading : !gpu::IsDescribed(gpu.info);
}

}  // namespace

std::vector<ContextCandidate> ContextCandidates(const std::vector<GpuFacts>& gpus) {
  std::vector<ContextCandidate> candidates;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    if (gpus[i].info.name.empty()) continue;  // nothing is known about this GPU
    std::string obstacle = gpu::ContextObstacle(gpus[i].info, gpus[i].reading);
    const auto same = std::ranges::find_if(candidates, [&](const ContextCandidate& candidate) {
      return gpus[candidate.gpu].info.name == gpus[i].info.name;
    });
    if (same == candidates.end()) {
      candidates.push_back({i, std::move(obstacle)});
    } else if (!same->obstacle.empty() && obstacle.empty()) {
      *same = {i, ""};
    }
  }
  const auto silent = std::ranges::find_if(gpus, &IsSilent);
  if (silent == gpus.end()) return candidates;
  for (ContextCandidate& candidate : candidates) {
    if (candidate.obstacle.empty())
      candidate.obstacle = fmt::format("gpu {} does not respond, and CUDA may hang waiting for it",
                                       silent - gpus.begin());
  }
  return candidates;
}

Finding CheckContext(const ContextFacts& facts) {
  const std::string type = base::Printable(facts.gpu_type, 80);
  if (!facts.not_measured.empty()) {
    return {"context", Level::kOk,
            fmt::format("{}: not measured, {}; {}", type, facts.not_measured,
                        AssumedText(facts.assumed))};
  }
  if (facts.cost) return Compare(type, *facts.cost, facts.assumed);
  return {"context", LevelOf(facts.cost.error().kind),
          fmt::format("{}: cannot measure a context on gpu {}: {}", type, facts.gpu,
                      base::Printable(facts.cost.error().text)),
          RemedyOf(facts.cost.error())};
}

}  // namespace carma::cli
