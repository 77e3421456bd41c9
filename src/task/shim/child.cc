#include "task/shim/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>

#include "base/file.h"
#include "base/open_files.h"
#include "base/spawn.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "task/process/cgroup.h"

namespace carma::task {
namespace {

using base::UniqueFd;

constexpr std::size_t kMaxAnswerBytes = 8192;
// Returns true if the error is a temporary problem on the machine rather than the task's fault.
bool Passing(int error) {
  return error == EAGAIN || error == ENOMEM || error == EMFILE || error == ENFILE ||
         error == ETXTBSY || error == EIO || error == EINTR || error == ESTALE;
}

LaunchError Failure(int error, const std::string& what) {
  return {what + ": " + std::strerror(error), Passing(error)};
}

LaunchError EnterFailure(int error, const std::string& workdir) {
  return Failure(error, "cannot enter the working directory '" + workdir + "'");
}

LaunchError ExecFailure(int error, const std::string& program) {
  const std::string quoted = "'" + base::Printable(program) + "'";
  if (error == ENOENT && base::Exists(program))
    return {"cannot run " + quoted + ": its interpreter does not exist", false};
  if (error == ENOEXEC)
    return {"cannot run " + quoted + ": it is neither a program nor a script with a #! line",
            false};
  if (error == E2BIG)
    return {"cannot run " + quoted + ": its arguments and environment are too large", false};
  return Failure(error, "cannot run " + quoted);
}

// Returns only if no program could be run.
LaunchError Exec(const ChildPlan& plan, const std::vector<std::string>& arguments) {
  const std::vector<char*> argv = base::Argv(arguments), block = base::Argv(plan.block);
  const std::string& name = arguments.front();
  if (name.contains('/')) {
    ::execve(name.c_str(), argv.data(), block.data());
    return ExecFailure(errno, name);
  }
  std::optional<LaunchError> refused;
  for (const std::string_view folder : base::Split(plan.search, ':')) {
    const std::string program = folder.empty() ? name : std::string(folder) + "/" + name;
    ::execve(program.c_str(), argv.data(), block.data());
    const int error = errno;
    const bool absent =
        (error == ENOENT && !base::Exists(program)) || error == ENOTDIR || error == ELOOP;
    if (absent) continue;
    // As in a shell, skip a file that may not be executed. Its error is reported only if the
    // program cannot be started from any other folder.
    if (!refused) refused = ExecFailure(error, program);
    if (error != EACCES) break;
  }
  if (refused) return *refused;
  return {"command '" + base::Printable(name) + "' not found in PATH " +
              base::Printable(plan.search, 1000),
          false};
}

// Restricts this process to the given cores by CPU affinity. Needed only if the task's cgroup
// cannot do this.
void StayOn(const std::vector<int>& cores) {
  if (cores.empty()) return;
  const int most = cores.back() + 1;
  cpu_set_t* set = CPU_ALLOC(most);
  const std::size_t bytes = CPU_ALLOC_SIZE(most);
  CPU_ZERO_S(bytes, set);
  for (const int core : cores) CPU_SET_S(core, bytes, set);
  ::sched_setaffinity(0, bytes, set);
  CPU_FREE(set);
}

std::optional<LaunchError> ConnectStreams(const ChildPlan& plan) {
  const int null = plan.stdin_fd < 0 ? ::open("/dev/null", O_RDONLY) : -1;
  const int input = plan.stdin_fd < 0 ? null : plan.stdin_fd;
  const bool good = input >= 0 && ::dup2(input, 0) == 0 && ::dup2(plan.stdout_fd, 1) == 1 &&
                    ::dup2(plan.stderr_fd, 2) == 2 &&
                    (!plan.terminal || ::ioctl(0, TIOCSCTTY, 0) == 0);
  if (!good) return Failure(errno, "cannot connect the task's stdin, stdout and stderr");
  if (null > 2) ::close(null);
  return std::nullopt;
}

std::optional<LaunchError> TakeRights(const ChildPlan& plan, pid_t shim) {
  if (plan.user != nullptr) {
    if (const Result<Unit> became = BecomeUser(*plan.user); !became) {
      return LaunchError{
          fmt::format("cannot switch to user {}: {}", plan.user->uid, became.error().message),
          false};
    }
  }
  if (!plan.keeps_setuid && ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    return Failure(errno, "no_new_privs");
  // Have the kernel kill the task if the shim dies; otherwise it could still be running when its
  // next attempt starts. Switching users clears this setting, so set it afterwards.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != shim) ::_exit(1);
  return std::nullopt;
}

LaunchError RunChild(const ChildPlan& plan, pid_t shim) {
  ::setsid();
  GiveUpMemoryProtection();
  // The task inherits the limits that the service manager set for the daemon; only the limit on
  // open files is raised. This is safe even for old programs that use select(): they need low
  // descriptor numbers only for files that they open themselves.
  base::RaiseOpenFiles();
  LimitProcesses(plan.max_processes);
  StayOn(plan.cores);
  ::umask(plan.umask);
  if (std::optional<LaunchError> error = ConnectStreams(plan)) return *error;
  if (std::optional<LaunchError> error = TakeRights(plan, shim)) return *error;
  if (::chdir(plan.workdir.c_str()) != 0) return EnterFailure(errno, plan.workdir);
  std::vector<std::string> arguments = plan.argv;
  if (plan.script_fd >= 0 && ::access(arguments[plan.script_argument].c_str(), R_OK) != 0) {
    ::fcntl(plan.script_fd, F_SETFD, 0);
    // Use /proc/PID/fd instead of /dev/fd, so that the task's other processes, which do not inherit
    // the descriptor, can open the script too.
    arguments[plan.script_argument] = fmt::format("/proc/{}/fd/{}", ::getpid(), plan.script_fd);
  }
  ResetSignals();
  return Exec(plan, arguments);
}

// Like fork(), but creates the child directly in the plan's group. Skips the extra work of the C
// library's fork(), because this process has one thread and its child soon calls exec.
pid_t Fork(const ChildPlan& plan) {
  if (plan.cgroup_fd >= 0) {
    clone_args arguments{};
    arguments.flags = CLONE_INTO_CGROUP;
    arguments.exit_signal = SIGCHLD;
    arguments.cgroup = static_cast<std::uint64_t>(plan.cgroup_fd);
    const long child = ::syscall(SYS_clone3, &arguments, sizeof arguments);
    if (child >= 0) return static_cast<pid_t>(child);
  }
  const pid_t child = ::fork();
  // Needed before Linux 5.7, or where a sandbox forbids clone3.
  if (child == 0 && plan.cgroup_fd >= 0) (void)TaskCgroup::Enter(plan.cgroup_fd);
  return child;
}

}  // namespace

std::optional<LaunchError> WhyNotEnter(const std::string& workdir) {
  // Opening "FOLDER/." needs permission to enter the folder.
  const UniqueFd inside(::open((workdir + "/.").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (inside) return std::nullopt;
  return EnterFailure(errno, workdir);
}

std::expected<pid_t, LaunchError> StartChild(const ChildPlan& plan) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::unexpected(Failure(errno, "pipe"));
  const UniqueFd answer(ends[0]);
  UniqueFd child_end(ends[1]);
  const pid_t shim = ::getpid();
  const pid_t child = Fork(plan);
  if (child < 0) return std::unexpected(Failure(errno, "fork"));
  if (child == 0) {
    const LaunchError error = RunChild(plan, shim);
    (void)base::WriteAll(child_end.get(), (error.retryable ? "R" : "-") + error.text);
    ::_exit(127);
  }
  child_end.reset();
  // No text means success: exec has closed the child's end of the pipe.
  const Result<std::string> text = base::ReadAll(answer.get(), kMaxAnswerBytes);
  if (text && text->empty()) return child;
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  if (!text) return std::unexpected(LaunchError{text.error().message, true});
  return std::unexpected(LaunchError{text->substr(1), text->front() == 'R'});
}

}  // namespace carma::task
