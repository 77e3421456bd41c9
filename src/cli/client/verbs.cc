// Declares the verbs and their options. The functions that implement them are declared in verbs.h.
#include "cli/client/verbs.h"

#include <fmt/format.h>

#include "base/text.h"
#include "cli/calls.h"
#include "cli/client/server_choices.h"
#include "cli/client/task_table.h"
#include "task/describe/options.h"

namespace carma::cli {
namespace {

constexpr const char* kTasksHelp =
    "tasks: 42; 42,43; 40-45; 40_3 (index 3 of array 40); @ (my last one); @~2 (two before it)";
// Like kTasksHelp, for verbs that wait for tasks or change them.
constexpr const char* kArraysHelp =
    "tasks: 42; 42,43; 40-45; 40_3 (of array 40); @ (my last task or array); @~2 (two before it)";

Syntax AddVerb(Syntax app, const char* name, const char* help, const std::string& example) {
  const Syntax verb = app.AddVerb(name, help);
  verb.Footer(example + "\nEvery verb also takes --json and --socket PATH.");
  return verb;
}

// The flags of a verb live as long as its callback. They are in a shared_ptr, because std::function
// must be copyable.

// ---- submit ----

void AddSubmit(Syntax app, Context& context) {
  auto flags = std::make_shared<SubmitFlags>();
  const Syntax verb = AddVerb(
      app, "submit",
      "Submit a task: a command, a script with #CARMA or #SBATCH lines, or a .rad file",
      "The command follows the options:\n"
      "  carma submit --gpus 2 --memory 12G python train.py --lr 0.1\n"
      "  carma submit --time 12h train.sh resnet50       a script that starts with #!\n"
      "  carma submit --array 0-15 -- ./sweep            after --: never treated as a script\n"
      "  carma submit resnet50.rad                       a file in the original system's format\n"
      "  echo 'nvidia-smi' | sed '1i #!/bin/sh' | carma submit -\n"
      "  carma submit --batch tasks.jsonl                one JSON description per line\n"
      "Prints 'Submitted task 42'. Exit code: 0 accepted, 1 refused, 2 invalid description;\n"
      "with --wait, the task's exit code.\n");
  AddTaskOptions(verb);
  verb.AddFlag("--check", flags->check,
               "dry run: report whether the task would be accepted and could start now");
  verb.AddFlag("--no-check", flags->no_check,
               "do not check that the program, working directory and conda environment exist");
  verb.AddFlag("-W,--wait", flags->wait, "wait until the task ends and exit with its exit code");
  verb.AddFlag("--parsable", flags->parsable,
               "print only the task number, or FIRST-LAST for several tasks");
  verb.AddOption("--batch", "FILE", flags->batch, "submit every line of FILE (- for stdin)");
  verb.AddFlag("--lines", flags->lines,
               "treat each --batch line as a shell command; all share the options given here");
  verb.AddOption("--sbatch", "", flags->sbatch, "").OneWord().Group("");  // hidden
  verb.OnRun([&context, flags, verb] {
    flags->settings = GivenOptions(verb);
    context.Report(RunSubmit(context, *flags));
  });
}

void AddLease(Syntax app, Context& context) {
  auto flags = std::make_shared<SubmitFlags>();
  const Syntax verb = AddVerb(
      app, "lease", "Wait for GPUs, then exec a command; for launchers other than carmad",
      "  carma lease -G 2 --gpu-mem 12G -- python3 train.py\n"
      "  srun --gres=gpu:0 carma lease --gpu-mem 8G -- ./job.sh\n"
      "Waits like any task, then replaces this process with the command, whose environment\n"
      "names the GPUs. The GPUs are released when the command exits, for whatever reason. It is\n"
      "never restarted, and its output is not captured. 'carma cancel' stops the command;\n"
      "Ctrl-C stops waiting.\n");
  AddTaskOptions(verb, &IsForLease);
  AddTaskOptions(
      verb, [](std::string_view name) { return !IsForLease(name); }, false);
  verb.OnRun([&context, flags, verb] {
    flags->settings = GivenOptions(verb);
    context.Report(RunLease(context, *flags));
  });
}

void AddRedo(Syntax app, Context& context) {
  auto flags = std::make_shared<RedoFlags>();
  const Syntax verb =
      AddVerb(app, "redo", "Submit tasks again as new tasks with the same description",
              "  carma redo @                     my last task once more\n"
              "  carma redo 42 --gpu-mem 20G      with more memory\n"
              "  carma redo 42 43 --cascade       and the tasks that depend on them, each once\n"
              "Begin time and hold are not copied. The limit of an array (%N) does not apply to\n"
              "tasks that are submitted again. Dependencies are copied only to tasks that\n"
              "depend on a resubmitted task. The new task belongs to the owner of the old one\n"
              "and runs with that user's permissions, even if an administrator resubmits it.\n");
  verb.AddOption("tasks", "", flags->tasks, std::string(kTasksHelp) + " (default: @)");
  AddTaskOptions(verb, &IsEditable);
  verb.AddFlag("--cascade", flags->cascade, "also resubmit the tasks that depend on them");
  verb.AddFlag("--parsable", flags->parsable, "print only the task number");
  verb.OnRun([&context, flags, verb] {
    flags->settings = GivenOptions(verb);
    context.Report(RunRedo(context, *flags));
  });
}

void AddEdit(Syntax app, Context& context) {
  auto flags = std::make_shared<EditFlags>();
  const Syntax verb =
      AddVerb(app, "edit", "Change options of waiting tasks, and some options of running ones",
              "  carma edit 42 --time 12h              also for running tasks: limit, priority,\n"
              "                                        name, comment, notify\n"
              "  carma edit 40-45 --gpu-mem 20G -G 2\n"
              "  carma edit @ --begin tomorrow --notify me\n"
              "'carma history' shows all changes and which user made them.\n");
  verb.AddOption("tasks", "", flags->tasks, kArraysHelp).Required();
  AddTaskOptions(verb, &IsEditable);
  verb.OnRun([&context, flags, verb] {
    flags->settings = GivenOptions(verb);
    context.Report(RunEdit(context, *flags));
  });
}

// ---- showing tasks ----

void AddWatch(Syntax verb, bool& watch, double& interval_s) {
  verb.AddFlag("-w,--watch", watch, "refresh until interrupted");
  verb.AddOption("--interval", "S", interval_s, "seconds between updates (default: 2)")
      .Range(0.1, 3600.0);
}

void AddList(Syntax app, Context& context) {
  auto flags = std::make_shared<ListFlags>();
  const Syntax verb = AddVerb(
      app, "list", "List unfinished tasks in queue order",
      "MEM is per GPU: used/promised while a task is running, ~predicted while it is waiting, and\n"
      "the peak once it has ended.\n"
      "Columns for -o:\n" +
          ColumnHelp() +
          "  carma list -u ann -t running\n"
          "  carma list -w --tree\n"
          "  carma list --all --limit 20 -o id,name,state,peak,exit\n");
  verb.Alias("queue").Alias("ls");
  verb.AddOption("-u,--user", "NAME", flags->user, "only tasks of this user");
  verb.AddOption(
      "-t,--state", "LIST", flags->states,
      "only tasks in these states, such as running,R,failed,OOM; all: any state, newest first");
  verb.AddOption("--name", "NAME", flags->name, "only tasks with this name");
  verb.AddOption("--account", "NAME", flags->account, "only tasks of this account");
  verb.AddOption("--class,--qos", "NAME", flags->qos, "only tasks of this class");
  verb.AddOption("--limit", "N", flags->limit, "at most N tasks (default: 500)")
      .Range(std::size_t{1}, std::size_t{10'000'000});
  verb.AddFlag("-a,--all", flags->all, "include ended tasks, newest first");
  verb.AddFlag("--unfold", flags->unfold,
               "one row for each waiting array task, even for identical ones");
  verb.AddFlag("--tree", flags->tree, "show each task below the task it depends on");
  verb.AddOption("-o,--format", "LIST", flags->columns, "columns, listed below");
  verb.AddFlag("--no-header", flags->no_titles, "omit the header line");
  AddWatch(verb, flags->watch, flags->interval_s);
  verb.OnRun([&context, flags, verb] {
    flags->limit_given = verb.Given("--limit");
    context.Report(RunList(context, *flags));
  });
}

using TaskWork = Result<Unit> (*)(Context&, const std::vector<std::string>&);
void AddTaskLook(Syntax app, Context& context, const char* name, const char* help,
                 const char* example, TaskWork work) {
  auto tasks = std::make_shared<std::vector<std::string>>();
  const Syntax verb = AddVerb(app, name, help, example);
  verb.AddOption("tasks", "", *tasks, std::string(kTasksHelp) + " (default: @)");
  verb.OnRun([&context, tasks, work] { context.Report(work(context, *tasks)); });
}

void AddShow(Syntax app, Context& context) {
  AddTaskLook(app, context, "show",
              "Show a task's details, with predicted, promised and measured memory",
              "  carma show 42\n", &RunShow);
}

void AddExplain(Syntax app, Context& context) {
  AddTaskLook(app, context, "explain",
              "Explain why a task is waiting, GPU by GPU, or why it runs where it does",
              "  carma explain 42\n", &RunExplain);
}

void AddHistory(Syntax app, Context& context) {
  auto flags = std::make_shared<HistoryFlags>();
  const Syntax verb = AddVerb(app, "history", "Show task history (default: all tasks)",
                              "  carma history 42\n  carma history --limit 1000\n");
  verb.AddOption("tasks", "", flags->tasks, kTasksHelp);
  verb.AddOption("-n,--limit", "N", flags->limit,
                 "the last N events, or N per named task (default: 100)")
      .Range(std::size_t{1}, std::size_t{10'000});
  verb.OnRun([&context, flags] { context.Report(RunHistory(context, *flags)); });
}

// ---- changing tasks ----

void AddChange(Syntax app, Context& context, const std::string& name, const char* help,
               const std::string& example) {
  auto flags = std::make_shared<ChangeFlags>();
  const Syntax verb = AddVerb(app, name.c_str(), help, example);
  verb.AddOption("tasks", "", flags->tasks, kArraysHelp);
  verb.AddFlag("--all", flags->all, "all my unfinished tasks");
  verb.AddOption("--name", "NAME", flags->name, "my tasks with this name");
  verb.AddOption("-t,--state", "LIST", flags->states,
                 "my tasks in these states: queued, running …");
  verb.AddOption("--array", "TASKS", flags->arrays,
                 "my tasks in these arrays, each identified by its first task");
  verb.AddOption("-u,--user", "NAME", flags->user, "tasks of this user (administrators)");
  verb.OnRun([&context, flags, verb, name] {
    // An empty value, such as that of an unset shell variable, must not select more tasks.
    for (const auto& [option, value] : verb.GivenOptions()) {
      if (value.empty()) return context.Fail(Invalid("--{}: expected a value", option).error());
    }
    context.Report(RunChange(context, name, *flags));
  });
}

void AddCancel(Syntax app, Context& context) {
  AddChange(app, context, "cancel", "Cancel tasks, running or waiting",
            "  carma cancel 42,43\n"
            "  carma cancel --name sweep --state queued\n"
            "  carma cancel --array 40        the whole array that starts with task 40\n"
            "  carma cancel --all\n");
}

void AddHold(Syntax app, Context& context) {
  AddChange(app, context, "hold", "Hold waiting tasks so they do not start",
            "  carma hold 40-45\n");
}

void AddRelease(Syntax app, Context& context) {
  AddChange(app, context, "release", "Allow held tasks to start", "  carma release 40-45\n");
}

void AddRequeue(Syntax app, Context& context) {
  AddChange(app, context, "requeue", "Restart tasks from the beginning; running ones are stopped",
            "  carma requeue 42     dependent tasks that were cancelled stay cancelled\n");
}

void AddPriority(Syntax app, Context& context) {
  struct Flags {
    std::vector<std::string> tasks;
    std::int64_t priority = 0;
  };
  auto flags = std::make_shared<Flags>();
  const Syntax verb = AddVerb(app, "priority", "Change the priority of waiting tasks",
                              "  carma priority -10 42     let others go first\n");
  verb.AddOption("priority", "", flags->priority, "higher values start first").Required();
  verb.AddOption("tasks", "", flags->tasks, kArraysHelp).Required();
  verb.OnRun(
      [&context, flags] { context.Report(RunPriority(context, flags->tasks, flags->priority)); });
}

// ---- waiting and reading ----

void AddWait(Syntax app, Context& context) {
  auto flags = std::make_shared<WaitFlags>();
  const Syntax verb = AddVerb(
      app, "wait", "Wait until tasks have ended and exit with their exit code",
      "  carma wait @ && echo trained\n"
      "Exit code: the task's own, 128 + N if signal N killed it, or 1 if it has neither; for\n"
      "several tasks, the highest; 124 if --timeout expired.\n");
  verb.AddOption("tasks", "", flags->tasks, std::string(kArraysHelp) + " (default: @)");
  verb.AddSpan("--timeout", flags->timeout,
               "give up after 90s, 15m, 2h … (a bare number is minutes)");
  verb.AddFlag("--any", flags->any, "return as soon as one task has ended");
  verb.AddFlag("-q,--quiet", flags->quiet, "print nothing");
  verb.OnRun([&context, flags] { context.Report(RunWait(context, *flags)); });
}

void AddLogs(Syntax app, Context& context) {
  auto flags = std::make_shared<LogsFlags>();
  const Syntax verb = AddVerb(app, "logs", "Show a task's output, read from its file",
                              "  carma logs -f            follow my last task until it ends\n"
                              "  carma logs --err -n 20 42\n");
  verb.AddOption("tasks", "", flags->tasks, std::string(kTasksHelp) + " (default: @)");
  verb.AddFlag("-f,--follow", flags->follow, "follow the output until the task ends");
  verb.AddFlag("--err", flags->errors, "show standard error instead of standard output");
  verb.AddOption("-n,--lines", "N", flags->lines, "only the last N lines")
      .Range(std::int64_t{0}, std::int64_t{1'000'000'000});
  verb.OnRun([&context, flags] { context.Report(RunLogs(context, *flags)); });
}

// ---- the server ----

// The value of --history is optional. The next word is its value only if it is a time span such as
// "90m", "6h" or "1:30:00". Any other word, including a bare number, is the first GPU.
void TakeHistory(Option option, const std::string& given, GpusFlags& flags) {
  if (option.count() == 0) return;
  const Result<base::Duration> span = base::ParseSpan(given);
  const bool is_span = span && !base::ParseInt(given);
  flags.history = is_span ? *span : std::chrono::hours(1);
  if (!is_span && !given.empty()) flags.gpus.insert(flags.gpus.begin(), given);
}

void AddGpus(Syntax app, Context& context) {
  struct Flags {
    GpusFlags gpus;
    std::string history;
  };
  auto flags = std::make_shared<Flags>();
  const Syntax verb = AddVerb(
      app, "gpus", "List GPUs with their memory, activity and tasks",
      "USED is measured, PROMISED is set aside for tasks, FREE is available to a new task.\n"
      "  carma gpus -w\n"
      "  carma gpus -v 0           everything known about GPU 0, with sources\n"
      "  carma gpus --history 6h   activity, memory and power; each line ends with its mean,\n"
      "                            or its maximum for peaks\n");
  verb.AddOption("gpus", "", flags->gpus.gpus,
                 "indices or UUIDs: 0; 0,2; 0-3; GPU-… (default: all)");
  const Option verbose =
      verb.AddFlag("-v,--verbose", flags->gpus.verbose,
                   "all metrics and their sources, tasks, other processes, alerts");
  const Option history =
      verb.AddOption("--history", "[SPAN]", flags->history,
                     "show history for SPAN, such as 90m, 6h or 7d (default: 1h)")
          .Values(0, 1)
          .Excludes(verbose);
  verb.AddOption("--points", "N", flags->gpus.points,
                 "with --history: at most N intervals (default: 60)")
      .Needs(history)
      .Range(1, 2'000);
  verb.AddFlag("--csv", flags->gpus.csv, "with --history: comma-separated values").Needs(history);
  AddWatch(verb, flags->gpus.watch, flags->gpus.interval_s);
  verb.OnRun([&context, flags, history] {
    TakeHistory(history, flags->history, flags->gpus);
    context.Report(RunGpus(context, flags->gpus));
  });
}

Syntax AddGpuChange(Syntax app, const std::string& name, const char* help, const char* example,
                    const std::shared_ptr<GpuChangeFlags>& flags) {
  const Syntax verb = AddVerb(app, name.c_str(), help, example);
  verb.AddOption("gpus", "", flags->gpus, "indices or UUIDs: 0; 0,2; 0-3; GPU-…; all").Required();
  return verb;
}

void AddDrain(Syntax app, Context& context) {
  auto flags = std::make_shared<GpuChangeFlags>();
  const Syntax verb =
      AddGpuChange(app, "drain", "Close GPUs to new tasks; running tasks continue",
                   "  carma drain 0,2 --reason 'new fan on Monday'\n"
                   "  carma drain all --by 18:00     tasks save and stop by then\n"
                   "  carma drain all --until-boot --wait    for scripts, before a shutdown\n"
                   "Draining a GPU again keeps its reason and TIME unless you specify new ones.\n",
                   flags);
  verb.AddOption("--reason", "TEXT", flags->reason, "reason shown to waiting tasks");
  verb.AddOption("--by", "TIME", flags->by,
                 "ask tasks to save, and requeue those still running at TIME: 18:00, "
                 "2026-03-01T14:05, now+2hours");
  verb.AddFlag("--until-boot", flags->until_boot,
               "with all: start no tasks until the next boot (--by defaults to "
               "slots.shutdown_notice from now)");
  verb.AddFlag("--wait", flags->wait, "wait until no tasks are left");
  verb.OnRun([&context, flags] { context.Report(RunDrain(context, *flags)); });
}

void AddResume(Syntax app, Context& context) {
  auto flags = std::make_shared<GpuChangeFlags>();
  AddGpuChange(app, "resume", "Reopen drained GPUs",
               "  carma resume all     also reopens a server that was closed until its next boot\n",
               flags)
      .OnRun([&context, flags] { context.Report(RunResume(context, *flags)); });
}

void AddStatus(Syntax app, Context& context) {
  struct Flags {
    bool wait = false;
    double timeout_s = 30;
  };
  auto flags = std::make_shared<Flags>();
  const Syntax verb = AddVerb(app, "status", "Show the daemon's version, rules, tasks and problems",
                              "  carma status --wait      for scripts: waits until carmad responds "
                              "and has looked for GPUs\n");
  verb.AddFlag("--wait", flags->wait,
               "keep trying until carmad responds and has finished looking for GPUs");
  verb.AddOption("--timeout", "S", flags->timeout_s, "how long --wait keeps trying (default: 30)")
      .Range(0.0, 86'400.0);
  verb.OnRun([&context, flags] {
    context.Report(RunStatus(context, flags->wait ? flags->timeout_s : 0));
  });
}

void AddBackup(Syntax app, Context& context) {
  auto flags = std::make_shared<BackupFlags>();
  const Syntax verb =
      AddVerb(app, "backup",
              "Back up the database (queue, history, learned data) while the daemon is running",
              "  carma backup /backup/              creates carma-YYYYMMDD-HHMMSS.db there\n"
              "  carma backup --force carma.db\n"
              "Only for root and the user that carmad runs as. To restore a backup, see\n"
              "docs/server/operations.md.\n");
  verb.AddOption("target", "FILE", flags->target,
                 "the file to create, or the folder to create it in")
      .Required();
  verb.AddFlag("-f,--force", flags->force, "replace an existing file");
  verb.AddOption("--state-dir", "DIR", flags->state_dir,
                 "folder of the database to back up (default: the daemon's)");
  verb.OnRun([&context, flags] { context.Report(RunBackup(context, *flags)); });
}

// ---- the program itself ----

void AddVersion(Syntax app, Context& context) {
  const Syntax verb = AddVerb(app, "version", "Print this program's version, commit and build",
                              "  carma version\n");
  verb.OnRun([&context] {
    Print(context, context.json
                       ? fmt::format("{{\"version\":{},\"build\":{}}}\n",
                                     JsonString(context.version), JsonString(context.build))
                       : VersionText(context) + "\n");
  });
}

}  // namespace

void AddTaskOptions(Syntax verb, bool (*wants)(std::string_view name), bool shown) {
  for (const task::OptionInfo& info : task::SubmitOptions()) {
    if (wants != nullptr && !wants(info.name)) continue;
    std::string names = info.letter != 0 ? std::string("-") + info.letter + "," : "";
    names += "--" + std::string(info.name);
    const std::string help(info.help);
    const Option option = info.value.empty() ? verb.AddFlag(names, help)
                                             : verb.AddOption(names, std::string(info.value), help);
    option.LastCounts().Group(shown ? std::string(info.group) : "");
  }
}

Settings GivenOptions(Syntax verb) {
  Settings given;
  for (auto& [name, value] : verb.GivenOptions()) {
    const task::OptionInfo* info = task::FindOption(name);
    if (info) given.emplace_back(name, info->value.empty() ? "" : std::move(value));
  }
  return given;
}

Program ServerProgram() {
  Program program;
  program.choices = &ServerChoices;
  program.verbs = {
      {"submit", &AddSubmit},
      {"list", &AddList},
      {"show", &AddShow},
      {"explain", &AddExplain},
      {"logs", &AddLogs},
      {"progress", &AddProgressCommand},
      {"wait", &AddWait},
      {"cancel", &AddCancel},
      {"hold", &AddHold},
      {"release", &AddRelease},
      {"requeue", &AddRequeue},
      {"priority", &AddPriority},
      {"edit", &AddEdit},
      {"redo", &AddRedo},
      {"lease", &AddLease},
      {"history", &AddHistory},
      {"run", &AddRunCommand},
      {"shell", &AddShellCommand},
      {"ssh", &AddSshCommand},
      {"top", &AddTopCommand},
      {"gpus", &AddGpus},
      {"drain", &AddDrain},
      {"resume", &AddResume},
      {"status", &AddStatus},
      {"backup", &AddBackup},
      {"reserve", &AddReserveCommand},
      {"token", &AddTokenCommand},
      {"usage", &AddUsageCommand},
      {"completion", &AddCompletionCommand},
      {"version", &AddVersion},
      {"demo", nullptr, "See CARMA at work on simulated GPUs: 60 tasks in under two minutes"},
      {"trace", nullptr, "Inspect, cut, generate, replay and export traces"},
      {"simulate", nullptr, "Simulate this server's load under other policies within seconds"},
      {"report", &AddReportCommand},
      {"config", &AddConfigCommand},
      {"init", &AddInitCommand},
      {"estimate", &AddEstimateCommand},
      {"doctor", &AddDoctorCommand},
      {"mcp", &AddMcpCommand},
      {"evaluate", nullptr, "Compare the estimators with measured runs", "estimate"},
      {"profile", nullptr,
       "Measure workloads on this server, alone and together, and the cost of monitoring"},
      {"pilot", &AddPilotCommand},
      {"slurm", &AddSlurmCommand},
  };
  return program;
}

}  // namespace carma::cli
