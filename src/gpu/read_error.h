// The error returned when a GPU cannot be described or read.
#pragma once

#include <expected>
#include <string>

#include "base/result.h"

namespace carma::gpu {

struct ReadError {
  ReadError(ErrorCode kind, std::string what, std::string of = "");
  // An error of the driver rather than of a single GPU. Implicit, so that an Error converts to a
  // ReadError.
  ReadError(base::Error error);

  // The message with the GPU's name, for output that does not show the GPU elsewhere: "GPU GPU-a:
  // no UUID".
  std::string Sentence() const;
  // Converts to a plain error, for code that does not deal with GPUs.
  base::Error AsError() const { return {code, Sentence()}; }

  ErrorCode code;
  std::string message;  // one line that does not name the GPU
  // The GPU's UUID, or its number in the driver's list if the UUID is unknown. Empty if the error
  // is not about one GPU.
  std::string gpu;
};

template <class T>
using ReadResult = std::expected<T, ReadError>;

std::unexpected<ReadError> FailRead(ErrorCode kind, std::string what, std::string gpu = "");

// Prefixes `what` with the GPU's name, unless the name is empty or made up (kUnknownGpu).
std::string OfGpu(const std::string& gpu, const std::string& what);

}  // namespace carma::gpu
