#include "lab/verbs/profile/keeper.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "base/file.h"
#include "base/spawn.h"
#include "base/text.h"
#include "base/try.h"
#include "lab/verbs/noted_signals.h"
#include "task/mps/mps_control.h"
#include "task/process/process_tree.h"

namespace carma::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kProgramWord = "program";
constexpr std::string_view kMpsWord = "mps";
constexpr std::chrono::seconds kGrace{5};
constexpr int kLookAgainMs = 20;
constexpr std::chrono::seconds kMpsEnd{10};
constexpr std::size_t kMaxPending = 64 << 10;

// ---- the keeper's side: descriptor 0 is its lifeline, descriptor 1 takes its messages ----

void Tell(const std::string& line) {
  (void)base::WriteAll(STDOUT_FILENO, line + "\n");
}

bool LifelineClosed(const pollfd& lifeline) {
  return interrupted || (lifeline.revents & (POLLIN | POLLHUP | POLLERR)) != 0;
}

// Terminates all descendants of the keeper. Detached processes have become its children.
void EndDescendants() {
  const auto kill_from = Clock::now() + kGrace;
  bool told = false;
  while (true) {
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    const std::vector<base::ProcessStat> living = task::Descendants(::getpid());
    if (living.empty()) return;
    const bool kill = Clock::now() >= kill_from;
    for (const base::ProcessStat& each : living) {
      if (kill) task::Tell(each.id, {SIGKILL});
      if (!kill && !told) task::Tell(each.id, {SIGCONT, SIGTERM});
    }
    told = true;
    ::poll(nullptr, 0, kLookAgainMs);
  }
}

// arguments: workdir (may be empty), output, command…
int KeepProgram(const std::vector<std::string>& arguments) {
  const std::vector<std::string> command(arguments.begin() + 2, arguments.end());
  const std::int64_t began_ns = base::BootTimeNs();
  const auto spawned = base::Spawn(
      command, {.files = {"/dev/null", arguments[1], arguments[1]}, .folder = arguments[0]});
  if (!spawned) {
    Tell(fmt::format("failed {}: {}", command.front(), std::strerror(spawned.error())));
    return 1;
  }
  pollfd entries[2] = {{STDIN_FILENO, POLLIN, 0}, {spawned->process.get(), POLLIN, 0}};
  while (true) {
    // If no pidfd could be opened (too few descriptors), the process must be polled.
    const int seen = ::poll(entries, 2, spawned->process ? -1 : kLookAgainMs);
    const std::int64_t now_ns = base::BootTimeNs();
    int status = 0;
    if (::waitpid(spawned->pid, &status, WNOHANG) == spawned->pid) {
      const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      Tell(fmt::format("ended {} {} {}", began_ns, now_ns, code));
      EndDescendants();
      return 0;
    }
    if (interrupted || (seen > 0 && LifelineClosed(entries[0]))) {
      EndDescendants();
      Tell(fmt::format("ended {} {} {}", began_ns, base::BootTimeNs(), 128 + SIGTERM));
      return 0;
    }
  }
}

// arguments: shim, control program, UUID, state of a simulated server (may be empty), timeout in ms
int KeepMps(const std::vector<std::string>& arguments) {
  // The name is short, because the socket paths in the folder must be short.
  std::string folder = "/tmp/carma-profile-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) {
    Tell("failed " + FailErrno(errno, folder).error().message);
    return 1;
  }
  ::chmod(folder.c_str(), 0755);
  task::MpsSetup setup{arguments[0], arguments[1], folder, {}};
  if (!arguments[3].empty()) setup.environment["CARMA_SIMGPU_STATE"] = arguments[3];
  const task::MpsControl control(setup, {::getuid(), ::getgid(), arguments[2]});
  const std::chrono::milliseconds patience(base::ParseInt(arguments[4]).value_or(10'000));
  const auto server = control.Ready(Clock::now() + patience);
  Tell(server ? "ready " + folder : "failed " + server.error().message);
  pollfd lifeline{STDIN_FILENO, POLLIN, 0};
  while (server && !LifelineClosed(lifeline)) ::poll(&lifeline, 1, -1);
  control.Quit(Clock::now() + kMpsEnd);
  EndDescendants();
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return server ? 0 : 1;
}

// ---- the side of `carma profile` ----

Result<Keeper> StartKeeper(std::vector<std::string> arguments,
                           const std::optional<std::vector<std::string>>& environment) {
  base::Pipe lifeline = CARMA_TRY(base::MakePipe());
  base::Pipe words = CARMA_TRY(base::MakePipe(false));
  const std::string self = base::ExecutableDir() + "/carma-lab";
  arguments.insert(arguments.begin(), {self, std::string(kKeepWord)});
  const auto spawned =
      base::Spawn(arguments, {.files = {lifeline.read.get(), words.write.get(), "/dev/null"},
                              .environment = environment,
                              .session = true});
  if (!spawned) return FailErrno(spawned.error(), "cannot start " + self);
  Keeper keeper;
  keeper.pid = spawned->pid;
  keeper.lifeline = std::move(lifeline.write);
  keeper.words = std::move(words.read);
  return keeper;
}

}  // namespace

