#include "task/describe/description.h"

#include <fmt/format.h>

#include <cctype>

#include "base/text.h"
#include "base/try.h"
#include "task/describe/options.h"

namespace carma::task {
namespace {

// Makes a path absolute: "~/x" refers to `home`, and a relative path is relative to `base`. An
// empty path stays empty. Without a base, a relative path stays relative.
std::string Absolute(std::string_view path, const std::string& base, const std::string& home) {
  if (path.empty() || path.starts_with('/')) return std::string(path);
  if (path == "~") return home;
  if (path.starts_with("~/")) return home + std::string(path.substr(1));
  if (base.empty()) return std::string(path);
  while (path.starts_with("./")) path.remove_prefix(2);
  return base + (base.ends_with('/') ? "" : "/") + std::string(path);
}

// Expands $HOME, because no shell processes the options in a script.
Result<Unit> ReplaceHome(const SubmitterContext& context, std::string& path) {
  for (const std::string_view word : {"$HOME", "${HOME}"}) {
    if (path == word || path.starts_with(std::string(word) + "/"))
      path.replace(0, word.size(), context.home);
  }
  // The current folder's path may itself contain a '$', so the search starts after it.
  const bool inside = (path + "/").starts_with(context.cwd + "/");
  const std::size_t at = path.find('$', inside ? context.cwd.size() : 0);
  const std::string_view name = std::string_view(path).substr(at == path.npos ? path.size() : at);
  if (name.size() < 2 ||
      !(name[1] == '{' || name[1] == '_' || std::isalpha(static_cast<unsigned char>(name[1])) != 0))
    return Unit{};
  return Invalid(
      "{}: only $HOME is expanded here; write out the path, using %j for the task number",
      base::Printable(path, 200));
}

void ResolvePaths(const SubmitterContext& context, TaskSpec& spec) {
  spec.workdir =
      spec.workdir.empty() ? context.cwd : Absolute(spec.workdir, context.cwd, context.home);
  spec.stdout_path = Absolute(spec.stdout_path, spec.workdir, context.home);
  spec.stderr_path = Absolute(spec.stderr_path, spec.workdir, context.home);
  if (spec.stderr_path == spec.stdout_path) spec.stderr_path.clear();
  if (spec.model_summary)
    spec.model_summary = Absolute(*spec.model_summary, context.cwd, context.home);
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

// --mail-type and --mail-user together add one more notification target.
void AddMail(const Draft& draft, TaskSpec& spec) {
  if (!draft.mail_types || draft.mail_types->events.empty()) return;
  spec.notify.push_back({.target = draft.mail_user.empty() ? "me" : draft.mail_user,
                         .events = draft.mail_types->events,
                         .each_task = draft.mail_types->each_task});
}

// The script's path as shown to users. Empty if there is no file or if its path cannot be shown.
std::optional<std::string> ShownScriptPath(const std::string& path,
                                           const SubmitterContext& context) {
  if (path.empty() || path == "-") return std::nullopt;
  std::string absolute = Absolute(path, context.cwd, context.home);
  if (absolute.size() > kMaxPathBytes || !base::IsUtf8(absolute)) return std::nullopt;
  return absolute;
}

Result<Unit> ChooseCommand(const Draft& draft, TaskSpec& spec) {
  const bool file_or_command = spec.script || !spec.command.empty();
  if (draft.wrap && file_or_command)
    return Invalid("--wrap already gives the command; omit the script or -- COMMAND");
  if (!draft.wrap && !file_or_command)
    return Invalid("nothing to run: give a script, -- COMMAND, or --wrap");
  // An empty first word would give the task an empty name.
  if (!spec.command.empty() && spec.command.front().empty())
    return Invalid("nothing to run: the first word of the command is empty");
  if (draft.wrap) {
    spec.script = "#!/bin/sh\n" + *draft.wrap + "\n";
    if (spec.name.empty()) spec.name = "wrap";
  } else if (spec.script && spec.name.empty()) {
    const std::string_view path = draft.script_path;
    spec.name = path == "-" ? "stdin" : base::Printable(base::BaseName(path), 200);
  }
  return Unit{};
}

void ChooseMemory(const Draft& draft, TaskSpec& spec) {
  spec.exclusive = draft.exclusive.value_or(false);
  if (spec.memory_mib || !draft.rad_memory || draft.rad_column == nullptr) return;
  const std::optional<std::int64_t>& mib = (*draft.rad_memory).*draft.rad_column->mib;
  if (!mib) return;
  if (*mib == kRadWholeGpu) {
    // The .rad file states no memory size, so by default the task gets whole GPUs of any size. If
    // the user allows sharing, placement considers only the GPU's measured memory usage.
    spec.exclusive = draft.exclusive.value_or(true);
  } else {
    spec.memory_mib = mib;
    spec.memory_source = "rad";
  }
}

// Returns the names of variables that had to be omitted.
std::vector<std::string> FillEnvironment(const ExportPlan& plan, const SubmitterContext& context,
                                         TaskSpec& spec) {
  std::vector<std::string> left_out;
  // With the variables of an enclosing Slurm job, the task would seem to be a part of that job.
  const bool in_job = context.environment.contains("SLURM_JOB_ID");
  if (plan.all) {
    for (const auto& [name, value] : context.environment) {
      if (in_job && IsSlurmVariable(name)) continue;
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

// Replaces the submitter's own Slurm variables with those for this task.
void FillSlurm(const SlurmWords& words, const SubmitterContext& context, TaskSpec& spec) {
  spec.slurm = true;
  std::erase_if(spec.environment, [](const auto& each) { return IsSlurmVariable(each.first); });
  spec.environment.merge(VariablesOf(words, spec.gpus));
  spec.environment["SLURM_SUBMIT_DIR"] = context.cwd;
}

Result<std::vector<TaskSpec>> Expand(TaskSpec spec, const std::optional<std::string>& array) {
  if (!array) return std::vector<TaskSpec>{std::move(spec)};
  const ArrayPlan plan = CARMA_TRY(ParseArray(*array));
  std::vector<TaskSpec> tasks;
  tasks.reserve(plan.indices.size());
  spec.array_limit = static_cast<int>(plan.limit.value_or(0));
  if (spec.slurm) spec.environment.merge(VariablesOfArray(plan.indices));
  for (const std::int64_t index : plan.indices) {
    spec.array_index = index;
    tasks.push_back(spec);
  }
  return tasks;
}

}  // namespace

Result<Unit> Description::Set(std::string_view option, std::string_view value,
                              std::string_view file) {
  const OptionInfo* info = FindOption(option);
  // The option as the user typed it, for messages.
  std::string place = fmt::format("{}{}", option.size() == 1 ? "-" : "--", option);
  if (!file.empty() && info == nullptr) place = file;
  if (!file.empty() && info != nullptr) place = fmt::format("{}: --{}", file, info->name);
  if (info == nullptr) {
    return Invalid(place + ": unknown option '" + base::Printable(option, 60) +
                   "' (see carma submit --help)");
  }
  const bool is_switch = info->value.empty();
  if (is_switch && !value.empty()) return Invalid(place + ": takes no value");
  if (!is_switch && value.empty() && info->name != "comment")
    return Invalid(place + ": expected a value (" + std::string(info->value) + ")");
  draft_.remarks.clear();
  CARMA_TRY(base::Wrap(StoreOption(*info, value, file, draft_), place));
  place += ": ";
  for (const std::string& remark : draft_.remarks) Warn(std::string(place).append(remark));
  return Unit{};
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
  CARMA_TRY(ChooseCommand(draft_, spec));
  const bool sweeps = !draft_.parameters.empty() || !draft_.sweep_file.empty();
  if (sweeps && draft_.array)
    return Invalid("--param and --param-file already make an array; omit --array");
  if (!draft_.gpus_counted && !spec.on_gpus.empty())
    spec.gpus = static_cast<int>(spec.on_gpus.size());
  ChooseMemory(draft_, spec);
  AddMail(draft_, spec);
  if (spec.signal && !spec.time_limit)
    Warn("--signal needs --time, because the signal is sent before the time limit");
  if (spec.script && !draft_.wrap) spec.script_path = ShownScriptPath(draft_.script_path, context);
  for (std::string* path : {&spec.workdir, &spec.stdout_path, &spec.stderr_path})
    CARMA_TRY(ReplaceHome(context, *path));
  ResolvePaths(context, spec);
  if (context.cwd.empty() && !IsAbsolutePath(spec.workdir))
    return Invalid("the current folder no longer exists; cd elsewhere or give -D FOLDER");
  for (PlanFile& file : draft_.plan_files)
    file.path = Absolute(file.path, context.cwd, context.home);
  spec.umask = context.umask;
  for (const std::string& name : FillEnvironment(draft_.exported, context, spec))
    Warn("environment variable " + name + " is not UTF-8 and is omitted");
  if (draft_.begin)
    spec.begin = CARMA_TRY(base::Wrap(ParseBegin(*draft_.begin, context.now), "--begin"));
  if (draft_.slurm) {
    FillSlurm(*draft_.slurm, context, spec);
    for (std::string& unread : FillHost(*draft_.slurm, spec)) Warn(std::move(unread));
    if (!draft_.gpus_counted && spec.on_gpus.empty() && !spec.gpu_type)
      Warn("no #SBATCH line requests a GPU, so the task gets one (use -G 0 for none)");
    if (spec.stdout_path.empty() && !spec.attach)
      Warn(
          "no #SBATCH line names the output file, so it is carma-%j-%B.out instead of "
          "slurm-%j.out");
  }
  FillDefaults(spec);
  CARMA_TRY(Validate(spec));
  for (const std::string& path : {spec.stdout_path, spec.stderr_path}) {
    if (sweeps && path.contains('{')) continue;  // the path contains a sweep value
    if ((draft_.array || sweeps) && !path.empty() && IsOnePathForAll(path))
      Warn("all tasks of the array write to " + base::Printable(path) +
           "; add %a to give each task its own file");
  }
  return Expand(std::move(spec), draft_.array);
}

}  // namespace carma::task
