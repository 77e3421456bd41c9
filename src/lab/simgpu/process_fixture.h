// Runs a function in a forked process. Tests read the process's output and wait for it to exit.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <string>
#include <utility>

#include "base/file.h"
#include "base/unique_fd.h"
#include "lab/simgpu/training.h"

namespace carma::simgpu {

class Process {
 public:
  explicit Process(const TrainingOptions& options)
      : Process([&options] { return RunTraining(options); }) {}
  // Runs `work` and exits with its result.
  explicit Process(const std::function<int()>& work) {
    int out[2], err[2];
    EXPECT_EQ(::pipe2(out, O_CLOEXEC) | ::pipe2(err, O_CLOEXEC), 0);
    std::fflush(nullptr);  // otherwise parent and child would both write the buffered output
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(out[1], 1);
      ::dup2(err[1], 2);
      for (const int fd : {out[0], out[1], err[0], err[1]}) ::close(fd);
      ::_exit(work());
    }
    ::close(out[1]);
    ::close(err[1]);
    out_.reset(out[0]);
    err_.reset(err[0]);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }
  // Reads stdout until it contains the text. Returns false if stdout ends before that.
  bool ReadUntil(const std::string& text) {
    char byte = 0;
    while (stdout_.find(text) == std::string::npos) {
      if (::read(out_.get(), &byte, 1) != 1) return false;
      stdout_ += byte;
    }
    return true;
  }
  // Reads everything, reaps the child, and returns its exit code, or the negative number of the
  // signal that killed it.
  int Wait() {
    stdout_ += base::ReadAll(out_.get(), 1 << 24).value_or("");
    stderr_ += base::ReadAll(err_.get(), 1 << 24).value_or("");
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  bool Runs() const {
    siginfo_t ended{};
    return ::waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           ended.si_pid == 0;
  }
  void Kill(int number) const { ::kill(pid_, number); }
  pid_t pid() const { return pid_; }
  const std::string& out() const { return stdout_; }
  const std::string& err() const { return stderr_; }

 private:
  pid_t pid_ = -1;
  base::UniqueFd out_, err_;
  std::string stdout_, stderr_;
};

}  // namespace carma::simgpu
