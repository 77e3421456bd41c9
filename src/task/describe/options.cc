#include "task/describe/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>

#include "base/text.h"
#include "task/describe/sweep.h"

namespace carma::task {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Result;
using base::Unit;

// Stores one value; on error the draft stays as it was. Errors say what was expected, not where.
using Setter = Result<Unit> (*)(Draft&, std::string_view value);

std::unexpected<base::Error> Expected(std::string_view expected, std::string_view value) {
  return Fail(ErrorCode::kInvalid,
              "expected " + std::string(expected) + ", not '" + base::Printable(value, 60) + "'");
}

template <std::int64_t kLow, std::int64_t kHigh, class Target>
Result<Unit> SetNumber(Target& target, std::string_view value) {
  const std::optional<std::int64_t> number = base::ParseInt(value);
  if (!number || *number < kLow || *number > kHigh) {
    return Expected("a number from " + std::to_string(kLow) + " to " + std::to_string(kHigh),
                    value);
  }
  target = static_cast<Target>(*number);
  return Unit{};
}

// The setter of a text member; Validate() checks it later.
template <auto kMember>
Result<Unit> SetText(Draft& draft, std::string_view value) {
  draft.spec.*kMember = std::string(value);
  return Unit{};
}

Result<Unit> SetGpuCount(Draft& draft, Result<GpuCount> count) {
  if (!count) return std::unexpected(count.error());
  draft.remarks = std::move(count->remarks);
  if (!count->counted) return Unit{};
  draft.spec.gpus = count->gpus;
  draft.gpus_counted = true;
  // A new "2" replaces all of an earlier "a100:1", the type too.
  if (count->type || draft.type_with_count) draft.spec.gpu_type = count->type;
  draft.type_with_count = count->type.has_value();
  return Unit{};
}
Result<Unit> SetGpus(Draft& draft, std::string_view value) {
  return SetGpuCount(draft, ParseGpus(value));
}
Result<Unit> SetGres(Draft& draft, std::string_view value) {
  return SetGpuCount(draft, ParseGres(value));
}

Result<Unit> SetGpuType(Draft& draft, std::string_view value) {
  const Result<std::optional<std::string>> type = ParseGpuType(value);
  if (!type) return std::unexpected(type.error());
  draft.spec.gpu_type = *type;
  draft.type_with_count = false;
  return Unit{};
}
Result<Unit> SetConstraint(Draft& draft, std::string_view value) {
  const Constraint constraint = ParseConstraint(value);
  for (const std::string& each : constraint.others)
    draft.remarks.push_back("'" + base::Printable(each, 40) + "' is not considered");
  return constraint.gpu_type ? SetGpuType(draft, *constraint.gpu_type) : Unit{};
}
Result<Unit> SetGpuMemoryMin(Draft& draft, std::string_view value) {
  const Result<std::int64_t> mib = base::ParseMemoryMib(value);
  if (!mib || *mib < 1 || *mib > core::kMaxMemoryMib)
    return Expected("a memory size such as 24G or 40G", value);
  draft.spec.gpu_memory_min_mib = *mib;
  return Unit{};
}
template <auto kMember>
Result<Unit> SetGpuNames(Draft& draft, std::string_view value) {
  if (base::ToLower(value) == "any" || base::ToLower(value) == "none") {
    (draft.spec.*kMember).clear();
    return Unit{};
  }
  Result<std::vector<std::string>> names = ParseGpuNames(value);
  if (!names) return std::unexpected(names.error());
  draft.spec.*kMember = *std::move(names);
  return Unit{};
}
Result<Unit> SetLinked(Draft& draft, std::string_view) {
  draft.spec.linked_gpus = true;
  return Unit{};
}

Result<Unit> SetMemory(Draft& draft, std::string_view value) {
  const Result<std::int64_t> mib = base::ParseMemoryMib(value);
  if (!mib || *mib < 1 || *mib > core::kMaxMemoryMib) {
    return Expected("a memory size per GPU such as 800M or 12G", value);
  }
  draft.spec.memory_mib = *mib;
  draft.spec.memory_source = "given";
  return Unit{};
}

Result<Unit> SetCpus(Draft& draft, std::string_view value) {
  int cpus = 0;
  Result<Unit> set = SetNumber<1, core::kMaxCpus>(cpus, value);
  if (set) draft.spec.cpus = cpus;
  return set;
}
Result<Unit> SetHostMemory(Draft& draft, std::string_view value) {
  const Result<std::int64_t> mib = base::ParseMemoryMib(value);
  if (!mib || *mib < 1 || *mib > core::kMaxHostMemoryMib)
    return Expected("a memory size such as 800M or 64G", value);
  draft.spec.host_memory_mib = *mib;
  return Unit{};
}
Result<Unit> SetOwnCpus(Draft& draft, std::string_view) {
  draft.spec.own_cpus = true;
  return Unit{};
}

Result<Unit> SetSmShare(Draft& draft, std::string_view value) {
  const Result<double> share = ParseShare(value);
  if (!share) return std::unexpected(share.error());
  draft.spec.sm_share = *share;
  return Unit{};
}

Result<Unit> SetMaxSlowdown(Draft& draft, std::string_view value) {
  const std::optional<double> most = base::ParseDouble(value);
  if (!most || !(*most >= 1 && *most <= core::kMostSlowdown)) {
    return Expected("a number from 1 to 1000 such as 1.5", value);
  }
  draft.spec.max_slowdown = *most;
  return Unit{};
}

Result<Unit> SetTime(Draft& draft, std::string_view value) {
  const std::string lower = base::ToLower(value);
  if (lower == "unlimited" || lower == "infinite" || lower == "0") {
    draft.spec.time_limit.reset();
    return Unit{};
  }
  const Result<base::Duration> span = base::ParseSpan(value);
  if (!span || *span <= base::Duration(0) || *span > core::kMaxTimeLimit) {
    return Expected(
        "a time span such as 90s, 15m, 12h, 2d, 1:30:00 or 2-12 (a bare number is minutes)", value);
  }
  draft.spec.time_limit = *span;
  return Unit{};
}

Result<Unit> SetDependency(Draft& draft, std::string_view value) {
  Result<std::vector<core::Dependency>> dependencies = ParseDependencies(value);
  if (!dependencies) return std::unexpected(dependencies.error());
  draft.spec.dependencies = std::move(*dependencies);
  return Unit{};
}

Result<Unit> SetArray(Draft& draft, std::string_view value) {
  if (const Result<ArrayPlan> plan = ParseArray(value); !plan) return std::unexpected(plan.error());
  draft.array = std::string(value);
  return Unit{};
}

Result<Unit> SetContainer(Draft& draft, std::string_view value) {
  const Result<ContainerImage> container = ParseContainer(value);
  if (!container) return std::unexpected(container.error());
  draft.spec.container = std::string(value);
  return Unit{};
}
// Adds to earlier mounts. Finish() makes a relative folder absolute.
Result<Unit> AddContainerMount(Draft& draft, std::string_view value) {
  draft.spec.container_mounts.emplace_back(value);
  return Unit{};
}

// Adds to earlier parameters: each has its own name.
Result<Unit> SetParameter(Draft& draft, std::string_view value) {
  auto parameter = ParseParameter(value);
  if (!parameter) return std::unexpected(parameter.error());
  draft.parameters.push_back(*std::move(parameter));
  return Unit{};
}
Result<Unit> SetSweepFile(Draft& draft, std::string_view value) {
  draft.sweep_file = std::string(value);
  return Unit{};
}

Result<Unit> SetBegin(Draft& draft, std::string_view value) {
  // The current time is only known in Finish(); here any time shows whether the form is right.
  if (const auto begin = ParseBegin(value, base::FromMs(0)); !begin) {
    return std::unexpected(begin.error());
  }
  draft.begin = std::string(value);
  return Unit{};
}

Result<Unit> SetExport(Draft& draft, std::string_view value) {
  Result<ExportPlan> plan = ParseExport(value);
  if (!plan) return std::unexpected(plan.error());
  draft.exported = std::move(*plan);
  return Unit{};
}

Result<Unit> SetPriority(Draft& draft, std::string_view value) {
  return SetNumber<-core::kMaxPriority, core::kMaxPriority>(draft.spec.priority, value);
}
Result<Unit> SetRetries(Draft& draft, std::string_view value) {
  return SetNumber<0, core::kMaxRecoveries>(draft.spec.max_recoveries, value);
}
Result<Unit> SetBatchSize(Draft& draft, std::string_view value) {
  std::int64_t size = 0;
  Result<Unit> set = SetNumber<1, kMaxBatchSize>(size, value);
  if (set) draft.spec.batch_size = size;
  return set;
}

Result<Unit> SetWrap(Draft& draft, std::string_view value) {
  draft.wrap = std::string(value);
  return Unit{};
}

Result<Unit> SetRadEstimate(Draft& draft, std::string_view value) {
  const auto* column = std::ranges::find(kRadColumns, value, &RadColumn::name);
  if (column == kRadColumns.end() && value != "none") {
    return Expected("oracle, horus, faketensor, gpumemnet or none", value);
  }
  draft.rad_column = column == kRadColumns.end() ? nullptr : column;
  return Unit{};
}

// Adds to earlier targets: a task may notify several. "none" removes those that the script names.
Result<Unit> SetNotify(Draft& draft, std::string_view value) {
  if (base::ToLower(value) == "none") {
    draft.spec.notify.clear();
    return Unit{};
  }
  Result<NotifyRule> rule = ParseNotifyRule(value);
  if (!rule) return std::unexpected(rule.error());
  if (draft.spec.notify.size() == kMaxNotifyRules)
    return Fail(ErrorCode::kInvalid, fmt::format("more than {} targets", kMaxNotifyRules));
  draft.spec.notify.push_back(*std::move(rule));
  return Unit{};
}

Result<Unit> SetMailType(Draft& draft, std::string_view value) {
  Result<MailTypes> types = ParseMailTypes(value);
  if (!types) return std::unexpected(types.error());
  for (const std::string& word : types->passed_over)
    draft.remarks.push_back("'" + word + "' is not considered");
  draft.mail_types = *std::move(types);
  return Unit{};
}

Result<Unit> SetMailUser(Draft& draft, std::string_view value) {
  const std::string target = "mail:" + std::string(value);
  if (const Result<NotifyTarget> parsed = ParseNotifyTarget(target);
      !parsed || parsed->kind != NotifyKind::kMail)
    return Expected("a mail address or a user's name", value);
  draft.mail_user = target;
  return Unit{};
}

Result<Unit> SetOpenMode(Draft& draft, std::string_view value) {
  if (value != "append" && value != "truncate") return Expected("append or truncate", value);
  draft.spec.append_output = value == "append";
  return Unit{};
}

Result<Unit> SetProgress(Draft& draft, std::string_view value) {
  if (value != "auto" && value != "none") return Expected("auto or none", value);
  draft.spec.no_progress = value == "none";
  return Unit{};
}

// As in Slurm: [B:]SIGNAL[@SECONDS]; without seconds, a minute before the end.
bool MayBeHandled(int signal) {
  return signal != SIGKILL && signal != SIGSTOP;
}

Result<Unit> SetSignal(Draft& draft, std::string_view value) {
  constexpr std::string_view kForm = "[B:]SIGNAL[@SECONDS] such as USR1@120";
  constexpr std::int64_t kUsualS = 60;
  std::string_view rest = value;
  const std::string_view to = rest.substr(0, rest.find(':'));
  if (to.size() != rest.size()) {
    if (to.find_first_not_of("BR") != std::string_view::npos) return Expected(kForm, value);
    if (to.find('R') != std::string_view::npos) draft.remarks.emplace_back("'R' is not considered");
    rest.remove_prefix(to.size() + 1);
  }
  const std::size_t at = rest.find('@');
  const std::optional<int> number = base::SignalNumber(rest.substr(0, at));
  const std::optional<std::int64_t> seconds =
      at == std::string_view::npos ? kUsualS : base::ParseInt(rest.substr(at + 1));
  if (!number || !seconds || *seconds < 1 ||
      base::Duration(std::chrono::seconds(*seconds)) > core::kMaxSignalBefore)
    return Expected(kForm, value);
  draft.spec.signal = ::sigabbrev_np(*number);
  draft.spec.signal_main = to.size() != value.size() && to.find('B') != std::string_view::npos;
  draft.spec.signal_before = std::chrono::seconds(*seconds);
  // A program that handles this signal saves its state then, as batch scripts on clusters do.
  if (!draft.spec.checkpoint_signal && MayBeHandled(*number))
    draft.spec.checkpoint_signal = draft.spec.signal;
  return Unit{};
}

Result<Unit> SetCheckpointSignal(Draft& draft, std::string_view value) {
  const std::optional<int> number = base::SignalNumber(value);
  if (!number || !MayBeHandled(*number))
    return Expected("a signal that a program can handle, such as USR1", value);
  draft.spec.checkpoint_signal = ::sigabbrev_np(*number);
  return Unit{};
}
Result<Unit> SetNoSlots(Draft& draft, std::string_view) {
  draft.spec.no_slots = true;
  return Unit{};
}

template <bool kExclusive>
Result<Unit> SetExclusive(Draft& draft, std::string_view) {
  draft.exclusive = kExclusive;
  return Unit{};
}
template <bool kRequeue>
Result<Unit> SetRequeue(Draft& draft, std::string_view) {
  draft.spec.requeue = kRequeue;
  return Unit{};
}
Result<Unit> SetHold(Draft& draft, std::string_view) {
  draft.spec.held = true;
  return Unit{};
}

template <PlanFile::Kind kKind>
Result<Unit> AddPlanFile(Draft& draft, std::string_view value) {
  draft.plan_files.push_back({kKind, std::string(value)});
  return Unit{};
}
Result<Unit> SetNoReading(Draft& draft, std::string_view) {
  draft.reads_training = false;
  return Unit{};
}

struct Row {
  OptionInfo info;
  Setter set;  // null: a word about the training, kept under its name
};

constexpr std::string_view kTransformerGroup = "Memory of a transformer";

constexpr std::array kRows{
    Row{{"job-name", 'J', "NAME", "name shown in lists", true}, SetText<&TaskSpec::name>},
    Row{{"gpus", 'G', "[TYPE:]N",
         "GPUs of one server (default 1): 2, a100:2; 0: cores and memory only", true},
        SetGpus},
    Row{{"gres", 0, "gpu:[TYPE:]N", "the same in Slurm's words", true}, SetGres},
    Row{{"gpus-per-node", 0, "[TYPE:]N", "the same in Slurm's words", true}, SetGpus},
    Row{{"gpu-type", 0, "NAME", "only GPUs of this model: a100, a100-40, rtx4090; any", false},
        SetGpuType},
    Row{{"constraint", 'C', "NAME", "the same, where it names a model, in Slurm's words", true},
        SetConstraint},
    Row{{"gpu-memory-min", 0, "SIZE", "only GPUs with at least so much memory in all: 40G", false},
        SetGpuMemoryMin},
    Row{{"gpu", 0, "LIST", "only these GPUs, by index or UUID: 2 or 2,3 (all of them, unless -G)",
         false},
        SetGpuNames<&TaskSpec::on_gpus>},
    Row{{"not-on", 0, "LIST", "none of these GPUs, by index or UUID", false},
        SetGpuNames<&TaskSpec::not_on_gpus>},
    Row{{"linked", 0, "", "only GPUs that are connected with each other by NVLink", false},
        SetLinked},
    Row{{"memory", 0, "SIZE", "peak GPU memory on each GPU: 800M, 12G, or MiB", false}, SetMemory},
    Row{{"gpu-mem", 0, "SIZE", "the same as --memory", false}, SetMemory},
    Row{{"cpus", 'c', "N", "cores of the server that are kept for it, all its processes together",
         false},
        SetCpus},
    Row{{"cpus-per-task", 0, "N", "the same in Slurm's words", false}, SetCpus},
    Row{{"mem", 0, "SIZE", "memory of the server that is kept for it, and its limit: 800M, 64G",
         false},
        SetHostMemory},
    Row{{"own-cpus", 0, "", "reserve dedicated cores for the task", false}, SetOwnCpus},
    Row{{"exclusive", 0, "", "no other task on its GPUs", true}, SetExclusive<true>},
    Row{{"collocated", 0, "", "share GPUs where that pays (default)", false}, SetExclusive<false>},
    Row{{"sm-share", 0, "P", "at most this share of each GPU's SMs: 30% or 0.3 (under MPS)", false},
        SetSmShare},
    Row{{"max-slowdown", 0, "X",
         "neighbours may make it take X times as long as alone, by prediction, and no longer",
         false},
        SetMaxSlowdown},
    Row{{"time", 't', "SPAN", "time limit: 90s, 15m, 12h, 2d, MIN, H:M:S, D-H", true}, SetTime},
    Row{{"output", 'o', "FILE", "stdout; %j id, %x name, %u user, %A array, %a index, %N host",
         true},
        SetText<&TaskSpec::stdout_path>},
    Row{{"error", 'e', "FILE", "stderr (default: together with stdout)", true},
        SetText<&TaskSpec::stderr_path>},
    Row{{"chdir", 'D', "DIR", "working directory (default: this one)", true},
        SetText<&TaskSpec::workdir>},
    Row{{"export", 0, "LIST", "ALL (default), NONE, or NAME[=value],…", true}, SetExport},
    Row{{"conda-env", 0, "ENV", "conda environment, by name or path", false},
        SetText<&TaskSpec::conda_env>},
    Row{{"container", 0, "IMAGE",
         "run in a container: IMAGE by podman, docker or apptainer, or TOOL:IMAGE", false},
        SetContainer},
    Row{{"container-mount", 0, "DIR",
         "a further folder there, DIR[:DIR_THERE][:ro] (home and working directory are); "
         "repeatable",
         false},
        AddContainerMount},
    Row{{"dependency", 'd', "LIST", "afterok:ID[:ID…], afterany:ID, afternotok:ID", true},
        SetDependency},
    Row{{"array", 'a', "LIST", "one task per index: 0-15, 1,3,7-9, 0-15:4, with %N at once", true},
        SetArray},
    Row{{"param", 0, "NAME=LIST",
         "a sweep: one task per value, {NAME} in the command; again for all combinations", false},
        SetParameter},
    Row{{"param-file", 0, "FILE", "a sweep: one task per line of a CSV table with names on top",
         false},
        SetSweepFile},
    Row{{"begin", 'b', "TIME", "not before: 14:05, 2026-03-01T14:05, now+1hour, +30m", true},
        SetBegin},
    Row{{"hold", 'H', "", "submit on hold", true}, SetHold},
    Row{{"priority", 0, "N", "higher starts first (default 0)", true}, SetPriority},
    Row{{"qos", 0, "CLASS", "class of the task: interactive, normal (default), background", false},
        SetText<&TaskSpec::qos>},
    Row{{"account", 0, "NAME", "account that its use of the GPUs is booked on", false},
        SetText<&TaskSpec::account>},
    Row{{"requeue", 0, "", "start again when its machine or GPU is lost (default)", true},
        SetRequeue<true>},
    Row{{"no-requeue", 0, "", "fail then instead", true}, SetRequeue<false>},
    Row{{"retries", 0, "N", "starts after running out of GPU memory (default 3)", false},
        SetRetries},
    Row{{"model-summary", 0, "FILE", "the model's layers, for the memory estimate", false},
        SetText<&TaskSpec::model_summary>},
    Row{{"batch-size", 0, "N", "batch size, for the memory estimate", false}, SetBatchSize},
    Row{{"optimizer", 0, "NAME", "sgd, sgd-momentum, adam, adamw …", false},
        SetText<&TaskSpec::optimizer>},
    Row{{"precision", 0, "NAME", "fp32, amp, bf16 …", false}, SetText<&TaskSpec::precision>},
    Row{{"rad-estimate", 0, "NAME",
         "memory column of a .rad file: oracle (default), horus, faketensor, gpumemnet, none",
         false},
        SetRadEstimate},
    Row{{"notify", 0, "TARGET[:EVENTS]",
         "notify TARGET (me, a mail address, a webhook URL or a program) of EVENTS: start, end, "
         "fail, oom, requeue (default: end); repeatable",
         false},
        SetNotify},
    Row{{"mail-type", 0, "LIST", "mail in Slurm's words: BEGIN, END, FAIL, REQUEUE, ALL, NONE",
         true},
        SetMailType},
    Row{{"mail-user", 0, "ADDRESS", "address for --mail-type (default: me)", true}, SetMailUser},
    Row{{"open-mode", 0, "MODE", "existing output files: truncate (default) or append", true},
        SetOpenMode},
    Row{{"progress", 0, "WORD", "read its progress from its output: auto (default) or none", true},
        SetProgress},
    Row{{"signal", 0, "[B:]SIGNAL[@S]",
         "send it S seconds (default 60) before the time limit; B: to the script's shell only",
         true},
        SetSignal},
    Row{{"checkpoint-signal", 0, "SIGNAL",
         "asks it to save before it has to make room for others: USR1 …", false},
        SetCheckpointSignal},
    Row{{"no-slots", 0, "", "not ended at the end of a time slot, where that is allowed", false},
        SetNoSlots},
    Row{{"comment", 0, "TEXT", "a note shown with the task", true}, SetText<&TaskSpec::comment>},
    Row{{"wrap", 0, "COMMAND", "run this line by /bin/sh", false}, SetWrap},
    Row{{"hf-config", 0, "FILE", "config.json of a Hugging Face transformer", false,
         kTransformerGroup},
        SetText<&TaskSpec::model_summary>},
    Row{{"adapter-config", 0, "FILE", "PEFT's adapter_config.json; implies lora", false,
         kTransformerGroup},
        AddPlanFile<PlanFile::Kind::kAdapter>},
    Row{{"deepspeed", 0, "FILE", "DeepSpeed's configuration, JSON", false, kTransformerGroup},
        AddPlanFile<PlanFile::Kind::kDeepSpeed>},
    Row{{"no-reading", 0, "", "do not look for these in the command and in the files that it names",
         false, kTransformerGroup},
        SetNoReading},
};

// The rows above, and those of the settings of a training.
const std::vector<Row>& AllRows() {
  static const std::vector<Row> kAll = [] {
    std::vector<Row> rows(kRows.begin(), kRows.end());
    for (const TrainingOption& option : TrainingOptions()) {
      if (option.shared) continue;
      rows.push_back({{option.name, 0, option.value, option.help, false, kTransformerGroup}, {}});
    }
    return rows;
  }();
  return kAll;
}

const Row* FindRow(std::string_view name) {
  const auto found = std::find_if(AllRows().begin(), AllRows().end(), [&](const Row& row) {
    return row.info.name == name ||
           (name.size() == 1 && row.info.letter != 0 && name.front() == row.info.letter);
  });
  return found == AllRows().end() ? nullptr : &*found;
}

// A setting replaces an earlier one of the same name.
void SetTraining(std::string_view name, std::string_view value, std::string_view from,
                 std::vector<TrainingWord>& training) {
  std::erase_if(training, [&](const TrainingWord& word) { return word.name == name; });
  training.push_back(
      {std::string(name), value.empty() ? "on" : std::string(value), std::string(from)});
}

// "~/x" -> home, relative -> below base; empty stays empty.
std::string Absolute(std::string_view path, const std::string& base, const std::string& home) {
  if (path.empty() || path.starts_with('/')) return std::string(path);
  if (path == "~") return home;
  if (path.starts_with("~/")) return home + std::string(path.substr(1));
  while (path.starts_with("./")) path.remove_prefix(2);
  return base + (base.ends_with('/') ? "" : "/") + std::string(path);
}

void ResolvePaths(const SubmitterContext& context, TaskSpec& spec) {
  spec.workdir =
      spec.workdir.empty() ? context.cwd : Absolute(spec.workdir, context.cwd, context.home);
  spec.stdout_path = Absolute(spec.stdout_path, spec.workdir, context.home);
  spec.stderr_path = Absolute(spec.stderr_path, spec.workdir, context.home);
  if (spec.stderr_path == spec.stdout_path) spec.stderr_path.clear();
  if (spec.model_summary) {
    spec.model_summary = Absolute(*spec.model_summary, context.cwd, context.home);
  }
  const bool env_is_path = spec.conda_env && (spec.conda_env->find('/') != std::string::npos ||
                                              spec.conda_env->starts_with('~'));
  if (env_is_path) spec.conda_env = Absolute(*spec.conda_env, context.cwd, context.home);
  if (spec.container) {
    ContainerImage container = ParseContainer(*spec.container).value_or(ContainerImage{});
    if (IsImageFile(container.image)) {
      container.image = Absolute(container.image, context.cwd, context.home);
      spec.container = ContainerText(container);
    }
  }
  for (std::string& mount : spec.container_mounts)
    mount = Absolute(mount, context.cwd, context.home);
  for (NotifyRule& rule : spec.notify) {
    const bool program = !ParseNotifyTarget(rule.target);  // a path that is not absolute yet
    if (program) rule.target = Absolute(rule.target, context.cwd, context.home);
  }
}

// --mail-type and --mail-user together are one more target of notifications.
void AddMail(const Draft& draft, TaskSpec& spec) {
  if (!draft.mail_types || draft.mail_types->events.empty()) return;
  spec.notify.push_back({.target = draft.mail_user.empty() ? "me" : draft.mail_user,
                         .events = draft.mail_types->events,
                         .each_task = draft.mail_types->each_task});
}

// Empty if there is no file, or its name cannot be shown.
std::optional<std::string> ShownScriptPath(const std::string& path,
                                           const SubmitterContext& context) {
  if (path.empty() || path == "-") return std::nullopt;
  std::string absolute = Absolute(path, context.cwd, context.home);
  if (absolute.size() > kMaxPathBytes || !base::IsUtf8(absolute)) return std::nullopt;
  return absolute;
}

Result<Unit> ChooseCommand(const Draft& draft, TaskSpec& spec) {
  const bool file_or_command = spec.script || !spec.command.empty();
  if (draft.wrap && file_or_command) {
    return Fail(ErrorCode::kInvalid, "--wrap is a command itself: give no other");
  }
  if (!draft.wrap && !file_or_command) {
    return Fail(ErrorCode::kInvalid, "nothing to run: give a script, -- COMMAND, or --wrap");
  }
  if (draft.wrap) {
    spec.script = "#!/bin/sh\n" + *draft.wrap + "\n";
    if (spec.name.empty()) spec.name = "wrap";
  } else if (spec.script && spec.name.empty()) {
    const std::string_view path = draft.script_path;
    spec.name = path == "-" ? "stdin" : base::Printable(path.substr(path.rfind('/') + 1), 200);
  }
  return Unit{};
}

void ChooseMemory(const Draft& draft, TaskSpec& spec) {
  spec.exclusive = draft.exclusive.value_or(false);
  if (spec.memory_mib || !draft.rad_memory || draft.rad_column == nullptr) return;
  const std::optional<std::int64_t>& mib = (*draft.rad_memory).*draft.rad_column->mib;
  if (!mib) return;
  if (*mib == kRadWholeGpu) {
    // No amount of memory is known: the task gets GPUs of its own, whatever their size, unless its
    // user allowed sharing. Then only the measured use of the GPU counts.
    spec.exclusive = draft.exclusive.value_or(true);
  } else {
    spec.memory_mib = mib;
    spec.memory_source = "rad";
  }
}

// Returns the names of variables that had to be left out.
std::vector<std::string> FillEnvironment(const ExportPlan& plan, const SubmitterContext& context,
                                         TaskSpec& spec) {
  std::vector<std::string> left_out;
  if (plan.all) {
    for (const auto& [name, value] : context.environment) {
      if (base::IsUtf8(name) && base::IsUtf8(value)) {
        spec.environment.emplace(name, value);
      } else {
        left_out.push_back(base::Printable(name, 60));
      }
    }
  }
  for (const auto& [name, value] : plan.variables) {
    const auto own = context.environment.find(name);
    if (value) {
      spec.environment[name] = *value;
    } else if (own != context.environment.end()) {
      spec.environment[name] = own->second;
    }
  }
  return left_out;
}

// The task must not inherit the variables of a Slurm job from which it may have been submitted.
void FillSlurm(const SlurmWords& words, const SubmitterContext& context, TaskSpec& spec) {
  spec.slurm = true;
  std::erase_if(spec.environment, [](const auto& each) { return IsSlurmVariable(each.first); });
  spec.environment.merge(VariablesOf(words, spec.gpus));
  spec.environment["SLURM_SUBMIT_DIR"] = context.cwd;
}

Result<std::vector<TaskSpec>> Expand(TaskSpec spec, const std::optional<std::string>& array) {
  if (!array) return std::vector<TaskSpec>{std::move(spec)};
  const Result<ArrayPlan> plan = ParseArray(*array);
  if (!plan) return std::unexpected(plan.error());
  std::vector<TaskSpec> tasks;
  tasks.reserve(plan->indices.size());
  spec.array_limit = static_cast<int>(plan->limit.value_or(0));
  if (spec.slurm) spec.environment.merge(VariablesOfArray(plan->indices));
  for (const std::int64_t index : plan->indices) {
    spec.array_index = index;
    tasks.push_back(spec);
  }
  return tasks;
}

}  // namespace

