#include "cli/pilot/carmad.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "base/file.h"
#include "base/spawn.h"
#include "base/text.h"
#include "config/keys.h"
#include "task/shim/environment.h"

namespace carma::cli {
namespace {

constexpr std::size_t kLongestSocket = 107;
// Maximum restarts of lost tasks. High, because a task is not at fault when its allocation ends.
constexpr std::int64_t kLostWithAllocations = 1000;

bool MayHold(const std::string& base, const PilotPlace& place) {
  config::Settings probe;
  const bool fits = place.socket.size() <= kLongestSocket &&
                    config::FindKey("collocation.mps_dir")->set(probe, place.mps_dir);
  return fits && ::access(base.c_str(), W_OK | X_OK) == 0;
}

// Collects variables for the daemon, except those that the environment already sets. Usual() also
// leaves out keys that a configuration file sets.
class Variables {
 public:
  explicit Variables(const config::Loaded& configured) : configured_(configured) {}
  void Own(const std::string& key, const std::string& value) {
    const std::string variable = config::FindKey(key)->Variable();
    if (configured_.origins.at(key).where != variable) values_[variable] = value;
  }
  void Usual(const std::string& key, const std::string& value) {
    if (configured_.origins.at(key).where == "default") Own(key, value);
  }
  std::map<std::string, std::string> values() && { return std::move(values_); }

 private:
  const config::Loaded& configured_;
  std::map<std::string, std::string> values_;
};

}  // namespace

Result<PilotPlace> MakePlace(const config::Environment& environment, const std::string& job,
                             const std::string& name) {
  for (const std::string& base : config::PilotBases(environment)) {
    PilotPlace place;
    place.folder = base + "/" + config::PilotFolderName(job, ::getuid());
    place.socket = fmt::format("{}/{}.sock", place.folder, name);
    place.mps_dir = fmt::format("{}/mps-{}", place.folder, name);
    if (!MayHold(base, place)) continue;
    if (::mkdir(place.folder.c_str(), 0700) != 0 && errno != EEXIST)
      return FailErrno(errno, place.folder);
    if (Result<Unit> ours = config::CheckPrivate(place.folder, ::getuid()); !ours)
      return std::unexpected(ours.error());
    return place;
  }
  return Unavailable(
      "no folder for a socket: none of $XDG_RUNTIME_DIR, $TMPDIR and /tmp can be used");
}

int OwnCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

std::map<std::string, std::string> DaemonVariables(const Allocation& allocation,
                                                   const PilotPlace& place,
                                                   const config::Loaded& configured,
                                                   base::Duration notice, int machine_cpus) {
  Variables variables(configured);
  if (allocation.gpus) variables.Own("daemon.gpus", base::Join(*allocation.gpus, ","));
  if (allocation.cpus)
    variables.Own("host.cpus", fmt::format("{}", std::min(*allocation.cpus, machine_cpus)));
  if (allocation.memory_mib)
    variables.Own("host.memory", fmt::format("{}M", *allocation.memory_mib));
  // A pilot serves no web pages: a site configures one port, but a machine may have many pilots.
  variables.Own("daemon.http_port", "false");
  variables.Own("slots.notice", fmt::format("{}ms", notice.count()));
  variables.Own("reserve.lead", fmt::format("{}ms", notice.count()));
  variables.Usual("collocation.mps_dir", place.mps_dir);
  variables.Usual("recovery.max_node_failures", fmt::format("{}", kLostWithAllocations));
  return std::move(variables).values();
}

Result<Unit> Carmad::Start(const PilotPlace& place, const PilotBooks& books,
                           const std::map<std::string, std::string>& variables) {
  std::map<std::string, std::string> environment = variables;
  environment.merge(base::OwnEnvironment());
  base::SpawnOptions options;
  options.files = {"/dev/null", "/dev/null", STDERR_FILENO, books.lock_fd()};
  options.environment = task::ToBlock(environment);
  auto started = base::Spawn(
      {base::ExecutableDir() + "/carmad", "--socket", place.socket, "--state-dir", books.folder(),
       "--log", books.folder() + "/carmad.log", "--parent", fmt::format("{}", ::getpid())},
      options);
  if (!started) return FailErrno(started.error(), "carmad");
  pid_ = started->pid;
  return Unit{};
}

void Carmad::Reaped(pid_t pid, int status) {
  if (pid != pid_) return;
  pid_ = 0;
  end_ = WIFEXITED(status) ? fmt::format("exit code {}", WEXITSTATUS(status))
                           : fmt::format("signal {}", WTERMSIG(status));
}

void Carmad::Signal(int number) const {
  if (alive()) ::kill(pid_, number);
}

}  // namespace carma::cli
