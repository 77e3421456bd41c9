#include "task/mps/mps_control.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/pidfd.h"
#include "base/text.h"
#include "base/try.h"
#include "base/unique_fd.h"
#include "task/mps/mps_child.h"
#include "task/process/bounded_run.h"
#include "task/process/process_tree.h"

namespace carma::task {
namespace {

using base::UniqueFd;
using Deadline = MpsControl::Deadline;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr const char* kCsv = "--format=csv,noheader";
constexpr const char* kServerList = "the MPS control daemon's server list";
constexpr const char* kClientList = "the MPS control daemon's client list";
constexpr std::size_t kMaxAnswer = 256 << 10;
constexpr int kLookAgainMs = 20;
constexpr milliseconds kAfterKill{500};
// How long a control daemon may take to lock its folder after it starts. Short, because callers may
// wait this much longer than their deadline (daemon/mps_servers.cc).
constexpr milliseconds kLockTaken{200};
// Interval between queries. Each query starts a process and adds lines to the control daemon's log.
constexpr int kAskAgainMs = 100;
// How long to wait for the control daemon to log that a server has exited. By then, the server's
// own log is complete.
constexpr milliseconds kLastWords{300};
// How long to wait for an unresponsive control daemon to exit.
constexpr milliseconds kUnaskedEnd{2'000};

int MsUntil(Deadline deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000));
}

Result<std::string> FindProgram(const std::string& name) {
  if (name.starts_with('/')) {
    if (::access(name.c_str(), X_OK) == 0) return name;
    return NotFound("program " + name + " not found (collocation.mps_control)");
  }
  std::string program =
      base::FindOnPath(base::GetEnv("PATH", "/usr/local/bin:/usr/bin:/bin"), name);
  if (!program.empty()) return program;
  // The value of $PATH is omitted, because carma status shows this text to every user.
  return NotFound("program '" + name + "' not found in carmad's $PATH (collocation.mps_control)");
}

std::string LastWords(const RunResult& ran) {
  for (const std::string_view line : base::Split(ran.output, '\n')) {
    if (!base::Trim(line).empty()) return base::Printable(base::Trim(line));
  }
  if (ran.signal != 0) return "it was killed";
  return "it exited with code " + std::to_string(ran.exit_code) + " and printed nothing";
}

// The result for a server that did not become active.
Result<MpsServer> NotActive(const MpsServer& server) {
  // A server that does not report its state counts as ready, because its control daemon makes
  // clients wait for it.
  if (server.state == MpsServerState::kUnknown) return server;
  if (server.state == MpsServerState::kFault) {
    return Unavailable(
        "the MPS server is in a faulted state until the affected clients have exited");
  }
  return Unavailable("the MPS server did not start in time");
}

// Waits for these processes to exit, even if they are not our children. Returns false if they do
// not exit in time.
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

void Kill(const std::vector<base::ProcessId>& processes) {
  for (const base::ProcessId& process : processes) Tell(process, {SIGKILL});
  (void)AwaitEnds(processes, Clock::now() + kAfterKill);
}

}  // namespace

MpsControl MpsControl::Showing(const std::string& gpus) const {
  MpsControl control = *this;
  if (!gpus.empty()) control.setup_.environment["CUDA_VISIBLE_DEVICES"] = gpus;
  return control;
}

Result<Unit> MpsControl::MakeShow(const std::vector<std::string>& gpus, const std::string& readable,
                                  bool unused, Deadline deadline) const {
  const std::optional<base::ProcessId> daemon = Daemon();
  const std::string shown = daemon ? MpsVisibleGpus(daemon->pid) : "";
  if (shown.empty()) return Unit{};
  const auto in = [](const std::string& list) {
    return [all = base::Split(list, ',')](std::string_view gpu) {
      return std::ranges::find(all, gpu) != all.end();
    };
  };
  const bool shows = std::ranges::all_of(gpus, in(shown));
  const bool works = readable.empty() || std::ranges::all_of(base::Split(shown, ','), in(readable));
  if (shows && (works || !unused)) return Unit{};
  if (!unused || HasClients(deadline)) {
    if (shows) return Unit{};
    return Fail(
        ErrorCode::kConflict,
        "the MPS server started while a GPU of the task could not be read, so it lacks that GPU");
  }
  Quit(deadline);
  return Unit{};
}

