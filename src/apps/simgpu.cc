// carma-simgpu: creates and shows a simulated GPU server, and injects faults into it
// (docs/inside/simgpu.md).
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>

#include "base/file.h"
#include "base/standard_streams.h"
#include "base/unique_fd.h"
#include "lab/simgpu/show.h"

namespace {

using carma::base::Error;
using carma::base::ErrorCode;
using carma::base::Result;
using carma::simgpu::Server;

int Complain(const Error& error) {
  std::cerr << "carma-simgpu: " << error.message << "\n";
  return error.code == ErrorCode::kInvalid ? 2 : 1;
}

struct Arguments {
  std::string state;
  std::string shape = "4xA100-40GB";
  carma::simgpu::ServerOptions options;
  std::optional<std::int64_t> origin_time_ms;
  bool keep = false;
  bool json = false;
  std::optional<int> gpu;
  bool driver = false;
  std::string kind;
  std::string code = "UNKNOWN";
  std::string function;
  std::int64_t mib = 0;
  int xid = 0;
  std::optional<std::int64_t> ecc_corrected, ecc_uncorrected, rows_remapped;
  bool remap_pending = false;
  bool remap_failed = false;
  std::string recovery;
};

// Returns the exit code of --keep, or nothing if there is no server to keep.
std::optional<int> Keep(const Arguments& arguments) {
  const Result<std::string> wanted = carma::simgpu::NormalShape(arguments.shape);
  if (!wanted) return Complain(wanted.error());
  const auto server = Server::Attach(arguments.state);
  if (!server) return std::nullopt;
  const std::string there = carma::simgpu::ShapeOf(**server);
  if (there == *wanted) return 0;
  return Complain(
      {ErrorCode::kConflict, arguments.state + " simulates " + there +
                                 "; remove it, or give carmad a different --state-dir"});
}

int Create(Arguments& arguments, Server*) {
  carma::base::UniqueFd folder;
  if (arguments.keep) {
    // Of two simultaneous calls, the second must keep the server that the first one creates.
    const auto path = std::filesystem::path(arguments.state).parent_path() / ".";
    folder.reset(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder) ::flock(folder.get(), LOCK_EX);
    if (const std::optional<int> kept = Keep(arguments)) return *kept;
  }
  arguments.options.origin_time_ms = arguments.origin_time_ms;
  const auto made =
      carma::simgpu::CreateServer(arguments.state, arguments.shape, arguments.options);
  return made ? 0 : Complain(made.error());
}

int Show(Arguments& arguments, Server* server) {
  const Result<std::string> text =
      arguments.json ? carma::simgpu::ShowJson(*server) : carma::simgpu::ShowText(*server);
  if (!text) return Complain(text.error());
  std::cout << *text;
  return 0;
}

int SetFault(Arguments& arguments, Server* server) {
  if (arguments.gpu.has_value() == arguments.driver)
    return Complain({ErrorCode::kInvalid, "fault: expected either --gpu or --driver"});
  const auto kind = carma::simgpu::ParseFaultKind(arguments.kind);
  if (!kind) return Complain(kind.error());
  const auto code = carma::simgpu::ParseNvmlCode(arguments.code);
  if (!code) return Complain(code.error());
  const auto set = server->SetFault({.kind = *kind,
                                     .gpu = arguments.gpu.value_or(carma::simgpu::kWholeDriver),
                                     .code = *code,
                                     .function = arguments.function});
  return set ? 0 : Complain(set.error());
}

int Clear(Arguments& arguments, Server* server) {
  std::optional<std::int32_t> which = arguments.gpu;
  if (arguments.driver) which = carma::simgpu::kWholeDriver;
  const auto cleared = server->ClearFaults(which);
  return cleared ? 0 : Complain(cleared.error());
}

int Xid(Arguments& arguments, Server* server) {
  const auto announced = server->AnnounceXid(arguments.gpu.value_or(0), arguments.xid);
  return announced ? 0 : Complain(announced.error());
}

constexpr std::array<std::string_view, 5> kRecoveries = {"none", "reset", "reboot", "drain-p2p",
                                                         "drain-and-reset"};

int Damage(Arguments& arguments, Server* server) {
  const int gpu = arguments.gpu.value_or(0);
  if (gpu < 0 || gpu >= server->gpu_count())
    return Complain({ErrorCode::kInvalid, "damage: expected a GPU number"});
  const auto look = server->Look(gpu);
  if (!look) return Complain(look.error());
  carma::simgpu::Condition condition = look->condition;
  condition.ecc_corrected = arguments.ecc_corrected.value_or(condition.ecc_corrected);
  condition.ecc_uncorrected = arguments.ecc_uncorrected.value_or(condition.ecc_uncorrected);
  condition.rows_remapped = arguments.rows_remapped.value_or(condition.rows_remapped);
  if (arguments.remap_pending) condition.remap_pending = 1;
  if (arguments.remap_failed) condition.remap_failed = 1;
  if (!arguments.recovery.empty()) {
    const auto* named = std::ranges::find(kRecoveries, arguments.recovery);
    if (named == kRecoveries.end()) {
      return Complain({ErrorCode::kInvalid,
                       "damage: expected --recovery none, reset, reboot, drain-p2p or "
                       "drain-and-reset"});
    }
    condition.recovery_action = static_cast<std::int32_t>(named - kRecoveries.begin());
  }
  const auto set = server->SetCondition(gpu, condition);
  return set ? 0 : Complain(set.error());
}

int Reset(Arguments& arguments, Server* server) {
  const auto done = server->ResetGpu(arguments.gpu.value_or(0));
  return done ? 0 : Complain(done.error());
}

// Acts as a process outside CARMA that only holds memory until it is killed.
int Hold(Arguments& arguments, Server* server) {
  carma::simgpu::Arrival arrival{.pid = ::getpid(),
                                 .shares = {{arguments.gpu.value_or(0), arguments.mib, 0}}};
  sigset_t ends;
  sigemptyset(&ends);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&ends, number);
  ::sigprocmask(SIG_BLOCK, &ends, nullptr);
  std::optional<carma::simgpu::Shortage> shortage;
  const auto residency = server->Join(arrival, shortage);
  if (!residency) return Complain(residency.error());
  if (shortage) {
    return Complain({ErrorCode::kUnavailable,
                     "hold: only " + std::to_string(shortage->free_mib) + " MiB free on that GPU"});
  }
  std::cout << "holding " << arguments.mib << " MiB\n" << std::flush;
  int number = 0;
  ::sigwait(&ends, &number);
  return 0;
}

