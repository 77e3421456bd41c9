#include "task/verdict/oom_detect.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <vector>

#include "base/text.h"
#include "task/verdict/allocator_words.h"

namespace carma::task {
namespace {

// Only messages this close to the end of the output can explain how the task ended. The range
// covers a Python traceback, torchrun's table and TensorFlow's call stacks, but not messages from
// long before the end, because the task survived their cause.
constexpr std::size_t kTailBytes = std::size_t{16} << 10;
constexpr std::size_t kTailLines = 200;

constexpr double kFull = 0.98;        // the device was full; no supporting message is needed
constexpr double kNearlyFull = 0.90;  // supports a message that only suggests a lack of memory

enum class Strength {
  kCertain,    // the message itself says "out of GPU memory"
  kSuspected,  // a library's allocation failed, which usually means the same
};

// One known error message. A line matches if it contains all parts, in any order.
struct Signature {
  std::array<std::string_view, 2> parts;
  Strength strength;
};

constexpr std::array kSignatures{
    // PyTorch 2.1 and newer, then older versions
    Signature{{"torch.OutOfMemoryError", ""}, Strength::kCertain},
    Signature{{"torch.cuda.OutOfMemoryError", ""}, Strength::kCertain},
    Signature{{"CUDA out of memory", ""}, Strength::kCertain},
    Signature{{"CUDA error: out of memory", ""}, Strength::kCertain},
    // CUDA's driver and runtime
    Signature{{"CUDA_ERROR_OUT_OF_MEMORY", ""}, Strength::kCertain},
    Signature{{"cudaErrorMemoryAllocation", ""}, Strength::kCertain},
    Signature{{"cudaMalloc", "out of memory"}, Strength::kCertain},
    Signature{{"CUDA runtime error", "out of memory"}, Strength::kCertain},
    Signature{{"CUDA driver error", "out of memory"}, Strength::kCertain},
    // TensorFlow
    Signature{{"OOM when allocating tensor", ""}, Strength::kCertain},
    Signature{{"ran out of memory trying to allocate", "Allocator (GPU"}, Strength::kCertain},
    Signature{{"ResourceExhaustedError", "failed to allocate memory"}, Strength::kCertain},
    // JAX and XLA
    Signature{{"RESOURCE_EXHAUSTED", "Failed to allocate request for"}, Strength::kCertain},
    Signature{{"RESOURCE_EXHAUSTED", "Out of memory"}, Strength::kCertain},
    Signature{{"RESOURCE_EXHAUSTED", "Failed to allocate"}, Strength::kCertain},
    // vLLM, if other tasks leave less memory than the share of the GPU that it reserves
    Signature{{"Free memory on device", "desired GPU memory utilization"}, Strength::kCertain},
    // NVIDIA's libraries
    Signature{{"CUBLAS_STATUS_ALLOC_FAILED", ""}, Strength::kSuspected},
    Signature{{"CUDNN_STATUS_ALLOC_FAILED", ""}, Strength::kSuspected},
    Signature{{"CUSOLVER_STATUS_ALLOC_FAILED", ""}, Strength::kSuspected},
    Signature{{"CUSPARSE_STATUS_INSUFFICIENT_RESOURCES", ""}, Strength::kSuspected},
};

// Errors that clients of an MPS server get when a neighbour breaks the server, or when the server
// terminates them (CUDA runtime errors 806, 807, 810). A refused connection or client slot (805,
// 808, 809) is not a neighbour's fault, and 719 alone is the task's own fault.
constexpr std::array<std::string_view, 9> kMpsFaults{
    "cudaErrorMpsRpcFailure",
    "cudaErrorMpsServerNotReady",
    "cudaErrorMpsClientTerminated",
    "CUDA_ERROR_MPS_RPC_FAILURE",
    "CUDA_ERROR_MPS_SERVER_NOT_READY",
    "CUDA_ERROR_MPS_CLIENT_TERMINATED",
    "remote procedural call between the MPS server and the MPS client failed",
    "MPS server is not ready to accept new MPS client requests",
    "MPS client has been terminated by the server",
};

// How CUDA reports a GPU fault (runtime errors 700, 710 and 714 to 719): the error message and the
// error's names in the runtime and the driver. A launch failure (719) can have other causes, such
// as a broken MPS server.
struct FaultText {
  std::array<std::string_view, 3> forms;
  bool by_program;  // only the program's own code can cause it
};
constexpr std::array kGpuFaults{
    FaultText{{"an illegal memory access was encountered", "cudaErrorIllegalAddress",
               "CUDA_ERROR_ILLEGAL_ADDRESS"},
              true},
    FaultText{{"device-side assert triggered", "cudaErrorAssert", "CUDA_ERROR_ASSERT"}, true},
    FaultText{
        {"hardware stack error", "cudaErrorHardwareStackError", "CUDA_ERROR_HARDWARE_STACK_ERROR"},
        true},
    FaultText{{"an illegal instruction was encountered", "cudaErrorIllegalInstruction",
               "CUDA_ERROR_ILLEGAL_INSTRUCTION"},
              true},
    FaultText{{"misaligned address", "cudaErrorMisalignedAddress", "CUDA_ERROR_MISALIGNED_ADDRESS"},
              true},
    FaultText{{"operation not supported on global/shared address space",
               "cudaErrorInvalidAddressSpace", "CUDA_ERROR_INVALID_ADDRESS_SPACE"},
              true},
    FaultText{{"invalid program counter", "cudaErrorInvalidPc", "CUDA_ERROR_INVALID_PC"}, true},
    FaultText{{"unspecified launch failure", "cudaErrorLaunchFailure", "CUDA_ERROR_LAUNCH_FAILED"},
              false},
};

constexpr std::array<std::string_view, 7> kCudaErrors{
    "CUDA error",     "CUDA_ERROR_",   "cudaError",           "CUDA driver error",
    "CUBLAS_STATUS_", "CUDNN_STATUS_", "unhandled cuda error"};

struct Finding {
  std::string_view line;
  std::size_t index = 0;  // position among the tail's lines
  Strength strength = Strength::kCertain;
};

bool Has(std::string_view line, std::string_view part) {
  return line.contains(part);
}

// The last kTailLines lines within the last kTailBytes bytes of the text.
std::vector<std::string_view> LastLines(std::string_view text) {
  if (text.size() > kTailBytes) {
    text.remove_prefix(text.size() - kTailBytes);
    // This may cut off the beginning of the first line, but what remains can still contain a
    // message.
  }
  std::vector<std::string_view> lines;
  for (std::string_view line : base::Split(text, '\n')) {
    line = base::Trim(line);
    // A progress bar overwrites itself with carriage returns, so only its last state counts.
    if (const std::size_t at = line.rfind('\r'); at != line.npos) line.remove_prefix(at + 1);
    if (!line.empty()) lines.push_back(line);
  }
  if (lines.size() > kTailLines)
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(kTailLines));
  return lines;
}

std::optional<Strength> Match(std::string_view line) {
  // TensorFlow prints this when it continues with less memory.
  if (Has(line, "this is not a failure")) return std::nullopt;
  // The same message can refer to host memory.
  if (Has(line, "device:CPU") || Has(line, "allocator cpu")) return std::nullopt;
  for (const Signature& signature : kSignatures) {
    if (Has(line, signature.parts[0]) && Has(line, signature.parts[1])) return signature.strength;
  }
  return std::nullopt;
}

// The last line that proves a lack of GPU memory, or else the last line that suggests one.
std::optional<Finding> FindOom(const std::vector<std::string_view>& lines) {
  std::optional<Finding> found;
  for (std::size_t i = lines.size(); i-- > 0;) {
    const std::optional<Strength> strength = Match(lines[i]);
    if (!strength) continue;
    if (*strength == Strength::kCertain) return Finding{lines[i], i, *strength};
    if (!found) found = Finding{lines[i], i, *strength};
  }
  return found;
}

// Returns true if this may be Python's last line: "ValueError: …", "torch.cuda.OutOfMemoryError:
// …", "KeyboardInterrupt".
bool IsExceptionLine(std::string_view line) {
  const std::string_view name = line.substr(0, line.find(':'));
  const bool dotted_name = !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.';
  });
  return dotted_name && (name.ends_with("Error") || name.ends_with("Exception") ||
                         name.ends_with("Interrupt") || name.ends_with("Exit"));
}