std::optional<base::ProcessId> MpsControl::Daemon() const {
  const std::optional<pid_t> pid = MpsLockHolder(MpsPipeDir(setup_.dir, id_));
  if (!pid || !BelongsTo(*pid, id_.uid)) return std::nullopt;
  const std::optional<base::ProcessStat> stat = base::ReadProcessStat(*pid);
  if (!stat || stat->dead()) return std::nullopt;
  return stat->id;
}

Result<std::string> MpsControl::Run(const std::vector<std::string>& arguments,
                                    const std::string& input, Deadline deadline) const {
  const std::string program = CARMA_TRY(FindProgram(setup_.program));
  MpsOrder order{setup_.dir, id_, setup_.environment, {program}};
  order.argv.insert(order.argv.end(), arguments.begin(), arguments.end());
  std::vector<std::string> words{setup_.shim_path, "--mps"};
  for (std::string& word : ToArguments(order)) words.push_back(std::move(word));
  const RunResult ran = CARMA_TRY(
      RunBounded({.words = std::move(words),
                  .input = input,
                  .environment = std::vector<std::string>{"PATH=/usr/local/bin:/usr/bin:/bin"},
                  .kept = kMaxAnswer,
                  .limit = milliseconds(MsUntil(deadline)),
                  .session = true,
                  .together = true}));
  if (ran.late || ran.output.size() >= kMaxAnswer)
    return Unavailable("the MPS control program did not respond in time");
  if (ran.signal == 0 && ran.exit_code == 0) return ran.output;
  return Unavailable("the MPS control program failed: " + LastWords(ran));
}

Result<std::string> MpsControl::Ask(const std::string& command, Deadline deadline) const {
  return Run({}, command + "\n", deadline);
}

// Kills a control daemon that did not respond in time. Killing the control program may have left
// the daemon alive, because the daemon may already have its own session. First waits for the daemon
// to take its lock, which identifies it.
void MpsControl::EndLate() const {
  const Deadline patience = Clock::now() + kLockTaken;
  while (!Daemon() && MsUntil(patience) > 0) ::poll(nullptr, 0, kLookAgainMs);
  if (const std::optional<base::ProcessId> late = Daemon()) Kill({*late});
}

Result<std::string> MpsControl::MultiUserOption(Deadline deadline) const {
  if (::geteuid() != 0) {
    return Denied(
        "carmad must run as root to start an MPS server for all users "
        "(collocation.mps_servers)");
  }
  const std::string help = CARMA_TRY(Run({"-h"}, "", deadline));
  // NVIDIA's manual for protocol 3 calls the option --multiuser.
  for (const std::string option : {"--multiuser-server", "--multiuser"}) {
    if (help.contains(option)) return option;
  }
  return Denied(
      "this driver's MPS control program cannot start a server for all users; that needs driver "
      "branch 580 or newer (collocation.mps_servers)");
}

Result<Unit> MpsControl::Start(Deadline deadline, bool partitions) const {
  std::vector<std::string> words{"-d"};
  if (partitions && OffersPartitions(deadline)) words.emplace_back("-S");
  if (id_.shared) words.push_back(CARMA_TRY(MultiUserOption(deadline)));
  const Result<std::string> said = Run(words, "", deadline);
  // The daemon takes its lock before it listens, and -d returns once it listens.
  if (said && Daemon()) return Unit{};
  if (!said) {
    if (MsUntil(deadline) == 0) EndLate();
    return std::unexpected(said.error());
  }
  const std::string text = LastMpsLogText(logs_.ControlSince({}));
  return Unavailable("the MPS control daemon exited during startup" +
                     (text.empty() ? "" : ": " + text));
}

