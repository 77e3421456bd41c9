#include "task/describe/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <type_traits>

#include "base/text.h"
#include "base/try.h"
#include "task/describe/description.h"
#include "task/describe/sweep.h"

namespace carma::task {
namespace {

// Stores one value, or leaves the draft unchanged on error. The error message says what was
// expected but does not name the option.
using Setter = Result<Unit> (*)(Draft&, std::string_view value);

// A member of the draft or of its TaskSpec.
template <auto kMember>
auto& Member(Draft& draft) {
  if constexpr (requires { draft.*kMember; }) {
    return draft.*kMember;
  } else {
    return draft.spec.*kMember;
  }
}

template <auto kMember, std::int64_t kLow, std::int64_t kHigh>
Result<Unit> SetNumber(Draft& draft, std::string_view value) {
  const std::optional<std::int64_t> number = base::ParseInt(value);
  if (!number || *number < kLow || *number > kHigh) {
    return Expected("a number from " + std::to_string(kLow) + " to " + std::to_string(kHigh),
                    value);
  }
  auto& member = Member<kMember>(draft);
  member = static_cast<std::remove_reference_t<decltype(member)>>(*number);
  return Unit{};
}

// Stores any text; Validate() checks it later.
template <auto kMember>
Result<Unit> SetText(Draft& draft, std::string_view value) {
  Member<kMember>(draft) = std::string(value);
  return Unit{};
}

template <auto kMember, bool kTo = true>
Result<Unit> SetFlag(Draft& draft, std::string_view) {
  Member<kMember>(draft) = kTo;
  return Unit{};
}

template <auto kMember, auto kParse>
Result<Unit> SetParsed(Draft& draft, std::string_view value) {
  auto parsed = CARMA_TRY(kParse(value));
  Member<kMember>(draft) = std::move(parsed);
  return Unit{};
}

// Stores the text if kParse accepts it.
template <auto kMember, auto kParse>
Result<Unit> SetReadable(Draft& draft, std::string_view value) {
  CARMA_TRY(kParse(value));
  return SetText<kMember>(draft, value);
}

template <auto kParse>
Result<Unit> SetGpuCount(Draft& draft, std::string_view value) {
  GpuCount count = CARMA_TRY(kParse(value));
  draft.remarks = std::move(count.remarks);
  if (!count.counted) return Unit{};
  draft.spec.gpus = count.gpus;
  draft.gpus_counted = true;
  // A later "2" completely replaces an earlier "a100:1", including its type.
  if (count.type || draft.type_with_count) draft.spec.gpu_type = count.type;
  draft.type_with_count = count.type.has_value();
  return Unit{};
}

Result<Unit> SetGpuType(Draft& draft, std::string_view value) {
  draft.spec.gpu_type = CARMA_TRY(ParseGpuType(value));
  draft.type_with_count = false;
  return Unit{};
}
Result<Unit> SetConstraint(Draft& draft, std::string_view value) {
  const Constraint constraint = ParseConstraint(value);
  for (const std::string& each : constraint.others)
    draft.remarks.push_back("'" + base::Printable(each, 40) + "' is ignored");
  return constraint.gpu_type ? SetGpuType(draft, *constraint.gpu_type) : Unit{};
}
Result<Unit> SetSize(std::optional<std::int64_t>& target, std::int64_t most_mib,
                     std::string_view expected, std::string_view value) {
  const Result<std::int64_t> mib = base::ParseMemoryMib(value);
  if (!mib || *mib < 1 || *mib > most_mib) return Expected(expected, value);
  target = *mib;
  return Unit{};
}
Result<Unit> SetGpuMemoryMin(Draft& draft, std::string_view value) {
  return SetSize(draft.spec.gpu_memory_min_mib, core::kMaxMemoryMib,
                 "a memory size such as 24G or 40G", value);
}
template <auto kMember>
Result<Unit> SetGpuNames(Draft& draft, std::string_view value) {
  if (base::ToLower(value) == "any" || base::ToLower(value) == "none") {
    (draft.spec.*kMember).clear();
    return Unit{};
  }
  std::vector<std::string> names = CARMA_TRY(ParseGpuNames(value));
  draft.spec.*kMember = std::move(names);
  return Unit{};
}
constexpr std::int64_t kLeastPlausible = 128;  // MiB; a CUDA context alone takes more
void DoubtSize(Draft& draft, std::string_view value) {
  const std::optional<std::int64_t> bare = base::ParseInt(value);
  if (bare && *bare > 0 && *bare < kLeastPlausible)
    draft.remarks.push_back(
        fmt::format("{0} without a unit means {0} MiB; did you mean {0}G?", *bare));
}
Result<Unit> SetMemory(Draft& draft, std::string_view value) {
  Result<Unit> set = SetSize(draft.spec.memory_mib, core::kMaxMemoryMib,
                             "a memory size per GPU such as 800M or 12G", value);
  if (!set) return set;
  draft.spec.memory_source = "given";
  DoubtSize(draft, value);
  return set;
}

Result<Unit> SetHostMemory(Draft& draft, std::string_view value) {
  DoubtSize(draft, value);
  return SetSize(draft.spec.host_memory_mib, core::kMaxHostMemoryMib,
                 "a memory size such as 800M or 64G", value);
}
Result<Unit> SetMaxSlowdown(Draft& draft, std::string_view value) {
  const std::optional<double> most = base::ParseDouble(value);
  if (!most || !(*most >= 1 && *most <= core::kMostSlowdown))
    return Expected("a number from 1 to 1000 such as 1.5", value);
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
        "a time span such as 90s, 15m, 12h, 2d, 1:30:00 or 2-12 (a number without a unit is in "
        "minutes)",
        value);
  }
  draft.spec.time_limit = *span;
  return Unit{};
}