// Returns true for a TensorFlow or XLA log line such as "2026-03-01 14:05:59.123456: W
// tensorflow/…". A task may print such a line and continue normally.
bool IsLogLine(std::string_view line) {
  return Has(line, ": W ") || Has(line, ": E ") || Has(line, ": I ") || line.starts_with("W0") ||
         line.starts_with("E0") || line.starts_with("I0");
}

// Returns true if the exception may be due to a lack of GPU memory, because it mentions memory, a
// device or one of the GPU's libraries. Python's MemoryError does not count: it is about host
// memory.
bool MayBeGpuMemory(std::string_view line) {
  if (line.starts_with("MemoryError")) return false;
  const std::string lower = base::ToLower(line);
  constexpr std::array<std::string_view, 9> kWords{
      "cuda", "cudnn", "cublas", "cufft", "nccl", "alloc", "memory", "device", "childfailed"};
  return std::ranges::any_of(kWords, [&](std::string_view word) { return Has(lower, word); });
}

// The last Python exception at or after line `from`; empty if it may be about GPU memory.
std::optional<std::string_view> OtherException(const std::vector<std::string_view>& lines,
                                               std::size_t from) {
  for (std::size_t i = lines.size(); i-- > from;) {
    if (!IsExceptionLine(lines[i])) continue;
    if (Match(lines[i]) || MayBeGpuMemory(lines[i])) return std::nullopt;
    return lines[i];
  }
  return std::nullopt;
}

