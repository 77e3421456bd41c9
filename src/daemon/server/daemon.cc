#include "daemon/server/daemon.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "api/http.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/open_files.h"
#include "base/try.h"
#include "base/user.h"
#include "daemon/engine/launching.h"
#include "daemon/gpus/fault_origins.h"
#include "daemon/gpus/sampler.h"
#include "daemon/http/endpoints.h"
#include "daemon/http/routes.h"
#include "daemon/http/tokens.h"
#include "daemon/loop/alarm.h"
#include "daemon/loop/background_worker.h"
#include "daemon/loop/configuration.h"
#include "daemon/loop/housekeeping.h"
#include "daemon/loop/loop_meter.h"
#include "daemon/loop/notify.h"
#include "daemon/loop/signals.h"
#include "daemon/loop/user_names.h"
#include "daemon/present/metrics.h"
#include "daemon/present/server_status.h"
#include "daemon/server/engine_host.h"
#include "daemon/server/from_settings.h"
#include "gpu/memory_limits.h"
#include "gpu/reader/load_probe.h"
#include "store/store.h"

namespace carma::daemon {
namespace {

namespace asio = boost::asio;

// After this long, carmad reports that it is ready and answers the requests that have arrived, even
// if a driver or control daemon does not respond.
constexpr std::chrono::seconds kLongestSearch{5};
constexpr std::chrono::seconds kFileWatch{10};  // between two checks of the socket and log files

class RealDaemon : public Daemon, public Sampler::Taker {
 public:
  RealDaemon(DaemonOptions options, std::unique_ptr<base::Clock> clock,
             std::unique_ptr<store::Store> store);
  Result<Unit> Listen();
  Result<Unit> Run() override;

  // Implements Sampler::Taker.
  void TakeGpus(std::vector<gpu::DeviceInfo> devices) override;
  std::set<std::size_t> LeftAlone() override;
  void TakeRound(gpu::Round round, SeenProcesses seen) override;
  void DriverSilent(const gpu::ReadError& why) override;

 private:
  // Sets up all endpoints. Without an engine, those that need it respond with the error `why_not`.
  void OpenRoutes(const std::string& why_not = "");
  void Answer(api::Request request, const api::Responder& respond);
  void AnswerEarlyOnes();
  Result<Unit> FindGroups();
  void TakeSignal(int number);
  void Follow(Configuration::InForce now);
  void Beat();
  // Restores the socket file, which clients need to reach carmad. Limits the size of the log file.
  void WatchFiles();
  void OpenEngine(std::vector<gpu::DeviceInfo> devices);
  // Signals readiness to the process that started the daemon, but only once. From then on, requests
  // no longer wait for the GPUs to be found.
  void TellServing();
  // Tests whether the kernel can limit GPU memory. gpu_uuid: a whole GPU; empty if none responds.
  void TryLimits(const std::string& gpu_uuid, const std::function<void()>& then);
  // Repeats TryLimits() if no GPU responded before, for example because no driver was loaded.
  void TryLimitsAgain(const gpu::Round& round);
  // The next two functions choose the method for collocation.method = "auto".
  void DecideSharing(std::vector<gpu::DeviceInfo> devices);
  void TakeMpsTrial(const Result<task::MpsAbilities>& mps);
  void TakeMeasuredProfiles();
  api::StatusView Status();
  std::string Metrics();

