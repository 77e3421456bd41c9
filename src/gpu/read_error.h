// Why a GPU could not be described or read.
#pragma once

#include <expected>
#include <string>

#include "base/result.h"

namespace carma::gpu {

struct ReadError {
  ReadError(base::ErrorCode kind, std::string what, std::string of = "");
  // What concerns the driver as a whole. Implicit, so that its errors pass through readings as they
  // stand.
  ReadError(base::Error error);

  // For people who are not shown it beside the GPU: "GPU GPU-a: no UUID".
  std::string Sentence() const;
  // For callers that know of no GPUs: with that sentence.
  base::Error AsError() const { return {code, Sentence()}; }

  base::ErrorCode code;
  std::string message;  // one line that does not name the GPU
  // Its UUID, or its number in the driver's list as long as that is all that is known; empty: none
  // in particular.
  std::string gpu;
};

template <class T>
using ReadResult = std::expected<T, ReadError>;

// `what` with the GPU's name before it, if it has one.
std::string OfGpu(const std::string& gpu, const std::string& what);

}  // namespace carma::gpu
