// The progress file in an attempt's folder. The shim writes it and carmad reads it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/unique_fd.h"
#include "task/progress/report.h"
#include "task/progress/tracker.h"

namespace carma::task {

class ProgressFile {
 public:
  // Needs the privileges of carmad's user. If the file cannot be created, progress is not tracked.
  void Open(const std::string& attempt_dir);
  // These calls work with any user's privileges. stream: 0 is stdout, 1 is stderr.
  void Take(int stream, std::string_view data);
  // Milliseconds until LookIfDue() has work; empty if it has none.
  std::optional<int> DueInMs() const;
  void LookIfDue();

 private:
  base::UniqueFd file_;
  ProgressTracker tracker_;
};

// The shim's latest report; empty if there is none yet or if it is being written at this moment.
std::optional<ProgressReport> ReadProgressFile(const std::string& attempt_dir);

}  // namespace carma::task