// The out-of-memory message that explains an abnormal end; empty if there is none.
std::optional<Finding> ExplainingOom(const std::vector<std::string_view>& lines,
                                     std::optional<double> device_full) {
  const std::optional<Finding> found = FindOom(lines);
  if (!found) return std::nullopt;
  if (found->strength == Strength::kSuspected && device_full && *device_full < kNearlyFull)
    return std::nullopt;
  if (IsLogLine(found->line) && OtherException(lines, found->index + 1)) return std::nullopt;
  return found;
}

// After an error message, PyTorch may print a line that only says where the error is documented.
bool IsPointer(std::string_view line) {
  return line.starts_with("Search for `cuda");
}

// The last line that satisfies `says`. A line that only points to an explanation is used only if no
// other line matches.
template <class Says>
std::optional<std::size_t> LastThat(const std::vector<std::string_view>& lines, Says says) {
  std::optional<std::size_t> pointer;
  for (std::size_t i = lines.size(); i-- > 0;) {
    if (!says(lines[i])) continue;
    if (!IsPointer(lines[i])) return i;
    if (!pointer) pointer = i;
  }
  return pointer;
}

std::optional<std::size_t> MpsFault(const std::vector<std::string_view>& lines) {
  return LastThat(lines, [](std::string_view line) {
    return std::ranges::any_of(kMpsFaults, [&](std::string_view text) { return Has(line, text); });
  });
}

struct GpuFault {
  std::string_view line;
  bool by_program = false;
};

const FaultText* FaultIn(std::string_view line) {
  const auto found = std::ranges::find_if(kGpuFaults, [&](const FaultText& fault) {
    return std::ranges::any_of(fault.forms, [&](std::string_view form) { return Has(line, form); });
  });
  return found == kGpuFaults.end() ? nullptr : &*found;
}

std::optional<GpuFault> FindGpuFault(const std::vector<std::string_view>& lines) {
  const std::optional<std::size_t> at =
      LastThat(lines, [](std::string_view line) { return FaultIn(line) != nullptr; });
  if (!at) return std::nullopt;
  return GpuFault{lines[*at], FaultIn(lines[*at])->by_program};
}

