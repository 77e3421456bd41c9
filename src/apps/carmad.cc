// The node daemon.
#include <fcntl.h>
#include <fmt/format.h>
#include <malloc.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>

#include "api/other_daemon.h"
#include "base/file.h"
#include "base/log.h"
#include "base/spawn.h"
#include "base/standard_streams.h"
#include "base/suggest.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "build_text.h"
#include "config/client_socket.h"
#include "config/names.h"
#include "config/settings.h"
#include "config/simulated.h"
#include "daemon/loop/configuration.h"
#include "daemon/loop/detach.h"
#include "daemon/server/daemon.h"
#include "store/lock.h"

namespace {

using carma::base::Result;
using carma::base::Unit;

constexpr std::chrono::minutes kLongestStart{2};
constexpr std::uintmax_t kLargestLog = std::uintmax_t{64} << 20;  // bytes

struct Flags {
  std::string config, socket, state_dir, log;
  std::string simulate;  // shape of a simulated server; empty for real GPUs
  bool check_only = false;
  bool background = false;
  bool beside = false;
  int parent = 0;  // the daemon exits when this process exits; 0 if none
};

// Prints the error on a single line, even if the message contains line breaks.
int Refuse(const carma::base::Error& error, int exit_code) {
  const std::string prefix(carma::base::PriorityPrefix(carma::base::LogLevel::kError));
  std::fprintf(stderr, "%scarmad: %s\n", prefix.c_str(),
               carma::base::Printable(error.message, 4096).c_str());
  return exit_code;
}

std::string SimulatedState(const Flags& flags) {
  return flags.state_dir + "/gpus";
}

// Looks for configuration files each time, because files in carma.d may have been added or removed.
carma::config::Sources FindSources(const Flags& flags) {
  carma::config::Sources sources = carma::config::StandardSources(
      flags.config.empty() ? std::nullopt : std::optional(flags.config), ::getuid() == 0);
  if (!flags.socket.empty()) sources.overrides.emplace_back("daemon.socket", flags.socket);
  if (!flags.state_dir.empty()) sources.overrides.emplace_back("daemon.state_dir", flags.state_dir);
  if (!flags.simulate.empty()) {
    for (auto& each :
         carma::config::SimulatedServer(carma::base::ExecutableDir(), SimulatedState(flags)))
      sources.overrides.push_back(std::move(each));
  }
  return sources;
}

// Runs carma-simgpu. Returns 0 on success. said: the descriptor that receives its messages.
int RunSimgpu(std::vector<std::string> words, int said) {
  words.insert(words.begin(), carma::base::ExecutableDir() + "/carma-simgpu");
  const auto spawned = carma::base::Spawn(words, {.files = {"/dev/null", "/dev/null", said}});
  if (!spawned) return spawned.error();
  int status = 0;
  while (::waitpid(spawned->pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

// Creates a simulated server with its own database, separate from the one for the real GPUs. An
// existing simulated server is reused, and its tasks continue to run. Returns true if it is new.
Result<bool> MakeSimulated(Flags& flags) {
  if (flags.state_dir.empty()) {
    const std::string shape = std::exchange(flags.simulate, "");
    const Result<carma::config::Loaded> loaded = carma::config::Load(FindSources(flags));
    flags.simulate = shape;
    if (!loaded) return std::unexpected(loaded.error());
    flags.state_dir = loaded->settings.state_dir + "-simulated";
  }
  flags.state_dir = std::filesystem::absolute(flags.state_dir).string();
  if (const Result<Unit> made = carma::base::MakeDirs(flags.state_dir, 0711); !made)
    return std::unexpected(made.error());
  const std::string state = SimulatedState(flags);
  const bool is_new = !carma::base::Exists(state);
  const Result<carma::base::UniqueFd> said = carma::base::MemoryFile("");
  if (!said) return std::unexpected(said.error());
  const int ran =
      RunSimgpu({"create", "--keep", "--shape", flags.simulate, "--state", state}, said->get());
  if (ran == 0) return is_new;
  const std::string why =
      carma::base::ReadFile(fmt::format("/proc/self/fd/{}", said->get()), 4096).value_or("");
  return carma::Fail(
      carma::base::ErrorCode::kInvalid, "--simulate: {}",
      why.empty() ? "carma-simgpu failed without a message" : carma::base::Trim(why));
}

// Removes the simulated server of a failed start; otherwise a start with another shape would be
// refused. Does nothing if another carmad holds the lock, because it uses the same server.
void RemoveSimulated(const Flags& flags) {
  const auto lock = carma::store::StateLock::Take(flags.state_dir);
  std::error_code ignored;
  if (lock) std::filesystem::remove_all(SimulatedState(flags), ignored);
}

// Makes the daemon exit when its parent exits. Returns false if the parent has already exited.
bool EndsWithParent(pid_t parent) {
  return ::prctl(PR_SET_PDEATHSIG, SIGTERM) == 0 && ::getppid() == parent;
}

// Redirects standard error to this file, for our log and for library messages.
Result<Unit> UseLog(const std::string& path) {
  const carma::base::UniqueFd fd(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0600));
  if (!fd || ::dup2(fd.get(), STDERR_FILENO) < 0)
    return carma::base::FailErrno(errno, "the log " + path);
  return Unit{};
}

// Renames a large log so that it does not fill the disk; the target of a link is renamed, not the
// link. See DaemonOptions::tend_log.
void TendLog(const std::string& path, bool reopen) {
  std::error_code none;
  const std::filesystem::path file = std::filesystem::canonical(path, none);
  const bool large = std::filesystem::is_regular_file(file, none) &&
                     std::filesystem::file_size(file, none) >= kLargestLog;
  if (!large && !reopen) return;
  if (large) std::filesystem::rename(file, file.string() + ".old", none);
  if (const Result<Unit> used = UseLog(path); !used)
    carma::base::LogError("log_not_reopened", {{"why", used.error().message}});
}

// serving: see DaemonOptions.
int Serve(const Flags& flags, const carma::config::Loaded& loaded, std::function<void()> serving) {
  carma::base::NeverWaitForTerminal(STDERR_FILENO);
  carma::base::SetLogLevel(loaded.settings.log_level);
  carma::daemon::DaemonOptions options{
      .configuration = loaded,
      .sources = [flags] { return FindSources(flags); },
      .shim_path = carma::base::ExecutableDir() + "/carma-shim",
      .notify_path = carma::base::ExecutableDir() + "/carma-notify",
      .reader_path = carma::base::ExecutableDir() + "/carma-reader",
      .version = CARMA_VERSION};
  const auto terminal = std::make_shared<carma::base::UniqueFd>();
  options.serving = [terminal, serving = std::move(serving)] {
    terminal->reset();
    if (serving) serving();
  };
  if (!flags.config.empty()) options.config_file = std::filesystem::absolute(flags.config);
  if (!flags.log.empty()) options.tend_log = std::bind_front(&TendLog, flags.log);
  const auto daemon = carma::daemon::Daemon::Make(std::move(options));
  if (!daemon) return Refuse(daemon.error(), 1);
  // Startup errors appear in the terminal where carmad was started, so standard error is redirected
  // only now, and the terminal stays open until carmad is serving.
  if (!flags.log.empty()) {
    terminal->reset(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0));
    if (const Result<Unit> used = UseLog(flags.log); !used) return Refuse(used.error(), 1);
  }
  const Result<Unit> ran = (*daemon)->Run();
  if (ran) return 0;
  if (*terminal) ::dup2(terminal->get(), STDERR_FILENO);
  return Refuse(ran.error(), 1);
}

int ServeInBackground(Flags flags, const carma::config::Loaded& loaded) {
  if (flags.log.empty()) flags.log = loaded.settings.state_dir + "/carmad.log";
  // Both paths must be absolute, because the daemon changes to "/" and may open these files again
  // later.
  for (std::string* path : {&flags.config, &flags.log}) {
    if (!path->empty()) *path = std::filesystem::absolute(*path).string();
  }
  const auto started = carma::daemon::RunDetached(
      [&](std::function<void()> serves) { return Serve(flags, loaded, std::move(serves)); },
      kLongestStart);
  if (!started) return Refuse(started.error(), 1);
  if (started->serves) {
    fmt::print("carmad is serving {} in the background (process {}, log {})\n",
               loaded.settings.socket, started->pid, flags.log);
    return 0;
  }
  if (WIFSIGNALED(started->status)) {
    return Refuse({carma::base::ErrorCode::kUnavailable,
                   fmt::format("killed by signal {} during startup", WTERMSIG(started->status))},
                  1);
  }
  const int code = WEXITSTATUS(started->status);
  return code == 0 ? 1 : code;
}

// Checks the configuration, and starts the daemon unless check_only. Returns the exit code.
int Start(const Flags& flags) {
  const Result<carma::config::Loaded> loaded = carma::config::Load(FindSources(flags));
  if (!loaded) return Refuse(loaded.error(), 2);
  if (flags.check_only) {
    if (const Result<Unit> group = carma::config::CheckSocketGroup(loaded->settings); !group)
      return Refuse(group.error(), 2);
    if (const auto read = carma::daemon::ReadMeasuredProfiles(loaded->settings); !read)
      return Refuse(read.error(), 2);
    for (const auto& [key, what] : carma::config::UnknownNames(loaded->settings))
      fmt::print(stderr, "carmad: warning: {}: {}: {}\n", loaded->origins.at(key).where, key, what);
    std::puts("configuration is valid");
    return 0;
  }
  // Refuses to start next to root's carmad, which would not know about this carmad's tasks on the
  // same GPUs. Skipped for root and for simulated GPUs, and also with --parent: `carma pilot` has
  // already checked.
  if (!flags.beside && flags.parent == 0 && ::getuid() != 0 &&
      loaded->settings.simgpu_state.empty()) {
    const Result<Unit> alone =
        carma::api::CheckNoOtherDaemon(carma::config::kServerSocket, "--beside");
    if (!alone) return Refuse(alone.error(), 1);
  }
  if (flags.parent != 0 && !EndsWithParent(flags.parent)) return 1;
  return flags.background ? ServeInBackground(flags, *loaded) : Serve(flags, *loaded, nullptr);
}

// Describes the error in one line and suggests the option that was probably meant.
std::string Mistake(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> extra = app.remaining();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr || extra.empty())
    return error.what();
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) known.push_back(option->get_name());
  return fmt::format("unknown option {}{}", carma::base::Printable(extra.front(), 60),
                     carma::base::Suggestion(extra.front(), known));
}

