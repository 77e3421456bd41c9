// The constant part of a training process's memory: its CUDA context, and the code of the libraries
// that its model makes PyTorch load. docs/evidence/estimators.md shows where the values come from.
#pragma once

#include <string_view>

namespace carma::estimate {

// When the code of a library is loaded to the GPU: all of it at the start, or each kernel at its
// first use (CUDA 11.7 and newer if the program asks for it, CUDA 12.2 and newer by default).
enum class Loading { kEager, kLazy };
// torch: PyTorch's version, "2.11.0+cu130". Returns kEager, which takes more memory, if the version
// is unknown or does not load lazily.
Loading LoadingOf(std::string_view torch);

// What a model makes PyTorch load besides cuBLAS.
enum class Libraries {
  kPlain,         // nothing
  kSequences,     // kernels of attention and table look-ups
  kConvolutions,  // cuDNN
};

struct LoadedCode {
  Loading loading = Loading::kEager;
  Libraries libraries = Libraries::kPlain;
  friend bool operator==(const LoadedCode&, const LoadedCode&) = default;
};

// The shipped constant for this code.
double ShippedMib(LoadedCode code);
// Memory of NCCL on each GPU of a task with several GPUs.
inline constexpr double kCollectivesMib = 566;
// The code whose shipped value is nearest to this one. The values of all codes differ.
LoadedCode CodeOf(double shipped_mib);

// The way of loading whose shipped base (kPlain) is closer to base_mib.
Loading LoadingOfBase(double base_mib);
// base_mib plus the libraries, loaded in the way that LoadingOfBase() returns.
double OnBaseMib(double base_mib, Libraries libraries);

}  // namespace carma::estimate
