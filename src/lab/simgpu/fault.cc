#include "lab/simgpu/fault.h"

#include <fmt/format.h>

#include <ranges>

#include "base/text.h"
#include "gpu/nvml_abi.h"

namespace carma::simgpu {
namespace {

namespace nvml = gpu::nvml;

struct CodeName {
  nvml::Return code;
  std::string_view name;
  const char* text;
};
constexpr CodeName kCodeNames[] = {
    {nvml::kSuccess, "SUCCESS", "success"},
    {nvml::kUninitialized, "UNINITIALIZED", "the library is not initialised"},
    {nvml::kInvalidArgument, "INVALID_ARGUMENT", "invalid argument"},
    {nvml::kNotSupported, "NOT_SUPPORTED", "not supported by this GPU"},
    {nvml::kNoPermission, "NO_PERMISSION", "no permission"},
    {nvml::kNotFound, "NOT_FOUND", "not found"},
    {nvml::kInsufficientSize, "INSUFFICIENT_SIZE", "the buffer is too small"},
    {nvml::kDriverNotLoaded, "DRIVER_NOT_LOADED", "the driver is not loaded"},
    {nvml::kTimeout, "TIMEOUT", "timed out"},
    {nvml::kFunctionNotFound, "FUNCTION_NOT_FOUND", "the driver has no such function"},
    {nvml::kGpuIsLost, "GPU_IS_LOST", "GPU is lost"},
    {nvml::kResetRequired, "RESET_REQUIRED", "the GPU needs a reset"},
    {nvml::kLibRmVersionMismatch, "LIB_RM_VERSION_MISMATCH", "library and driver do not match"},
    {nvml::kMemory, "MEMORY", "not enough memory"},
    {nvml::kNoData, "NO_DATA", "no data"},
    {nvml::kInsufficientResources, "INSUFFICIENT_RESOURCES", "not enough resources"},
    {nvml::kArgumentVersionMismatch, "ARGUMENT_VERSION_MISMATCH", "unknown argument version"},
    {nvml::kUnknown, "UNKNOWN", "unknown error"},
};

}  // namespace

std::string FaultKinds() {
  return fmt::format("{}", fmt::join(kFaultKindWords | std::views::values, ", "));
}

Result<FaultKind> ParseFaultKind(std::string_view name) {
  if (const auto known = base::FromWord<FaultKind>(name)) return *known;
  return Invalid("unknown fault '{}', expected one of {}", base::Printable(name, 40), FaultKinds());
}

Result<std::int32_t> ParseNvmlCode(std::string_view text) {
  for (const CodeName& known : kCodeNames) {
    if (known.name == text) return known.code;
  }
  const auto number = base::ParseInt(text);
  if (number && *number > 0 && *number <= 999) return static_cast<std::int32_t>(*number);
  return Invalid(
      "unknown NVML error '{}', expected a name such as GPU_IS_LOST or TIMEOUT, or 1 to 999",
      base::Printable(text, 40));
}

const char* NvmlText(std::int32_t code) {
  for (const CodeName& known : kCodeNames) {
    if (known.code == code) return known.text;
  }
  return "unknown error";
}

}  // namespace carma::simgpu