Result<MpsAbilities> MpsControl::Try(Deadline deadline) const {
  const bool partitions = OffersPartitions(deadline);
  CARMA_TRY(Start(deadline, false));
  if (const auto daemon = Daemon(); daemon && MpsSpeaksThree(daemon->pid)) {
    const Result<std::optional<MpsServer>> looked = LookForNamed(deadline);
    const bool logs = !logs_.ControlSince({}).empty();
    Quit(deadline);
    if (!looked) return std::unexpected(looked.error());
    return MpsAbilities{.tells_state = true, .logs = logs};
  }
  const Result<std::string> listed = Ask("get_server_list", deadline);
  const Result<std::string> said = Ask("get_server_status 1", deadline);
  const std::string log = logs_.ControlSince({});
  Quit(deadline);
  if (!listed) return std::unexpected(listed.error());
  if (!said) return std::unexpected(said.error());
  CARMA_TRY(base::Wrap(ParseMpsPids(*listed), kServerList));
  const Result<MpsServerState> state = ParseMpsServerState(*said);
  if (!state && state.error().code != ErrorCode::kNotFound)
    return Unavailable(state.error().message);
  return MpsAbilities{.tells_state = !state || *state != MpsServerState::kUnknown,
                      .logs = !log.empty(),
                      .partitions = partitions};
}

Result<std::optional<MpsServer>> MpsControl::Look(
    Deadline deadline, const std::optional<base::ProcessId>& known) const {
  const std::optional<base::ProcessId> daemon = Daemon();
  if (!daemon) return std::nullopt;
  logs_.Bound();
  if (MpsSpeaksThree(daemon->pid)) return LookForNamed(deadline);
  if (known && base::Alive(*known)) {
    std::optional<MpsServer> same = CARMA_TRY(LookFor(known->pid, deadline));
    if (same) return same;
  }
  const std::string listed = CARMA_TRY(Ask("get_server_list", deadline));
  for (const pid_t pid : CARMA_TRY(base::Wrap(ParseMpsPids(listed), kServerList))) {
    std::optional<MpsServer> server = CARMA_TRY(LookFor(pid, deadline));
    if (server) return server;
  }
  return std::nullopt;
}

Result<std::optional<MpsServer>> MpsControl::LookFor(pid_t pid, Deadline deadline) const {
  const std::optional<base::ProcessStat> stat = base::ReadProcessStat(pid);
  if (!stat || stat->dead()) return std::nullopt;
  const std::string said =
      CARMA_TRY(Ask(fmt::format("get_server_status {0}\nget_client_list {0}", pid), deadline));
  const Result<MpsServerState> state = ParseMpsServerState(said);
  if (!state && state.error().code == ErrorCode::kNotFound) return std::nullopt;
  if (!state) return Unavailable(state.error().message);
  const std::string_view clients = std::string_view(said).substr(said.find('\n') + 1);
  return MpsServer{stat->id, *state, "", base::Wrap(ParseMpsPids(clients), kClientList)};
}

Result<std::optional<MpsServer>> MpsControl::LookForNamed(Deadline deadline) const {
  const std::string listed = CARMA_TRY(Run({"server", "list", kCsv}, "", deadline));
  const auto rows = CARMA_TRY(base::Wrap(ParseMpsServerRows(listed), kServerList));
  for (const MpsServerRow& row : rows) {
    const std::optional<base::ProcessStat> stat = base::ReadProcessStat(row.pid);
    if (row.uid != id_.uid || !stat || stat->dead()) continue;
    MpsServer server{stat->id, row.state, row.name};
    const auto clients = Run({"client", "list", "--server=" + row.name, kCsv}, "", deadline);
    server.clients = clients ? base::Wrap(ParseMpsPids(*clients), kClientList)
                             : std::unexpected(clients.error());
    return server;
  }
  return std::nullopt;
}

