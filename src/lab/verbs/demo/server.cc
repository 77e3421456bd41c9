// Starts the `carma demo` servers with the installed programs, as a user would start them.
#include "lab/verbs/demo/server.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "base/file.h"
#include "base/spawn.h"
#include "base/text.h"
#include "base/try.h"
#include "config/simulated.h"

namespace carma::cli {
namespace {

constexpr std::size_t kMaxLog = 1 << 20;
constexpr std::size_t kToldOfLog = 300;

// This process's environment without the variables that configure CARMA.
std::vector<std::string> PlainEnvironment() {
  std::vector<std::string> variables;
  for (const auto& [name, value] : base::OwnEnvironment()) {
    if (!name.starts_with("CARMA_")) variables.push_back(name + "=" + value);
  }
  return variables;
}

std::string PathOf(std::string_view name) {
  return fmt::format("{}/{}", base::ExecutableDir(), name);
}

int Reap(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

base::Error DemoServer::Failure(const std::string& what, const std::string& log) const {
  std::string said = base::ReadFile(log, kMaxLog).value_or("");
  while (!said.empty() && said.back() == '\n') said.pop_back();
  if (said.size() > kToldOfLog) said.erase(0, said.size() - kToldOfLog);
  return {ErrorCode::kIo, what + ": " + base::Printable(said, 2 * kToldOfLog)};
}

Result<pid_t> DemoServer::Begin(std::vector<std::string> words, const std::string& log) const {
  const base::SpawnOptions options{.files = {"/dev/null", log, log},
                                   .environment = PlainEnvironment()};
  words.front() = PathOf(words.front());
  const auto spawned = base::Spawn(words, options);
  if (!spawned) return FailErrno(spawned.error(), words.front());
  return spawned->pid;
}

Result<Unit> DemoServer::Run(std::vector<std::string> words) const {
  const std::string log = folder_ + "/log";
  const std::string name = words.front();
  const pid_t pid = CARMA_TRY(Begin(std::move(words), log));
  if (const int status = Reap(pid); status != 0) return std::unexpected(Failure(name, log));
  return Unit{};
}

Result<std::unique_ptr<DemoServer>> DemoServer::Start(const std::string& folder, double speed,
                                                      const std::string& configuration) {
  std::unique_ptr<DemoServer> server(new DemoServer(folder));
  CARMA_TRY(base::MakeDirs(folder + "/out", 0700));
  const std::string state = folder + "/gpus";
  CARMA_TRY(server->Run({"carma-simgpu", "create", "--shape", "4xA100-40GB", "--time-scale",
                         fmt::format("{}", speed), "--state", state}));
  std::string text = fmt::format(
      "[daemon]\nsocket = \"{0}/socket\"\nstate_dir = \"{0}/state\"\nlog_level = \"warn\"\n"
      "[monitor]\nnvml_library = \"{1}\"\nkernel_log = \"\"\n[simulation]\nstate = \"{2}\"\n"
      "[collocation]\nmps_control = \"{3}\"\nmps_dir = \"{0}/mps\"\n{4}",
      folder, config::SimulatedDriver(base::ExecutableDir()), state, PathOf("carma-simmps"),
      configuration);
  CARMA_TRY(base::WriteFileAtomic(folder + "/carma.toml", text));
  server->daemon_ = CARMA_TRY(server->Begin(
      {"carmad", "--config", folder + "/carma.toml", "--parent", fmt::format("{}", ::getpid())},
      folder + "/carmad.log"));
  const Result<Unit> serves =
      server->Run({"carma", "--socket", folder + "/socket", "status", "--wait", "--timeout", "30"});
  if (!serves) return std::unexpected(server->Failure("carmad", folder + "/carmad.log"));
  return server;
}

DemoServer::~DemoServer() {
  if (replay_ > 0) {
    ::kill(replay_, SIGTERM);
    Reap(replay_);
  }
  if (daemon_ > 0) {
    (void)Run({"carma", "--socket", folder_ + "/socket", "cancel", "--all"});
    ::kill(daemon_, SIGTERM);
    Reap(daemon_);
  }
}

Result<Unit> DemoServer::Replay(const std::vector<std::string>& options) {
  std::vector<std::string> words{"carma",  "--socket", folder_ + "/socket", "trace",
                                 "replay", "demo60",   "--output-dir",      folder_ + "/out",
                                 "--wait", "--quiet"};
  words.insert(words.end(), options.begin(), options.end());
  replay_ = CARMA_TRY(Begin(std::move(words), folder_ + "/replay.log"));
  return Unit{};
}

Result<bool> DemoServer::Replays() {
  if (replay_ == 0) return false;
  int status = 0;
  if (::waitpid(replay_, &status, WNOHANG) == 0) return true;
  replay_ = 0;
  if (status != 0) return std::unexpected(Failure("carma trace replay", folder_ + "/replay.log"));
  return false;
}

Result<report::Report> DemoServer::Report(const std::string& label) {
  const std::string answer = CARMA_TRY(client().Get("/v1/report?run=1"));
  std::vector<report::Report> reports = CARMA_TRY(report::ReportsFromJsonText(answer));
  report::Report report = std::move(reports.front());
  report.metrics.label = label;
  if (report.run) report.run->label = label;
  return report;
}

}  // namespace carma::cli
