// Nothing that `carma profile` starts outlives it, however it ends. Each program runs below a
// keeper: a process of its own (`carma` with a word that people do not type) that holds one end of
// a pipe, adopts whatever its program leaves behind, and ends all of it when the other end is
// closed; the kernel closes it also after a kill -9 of `carma profile`. The keeper tells when its
// program began and ended by its own clock, so that a slow reader measures the same.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace carma::cli {

// As the first argument of `carma`.
inline constexpr std::string_view kKeepWord = "--keep";
// The keeper itself; arguments: what follows the word. Returns its exit code.
int RunKeeper(const std::vector<std::string>& arguments);

// What a program that is kept came to, by CLOCK_BOOTTIME.
struct KeptRun {
  std::int64_t began_ns = 0;
  std::int64_t ended_ns = 0;
  int code = 0;  // exit code, or 128 and the signal that ended it
};

// A program below a keeper. Destroying it ends the program, and waits until nothing of it is left.
class KeptProgram {
 public:
  struct Order {
    std::vector<std::string> command;
    std::vector<std::string> environment;  // "NAME=value", all of it
    std::string workdir;                   // empty: where we are
    std::string output;                    // file for its output and complaints, made anew
  };
  // Errors: the system's.
  static base::Result<KeptProgram> Start(const Order& order);
  KeptProgram(KeptProgram&& other) noexcept;
  KeptProgram& operator=(KeptProgram&&) = delete;
  ~KeptProgram();

  // Readable when there is news.
  int fd() const { return words_.get(); }
  // Takes the news; never blocks.
  void Listen();
  bool ended() const { return ended_; }
  // Once it has ended. Errors: kInvalid: the command cannot be run; kIo: its keeper was killed.
  base::Result<KeptRun> Outcome() const;
  // By CLOCK_BOOTTIME; empty: not told yet.
  std::optional<std::int64_t> began_ns() const { return began_ns_; }
  // Asks for its end: SIGTERM to all of it, SIGKILL after five seconds.
  void Stop() { lifeline_.reset(); }

 private:
  KeptProgram() = default;
  void Take(std::string_view line);

  pid_t keeper_ = 0;
  base::UniqueFd lifeline_, words_;
  std::string pending_;
  std::optional<std::int64_t> began_ns_, ended_ns_;
  int code_ = 0;
  std::string failure_;
  bool ended_ = false;
};

// An MPS control daemon with its server for one GPU, below a keeper, in a folder of its own.
class KeptMps {
 public:
  struct Order {
    std::string shim;     // path of carma-shim
    std::string program;  // collocation.mps_control
    std::string gpu;      // UUID
    std::string simgpu_state;
    std::chrono::milliseconds timeout{10'000};
  };
  // Blocks until its server takes clients. Errors: why there is none.
  static base::Result<KeptMps> Start(const Order& order);
  KeptMps(KeptMps&& other) noexcept;
  KeptMps& operator=(KeptMps&&) = delete;
  // Waits until daemon, server and folder are gone.
  ~KeptMps();

  // As task::MpsSetup::dir.
  const std::string& dir() const { return dir_; }

 private:
  KeptMps() = default;

  pid_t keeper_ = 0;
  base::UniqueFd lifeline_;
  std::string dir_;
};

}  // namespace carma::cli
