#include "gpu/read_error.h"

#include <fmt/format.h>

#include <utility>

#include "gpu/probe.h"

namespace carma::gpu {

ReadError::ReadError(ErrorCode kind, std::string what, std::string of)
    : code(kind), message(std::move(what)), gpu(std::move(of)) {}

ReadError::ReadError(base::Error error) : code(error.code), message(std::move(error.message)) {}

std::string ReadError::Sentence() const {
  return OfGpu(gpu, message);
}

std::unexpected<ReadError> FailRead(ErrorCode kind, std::string what, std::string gpu) {
  return std::unexpected(ReadError(kind, std::move(what), std::move(gpu)));
}

std::string OfGpu(const std::string& gpu, const std::string& what) {
  const bool made_up = gpu.starts_with(kUnknownGpu) || gpu.starts_with(kUnknownInstance);
  return gpu.empty() || made_up ? what : fmt::format("GPU {}: {}", gpu, what);
}

}  // namespace carma::gpu
