#include "cli/client/task_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <set>
#include <tuple>

#include "base/suggest.h"
#include "base/text.h"
#include "base/words.h"
#include "cli/client/task_words.h"
#include "cli/ids.h"
#include "cli/table.h"
#include "core/policy/policy.h"
#include "core/values/reason.h"
#include "core/values/task_state.h"

namespace carma::cli {
namespace {

using api::TaskView;

std::string OptionalMib(const std::optional<std::int64_t>& mib) {
  return mib ? base::FormatMib(*mib) : "-";
}

// Returns a marker for the running task's problem, or an empty string if there is none.
std::string Mark(const TaskView& task) {
  if (IsIdle(task)) return std::string(core::ReasonName(core::ReasonCode::kIdleHolder));
  if (HoldsGpus(task) && !task.wrong_gpus.empty()) return "WrongDevice";
  if (HoldsGpus(task) && task.over_promise_mib) return "OverPromise";
  return HoldsGpus(task) && task.progress && task.progress->stalled ? "Stalled" : "";
}

std::string WhereText(const TaskView& task) {
  const std::string reason = "(" + base::Printable(task.reason, 40) + ")";
  const bool succeeded = StateOf(task) == core::TaskState::kSucceeded;
  if (HoldsGpus(task) || succeeded || task.reason.empty()) {
    const std::string gpus = GpuIndices(task);
    if (gpus.empty()) return "-";
    const std::string mark = Mark(task);
    return mark.empty() ? gpus : fmt::format("{} ({})", gpus, mark);
  }
  return reason;
}

std::string StartText(const TaskView& task, std::int64_t now_ms) {
  const std::string text = StartBrief(task.latest_start_ms, task.likely_start_ms, now_ms);
  return text.empty() ? "-" : text;
}

std::string ProgressText(const TaskView& task, std::int64_t now_ms) {
  return ProgressBrief(task.progress, now_ms);
}

std::string ExitText(const TaskView& task) {
  if (task.signal && *task.signal != 0) return "signal " + std::to_string(*task.signal);
  return task.exit_code ? std::to_string(*task.exit_code) : "-";
}

// A task that holds GPUs is coloured only if it has a problem.
Colour WhereColour(const TaskView& task) {
  if (!HoldsGpus(task)) return StateColour(task);
  return Mark(task).empty() ? Colour::kNone : Colour::kBad;
}

struct ListColumn {
  const char* key;
  Column column;
  const char* meaning;
  std::string (*text)(const TaskView&, std::int64_t now_ms);
  Colour (*colour)(const TaskView&) = nullptr;  // null for no colour
};

// The text of a column that shows one member of TaskView unchanged.
template <auto kMember>
std::string Number(const TaskView& task, std::int64_t) {
  return fmt::format("{}", task.*kMember);
}
template <auto kMember>
std::string OptionalNumber(const TaskView& task, std::int64_t) {
  return task.*kMember ? std::to_string(*(task.*kMember)) : "-";
}
template <auto kMember>
std::string Word(const TaskView& task, std::int64_t) {
  return Line(task.*kMember);
}
std::string ReasonText(const TaskView& task, std::int64_t) {
  return Line(base::LocalTimes(task.reason_text));
}
template <auto kMember>
std::string Mib(const TaskView& task, std::int64_t) {
  return OptionalMib(task.*kMember);
}
template <auto kMember>
std::string When(const TaskView& task, std::int64_t) {
  return TimePoint(task.*kMember);
}
template <std::string (*kText)(const TaskView&)>
std::string Timeless(const TaskView& task, std::int64_t) {
  return kText(task);
}

const std::vector<ListColumn>& ListColumns() {
  using T = TaskView;
  constexpr bool kRight = true;
  static const std::vector<ListColumn> columns = {
      {"id", {"ID", kRight}, "number", &Number<&T::id>},
      {"name", {"NAME", false, 8}, "name, with the index of an array task", &Timeless<&TaskName>},
      {"params", {"PARAMS", false, 8}, "sweep parameter values", &Timeless<&ParametersText>},
      {"array",
       {"ARRAY", kRight},
       "number of the array's first task",
       &OptionalNumber<&T::array_id>},
      {"index", {"INDEX", kRight}, "index in the array", &OptionalNumber<&T::array_index>},
      {"user", {"USER", false, 6}, "submitter", &Word<&T::user>},
      {"account", {"ACCOUNT", false, 6}, "account charged", &Word<&T::account>},
      {"class", {"CLASS"}, "class (--qos)", &Word<&T::qos>},
      {"st", {"ST"}, "state, abbreviated", &Timeless<&StateCode>, &StateColour},
      {"time", {"TIME", kRight}, "run time of the current or last attempt", &TimeText},
      {"gpus", {"GPUS", kRight}, "GPUs requested", &Number<&T::gpus>},
      {"cpus", {"CPUS", kRight}, "reserved CPU cores", &OptionalNumber<&T::cpus>},
      {"hostmem", {"HOSTMEM", kRight}, "reserved host memory", &Mib<&T::host_memory_mib>},
      {"mem",
       {"MEM", kRight},
       "memory per GPU: used/promised if running, ~predicted if waiting, peak if ended",
       &Timeless<&TaskMemory>},
      {"progress", {"PROGRESS"}, "fraction of the run completed, and time left", &ProgressText},
      {"where",
       {"GPU(REASON)", false, 11},
       "the task's GPUs, or why it is waiting or how it ended",
       &Timeless<&WhereText>,
       &WhereColour},
      {"state", {"STATE"}, "state", &Word<&T::state>, &StateColour},
      {"queue", {"QUEUE"}, "main or recovery", &Word<&T::queue>},
      {"priority", {"PRIO", kRight}, "priority", &Number<&T::priority>},
      {"attempt", {"TRY", kRight}, "number of starts", &Number<&T::attempt>},
      {"ooms", {"OOMS", kRight}, "times the task ran out of GPU memory", &Number<&T::ooms>},
      {"predicted", {"PREDICTED", kRight}, "predicted peak per GPU", &Mib<&T::predicted_mib>},
      {"promised", {"PROMISED", kRight}, "memory promised per GPU", &Mib<&T::claim_mib>},
      {"used", {"USED", kRight}, "memory in use on the fullest GPU", &Mib<&T::observed_mib>},
      {"peak", {"PEAK", kRight}, "measured peak", &Mib<&T::peak_mib>},
      {"waits", {"WAITS", kRight}, "how long the task has waited", &WaitText},
      {"start", {"START"}, "when a waiting task will start, if known", &StartText},
      {"submitted", {"SUBMITTED"}, "submission time", &When<&T::submitted_ms>},
      {"started", {"STARTED"}, "first start time", &When<&T::first_start_ms>},
      {"ended", {"ENDED"}, "end time", &When<&T::ended_ms>},
      {"exit", {"EXIT", kRight}, "exit code or signal of the last attempt", &Timeless<&ExitText>},
      {"reason",
       {"REASON", false, 10},
       "why the task is waiting or how it ended, in a sentence",
       &ReasonText,
       &WhereColour},
      {"command", {"COMMAND", false, 10}, "the task's command", &Timeless<&CommandText>},
      {"workdir", {"WORKDIR", false, 10}, "working directory", &Word<&T::workdir>},
      {"comment", {"COMMENT", false, 8}, "submitter's note", &Word<&T::comment>},
  };
  return columns;
}

constexpr const char* kUsualColumns = "id,name,params,user,st,time,gpus,mem,progress,where";

const ListColumn* FindColumn(std::string_view key) {
  const auto found = std::ranges::find(ListColumns(), key, &ListColumn::key);
  return found == ListColumns().end() ? nullptr : &*found;
}

using Alike = std::tuple<std::uint64_t, std::string, std::string, std::string, std::string>;

std::optional<Alike> KeyOf(const TaskView& task) {
  if (!task.array_id || HoldsGpus(task)) return std::nullopt;
  return Alike{*task.array_id, task.state, task.reason, task.name, ExitText(task)};
}

// Run time of the last attempt in seconds; empty until the attempt has ended.
std::optional<std::int64_t> RunTime(const TaskView& task) {
  if (!task.launched_ms || !task.ended_ms) return std::nullopt;
  return (*task.RanUntilMs() - *task.launched_ms) / 1000;
}

// Merges another task into the row, which then lists the GPUs of both and shows the larger memory
// values. Keeps the end time and the reason only if they are the same for both.
void Merge(const TaskView& task, TaskView& row) {
  for (const std::int64_t gpu : task.gpu_indices) {
    if (std::ranges::find(row.gpu_indices, gpu) == row.gpu_indices.end())
      row.gpu_indices.push_back(gpu);
  }
  std::ranges::sort(row.gpu_indices);
  row.predicted_mib = std::max(row.predicted_mib, task.predicted_mib);
  row.peak_mib = std::max(row.peak_mib, task.peak_mib);
  if (RunTime(task) != RunTime(row)) row.ended_ms.reset();
  if (HasEnded(task) && task.reason_text != row.reason_text) row.reason_text.clear();
}

std::uint64_t LastDependency(const TaskView& task) {
  std::uint64_t last = 0;
  for (const std::string& dependency : task.dependencies) last = std::max(last, TaskOf(dependency));
  return last;
}

}  // namespace

Result<std::vector<std::string>> ParseColumns(const std::string& keys) {
  std::vector<std::string> columns;
  const std::string wanted_keys = keys.empty() ? kUsualColumns : keys;
  for (std::string_view key : base::Split(wanted_keys, ',')) {
    const std::string wanted = base::ToLower(base::Trim(key));
    if (!FindColumn(wanted)) {
      return Invalid("no column '{}'{} (expected one or more of {})", base::Printable(key, 40),
                     base::Suggestion(wanted, ColumnKeys()), base::Join(ColumnKeys(), ","));
    }
    columns.push_back(wanted);
  }
  return columns;
}

std::vector<std::string> ColumnKeys() {
  std::vector<std::string> keys;
  for (const ListColumn& column : ListColumns()) keys.emplace_back(column.key);
  return keys;
}

std::string ColumnHelp() {
  std::string help;
  for (const ListColumn& column : ListColumns()) {
    help += "  " + std::string(column.key);
    help.append(12 - std::strlen(column.key), ' ');
    help += std::string(column.meaning) + "\n";
  }
  return help;
}

std::string TaskTable(const std::vector<TaskView>& tasks, const ListStyle& style,
                      const Screen& screen) {
  std::vector<const ListColumn*> chosen;
  std::vector<Column> columns;
  const bool usual = style.columns == ParseColumns("");
  const bool any_progress =
      std::ranges::any_of(tasks, [](const TaskView& task) { return task.progress.has_value(); });
  const bool any_parameters =
      std::ranges::any_of(tasks, [](const TaskView& task) { return !task.parameters.empty(); });
  for (const std::string& key : style.columns) {
    // Unless requested, these columns appear only if there is something to show.
    if (usual && key == "progress" && !any_progress) continue;
    if (usual && key == "params" && !any_parameters) continue;
    chosen.push_back(FindColumn(key));
    columns.push_back(chosen.back()->column);
  }
  Table table(std::move(columns));
  for (const TaskView& task : tasks) {
    std::vector<Cell> row;
    for (const ListColumn* column : chosen) {
      const auto folded = style.ids.find(task.id);
      const bool is_id = folded != style.ids.end() && std::string_view(column->key) == "id";
      row.push_back({is_id ? folded->second : column->text(task, style.now_ms),
                     column->colour != nullptr ? column->colour(task) : Colour::kNone});
    }
    table.Add(std::move(row));
  }
  return table.Text(screen, style.titles);
}

void SortAsQueue(std::vector<TaskView>& tasks) {
  const auto rank = [](const TaskView& task) {
    const bool runs = HoldsGpus(task);
    const bool recovers = base::FromWord<core::QueueKind>(task.queue) == core::QueueKind::kRecovery;
    return std::make_tuple(HasEnded(task) ? 2
                           : runs         ? 0
                                          : 1,
                           runs ? task.launched_ms.value_or(0) : 0, !runs && !recovers,
                           runs ? 0 : -task.priority, task.id);
  };
  std::ranges::stable_sort(tasks,
                           [&](const TaskView& a, const TaskView& b) { return rank(a) < rank(b); });
}

FoldedTasks FoldArrays(const std::vector<TaskView>& tasks, bool cut) {
  std::map<Alike, std::vector<std::uint64_t>> groups;
  for (const TaskView& task : tasks) {
    if (const auto key = KeyOf(task)) groups[*key].push_back(task.id);
  }
  FoldedTasks folded;
  std::map<Alike, std::size_t> shown;  // row of each group
  for (const TaskView& task : tasks) {
    const auto key = KeyOf(task);
    if (key) {
      const auto [at, is_new] = shown.emplace(*key, folded.tasks.size());
      if (!is_new) {
        Merge(task, folded.tasks[at->second]);
        continue;
      }
    }
    folded.tasks.push_back(task);
    if (!key || groups[*key].size() < 2) continue;
    std::vector<std::uint64_t>& ids = groups[*key];
    std::ranges::sort(ids);
    folded.ids[task.id] = RangesText(ids);
    TaskView& row = folded.tasks.back();
    const bool goes_on = cut && KeyOf(tasks.back()) == key;
    row.name += fmt::format(" x{}{}", ids.size(), goes_on ? "+" : "");
    // Removes fields that may differ between the tasks of the row.
    row.array_index.reset();
    row.parameters.clear();
  }
  return folded;
}

std::vector<TaskView> AsTree(const std::vector<TaskView>& tasks) {
  std::set<std::uint64_t> listed;
  for (const TaskView& task : tasks) listed.insert(task.id);
  std::map<std::uint64_t, std::vector<const TaskView*>> below;  // key 0 if none is listed
  for (const TaskView& task : tasks) {
    const std::uint64_t above = LastDependency(task);
    below[listed.contains(above) && above < task.id ? above : 0].push_back(&task);
  }
  std::vector<TaskView> tree;
  const std::function<void(std::uint64_t, std::size_t)> add = [&](std::uint64_t above,
                                                                  std::size_t depth) {
    for (const TaskView* task : below[above]) {
      tree.push_back(*task);
      if (depth > 0) tree.back().name = std::string(3 * (depth - 1), ' ') + "└─ " + task->name;
      add(task->id, depth + 1);
    }
  };
  add(0, 0);
  return tree;
}

}  // namespace carma::cli
