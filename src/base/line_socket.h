// Exchanges lines of text between two CARMA programs.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "base/unique_fd.h"

namespace carma::base {

// A connected socket that is read and written line by line.
class LineSocket {
 public:
  LineSocket() = default;
  explicit LineSocket(UniqueFd fd, std::size_t max_line = 4'096)
      : fd_(std::move(fd)), max_line_(max_line) {}

  int fd() const { return fd_.get(); }
  void Close() { fd_.reset(); }
  // Sends a line, given without its newline. Returns false if the peer is gone or is not reading.
  bool Send(std::string_view line) const;
  // Waits for the next line and returns it without its newline. Returns kUnavailable if no line
  // arrives in time, kNotFound if the peer is gone, or kInvalid if the line is longer than the
  // limit.
  Result<std::string> Receive(std::chrono::milliseconds timeout);
  // True if another line has already been received.
  bool HasLine() const { return pending_.contains('\n'); }

 private:
  std::optional<std::string> TakeLine();

  UniqueFd fd_;
  std::size_t max_line_ = 0;
  std::string pending_;
};

}  // namespace carma::base
