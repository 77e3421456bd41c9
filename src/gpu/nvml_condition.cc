#include "gpu/nvml_condition.h"

#include <cstdint>
#include <utility>

#include "base/try.h"

namespace carma::gpu {
namespace {

ReadResult<Unit> AskEcc(NvmlCalls& calls, const NvmlDevice& device, Condition& condition) {
  if (!calls.api.ecc) return Unit{};
  constexpr std::uint64_t kMostErrors = std::uint64_t{1} << 53;  // still exact in JSON
  for (const auto& [kind, target] :
       {std::pair(nvml::kEccCorrected, &condition.ecc_corrected),
        std::pair(nvml::kEccUncorrected, &condition.ecc_uncorrected)}) {
    std::uint64_t errors = 0;
    const bool given = CARMA_TRY(calls.Given(
        device.info.uuid, calls.api.ecc(device.board, kind, nvml::kEccSinceLoad, &errors),
        "ECC errors", Weight::kTells));
    if (given && errors <= kMostErrors) *target = static_cast<std::int64_t>(errors);
  }
  return Unit{};
}

ReadResult<Unit> AskRecovery(NvmlCalls& calls, const NvmlDevice& device, Condition& condition) {
  if (!calls.api.fields) return Unit{};
  nvml::FieldValue field{};
  field.field_id = nvml::kFieldRecoveryAction;
  nvml::Return code = calls.api.fields(device.board, 1, &field);
  if (code == nvml::kSuccess) code = field.result;
  const bool given =
      CARMA_TRY(calls.Given(device.info.uuid, code, "recovery action", Weight::kTells));
  if (given && field.value_type == nvml::kTypeUnsignedInt) {
    const bool known =
        field.value.count <= static_cast<std::uint32_t>(RecoveryAction::kDrainAndReset);
    condition.recovery =
        known ? static_cast<RecoveryAction>(field.value.count) : RecoveryAction::kOther;
  }
  return Unit{};
}

}  // namespace

ReadResult<Condition> AskCondition(NvmlCalls& calls, const NvmlDevice& device) {
  Condition condition;
  if (calls.api.remapped) {
    std::uint32_t corrected = 0, uncorrected = 0, pending = 0, failed = 0;
    const bool given = CARMA_TRY(
        calls.Given(device.info.uuid,
                    calls.api.remapped(device.board, &corrected, &uncorrected, &pending, &failed),
                    "remapped rows", Weight::kTells));
    if (given && corrected != nvml::kNoValue32 && uncorrected != nvml::kNoValue32) {
      condition.rows_remapped = std::int64_t{corrected} + uncorrected;
      condition.remap_pending = pending != 0;
      condition.remap_failed = failed != 0;
    }
  }
  if (calls.api.compute_mode) {
    std::uint32_t mode = 0;
    const bool given =
        CARMA_TRY(calls.Given(device.info.uuid, calls.api.compute_mode(device.board, &mode),
                              "compute mode", Weight::kTells));
    if (given && mode <= static_cast<std::uint32_t>(ComputeMode::kExclusiveProcess))
      condition.compute_mode = static_cast<ComputeMode>(mode);
  }
  condition.mig = CARMA_TRY(AskMig(calls, device.board, device.info.uuid));
  CARMA_TRY(AskEcc(calls, device, condition));
  CARMA_TRY(AskRecovery(calls, device, condition));
  return condition;
}

}  // namespace carma::gpu