// Returns true if the signal comes from a user or the kernel. Such a task is not at fault and did
// not run out of GPU memory.
bool EndedFromOutside(int signal) {
  constexpr std::array<int, 5> kOutside{SIGHUP, SIGINT, SIGQUIT, SIGKILL, SIGTERM};
  return std::ranges::find(kOutside, signal) != kOutside.end();
}

// The last line that contains letters and does not merely recommend --help. Most programs print
// their error message there.
std::string_view LastWords(const std::vector<std::string_view>& lines) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  for (std::size_t i = lines.size(); i-- > 0;) {
    const bool only_help = lines[i].contains("--help") && !lines[i].contains(": ");
    if (!only_help && std::ranges::any_of(lines[i], is_letter)) return lines[i];
  }
  return {};
}

std::string OwnWords(const ExitEvidence& evidence, const std::vector<std::string_view>& lines) {
  // Shells report a child killed by signal n with exit code 128 + n.
  const bool shell_form =
      evidence.signal == 0 && evidence.exit_code > 128 && evidence.exit_code <= 128 + 64;
  const int signal = shell_form ? evidence.exit_code - 128 : evidence.signal;
  std::string words = evidence.signal != 0 ? "killed by signal " + std::to_string(signal)
                                           : "exit code " + std::to_string(evidence.exit_code);
  if (shell_form) words += ", which indicates signal " + std::to_string(signal);
  if (const char* name = ::sigabbrev_np(signal); signal != 0 && name != nullptr)
    words += " (SIG" + std::string(name) + ")";
  if (const auto exception = OtherException(lines, 0)) {
    words += ": " + base::Printable(*exception);
  } else if (!evidence.stopped_by_us && signal <= 0) {
    if (const std::string_view last = LastWords(lines); !last.empty())
      words += ": " + base::Printable(last);
  }
  return words;
}

// The task's own out-of-memory message. Empty if the task survived running out of memory and ended
// only because the MPS server broke.
std::optional<Finding> OwnOom(const ExitEvidence& evidence,
                              const std::vector<std::string_view>& lines) {
  const std::optional<Finding> found = ExplainingOom(lines, evidence.device_full);
  const std::optional<std::size_t> broke = MpsFault(lines);
  if (found && broke && IsLogLine(found->line) && *broke > found->index) return std::nullopt;
  return found;
}

// Describes a failure caused by another task or by the MPS server. Empty for any other failure.
std::optional<std::string> VictimOf(const ExitEvidence& evidence,
                                    const std::vector<std::string_view>& lines) {
  if (evidence.made_fault) return std::nullopt;
  if (const auto told = MpsFault(lines)) return base::Printable(lines[*told]);
  const std::optional<GpuFault> fault = FindGpuFault(lines);
  if (fault && evidence.mps_client && !evidence.fault_of.empty())
    return "hit by a fault caused by " + evidence.fault_of + ": " + base::Printable(fault->line);
  if (!evidence.server_broke) return std::nullopt;
  if (fault) {
    if (!evidence.neighbour_blamed) return std::nullopt;
    return "hit by a neighbour's fault: " + base::Printable(fault->line);
  }
  if (OtherException(lines, 0)) return std::nullopt;
  return "its MPS server failed; " + OwnWords(evidence, lines);
}

std::optional<std::string> OwnGpuFault(const ExitEvidence& evidence,
                                       const std::vector<std::string_view>& lines) {
  const std::string& announced = evidence.program_fault;
  const std::optional<GpuFault> fault = FindGpuFault(lines);
  if (fault && (fault->by_program || !announced.empty()))
    return (announced.empty() ? "" : announced + "; ") + base::Printable(fault->line);
  const bool own = evidence.made_fault || !evidence.neighbours;
  if (announced.empty() || !own || OtherException(lines, 0)) return std::nullopt;
  return announced + "; " + OwnWords(evidence, lines);
}

