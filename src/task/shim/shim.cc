#include "task/shim/shim.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <expected>
#include <map>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "base/cpu_list.h"
#include "base/file.h"
#include "base/text.h"
#include "base/try.h"
#include "task/attach/attachment.h"
#include "task/describe/spec.h"
#include "task/process/cgroup.h"
#include "task/process/group_limiter.h"
#include "task/process/user.h"
#include "task/shim/checkpoint_folder.h"
#include "task/shim/child.h"
#include "task/shim/container_guard.h"
#include "task/shim/container_plan.h"
#include "task/shim/container_processes.h"
#include "task/shim/environment.h"
#include "task/shim/output_pump.h"
#include "task/shim/progress_file.h"
#include "task/shim/shim_protocol.h"
#include "task/shim/supervisor.h"

namespace carma::task {
namespace {

using base::UniqueFd;
using Refusal = std::unexpected<LaunchError>;

constexpr int kFirstRetryMs = 50;
constexpr int kLastRetryMs = 5000;
constexpr int kEarlyPipeBytes = 1 << 18;  // room for started.json and exit.json together
constexpr std::size_t kMaxFailureText = 8192;
constexpr std::chrono::milliseconds kRunnerPatience{1000};

Refusal Refuse(const base::Error& error, bool retryable = false) {
  return Refusal(LaunchError{error.message, retryable});
}

WarningSignal WarningOf(const TaskSpec& spec) {
  return {.number = spec.signal ? base::SignalNumber(*spec.signal).value_or(0) : 0,
          .main_only = spec.signal_main,
          .spares_main = spec.script.has_value() || spec.command.empty()};
}

int CheckpointSignalOf(const ShimOrder& order) {
  return base::SignalNumber(order.checkpoint_signal).value_or(0);
}

class Shim {
 public:
  explicit Shim(std::string attempt_dir) : dir_(std::move(attempt_dir)) {}
  int Run();

 private:
  // Makes this shim the attempt's owner. Returns false if the attempt already has one. After an
  // error, the attempt has no owner, and the daemon abandons it.
  Result<bool> Claim();
  std::expected<pid_t, LaunchError> Launch();
  std::expected<Unit, LaunchError> ReadOrder();
  std::expected<Unit, LaunchError> FindUser();
  // Opens the output files, terminal and conda environment with the user's privileges.
  std::expected<Unit, LaunchError> OpenUserFiles();
  // The part of OpenUserFiles() that runs with the user's privileges. Returns the conda
  // environment, if the task has one.
  std::expected<std::optional<CondaEnv>, LaunchError> OpenAsUser();
  Result<OutputPump> OpenOutput();
  std::expected<Unit, LaunchError> PlanScript();
  // Called after the script is written. Turns the command into an invocation of the container tool.
  std::expected<Unit, LaunchError> EnterContainer();
  void EndContainer(const ShimReport* report);
  void LeaveCheckpoints();
  void MakeGroup();
  void LimitGroup();
  std::string Containers() const {
    return ContainerGroup(BooksWord(order_.books), order_.id, order_.attempt);
  }
  ContainerLimits Limits() const { return {order_.limiter, order_.memory_limits}; }
  void LimitGpuMemoryOfGroups();
  Result<Unit> LimitGpuMemoryOf(const std::string& folder, bool guarantees);
  bool MayCallDocker() const;
  std::string ChangeGpuMemoryLimits();
  // Also removes the group's GPU memory limits, which would otherwise remain in the parent groups.
  void RemoveGroup();
  void TellStarted(pid_t main);
  void LeaveReport(const ShimReport& report);
  void AnswerEarly(const std::string& line);
  // Sends a message to the `carma run` that shows the task in a terminal, if there is one.
  void TellRunner(AttachMessage message);

