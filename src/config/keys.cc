#include "config/keys.h"

#include <type_traits>
#include <utility>

#include "base/signal_name.h"
#include "base/text.h"
#include "config/key_kinds.h"
#include "core/policy/policy.h"
#include "estimate/estimator.h"
#include "task/describe/notify.h"

namespace carma::config {

using base::Duration;

namespace {

// Makes a key for a member of Settings. Compiled once per type, whereas Of() is compiled
// once per key.
template <class T, class Member>
Key OfMember(const char* name, const char* meaning, const Kind<T>& kind, Takes takes,
             Member& (*change)(Settings&), const Member& (*look)(const Settings&)) {
  return {name,
          kind.type,
          meaning,
          kind.forms,
          [read = kind.read, change](Settings& s, std::string_view text) {
            std::optional<T> value = read(text);
            if (!value) return false;
            change(s) = static_cast<Member>(*std::move(value));
            return true;
          },
          [write = kind.write, look](const Settings& s) { return write(look(s)); },
          [change, look](Settings& to, const Settings& from) { change(to) = look(from); },
          takes,
          kind.trouble};
}

// at: returns the key's member of a Settings object, const or not.
template <class T, class At>
Key Of(const char* name, const char* meaning, const Kind<T>& kind, At at,
       Takes takes = Takes::kLive) {
  using Member = std::remove_reference_t<decltype(at(std::declval<Settings&>()))>;
  return OfMember<T, Member>(name, meaning, kind, takes, at, at);
}

// ---- kinds that only one key uses ----

Kind<std::optional<double>> SmCap() {
  return OrFalse(
      Fraction("fraction above 0 and at most 1", [](double cap) { return cap > 0 && cap <= 1; }));
}

Kind<std::string> Mapper() {
  std::vector<std::string> names;
  for (const core::MapperEntry& entry : core::Mappers()) names.emplace_back(entry.name);
  names.emplace(names.begin(), kAutoMapper);
  Kind<std::string> kind = Word(names);
  kind.read = [](std::string_view text) -> std::optional<std::string> {
    std::string word = base::ToLower(base::Trim(text));
    if (word == kAutoMapper) return word;
    const core::MapperEntry* entry = core::FindMapper(word);
    if (entry == nullptr) return std::nullopt;
    return std::string(entry->name);
  };
  return kind;
}

Kind<std::string> EstimateMethod() {
  std::vector<std::string> names;
  for (const estimate::EstimatorEntry& entry : estimate::Estimators())
    names.emplace_back(entry.name);
  return Called("estimator name: " + base::Join(names, ", "), Word(names));
}

bool IsName(std::string_view name) {
  return !name.empty() && name.size() <= 256 && base::Printable(name, 1'000) == name;
}

Kind<std::vector<std::string>> UserNames() {
  return List("list of user names like [\"ada\", \"bob\"]", kTextList, 1'000, Text("", IsName));
}

Kind<std::vector<std::string>> GroupNames() {
  return List("list of group names like [\"vision\", \"nlp\"]", kTextList, 1'000, Text("", IsName));
}

bool IsNotifyTarget(std::string_view text) {
  return task::ParseNotifyTarget(text).has_value();
}

// A list of values that the core can parse from text and write as text.
template <class T>
Kind<std::vector<T>> Texts(const char* type, Result<T> (*parse)(std::string_view)) {
  return List(type, kTextList, 1'000,
              Parsed("", parse, [](const T& value) { return core::TextOf(value); }));
}

Kind<core::GpuRule> Rule() {
  return Parsed("expression over a task and a GPU (docs/server/policies.md, site rules)",
                &core::GpuRule::Parse, &core::GpuRule::text);
}

// Accepts a memory size, or a fraction of the GPU's memory.
Key Floor() {
  const Kind<std::int64_t> size = Size();
  const auto share_of = [](std::string_view text) -> std::optional<double> {
    const std::optional<double> share = base::ParseDouble(base::Trim(text));
    return share && *share > 0 && *share < 1 ? share : std::nullopt;
  };
  return {"policy.floor",
          size.type + ", or a fraction below 1 of the GPU's memory",
          "Free memory required for a task without an estimate; 0 means none.",
          size.forms,
          [=](Settings& settings, std::string_view text) {
            const std::optional<double> share = share_of(text);
            const std::optional<std::int64_t> mib = share ? std::nullopt : size.read(text);
            if (!share && !mib) return false;
            settings.policy.floor_share = share.value_or(0);
            if (mib) settings.policy.floor_mib = *mib;
            return true;
          },
          [=](const Settings& settings) {
            const core::PolicyConfig& policy = settings.policy;
            return policy.floor_share > 0 ? fmt::format("{}", policy.floor_share)
                                          : size.write(policy.floor_mib);
          },
          [](Settings& to, const Settings& from) {
            to.policy.floor_mib = from.policy.floor_mib;
            to.policy.floor_share = from.policy.floor_share;
          }};
}

// A key that is recorded in Settings::chosen when it is set.
Key Remembered(Key key) {
  key.set = [name = key.name, set = std::move(key.set)](Settings& settings, std::string_view text) {
    if (!set(settings, text)) return false;
    settings.chosen.insert(name);
    return true;
  };
  return key;
}

// Expands to a lambda that returns the given member of a Settings object, const or not.
#define AT(member)       \
  [](auto& s) -> auto& { \
    return s.member;     \
  }

std::vector<Key> MakeKeys() {
  using core::IdleAction, core::RecoveryMode, core::WithoutActivity, gpu::ActivitySource;
  using enum Takes;
  using enum task::MpsScope;
  return {
      // sun_path holds 108 bytes, including the final NUL.
      Of("daemon.socket", "Unix socket on which carmad listens.",
         Path("absolute path of at most 107 bytes", 107), AT(socket), kRestart),
      Of("daemon.state_dir", "Database folder; one daemon per folder.",
         Path("absolute path", 4'000), AT(state_dir), kRestart),
      Of("daemon.socket_mode",
         "Socket permissions. By default everyone may connect; the kernel identifies the user.",
         FileMode(), AT(socket_mode), kRestart),
      Of("daemon.socket_group", "Socket group, for socket_mode \"0660\"; carmad's group if empty.",
         Text("group name, or empty",
              [](std::string_view name) { return name.empty() || IsName(name); }),
         AT(socket_group), kRestart),
      Of("daemon.allow_users",
         "Users who may submit and change tasks. If this and allow_groups are empty, everyone may.",
         UserNames(), AT(allow_users)),
      Of("daemon.allow_groups", "Groups whose members may submit and change tasks.", GroupNames(),
         AT(allow_groups)),
      Of("daemon.log_level", "Minimum log level.", LogLevelName(), AT(log_level)),
      Of("daemon.http_port", "Loopback TCP port for the read-only pages and metrics.",
         OrFalse(Called("port from 1 to 65535", Count(1, 65'535))), AT(http_port), kRestart),
      Of("daemon.keep_finished_days", "Days after which finished tasks are deleted.",
         Count(1, 36'500), AT(keep_finished_days)),
      Of("daemon.admins",
         "Users who, like root and the daemon's user, may act on all tasks and drain GPUs.",
         UserNames(), AT(admins)),
      Of("daemon.gpus",
         "GPUs to manage, by number, UUID or UUID prefix (all if empty); CARMA renumbers them.",
         List("list of GPUs like [0, 1] or [\"GPU-3f2a\", \"MIG-77e1\"]",
              kTextList | kNumberList | kNumber, 256, Text("", core::IsGpuName)),
         AT(gpus), kRestart),
      Of("policy.mapper",
         "How an eligible GPU is chosen; also sets other defaults. \"auto\" means by-work under "
         "MPS, else magm.",
         Mapper(), AT(mapper)),
      Of("policy.published",
         "For comparison, use the published system's rules: \"thesis\" (dissertation) or \"v2\" "
         "(November 2025).",
         OrFalse(Called("\"thesis\", \"v2\"", Word({"thesis", "v2"}))), AT(published), kRestart),
      Of("policy.sm_cap",
         "A GPU accepts no more tasks while its mean SM activity over the window is above this.",
         SmCap(), AT(policy.sm_cap)),
      Of("policy.without_sm_activity",
         "How to share a GPU that does not report SM activity: by kernel utilisation (an upper "
         "bound), by memory alone, or not at all.",
         Choice<WithoutActivity>({{"utilization", WithoutActivity::kUtilization},
                                  {"memory", WithoutActivity::kMemory},
                                  {"never", WithoutActivity::kNever}}),
         AT(policy.without_activity)),
      Of("policy.margin", "Free memory required on top of a task's estimate.", Size(),
         AT(policy.margin_mib)),
      Floor(),
      Of("policy.plateau_after",
         "How long a task's memory must be stable before its promise and similar tasks' requests "
         "are lowered.",
         OrFalse(Span(kSecond, kYear)), AT(policy.plateau_after)),
      Of("policy.min_gain",
         "A task with known memory and activity joins others only if the GPU's throughput would "
         "rise by at least this fraction of the task's own activity. sm_cap and settle do not "
         "apply to such tasks.",
         OrFalse(
             Fraction("fraction from 0 to 1", [](double gain) { return gain >= 0 && gain <= 1; })),
         AT(policy.min_gain)),
      Of("policy.max_slowdown",
         "Maximum predicted slowdown of any task, relative to running alone; false leaves only the "
         "tasks' own limits.",
         OrFalse(Fraction("number from 1 to 1000",
                          [](double most) { return most >= 1 && most <= 1000; })),
         AT(policy.max_slowdown)),
      Of("policy.score",
         "Expression that the mapper \"score\" uses to rank GPUs, highest first, for example "
         "\"free_mib - 2000 * tasks\".",
         OrFalse(Rule()), AT(policy.score)),
      Of("policy.require",
         "Site rule: a GPU accepts a task only if this is true, for example \"own_tasks < 2\".",
         OrFalse(Rule()), AT(policy.require)),
      Of("policy.backfill",
         "Number of queued tasks to consider; 1 means the head plus tasks for GPUs the head can "
         "never use.",
         Count(1, 1'000'000), AT(policy.backfill)),
      Of("policy.lookahead",
         "How many starts to simulate and compare (by-work, if all run times are known); 0 "
         "disables this.",
         Count(0, 1'000), AT(policy.lookahead)),
      Of("policy.pass_limit",
         "How long other tasks may start ahead of the head of the queue before GPUs are held for "
         "it; false means no limit.",
         OrFalse(Span(Duration{0}, kYear)), AT(policy.pass_limit)),
      Of("policy.settle", "After a placement, close the GPU until its samples show the new task.",
         Flag(), AT(policy.settle)),
      Of("policy.settle_timeout",
         "How long a GPU stays closed if its samples never show the new task.",
         Span(Duration{0}, kYear), AT(policy.settle_timeout)),
      Of("policy.stale_after", "A GPU accepts no tasks if its latest sample is older than this.",
         Span(100 * kMs, kYear), AT(policy.stale_after)),
      Of("policy.max_tasks_per_gpu", "Maximum number of tasks per GPU.", Count(1, 48),
         AT(policy.max_tasks_per_gpu)),
      Of("policy.idle_first", "Use idle GPUs first with every mapper (published behaviour).",
         Flag(), AT(policy.idle_first)),
      Of("policy.use_given_memory",
         "Use memory estimates; otherwise, only floor and sm_cap decide.", Flag(),
         AT(policy.use_given_memory)),
      Of("policy.order",
         "Order among tasks of equal priority: first come, first served, or least usage first "
         "(docs/server/sharing.md).",
         Choice<core::QueueOrder>(
             {{"fifo", core::QueueOrder::kFifo}, {"fair", core::QueueOrder::kFair}}),
         AT(policy.order)),
      Of("fair.half_life", "Half-life of past usage in the fair-share calculation.",
         Span(kSecond, kYear), AT(policy.fair.half_life)),
      Of("fair.patience",
         "With fair order, a user goes first if their tasks have waited this long and none has "
         "started.",
         Span(kSecond, kYear), AT(policy.fair.patience)),
      Of("fair.weights", "Shares of users and accounts (\"@name\"); all others have 1.",
         Texts("list of strings like [\"ada=2\", \"@vision=3\"]", &core::ParseShareWeight),
         AT(policy.fair.weights)),
      Of("fair.accounts", "Accounts that tasks may be charged to (--account), each with its users.",
         Texts("list of strings like [\"vision: ada bob\", \"course: *\"]",
               &core::ParseAccountRule),
         AT(policy.accounts)),
      Of("fair.classes",
         "Task classes (--qos). Each adds to a task's priority; some preempt others "
         "(docs/server/sharing.md).",
         Texts("list of strings like [\"interactive priority=1000 preempts\", \"normal\"]",
               &core::ParseQosClass),
         AT(policy.classes)),
      Of("limits.rules",
         "Limits for users, accounts and classes; \"*\" limits each one separately "
         "(docs/server/sharing.md).",
         Texts("list of strings like [\"user=* running=8 gpu_hours=200/7d\", \"qos=background "
               "gpus=2\"]",
               &core::ParseLimitRule),
         AT(policy.limits)),
      Of("slots.length",
         "Run time after which a task makes room for a waiting one (docs/server/sharing.md).",
         OrFalse(Span(kSecond, kYear)), AT(policy.slots.length)),
      Of("slots.notice", "How long before the end of its time slice a task is asked to checkpoint.",
         Span(Duration{0}, kYear), AT(policy.slots.notice)),
      Of("slots.preempt_notice", "How long before a preemption a task is asked to checkpoint.",
         Span(Duration{0}, kYear), AT(policy.slots.preempt_notice)),
      Of("slots.shutdown_notice",
         "How long before a shutdown CARMA asks tasks to checkpoint (docs/server/operations.md).",
         Span(Duration{0}, 20 * kMinute), AT(policy.slots.shutdown_notice)),
      Of("slots.without_checkpoint",
         "After a time slice, stop tasks not known to checkpoint: never, once, or every time "
         "(\"end\").",
         Choice<core::WithoutCheckpoint>({{"never", core::WithoutCheckpoint::kNever},
                                          {"once", core::WithoutCheckpoint::kOnce},
                                          {"end", core::WithoutCheckpoint::kEnd}}),
         AT(policy.slots.without_checkpoint)),
      Of("slots.checkpoint_signal",
         "Signal that asks a task to checkpoint, unless the task sets its own.",
         Text("signal that a program can handle, like \"USR1\"", base::IsHandledSignal),
         AT(policy.slots.checkpoint_signal)),
      Of("slots.exit_codes",
         "Exit codes that mean a task has saved a checkpoint and should be requeued.",
         List("list of exit codes from 0 to 255", kNumberList | kNumber | kTextList, 256,
              Count<int>(0, 255)),
         AT(policy.slots.exit_codes)),
      Of("slots.exempt",
         "Classes whose tasks may opt out of time slices (--no-slots); administrators always may.",
         List("list of classes like [\"interactive\"]", kTextList, 1'000,
              Text("", core::IsShareName)),
         AT(policy.slots.exempt)),
      Of("reserve.lead",
         "A task without a time limit is not placed on a GPU whose reservation begins within this "
         "time.",
         Span(Duration{0}, kYear), AT(policy.booking_lead)),
      Of("reserve.makers", "Users other than administrators who may reserve GPUs (carma reserve).",
         UserNames(), AT(reservation_makers), kRestart),
      Of("recovery.mode",
         "After an OOM error, retry with more memory (\"escalate\") or on an empty GPU "
         "(\"exclusive\").",
         Choice<RecoveryMode>(
             {{"exclusive", RecoveryMode::kExclusive}, {"escalate", RecoveryMode::kEscalate}}),
         AT(policy.recovery)),
      Of("recovery.step", "Memory added to the request at each retry.", Size(),
         AT(policy.recovery_step_mib)),
      Of("recovery.backoff",
         "Wait before the first retry; doubled for each further retry, up to 10 minutes.",
         Span(Duration{0}, kDay), AT(policy.recovery_backoff)),
      Of("recovery.patience", "How long a retry waits before GPUs are held for it.",
         Span(Duration{0}, kYear), AT(policy.recovery_patience)),
      Of("recovery.blocks",
         "Block the main queue while a task is waiting for recovery (published behaviour).", Flag(),
         AT(policy.recovery_blocks)),
      Of("recovery.every_failure_is_oom",
         "Treat every abnormal exit as out of memory, and retry (published behaviour).", Flag(),
         AT(policy.every_failure_is_oom)),
      Of("recovery.max_launch_failures",
         "Maximum retries after launch failures caused by the machine.", Count(0, 1'000),
         AT(policy.max_launch_failures)),
      Of("recovery.max_node_failures", "Maximum restarts of a task after its machine or GPU fails.",
         Count(0, 1'000), AT(policy.max_node_failures)),
      Of("recovery.max_victim_restarts",
         "Maximum restarts of a task that failed because of a neighbour's fault under MPS.",
         Count(0, 1'000), AT(policy.max_victim_restarts)),
      Of("collocation.method",
         "How tasks share a GPU. \"exclusive\" disables sharing; \"auto\" means MPS if available, "
         "else streams.",
         Choice<std::optional<core::SharingMethod>>({{"auto", std::nullopt},
                                                     {"exclusive", core::SharingMethod::kAlone},
                                                     {"streams", core::SharingMethod::kStreams},
                                                     {"mps", core::SharingMethod::kMps}}),
         AT(collocation), kRestart),
      Of("collocation.streams_sm_cap", "policy.sm_cap for GPUs shared through streams.", SmCap(),
         AT(policy.streams_sm_cap)),
      Of("collocation.streams_tasks", "policy.max_tasks_per_gpu for GPUs shared through streams.",
         Count(1, 48), AT(policy.streams_tasks)),
      Of("collocation.mps_control", "NVIDIA's MPS control program.",
         NameOrPath("program name or absolute path"), AT(mps_control), kRestart),
      // MPS pipes are Unix sockets, so their paths must be short.
      Of("collocation.mps_dir", "Folder for MPS pipes and logs.",
         Path("absolute path of at most 60 bytes", 60), AT(mps_dir), kRestart),
      Of("collocation.mps_servers",
         "One MPS server per user, one per user and GPU, or one shared by all users without "
         "isolation.",
         Choice<task::MpsScope>({{"user", kUser}, {"gpu", kGpu}, {"shared", kShared}}),
         AT(mps_servers), kRestart),
      Of("collocation.sm_partitions",
         "Reserve the SMs requested by --sm-share (MPS, CUDA 13.1 or newer).", Flag(),
         AT(sm_partitions), kRestart),
      Of("collocation.mps_clients", "An MPS server with this many processes accepts no more tasks.",
         Count(1, 60), AT(mps_clients), kRestart),
      Of("collocation.mps_memory_limit",
         "Limit a task (by the kernel) or each process (by MPS) to its promise plus policy.margin.",
         Flag(), AT(mps_memory_limit)),
      Of("collocation.mps_timeout",
         "How long (real time) to wait for an MPS control daemon before falling back to streams.",
         Span(100 * kMs, kHour), AT(mps_timeout), kRestart),
      Of("collocation.share_mig", "Let several tasks share a MIG instance.", Flag(),
         AT(policy.share_mig)),
      Of("monitor.sample_period", "Time between samples of each GPU.", Span(50 * kMs, kMinute),
         AT(sample_period), kRestart),
      Of("monitor.window", "Averaging window for SM activity.", Span(100 * kMs, kHour), AT(window),
         kRestart),
      Of("monitor.ewma", "Time constant of the exponentially weighted mean of SM activity.",
         Span(100 * kMs, kHour), AT(ewma), kRestart),
      Of("monitor.history", "How long individual samples are kept in memory.",
         Span(Duration{0}, kDay), AT(history)),
      Of("monitor.unattributed",
         "Raise an alert when more GPU memory than this belongs to no known process.", Size(),
         AT(unattributed_mib)),
      Of("monitor.probe_timeout",
         "A GPU whose driver call takes longer than this (real time) is treated as hung; others "
         "are still sampled.",
         Span(100 * kMs, kHour), AT(probe_timeout), kRestart),
      Of("monitor.nvml_library", "Driver library used to read GPUs.",
         NameOrPath("library name or absolute path"), AT(nvml_library), kRestart),
      Of("monitor.kernel_log",
         "Kernel log, which names the process behind a fault on a GPU shared under MPS; not read "
         "if empty.",
         PathOrNone(), AT(kernel_log), kRestart),
      Of("monitor.gpu_speeds",
         "GPU type speeds (A100-40GB = 1) that replace the built-in ones (docs/server/policies.md, "
         "by work).",
         Texts("list of strings like [\"a6000=0.5\", \"a100=1\"]", &core::ParseTypeSpeed),
         AT(gpu_speeds), kRestart),
      Of("monitor.source",
         "Source of SM activity; \"auto\" uses the driver if possible, else DCGM "
         "(docs/server/gpus.md).",
         Choice<ActivitySource>({{"auto", ActivitySource::kAuto},
                                 {"nvml", ActivitySource::kNvml},
                                 {"dcgm", ActivitySource::kDcgm}}),
         AT(activity_source), kRestart),
      Of("health.drain",
         "Drain GPUs that report errors or poor health; otherwise, only log a warning.", Flag(),
         AT(health.drain)),
      Of("health.resume",
         "Reopen a GPU drained by health.drain once the cause is gone; otherwise, only "
         "`carma resume` does.",
         Flag(), AT(health.resume_when_cleared)),
      Of("health.ignore_xids", "Xid errors that do not drain a GPU on this machine.",
         List("list of numbers like [63, 94]", kNumberList | kNumber | kTextList, 100,
              Count<int>(1, 999)),
         AT(health.ignored_xids)),
      Of("idle.after", "Time without GPU activity after which a task counts as an idle holder.",
         OrFalse(Span(kSecond, kYear)), AT(idle_after)),
      Of("idle.below", "SM activity below this counts as idle.",
         Fraction("fraction from 0 to 0.5",
                  [](double below) { return below >= 0 && below <= 0.5; }),
         AT(idle_below)),
      Of("idle.action",
         "What to do with a task that does not use its GPUs: report it, let other tasks join it, "
         "or cancel it.",
         Choice<IdleAction>({{"tell", IdleAction::kTell},
                             {"share", IdleAction::kShare},
                             {"end", IdleAction::kEnd}}),
         AT(policy.idle_action)),
      Of("notify.enabled", "Allow task notifications (docs/use/tasks.md).", Flag(),
         AT(notify_enabled)),
      Of("notify.allow", "Allowed kinds of notifications.",
         List("list of \"mail\", \"webhook\" and \"program\"", kTextList, 3,
              Word({"mail", "webhook", "program"})),
         AT(notify_allow)),
      Of("notify.per_user_and_hour",
         "Maximum notifications per user per hour; the rest are dropped.", Count(1, 100'000),
         AT(notify_per_hour)),
      Of("notify.time_limit",
         "Time limit per delivery attempt (real time). Failed deliveries are retried.",
         Span(kSecond, 5 * kMinute), AT(notify_time_limit)),
      Of("notify.sendmail", "Program that delivers mail, like sendmail(8).",
         Path("absolute path", 4'095), AT(notify_sendmail)),
      Of("notify.admin",
         "Targets to notify about idle holders and failing GPUs (as in carma submit --notify).",
         List("list of targets like [\"root@example.org\", \"https://example.org/hook\"]",
              kTextList, 8, Text("", &IsNotifyTarget)),
         AT(notify_admin)),
      Of("slurm.enabled",
         "Requeue Slurm jobs that ran out of GPU memory or wait on a full node "
         "(docs/server/slurm.md).",
         Flag(), AT(slurm_enabled), kRestart),
      Of("slurm.retries", "Default restart limit per job.", Count(0, 100), AT(slurm_retries)),
      Of("slurm.scontrol", "Path of Slurm's scontrol.", Path("absolute path", 4'095),
         AT(slurm_scontrol), kRestart),
      Of("slurm.squeue", "Path of Slurm's squeue.", Path("absolute path", 4'095), AT(slurm_squeue),
         kRestart),
      Of("estimate.method",
         "How memory is predicted; \"auto\" uses the best available method "
         "(docs/inside/estimators.md).",
         EstimateMethod(), AT(estimate_method)),
      Of("estimate.coverage",
         "Share of tasks that should stay within their promise; 0 promises the most likely value.",
         Fraction("fraction from 0.5 to 0.999, or 0",
                  [](double share) { return share == 0 || (share >= 0.5 && share <= 0.999); }),
         AT(estimate_coverage)),
      Of("estimate.time_limit",
         "A task whose estimate takes longer than this (real time) is queued without one.",
         Span(100 * kMs, kHour), AT(estimate_time_limit)),
      Of("estimate.history", "Learn memory usage and prediction errors from finished tasks.",
         Flag(), AT(estimate_history), kRestart),
      Of("estimate.prefer_given",
         "Use the memory that a user requests, even if there is an estimate.", Flag(),
         AT(estimate_prefer_given)),
      Of("estimate.profiles",
         "Profiles measured by \"carma profile\"; none if empty (docs/server/profile.md).",
         PathOrNone(), AT(estimate_profiles)),
      Of("task.kill_grace", "Time between asking a task to exit and killing it.",
         Span(Duration{0}, kDay), AT(kill_grace)),
      Of("task.max_output", "Size at which an output file is rotated; 0 means never.", Size(),
         AT(max_output_mib)),
      Of("task.output_rotations", "Number of older output files to keep.", Count(0, 100),
         AT(output_rotations)),
      Of("task.default_time_limit", "Default time limit of tasks.", OrFalse(Span(kSecond, kYear)),
         AT(default_time_limit)),
      Of("task.max_queued", "Maximum number of unfinished tasks.", Count(1, 10'000'000),
         AT(max_queued_tasks)),
      Of("task.max_queued_per_user", "Maximum number of unfinished tasks per user.",
         Count(1, 10'000'000), AT(max_queued_per_user)),
      Of("task.max_processes",
         "Maximum processes and threads per task (per user without cgroups); 0 means no limit.",
         Count(0, 4'194'304), AT(max_processes)),
      Of("task.max_batch", "Maximum number of tasks per submission.", Count(1, 10'000'000),
         AT(max_batch)),
      Of("task.cgroups", "Put each task into its own cgroup if cgroup v2 allows it.", Flag(),
         AT(cgroups), kRestart),
      Of("host.cpus",
         "Cores (threads) to promise; \"auto\" means all, minus one if there are 8 or more; 0 "
         "means unlimited.",
         OrAuto(Count<int>(0, core::kMaxCpus)), AT(host_cpus)),
      Of("host.memory",
         "Host memory to promise; \"auto\" leaves a tenth (at most 16G) to the system; 0 "
         "means unlimited.",
         OrAuto(Size()), AT(host_memory_mib)),
      Of("host.cpus_per_gpu", "Cores promised per GPU to a task that requests none.",
         Count<int>(0, 4'096), AT(policy.cpus_per_gpu)),
      Of("host.memory_per_gpu",
         "Host memory promised per GPU to a task that requests none; also the task's limit, unless "
         "0.",
         Size(), AT(policy.host_memory_per_gpu_mib)),
      Of("host.cpu_limit",
         "How promised cores are enforced: weight under contention (cpu.weight) or a hard limit "
         "(cpu.max).",
         Choice<bool>({{"weight", false}, {"cap", true}}), AT(cpu_cap)),
      Of("simulation.state",
         "State file of a simulated server, or empty. carmad --simulate sets it and the other keys "
         "it needs.",
         PathOrNone(), AT(simgpu_state), kRestart),
  };
}
#undef AT

}  // namespace

std::string VariableOf(std::string_view name) {
  std::string variable = "CARMA_";
  for (const char c : name)
    variable += c == '.' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return variable;
}

const std::vector<Key>& AllKeys() {
  static const std::vector<Key> kKeys = [] {
    std::vector<Key> keys = MakeKeys();
    for (Key& key : keys) key = Remembered(std::move(key));
    return keys;
  }();
  return kKeys;
}

const Key* FindKey(std::string_view name) {
  for (const Key& key : AllKeys()) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

}  // namespace carma::config
