#include "lab/simgpu/mps_control.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <functional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/process_id.h"
#include "base/text.h"
#include "base/user.h"
#include "lab/simgpu/mps_server.h"

namespace carma::simgpu {
namespace {

using base::Result;
using base::Unit;
using namespace std::chrono_literals;
using Words = std::vector<std::string_view>;

// How long a silent peer is waited for.
constexpr auto kPatience = 2000ms;

sigset_t ServedSignals() {
  sigset_t set;
  sigemptyset(&set);
  // Other signals end it at once and leave all its files behind, as with NVIDIA's.
  sigaddset(&set, SIGCHLD);
  return set;
}

std::optional<uid_t> PeerUid(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  return peer.uid;
}

// Called in a fresh child: closes all descriptors but these two, which may be the same, and the
// standard ones.
void CloseAllBut(int a, int b) {
  const auto low = static_cast<unsigned>(std::min(a, b));
  const auto high = static_cast<unsigned>(std::max(a, b));
  if (low > 3) ::close_range(3, low - 1, 0);
  if (high > low + 1) ::close_range(low + 1, high - 1, 0);
  ::close_range(high + 1, ~0U, 0);
}

// The server of a user runs with the user's rights.
bool BecomeServerUser(uid_t uid) {
  if (uid == ::geteuid()) return true;
  const Result<std::optional<base::UserEntry>> entry = base::FindUser(uid);
  const gid_t gid = entry && *entry ? (*entry)->gid : static_cast<gid_t>(uid);
  return ::setgroups(0, nullptr) == 0 && ::setgid(gid) == 0 && ::setuid(uid) == 0;
}

Result<base::UniqueFd> ListenAnew(const std::string& path) {
  ::unlink(path.c_str());
  return ListenAt(path);
}

std::string NoServer(std::string_view pid) {
  return fmt::format("Server {} not found", base::Printable(pid, 20));
}

class ControlDaemon {
 public:
  ControlDaemon(MpsFolders folders, base::UniqueFd lock)
      : folders_(std::move(folders)), lock_(std::move(lock)) {
    const std::string percentage = base::GetEnv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
    terms_.thread_percentage = ParseMpsPercentage(percentage).value_or(100);
    const std::string limits = base::GetEnv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
    terms_.memory_limits = ParseMpsMemoryLimits(limits).value_or(MpsMemoryLimits{});
    if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) terms_.visible_devices = visible;
  }

  Result<Unit> Open();
  int Run();

 private:
  struct Server {
    pid_t pid = 0;
    uid_t uid = 0;
    std::string path;  // of its socket
    base::LineSocket channel;
  };
  struct Command {
    std::string_view name;
    std::size_t arguments;  // as many at least
    std::string (ControlDaemon::*run)(const Words&);
  };

  void Note(const std::string& text) const { MpsLog(folders_, "control.log", "Control", text); }
  bool Is535() const { return MpsBehaves(folders_, "r535"); }
  void ServeSignals();
  void ReapServers();
  void ServePeer(const base::UniqueFd& listener);
  void ServeClient(base::LineSocket& peer, uid_t uid);
  std::string Execute(std::string_view line);
  std::string ExecuteThree(const Words& words);
  std::string Refuse(const std::string& why);
  std::string NamedServers();
  std::string NamedClients(std::string_view server);
  Result<Server*> StartServer(uid_t uid);
  Server* FindServer(std::string_view pid);
  // The server's answer in one line; empty if it gives none: then its process is treated as ended.
  std::optional<std::string> Ask(Server& server, const std::string& request);
  bool Idle();
  void Shutdown();

  std::string StartServerCommand(const Words& words);
  std::string ServerList(const Words&);
  std::string ServerStatus(const Words& words);
  std::string ClientList(const Words& words);
  std::string Processes(const Words&);
  std::string TerminateClient(const Words& words);
  std::string GetPercentage(const Words&);
  std::string SetPercentage(const Words& words);
  std::string SetMemoryLimit(const Words& words);
  std::string Quit(const Words& words);