int Audit(Arguments&, Server* server) {
  const Result<std::string> left = carma::simgpu::Audit(*server);
  if (!left) return Complain(left.error());
  std::cout << (left->empty() ? "all GPUs are empty\n" : *left);
  return left->empty() ? 0 : 1;
}

struct Verb {
  CLI::App* app;
  bool attaches;
  std::function<int(Arguments&, Server*)> run;
};

void AddDamage(CLI::App& damage, Arguments& arguments) {
  const CLI::Range count(std::int64_t{0}, std::int64_t{1} << 40);
  damage.add_option("gpu", arguments.gpu, "GPU number")->required();
  damage.add_option("--ecc-corrected", arguments.ecc_corrected, "corrected memory errors")
      ->check(count);
  damage.add_option("--ecc-uncorrected", arguments.ecc_uncorrected, "uncorrectable memory errors")
      ->check(count);
  damage.add_option("--rows-remapped", arguments.rows_remapped, "memory rows remapped so far")
      ->check(count);
  damage.add_flag("--remap-pending", arguments.remap_pending,
                  "the next reset will remap one more row");
  damage.add_flag("--remap-failed", arguments.remap_failed, "no spare rows are left");
  damage.add_option(
      "--recovery", arguments.recovery,
      "recovery action that the driver requests: none, reset, reboot, drain-p2p, drain-and-reset");
}

