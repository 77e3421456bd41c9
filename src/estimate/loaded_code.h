// The constant part of a training process's memory: its CUDA context, and the code of the libraries
// that its model makes PyTorch load. docs/evidence/estimators.md says what the values rest on.
#pragma once

#include <string_view>

namespace carma::estimate {

// When the code of a library comes to the GPU: all of it at the start, or each kernel when it is
// first used (CUDA 11.7 and newer, where the program asks for it; CUDA 12.2 and newer do unasked).
enum class Loading { kEager, kLazy };
// By PyTorch's version, "2.11.0+cu130". Without a version, or one that does not load lazily:
// kEager, which takes more.
Loading LoadingOf(std::string_view torch);

// What a model makes PyTorch load beside cuBLAS.
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

// As shipped.
double ShippedMib(LoadedCode code);
// Memory of NCCL on each GPU of a task with several GPUs.
inline constexpr double kCollectivesMib = 566;
// Which code such a shipped value stands for: the nearest. The values of all codes differ.
LoadedCode CodeOf(double shipped_mib);

// The loading that a base (kPlain) of so much is nearer to.
Loading LoadingOfBase(double base_mib);
// A base with the libraries on top, as that loading makes them.
double OnBaseMib(double base_mib, Libraries libraries);

}  // namespace carma::estimate
