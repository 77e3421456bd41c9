// Ensures that no process started by `carma profile` outlives it. Each program runs under a keeper:
// a `carma` process that is started with a hidden argument and adopts the program's orphans. A pipe
// connects the keeper with `carma profile`. When `carma profile` ends, even by SIGKILL, the kernel
// closes the pipe, and the keeper terminates the program and all its orphans. The keeper also
// records when its program starts and exits, so a slow reader does not skew the measurement.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace carma::cli {

// Hidden first argument of `carma` that starts a keeper.
inline constexpr std::string_view kKeepWord = "--keep";
// Runs as the keeper and returns its exit code. arguments: those after the hidden one.
int RunKeeper(const std::vector<std::string>& arguments);

// How a program ran under its keeper. Times are in CLOCK_BOOTTIME.
struct KeptRun {
  std::int64_t began_ns = 0;
  std::int64_t ended_ns = 0;
  int code = 0;  // exit code, or 128 + the number of the signal that killed it
};

// A process that runs a program or an MPS server until its lifeline is closed.
struct Keeper {
  Keeper() = default;
  Keeper(Keeper&& other) noexcept
      : pid(std::exchange(other.pid, 0)),
        lifeline(std::move(other.lifeline)),
        words(std::move(other.words)) {}
  Keeper& operator=(Keeper&&) = delete;
  // Closes the lifeline and waits for the keeper to exit.
  ~Keeper();

  pid_t pid = 0;
  base::UniqueFd lifeline, words;
};

// A program that runs under a keeper. The destructor stops the program and waits until all of its
// processes have exited.
class KeptProgram {
 public:
  struct Order {
    std::vector<std::string> command;
    std::vector<std::string> environment;  // the whole environment as "NAME=value"
    std::string workdir;                   // empty: the current folder
    std::string output;                    // new file for stdout and stderr
  };
  // Starts a keeper that runs the program. Returns only system errors; Outcome() reports a command
  // that cannot be run.
  static Result<KeptProgram> Start(const Order& order);

  // A descriptor that becomes readable when the keeper has reported something.
  int fd() const { return keeper_.words.get(); }
  // Processes the keeper's reports; never blocks.
  void Listen();
  bool ended() const { return ended_; }
  // Returns the result once the program has exited, kInvalid if the command cannot be run, or kIo
  // if the keeper was killed.
  const Result<KeptRun>& Outcome() const { return outcome_; }
  // Stops the program: SIGTERM to all its processes, then SIGKILL after five seconds.
  void Stop() { keeper_.lifeline.reset(); }

 private:
  explicit KeptProgram(Keeper keeper) : keeper_(std::move(keeper)) {}

  Keeper keeper_;
  std::string pending_;
  Result<KeptRun> outcome_ = Fail(ErrorCode::kIo, "it was stopped");
  bool ended_ = false;
};

// An MPS control daemon that runs under a keeper, with its server for one GPU and a temporary
// folder. The destructor waits until all three are gone.
struct KeptMps {
  struct Order {
    std::string shim;     // path of carma-shim
    std::string program;  // path as in collocation.mps_control
    std::string gpu;      // UUID of the GPU
    std::string simgpu_state;
    std::chrono::milliseconds timeout{10'000};
  };
  // Blocks until the server accepts clients.
  static Result<KeptMps> Start(const Order& order);

  Keeper keeper;
  std::string dir;  // the MPS daemon's folder, for task::MpsSetup::dir
};

}  // namespace carma::cli