  MpsFolders folders_;
  base::UniqueFd lock_, listener_, privileged_, signals_;
  MpsWelcome terms_;
  std::vector<Server> servers_;
  int started_ = 0;
  const bool three_ = base::GetEnv(kMpsProtocolVariable) == "3";
  bool refused_ = false;                      // the asker of the present command fails
  bool failed_ = false;                       // a server has ended badly
  std::vector<base::LineSocket> unanswered_;  // peers of a daemon that hangs
  std::vector<base::LineSocket> quitters_;    // wait for the end
  bool quitting_ = false;                     // no new clients
  std::optional<std::int64_t> quit_at_ns_;    // then at the latest
};

Result<Unit> ControlDaemon::Open() {
  // Anything of that name stays: the FIFO of an earlier daemon, or a file that prevents a FIFO.
  ::mkfifo(folders_.LogFifo().c_str(), 0777);
  Result<base::UniqueFd> privileged = ListenAnew(folders_.Privileged());
  if (!privileged) return std::unexpected(privileged.error());
  privileged_ = std::move(*privileged);
  Result<base::UniqueFd> listener = ListenAnew(folders_.Control());
  if (!listener) return std::unexpected(listener.error());
  listener_ = std::move(*listener);
  // The folder decides who may connect; a shared daemon must also admit clients of other users.
  ::chmod(folders_.Control().c_str(), 0666);
  if (!Is535()) {
    const Result<Unit> written =
        base::WriteFileAtomic(folders_.PidFile(), std::to_string(::getpid()), 0666);
    if (!written) return written;
  }
  const sigset_t served = ServedSignals();
  ::sigprocmask(SIG_BLOCK, &served, nullptr);
  signals_.reset(::signalfd(-1, &served, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) return base::FailErrno(errno, "signalfd");
  Note("Starting control daemon using socket " + folders_.Control());
  return Unit{};
}

int ControlDaemon::Run() {
  while (!(quitting_ && (Idle() || (quit_at_ns_ && base::BootTimeNs() >= *quit_at_ns_)))) {
    pollfd watched[3] = {
        {listener_.get(), POLLIN, 0}, {privileged_.get(), POLLIN, 0}, {signals_.get(), POLLIN, 0}};
    // No message announces that a server's last client has gone, so the daemon asks while it quits.
    if (::poll(watched, 3, quitting_ ? 20 : -1) < 0 && errno != EINTR) return 1;
    if (watched[2].revents != 0) ServeSignals();
    if (watched[0].revents != 0) ServePeer(listener_);
    if (watched[1].revents != 0) ServePeer(privileged_);
  }
  Shutdown();
  return failed_ ? 1 : 0;
}

bool ControlDaemon::Idle() {
  return std::all_of(servers_.begin(), servers_.end(), [this](Server& server) {
    const std::optional<std::string> clients = Ask(server, "clients");
    return !clients || clients->empty();
  });
}

void ControlDaemon::Shutdown() {
  for (Server& server : servers_) {
    // A server that does not listen is not asked twice.
    if (Ask(server, "quit") != "bye") failed_ = ::kill(server.pid, SIGKILL) == 0;
    ::waitpid(server.pid, nullptr, 0);
    ::unlink(server.path.c_str());
  }
  Note("Exit");
  // Only the FIFO is removed; lock and sockets stay.
  ::unlink(folders_.LogFifo().c_str());
  ::unlink(folders_.PidFile().c_str());
  for (const base::LineSocket& peer : quitters_) peer.Send(failed_ ? kMpsFailed : kMpsAnswerEnd);
}

void ControlDaemon::ServeSignals() {
  signalfd_siginfo news{};
  while (::read(signals_.get(), &news, sizeof news) == sizeof news) {
  }
  ReapServers();
}

void ControlDaemon::ReapServers() {
  for (std::size_t i = servers_.size(); i-- > 0;) {
    int status = 0;
    if (::waitpid(servers_[i].pid, &status, WNOHANG) != servers_[i].pid) continue;
    Note(fmt::format("Server {} exited with status {}", servers_[i].pid, status));
    failed_ = failed_ || status != 0;
    ::unlink(servers_[i].path.c_str());
    servers_.erase(servers_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void ControlDaemon::ServePeer(const base::UniqueFd& listener) {
  base::UniqueFd fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!fd) return;
  const std::optional<uid_t> uid = PeerUid(fd.get());
  base::LineSocket peer(std::move(fd));
  const Result<std::string> line = peer.Receive(kPatience);
  if (!line || !uid) return;
  if (MpsBehaves(folders_, "hang")) return unanswered_.push_back(std::move(peer));
  if (MpsBehaves(folders_, "crash")) ::_exit(134);
  ReapServers();
  const bool commands = &listener == &privileged_;
  if (!commands && *line == "client") return ServeClient(peer, *uid);
  if (!commands || !line->starts_with("command ")) return;
  const bool allowed = *uid == 0 || *uid == ::geteuid();
  const std::string answer =
      allowed ? Execute(std::string_view(*line).substr(8)) : "Permission denied";
  if (!answer.empty()) peer.Send(answer);
  if (quitting_) return quitters_.push_back(std::move(peer));
  peer.Send(std::exchange(refused_, false) ? kMpsFailed : kMpsAnswerEnd);
}

void ControlDaemon::ServeClient(base::LineSocket& peer, uid_t uid) {
  const auto refuse = [&peer](MpsError error) {
    peer.Send(fmt::format("error {}", static_cast<int>(error)));
  };
  // One user at a time, as with NVIDIA's; there the second user waits, here it is refused.
  const bool others = !servers_.empty() && servers_.front().uid != uid;
  if (quitting_ || others) return refuse(MpsError::kConnectionFailed);
  if (!servers_.empty()) {
    peer.Send("server " + servers_.front().path);
    return;
  }
  const Result<Server*> server = StartServer(uid);
  if (!server) return refuse(MpsError::kServerNotReady);
  peer.Send("server " + (*server)->path);
}

Result<ControlDaemon::Server*> ControlDaemon::StartServer(uid_t uid) {
  const auto fail = [this](const std::string& why) {
    Note("Failed to start a server: " + why);
    return base::Fail(base::ErrorCode::kUnavailable, why);
  };
  if (MpsBehaves(folders_, "server-fails")) {
    failed_ = true;
    MpsLog(folders_, "server.log", "Other", "Failed to start : no CUDA-capable device is detected");
    Note("Server 0 exited with status 1");
    return fail("Server encountered a fatal exception. Shutting down");
  }
  if (uid != ::geteuid() && ::geteuid() != 0) return fail("it would be another user's");
  const std::string path = fmt::format("{}/server-{}", folders_.pipes, ++started_);
  ::unlink(path.c_str());
  Result<base::UniqueFd> listener = ListenAt(path);
  if (!listener) return fail(listener.error().message);
  ::chmod(path.c_str(), 0666);
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return fail("socketpair");
  base::UniqueFd ours(ends[0]), theirs(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return fail("fork");
  if (child == 0) {
    CloseAllBut(listener->get(), theirs.get());
    const sigset_t served = ServedSignals();
    ::sigprocmask(SIG_UNBLOCK, &served, nullptr);
    ::prctl(PR_SET_NAME, "nvidia-cuda-mps-server");
    if (!BecomeServerUser(uid)) ::_exit(1);
    ::_exit(MpsServer(folders_, std::move(*listener), std::move(theirs), terms_).Run());
  }
  Note(fmt::format("Starting new server {} for user {}", child, uid));
  Note(fmt::format("NEW SERVER {}: Ready", child));
  servers_.push_back({child, uid, path, base::LineSocket(std::move(ours))});
  return &servers_.back();
}

ControlDaemon::Server* ControlDaemon::FindServer(std::string_view pid) {
  const auto number = base::ParseInt(pid);
  const auto found = std::find_if(servers_.begin(), servers_.end(),
                                  [&](const Server& server) { return number == server.pid; });
  return found == servers_.end() ? nullptr : &*found;
}

std::optional<std::string> ControlDaemon::Ask(Server& server, const std::string& request) {
  if (!server.channel.Send(request)) return std::nullopt;
  Result<std::string> answer = server.channel.Receive(kPatience);
  if (!answer) return std::nullopt;
  return std::move(*answer);
}

std::string ControlDaemon::Execute(std::string_view line) {
  static constexpr std::array kCommands{
      Command{"start_server", 2, &ControlDaemon::StartServerCommand},
      Command{"get_server_list", 0, &ControlDaemon::ServerList},
      Command{"get_server_status", 1, &ControlDaemon::ServerStatus},
      Command{"get_client_list", 1, &ControlDaemon::ClientList},
      Command{"ps", 0, &ControlDaemon::Processes},
      Command{"terminate_client", 2, &ControlDaemon::TerminateClient},
      Command{"get_default_active_thread_percentage", 0, &ControlDaemon::GetPercentage},
      Command{"set_default_active_thread_percentage", 1, &ControlDaemon::SetPercentage},
      Command{"set_default_device_pinned_mem_limit", 2, &ControlDaemon::SetMemoryLimit},
      Command{"quit", 0, &ControlDaemon::Quit},
  };
  const Words words = base::SplitWords(line);
  if (words.empty()) return "";
  if (three_) return ExecuteThree(words);
  for (const Command& command : kCommands) {
    if (command.name != words[0] || (Is535() && command.name == "get_server_status")) continue;
    if (words.size() <= command.arguments) {
      return fmt::format("{}: expected {} arguments", command.name, command.arguments);
    }
    return (this->*command.run)(words);
  }
  return fmt::format("Unknown command \"{}\"", base::Printable(words[0], 60));
}

// ---- protocol 3: what carmad asks, after NVIDIA's manual of release 615; never seen to run ----

std::string ServerName(uid_t uid) {
  return fmt::format("uid_{}", uid);
}

std::string ControlDaemon::Refuse(const std::string& why) {
  refused_ = true;
  return why;
}

std::string ControlDaemon::ExecuteThree(const Words& words) {
  const std::string command = words.size() > 1 ? fmt::format("{} {}", words[0], words[1]) : "";
  const auto option = [&words](std::string_view name) {
    const auto found = std::ranges::find_if(
        words, [name](std::string_view word) { return word.starts_with(name); });
    return found == words.end() ? std::string_view() : found->substr(name.size());
  };
  if (words[0] == "quit") return Quit({words[0]});
  if (command == "server list") return NamedServers();
  if (command == "client list") return NamedClients(option("--server="));
  if (command == "server create") {
    const auto uid = base::ParseInt(option("--uid="));
    if (!uid) return Refuse("a name or --uid is required");
    const bool there = !servers_.empty() || StartServer(static_cast<uid_t>(*uid));
    return there ? "" : Refuse("the server did not start");
  }
  if (command == "client terminate" && words.size() == 3) {
    for (Server& server : servers_) {
      if (Ask(server, "terminate " + std::string(words[2])) == "done") return "";
    }
    return Refuse("no such client");
  }
  return Refuse("unknown command");
}

std::string ControlDaemon::NamedServers() {
  std::vector<std::string> rows;
  for (Server& server : servers_) {
    const std::string status = Ask(server, "status").value_or("");
    rows.push_back(fmt::format("{},{},{},{},{},{},-", ServerName(server.uid), server.uid,
                               server.pid, status == "ACTIVE" ? "Ready" : status, folders_.pipes,
                               terms_.visible_devices.value_or("all")));
  }
  return base::Join(rows, "\n");
}

std::string ControlDaemon::NamedClients(std::string_view name) {
  std::vector<std::string> rows;
  for (Server& server : servers_) {
    if (ServerName(server.uid) != name) continue;
    const std::string clients = Ask(server, "clients").value_or("");
    for (const std::string_view pid : base::SplitWords(clients)) {
      const auto stat = base::ReadProcessStat(static_cast<pid_t>(base::ParseInt(pid).value_or(0)));
      rows.push_back(fmt::format("{},{},0,default,{}", pid, name, stat ? stat->command : ""));
    }
  }
  return base::Join(rows, "\n");
}

std::string ControlDaemon::StartServerCommand(const Words& words) {
  const auto uid = base::ParseInt(words[2]);
  if (words[1] != "-uid" || !uid || *uid < 0 || *uid > 0xffff'fffe) {
    return "A user id (UID) is required to start a new server";
  }
  // A failure is in the log, and can be seen in the list of servers.
  if (servers_.empty()) (void)StartServer(static_cast<uid_t>(*uid));
  return "";
}

std::string ControlDaemon::ServerList(const Words&) {
  std::vector<std::string> pids;
  for (const Server& server : servers_) pids.push_back(std::to_string(server.pid));
  return base::Join(pids, "\n");
}

std::string ControlDaemon::ServerStatus(const Words& words) {
  Server* const server = FindServer(words[1]);
  if (!server) return NoServer(words[1]);
  return Ask(*server, "status").value_or("get_server_status: the server does not answer");
}

std::string ControlDaemon::ClientList(const Words& words) {
  Server* const server = FindServer(words[1]);
  if (!server) return NoServer(words[1]);
  std::string pids = Ask(*server, "clients").value_or("");
  std::replace(pids.begin(), pids.end(), ' ', '\n');
  return pids;
}

std::string ControlDaemon::Processes(const Words&) {
  if (servers_.empty()) return "Server not found";
  std::string table =
      fmt::format("{:<10} {:<8} {:<10} {:<14} {}", "PID", "ID", "SERVER", "DEVICE", "COMMAND");
  for (Server& server : servers_) {
    const std::string clients = Ask(server, "clients").value_or("");
    int id = 0;
    for (const std::string_view pid : base::SplitWords(clients)) {
      const auto stat = base::ReadProcessStat(static_cast<pid_t>(base::ParseInt(pid).value_or(0)));
      table += fmt::format("\n{:<10} {:<8} {:<10} {:<14} {}", pid, ++id, server.pid,
                           terms_.visible_devices.value_or("all").substr(0, 13),
                           stat ? stat->command : "");
    }
  }
  return table;
}

std::string ControlDaemon::TerminateClient(const Words& words) {
  Server* const server = FindServer(words[1]);
  if (!server) return fmt::format("{}\n{}!\n1", NoServer(words[1]), NoServer(words[1]));
  const std::optional<std::string> answer = Ask(*server, "terminate " + std::string(words[2]));
  if (!answer) return "terminate_client: the server does not answer";
  return *answer == "done" ? "0" : *answer + "\n1";
}

std::string ControlDaemon::GetPercentage(const Words&) {
  return fmt::format("{:.1f}", terms_.thread_percentage);
}

std::string ControlDaemon::SetPercentage(const Words& words) {
  const Result<double> percentage = ParseMpsPercentage(words[1]);
  if (!percentage) return percentage.error().message;
  terms_.thread_percentage = *percentage;
  return GetPercentage(words);
}

std::string ControlDaemon::SetMemoryLimit(const Words& words) {
  const auto limits = ParseMpsMemoryLimits(std::string(words[1]) + "=" + std::string(words[2]));
  if (!limits) return limits.error().message;
  for (const auto& [device, mib] : *limits) terms_.memory_limits[device] = mib;
  return "";
}

std::string ControlDaemon::Quit(const Words& words) {
  if (words.size() == 3 && words[1] == "-t") {
    const auto seconds = base::ParseInt(words[2]);
    if (!seconds || *seconds < 0 || *seconds > 86'400) return "quit: expected -t SECONDS";
    quit_at_ns_ = base::BootTimeNs() + *seconds * 1'000'000'000;
  } else if (words.size() != 1) {
    return "quit: expected nothing or -t SECONDS";
  }
  quitting_ = true;
  Note("Asked to quit");
  return "";
}

// Held as long as the daemon lives; the kernel releases it however the daemon ends. Children do not
// inherit it.
Result<base::UniqueFd> TakeLock(const MpsFolders& folders) {
  const std::string path = folders.Lock();
  base::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!fd) return base::FailErrno(errno, path);
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  if (::fcntl(fd.get(), F_SETLK, &lock) == 0) return fd;
  return base::Fail(base::ErrorCode::kConflict, "An instance of this daemon is already running");
}

int Complain(const std::string& text) {
  std::fputs((text + "\n").c_str(), stderr);
  return 1;
}

// The daemon's own process; it calls `ready` when it starts to answer.
int RunDaemon(const MpsFolders& folders, const std::function<void()>& ready) {
  ::prctl(PR_SET_NAME, "nvidia-cuda-mps-control");
  Result<base::UniqueFd> lock = TakeLock(folders);
  if (!lock) return Complain(lock.error().message);
  ControlDaemon control(folders, std::move(*lock));
  if (const Result<Unit> opened = control.Open(); !opened) return Complain(opened.error().message);
  ready();
  return control.Run();
}

int RunInBackground(const MpsFolders& folders) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Complain("pipe failed");
  const base::UniqueFd read_end(ends[0]);
  base::UniqueFd write_end(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return Complain("fork failed");
  if (child == 0) {
    ::setsid();
    CloseAllBut(write_end.get(), write_end.get());
    if (::chdir("/") != 0) ::_exit(1);
    ::_exit(RunDaemon(folders, [&] {
      const base::UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
      for (const int fd : {0, 1, 2}) ::dup2(null.get(), fd);
      (void)!::write(write_end.get(), "!", 1);
      write_end.reset();
    }));
  }
  write_end.reset();
  char byte = 0;
  ssize_t got = 0;
  do {
    got = ::read(read_end.get(), &byte, 1);
  } while (got < 0 && errno == EINTR);
  return got == 1 ? 0 : 1;
}

}  // namespace

int StartMpsDaemon(const MpsFolders& folders, bool foreground) {
  if (MpsBehaves(folders, "refuse-start")) return Complain("Failed to start the control daemon");
  while (MpsBehaves(folders, "hang-start")) ::pause();
  for (const std::string& folder : {folders.pipes, folders.logs}) {
    const Result<Unit> made = base::MakeDirs(folder);
    if (!made) return Complain(made.error().message);
  }
  return foreground ? RunDaemon(folders, [] {}) : RunInBackground(folders);
}

}  // namespace carma::simgpu