int Run(int argc, char** argv) {
  CLI::App app{"carmad, the CARMA node daemon: queue, placement, launch and recovery of GPU tasks"};
  app.set_version_flag("--version", fmt::format("carmad {} ({})", CARMA_VERSION, kBuildText));
  Flags flags;
  app.add_option("--config", flags.config,
                 "configuration file instead of /etc/carma/carma.toml and the user's own");
  app.add_option("--socket", flags.socket, "Unix socket to listen on (daemon.socket)");
  app.add_option("--state-dir", flags.state_dir,
                 "folder for the daemon's state (daemon.state_dir)");
  app.add_option("--log", flags.log,
                 "log to this file, not to standard error; SIGHUP reopens it, and at 64 MiB it is "
                 "renamed to FILE.old");
  app.add_flag(
      "--background", flags.background,
      "return to the shell once carmad is serving; default log: carmad.log in the state folder");
  app.add_option("--simulate", flags.simulate,
                 "run on simulated GPUs, for example 4xA100-40GB, with a separate database")
      ->type_name("SHAPE");
  app.add_flag("--beside", flags.beside, "start even if root's carmad manages this server's GPUs");
  app.add_option("--parent", flags.parent, "exit when this parent process exits (carma pilot)")
      ->type_name("PID");
  app.add_flag("--check-config", flags.check_only, "read and check the configuration, then exit");
  app.footer("SIGHUP rereads the configuration. SIGTERM stops carmad; tasks continue without it.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    return Refuse({carma::base::ErrorCode::kInvalid,
                   fmt::format("{} (see carmad --help)", Mistake(app, error))},
                  2);
  }

  bool is_new = false;
  if (!flags.simulate.empty() && !flags.check_only) {
    const Result<bool> made = MakeSimulated(flags);
    if (!made) return Refuse(made.error(), 2);
    is_new = *made;
  }
  const int code = Start(flags);
  if (code != 0 && is_new) RemoveSimulated(flags);
  return code;
}

}  // namespace

// If a library throws an unexpected exception, for example because descriptors or memory have run
// out, the daemon prints one line and exits. Tasks continue to run, and the service manager
// restarts the daemon.
int main(int argc, char** argv) {
  carma::base::OpenStandardStreams();
  // malloc_trim does not release the unused ends of separate arenas, which add up to about ten
  // megabytes after a batch of many tasks. So all threads share one arena.
  ::mallopt(M_ARENA_MAX, 1);
  try {
    return Run(argc, argv);
  } catch (const std::exception& error) {
    return Refuse({carma::base::ErrorCode::kIo, error.what()}, 1);
  }
}
