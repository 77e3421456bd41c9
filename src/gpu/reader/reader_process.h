// The client side of a carma-reader process.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <string>

#include "base/line_socket.h"
#include "gpu/reader/reader_wire.h"

namespace carma::gpu {

struct ReaderProgram {
  std::string path;  // path of carma-reader
  std::string nvml_library;
};

// Why there is no response.
struct NoAnswer {
  bool late = false;  // true: it may still arrive; false: the reader exited or sent garbage
  std::optional<std::uint32_t> asking;  // NVML's number for the GPU in question
};

// For use from a single thread, one request at a time. Unusable after a NoAnswer with late = false.
class ReaderProcess {
 public:
  // Returns the system's error if the process cannot be started.
  static Result<std::unique_ptr<ReaderProcess>> Start(const ReaderProgram& program);
  // Kills the process and waits briefly for it to exit. A process that hangs in the kernel is
  // abandoned.
  ~ReaderProcess();
  ReaderProcess(const ReaderProcess&) = delete;
  ReaderProcess& operator=(const ReaderProcess&) = delete;

  // gpu: NVML's number for the GPU that the request is about; none for several.
  void Ask(const ReaderRequest& request, std::optional<std::uint32_t> gpu = std::nullopt);
  // Waits for the response to the last request. patience: how long the reader may be silent; during
  // a listing, per GPU.
  std::expected<ReaderAnswer, NoAnswer> Await(std::chrono::milliseconds patience);
  // Number of killed readers that still hang in the kernel, in a call for this GPU; without a
  // number, in a call for the whole driver.
  static std::size_t LeftBehind(std::optional<std::uint32_t> gpu);

 private:
  ReaderProcess(pid_t pid, base::LineSocket socket) : pid_(pid), socket_(std::move(socket)) {}

  pid_t pid_;
  base::LineSocket socket_;
  std::optional<std::uint32_t> asking_;
};

}  // namespace carma::gpu