std::span<const OptionInfo> SubmitOptions() {
  static const std::vector<OptionInfo> kInfos = [] {
    std::vector<OptionInfo> infos;
    for (const Row& row : AllRows()) infos.push_back(row.info);
    return infos;
  }();
  return kInfos;
}

const OptionInfo* FindOption(std::string_view name_or_letter) {
  const Row* row = FindRow(name_or_letter);
  return row == nullptr ? nullptr
                        : &SubmitOptions()[static_cast<std::size_t>(row - AllRows().data())];
}

Result<Unit> Description::Set(std::string_view option, std::string_view value,
                              std::string_view file) {
  const Row* row = FindRow(option);
  std::string place = fmt::format("{}{}", option.size() == 1 ? "-" : "--", option);  // as typed
  if (!file.empty() && row == nullptr) place = file;
  if (!file.empty() && row != nullptr) place = fmt::format("{}: --{}", file, row->info.name);
  if (row == nullptr) {
    return Fail(ErrorCode::kInvalid, place + ": unknown option '" + base::Printable(option, 60) +
                                         "' (see carma submit --help)");
  }
  const bool is_switch = row->info.value.empty();
  if (is_switch && !value.empty()) return Fail(ErrorCode::kInvalid, place + ": takes no value");
  if (!is_switch && value.empty() && row->info.name != "comment") {
    return Fail(ErrorCode::kInvalid,
                place + ": expected a value (" + std::string(row->info.value) + ")");
  }
  draft_.remarks.clear();
  if (row->set == nullptr) {
    SetTraining(row->info.name, value, file, draft_.spec.training);
    return Unit{};
  }
  Result<Unit> set = row->set(draft_, value);
  if (!set) return base::Wrap(set.error(), place);
  place += ": ";
  for (const std::string& remark : draft_.remarks) Warn(std::string(place).append(remark));
  return set;
}