Keeper::~Keeper() {
  lifeline.reset();
  while (pid > 0 && ::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

int RunKeeper(const std::vector<std::string>& arguments) {
  // A signal that terminates the keeper must also terminate its program.
  const NotedSignals signals;
  ::signal(SIGPIPE, SIG_IGN);  // a reader that is gone has also closed the lifeline
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  if (arguments.size() >= 4 && arguments[0] == kProgramWord)
    return KeepProgram({arguments.begin() + 1, arguments.end()});
  if (arguments.size() == 6 && arguments[0] == kMpsWord)
    return KeepMps({arguments.begin() + 1, arguments.end()});
  return 2;
}

Result<KeptProgram> KeptProgram::Start(const Order& order) {
  // The output of an earlier attempt must not be mistaken for this attempt's output.
  if (::unlink(order.output.c_str()) != 0 && errno != ENOENT && order.output != "/dev/null")
    return FailErrno(errno, order.output);
  std::vector<std::string> arguments{std::string(kProgramWord), order.workdir, order.output};
  arguments.insert(arguments.end(), order.command.begin(), order.command.end());
  return KeptProgram(CARMA_TRY(StartKeeper(std::move(arguments), order.environment)));
}

void KeptProgram::Listen() {
  char buffer[4096];
  ssize_t n = 0;
  while ((n = ::read(fd(), buffer, sizeof buffer)) > 0 && pending_.size() < kMaxPending)
    pending_.append(buffer, static_cast<std::size_t>(n));
  for (std::size_t end = 0; (end = pending_.find('\n')) != std::string::npos;) {
    const std::string_view line = std::string_view(pending_).substr(0, end);
    const std::vector<std::string_view> words = base::SplitWords(line);
    if (line.starts_with("failed ")) outcome_ = Invalid(std::string(line.substr(7)));
    if (words.size() == 4 && words[0] == "ended") {
      outcome_ = KeptRun{base::ParseInt(words[1]).value_or(0), base::ParseInt(words[2]).value_or(0),
                         static_cast<int>(base::ParseInt(words[3]).value_or(-1))};
    }
    pending_.erase(0, end + 1);
  }
  // The program counts as exited only once its keeper has exited. Until then, some of its processes
  // may still be alive.
  if (n == 0) ended_ = true;
}

Result<KeptMps> KeptMps::Start(const Order& order) {
  Keeper keeper =
      CARMA_TRY(StartKeeper({std::string(kMpsWord), order.shim, order.program, order.gpu,
                             order.simgpu_state, std::to_string(order.timeout.count())},
                            std::nullopt));
  std::string said;
  pollfd words{keeper.words.get(), POLLIN, 0};
  while (!said.contains('\n')) {
    char buffer[1024];
    const ssize_t n = ::read(words.fd, buffer, sizeof buffer);
    if (n == 0) return Unavailable("the process that keeps the MPS server running has exited");
    if (n > 0) said.append(buffer, static_cast<std::size_t>(n));
    if (n < 0) ::poll(&words, 1, -1);
  }
  const std::string_view line = std::string_view(said).substr(0, said.find('\n'));
  if (!line.starts_with("ready ")) return Unavailable(std::string(line.substr(line.find(' ') + 1)));
  return KeptMps{std::move(keeper), std::string(line.substr(6))};
}

}  // namespace carma::cli
