// Runs a program to completion within a time limit and returns its output.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace carma::task {

struct RunRequest {
  std::vector<std::string> words;
  std::string input = {};       // standard input of the program
  std::string more_input = {};  // content of its descriptor 3; empty: not opened
  // The program's environment as "NAME=value" strings; empty means this process's own.
  std::optional<std::vector<std::string>> environment = {};
  std::string folder = "/";                 // working folder; empty: this process's own
  std::size_t kept = 4096;                  // maximum bytes returned of `output`, and of `errors`
  std::chrono::milliseconds limit{10'000};  // after this, the program and its children are killed
  bool session = false;                     // run it in a new session
  bool together = false;                    // standard error becomes part of `output`
};
struct RunResult {
  int exit_code = 0;
  int signal = 0;      // 0: it exited
  bool late = false;   // it exceeded the time limit and was killed
  bool flood = false;  // it was killed because it wrote more than 64 MiB
  std::string output;  // only the beginning; the same for `errors`
  std::string errors;
};
// Runs the program without a shell. Does not block the caller if the program ignores its input or
// survives a kill. Fails with kNotFound (no such program) or kUnavailable.
Result<RunResult> RunBounded(const RunRequest& request);

}  // namespace carma::task
