// Measures how much GPU memory a process uses before its first tensor, by creating a CUDA context.
// A child process creates the context, because the driver may hang or crash.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <vector>

#include "gpu/probe.h"

namespace carma::gpu {

inline constexpr const char* kCudaLibrary = "libcuda.so.1";
// carma, carma-reader and carma-lab just call HoldContext() if this is their only argument.
inline constexpr const char* kHoldContextWord = "--hold-cuda-context";

// Runs in the child. Creates a context on the only visible GPU, reports it in one line on standard
// output, keeps it until standard input closes, and releases it. Returns the exit code. Must be
// called before any thread is started. The child exits with its parent, unless the driver hangs.
int HoldContext();

// Why no context should be created on this GPU now: it would disturb other processes, or the
// measurement would be wrong. Returns a clause; empty if a context may be created.
std::string ContextObstacle(const DeviceInfo& info, const ReadResult<Reading>& reading);

struct ContextOptions {
  std::vector<std::string> holder;             // command line of a program that calls HoldContext()
  std::chrono::milliseconds patience{20'000};  // how long to wait for the context, in real time
  std::chrono::milliseconds settling{200};     // delay between two readings of the new process
  std::chrono::milliseconds kill_time{1'000};  // how long to wait for the end of a killed child
};

struct ContextCost {
  std::int64_t mib = 0;
  bool of_process = false;  // true: reported for the process; false: growth in the GPU's memory use
  friend bool operator==(const ContextCost&, const ContextCost&) = default;
};

struct ContextTrouble {
  enum class Kind {
    kNoLibrary,  // there is no CUDA driver library
    kRefused,    // the CUDA driver returned an error: cuda_code
    kHung,       // no answer within `patience`
    kDied,       // the child exited without a report
    kUnclear,    // a context was created, but its memory is unknown
    kMachine,    // the child could not be started
  };
  Kind kind = Kind::kMachine;
  std::string text;   // one line
  int cuda_code = 0;  // CUresult
};

// Creates a context on the probe's device `device` and measures its memory. The child sees only
// this GPU or instance and uses no MPS server. The child has exited when the function returns,
// unless the driver holds it in the kernel. Blocks for options.patience plus a few seconds, and for
// as long as the probe blocks, so call it only on a worker thread.
std::expected<ContextCost, ContextTrouble> MeasureContext(Probe& probe, std::size_t device,
                                                          const DeviceInfo& info,
                                                          const ContextOptions& options);

// Creates a context on the GPU or instance with this UUID, even if it is in use, and releases the
// context. Returns why CUDA programs do not work on the device; empty if they work or the result is
// unclear. If the process of an earlier test still hangs in the kernel, starts no new one, because
// each such process uses memory. Blocks like MeasureContext().
std::optional<ContextTrouble> TryContext(const std::string& uuid, const ContextOptions& options);

}  // namespace carma::gpu
