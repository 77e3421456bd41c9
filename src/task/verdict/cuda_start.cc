// Finds error messages of programs that could not initialise CUDA.
#include "task/verdict/cuda_start.h"

#include <algorithm>
#include <array>
#include <ranges>
#include <vector>

#include "base/text.h"

namespace carma::task {
namespace {

constexpr std::size_t kStartTailBytes = 16 << 10;
constexpr std::size_t kStartTailLines = 200;

constexpr std::array<std::string_view, 22> kNoDriverForms{
    "CUDA initialization",
    "No CUDA GPUs are available",
    "no CUDA-capable device is detected",
    "cudaErrorNoDevice",
    "CUDA_ERROR_NO_DEVICE",
    "CUDA driver version is insufficient",
    "cudaErrorInsufficientDriver",
    "system not yet initialized",
    "cudaErrorSystemNotReady",
    "CUDA_ERROR_SYSTEM_NOT_READY",
    "unsupported display driver / cuda driver combination",
    "cudaErrorSystemDriverMismatch",
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
    "Driver/library version mismatch",
    "cudaErrorInitializationError",
    "CUDA_ERROR_NOT_INITIALIZED",
    "failed call to cuInit",
    "CUDA-capable device(s) is/are busy or unavailable",
    "CUDA error: unknown error",
    "CUDA unknown error",
    "CUDA_ERROR_UNKNOWN",
    "Unable to initialize backend 'cuda'",
};

}  // namespace

std::optional<std::string> FindCudaStartText(std::string_view stderr_tail) {
  if (stderr_tail.size() > kStartTailBytes)
    stderr_tail.remove_prefix(stderr_tail.size() - kStartTailBytes);
  std::vector<std::string_view> lines = base::Split(stderr_tail, '\n');
  if (lines.size() > kStartTailLines) lines.erase(lines.begin(), lines.end() - kStartTailLines);
  for (const std::string_view line : std::views::reverse(lines)) {
    const bool says = std::ranges::any_of(
        kNoDriverForms, [line](std::string_view form) { return line.contains(form); });
    if (says) return base::Printable(line);
  }
  return std::nullopt;
}

}  // namespace carma::task
