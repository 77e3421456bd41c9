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

volatile std::sig_atomic_t end_asked = 0;

void OnEndAsked(int) {
  end_asked = 1;
}

// Installs handlers so that a signal that terminates the keeper also terminates its program.
void ServeSignals() {
  struct sigaction action {};
  action.sa_handler = OnEndAsked;
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) ::sigaction(number, &action, nullptr);
  ::signal(SIGPIPE, SIG_IGN);  // a reader that is gone has also closed the lifeline
}

void Tell(const std::string& line) {
  (void)base::WriteAll(STDOUT_FILENO, line + "\n");
}

bool LifelineClosed(const pollfd& lifeline) {
  return end_asked != 0 || (lifeline.revents & (POLLIN | POLLHUP | POLLERR)) != 0;
}

void ReapAll() {
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {
  }
}

// Terminates all processes below the keeper. Detached processes have become its children.
void EndDescendants() {
  const auto kill_from = Clock::now() + kGrace;
  bool told = false;
  while (true) {
    ReapAll();
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

// The exit code, or 128 plus the signal number.
int CodeOf(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// arguments: workdir (may be empty), output, command…
int KeepProgram(const std::vector<std::string>& arguments) {
  const std::vector<std::string> command(arguments.begin() + 2, arguments.end());
  Tell(fmt::format("began {}", base::BootTimeNs()));
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
      Tell(fmt::format("ended {} {}", now_ns, CodeOf(status)));
      break;
    }
    if (end_asked != 0 || (seen > 0 && LifelineClosed(entries[0]))) {
      EndDescendants();
      Tell(fmt::format("ended {} {}", base::BootTimeNs(), 128 + SIGTERM));
      return 0;
    }
  }
  EndDescendants();
  return 0;
}

// Makes a new folder with a short name, because the socket paths in it must be short.
Result<std::string> OwnFolder() {
  std::string folder = "/tmp/carma-profile-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) return FailErrno(errno, folder);
  ::chmod(folder.c_str(), 0755);
  return folder;
}

// arguments: shim, control program, UUID, state of a simulated server (may be empty), timeout in ms
int KeepMps(const std::vector<std::string>& arguments) {
  const Result<std::string> folder = OwnFolder();
  if (!folder) {
    Tell("failed " + folder.error().message);
    return 1;
  }
  task::MpsSetup setup{arguments[0], arguments[1], *folder, {}};
  if (!arguments[3].empty()) setup.environment["CARMA_SIMGPU_STATE"] = arguments[3];
  const task::MpsControl control(setup, {::getuid(), ::getgid(), arguments[2]});
  const std::chrono::milliseconds patience(base::ParseInt(arguments[4]).value_or(10'000));
  const auto server = control.Ready(Clock::now() + patience);
  Tell(server ? "ready " + *folder : "failed " + server.error().message);
  pollfd lifeline{STDIN_FILENO, POLLIN, 0};
  while (server && !LifelineClosed(lifeline)) ::poll(&lifeline, 1, -1);
  control.Quit(Clock::now() + kMpsEnd);
  EndDescendants();
  std::error_code ignored;
  std::filesystem::remove_all(*folder, ignored);
  return server ? 0 : 1;
}

// ---- the side of `carma profile` ----

Result<Keeper> StartKeeper(std::vector<std::string> arguments,
                           const std::optional<std::vector<std::string>>& environment) {
  Result<base::Pipe> lifeline = base::MakePipe();
  Result<base::Pipe> words = base::MakePipe(false);
  if (!lifeline) return std::unexpected(lifeline.error());
  if (!words) return std::unexpected(words.error());
  const std::string self = base::ExecutableDir() + "/carma-lab";
  arguments.insert(arguments.begin(), {self, std::string(kKeepWord)});
  const auto spawned =
      base::Spawn(arguments, {.files = {lifeline->read.get(), words->write.get(), "/dev/null"},
                              .environment = environment,
                              .session = true});
  if (!spawned) return FailErrno(spawned.error(), "cannot start " + self);
  Keeper keeper;
  keeper.pid = spawned->pid;
  keeper.lifeline = std::move(lifeline->write);
  keeper.words = std::move(words->read);
  return keeper;
}

}  // namespace

Keeper::~Keeper() {
  lifeline.reset();
  while (pid > 0 && ::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

int RunKeeper(const std::vector<std::string>& arguments) {
  ServeSignals();
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
    Take(std::string_view(pending_).substr(0, end));
    pending_.erase(0, end + 1);
  }
  // The program is considered to have exited only once its keeper has exited. Until then, some of
  // the program's processes may still be alive.
  if (n == 0) ended_ = true;
}

void KeptProgram::Take(std::string_view line) {
  if (line.starts_with("failed ")) {
    failure_ = line.substr(7);
    return;
  }
  const std::vector<std::string_view> words = base::SplitWords(line);
  if (words.size() >= 2 && words[0] == "began") began_ns_ = base::ParseInt(words[1]);
  if (words.size() == 3 && words[0] == "ended") {
    ended_ns_ = base::ParseInt(words[1]);
    code_ = static_cast<int>(base::ParseInt(words[2]).value_or(-1));
  }
}

Result<KeptRun> KeptProgram::Outcome() const {
  if (!failure_.empty()) return Invalid(failure_);
  if (!began_ns_ || !ended_ns_) return Fail(ErrorCode::kIo, "it was stopped");
  return KeptRun{*began_ns_, *ended_ns_, code_};
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
  return KeptMps(std::move(keeper), std::string(line.substr(6)));
}

}  // namespace carma::cli