// Adds a mount. Finish() makes a relative folder absolute.
Result<Unit> AddContainerMount(Draft& draft, std::string_view value) {
  draft.spec.container_mounts.emplace_back(value);
  return Unit{};
}

// Adds a sweep parameter. Combinations() rejects repeated names.
Result<Unit> SetParameter(Draft& draft, std::string_view value) {
  draft.parameters.push_back(CARMA_TRY(ParseParameter(value)));
  return Unit{};
}
// The current time is known only in Finish(). To check the format, any time will do.
Result<base::Time> BeginAtAnyTime(std::string_view value) {
  return ParseBegin(value, base::FromMs(0));
}

Result<Unit> SetRadEstimate(Draft& draft, std::string_view value) {
  const auto* column = std::ranges::find(kRadColumns, value, &RadColumn::name);
  if (column == kRadColumns.end() && value != "none")
    return Expected("oracle, horus, faketensor, gpumemnet or none", value);
  draft.rad_column = column == kRadColumns.end() ? nullptr : column;
  return Unit{};
}

// Adds a notification target; a task may have several. "none" removes all targets set so far, for
// example those from the script.
Result<Unit> SetNotify(Draft& draft, std::string_view value) {
  if (base::ToLower(value) == "none") {
    draft.spec.notify.clear();
    return Unit{};
  }
  NotifyRule rule = CARMA_TRY(ParseNotifyRule(value));
  if (draft.spec.notify.size() == kMaxNotifyRules)
    return Invalid("more than {} targets", kMaxNotifyRules);
  draft.spec.notify.push_back(std::move(rule));
  return Unit{};
}

Result<Unit> SetMailType(Draft& draft, std::string_view value) {
  MailTypes types = CARMA_TRY(ParseMailTypes(value));
  for (const std::string& word : types.passed_over)
    draft.remarks.push_back("'" + word + "' is ignored");
  draft.mail_types = std::move(types);
  return Unit{};
}

