#include "config/keys.h"

#include <algorithm>
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

// `at` finds the member in Settings, const or not.
template <class T, class At>
Key Of(const char* name, const char* meaning, Kind<T> kind, At at, Takes takes = Takes::kLive) {
  return {name,
          kind.type,
          meaning,
          kind.forms,
          [read = kind.read, at](Settings& s, std::string_view text) {
            std::optional<T> value = read(text);
            if (value) at(s) = static_cast<std::remove_reference_t<decltype(at(s))>>(*value);
            return value.has_value();
          },
          [write = kind.write, at](const Settings& s) { return write(at(s)); },
          [at](Settings& to, const Settings& from) { at(to) = at(from); },
          takes,
          kind.trouble};
}

// ---- kinds of a single key ----

Kind<unsigned> FileMode() {
  return {"file mode in quotes, three octal digits like \"0660\"", kText,
          [](std::string_view text) -> std::optional<unsigned> {
            if (text.size() < 3 || text.size() > 4 || (text.size() == 4 && text[0] != '0'))
              return std::nullopt;
            unsigned mode = 0;
            for (const char c : text) {
              if (c < '0' || c > '7') return std::nullopt;
              mode = mode * 8 + static_cast<unsigned>(c - '0');
            }
            return mode;
          },
          [](unsigned mode) { return fmt::format("\"{:04o}\"", mode); }};
}

Kind<std::optional<double>> SmCap() {
  return OrFalse(
      Fraction("fraction above 0 and at most 1", [](double cap) { return cap > 0 && cap <= 1; }));
}

Kind<std::string> Mapper() {
  std::vector<std::string> names;
  for (const core::MapperEntry& entry : core::Mappers()) names.emplace_back(entry.name);
  Kind<std::string> kind = Word(names);
  kind.read = [](std::string_view text) -> std::optional<std::string> {
    const core::MapperEntry* entry = core::FindMapper(base::ToLower(base::Trim(text)));
    if (entry == nullptr) return std::nullopt;
    return std::string(entry->name);
  };
  return kind;
}