std::vector<Verb> AddVerbs(CLI::App& app, Arguments& arguments) {
  using carma::simgpu::kStateVariable;
  arguments.state = carma::base::GetEnv(kStateVariable);
  const auto add = [&](const char* name, const char* what, bool attaches, auto run) {
    CLI::App* verb = app.add_subcommand(name, what);
    // CLI11's envname() would not work here: all verbs store their --state in the same member, so
    // the verbs that are not used would overwrite the option's value with the variable.
    CLI::Option* state = verb->add_option(
        "--state", arguments.state, std::string("the server's file ($") + kStateVariable + ")");
    if (arguments.state.empty()) state->required();
    return Verb{verb, attaches, run};
  };
  std::vector<Verb> verbs = {
      add("create", "create an idle server", false, Create),
      add("show", "show GPUs, processes and faults", true, Show),
      add("fault", "inject a fault into a GPU or the driver", true, SetFault),
      add("clear", "clear faults", true, Clear),
      add("xid", "make the driver report a critical error (Xid) for a GPU", true, Xid),
      add("damage", "inject GPU errors that persist until a reset", true, Damage),
      add("reset", "clear a GPU's faults as a reset would", true, Reset),
      add("hold", "act as a process outside CARMA that holds memory until it is killed", true,
          Hold),
      add("audit", "exit with 1 if any process or allocated memory is left", true, Audit)};
  CLI::App& create = *verbs[0].app;
  create
      .add_option("--shape", arguments.shape,
                  "for example 2xA100-40GB,A100-80GB:mig=3g.40gb+1g.10gb")
      ->capture_default_str();
  create.add_flag("--keep", arguments.keep,
                  "keep an existing server if it has this shape, otherwise fail");
  create.add_option("--time-scale", arguments.options.time_scale,
                    "simulated seconds per real second");
  create.add_option("--seed", arguments.options.seed, "seed for the UUIDs");
  create.add_flag("--memory-limits", arguments.options.memory_limits,
                  "let the driver limit the memory of cgroups, as driver r615 and newer do");
  create.add_option("--origin-time-ms", arguments.origin_time_ms,
                    "the server's time at creation (default: now)");
  verbs[1].app->add_flag("--json", arguments.json, "print JSON");
  CLI::App& fault = *verbs[2].app;
  fault.add_option("--kind", arguments.kind, carma::simgpu::FaultKinds())->required();
  fault.add_option("--code", arguments.code, "NVML error name or number (--kind error)")
      ->capture_default_str();
  fault.add_option("--function", arguments.function,
                   "only this NVML function fails (--kind error)");
  for (const std::size_t i : {2u, 3u}) {
    verbs[i].app->add_option("--gpu", arguments.gpu, "GPU number");
    verbs[i].app->add_flag("--driver", arguments.driver, "the whole driver");
  }
  CLI::App& xid = *verbs[4].app;
  xid.add_option("gpu", arguments.gpu, "GPU or instance number, as shown by 'show'")->required();
  xid.add_option("xid", arguments.xid, "Xid number")->required()->check(CLI::Range(1, 999));
  AddDamage(*verbs[5].app, arguments);
  verbs[6].app->add_option("gpu", arguments.gpu, "GPU number")->required();
  CLI::App& hold = *verbs[7].app;
  hold.add_option("--gpu", arguments.gpu, "GPU or instance number, as shown by 'show'")->required();
  hold.add_option("--mib", arguments.mib, "memory in MiB")
      ->required()
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40));
  return verbs;
}

}  // namespace

int main(int argc, char** argv) {
  carma::base::OpenStandardStreams();
  CLI::App app{"Create a simulated GPU server, show it, and inject faults", "carma-simgpu"};
  app.set_version_flag("--version", CARMA_VERSION);
  app.require_subcommand(1);
  Arguments arguments;
  const std::vector<Verb> verbs = AddVerbs(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  for (const Verb& verb : verbs) {
    if (!verb.app->parsed()) continue;
    if (!verb.attaches) return verb.run(arguments, nullptr);
    const auto server = Server::Attach(arguments.state);
    return server ? verb.run(arguments, server->get()) : Complain(server.error());
  }
  return 2;
}
