// What a process pays on a GPU before its first tensor: the memory of a CUDA context, measured by
// making one. The driver may hang or crash over it, so a child makes it: a program run anew that
// loads the CUDA driver, of which every function is looked for by name.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "gpu/probe.h"

namespace carma::gpu {

inline constexpr const char* kCudaLibrary = "libcuda.so.1";
// The only argument with which `carma` does the child's part.
inline constexpr const char* kHoldContextWord = "--hold-cuda-context";

// The child's part: makes the context of the only GPU that CUDA shows it, tells so in one line on
// standard output, keeps it until standard input ends, and releases it. Returns the exit code. To
// be called before any thread is there; a hanging driver keeps it for ever, its parent's end not.
int HoldContext();

// Why no context should be made on this GPU now: it would disturb somebody, or measure something
// else. Empty: it may be. For the middle of a sentence.
std::string ContextObstacle(const DeviceInfo& info, const ReadResult<Reading>& reading);

struct ContextOptions {
  std::vector<std::string> holder;             // words of a program that calls HoldContext()
  std::chrono::milliseconds patience{20'000};  // real time until the context is there
  std::chrono::milliseconds settling{200};     // between two looks of the driver at the new process
};

struct ContextCost {
  std::int64_t mib = 0;
  bool of_process = false;  // told for the process; false: by how much the GPU's use grew
  friend bool operator==(const ContextCost&, const ContextCost&) = default;
};

struct ContextTrouble {
  enum class Kind {
    kNoLibrary,  // there is no CUDA driver library
    kRefused,    // the CUDA driver answered with an error: cuda_code
    kHung,       // nothing came within the patience
    kDied,       // the child ended without a word
    kUnclear,    // a context was made, and what it takes cannot be told
    kMachine,    // the child could not be started
  };
  Kind kind = Kind::kMachine;
  std::string text;   // one line
  int cuda_code = 0;  // CUresult
};

// Makes a context on the probe's device of that number and tells what it takes. The child sees that
// GPU or instance alone and joins nobody's MPS server; it is gone when this returns, unless the
// driver holds it in the kernel. Blocks for the patience and some seconds at most, and as long as
// the probe does; worker only.
std::expected<ContextCost, ContextTrouble> MeasureContext(Probe& probe, std::size_t device,
                                                          const DeviceInfo& info,
                                                          const ContextOptions& options);

// Makes a context on the GPU or instance of that UUID, whoever else is there, and lets it go. What
// it returns keeps CUDA programs from working there; empty: nothing does, or it cannot be told.
// Blocks like MeasureContext().
std::optional<ContextTrouble> TryContext(const std::string& uuid, const ContextOptions& options);

}  // namespace carma::gpu