  const std::string dir_;
  UniqueFd early_;
  UniqueFd signals_;
  ReservedFile started_file_;
  ReservedFile exit_file_;
  ShimOrder order_;
  UserInfo user_;
  std::unique_ptr<WornRights> rights_;
  std::optional<Attachment> attachment_;
  ProgressFile progress_;
  bool checkpoints_ready_ = false;  // the checkpoint folder, if there is one, belongs to this task
  std::optional<OutputPump> pump_;
  std::optional<TaskCgroup> group_;
  std::string no_limit_;
  std::map<std::string, bool> limited_;  // by group; true: the group is guaranteed memory
  UniqueFd script_;
  std::string script_text_;
  std::optional<ContainerRun> container_;
  std::optional<ContainerGuard> guard_;
  ChildPlan plan_;
};

int Shim::Run() {
  // The task inherits none of our descriptors except its streams.
  if (::fcntl(kEarlyAnswerFd, F_SETFD, FD_CLOEXEC) == 0) early_.reset(kEarlyAnswerFd);
  signals_ = ListenToSignals();
  ::umask(022);
  const Result<bool> claimed = Claim();
  if (!claimed) std::fprintf(stderr, "carma-shim: %s\n", claimed.error().message.c_str());
  if (!claimed) return 1;
  if (!*claimed) return kShimNotOwner;

  const std::expected<pid_t, LaunchError> main = Launch();
  if (!main) {
    EndContainer(nullptr);
    if (checkpoints_ready_) LeaveCheckpoints();
    RemoveGroup();
    const auto& [error, retryable, no_user] = main.error();
    const std::string text = error.substr(0, kMaxFailureText);
    LeaveReport({.launched = false, .text = text, .retryable = retryable, .no_user = no_user});
    TellRunner({.kind = AttachMessage::Kind::kRefused, .data = text});
    return 0;
  }
  const std::int64_t started_boot_ns = base::BootTimeNs();
  const auto started = std::chrono::system_clock::now().time_since_epoch();
  TellStarted(*main);
  const std::optional<std::int64_t> baseline = group_ ? group_->OomKills() : std::nullopt;
  Supervisor supervisor(*main, order_.kill_grace, signals_.get(), *pump_, *rights_,
                        group_ ? &*group_ : nullptr, baseline,
                        attachment_ ? &*attachment_ : nullptr, WarningOf(order_.spec),
                        CheckpointSignalOf(order_));
  if (container_) supervisor.WatchContainer(container_->group);
  if (!order_.limiter.empty()) supervisor.OnLimits([this] { return ChangeGpuMemoryLimits(); });
  ShimReport report = supervisor.Run(dir_ + "/" + kStopFile);
  EndContainer(&report);
  LeaveCheckpoints();
  RemoveGroup();
  report.started_ms = std::chrono::duration_cast<std::chrono::milliseconds>(started).count();
  report.started_boot_ns = started_boot_ns;
  LeaveReport(report);
  TellRunner(
      {.kind = AttachMessage::Kind::kEnded, .number = report.exit_code, .signal = report.signal});
  return 0;
}

void Shim::TellRunner(AttachMessage message) {
  if (!attachment_) return;
  attachment_->Tell(std::move(message));
  attachment_->Finish(kRunnerPatience);
}

Result<bool> Shim::Claim() {
  if (base::Exists(dir_ + "/" + kOwnerFile)) return false;
  // Reserves the space before the claim, because an attempt that has not been claimed can still be
  // reported as not started. If the disk is too full for a report, it is also too full for a task.
  for (auto [file, name, bytes] : {std::tuple{&started_file_, kStartedFile, kStartedReserveBytes},
                                   std::tuple{&exit_file_, kExitFile, kReportReserveBytes}}) {
    CARMA_TRY(file->Reserve(dir_, name, bytes));
  }
  return ClaimAttempt(dir_, /*abandon=*/false);
}

std::expected<pid_t, LaunchError> Shim::Launch() {
  CARMA_TRY(ReadOrder());
  CARMA_TRY(FindUser());
  CARMA_TRY(OpenUserFiles());
  CARMA_TRY(PlanScript());
  CARMA_TRY(EnterContainer());
  // Orphans of the task become our children, so that no process escapes by forking twice.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  MakeGroup();
  LimitGpuMemoryOfGroups();
  // Sync the claim to disk. Otherwise, after a power failure, the daemon might conclude that the
  // task never began.
  if (Result<Unit> synced = SyncClaim(dir_); !synced)
    return Refuse(synced.error(), /*retryable=*/true);
  plan_.workdir = order_.spec.workdir;
  plan_.umask = UmaskOf(order_.spec);
  plan_.max_processes = order_.max_processes;
  plan_.cores = base::ParseCpuList(order_.host.cores).value_or(std::vector<int>{});
  plan_.stdin_fd = attachment_ ? attachment_->task_end() : -1;
  plan_.terminal = attachment_ && attachment_->has_terminal();
  plan_.stdout_fd = pump_->task_end(0);
  plan_.stderr_fd = pump_->task_end(1);
  plan_.cgroup_fd = group_ ? group_->folder_fd() : -1;
  plan_.user = CanSwitchUser() && order_.uid != ::getuid() ? &user_ : nullptr;
  std::expected<pid_t, LaunchError> main = StartChild(plan_);
  pump_->CloseTaskEnds();
  return main;
}

std::expected<Unit, LaunchError> Shim::ReadOrder() {
  const Result<std::string> text = base::ReadFile(dir_ + "/" + kOrderFile, kMaxOrderBytes);
  if (!text) return Refuse(text.error(), /*retryable=*/true);
  Result<ShimOrder> order = ParseShimOrder(*text);
  if (!order)
    return Refuse(base::Error{order.error().code, "order.json: " + order.error().message});
  order_ = std::move(*order);
  plan_.argv = order_.spec.command;
  return Unit{};
}

std::expected<Unit, LaunchError> Shim::FindUser() {
  if (!CanSwitchUser() && order_.uid != ::getuid()) {
    return Refusal(
        LaunchError{fmt::format("carmad runs as user {}, so it cannot start tasks of user {}",
                                ::getuid(), order_.uid),
                    false});
  }
  Result<UserInfo> user = LookUpUser(order_.uid, order_.gid);
  if (!user) return Refuse(user.error(), /*retryable=*/true);
  user_ = std::move(*user);
  if (const std::string why = WhyNotTheSubmitter(order_.uid, order_.user, user_.name); !why.empty())
    return Refusal(LaunchError{why, /*retryable=*/user_.name.empty(), user_.name.empty()});
  rights_ = std::make_unique<WornRights>(user_, UmaskOf(order_.spec));
  return Unit{};
}

std::expected<Unit, LaunchError> Shim::OpenUserFiles() {
  if (!rights_->Wear())
    return Refusal(LaunchError{fmt::format("cannot switch to user {}", order_.uid), false});
  const std::expected<std::optional<CondaEnv>, LaunchError> opened = OpenAsUser();
  rights_->DropPrivileges();
  const std::optional<CondaEnv> conda = CARMA_TRY(opened);
  if (!order_.spec.no_progress) {
    progress_.Open(dir_);
    pump_->Show(progress_);
  }
  Environment environment = TaskEnvironment(order_, user_, conda ? &*conda : nullptr, dir_);
  if (order_.spec.container) {
    if (!rights_->Wear()) return Refusal(LaunchError{"cannot switch to the task's user", true});
    Result<ContainerRun> container = PlanContainer(order_, user_, environment);
    rights_->DropPrivileges();
    if (!container) return Refuse(container.error());
    container_ = std::move(*container);
  }
  plan_.search = environment.at("PATH");
  plan_.block = ToBlock(environment);
  return Unit{};
}

std::expected<std::optional<CondaEnv>, LaunchError> Shim::OpenAsUser() {
  // Checked first, because creating the output folders would recreate a removed working directory.
  if (std::optional<LaunchError> error = WhyNotEnter(order_.spec.workdir))
    return Refusal(*std::move(error));
  std::optional<CondaEnv> conda;
  if (order_.spec.conda_env) {
    const auto home = order_.spec.environment.find("HOME");
    Result<CondaEnv> found = FindCondaEnv(
        *order_.spec.conda_env, order_.spec.environment,
        home == order_.spec.environment.end() ? user_.home : home->second, base::IsFolder);
    if (!found) return Refuse(found.error());
    conda = std::move(*found);
  }
  if (Result<Unit> own = PrepareCheckpoints(order_); !own) return Refuse(own.error());
  checkpoints_ready_ = true;
  Result<OutputPump> pump = OpenOutput();
  if (!pump) return Refuse(pump.error());
  pump_ = std::move(*pump);
  return conda;
}

Result<OutputPump> Shim::OpenOutput() {
  if (!order_.spec.attach) return OutputPump::Open(order_);
  attachment_ = CARMA_TRY(Attachment::Open(*order_.spec.attach, order_.spec.terminal, order_.uid));
  return OutputPump::Open(order_, &*attachment_);
}

void Shim::LeaveCheckpoints() {
  if (!rights_->Wear()) return;
  SettleCheckpoints(order_, user_.name);
  rights_->DropPrivileges();
}

std::expected<Unit, LaunchError> Shim::PlanScript() {
  if (!order_.spec.command.empty()) return Unit{};
  const std::string path = dir_ + "/" + kScriptFile;
  const Result<std::string> text = base::ReadFile(path, kMaxScriptBytes);
  if (!text) return Refuse(text.error(), /*retryable=*/true);
  const Result<Shebang> shebang = ParseShebang(*text);
  if (!shebang) return Refuse(shebang.error());
  script_.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!script_) return Refusal(LaunchError{"cannot open " + path, true});
  plan_.argv = {shebang->interpreter};
  if (!shebang->argument.empty()) plan_.argv.push_back(shebang->argument);
  // A login shell's profile may replace PATH, so PATH is set inside the shell.
  if (order_.spec.slurm && IsLoginShell(*shebang))
    plan_.argv.insert(plan_.argv.end(),
                      {"-c", fmt::format(R"(PATH='{}':$PATH; . "$0")", StandInFolder())});
  plan_.script_fd = script_.get();
  plan_.script_argument = plan_.argv.size();
  plan_.argv.push_back(path);
  plan_.argv.insert(plan_.argv.end(), order_.spec.script_args.begin(),
                    order_.spec.script_args.end());
  script_text_ = *text;
  return Unit{};
}

std::expected<Unit, LaunchError> Shim::EnterContainer() {
  if (!container_) return Unit{};
  // Without root, keeping setuid grants nothing extra, because the user could run the container
  // tool directly.
  plan_.keeps_setuid = container_->tool != ContainerTool::kDocker &&
                       (!CanSwitchUser() || OnlyRootChanges(container_->program));
  GuardOrder guard{.user = user_,
                   .switches_user = CanSwitchUser() && order_.uid != ::getuid(),
                   .keeps_setuid = plan_.keeps_setuid,
                   .removal = ContainerRemoval(*container_),
                   .block = plan_.block,
                   .group = container_->group,
                   .limits = Limits()};
  if (plan_.script_fd >= 0) {
    if (!rights_->Wear()) return Refusal(LaunchError{"cannot switch to the task's user", true});
    Result<std::string> copy = CopyScript(order_, script_text_);
    rights_->DropPrivileges();
    if (!copy) return Refuse(copy.error(), /*retryable=*/true);
    plan_.argv[plan_.script_argument] = *copy;
    plan_.script_fd = -1;
    container_->mounts.push_back({*copy, *copy, true});
    guard.script = std::move(*copy);
  }
  Result<ContainerGuard> started = ContainerGuard::Start(guard);
  if (!started) return Refuse(started.error(), /*retryable=*/true);
  guard_ = std::move(*started);
  container_->command = std::move(plan_.argv);
  plan_.argv = ContainerCommand(*container_);
  return Unit{};
}

// A tool that exited by itself has removed its container. An exit code of 125 or more may mean that
// the tool failed, so the guard then removes the container. report: null if nothing has run.
void Shim::EndContainer(const ShimReport* report) {
  constexpr int kFirstOfTheTool = 125;
  if (guard_) {
    const bool removed =
        report == nullptr || (report->signal == 0 && report->exit_code < kFirstOfTheTool);
    guard_->Finish(!removed);
  }
  EndContainerGroup(Containers(), Limits());
}

void Shim::MakeGroup() {
  if (order_.cgroup_base.empty()) return;
  Result<TaskCgroup> group = TaskCgroup::Create(
      order_.cgroup_base, CgroupName(core::Number(order_.id), order_.attempt, ::getpid()));
  if (group) {
    group_ = std::move(*group);
    // If the group enforces the limit, drop the per-user limit, which would also count the user's
    // other processes.
    if (order_.max_processes > 0 && group_->LimitProcesses(order_.max_processes))
      order_.max_processes = 0;
    LimitGroup();
  } else {
    std::fprintf(stderr, "carma-shim: no cgroup: %s\n", group.error().message.c_str());
  }
}

// Ignores limits that the group cannot enforce; the daemon reports them, because it knows which
// limits the cgroup tree supports.
void Shim::LimitGroup() {
  const core::HostShare& host = order_.host;
  // A cap does not guarantee any CPU time, so even a capped task needs a weight for when other
  // tasks keep all cores busy.
  if (host.cpus > 0) (void)group_->WeighCpus(host.cpus);
  if (host.cpus > 0 && order_.cpu_cap) (void)group_->CapCpus(host.cpus);
  if (host.memory_mib > 0) (void)group_->LimitMemory(host.memory_mib);
  if (!order_.cores.empty()) (void)group_->ConfineTo(order_.cores);
}

// Sets the limits before the task's first instruction, so that the task sees its limit as the GPU's
// memory size.
//
// A task's processes in a Docker container are in the container's group instead of the task's own.
// A task that calls Docker itself has processes in both groups, so each group gets the full limit.
void Shim::LimitGpuMemoryOfGroups() {
  if (order_.limiter.empty()) return;
  const bool docker = container_ && container_->tool == ContainerTool::kDocker;
  Result<Unit> limited =
      Unavailable(docker ? "Docker does not use cgroup v2 here" : "the task has no control group");
  if (!docker && group_) limited = LimitGpuMemoryOf(group_->path(), true);
  if (docker || (limited && MayCallDocker())) {
    for (const std::string& folder : MakeContainerGroups(Containers())) {
      const Result<Unit> also = LimitGpuMemoryOf(folder, docker);
      if (docker && !limited) limited = also;  // Docker uses only one of these groups
    }
  }
  if (limited) return;
  no_limit_ = limited.error().message.substr(0, kMaxFailureText);
  order_.limiter.clear();
}

bool Shim::MayCallDocker() const {
  return order_.spec.environment.contains("DOCKER_HOST") || base::Exists("/run/docker.sock");
}

Result<Unit> Shim::LimitGpuMemoryOf(const std::string& folder, bool guarantees) {
  const std::vector<std::string>& words = order_.memory_limits;
  Result<Unit> limited =
      LimitGpuMemory(order_.limiter, folder, guarantees ? words : HardLimitWords(words));
  if (limited) limited_[folder] = guarantees;
  return limited;
}

std::string Shim::ChangeGpuMemoryLimits() {
  const Result<std::string> text = base::ReadFile(dir_ + "/" + kLimitsFile, kMaxLimitsBytes);
  if (!text) return text.error().message;
  std::vector<std::string> words;
  for (const std::string_view word : base::SplitWords(*text)) words.emplace_back(word);
  order_.memory_limits = std::move(words);
  std::string trouble;
  for (const auto& [folder, guarantees] : std::map(limited_)) {
    const Result<Unit> changed = LimitGpuMemoryOf(folder, guarantees);
    if (!changed) trouble = changed.error().message;
  }
  return trouble;
}

void Shim::RemoveGroup() {
  if (!group_) return;
  if (!order_.limiter.empty() && limited_.contains(group_->path())) {
    const Result<Unit> removed =
        LimitGpuMemory(order_.limiter, group_->path(), NoLimitWords(order_.memory_limits));
    if (!removed)
      std::fprintf(stderr, "carma-shim: removing GPU memory limits: %s\n",
                   removed.error().message.c_str());
  }
  group_->Remove();
}

void Shim::TellStarted(pid_t main) {
  ShimStarted started;
  started.process.pid = main;
  // The process has not been reaped yet, so it still has an entry in /proc, even as a zombie.
  if (const auto stat = base::ReadProcessStat(main)) started.process = stat->id;
  if (group_ && group_->path().starts_with(order_.cgroup_root))
    started.cgroup = group_->path().substr(order_.cgroup_root.size());
  started.no_limit = no_limit_;
  const std::string line = ToText(started);
  if (const Result<Unit> written = started_file_.Commit(line, /*durable=*/false); !written)
    std::fprintf(stderr, "carma-shim: %s\n", written.error().message.c_str());
  AnswerEarly(line);
}

// Retries until it succeeds, because only the report proves that the task ended. Gives up once the
// folder is gone, because no program looks for the report anywhere else.
void Shim::LeaveReport(const ShimReport& report) {
  const std::string text = ToText(report);
  for (int wait_ms = kFirstRetryMs; true; wait_ms = std::min(wait_ms * 2, kLastRetryMs)) {
    const Result<Unit> written = exit_file_.Commit(text, /*durable=*/true);
    if (written) return;
    std::fprintf(stderr, "carma-shim: %s\n", written.error().message.c_str());
    // A daemon that is still connected need not wait until the report is on disk.
    if (wait_ms == kFirstRetryMs) AnswerEarly(text);
    if (!base::CheckExists(dir_ + "/.").value_or(true)) return;
    if (written.error().code == ErrorCode::kNotFound)
      (void)exit_file_.Reserve(dir_, kExitFile, kReportReserveBytes);
    ::poll(nullptr, 0, wait_ms);
  }
}

void Shim::AnswerEarly(const std::string& line) {
  if (!early_) return;
  // The daemon may be gone or slow, so write whole lines or nothing, and never wait.
  ::fcntl(early_.get(), F_SETFL, O_NONBLOCK);
  if (line.size() > PIPE_BUF) ::fcntl(early_.get(), F_SETPIPE_SZ, kEarlyPipeBytes);
  if (!base::WriteAll(early_.get(), line)) early_.reset();
}

}  // namespace

int RunShim(const std::string& attempt_dir) {
  return Shim(attempt_dir).Run();
}

}  // namespace carma::task
