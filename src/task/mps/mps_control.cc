#include "task/mps/mps_control.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <memory>
#include <utility>

#include "base/file.h"
#include "base/pidfd.h"
#include "base/spawn.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "task/mps/mps_child.h"
#include "task/process/process_tree.h"

namespace carma::task {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Result;
using base::UniqueFd;
using base::Unit;
using Deadline = MpsControl::Deadline;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kMaxAnswer = 256 << 10;
constexpr std::size_t kMaxPidFile = 64;
constexpr std::size_t kMaxProcessText = 16 << 20;
constexpr int kLookAgainMs = 20;
constexpr milliseconds kAfterKill{500};
constexpr char kPidFile[] = "nvidia-cuda-mps-control.pid";

int MsUntil(Deadline deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000));
}

// carma-shim --mps as a child: its standard input holds `input`, its output and complaints come
// back through one pipe.
class Child {
 public:
  static Result<Child> Spawn(const std::string& shim, const std::vector<std::string>& arguments,
                             const std::string& input);
  Child(Child&& other) noexcept
      : pid_(std::exchange(other.pid_, 0)),
        pidfd_(std::move(other.pidfd_)),
        output_(std::move(other.output_)) {}
  // Nothing of it is left but, in the worst case, a process that even a kill does not end.
  ~Child();

  // Its output once it has ended, whoever holds the pipe open. Errors: kUnavailable: not in time.
  Result<std::string> Finish(Deadline deadline);
  int code() const { return code_; }

 private:
  Child(base::Spawned child, UniqueFd output)
      : pid_(child.pid), pidfd_(std::move(child.process)), output_(std::move(output)) {}
  void ReadOutput();
  bool Reap();

  pid_t pid_ = 0;
  UniqueFd pidfd_, output_;
  std::string text_;
  int code_ = -1;
};

Result<Child> Child::Spawn(const std::string& shim, const std::vector<std::string>& arguments,
                           const std::string& input) {
  Result<base::Pipe> in = base::MakePipe();
  Result<base::Pipe> out = base::MakePipe(false);
  if (!in) return std::unexpected(in.error());
  if (!out) return std::unexpected(out.error());
  // A command is far smaller than a pipe: it is written before anybody reads.
  if (Result<Unit> written = base::WriteAll(in->write.get(), input); !written)
    return std::unexpected(written.error());
  in->write.reset();
  std::vector<std::string> words{shim, "--mps"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  auto spawned = base::Spawn(
      words, {.files = {in->read.get(), out->write.get(), out->write.get()},
              .environment = std::vector<std::string>{"PATH=/usr/local/bin:/usr/bin:/bin"},
              .session = true});
  if (!spawned) return base::FailErrno(spawned.error(), "cannot start " + shim);
  return Child(std::move(*spawned), std::move(out->read));
}

Child::~Child() {
  if (pid_ == 0) return;
  ::kill(-pid_, SIGKILL);  // its session: what it started without leaving it
  ::kill(pid_, SIGKILL);
  pollfd ended{pidfd_.get(), POLLIN, 0};
  if (pidfd_) ::poll(&ended, 1, static_cast<int>(kAfterKill.count()));
  (void)Reap();
}

bool Child::Reap() {
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG) != 0) {
    pid_ = 0;  // not ours to wait for any more, nor to be ended: the number may be somebody else's
    return true;
  }
  if (info.si_pid == 0) return false;
  code_ = info.si_code == CLD_EXITED ? info.si_status : -1;
  pid_ = 0;
  return true;
}

void Child::ReadOutput() {
  char buffer[4096];
  ssize_t n = 0;
  while (text_.size() < kMaxAnswer && (n = ::read(output_.get(), buffer, sizeof buffer)) > 0)
    text_.append(buffer, static_cast<std::size_t>(n));
  if (n == 0) output_.reset();
}

Result<std::string> Child::Finish(Deadline deadline) {
  while (true) {
    if (output_) ReadOutput();
    if (Reap()) {
      if (output_) ReadOutput();
      return std::move(text_);
    }
    const int left_ms = MsUntil(deadline);
    if (left_ms == 0 || text_.size() >= kMaxAnswer) {
      return Fail(ErrorCode::kUnavailable, "the MPS control program gave no answer in time");
    }
    pollfd entries[2] = {{pidfd_.get(), POLLIN, 0}, {output_.get(), POLLIN, 0}};
    // Without a pidfd (no descriptor left) only looking again helps.
    ::poll(entries, 2, pidfd_ ? left_ms : std::min(left_ms, kLookAgainMs));
  }
}

