#include "lab/simgpu/mps_control_daemon.h"

#include <fmt/format.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/clock.h"
#include "base/text.h"
#include "base/try.h"
#include "base/user.h"

namespace carma::simgpu {
namespace {

using namespace std::chrono_literals;

// Time limit for a peer that does not respond.
constexpr auto kPatience = 2000ms;

sigset_t ServedSignals() {
  sigset_t set;
  sigemptyset(&set);
  // Other signals terminate the daemon immediately and leave all its files behind, as they do with
  // NVIDIA's daemon.
  sigaddset(&set, SIGCHLD);
  return set;
}

// Makes this process run as the user whose clients it serves.
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

}  // namespace

void CloseAllBut(int a, int b) {
  const auto low = static_cast<unsigned>(std::min(a, b));
  const auto high = static_cast<unsigned>(std::max(a, b));
  if (low > 3) ::close_range(3, low - 1, 0);
  if (high > low + 1) ::close_range(low + 1, high - 1, 0);
  ::close_range(high + 1, ~0U, 0);
}

ControlDaemon::ControlDaemon(MpsFolders folders, base::UniqueFd lock,
                             const MpsDaemonOptions& options)
    : folders_(std::move(folders)), lock_(std::move(lock)), options_(options) {
  const std::string percentage = base::GetEnv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
  terms_.thread_percentage = ParseMpsPercentage(percentage).value_or(100);
  const std::string limits = base::GetEnv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
  terms_.memory_limits = ParseMpsMemoryLimits(limits).value_or(MpsMemoryLimits{});
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) terms_.visible_devices = visible;
  if (!options_.partitions) return;
  const std::string gpus = terms_.visible_devices.value_or("");
  for (const std::string_view uuid : base::Split(gpus, ','))
    gpus_.push_back({std::string(uuid), {}});
}

Result<Unit> ControlDaemon::Open() {
  // Reuses the FIFO of an earlier daemon. If another type of file has this name, the daemon runs
  // without a FIFO and logs nothing.
  ::mkfifo(folders_.LogFifo().c_str(), 0777);
  privileged_ = CARMA_TRY(ListenAnew(folders_.Privileged()));
  listener_ = CARMA_TRY(ListenAnew(folders_.Control()));
  // The socket accepts all users, because a shared daemon also serves clients of other users. The
  // folder's mode restricts which users can reach it.
  ::chmod(folders_.Control().c_str(), 0666);
  if (!Is535())
    CARMA_TRY(base::WriteFileAtomic(folders_.PidFile(), std::to_string(::getpid()), 0666));
  const sigset_t served = ServedSignals();
  ::sigprocmask(SIG_BLOCK, &served, nullptr);
  signals_.reset(::signalfd(-1, &served, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) return FailErrno(errno, "signalfd");
  Note("Starting control daemon using socket " + folders_.Control());
  return Unit{};
}

int ControlDaemon::Run() {
  const auto may_exit = [this] {
    return Ask("clients").value_or("").empty() ||
           (quit_at_ns_ && base::BootTimeNs() >= *quit_at_ns_);
  };
  while (!(quitting_ && may_exit())) {
    pollfd watched[3] = {
        {listener_.get(), POLLIN, 0}, {privileged_.get(), POLLIN, 0}, {signals_.get(), POLLIN, 0}};
    // The daemon gets no message when the server's last client leaves, so it polls its server while
    // quitting.
    if (::poll(watched, 3, quitting_ ? 20 : -1) < 0 && errno != EINTR) return 1;
    if (watched[2].revents != 0) ReapServer();
    if (watched[0].revents != 0) ServePeer(listener_);
    if (watched[1].revents != 0) ServePeer(privileged_);
  }
  Shutdown();
  return failed_ ? 1 : 0;
}

void ControlDaemon::Shutdown() {
  if (server_) {
    // Kills a server that does not respond to the quit request.
    if (Ask("quit") != "bye") failed_ = ::kill(server_->pid, SIGKILL) == 0;
    ::waitpid(server_->pid, nullptr, 0);
    ::unlink(server_->path.c_str());
  }
  Note("Exit");
  // Removes the FIFO and the pid file. The lock and the daemon's sockets remain.
  ::unlink(folders_.LogFifo().c_str());
  ::unlink(folders_.PidFile().c_str());
  for (const base::LineSocket& peer : quitters_) peer.Send(failed_ ? kMpsFailed : kMpsAnswerEnd);
}

void ControlDaemon::ReapServer() {
  signalfd_siginfo news{};
  while (::read(signals_.get(), &news, sizeof news) == sizeof news) {
  }
  int status = 0;
  if (!server_ || ::waitpid(server_->pid, &status, WNOHANG) != server_->pid) return;
  Note(fmt::format("Server {} exited with status {}", server_->pid, status));
  failed_ = failed_ || status != 0;
  ::unlink(server_->path.c_str());
  server_.reset();
}

void ControlDaemon::ServePeer(const base::UniqueFd& listener) {
  base::UniqueFd fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!fd) return;
  const std::optional<ucred> credentials = PeerOf(fd.get());
  base::LineSocket peer(std::move(fd));
  const Result<std::string> line = peer.Receive(kPatience);
  if (!line || !credentials) return;
  const uid_t uid = credentials->uid;
  if (MpsBehaves(folders_, "hang")) return unanswered_.push_back(std::move(peer));
  if (MpsBehaves(folders_, "crash")) ::_exit(134);
  ReapServer();
  const bool commands = &listener == &privileged_;
  if (!commands && line->starts_with("client "))
    return ServeClient(peer, uid, std::string_view(*line).substr(7));
  if (!commands || !line->starts_with("command ")) return;
  const bool allowed = uid == 0 || uid == ::geteuid();
  const std::string answer =
      allowed ? Execute(std::string_view(*line).substr(8)) : "Permission denied";
  if (!answer.empty()) peer.Send(answer);
  if (quitting_) return quitters_.push_back(std::move(peer));
  peer.Send(std::exchange(refused_, false) ? kMpsFailed : kMpsAnswerEnd);
}

