// Runs a small server under random events: the real engine and store on a disk that may fail, with
// simulated processes, GPUs and time. A seed determines a list of steps. After each step, the
// records must agree with the processes and with the answers that users got.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace carma::world {

// One event. The meaning of `a` and `b` depends on the world's state at that moment, so a list
// stays valid when steps are removed.
struct Step {
  std::string verb;
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  friend bool operator==(const Step&, const Step&) = default;
};

// Planted bugs that the randomised test must catch.
enum class Plant {
  kNone,
  kLostWakeUp,    // the engine requests a wake-up and gets none
  kDoubleStart,   // an attempt is started twice
  kKeptClaim,     // a process exit is never reported
  kFalseReason,   // a waiting task is shown as held
  kSharedFolder,  // two tasks share one checkpoint folder
  kLostTask,      // a finished task is deleted
};

std::vector<Step> StepsOf(std::uint64_t seed, std::size_t count);

// What went wrong, and at which step.
struct Violation {
  std::string what;
  std::size_t step = 0;  // index of the step; steps.size(): at the end
};
// Plays the steps, then lets all tasks end. Returns the first violation; empty if there is none.
std::optional<Violation> Play(const std::vector<Step>& steps, Plant plant = Plant::kNone);

// Returns a much shorter list of steps that still causes a violation.
std::vector<Step> Shrunk(std::vector<Step> steps, Plant plant = Plant::kNone);

// Formats the steps as a file, one line per step: "at 12 submit 4711 815".
std::string ToText(const std::vector<Step>& steps);
// Returns kInvalid if a line is not a valid step.
base::Result<std::vector<Step>> StepsFromText(std::string_view text);

}  // namespace carma::world