Result<std::string> MpsControl::StartServer(Deadline deadline) const {
  const std::optional<base::ProcessId> daemon = Daemon();
  const std::string uid = std::to_string(id_.uid);
  if (daemon && MpsSpeaksThree(daemon->pid))
    return Run({"server", "create", "--uid=" + uid}, "", deadline);
  return Ask("start_server -uid " + uid, deadline);
}

Result<MpsServer> MpsControl::Ready(Deadline deadline, bool partitions) const {
  if (!Daemon()) CARMA_TRY(Start(deadline, partitions));
  std::optional<MpsLogMark> asked;  // the logs before the server was requested
  std::string said;
  std::optional<MpsServer> starting;
  while (true) {
    const Result<std::optional<MpsServer>> server = Look(deadline);
    if (!server && starting && MsUntil(deadline) == 0) return NotActive(*starting);
    if (!server) return std::unexpected(server.error());
    starting = *server;
    if (!starting) {
      if (asked) return std::unexpected(WhyNoServer(*asked, said));
      // Start a server now; otherwise the first client would wait for it or silently run without
      // it.
      asked = logs_.Mark();
      said = CARMA_TRY(StartServer(deadline));
      continue;
    }
    // A server that this call started may be in this state briefly before it exits.
    if (starting->state == MpsServerState::kFault && !asked) return NotActive(*starting);
    if (TakesClients(*starting, asked)) return *starting;
    if (MsUntil(deadline) == 0) return NotActive(*starting);
    ::poll(nullptr, 0, std::min(kAskAgainMs, MsUntil(deadline)));
  }
}

// A server is listed as soon as it starts, long before it has its context on the GPU.
bool MpsControl::TakesClients(const MpsServer& server,
                              const std::optional<MpsLogMark>& asked) const {
  if (server.state != MpsServerState::kUnknown) return server.state == MpsServerState::kActive;
  return !asked || SaysMpsServerReady(logs_.ControlSince(*asked), server.process.pid);
}

base::Error MpsControl::WhyNoServer(const MpsLogMark& asked, const std::string& said) const {
  const Deadline patience = Clock::now() + kLastWords;
  while (!SaysMpsServerEnded(logs_.ControlSince(asked)) && MsUntil(patience) > 0)
    ::poll(nullptr, 0, kLookAgainMs);
  std::string text = LastMpsLogText(logs_.ServerSince(asked));
  if (text.empty()) text = base::Printable(base::Trim(said));
  if (text.empty()) text = "it printed nothing; see " + MpsLogDir(setup_.dir, id_);
  return {ErrorCode::kUnavailable, "the MPS server exited during startup: " + text};
}

bool MpsControl::HasClients(Deadline deadline) const {
  const Result<std::optional<MpsServer>> server = Look(deadline);
  return server && *server && (*server)->clients && !(*server)->clients->empty();
}

Result<Unit> MpsControl::TerminateClient(const MpsServer& server, pid_t client,
                                         Deadline deadline) const {
  if (!server.name.empty()) {
    CARMA_TRY(Run({"client", "terminate", std::to_string(client)}, "", deadline));
    return Unit{};
  }
  const std::string said = CARMA_TRY(
      Ask("terminate_client " + std::to_string(server.process.pid) + " " + std::to_string(client),
          deadline));
  return ParseMpsTermination(said);
}

void MpsControl::Quit(Deadline deadline) const {
  if (const std::optional<base::ProcessId> daemon = Daemon()) End(*daemon, deadline);
  if (!Daemon()) RemoveMpsPipeDir(setup_.dir, id_);
}

void MpsControl::End(const base::ProcessId& daemon, Deadline deadline) const {
  std::vector<base::ProcessId> processes{daemon};
  for (const base::ProcessStat& each : Descendants(daemon.pid)) {
    if (BelongsTo(each.id.pid, id_.uid)) processes.push_back(each.id);
  }
  // The command also fails if a server failed while shutting down.
  const bool heard = MpsSpeaksThree(daemon.pid) ? Run({"-q"}, "", deadline).has_value()
                                                : Ask("quit -t 1", deadline).has_value();
  const Deadline patience = heard ? deadline : std::min(deadline, Clock::now() + kUnaskedEnd);
  if (!AwaitEnds(processes, patience)) Kill(processes);
}