void ControlDaemon::ServeClient(base::LineSocket& peer, uid_t uid, std::string_view partition) {
  const auto refuse = [&peer](MpsError error) { peer.Send(FormatMpsError(error)); };
  // Like NVIDIA's daemon, this daemon serves one user at a time. Unlike NVIDIA's, it refuses a
  // second user instead of making the user wait.
  const bool others = !options_.multi_user && server_ && server_->uid != uid;
  if (quitting_ || others) return refuse(MpsError::kConnectionFailed);
  const std::optional<double> percent = PartitionPercent(partition);
  if (options_.partitions && !percent) return refuse(MpsError::kInvalidResourceConfiguration);
  if (!StartServer(uid)) return refuse(MpsError::kServerNotReady);
  MpsWelcome welcome = terms_;
  welcome.thread_percentage = percent.value_or(terms_.thread_percentage);
  peer.Send(std::string(kMpsServer) + server_->path);
  peer.Send(FormatMpsWelcome(welcome));
}

bool ControlDaemon::StartServer(uid_t uid) {
  if (server_) return true;
  const auto fail = [this](const std::string& why) {
    Note("Failed to start a server: " + why);
    return false;
  };
  if (MpsBehaves(folders_, "server-fails")) {
    failed_ = true;
    MpsLog(folders_, "server.log", "Other", "Failed to start : no CUDA-capable device is detected");
    Note("Server 0 exited with status 1");
    return fail("Server encountered a fatal exception. Shutting down");
  }
  if (uid != ::geteuid() && ::geteuid() != 0)
    return fail("only root can start a server for another user");
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
    ::_exit(MpsServer(folders_, std::move(*listener), std::move(theirs)).Run());
  }
  Note(fmt::format("Starting new server {} for user {}", child, uid));
  Note(fmt::format("NEW SERVER {}: Ready", child));
  server_ = Server{child, uid, path, base::LineSocket(std::move(ours))};
  return true;
}

bool ControlDaemon::IsServer(std::string_view pid) const {
  return server_ && base::ParseInt(pid) == server_->pid;
}

std::optional<std::string> ControlDaemon::Ask(const std::string& request) {
  if (!server_ || !server_->channel.Send(request)) return std::nullopt;
  Result<std::string> answer = server_->channel.Receive(kPatience);
  return answer ? std::optional(std::move(*answer)) : std::nullopt;
}

}  // namespace carma::simgpu
