#include "lab/simgpu/mps_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/clock.h"
#include "base/text.h"
#include "lab/simgpu/mps_control.h"

namespace carma::simgpu {
using namespace std::chrono_literals;

void MpsLog(const MpsFolders& folders, std::string_view file, std::string_view who,
            const std::string& text) {
  struct stat st {};
  if (::lstat(folders.LogFifo().c_str(), &st) != 0 || !S_ISFIFO(st.st_mode)) return;
  const std::string path = fmt::format("{}/{}", folders.logs, file);
  const base::UniqueFd fd(
      ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!fd) return;
  const std::string line = fmt::format(
      "[{} {} {}] {}\n", base::FormatTime(base::SystemClock().Now()), who, ::getpid(), text);
  // If the write fails, for example on a full disk, only this line is lost.
  (void)!::write(fd.get(), line.data(), line.size());
}

bool MpsServer::Faulted() const {
  return MpsBehaves(folders_, "fault") || std::ranges::any_of(clients_, &Client::affected);
}

int MpsServer::Run() {
  Note("Server has started");
  bool daemon_lives = true;
  while (!quit_ && (daemon_lives || !clients_.empty())) {
    std::vector<pollfd> watched = {{daemon_lives ? channel_.fd() : -1, POLLIN, 0},
                                   {daemon_lives ? listener_.get() : -1, POLLIN, 0}};
    for (const Client& client : clients_) watched.push_back({client.socket.fd(), POLLIN, 0});
    if (::poll(watched.data(), watched.size(), -1) < 0 && errno != EINTR) return 1;
    const std::size_t known = clients_.size();
    if (watched[1].revents != 0) Accept();
    for (std::size_t i = known; i-- > 0;) {
      if (watched[2 + i].revents == 0 || ServeClient(clients_[i])) continue;
      Lose(clients_[i]);
      clients_.erase(clients_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    // The daemon is served last, so the reply to it does not count clients that have just left.
    if (watched[0].revents != 0) daemon_lives = ServeDaemon();
  }
  Note("Server is shutting down");
  return 0;
}

void MpsServer::Accept() {
  base::UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!fd) return;
  const pid_t pid = PeerOf(fd.get()).value_or(ucred{}).pid;
  clients_.push_back({base::LineSocket(std::move(fd)), pid});
}

bool MpsServer::ServeDaemon() {
  do {
    const Result<std::string> request = channel_.Receive(0ms);
    if (!request) return request.error().code == ErrorCode::kUnavailable;
    if (!channel_.Send(Answer(*request))) return false;
  } while (channel_.HasLine() && !quit_);
  return true;
}

std::string MpsServer::Answer(const std::string& request) {
  if (request == "status") return Faulted() ? "FAULT" : "ACTIVE";
  if (request == "clients") {
    std::string pids;
    for (const Client& client : clients_) {
      if (client.joined) pids += (pids.empty() ? "" : " ") + std::to_string(client.pid);
    }
    return pids;
  }
  if (request == "partitions") {
    std::string used;
    for (const Client& client : clients_) used += client.joined ? client.partition + " " : "";
    return used;
  }
  if (request.starts_with("terminate "))
    return Terminate(static_cast<pid_t>(base::ParseInt(request.substr(10)).value_or(0)));
  quit_ = request == "quit";
  return quit_ ? "bye" : "unknown";
}

std::string MpsServer::Terminate(pid_t pid) {
  bool found = false;
  for (Client& client : clients_) {
    if (!client.joined || client.pid != pid) continue;
    Note(fmt::format("Client {} is terminated", pid));
    client.terminated = found = true;
    client.socket.Send(FormatMpsError(MpsError::kClientTerminated));
  }
  return found ? "done" : fmt::format("Invalid process {}!", pid);
}

// Reads everything that the client has sent, because the client might exit right after its last
// line.
bool MpsServer::ServeClient(Client& client) {
  while (true) {
    const Result<std::string> line = client.socket.Receive(0ms);
    if (!line) return line.error().code == ErrorCode::kUnavailable;
    if (line->starts_with("join ") && !client.joined) Admit(client, line->substr(5));
    if (line->starts_with("uses ") && client.joined) {
      client.uses.insert(line->substr(5));
      ShowItself(line->substr(5));
    }
    if (*line == "fault" && client.joined) FaultOf(client);
    if (*line == "bye") client.terminated = true;  // a regular disconnect
  }
}

void MpsServer::Admit(Client& client, std::string_view partition) {
  if (Faulted()) {
    client.socket.Send(FormatMpsError(MpsError::kServerNotReady));
  } else if (std::ranges::count_if(clients_, &Client::joined) >= kMaxMpsClients ||
             MpsBehaves(folders_, "full")) {
    client.socket.Send(FormatMpsError(MpsError::kMaxClients));
  } else {
    client.partition = partition;
    client.joined = true;
    client.socket.Send(kMpsJoined);
    Note(fmt::format("Client {} connected", client.pid));
  }
}

// Lists this server among the GPU's processes, as the driver does for a real server.
// `place_and_path`: "0 /path/of/the/state".
void MpsServer::ShowItself(std::string_view place_and_path) {
  const std::string key(place_and_path);
  if (residencies_.contains(key) || !MpsBehaves(folders_, "resident")) return;
  const std::size_t blank = key.find(' ');
  const auto place = base::ParseInt(place_and_path.substr(0, blank));
  if (blank == key.npos || !place || *place < 0 || *place >= kMaxPlaces) return;
  auto gpus = simgpu::Server::Attach(key.substr(blank + 1));
  if (!gpus) return;
  std::optional<Shortage> shortage;
  auto joined = (*gpus)->Join(
      {.pid = ::getpid(), .shares = {{static_cast<int>(*place), kMpsServerMib, 0}}}, shortage);
  if (joined && *joined) residencies_[key] = {std::move(*gpus), std::move(*joined)};
}

// The clients on a GPU share one context, so a fault in one client affects them all.
void MpsServer::FaultOf(const Client& culprit) {
  Note(fmt::format("Client {} caused a fatal fault", culprit.pid));
  const MpsError error =
      MpsBehaves(folders_, "vague-error") ? MpsError::kLaunchFailed : MpsError::kForeignAccess;
  for (Client& client : clients_) {
    if (!client.joined || std::ranges::none_of(client.uses, [&](const std::string& gpu) {
          return culprit.uses.contains(gpu);
        })) {
      continue;
    }
    client.affected = true;
    if (client.pid != culprit.pid) client.socket.Send(FormatMpsError(error));
  }
}

void MpsServer::Lose(const Client& client) {
  if (!client.joined) return;
  Note(fmt::format("Client {} disconnected", client.pid));
  if (client.terminated || client.affected || MpsBehaves(folders_, "tolerant")) return;
  // The client was killed while its kernels were running. NVIDIA does not document how the server
  // reacts, so the simulation assumes the worst.
  Note(fmt::format("Client {} died with work in flight; the server exits", client.pid));
  ::_exit(1);
}

}  // namespace carma::simgpu