core::ExitInfo ClassifyFailure(const ExitEvidence& evidence,
                               const std::vector<std::string_view>& lines, core::ExitInfo info) {
  const auto verdict = [&info](core::ExitKind kind, std::string detail) {
    info.kind = kind;
    info.detail = std::move(detail);
    return info;
  };
  if (const auto finding = OwnOom(evidence, lines))
    return verdict(core::ExitKind::kOutOfMemory, base::Printable(finding->line));
  if (!evidence.device_fault.empty())
    return verdict(core::ExitKind::kDeviceFault, evidence.device_fault);
  if (auto victim = VictimOf(evidence, lines))
    return verdict(core::ExitKind::kVictim, *std::move(victim));
  if (auto fault = OwnGpuFault(evidence, lines))
    return verdict(core::ExitKind::kGpuFault, *std::move(fault));
  const int signal = evidence.signal != 0 ? evidence.signal : evidence.exit_code - 128;
  const bool full = evidence.device_full && *evidence.device_full >= kFull;
  if (full && !EndedFromOutside(signal) && !OtherException(lines, 0)) {
    return verdict(core::ExitKind::kOutOfMemory,
                   "GPU memory was " +
                       std::to_string(static_cast<int>(*evidence.device_full * 100)) +
                       " % full just before the end");
  }
  return verdict(core::ExitKind::kFailed, OwnWords(evidence, lines));
}

// Text that precedes the size of a failed allocation in PyTorch and in XLA's two allocators.
constexpr std::string_view kTriedPhrases[] = {
    "Tried to allocate ", "Failed to allocate request for ", "trying to allocate "};

}  // namespace

std::optional<std::string> FindOomText(std::string_view stderr_tail) {
  const std::optional<Finding> found = FindOom(LastLines(stderr_tail));
  if (!found) return std::nullopt;
  return base::Printable(found->line);
}

std::int64_t TriedToAllocateMib(std::string_view oom_text) {
  for (const std::string_view phrase : kTriedPhrases) {
    const std::size_t at = oom_text.find(phrase);
    if (at != std::string_view::npos) return SizeInMib(oom_text.substr(at + phrase.size()));
  }
  return 0;
}

std::optional<std::string> FindGpuFaultText(std::string_view stderr_tail) {
  const std::vector<std::string_view> lines = LastLines(stderr_tail);
  const std::optional<GpuFault> found = FindGpuFault(lines);
  if (!found) return std::nullopt;
  return base::Printable(found->line);
}

bool SpeaksOfCudaError(std::string_view stderr_tail) {
  const std::vector<std::string_view> lines = LastLines(stderr_tail);
  return std::ranges::any_of(lines, [](std::string_view line) {
    return std::ranges::any_of(kCudaErrors,
                               [line](std::string_view text) { return Has(line, text); });
  });
}

std::optional<std::string> FindMpsFaultText(std::string_view stderr_tail) {
  const std::vector<std::string_view> lines = LastLines(stderr_tail);
  const std::optional<std::size_t> found = MpsFault(lines);
  if (!found) return std::nullopt;
  return base::Printable(lines[*found]);
}

core::ExitInfo ClassifyExit(const ExitEvidence& evidence) {
  core::ExitInfo info;
  info.code = evidence.signal != 0 ? 0 : evidence.exit_code;
  info.signal = evidence.signal;
  if (evidence.lost) {
    info.kind = core::ExitKind::kLost;
    info.detail = "the attempt ended without a report";
    return info;
  }
  if (evidence.exit_code == 0 && evidence.signal == 0) return info;
  const std::vector<std::string_view> lines = LastLines(evidence.stderr_tail);
  if (evidence.stopped_by_us) {
    info.kind = core::ExitKind::kFailed;
    info.detail = OwnWords(evidence, lines);
    return info;
  }
  if (evidence.host_oom) {
    info.kind = core::ExitKind::kHostMemory;
    info.detail = "the kernel killed a process of the task because host memory ran out";
    return info;
  }
  return ClassifyFailure(evidence, lines, std::move(info));
}

}  // namespace carma::task