void Description::SetCommand(std::vector<std::string> argv) {
  draft_.spec.script.reset();
  draft_.spec.script_args.clear();
  draft_.spec.command = std::move(argv);
}

void Description::SetScript(std::string text, std::string path, std::vector<std::string> args) {
  draft_.spec.command.clear();
  draft_.spec.script = std::move(text);
  draft_.spec.script_args = std::move(args);
  draft_.script_path = std::move(path);
}

void Description::AddSlurm(const SlurmWords& words) {
  if (!draft_.slurm) draft_.slurm.emplace();
  for (const auto& [option, value] : words) (*draft_.slurm)[option] = value;
}

void Description::SetAttach(std::string name, bool terminal) {
  draft_.spec.attach = std::move(name);
  draft_.spec.terminal = terminal;
}

void Description::SetRadMemory(RadMemory memory) {
  draft_.rad_memory = memory;
}

void Description::Warn(std::string text) {
  warnings_.push_back(std::move(text));
}

Result<std::vector<TaskSpec>> Description::Finish(const SubmitterContext& context) {
  TaskSpec spec = draft_.spec;
  if (Result<Unit> chosen = ChooseCommand(draft_, spec); !chosen)
    return std::unexpected(chosen.error());
  const bool sweeps = !draft_.parameters.empty() || !draft_.sweep_file.empty();
  if (sweeps && draft_.array)
    return Fail(ErrorCode::kInvalid, "--param and --param-file make an array: give no --array");
  if (!draft_.gpus_counted && !spec.on_gpus.empty())
    spec.gpus = static_cast<int>(spec.on_gpus.size());
  ChooseMemory(draft_, spec);
  AddMail(draft_, spec);
  if (spec.signal && !spec.time_limit)
    Warn("--signal: without --time there is no time limit that it could come before");
  if (spec.script && !draft_.wrap) spec.script_path = ShownScriptPath(draft_.script_path, context);
  ResolvePaths(context, spec);
  for (PlanFile& file : draft_.plan_files)
    file.path = Absolute(file.path, context.cwd, context.home);
  spec.umask = context.umask;
  for (const std::string& name : FillEnvironment(draft_.exported, context, spec))
    Warn("environment variable " + name + " is not UTF-8 and is left out");
  if (draft_.begin) {
    const Result<base::Time> begin = ParseBegin(*draft_.begin, context.now);
    if (!begin) return base::Wrap(begin.error(), "--begin");
    spec.begin = *begin;
  }
  if (draft_.slurm) {
    FillSlurm(*draft_.slurm, context, spec);
    for (std::string& unread : FillHost(*draft_.slurm, spec)) Warn(std::move(unread));
    if (!draft_.gpus_counted && spec.on_gpus.empty() && !spec.gpu_type)
      Warn("no #SBATCH line asks for a GPU: the task gets 1 (-G 0: none)");
    if (spec.stdout_path.empty() && !spec.attach)
      Warn("no #SBATCH line names the output: it is carma-%j-%B.out, not slurm-%j.out");
  }
  FillDefaults(spec);
  if (Result<Unit> valid = Validate(spec); !valid) return std::unexpected(valid.error());
  for (const std::string& path : {spec.stdout_path, spec.stderr_path}) {
    if ((draft_.array || sweeps) && !path.empty() && IsOnePathForAll(path))
      Warn("all tasks of the array write into " + base::Printable(path) + ": %a makes it one each");
  }
  return Expand(std::move(spec), draft_.array);
}

}  // namespace carma::task