  DaemonOptions options_;
  // The settings in force. The sharing method and its rules are set once the GPUs are known.
  Configuration::InForce in_force_;
  std::shared_ptr<base::Clock> clock_;
  std::unique_ptr<store::Store> store_;
  // Shared with the worker threads, like the clock, because a thread that hangs in a driver may
  // return after everything else has been destroyed. Any calls it posts after that are never run.
  std::shared_ptr<asio::io_context> shared_loop_ = std::make_shared<asio::io_context>(1);
  asio::io_context& loop_ = *shared_loop_;
  Counters counters_;
  LoopMeter loop_meter_{loop_, [this](std::chrono::nanoseconds late) {
                          counters_.CountLate(std::chrono::duration<double>(late).count());
                        }};
  Launching launching_;
  FaultOrigins fault_origins_;
  UserNames user_names_{shared_loop_};
  std::unique_ptr<EngineHost> engine_host_;  // null until the GPUs are known
  std::optional<base::Error> failure_;       // why the engine did not start
  // The last GPU readings before the engine was opened, kept so that tasks can start at once.
  std::optional<std::pair<gpu::Round, SeenProcesses>> early_round_;
  std::optional<std::uint32_t> socket_group_;
  Tokens tokens_;
  std::unique_ptr<Routes> routes_;
  // Requests that need the GPUs but arrived while carmad was still looking for them.
  std::vector<std::pair<api::Request, api::Responder>> early_;
  bool searches_ = true;         // true until TellServing()
  bool limits_untried_ = false;  // no GPU responded when carmad tried to limit memory
  std::unique_ptr<api::Server> unix_server_;
  std::unique_ptr<api::Server> tcp_server_;
  Signals signals_{loop_};
  Configuration configuration_;
  Alarm watchdog_{loop_}, serving_{loop_}, file_watch_{loop_};
  Housekeeping housekeeping_{loop_, loop_meter_, *store_, *clock_,
                             [this] { return in_force_.settings.keep_finished_days; }};
  std::unique_ptr<Sampler> sampler_;
  BackgroundWorker trial_{shared_loop_, BackgroundWorker::AtEnd::kLeave};
};

RealDaemon::RealDaemon(DaemonOptions options, std::unique_ptr<base::Clock> clock,
                       std::unique_ptr<store::Store> store)
    : options_(std::move(options)),
      in_force_{options_.configuration.settings, {}, nullptr},
      clock_(std::move(clock)),
      store_(std::move(store)),
      fault_origins_(in_force_.settings.kernel_log),
      tokens_(in_force_.settings.state_dir, [] { return base::ToMs(base::SystemClock().Now()); }),
      configuration_(shared_loop_, options_.configuration, options_.sources, *clock_,
                     [this](Configuration::InForce now) { Follow(std::move(now)); }) {
  const config::Settings& settings = in_force_.settings;
  gpu::LoadedProbe loaded = gpu::LoadProbe(ProbeOptionsOf(settings, *clock_, options_.reader_path));
  sampler_ = std::make_unique<Sampler>(
      shared_loop_, std::move(loaded.probe), clock_,
      SamplerOptions{settings.state_dir, settings.sample_period, settings.probe_timeout,
                     settings.gpus, std::move(loaded.dcgm_trouble)},
      *this);
}

Result<Unit> MakeSocketFolder(const config::Settings& settings) {
  return base::MakeDirs(settings.socket.substr(0, settings.socket.rfind('/')),
                        ::getuid() == 0 ? 0755 : 0700);
}

void RealDaemon::OpenRoutes(const std::string& why_not) {
  const ServerServices server{[this] { return Status(); }, [this] { return Metrics(); }, &tokens_};
  Routes::Options options{::getuid(),
                          in_force_.settings.admins,
                          std::bind_front(&UserNames::Ask, &user_names_),
                          in_force_.settings.allow_users,
                          in_force_.allow_groups,
                          [this](std::string_view token) { return tokens_.Find(token); }};
  SharedServices engine;
  if (engine_host_) {
    EngineServices services = engine_host_->Services();
    services.status = server.status;
    services.check_access = std::bind_front(&CheckAccess, options);
    engine = std::make_shared<const EngineServices>(std::move(services));
  }
  routes_ = std::make_unique<Routes>(std::move(options), Endpoints(server, engine), why_not);
}

void RealDaemon::Answer(api::Request request, const api::Responder& respond) {
  loop_meter_.Look();
  if (searches_ && !routes_->CanHandle(request)) {
    early_.emplace_back(std::move(request), respond);
  } else {
    routes_->Handle(std::move(request), respond);
  }
}

void RealDaemon::AnswerEarlyOnes() {
  for (auto& [request, respond] : std::exchange(early_, {}))
    routes_->Handle(std::move(request), respond);
}

api::StatusView RealDaemon::Status() {
  StatusSources sources{.version = options_.version,
                        .settings = in_force_.settings,
                        .clock = *clock_,
                        .store = *store_,
                        .counters = counters_,
                        .configuration = configuration_,
                        .driver_trouble = sampler_->driver_trouble(),
                        .missing_gpus = sampler_->missing_gpus(),
                        .profiles_trouble = in_force_.profiles_trouble,
                        .config_file = options_.config_file};
  if (engine_host_) {
    sources.engine = &engine_host_->engine();
    sources.monitor = &engine_host_->monitor();
    sources.forecast_drift = &engine_host_->forecast_drift();
    sources.mps = &engine_host_->mps();
  }
  return PresentStatus(sources);
}

std::string RealDaemon::Metrics() {
  return MetricsText(engine_host_ ? &engine_host_->engine() : nullptr,
                     engine_host_ ? &engine_host_->monitor() : nullptr, *store_, counters_,
                     configuration_, clock_->Now(), options_.version) +
         LeaseMetricsText(*launching_.launcher);
}

// Looks up the configured groups. This happens before the loop runs, because a name service may
// block.
Result<Unit> RealDaemon::FindGroups() {
  const config::Settings& settings = in_force_.settings;
  if (!settings.socket_group.empty()) {
    const Result<std::uint32_t> group = base::FindGroup(settings.socket_group);
    if (!group) return std::unexpected(base::Wrap(group.error(), "daemon.socket_group"));
    socket_group_ = *group;
  }
  in_force_.allow_groups = CARMA_TRY(FindAllowedGroups(settings));
  return Unit{};
}

Result<Unit> RealDaemon::Listen() {
  // carmad continues without tokens, because the socket does not need them.
  if (const Result<Unit> loaded = tokens_.Load(); !loaded)
    base::LogWarn("tokens_not_read", {{"why", loaded.error().message}});
  CARMA_TRY(FindGroups());
  TakeMeasuredProfiles();
  const config::Settings& settings = in_force_.settings;
  CARMA_TRY(MakeSocketFolder(settings));
  launching_ = CARMA_TRY(OpenLaunching(settings, options_.shim_path));
  CARMA_TRY(signals_.Listen([this](int number) { TakeSignal(number); }));
  OpenRoutes("carmad has not found any GPUs yet");
  const auto handler = [this](api::Request request, const api::Responder& respond) {
    Answer(std::move(request), respond);
  };
  unix_server_ = CARMA_TRY(api::Server::ListenUnix(loop_, settings.socket,
                                                   ::getuid() == 0 ? settings.socket_mode : 0600,
                                                   handler, socket_group_));
  if (!settings.http_port) return Unit{};
  Result<std::unique_ptr<api::Server>> tcp_server =
      api::Server::ListenTcp(loop_, static_cast<std::uint16_t>(*settings.http_port), handler);
  if (!tcp_server) return base::Wrap(tcp_server.error(), "daemon.http_port");
  tcp_server_ = std::move(*tcp_server);
  return Unit{};
}

Result<Unit> RealDaemon::Run() {
  Beat();
  WatchFiles();
  sampler_->Start();
  configuration_.CheckNames();
  housekeeping_.Start();
  if (launching_.processes_counted_by_user)
    base::LogInfo("processes_counted_by_user", {{"why", launching_.controls.why_not}});
  std::vector<base::Field> where = {{"socket", in_force_.settings.socket},
                                    {"state", in_force_.settings.state_dir}};
  if (tcp_server_)
    where.emplace_back("page", fmt::format("http://localhost:{}/", tcp_server_->port()));
  base::LogInfo("listening", where);
  NotifyServiceManager("READY=1");
  serving_.Set(kLongestSearch, [this] { TellServing(); });
  loop_.run();
  // Closes the connections of waiting clients, as if carmad had been killed, so that they retry and
  // reach the next carmad.
  unix_server_.reset();
  tcp_server_.reset();
  if (engine_host_) engine_host_->Stop();
  if (failure_) return std::unexpected(*std::move(failure_));
  return Unit{};
}

// ---- the configuration ----

void RealDaemon::TakeSignal(int number) {
  if (number == SIGHUP) {
    if (options_.tend_log) options_.tend_log(true);
    return configuration_.ReadAgain();
  }
  base::LogInfo("stopping", {{"signal", number}});
  NotifyServiceManager("STOPPING=1");
  loop_.stop();
}

// Passes the keys that may change without a restart (config::LoadAgain()) to all parts that have
// their own copies.
void RealDaemon::Follow(Configuration::InForce now) {
  const config::Settings before = std::exchange(in_force_, std::move(now)).settings;
  config::Settings& settings = in_force_.settings;
  base::SetLogLevel(settings.log_level);
  settings.collocation = before.collocation;
  settings.without_mps = before.without_mps;
  settings.kernel_limits = before.kernel_limits;
  settings.without_limits = before.without_limits;
  settings.divided = before.divided;
  if (!engine_host_) return;
  settings.policy = config::PolicyFor(settings, *settings.collocation);
  engine_host_->Follow(before);
  OpenRoutes();
}

void RealDaemon::Beat() {
  const std::optional<std::chrono::microseconds> period = WatchdogPeriod();
  if (!period) return;
  NotifyServiceManager("WATCHDOG=1");
  watchdog_.Set(*period, [this] { Beat(); });
}

void RealDaemon::WatchFiles() {
  (void)MakeSocketFolder(in_force_.settings);
  if (unix_server_->RestoreSocket().value_or(false))
    base::LogWarn("socket_restored", {{"socket", in_force_.settings.socket}});
  if (options_.tend_log) options_.tend_log(false);
  file_watch_.Set(kFileWatch, [this] { WatchFiles(); });
}

// ---- GPUs ----

void RealDaemon::TakeGpus(std::vector<gpu::DeviceInfo> devices) {
  const auto whole = std::ranges::find_if(
      devices, [](const gpu::DeviceInfo& device) { return !device.mig && device.trouble.empty(); });
  const std::string uuid = whole == devices.end() ? "" : whole->uuid;
  limits_untried_ = uuid.empty() || !sampler_->driver_trouble().empty();
  OpenRoutes("carmad is testing whether it can limit GPU memory");
  TryLimits(uuid, [this, devices = std::move(devices)] { DecideSharing(devices); });
}

void RealDaemon::TryLimits(const std::string& gpu_uuid, const std::function<void()>& then) {
  std::vector<std::string> limiter = {options_.reader_path, gpu::kMemoryLimitsWord,
                                      in_force_.settings.nvml_library};
  // Shims have a clean environment, so the simulated driver's variable must be passed explicitly.
  if (const std::string& state = in_force_.settings.simgpu_state; !state.empty())
    limiter.insert(limiter.begin(), {"env", "CARMA_SIMGPU_STATE=" + state});
  trial_.Ask([groups = launching_.groups, limiter,
              gpu_uuid] { return TryMemoryLimits(groups, limiter, gpu_uuid); },
             [this, limiter, then](const std::string& why_not) {
               in_force_.settings.kernel_limits = why_not.empty();
               in_force_.settings.without_limits = why_not;
               if (why_not.empty()) launching_.limiter = limiter;
               base::LogInfo("memory_limits", {{"kernel", why_not.empty()}, {"why_not", why_not}});
               then();
             });
}

void RealDaemon::TryLimitsAgain(const gpu::Round& round) {
  const std::vector<gpu::DeviceInfo>& devices = engine_host_->monitor().devices();
  for (std::size_t i = 0; i < round.size(); ++i) {
    if (devices[i].mig || !round[i] || !*round[i]) continue;
    limits_untried_ = false;
    return TryLimits(devices[i].uuid, [this] { engine_host_->Follow(in_force_.settings); });
  }
}

void RealDaemon::DecideSharing(std::vector<gpu::DeviceInfo> devices) {
  config::Settings& settings = in_force_.settings;
  if (!core::Shares(settings.policy)) settings.collocation = core::SharingMethod::kAlone;
  if (settings.collocation) return OpenEngine(std::move(devices));
  OpenRoutes("carmad is testing NVIDIA's MPS control daemon");
  trial_.Ask(
      [setup = MpsSetupOf(in_force_.settings, options_.shim_path), limit = settings.mps_timeout,
       shared = settings.mps_servers == task::MpsScope::kShared] {
        return task::TryMps(setup, shared, std::chrono::steady_clock::now() + limit);
      },
      [this, devices = std::move(devices)](const Result<task::MpsAbilities>& mps) {
        TakeMpsTrial(mps);
        OpenEngine(devices);
      });
}

void RealDaemon::TakeMpsTrial(const Result<task::MpsAbilities>& mps) {
  config::Settings& settings = in_force_.settings;
  settings.collocation = mps ? core::SharingMethod::kMps : core::SharingMethod::kStreams;
  if (!mps) settings.without_mps = mps.error().message;
  base::LogInfo("sharing", {{"method", config::CollocationName(*settings.collocation)},
                            {"without_mps", settings.without_mps}});
}

void RealDaemon::OpenEngine(std::vector<gpu::DeviceInfo> devices) {
  config::Settings& settings = in_force_.settings;
  if (settings.collocation == core::SharingMethod::kMps &&
      settings.mps_servers == task::MpsScope::kShared) {
    base::LogWarn("mps_shared", {{"text",
                                  "all users share one MPS server, so their processes are not "
                                  "isolated from each other (collocation.mps_servers)"}});
  }
  std::vector<core::GpuInfo> gpus = GpuInfosOf(settings, devices, launching_.machine);
  for (std::size_t i = 0; i < devices.size(); ++i) {
    base::LogInfo("gpu", {{"index", i},
                          {"uuid", devices[i].uuid},
                          {"name", devices[i].name},
                          {"total_mib", devices[i].total_mib},
                          {"sm_activity", devices[i].reports_sm_activity}});
  }
  settings.divided = !gpus.empty() && std::ranges::all_of(gpus, &core::GpuInfo::mig);
  settings.policy = config::PolicyFor(settings, *settings.collocation);
  engine_host_ = std::make_unique<EngineHost>(
      EngineHost::Surroundings{
          .loop = shared_loop_,
          .in_force = in_force_,
          .clock = *clock_,
          .store = *store_,
          .launching = launching_,
          .counters = counters_,
          .loop_meter = loop_meter_,
          .fault_origins = fault_origins_,
          .ask_name = std::bind_front(&UserNames::Ask, &user_names_),
          .after_next_reading = [this](auto call) { sampler_->AfterNextReading(std::move(call)); },
          .shim_path = options_.shim_path,
          .notify_path = options_.notify_path,
          .try_cuda = TryCudaBy(options_.reader_path),
          .driver_versions =
              settings.simgpu_state.empty()
                  ? [library = settings.nvml_library] { return gpu::ReadInstalledDriver(library); }
                  : std::function<gpu::InstalledDriver()>()},
      std::move(devices), gpus);
  if (Result<Unit> started = engine_host_->Start(std::move(gpus)); !started) {
    failure_ = started.error();
    if (failure_->code == ErrorCode::kCorrupt) failure_->message += "; restore a backup";
    base::LogError("start_failed", {{"why", failure_->message}});
    engine_host_.reset();
    loop_.stop();
    return;
  }
  OpenRoutes();
  if (early_round_) return TakeRound(early_round_->first, early_round_->second);
  AnswerEarlyOnes();
}

void RealDaemon::TellServing() {
  serving_.Stop();
  searches_ = false;
  AnswerEarlyOnes();
  if (const auto tell = std::exchange(options_.serving, nullptr)) tell();
}

std::set<std::size_t> RealDaemon::LeftAlone() {
  return engine_host_ ? engine_host_->LeftAlone() : std::set<std::size_t>();
}

void RealDaemon::TakeRound(gpu::Round round, SeenProcesses seen) {
  if (!engine_host_) {
    early_round_.emplace(std::move(round), std::move(seen));
    return;
  }
  engine_host_->TakeRound(round, seen);
  TellServing();
  if (limits_untried_ && !in_force_.settings.kernel_limits) TryLimitsAgain(round);
}

void RealDaemon::DriverSilent(const gpu::ReadError& why) {
  if (engine_host_) return engine_host_->DriverSilent(why);
  early_round_.reset();
  OpenRoutes("no GPU: " + why.Sentence() +
             "; see carma doctor, or carmad --simulate 2xA100-40GB for simulated GPUs");
  TellServing();
}

// Called before the loop runs. The server starts even without the profiles, because they only
// improve predictions.
void RealDaemon::TakeMeasuredProfiles() {
  auto profiles = ReadMeasuredProfiles(in_force_.settings);
  if (!profiles) {
    in_force_.profiles_trouble = profiles.error().message;
    return base::LogError("profiles_not_read", {{"why", in_force_.profiles_trouble}});
  }
  in_force_.profiles = *std::move(profiles);
  if (in_force_.profiles)
    base::LogInfo("profiles_read", {{"profiles", in_force_.profiles->size()}});
}

}  // namespace

Result<std::unique_ptr<Daemon>> Daemon::Make(DaemonOptions options) {
  // Ignored: SIGPIPE (a client has hung up), SIGXFSZ (a file has reached its size limit), SIGTTOU
  // (carmad writes to a terminal in the background, with stty tostop), and SIGUSR1 and SIGUSR2
  // (which would terminate carmad by default).
  for (const int signal : {SIGPIPE, SIGXFSZ, SIGTTOU, SIGUSR1, SIGUSR2}) ::signal(signal, SIG_IGN);
  Signals::Block();  // until Listen()
  base::RaiseOpenFiles();
  const config::Settings settings = options.configuration.settings;
  // Mode 0711 if carmad runs as root, because users' tasks run scripts from this folder.
  const unsigned mode = ::getuid() == 0 ? 0711 : 0700;
  CARMA_TRY(base::MakeDirs(settings.state_dir, mode));
  std::unique_ptr<base::Clock> clock = CARMA_TRY(MakeClock(settings));
  // Tells the simulated driver library and the tasks where the simulated server's state is.
  if (!settings.simgpu_state.empty())
    ::setenv("CARMA_SIMGPU_STATE", settings.simgpu_state.c_str(), 1);
  std::unique_ptr<store::Store> store =
      CARMA_TRY(store::Store::Open(settings.state_dir, settings.socket));
  auto daemon =
      std::make_unique<RealDaemon>(std::move(options), std::move(clock), std::move(store));
  CARMA_TRY(daemon->Listen());
  return daemon;
}

}  // namespace carma::daemon
