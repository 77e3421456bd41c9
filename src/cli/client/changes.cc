#include "cli/client/changes.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "base/try.h"
#include "cli/client/describe.h"
#include "cli/client/task_words.h"
#include "cli/client/verbs.h"
#include "task/describe/options.h"
#include "task/describe/spec.h"

namespace carma::cli {
namespace {

using base::Json;

struct EditableOption {
  std::string_view option;
  std::array<std::string_view, 3> fields;  // of the description; unused entries are empty
};
constexpr std::array kEditable{
    EditableOption{"job-name", {"name"}},
    EditableOption{"name", {"name"}},
    EditableOption{"gpus", {"gpus"}},
    EditableOption{"gres", {"gpus"}},
    EditableOption{"gpus-per-node", {"gpus"}},
    EditableOption{"gpu-type", {"gpu_type"}},
    EditableOption{"gpu-memory-min", {"gpu_memory_min_mib"}},
    EditableOption{"gpu", {"on_gpus"}},
    EditableOption{"not-on", {"not_on_gpus"}},
    EditableOption{"linked", {"linked_gpus"}},
    EditableOption{"memory", {"memory_mib"}},
    EditableOption{"gpu-mem", {"memory_mib"}},
    EditableOption{"cpus", {"cpus"}},
    EditableOption{"cpus-per-task", {"cpus"}},
    EditableOption{"mem", {"host_memory_mib"}},
    EditableOption{"own-cpus", {"own_cpus"}},
    EditableOption{"exclusive", {"exclusive"}},
    EditableOption{"collocated", {"exclusive"}},
    EditableOption{"sm-share", {"sm_share"}},
    EditableOption{"time", {"time_limit_s"}},
    EditableOption{"dependency", {"dependencies"}},
    EditableOption{"begin", {"begin_ms"}},
    EditableOption{"priority", {"priority"}},
    EditableOption{"qos", {"qos"}},
    EditableOption{"account", {"account"}},
    EditableOption{"requeue", {"requeue"}},
    EditableOption{"no-requeue", {"requeue"}},
    EditableOption{"retries", {"max_recoveries"}},
    EditableOption{"notify", {"notify"}},
    EditableOption{"mail-type", {"notify"}},
    EditableOption{"mail-user", {"notify"}},
    EditableOption{"signal", {"signal", "signal_before_s", "signal_main"}},
    EditableOption{"checkpoint-signal", {"checkpoint_signal"}},
    EditableOption{"comment", {"comment"}},
};

const EditableOption* Find(std::string_view option) {
  const auto found = std::ranges::find(kEditable, option, &EditableOption::option);
  return found == kEditable.end() ? nullptr : &*found;
}

// The option that sets this field, without dashes; empty if there is no such option.
std::string OptionOf(std::string_view field) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kOther{
      {{"stdout_path", "output"},
       {"stderr_path", "error"},
       {"workdir", "chdir"},
       {"environment", "export"},
       {"parameters", "param"}}};
  for (const EditableOption& each : kEditable) {
    if (each.fields[0] == field) return std::string(each.option);
  }
  for (const auto& [name, option] : kOther) {
    if (name == field) return std::string(option);
  }
  std::string option(field);
  std::ranges::replace(option, '_', '-');
  return option.size() > 1 && task::FindOption(option) != nullptr ? option : "";
}

}  // namespace

bool IsEditable(std::string_view option) {
  return Find(option) != nullptr;
}

base::Error NamedAsTyped(base::Error error) {
  constexpr std::string_view kCommand = "command/";
  std::string& text = error.message;
  const std::size_t end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_");
  if (error.code != ErrorCode::kInvalid || end == text.npos) return error;
  if (text.starts_with(kCommand)) {
    text.replace(0, kCommand.size(), "argument ");
  } else if (text[end] == ':' || text[end] == '/') {
    const std::string option = OptionOf(text.substr(0, end));
    if (!option.empty()) text.replace(0, end, "--" + option);
  }
  return error;
}

Result<std::string> ChangesOf(Context& context, const Settings& settings) {
  if (settings.empty()) return "";
  const auto caller = CARMA_TRY(CallerContext(context, settings));
  const auto resolved = CARMA_TRY(WithTasksResolved(context, settings));
  task::Description description;
  // A description requires a command and a folder. Changes have neither, so these are placeholders.
  description.SetCommand({"true"});
  CARMA_TRY(description.Set("chdir", "/"));
  for (const auto& [option, value] : resolved) CARMA_TRY(description.Set(option, value));
  const auto specs = description.Finish(caller);
  if (!specs) return std::unexpected(NamedAsTyped(specs.error()));
  for (const std::string& warning : description.warnings()) {
    // Skips the warning about a missing time limit, because the task may already have one.
    if (!warning.starts_with("--signal needs --time")) Warn(context, warning);
  }
  const Json spec = CARMA_TRY(base::ParseJson(task::ToJsonText(specs->front())));
  Json changes = Json::object();
  for (const auto& [option, value] : settings) {
    const EditableOption* known = Find(option);
    if (known == nullptr) continue;
    for (const std::string_view field : known->fields) {
      if (!field.empty()) changes[field] = spec.contains(field) ? spec.at(field) : Json(nullptr);
    }
  }
  return base::DumpJson(changes);
}

std::vector<DependentTask> WithDependents(const std::vector<std::uint64_t>& ids,
                                          const std::vector<api::TaskView>& tasks) {
  std::set<std::uint64_t> again(ids.begin(), ids.end());
  std::map<std::uint64_t, const api::TaskView*> by_id;
  for (const api::TaskView& task : tasks) by_id[task.id] = &task;
  // Tasks depend only on older tasks, so one pass in order finds all dependents.
  std::vector<DependentTask> found;
  for (const auto& [id, task] : by_id) {
    DependentTask each{id, {}};
    const auto resubmitted = [&](const std::string& other) {
      return again.contains(TaskOf(other));
    };
    if (std::ranges::any_of(task->dependencies, resubmitted)) {
      // Omits dependencies on tasks that are no longer in the history, because the daemon does not
      // know them either.
      std::ranges::copy_if(task->dependencies, std::back_inserter(each.waits_for),
                           [&](const std::string& on) { return by_id.contains(TaskOf(on)); });
      again.insert(id);
    }
    if (again.contains(id)) found.push_back(std::move(each));
  }
  for (const std::uint64_t id : ids) {
    if (!by_id.contains(id)) found.push_back({id, {}});
  }
  std::ranges::sort(found, {}, &DependentTask::id);
  return found;
}

std::string WithDependencies(const std::string& changes, const std::vector<std::string>& waits_for,
                             const std::map<std::uint64_t, std::uint64_t>& renewed) {
  if (waits_for.empty()) return changes;
  Json fields = Json::object();
  if (!changes.empty()) fields = base::ParseJson(changes).value_or(Json::object());
  Json list = Json::array();
  for (const std::string& dependency : waits_for) {
    const std::uint64_t old = TaskOf(dependency);
    const auto now = renewed.find(old);
    list.push_back({{"task", now == renewed.end() ? old : now->second},
                    {"kind", dependency.substr(0, dependency.find(':'))}});
  }
  fields["dependencies"] = std::move(list);
  return base::DumpJson(fields);
}

}  // namespace carma::cli
