// One carma-reader, seen from the side that asks.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <expected>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/line_socket.h"
#include "gpu/reader/reader_wire.h"

namespace carma::gpu {

struct ReaderProgram {
  std::string path;  // of carma-reader
  std::string nvml_library;
};

// Why there is no answer.
struct NoAnswer {
  bool late = false;  // it may still come; false: the reader has ended, or talks nonsense
  std::optional<std::uint32_t> asking;  // the GPU, by NVML's number, that it was asking about
};

// Of one thread. One question at a time; after a NoAnswer that is not late it is of no more use.
class ReaderProcess {
 public:
  // Errors: the system's.
  static base::Result<std::unique_ptr<ReaderProcess>> Start(const ReaderProgram& program);
  // Kills it, and waits a moment for its end: one that hangs in the kernel stays behind.
  ~ReaderProcess();
  ReaderProcess(const ReaderProcess&) = delete;
  ReaderProcess& operator=(const ReaderProcess&) = delete;

  void Ask(const ReaderRequest& request);
  // The answer to the last question. patience: without a sign, of a listing for each GPU anew.
  std::expected<ReaderAnswer, NoAnswer> Await(std::chrono::milliseconds patience);

 private:
  ReaderProcess(pid_t pid, base::LineSocket socket) : pid_(pid), socket_(std::move(socket)) {}

  pid_t pid_;
  base::LineSocket socket_;
  std::optional<std::uint32_t> asking_;
};

}  // namespace carma::gpu