// ---- static SM partitions; the syntax is NVIDIA's (manual of release 615, protocol 2) ----

bool MpsControl::OffersPartitions(Deadline deadline) const {
  return Run({"-h"}, "", deadline).value_or("").find("static-partitioning") != std::string::npos;
}

bool MpsControl::DividesSms() const {
  const std::optional<base::ProcessId> daemon = Daemon();
  return daemon && MpsDividesSms(daemon->pid) && !MpsSpeaksThree(daemon->pid);
}

Result<MpsPartitions> MpsControl::Partitions(Deadline deadline) const {
  const std::string said = CARMA_TRY(Ask("lspart", deadline));
  return ParseMpsPartitions(said, id_.gpus);
}

Result<MpsPartition> MpsControl::AddPartition(double share, Deadline deadline) const {
  const MpsPartitions before = CARMA_TRY(Partitions(deadline));
  const int chunks = MpsChunks(share, before);
  const std::string said =
      CARMA_TRY(Ask("sm_partition add " + id_.gpus + " " + std::to_string(chunks), deadline));
  const Result<std::string> added = ParseMpsPartitionAdded(said, id_.gpus);
  if (!added) {
    return Fail(before.used_chunks > 0 ? ErrorCode::kConflict : ErrorCode::kUnavailable,
                added.error().message);
  }
  const MpsPartitions after = CARMA_TRY(Partitions(deadline));
  for (const MpsPartition& each : after.partitions) {
    if (each.id == *added) return each;
  }
  return Unavailable("the MPS control daemon does not list the SM partition that it has created");
}

// Success is not checked here, because the reply text is not documented. The partition list shows
// whether the partition is gone.
Result<Unit> MpsControl::RemovePartition(const std::string& partition, Deadline deadline) const {
  CARMA_TRY(Ask("sm_partition rm " + id_.gpus + " " + partition, deadline));
  return Unit{};
}

Result<MpsAbilities> TryMps(MpsSetup setup, bool shared, MpsControl::Deadline deadline) {
  setup.dir = "/tmp/carma-mps-XXXXXX";  // short, because socket paths must be short
  if (::mkdtemp(setup.dir.data()) == nullptr) return FailErrno(errno, setup.dir);
  const std::string dir = setup.dir;
  // No server is started, so any GPU will do.
  const MpsServerId id = shared ? SharedMpsServer("0") : MpsServerId{::geteuid(), ::getegid(), "0"};
  Result<MpsAbilities> abilities = MpsControl(std::move(setup), id).Try(deadline);
  std::error_code ignored;
  std::filesystem::remove_all(dir, ignored);
  return abilities;
}

std::vector<MpsServerId> FindMpsServers(const MpsSetup& setup,
                                        const std::vector<std::string>& gpus) {
  std::vector<MpsServerId> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(setup.dir.c_str()), ::closedir);
  while (const dirent* entry = dir == nullptr ? nullptr : ::readdir(dir.get())) {
    const bool shared = std::string_view(entry->d_name) == kSharedMpsFolder;
    const std::optional<std::int64_t> uid = shared ? 0 : base::ParseInt(entry->d_name);
    struct stat st {};
    const bool folder = uid && *uid >= 0 && *uid < 0xffffffff &&
                        ::fstatat(::dirfd(dir.get()), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (!folder || !S_ISDIR(st.st_mode) || st.st_uid != static_cast<uid_t>(*uid)) continue;
    for (const std::string& each : gpus) {
      const MpsServerId id =
          shared ? SharedMpsServer(each) : MpsServerId{st.st_uid, st.st_gid, each};
      if (MpsControl(setup, id).Daemon()) found.push_back(id);
    }
  }
  return found;
}

}  // namespace carma::task
