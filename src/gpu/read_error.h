// Why a GPU could not be described or read.
#pragma once

#include <expected>
#include <string>

#include "base/result.h"

namespace carma::gpu {

struct ReadError {
  ReadError(ErrorCode kind, std::string what, std::string of = "");
  // An error of the driver as a whole. Implicit, so that such errors convert to ReadError.
  ReadError(base::Error error);

  // With the GPU's name, for output that does not show it: "GPU GPU-a: no UUID".
  std::string Sentence() const;
  // The error with that sentence, for callers without a notion of GPUs.
  base::Error AsError() const { return {code, Sentence()}; }

  ErrorCode code;
  std::string message;  // one line that does not name the GPU
  // The GPU's UUID, or its number in the driver's list if the UUID is unknown; empty: the error is
  // not about one GPU.
  std::string gpu;
};

template <class T>
using ReadResult = std::expected<T, ReadError>;

// `what` with the GPU's name before it, if it has one.
std::string OfGpu(const std::string& gpu, const std::string& what);

}  // namespace carma::gpu
