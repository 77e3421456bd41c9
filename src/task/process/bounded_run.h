// Runs a program to its end within a time limit and returns its output.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace carma::task {

struct RunRequest {
  std::vector<std::string> words;
  std::string input = {};                                    // what it reads
  std::string more_input = {};                               // if not empty: at its descriptor 3
  std::optional<std::vector<std::string>> environment = {};  // "NAME=value" each; absent: ours
  std::string folder = "/";                                  // its working folder; empty: ours
  std::size_t kept = 4096;                  // kept bytes of its output, and of its errors
  std::chrono::milliseconds limit{10'000};  // then it is killed with its children
  bool session = false;                     // in a new session
  bool together = false;                    // what it writes to its errors is part of its output
};
struct RunResult {
  int exit_code = 0;
  int signal = 0;      // 0: it exited
  bool late = false;   // it was killed at the limit
  bool flood = false;  // it was killed because of its output, more than 64 MiB
  std::string output;  // the beginning of both
  std::string errors;
};
// Runs it without a shell. A program that does not read its input, or that even a kill does not
// end, cannot block us. Errors: kNotFound (no such program), kUnavailable.
Result<RunResult> RunBounded(const RunRequest& request);

}  // namespace carma::task
