// Computes the constant part of a training job's memory: its CUDA context and the library code that
// the model makes PyTorch load. docs/evidence/estimators.md gives the source of each value.
#pragma once

#include <string_view>

namespace carma::estimate {

// The loading mode. A library's kernels are loaded onto the GPU all at startup (eager) or each at
// its first use (lazy; optional since CUDA 11.7, the default since 12.2).
enum class Loading { kEager, kLazy };
// torch: PyTorch's version, such as "2.11.0+cu130". Returns kEager, which assumes more memory, if
// the version is unknown or does not load lazily.
Loading LoadingOf(std::string_view torch);

// The libraries that a model makes PyTorch load in addition to cuBLAS.
enum class Libraries {
  kPlain,         // nothing else
  kSequences,     // attention and table look-up kernels
  kConvolutions,  // cuDNN
};

struct LoadedCode {
  Loading loading = Loading::kEager;
  Libraries libraries = Libraries::kPlain;
  friend bool operator==(const LoadedCode&, const LoadedCode&) = default;
};

// The shipped constant for this code.
double ShippedMib(LoadedCode code);
// Memory that NCCL uses on each GPU of a multi-GPU task.
inline constexpr double kCollectivesMib = 566;
// Returns the code whose shipped constant is nearest to shipped_mib. No two codes have the same
// constant.
LoadedCode CodeOf(double shipped_mib);

// The loading mode whose shipped base (kPlain) is closer to base_mib.
Loading LoadingOfBase(double base_mib);
// base_mib plus the memory of the libraries, if they are loaded as in LoadingOfBase(base_mib).
double OnBaseMib(double base_mib, Libraries libraries);

}  // namespace carma::estimate