Result<Unit> SetMailUser(Draft& draft, std::string_view value) {
  const std::string target = "mail:" + std::string(value);
  if (const Result<NotifyTarget> parsed = ParseNotifyTarget(target);
      !parsed || parsed->kind != NotifyKind::kMail)
    return Expected("an email address or a user name", value);
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

// Parses [B:]SIGNAL[@SECONDS], as in Slurm. Without SECONDS, the signal is sent one minute before
// the time limit.
Result<Unit> SetSignal(Draft& draft, std::string_view value) {
  constexpr std::string_view kForm = "[B:]SIGNAL[@SECONDS] such as USR1@120";
  constexpr std::int64_t kUsualS = 60;
  std::string_view rest = value;
  const std::string_view to = rest.substr(0, rest.find(':'));
  if (to.size() != rest.size()) {
    if (to.find_first_not_of("BR") != std::string_view::npos) return Expected(kForm, value);
    if (to.contains('R')) draft.remarks.emplace_back("'R' is ignored");
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
  draft.spec.signal_main = to.size() != value.size() && to.contains('B');
  draft.spec.signal_before = std::chrono::seconds(*seconds);
  // As on clusters, a program that handles this signal is expected to save its state on receiving
  // it.
  if (!draft.spec.checkpoint_signal && base::IsHandledSignal(*draft.spec.signal))
    draft.spec.checkpoint_signal = draft.spec.signal;
  return Unit{};
}

Result<Unit> SetCheckpointSignal(Draft& draft, std::string_view value) {
  const std::optional<int> number = base::SignalNumber(value);
  const char* name = number ? ::sigabbrev_np(*number) : "";
  if (!base::IsHandledSignal(name))
    return Expected("a signal that a program can handle, such as USR1", value);
  draft.spec.checkpoint_signal = name;
  return Unit{};
}
template <PlanFile::Kind kKind>
Result<Unit> AddPlanFile(Draft& draft, std::string_view value) {
  draft.plan_files.push_back({kKind, std::string(value)});
  return Unit{};
}
struct Row {
  OptionInfo info;
  Setter set;  // null: a training setting, stored under its name
};

constexpr std::string_view kTransformerGroup = "Memory of a transformer";

constexpr std::array kRows{
    Row{{"job-name", 'J', "NAME", "name shown in lists", true}, SetText<&TaskSpec::name>},
    Row{{"name", 0, "NAME", "the same as --job-name", false}, SetText<&TaskSpec::name>},
    Row{{"gpus", 'G', "[TYPE:]N",
         "number of GPUs, optionally of one type: 2, a100:2 (default 1; 0 for none)", true},
        SetGpuCount<ParseGpus>},
    Row{{"gres", 0, "gpu:[TYPE:]N", "Slurm's form of --gpus", true}, SetGpuCount<ParseGres>},
    Row{{"gpus-per-node", 0, "[TYPE:]N", "Slurm's form of --gpus", true}, SetGpuCount<ParseGpus>},
    Row{{"gpu-type", 0, "NAME", "only GPUs of this model: a100, a100-40, rtx4090; or any", false},
        SetGpuType},
    Row{{"constraint", 'C', "NAME", "Slurm's form of --gpu-type, if it names a model", true},
        SetConstraint},
    Row{{"gpu-memory-min", 0, "SIZE", "only GPUs with at least this much memory in total: 40G",
         false},
        SetGpuMemoryMin},
    Row{{"gpu", 0, "LIST",
         "only these GPUs, by index or UUID: '2' or '2,3' (all of them unless -G is given)", false},
        SetGpuNames<&TaskSpec::on_gpus>},
    Row{{"not-on", 0, "LIST", "exclude these GPUs, by index or UUID", false},
        SetGpuNames<&TaskSpec::not_on_gpus>},
    Row{{"linked", 0, "", "only GPUs connected to each other by NVLink", false},
        SetFlag<&TaskSpec::linked_gpus>},
    Row{{"memory", 0, "SIZE", "peak memory on each GPU: 800M, 12G, or a number in MiB", false},
        SetMemory},
    Row{{"gpu-mem", 0, "SIZE", "the same as --memory", false}, SetMemory},
    Row{{"cpus", 'c', "N", "CPU cores reserved for the task (total for all its processes)", false},
        SetNumber<&TaskSpec::cpus, 1, core::kMaxCpus>},
    Row{{"cpus-per-task", 0, "N", "Slurm's form of --cpus", false},
        SetNumber<&TaskSpec::cpus, 1, core::kMaxCpus>},
    Row{{"mem", 0, "SIZE", "host memory reserved for the task, also its memory limit: 800M, 64G",
         false},
        SetHostMemory},
    Row{{"own-cpus", 0, "", "reserve dedicated cores for the task", false},
        SetFlag<&TaskSpec::own_cpus>},
    Row{{"exclusive", 0, "", "do not share the task's GPUs with other tasks", true},
        SetFlag<&Draft::exclusive>},
    Row{{"collocated", 0, "", "share GPUs with other tasks if worthwhile (default)", false},
        SetFlag<&Draft::exclusive, false>},
    Row{{"sm-share", 0, "P",
         "limit the task to this share of each GPU's SMs (under MPS): 30% or 0.3", false},
        SetParsed<&TaskSpec::sm_share, ParseShare>},
    Row{{"max-slowdown", 0, "X",
         "maximum predicted slowdown due to other tasks, relative to running alone", false},
        SetMaxSlowdown},
    Row{{"serve", 0, "",
         "latency-sensitive task: its kernels go first under MPS; --max-slowdown defaults to 1.25",
         false},
        SetFlag<&TaskSpec::serve>},
    Row{{"time", 't', "SPAN", "time limit: 90s, 15m, 12h, 2d, MIN, H:M:S, D-H", true}, SetTime},
    Row{{"output", 'o', "FILE",
         "file for stdout; %j id, %x name, %u user, %A array, %a index, %N host", true},
        SetText<&TaskSpec::stdout_path>},
    Row{{"error", 'e', "FILE", "file for stderr (default: the same file as stdout)", true},
        SetText<&TaskSpec::stderr_path>},
    Row{{"chdir", 'D', "DIR", "working directory (default: the current one)", true},
        SetText<&TaskSpec::workdir>},
    Row{{"export", 0, "LIST",
         "environment variables to pass on: ALL (default), NONE, or NAME[=value],…", true},
        SetParsed<&Draft::exported, ParseExport>},
    Row{{"conda-env", 0, "ENV", "conda environment, by name or path", false},
        SetText<&TaskSpec::conda_env>},
    Row{{"container", 0, "IMAGE",
         "run in a container: IMAGE (with podman, docker or apptainer) or TOOL:IMAGE", false},
        SetReadable<&TaskSpec::container, ParseContainer>},
    Row{{"container-mount", 0, "DIR",
         "mount DIR[:DESTINATION][:ro] in addition to home and working directory; repeatable",
         false},
        AddContainerMount},
    Row{{"dependency", 'd', "LIST",
         "tasks to wait for: afterok:ID[:ID…], afterany:ID, afternotok:ID; or none", true},
        SetParsed<&TaskSpec::dependencies, ParseDependencies>},
    Row{{"array", 'a', "LIST",
         "one task per index: '0-15', '1,3,7-9', '0-15:4'; %N: at most N at once", true},
        SetReadable<&Draft::array, ParseArray>},
    Row{{"param", 0, "NAME=LIST",
         "run a sweep: one task per value of {NAME} in the command, -J, -o or -e; repeatable",
         false},
        SetParameter},
    Row{{"param-file", 0, "FILE", "run a sweep: one task per row of a CSV table with a header line",
         false},
        SetText<&Draft::sweep_file>},
    Row{{"begin", 'b', "TIME", "earliest start: 14:05, 2026-03-01T14:05, now+1hour, +30m", true},
        SetReadable<&Draft::begin, BeginAtAnyTime>},
    Row{{"hold", 'H', "", "submit the task on hold", true}, SetFlag<&TaskSpec::held>},
    Row{{"priority", 0, "N", "tasks with a higher priority start first (default 0)", true},
        SetNumber<&TaskSpec::priority, -core::kMaxPriority, core::kMaxPriority>},
    Row{{"qos", 0, "CLASS", "task class: interactive, normal (default), background", false},
        SetText<&TaskSpec::qos>},
    Row{{"account", 0, "NAME", "account charged for the task's GPU use", false},
        SetText<&TaskSpec::account>},
    Row{{"requeue", 0, "", "restart the task if its machine or GPU is lost (default)", true},
        SetFlag<&TaskSpec::requeue>},
    Row{{"no-requeue", 0, "", "let the task fail if its machine or GPU is lost", true},
        SetFlag<&TaskSpec::requeue, false>},
    Row{{"retries", 0, "N", "maximum restarts after running out of GPU memory (default 3)", false},
        SetNumber<&TaskSpec::max_recoveries, 0, core::kMaxRecoveries>},
    Row{{"model-summary", 0, "FILE", "summary of the model's layers, for the memory estimate",
         false},
        SetText<&TaskSpec::model_summary>},
    Row{{"batch-size", 0, "N", "batch size, for the memory estimate", false},
        SetNumber<&TaskSpec::batch_size, 1, kMaxBatchSize>},
    Row{{"optimizer", 0, "NAME",
         "optimizer, for the memory estimate: sgd, sgd-momentum, adam, adamw …", false},
        SetText<&TaskSpec::optimizer>},
    Row{{"precision", 0, "NAME", "precision, for the memory estimate: fp32, amp, bf16 …", false},
        SetText<&TaskSpec::precision>},
    Row{{"rad-estimate", 0, "NAME",
         "memory column of a .rad file: oracle (default), horus, faketensor …, none", false},
        SetRadEstimate},
    Row{{"notify", 0, "TARGET[:EVENTS]",
         "TARGET: me, an email address, webhook URL or program; EVENTS: start, end (default), "
         "fail, oom, requeue; repeatable",
         false},
        SetNotify},
    Row{{"mail-type", 0, "LIST",
         "events to mail about, as in Slurm: BEGIN, END, FAIL, REQUEUE, ALL, NONE", true},
        SetMailType},
    Row{{"mail-user", 0, "ADDRESS", "address for --mail-type (default: me)", true}, SetMailUser},
    Row{{"open-mode", 0, "MODE",
         "what to do with existing output files: truncate (default) or append", true},
        SetOpenMode},
    Row{{"progress", 0, "WORD", "read the task's progress from its output: auto (default) or none",
         true},
        SetProgress},
    Row{{"signal", 0, "[B:]SIGNAL[@S]",
         "send SIGNAL S seconds (default 60) before the time limit; B: only to the script's shell",
         true},
        SetSignal},
    Row{{"checkpoint-signal", 0, "SIGNAL",
         "signal that asks the task to checkpoint before it is preempted: USR1 …", false},
        SetCheckpointSignal},
    Row{{"no-slots", 0, "", "do not stop the task after a time slice, if the server allows it",
         false},
        SetFlag<&TaskSpec::no_slots>},
    Row{{"comment", 0, "TEXT", "a note shown with the task", true}, SetText<&TaskSpec::comment>},
    Row{{"wrap", 0, "COMMAND", "run this line with /bin/sh", false}, SetText<&Draft::wrap>},
    Row{{"hf-config", 0, "FILE", "config.json of a Hugging Face transformer", false,
         kTransformerGroup},
        SetText<&TaskSpec::model_summary>},
    Row{{"adapter-config", 0, "FILE", "PEFT's adapter_config.json; implies lora", false,
         kTransformerGroup},
        AddPlanFile<PlanFile::Kind::kAdapter>},
    Row{{"deepspeed", 0, "FILE", "DeepSpeed configuration in JSON", false, kTransformerGroup},
        AddPlanFile<PlanFile::Kind::kDeepSpeed>},
    Row{{"no-reading", 0, "", "do not look for these options in the command and its files", false,
         kTransformerGroup},
        SetFlag<&Draft::reads_training, false>},
};

// The options in kRows, followed by the training options.
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
  const auto found = std::ranges::find_if(SubmitOptions(), [&](const OptionInfo& info) {
    return info.name == name_or_letter || (name_or_letter.size() == 1 && info.letter != 0 &&
                                           name_or_letter.front() == info.letter);
  });
  return found == SubmitOptions().end() ? nullptr : &*found;
}

Result<Unit> StoreOption(const OptionInfo& option, std::string_view value, std::string_view file,
                         Draft& draft) {
  const auto row = static_cast<std::size_t>(&option - SubmitOptions().data());
  if (const Setter set = AllRows()[row].set) return set(draft, value);
  // A training setting replaces an earlier setting of the same name.
  std::vector<TrainingWord>& training = draft.spec.training;
  std::erase_if(training, [&](const TrainingWord& word) { return word.name == option.name; });
  training.push_back(
      {std::string(option.name), value.empty() ? "on" : std::string(value), std::string(file)});
  return Unit{};
}

}  // namespace carma::task
