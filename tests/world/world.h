// A small server that lives by chance: the real engine and store, on a disk that fails, with
// simulated processes, GPUs and time. What happens follows from one seed as a list of steps; after
// each of them the books must balance with what the processes and the people know.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace carma::world {

// One thing that happens. What `a` and `b` mean depends on how the world stands by then, so that a
// list stays a list when steps are taken out of it.
struct Step {
  std::string verb;
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  friend bool operator==(const Step&, const Step&) = default;
};

// Mistakes that are made on purpose, to see that they are found.
enum class Plant {
  kNone,
  kLostWakeUp,    // the engine asks to be woken and is not
  kDoubleStart,   // an attempt is started twice
  kKeptClaim,     // the end of a process is never told
  kFalseReason,   // a task that waits is told that it is held
  kSharedFolder,  // two tasks get one folder for their checkpoints
};

std::vector<Step> StepsOf(std::uint64_t seed, std::size_t count);

// Plays them, and then lets everything come to its end. Empty: nothing was wrong; else what was,
// and after which step.
struct Violation {
  std::string what;
  std::size_t step = 0;  // its place; steps.size(): at the end
};
std::optional<Violation> Play(const std::vector<Step>& steps, Plant plant = Plant::kNone);

// As few of the steps as still break a promise.
std::vector<Step> Shrunk(std::vector<Step> steps, Plant plant = Plant::kNone);

// As a file: a line for each, "at 12 submit 4711 815".
std::string ToText(const std::vector<Step>& steps);
// Errors: kInvalid.
base::Result<std::vector<Step>> StepsFromText(std::string_view text);

}  // namespace carma::world
