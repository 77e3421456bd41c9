// Shows the progress of a long command: on a terminal as a single line that is updated in place,
// otherwise as an occasional new line. Progress goes to `err`, so `out` contains only the result.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "cli/command.h"
#include "cli/terminal.h"

namespace carma::cli {

class ProgressLine {
 public:
  // log_every: time between lines if `err` is not a terminal; empty for no lines.
  ProgressLine(Context& context, std::optional<std::chrono::seconds> log_every);
  // Updates the line. Call it from one thread only.
  void Show(const std::string& text);
  // Ends the line if it is open.
  void End();

 private:
  Context& context_;
  Screen screen_;
  std::optional<std::chrono::seconds> log_every_;
  std::optional<std::chrono::steady_clock::time_point> last_;
  bool open_ = false;
};

// Returns "[#####.....]  52 %, 0:12 to go". share: fraction of the work done, 0 to 1. elapsed: time
// spent on it.
std::string ProgressBar(double share, std::chrono::milliseconds elapsed);

}  // namespace carma::cli
