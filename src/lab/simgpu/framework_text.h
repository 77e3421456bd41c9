// What training frameworks print when a GPU has no memory left, in the shape they print it: the
// texts that out-of-memory detection has to recognise, with the numbers of the moment.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace carma::simgpu {

enum class Framework { kPyTorch, kTensorFlow, kJax };
// "pytorch", "tensorflow", "jax". Errors: kInvalid.
base::Result<Framework> ParseFramework(std::string_view name);

// An allocation that failed, as the process sees it.
struct FailedAllocation {
  int device = 0;  // the process's own numbering
  std::int64_t wanted_mib = 0;
  std::int64_t free_mib = 0;
  std::int64_t usable_mib = 0;
  std::int64_t own_mib = 0;  // what the process holds there already
};
// Ends with a newline. The exit code that follows is kOomExitCode for all of them: an uncaught
// exception.
std::string OomText(Framework framework, const FailedAllocation& failed);
inline constexpr int kOomExitCode = 1;

// An error that CUDA reports and the program does not survive.
struct CudaError {
  std::string_view name;  // "CUDA_ERROR_ILLEGAL_ADDRESS"
  std::string_view text;  // "an illegal memory access was encountered"
};
inline constexpr CudaError kIllegalAddress{"CUDA_ERROR_ILLEGAL_ADDRESS",
                                           "an illegal memory access was encountered"};
// Ends with a newline. The exit code that follows is kCudaExitCode.
std::string CudaErrorText(Framework framework, const CudaError& error);
inline constexpr int kCudaExitCode = 1;

// TensorFlow's remark about an allocation that it could do without: harmless, though it speaks of
// memory.
std::string HarmlessOomWarning(const FailedAllocation& failed);

// A Python traceback of a failure that has nothing to do with memory.
std::string PlainTraceback();

}  // namespace carma::simgpu
