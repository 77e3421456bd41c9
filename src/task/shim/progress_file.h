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
  // Needs the rights of carmad's user. If the file cannot be made, progress is not read.
  void Open(const std::string& attempt_dir);
  // This and the following calls do not depend on rights. stream: 0 stdout, 1 stderr.
  void Take(int stream, std::string_view data);
  // Milliseconds until LookIfDue() has work; empty: none.
  std::optional<int> DueInMs() const;
  void LookIfDue();

 private:
  base::UniqueFd file_;
  ProgressTracker tracker_;
};

// The shim's latest report; empty: none yet, or being written.
std::optional<ProgressReport> ReadProgressFile(const std::string& attempt_dir);

}  // namespace carma::task
