// The out-of-memory messages of training frameworks, in their original wording, filled in with the
// numbers of the failed allocation. The out-of-memory detection must recognise them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace carma::simgpu {

enum class Framework { kPyTorch, kTensorFlow, kJax };
// Parses "pytorch", "tensorflow" or "jax". Returns kInvalid for any other name.
Result<Framework> ParseFramework(std::string_view name);

// A failed allocation as the process sees it.
struct FailedAllocation {
  int device = 0;  // in the process's own numbering
  std::int64_t wanted_mib = 0;
  std::int64_t free_mib = 0;
  std::int64_t usable_mib = 0;
  std::int64_t own_mib = 0;  // memory that the process already holds on this device
};
// Returns text that ends with a newline. Every framework then exits with kOomExitCode, because
// nothing catches the exception.
std::string OomText(Framework framework, const FailedAllocation& failed);
inline constexpr int kOomExitCode = 1;

// A CUDA error that terminates the program.
struct CudaError {
  std::string_view name;  // "CUDA_ERROR_ILLEGAL_ADDRESS"
  std::string_view text;  // "an illegal memory access was encountered"
};
inline constexpr CudaError kIllegalAddress{"CUDA_ERROR_ILLEGAL_ADDRESS",
                                           "an illegal memory access was encountered"};
// Returns text that ends with a newline. The program then exits with kCudaExitCode.
std::string CudaErrorText(Framework framework, const CudaError& error);
inline constexpr int kCudaExitCode = 1;

// TensorFlow's harmless warning about a failed optional allocation on the first GPU.
std::string HarmlessOomWarning(std::int64_t wanted_mib);

// A Python traceback of a failure unrelated to memory.
std::string PlainTraceback();

}  // namespace carma::simgpu