Kind<std::string> EstimateMethod() {
  std::vector<std::string> names;
  for (const estimate::EstimatorEntry& entry : estimate::Estimators())
    names.emplace_back(entry.name);
  return Called("name of an estimator", Word(names));
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

// A list of things that are a text each, as the core reads and writes them.
template <class T>
Kind<std::vector<T>> Texts(const char* type, base::Result<T> (*parse)(std::string_view)) {
  const Kind<T> item{"", kText,
                     [=](std::string_view text) -> std::optional<T> {
                       base::Result<T> read = parse(text);
                       if (!read) return std::nullopt;
                       return *std::move(read);
                     },
                     [](const T& value) { return Quoted(core::TextOf(value)); }};
  return List(type, kTextList, 1'000, item);
}

Kind<core::GpuRule> Rule() {
  return {"expression over a task and a GPU (docs/policies.md, own rules)", kText,
          [](std::string_view text) -> std::optional<core::GpuRule> {
            base::Result<core::GpuRule> rule = core::GpuRule::Parse(text);
            if (!rule) return std::nullopt;
            return *std::move(rule);
          },
          [](const core::GpuRule& rule) { return Quoted(rule.text()); },
          [](std::string_view text) -> std::string {
            const base::Result<core::GpuRule> rule = core::GpuRule::Parse(text);
            return rule ? "" : rule.error().message;
          }};
}

// Member of Settings by name, for any constness.
#define AT(member)       \
  [](auto& s) -> auto& { \
    return s.member;     \
  }

std::vector<Key> MakeKeys() {
  using core::IdleAction, core::RecoveryMode, core::WithoutActivity, gpu::ActivitySource;
  using enum Takes;
  return {
      // sun_path holds 108 bytes with its end.
      Of("daemon.socket", "Socket that commands talk to.",
         Path("absolute path of at most 107 bytes", 107), AT(socket), kRestart),
      Of("daemon.state_dir", "Folder of the books; one daemon per folder.",
         Path("absolute path", 4'000), AT(state_dir), kRestart),
      Of("daemon.socket_mode",
         "Who may connect to the socket. Submitters are told apart by their credentials, so "
         "everybody may.",
         FileMode(), AT(socket_mode), kRestart),
      Of("daemon.socket_group",
         "Group of the socket, for socket_mode \"0660\"; empty: the daemon's own.",
         Text("group name, or empty",
              [](std::string_view name) { return name.empty() || IsName(name); }),
         AT(socket_group), kRestart),
      Of("daemon.allow_users",
         "Who may submit and change tasks, beside members of allow_groups, administrators and "
         "root; "
         "both empty: everybody. Others may look.",
         UserNames(), AT(allow_users)),
      Of("daemon.allow_groups", "Groups whose members may submit and change tasks.", GroupNames(),
         AT(allow_groups)),
      Of("daemon.log_level", "Least important lines that are logged.",
         Word({"debug", "info", "warn", "error"}), AT(log_level)),
      Of("daemon.http_port", "Loopback TCP port of the read-only pages and metrics.",
         OrFalse(Called("port from 1 to 65535", Count(1, 65'535))), AT(http_port), kRestart),
      Of("daemon.keep_finished_days", "Finished tasks are forgotten after this.", Count(1, 36'500),
         AT(keep_finished_days)),
      Of("daemon.admins",
         "Who may act on everybody's tasks and drain GPUs, besides root and the daemon's own user.",
         UserNames(), AT(admins)),
      Of("daemon.gpus",
         "The GPUs that are managed, by number, UUID or its beginning; empty: all. Of the others "
         "nothing is read, and no task is put there.",
         List("list of GPUs like [0, 1] or [\"GPU-3f2a\", \"MIG-77e1\"]",
              kTextList | kNumberList | kNumber, 256, Text("", core::IsGpuName)),
         AT(gpus), kRestart),
      Of("policy.mapper",
         "How one is chosen among the eligible GPUs; the dissertation's abbreviations are taken "
         "too.",
         Mapper(), AT(policy.mapper)),
      Of("policy.published",
         "Replace the rules by the original system's, for comparison: as in the dissertation, or "
         "as in its version of November 2025.",
         OrFalse(Called("\"thesis\", \"v2\"", Word({"thesis", "v2"}))), AT(published), kRestart),
      Of("policy.sm_cap",
         "A GPU whose mean SM activity over the window is above this takes no further task.",
         SmCap(), AT(policy.sm_cap)),
      Of("policy.without_sm_activity",
         "What the cap looks at on a GPU that does not tell its SM activity: the share of time in "
         "which a kernel ran (an upper bound), nothing (memory alone decides), or no task joins "
         "another there.",
         Choice<WithoutActivity>({{"utilization", WithoutActivity::kUtilization},
                                  {"memory", WithoutActivity::kMemory},
                                  {"never", WithoutActivity::kNever}}),
         AT(policy.without_activity)),
      Of("policy.margin", "Free memory wanted on top of a task's estimate.", Size(),
         AT(policy.margin_mib)),
      Of("policy.floor", "Free memory wanted for a task without an estimate; 0: no condition.",
         Size(), AT(policy.floor_mib)),
      Of("policy.plateau_after",
         "A task whose memory has not risen for so long is promised what it was seen to need, and "
         "those of its kind that wait ask for that; false: claims and estimates stand.",
         OrFalse(Span(kSecond, kYear)), AT(policy.plateau_after)),
      Of("policy.min_gain",
         "A task whose memory need is known joins others only where it adds at least this share of "
         "its own SM activity to what the GPU gets done; sm_cap and settle are not asked of it "
         "then. False: no such rule.",
         OrFalse(
             Fraction("fraction from 0 to 1", [](double gain) { return gain >= 0 && gain <= 1; })),
         AT(policy.min_gain)),
      Of("policy.max_slowdown",
         "Nobody is to take longer than so many times its run time alone, as far as is known; "
         "false: no limit but those of single tasks.",
         OrFalse(Fraction("number from 1 to 1000",
                          [](double most) { return most >= 1 && most <= 1000; })),
         AT(policy.max_slowdown)),
      Of("policy.score",
         "What the mapper \"score\" goes by, the highest first; for instance \"free_mib - 2000 * "
         "tasks\".",
         OrFalse(Rule()), AT(policy.score)),
      Of("policy.require",
         "Condition of the server's own: no GPU takes a task for which it does not hold; for "
         "instance \"own_tasks < 2\".",
         OrFalse(Rule()), AT(policy.require)),
      Of("policy.backfill",
         "Places of the queue that are looked at: those behind a task that must wait may start "
         "before it. 1: its first only.",
         Count(1, 1'000'000), AT(policy.backfill)),
      Of("policy.lookahead",
         "Where it is known how long all tasks run alone: so many possible starts are compared by "
         "what they come to in the end; for the mapper by-work, without rules of the server's own. "
         "0: none.",
         Count(0, 1'000), AT(policy.lookahead)),
      Of("policy.pass_limit",
         "Once the first of the queue has been passed for so long, GPUs are kept for it; false: "
         "never.",
         OrFalse(Span(Duration{0}, kYear)), AT(policy.pass_limit)),
      Of("policy.settle", "Close a GPU after a placement until its window has seen the new task.",
         Flag(), AT(policy.settle)),
      Of("policy.settle_timeout",
         "A placement that never shows on its GPU stops closing it after this.",
         Span(Duration{0}, kYear), AT(policy.settle_timeout)),
      Of("policy.stale_after", "A GPU whose last sample is older takes no task.",
         Span(100 * kMs, kYear), AT(policy.stale_after)),
      Of("policy.max_tasks_per_gpu", "Most tasks at once on one GPU.", Count(1, 48),
         AT(policy.max_tasks_per_gpu)),
      Of("policy.idle_first",
         "Idle GPUs before any sharing, whatever the mapper says (as published).", Flag(),
         AT(policy.idle_first)),
      Of("policy.use_given_memory", "Let estimates decide; false: only floor and cap do.", Flag(),
         AT(policy.use_given_memory)),
      Of("policy.order",
         "Who goes first among tasks of one priority: who was submitted first, or those whose "
         "users and accounts have taken least (docs/sharing.md).",
         Choice<core::QueueOrder>(
             {{"fifo", core::QueueOrder::kFifo}, {"fair", core::QueueOrder::kFair}}),
         AT(policy.order)),
      Of("fair.half_life", "For shares, what was taken so long ago counts half.",
         Span(kSecond, kYear), AT(policy.fair.half_life)),
      Of("fair.patience",
         "By fair order, who has waited so long without any start goes first, whatever his share "
         "and priority.",
         Span(kSecond, kYear), AT(policy.fair.patience)),
      Of("fair.weights",
         "Entitlements of users and accounts (\"@name\"), beside 1 for everybody else.",
         Texts("list of texts like [\"ada=2\", \"@vision=3\"]", &core::ParseShareWeight),
         AT(policy.fair.weights)),
      Of("fair.accounts", "Accounts that tasks may be booked on (--account), and by whom.",
         Texts("list of texts like [\"vision: ada bob\", \"course: *\"]", &core::ParseAccountRule),
         AT(policy.accounts)),
      Of("fair.classes",
         "Classes that tasks may have (--qos); a priority is added to the task's, and those that "
         "preempt take the places of preemptible ones.",
         Texts("list of texts like [\"interactive priority=1000 preempts\", \"normal\"]",
               &core::ParseQosClass),
         AT(policy.classes)),
      Of("limits.rules",
         "What users, accounts and classes may not go beyond: \"*\" is each of them by itself "
         "(docs/sharing.md).",
         Texts("list of texts like [\"user=* running=8 gpu_hours=200/7d\", \"qos=background "
               "gpus=2\"]",
               &core::ParseLimitRule),
         AT(policy.limits)),
      Of("slots.length",
         "A task that has run for so long leaves its place to one that waits for it; false: never "
         "(docs/sharing.md).",
         OrFalse(Span(kSecond, kYear)), AT(policy.slots.length)),
      Of("slots.notice", "So long before it is ended a task is asked to save.",
         Span(Duration{0}, kYear), AT(policy.slots.notice)),
      Of("slots.preempt_notice", "The same for one that leaves for a class that preempts.",
         Span(Duration{0}, kYear), AT(policy.slots.preempt_notice)),
      Of("slots.shutdown_notice",
         "The same for all that run when the machine goes down (docs/operations.md).",
         Span(Duration{0}, 20 * kMinute), AT(policy.slots.shutdown_notice)),
      Of("slots.without_checkpoint",
         "What becomes, at the end of its slot, of a task that is not known to save: it stays, or "
         "is ended once, or always.",
         Choice<core::WithoutCheckpoint>({{"never", core::WithoutCheckpoint::kNever},
                                          {"once", core::WithoutCheckpoint::kOnce},
                                          {"end", core::WithoutCheckpoint::kEnd}}),
         AT(policy.slots.without_checkpoint)),
      Of("slots.checkpoint_signal", "Asks tasks to save that name no signal of their own.",
         Text("name of a signal like \"USR1\"", base::IsSignalName),
         AT(policy.slots.checkpoint_signal)),
      Of("slots.exit_codes",
         "With these says a task that was asked that it has saved, and is to go on later.",
         List("list of exit codes from 0 to 255", kNumberList | kNumber | kTextList, 256,
              Count<int>(0, 255)),
         AT(policy.slots.exit_codes)),
      Of("slots.exempt",
         "Classes whose tasks may be excepted from slots (--no-slots); administrators always may.",
         List("list of classes like [\"interactive\"]", kTextList, 1'000,
              Text("", core::IsShareName)),
         AT(policy.slots.exempt)),
      Of("reserve.lead",
         "A task without a time limit is not put where a reservation begins within that time.",
         Span(Duration{0}, kYear), AT(policy.booking_lead)),
      Of("reserve.makers", "Users who may reserve GPUs (carma reserve), besides administrators.",
         UserNames(), AT(reservation_makers), kRestart),
      Of("recovery.mode",
         "Where a task that ran out of memory is tried again: idle GPUs only, or where its last "
         "claim plus a growing step is free, idle GPUs at last.",
         Choice<RecoveryMode>(
             {{"exclusive", RecoveryMode::kExclusive}, {"escalate", RecoveryMode::kEscalate}}),
         AT(policy.recovery)),
      Of("recovery.step", "Memory added to the last claim for each retry.", Size(),
         AT(policy.recovery_step_mib)),
      Of("recovery.backoff",
         "Wait before the first retry; doubled for each further one, at most 10 min.",
         Span(Duration{0}, kDay), AT(policy.recovery_backoff)),
      Of("recovery.patience", "A task to be recovered that waited longer gets GPUs reserved.",
         Span(Duration{0}, kYear), AT(policy.recovery_patience)),
      Of("recovery.blocks", "No sharing of GPUs while a task waits for recovery (as published).",
         Flag(), AT(policy.recovery_blocks)),
      Of("recovery.every_failure_is_oom",
         "Any abnormal end is tried again like an out-of-memory one (as published).", Flag(),
         AT(policy.every_failure_is_oom)),
      Of("recovery.max_launch_failures",
         "Launches that fail for the machine's fault before a task fails.", Count(0, 1'000),
         AT(policy.max_launch_failures)),
      Of("recovery.max_node_failures", "Restarts of a task that was lost with its machine or GPU.",
         Count(0, 1'000), AT(policy.max_node_failures)),
      Of("recovery.max_victim_restarts",
         "Restarts of a task that was ended by faults of its neighbours under MPS.",
         Count(0, 1'000), AT(policy.max_victim_restarts)),
      Of("collocation.method",
         "How tasks share a GPU: not at all (sets policy.mapper to exclusive), by time slices, "
         "through MPS, or through MPS where NVIDIA's control daemon answers when carmad starts, "
         "else by time slices.",
         Choice<std::optional<core::SharingMethod>>({{"auto", std::nullopt},
                                                     {"exclusive", core::SharingMethod::kAlone},
                                                     {"streams", core::SharingMethod::kStreams},
                                                     {"mps", core::SharingMethod::kMps}}),
         AT(collocation), kRestart),
      Of("collocation.streams_sm_cap",
         "In place of policy.sm_cap where tasks share by time slices: each neighbour costs the "
         "others what it computes.",
         SmCap(), AT(streams_sm_cap)),
      Of("collocation.streams_tasks",
         "In place of policy.max_tasks_per_gpu where tasks share by time slices.", Count(1, 48),
         AT(streams_tasks)),
      Of("collocation.mps_control", "NVIDIA's program that runs MPS servers.",
         NameOrPath("program name or absolute path"), AT(mps_control), kRestart),
      // The pipes are sockets too: their paths must stay short.
      Of("collocation.mps_dir", "Folder of the pipes and logs of MPS servers.",
         Path("absolute path of at most 60 bytes", 60), AT(mps_dir), kRestart),
      Of("collocation.mps_servers",
         "One MPS server for each GPU of a user, or one per user for all whole GPUs, which also "
         "serves tasks of several GPUs (docs/collocation.md).",
         Choice<bool>({{"gpu", true}, {"user", false}}), AT(mps_server_per_gpu), kRestart),
      Of("collocation.mps_clients", "An MPS server with so many processes takes no further task.",
         Count(1, 60), AT(mps_clients), kRestart),
      Of("collocation.mps_memory_limit",
         "Under MPS no process may take more than its task was promised, plus policy.margin.",
         Flag(), AT(mps_memory_limit)),
      Of("collocation.mps_timeout",
         "An MPS control daemon that takes longer (real time) is given up: the task shares by "
         "streams.",
         Span(100 * kMs, kHour), AT(mps_timeout), kRestart),
      Of("collocation.share_mig",
         "Several tasks on one MIG instance, by the rules of a GPU; false: one.", Flag(),
         AT(policy.share_mig)),
      Of("monitor.sample_period", "Every GPU is read this often.", Span(50 * kMs, kMinute),
         AT(sample_period), kRestart),
      Of("monitor.window", "SM activity is the mean over this span.", Span(100 * kMs, kHour),
         AT(window), kRestart),
      Of("monitor.ewma",
         "Time constant of the exponentially weighted mean that is shown beside the plain one.",
         Span(100 * kMs, kHour), AT(ewma), kRestart),
      Of("monitor.history", "Single readings are kept in memory for so long.",
         Span(Duration{0}, kDay), AT(history)),
      Of("monitor.unattributed",
         "GPU memory that no known process explains: more than this raises an alert.", Size(),
         AT(unattributed_mib)),
      Of("monitor.probe_timeout",
         "A GPU of which the driver does not answer for so long (real time) is taken as hung, and "
         "the others are read on.",
         Span(100 * kMs, kHour), AT(probe_timeout), kRestart),
      Of("monitor.nvml_library", "The driver's library that is loaded to read GPUs.",
         NameOrPath("library name or absolute path"), AT(nvml_library), kRestart),
      Of("monitor.kernel_log",
         "The kernel's log, which alone names the process that made a fault on a GPU that several "
         "share under MPS; empty: not read.",
         PathOrNone(), AT(kernel_log), kRestart),
      Of("monitor.gpu_speeds",
         "How fast types of GPU are against an A100-40GB, where the server's GPUs differ; those "
         "not named: as built in (docs/policies.md, by work).",
         Texts("list of texts like [\"a6000=0.5\", \"a100=1\"]", &core::ParseTypeSpeed),
         AT(gpu_speeds), kRestart),
      Of("monitor.source",
         "Who counts SM activity: the driver where it can and else DCGM, the driver or nobody, or "
         "DCGM for every GPU (docs/gpus.md).",
         Choice<ActivitySource>({{"auto", ActivitySource::kAuto},
                                 {"nvml", ActivitySource::kNvml},
                                 {"dcgm", ActivitySource::kDcgm}}),
         AT(activity_source), kRestart),
      Of("health.drain",
         "A GPU whose errors or condition speak against it takes no further task; false: that is "
         "only told.",
         Flag(), AT(health.drain)),
      Of("health.resume",
         "Such a GPU is opened again once the cause is gone; false: by `carma resume` alone.",
         Flag(), AT(health.resume_when_cleared)),
      Of("health.ignore_xids", "Xid errors that do not speak against a GPU on this machine.",
         List("list of numbers like [63, 94]", kNumberList | kNumber | kTextList, 100,
              Count<int>(1, 999)),
         AT(health.ignored_xids)),
      Of("idle.after", "A task that has not used its GPUs for so long is an idle holder.",
         OrFalse(Span(kSecond, kYear)), AT(idle_after)),
      Of("idle.below", "SM activity that counts as none.",
         Fraction("fraction from 0 to 0.5",
                  [](double below) { return below >= 0 && below <= 0.5; }),
         AT(idle_below)),
      Of("idle.action",
         "What follows for a task that holds GPUs without using them: it is only told, others may "
         "join it although it is exclusive, or it is ended.",
         Choice<IdleAction>({{"tell", IdleAction::kTell},
                             {"share", IdleAction::kShare},
                             {"end", IdleAction::kEnd}}),
         AT(policy.idle_action)),
      Of("notify.enabled", "Users may be told of their tasks (docs/tasks.md).", Flag(),
         AT(notify_enabled)),
      Of("notify.allow", "How they may be told.",
         List("list of \"mail\", \"webhook\" and \"program\"", kTextList, 3,
              Word({"mail", "webhook", "program"})),
         AT(notify_allow)),
      Of("notify.per_user_and_hour", "What one user wants told beyond that is dropped.",
         Count(1, 100'000), AT(notify_per_hour)),
      Of("notify.time_limit", "A try that takes longer (real time) has failed; later ones follow.",
         Span(kSecond, 5 * kMinute), AT(notify_time_limit)),
      Of("notify.sendmail", "Program that takes mail, as sendmail(8).",
         Path("absolute path", 4'095), AT(notify_sendmail)),
      Of("notify.admin",
         "Who is told of idle holders and of GPUs that fail: mail addresses, URLs or programs, as "
         "--notify of carma submit has them.",
         List("list of targets like [\"root@example.org\", \"https://example.org/hook\"]",
              kTextList, 8, Text("", &IsNotifyTarget)),
         AT(notify_admin)),
      Of("slurm.enabled",
         "Jobs of Slurm's whose task ran out of GPU memory, or was ended by a neighbour's fault, "
         "go "
         "back into its queue with a larger claim (docs/slurm.md).",
         Flag(), AT(slurm_enabled), kRestart),
      Of("slurm.retries", "How often a job is started again at most, where it does not say.",
         Count(0, 100), AT(slurm_retries)),
      Of("slurm.scontrol", "Slurm's program of that name.", Path("absolute path", 4'095),
         AT(slurm_scontrol), kRestart),
      Of("slurm.squeue", "Slurm's program of that name.", Path("absolute path", 4'095),
         AT(slurm_squeue), kRestart),
      Of("estimate.method",
         "How the memory of a task is predicted: \"auto\" takes the best that is possible "
         "(docs/estimators.md).",
         EstimateMethod(), AT(estimate_method)),
      Of("estimate.coverage",
         "Share of the tasks that should need no more than they are promised; 0: promise the most "
         "likely value.",
         Fraction("fraction from 0.5 to 0.999, or 0",
                  [](double share) { return share == 0 || (share >= 0.5 && share <= 0.999); }),
         AT(estimate_coverage)),
      Of("estimate.time_limit",
         "A task whose estimate takes longer (real time) queues without one.",
         Span(100 * kMs, kHour), AT(estimate_time_limit)),
      Of("estimate.history",
         "Learn from finished tasks: what they needed, and how far predictions are off.", Flag(),
         AT(estimate_history), kRestart),
      Of("estimate.prefer_given",
         "Memory that a user states is believed; false: only where nothing else is known.", Flag(),
         AT(estimate_prefer_given)),
      Of("estimate.profiles",
         "File of profiles that \"carma profile\" measured (docs/profile.md): what is known of a "
         "task's SM activity and slowdown from the start; empty: none.",
         PathOrNone(), AT(estimate_profiles)),
      Of("task.kill_grace", "Time between the request to end and the kill.",
         Span(Duration{0}, kDay), AT(kill_grace)),
      Of("task.max_output", "Size at which an output file is rotated; 0: never.", Size(),
         AT(max_output_mib)),
      Of("task.output_rotations", "Older output files kept beside the current one.", Count(0, 100),
         AT(output_rotations)),
      Of("task.default_time_limit", "Time limit of tasks that state none.",
         OrFalse(Span(kSecond, kYear)), AT(default_time_limit)),
      Of("task.max_queued", "Unfinished tasks the daemon accepts.", Count(1, 10'000'000),
         AT(max_queued_tasks)),
      Of("task.max_queued_per_user", "Of these, unfinished tasks of one user.",
         Count(1, 10'000'000), AT(max_queued_per_user)),
      Of("task.max_processes",
         "Processes and threads of one task at once, where its cgroup counts them, else of all of "
         "its user's; 0: no limit. Root's are not limited without cgroups.",
         Count(0, 4'194'304), AT(max_processes)),
      Of("task.max_batch", "Most tasks of one submission.", Count(1, 10'000'000), AT(max_batch)),
      Of("task.cgroups", "One cgroup per task where cgroup v2 allows it.", Flag(), AT(cgroups),
         kRestart),
      Of("host.cpus",
         "Cores (hardware threads) that tasks are promised altogether; \"auto\": those of the "
         "machine, less one where there are 8 or more; 0: they are not counted.",
         OrAuto(Count<int>(0, core::kMaxCpus)), AT(host_cpus)),
      Of("host.memory",
         "Memory of the machine, not of its GPUs, that tasks are promised altogether; \"auto\": "
         "that of the machine less a tenth, at most 16G; 0: it is not counted.",
         OrAuto(Size()), AT(host_memory_mib)),
      Of("host.cpus_per_gpu",
         "Cores that a task is promised for each of its GPUs if it does not say; 0: none are "
         "counted for it then.",
         Count<int>(0, 4'096), AT(policy.cpus_per_gpu)),
      Of("host.memory_per_gpu",
         "Memory of the machine that a task is promised for each of its GPUs, and limited to, if "
         "it does not say; 0: none is counted for it then, and nothing limits it.",
         Size(), AT(policy.host_memory_per_gpu_mib)),
      Of("host.cpu_limit",
         "How promised cores are enforced: \"weight\" gives each task its part where all are "
         "busy, and idle ones to anybody (cpu.weight); \"cap\" never more than its part "
         "(cpu.max).",
         Choice<bool>({{"weight", false}, {"cap", true}}), AT(cpu_cap)),
      Of("simulation.state", "State file of a simulated server; empty: real GPUs.", PathOrNone(),
         AT(simgpu_state), kRestart),
  };
}
#undef AT

std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, changed}));
    }
  }
  return row.back();
}

}  // namespace

std::string VariableOf(std::string_view name) {
  std::string variable = "CARMA_";
  for (const char c : name) {
    variable += c == '.' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  }
  return variable;
}

const std::vector<Key>& AllKeys() {
  static const std::vector<Key> kKeys = MakeKeys();
  return kKeys;
}

const Key* FindKey(std::string_view name) {
  for (const Key& key : AllKeys()) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

std::optional<std::string> DidYouMean(std::string_view word, const std::vector<std::string>& known,
                                      std::size_t near) {
  if (word.size() > 100) return std::nullopt;
  std::optional<std::string> nearest;
  std::size_t least = near + 1;
  for (const std::string& each : known) {
    const std::size_t distance = EditDistance(word, each);
    if (distance < least && distance < each.size() / 2 + 1) {
      least = distance;
      nearest = each;
    }
  }
  return nearest;
}

}  // namespace carma::config
