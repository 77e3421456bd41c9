// Faults of the simulated driver or of one of its GPUs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "base/words.h"

namespace carma::simgpu {

enum class FaultKind : std::uint32_t {
  kNone,
  kHang,           // calls block until the fault is cleared
  kLost,           // GPU_IS_LOST
  kError,          // the given NVML error, from the given function or from all functions
  kNanActivity,    // SM activity is NaN
  kUsedOverTotal,  // more memory is in use than the GPU has
  kNoMemoryValue,  // memory counters are the "not available" sentinel
  kStale,          // readings are frozen at their values when the fault began
  kVanish,         // no driver: every call returns DRIVER_NOT_LOADED, including nvmlInit
  kNoPidMemory,    // process memory is the "not available" sentinel
};

inline constexpr std::pair<FaultKind, std::string_view> kFaultKindWords[] = {
    {FaultKind::kHang, "hang"},
    {FaultKind::kLost, "lost"},
    {FaultKind::kError, "error"},
    {FaultKind::kNanActivity, "nan-activity"},
    {FaultKind::kUsedOverTotal, "used-over-total"},
    {FaultKind::kNoMemoryValue, "no-memory-value"},
    {FaultKind::kStale, "stale"},
    {FaultKind::kVanish, "vanish"},
    {FaultKind::kNoPidMemory, "no-process-memory"}};

inline constexpr std::int32_t kWholeDriver = -1;

struct Fault {
  FaultKind kind = FaultKind::kNone;
  std::int32_t gpu = kWholeDriver;
  std::int32_t code = 0;  // kError: the NVML return code
  std::string function;   // kError: "nvmlDeviceGetPowerUsage"; empty: every function
};

// The words for all faults: "hang, lost, …".
std::string FaultKinds();
// Returns kInvalid with the list of known names if the name is unknown.
Result<FaultKind> ParseFaultKind(std::string_view name);
// Parses "TIMEOUT", "GPU_IS_LOST" … (NVML's names without NVML_ERROR_) or a number. Returns
// kInvalid for anything else.
Result<std::int32_t> ParseNvmlCode(std::string_view text);
// NVML's text, such as "GPU is lost"; "unknown error" for codes unknown to NVML.
const char* NvmlText(std::int32_t code);

}  // namespace carma::simgpu

template <>
inline constexpr carma::base::Words<carma::simgpu::FaultKind>
    carma::base::kWordsOf<carma::simgpu::FaultKind> = carma::simgpu::kFaultKindWords;