Result<std::string> FindProgram(const std::string& name) {
  if (name.starts_with('/')) {
    if (::access(name.c_str(), X_OK) == 0) return name;
    return Fail(ErrorCode::kNotFound, "there is no program " + name + " (collocation.mps_control)");
  }
  const std::string path = base::GetEnv("PATH", "/usr/local/bin:/usr/bin:/bin");
  for (const std::string_view folder : base::Split(path, ':')) {
    std::string program = std::string(folder) + "/" + name;
    if (folder.starts_with('/') && ::access(program.c_str(), X_OK) == 0) return program;
  }
  return Fail(ErrorCode::kNotFound,
              "there is no program '" + name + "' in " + path + " (collocation.mps_control)");
}

std::string LastWords(std::string_view text, int code) {
  for (const std::string_view line : base::Split(text, '\n')) {
    if (!base::Trim(line).empty()) return base::Printable(base::Trim(line));
  }
  if (code < 0) return "it was killed";
  return "it ended with exit code " + std::to_string(code) + " and said nothing";
}

std::string_view BaseName(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

// Follows no link: the folder is the user's, who may put anything there.
std::optional<pid_t> ReadPidFile(const std::string& pipe_dir) {
  const UniqueFd fd(::open((pipe_dir + "/" + kPidFile).c_str(),
                           O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  struct stat st {};
  if (!fd || ::fstat(fd.get(), &st) != 0 || !S_ISREG(st.st_mode)) return std::nullopt;
  const Result<std::string> text = base::ReadAll(fd.get(), kMaxPidFile);
  const std::optional<std::int64_t> pid =
      text ? base::ParseInt(base::Trim(text->substr(0, text->find('\n')))) : std::nullopt;
  if (!pid || *pid <= 1 || *pid > (1 << 30)) return std::nullopt;
  return static_cast<pid_t>(*pid);
}

bool Serves(pid_t pid, const std::string& pipe_dir, std::string_view program) {
  const std::string folder = "/proc/" + std::to_string(pid);
  if (const auto variables = base::ReadFile(folder + "/environ", kMaxProcessText)) {
    const std::vector<std::string_view> each = base::Split(*variables, '\0');
    return std::find(each.begin(), each.end(), "CUDA_MPS_PIPE_DIRECTORY=" + pipe_dir) != each.end();
  }
  // Some containers keep even root from reading that.
  const std::string line = base::ReadFile(folder + "/cmdline", kMaxProcessText).value_or("");
  return BaseName(line.substr(0, line.find('\0'))) == BaseName(program);
}

bool IsOf(pid_t pid, uid_t uid) {
  struct stat st {};
  return ::stat(("/proc/" + std::to_string(pid)).c_str(), &st) == 0 && st.st_uid == uid;
}

// Waits until those are gone, whoever is to reap them. False: not in time.
bool AwaitEnds(const std::vector<base::ProcessId>& processes, Deadline deadline) {
  for (const base::ProcessId& process : processes) {
    const UniqueFd fd = base::OpenPidfd(process.pid);
    pollfd ended{fd.get(), POLLIN, 0};
    while (base::Alive(process)) {
      const int left_ms = MsUntil(deadline);
      if (left_ms == 0) return false;
      ::poll(&ended, fd ? 1 : 0, fd ? left_ms : kLookAgainMs);
    }
  }
  return true;
}

}  // namespace

std::optional<base::ProcessId> MpsControl::Daemon() const {
  const std::string pipe_dir = MpsPipeDir(setup_.dir, id_);
  const std::optional<pid_t> pid = ReadPidFile(pipe_dir);
  if (!pid || !IsOf(*pid, id_.uid) || !Serves(*pid, pipe_dir, setup_.program)) return std::nullopt;
  const std::optional<base::ProcessStat> stat = base::ReadProcessStat(*pid);
  if (!stat || stat->state == 'Z' || stat->state == 'X') return std::nullopt;
  return stat->id;
}

Result<std::string> MpsControl::Run(const std::vector<std::string>& arguments,
                                    const std::string& input, Deadline deadline) const {
  const Result<std::string> program = FindProgram(setup_.program);
  if (!program) return std::unexpected(program.error());
  MpsOrder order{setup_.dir, id_, setup_.environment, {*program}};
  order.argv.insert(order.argv.end(), arguments.begin(), arguments.end());
  Result<Child> child = Child::Spawn(setup_.shim_path, ToArguments(order), input);
  if (!child) return std::unexpected(child.error());
  Result<std::string> answer = child->Finish(deadline);
  if (!answer || child->code() == 0) return answer;
  return Fail(ErrorCode::kUnavailable,
              "the MPS control program failed: " + LastWords(*answer, child->code()));
}

Result<std::string> MpsControl::Ask(const std::string& command, Deadline deadline) const {
  return Run({}, command + "\n", deadline);
}

Result<Unit> MpsControl::Start(Deadline deadline) const {
  const Result<std::string> said = Run({"-d"}, "", deadline);
  if (!said) return std::unexpected(said.error());
  while (!Daemon()) {
    if (MsUntil(deadline) == 0)
      return Fail(ErrorCode::kUnavailable, "the MPS control daemon did not come up");
    ::poll(nullptr, 0, kLookAgainMs);
  }
  return Unit{};
}

Result<std::optional<MpsServer>> MpsControl::Look(Deadline deadline) const {
  if (!Daemon()) return std::nullopt;
  const Result<std::string> listed = Ask("get_server_list", deadline);
  if (!listed) return std::unexpected(listed.error());
  const Result<std::vector<pid_t>> pids = ParseMpsPids(*listed);
  if (!pids) return base::Wrap(pids.error(), "the MPS control daemon's list of servers");
  for (const pid_t pid : *pids) {
    const std::optional<base::ProcessStat> stat = base::ReadProcessStat(pid);
    if (!stat || stat->state == 'Z') continue;
    const Result<std::string> state = Ask("get_server_status " + std::to_string(pid), deadline);
    if (!state) return std::unexpected(state.error());
    return MpsServer{stat->id, ParseMpsServerState(*state)};
  }
  return std::nullopt;
}

Result<MpsServer> MpsControl::Ready(Deadline deadline) const {
  if (!Daemon()) {
    if (Result<Unit> started = Start(deadline); !started) return std::unexpected(started.error());
  }
  for (bool asked = false; true; asked = true) {
    const Result<std::optional<MpsServer>> server = Look(deadline);
    if (!server) return std::unexpected(server.error());
    if (*server && (*server)->state == MpsServerState::kFault) {
      return Fail(ErrorCode::kUnavailable,
                  "the MPS server is in a faulted state until those that were hit have ended");
    }
    if (*server && (*server)->state != MpsServerState::kStarting) return **server;
    // Otherwise the first client would wait for it, or go without it in silence.
    if (!*server && !asked) {
      const Result<std::string> said =
          Ask("start_server -uid " + std::to_string(id_.uid), deadline);
      if (!said) return std::unexpected(said.error());
    }
    if (MsUntil(deadline) == 0)
      return Fail(ErrorCode::kUnavailable, "the MPS server did not start in time");
    if (asked) ::poll(nullptr, 0, kLookAgainMs);
  }
}

Result<std::vector<pid_t>> MpsControl::Clients(const MpsServer& server, Deadline deadline) const {
  const Result<std::string> listed =
      Ask("get_client_list " + std::to_string(server.process.pid), deadline);
  if (!listed) return std::unexpected(listed.error());
  Result<std::vector<pid_t>> pids = ParseMpsPids(*listed);
  if (!pids) return base::Wrap(pids.error(), "the MPS control daemon's list of clients");
  return pids;
}

Result<Unit> MpsControl::TerminateClient(const MpsServer& server, pid_t client,
                                         Deadline deadline) const {
  const Result<std::string> said =
      Ask("terminate_client " + std::to_string(server.process.pid) + " " + std::to_string(client),
          deadline);
  if (!said) return std::unexpected(said.error());
  return Unit{};
}

void MpsControl::Quit(Deadline deadline) const {
  const std::optional<base::ProcessId> daemon = Daemon();
  if (!daemon) return;
  std::vector<base::ProcessId> processes{*daemon};
  for (const base::ProcessStat& each : Descendants(daemon->pid)) {
    if (IsOf(each.id.pid, id_.uid)) processes.push_back(each.id);
  }
  if (Ask("quit -t 1", deadline) && AwaitEnds(processes, deadline)) return;
  for (const base::ProcessId& process : processes) {
    const UniqueFd fd = base::OpenPidfd(process.pid);
    if (fd && base::Alive(process)) base::SendSignal(fd, SIGKILL);
  }
  (void)AwaitEnds(processes, Clock::now() + kAfterKill);
}

std::vector<MpsServerId> FindMpsServers(const MpsSetup& setup,
                                        const std::vector<std::string>& gpus) {
  std::vector<MpsServerId> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(setup.dir.c_str()), ::closedir);
  while (const dirent* entry = dir == nullptr ? nullptr : ::readdir(dir.get())) {
    const std::optional<std::int64_t> uid = base::ParseInt(entry->d_name);
    struct stat st {};
    const bool folder = uid && *uid >= 0 && *uid < 0xffffffff &&
                        ::fstatat(::dirfd(dir.get()), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (!folder || !S_ISDIR(st.st_mode) || st.st_uid != static_cast<uid_t>(*uid)) continue;
    for (const std::string& each : gpus) {
      const MpsServerId id{st.st_uid, st.st_gid, each};
      if (MpsControl(setup, id).Daemon()) found.push_back(id);
    }
  }
  return found;
}

}  // namespace carma::task
