// The progress of an attempt in its folder: written by the shim, read by carmad.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/unique_fd.h"
#include "task/progress/report.h"
#include "task/progress/tracker.h"

namespace carma::task {

class ProgressFile {
 public:
  // With the rights of the daemon's user. Where the file cannot be made nothing is read.
  void Open(const std::string& attempt_dir);
  // The rights do not matter from here on. stream: 0 stdout, 1 stderr.
  void Take(int stream, std::string_view data);
  // Milliseconds until LookIfDue() has work; empty: none.
  std::optional<int> DueInMs() const;
  void LookIfDue();

 private:
  base::UniqueFd file_;
  ProgressTracker tracker_;
};

// What the shim wrote last; empty: nothing yet, or it is being written.
std::optional<ProgressReport> ReadProgressFile(const std::string& attempt_dir);

}  // namespace carma::task
