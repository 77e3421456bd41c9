// The administrator's program that is told of things, one at a time (idle.notify).
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "base/unique_fd.h"
#include "daemon/worker.h"

namespace carma::daemon {

// What the program reads about an idle holder.
struct IdleNotice {
  std::uint64_t task = 0;
  int attempt = 0;
  std::string name;
  std::string user;
  std::uint32_t uid = 0;
  std::vector<std::string> gpu_uuids;
  base::Time idle_since{};
  base::Time now{};
  std::string action;  // "tell", "share", "end": what CARMA does about it
};
// One JSON object on one line.
std::string ToLine(const IdleNotice& notice);

struct NoticesOptions {
  std::vector<std::string> program;         // absolute path and arguments; empty: nobody is told
  std::chrono::milliseconds limit{10'000};  // of one run; then it is killed with what it started
  std::size_t most = 64;                    // waiting; further ones are dropped
};

class Notices {
 public:
  explicit Notices(NoticesOptions options);
  // Ends a run that is under way; what waits is dropped.
  ~Notices();
  Notices(const Notices&) = delete;
  Notices& operator=(const Notices&) = delete;

  // The program is run with the line as its standard input: without a shell, as the daemon's user,
  // with nothing but PATH in its environment. Returns at once; failures are logged.
  void Tell(std::string line);
  // That program from now on; what was told before goes to the one of its time.
  void Use(std::vector<std::string> program) { options_.program = std::move(program); }

 private:
  NoticesOptions options_;
  base::UniqueFd stop_;  // readable: no more
  std::atomic<bool> stopping_ = false;
  std::atomic<std::size_t> waiting_ = 0;
  Worker worker_;  // last: it ends first, and touches the others
};

// One run, awaited. Errors: kUnavailable (cannot be started, took too long, was stopped, failed).
// stop: a descriptor that becomes readable when the run shall end; -1: none.
base::Result<base::Unit> RunNotice(const std::vector<std::string>& program, const std::string& line,
                                   std::chrono::milliseconds limit, int stop);

}  // namespace carma::daemon
