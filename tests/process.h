// Starts programs as children of a test, gives them input, and waits for them with a deadline,
// never with a fixed sleep.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace carma::system_test {

inline constexpr std::chrono::seconds kDeadline{60};

struct Ran {
  int code = -1;  // exit status; -1 if a signal killed the program
  int signal = 0;
  bool late = false;  // the program did not exit in time and was killed
  std::string out;
  std::string err;
  bool Ok() const { return code == 0; }
  // All results as text, for failure messages.
  std::string Text() const;
};

struct RunOptions {
  std::string input;                               // its standard input
  std::map<std::string, std::string> environment;  // in addition to the test's own, without CARMA_*
  std::string cwd;                                 // empty: the test's folder
  std::optional<uid_t> uid;  // run as this user, with this user's groups; needs root
  std::optional<rlim_t> max_file_bytes;
  std::chrono::milliseconds deadline = kDeadline;
};

// A running program. Its output goes to anonymous files, so the program never waits for a reader.
// The destructor kills the program if it is still running.
class Child {
 public:
  // If the program cannot be started, fails the test and returns a child that has already exited.
  // If the program is not installed, the failure names its Debian package.
  static Child Start(const std::vector<std::string>& argv, const RunOptions& options = {});
  Child() = default;
  Child(Child&& other) noexcept { *this = std::move(other); }
  Child& operator=(Child&& other) noexcept;
  ~Child();

  pid_t pid() const { return pid_; }
  // True from Start() until Wait() has returned.
  bool started() const { return pid_ > 0; }
  // A descriptor that is readable once the program has exited.
  int end_fd() const { return pidfd_.get(); }
  void Signal(int number) const;
  Ran Wait(std::chrono::milliseconds deadline = kDeadline);
  std::string Out() const;  // the output so far
  std::string Err() const;

 private:
  pid_t pid_ = 0;
  base::UniqueFd pidfd_, out_, err_;
};

Ran RunProgram(const std::vector<std::string>& argv, const RunOptions& options = {});

// Calls the function in a child process as this user, with this user's groups, and returns its
// result. Requires root.
std::string CallAsUser(uid_t uid, const std::function<std::string()>& function);

// Waits until the descriptor is readable. Returns false at the deadline.
bool WaitReadable(int fd, std::chrono::milliseconds deadline);

// A FIFO through which a task reports to the test that it has reached a certain point.
class Bell {
 public:
  explicit Bell(std::string path);
  const std::string& path() const { return path_; }
  // Returns one line written to the FIFO; empty if no line arrives in time.
  std::optional<std::string> Hear(std::chrono::milliseconds deadline = kDeadline);

 private:
  std::string path_;
  base::UniqueFd fd_;
  std::string rest_;
};

// Waits for the exit of a process that need not be a child of this one.
class Watched {
 public:
  explicit Watched(pid_t pid);
  bool Ends(std::chrono::milliseconds deadline = kDeadline) const;

 private:
  base::UniqueFd fd_;
};

}  // namespace carma::system_test
