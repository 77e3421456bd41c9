#include "task/shim/environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/file.h"
#include "base/host.h"
#include "base/json.h"
#include "base/text.h"
#include "task/shim/checkpoint_folder.h"
#include "task/shim/container_command.h"

namespace carma::task {
namespace {

constexpr char kDefaultPath[] = "/usr/local/bin:/usr/bin:/bin";
constexpr std::size_t kMaxShebangBytes = 4096;
constexpr std::size_t kMaxStateBytes = 1 << 20;
constexpr std::string_view kUnsetByConda = "***unset***";

// The folder in which a program is installed: /opt/conda for /opt/conda/bin/conda.
std::string RootOfProgram(const std::string& program) {
  const std::size_t bin = program.rfind("/bin/");
  const std::size_t condabin = program.rfind("/condabin/");
  const std::size_t cut = bin != std::string::npos ? bin : condabin;
  return cut == std::string::npos ? std::string() : program.substr(0, cut);
}

std::vector<std::string> CondaRoots(const Environment& environment, const std::string& home) {
  std::vector<std::string> roots = {Lookup(environment, "CONDA_ROOT"),
                                    Lookup(environment, "MAMBA_ROOT_PREFIX"),
                                    RootOfProgram(Lookup(environment, "CONDA_EXE"))};
  for (const char* folder :
       {"/.conda", "/miniconda3", "/anaconda3", "/miniforge3", "/mambaforge"}) {
    roots.push_back(home + folder);
  }
  roots.emplace_back("/opt/conda");
  std::erase_if(roots, [](const std::string& root) { return !root.starts_with('/'); });
  return roots;
}

std::vector<std::string> CondaPlaces(const std::string& name, const Environment& environment,
                                     const std::string& home) {
  std::vector<std::string> places;
  const auto add = [&places](const std::string& place) {
    if (std::ranges::find(places, place) == places.end()) places.push_back(place);
  };
  for (const char* variable : {"CONDA_ENVS_PATH", "CONDA_ENVS_DIRS"}) {
    const std::string folders = Lookup(environment, variable);
    for (const std::string_view folder : base::Split(folders, ':')) {
      if (folder.starts_with('/')) add(std::string(folder) + "/" + name);
    }
  }
  for (const std::string& root : CondaRoots(environment, home))
    add(name == "base" ? root : root + "/envs/" + name);
  return places;
}

Environment CondaVariables(const std::string& prefix) {
  Environment variables;
  const auto text = base::ReadFile(prefix + "/conda-meta/state", kMaxStateBytes);
  if (!text) return variables;
  const auto state = base::ParseJson(*text);
  if (!state || !state->is_object()) return variables;
  const auto given = state->find("env_vars");
  if (given == state->end() || !given->is_object()) return variables;
  for (const auto& [name, value] : given->items()) {
    const bool valid = !name.empty() && !name.contains('=') && !name.contains('\0');
    if (!valid || !value.is_string()) continue;
    std::string word = value.get<std::string>();
    if (!word.contains('\0')) variables[name] = std::move(word);
  }
  return variables;
}

void ApplyConda(const CondaEnv& conda, Environment& environment) {
  environment["PATH"] = conda.prefix + "/bin:" + environment["PATH"];
  environment["CONDA_PREFIX"] = conda.prefix;
  environment["CONDA_DEFAULT_ENV"] = conda.name;
  environment["CONDA_SHLVL"] = "1";
  for (const auto& [name, value] : conda.variables) {
    if (value == kUnsetByConda)
      environment.erase(name);
    else
      environment[name] = value;
  }
}

// Sets variables for containers that the task starts itself; see docs/use/containers.md.
void ApplyContainers(const ShimOrder& order, Environment& environment) {
  environment["NVIDIA_VISIBLE_DEVICES"] =
      order.gpu_uuids.empty() ? "void" : base::Join(order.gpu_uuids, ",");
  if (!order.gpu_uuids.empty()) environment.insert({"APPTAINER_NV", "1"});
  environment["CARMA_CONTAINER_GROUP"] =
      ContainerGroup(BooksWord(order.books), order.id, order.attempt);
}

// Apptainer exposes only some of the server's folders to its programs, so the MPS folder must be
// bound.
void BindMps(Environment& environment) {
  const std::string folder = Lookup(environment, "CUDA_MPS_PIPE_DIRECTORY");
  if (!folder.starts_with('/') || folder.starts_with("/dev/")) return;
  std::string& binds = environment["APPTAINER_BIND"];
  if (!binds.contains(folder)) binds += (binds.empty() ? "" : ",") + folder;
}

const std::string kParameter = "CARMA_PARAM_";  // followed by a sweep parameter's name

// Sets the variables of Slurm's batch step that make sense on a single server;
// docs/use/environment.md lists them.
void ApplySlurm(const ShimOrder& order, const UserInfo& user, Environment& environment) {
  const std::string id = fmt::format("{}", order.id);
  const std::string host = base::ShortHostName();
  const std::map<std::string, std::string> own{
      {"SLURM_JOB_ID", id},
      {"SLURM_JOBID", id},
      {"SLURM_JOB_NAME", order.spec.name},
      {"SLURM_JOB_USER", user.name},
      {"SLURM_JOB_UID", std::to_string(order.uid)},
      {"SLURM_JOB_NUM_NODES", "1"},
      {"SLURM_NNODES", "1"},
      {"SLURM_JOB_NODELIST", host},
      {"SLURM_NODELIST", host},
      {"SLURMD_NODENAME", host},
      {"SLURM_SUBMIT_HOST", host},
      {"SLURM_NODEID", "0"},
      {"SLURM_PROCID", "0"},
      {"SLURM_LOCALID", "0"},
  };
  for (const auto& [name, value] : own) environment[name] = value;
  environment.insert({{"SLURM_TASKS_PER_NODE", "1"},
                      {"SLURM_JOB_PARTITION", "carma"},
                      {"SLURM_CLUSTER_NAME", "carma"}});
  if (!order.gpu_uuids.empty()) {
    environment["SLURM_JOB_GPUS"] = base::Join(order.gpu_uuids, ",");
    environment["SLURM_GPUS_ON_NODE"] = std::to_string(order.gpu_uuids.size());
  }
  // As in Slurm, a task that requests no cores counts as requesting one.
  const int cpus = std::max(order.host.cpus, order.spec.cpus.value_or(1));
  for (const char* name : {"SLURM_CPUS_ON_NODE", "SLURM_JOB_CPUS_PER_NODE"})
    environment[name] = std::to_string(cpus);
  // CARMA's srun comes first in PATH, because Slurm may also be installed on the server.
  environment["PATH"] = StandInFolder() + ":" + environment["PATH"];
  // As in Slurm, this variable is set only after a restart.
  if (order.attempt > 1) environment["SLURM_RESTART_COUNT"] = std::to_string(order.attempt - 1);
  if (order.spec.array_index) {
    environment["SLURM_ARRAY_JOB_ID"] = fmt::format("{}", order.array.value_or(order.id));
    environment["SLURM_ARRAY_TASK_ID"] = std::to_string(*order.spec.array_index);
  }
}

}  // namespace

Result<CondaEnv> FindCondaEnv(const std::string& name_or_path, const Environment& environment,
                              const std::string& home,
                              const std::function<bool(const std::string&)>& is_folder) {
  std::vector<std::string> places;
  if (name_or_path.starts_with('/')) {
    places.push_back(name_or_path);
  } else if (name_or_path.empty() || name_or_path.contains('/') || name_or_path == "." ||
             name_or_path == "..") {
    return Invalid("conda environment '" + base::Printable(name_or_path) +
                   "': expected a name or an absolute path");
  } else {
    places = CondaPlaces(name_or_path, environment, home);
  }
  for (std::string place : places) {
    while (place.size() > 1 && place.ends_with('/')) place.pop_back();
    if (is_folder(place + "/bin")) return CondaEnv{place, name_or_path, CondaVariables(place)};
  }
  return NotFound("conda environment '" + base::Printable(name_or_path) + "' not found; searched " +
                  base::Join(places, ", "));
}

Environment TaskEnvironment(const ShimOrder& order, const UserInfo& user, const CondaEnv* conda,
                            const std::string& attempt_dir) {
  Environment environment = order.spec.environment;
  // insert() keeps variables that the submitter has set.
  environment.insert({{"HOME", user.home}, {"SHELL", user.shell}, {"PATH", kDefaultPath}});
  // Output goes to a file, so Python would otherwise buffer it until the end.
  environment.insert({"PYTHONUNBUFFERED", "1"});
  if (!user.name.empty()) environment.insert({{"USER", user.name}, {"LOGNAME", user.name}});
  if (conda != nullptr) ApplyConda(*conda, environment);
  if (order.spec.slurm) ApplySlurm(order, user, environment);
  environment["PWD"] = order.spec.workdir;
  environment.erase("OLDPWD");
  environment["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID";
  environment["CUDA_VISIBLE_DEVICES"] = base::Join(order.gpu_uuids, ",");
  ApplyContainers(order, environment);
  environment["CARMA_TASK_ID"] = fmt::format("{}", order.id);
  environment["CARMA_ATTEMPT"] = std::to_string(order.attempt);
  environment["CARMA_RESTARTS"] = std::to_string(order.attempt - 1);
  environment["CARMA_CHECKPOINT_DIR"] = CheckpointFolder(order);
  environment["CARMA_CHECKPOINT_SIGNAL"] = order.checkpoint_signal;
  environment["CARMA_CHECKPOINT_NOTICE"] =
      fmt::format("{:g}", base::Seconds(order.checkpoint_notice));
  environment["CARMA_TASK_NAME"] = order.spec.name;
  for (const char* name : {"CARMA_CPUS", "CARMA_HOST_MEMORY_MIB"}) environment.erase(name);
  if (order.host.cpus > 0) environment["CARMA_CPUS"] = std::to_string(order.host.cpus);
  if (order.host.memory_mib > 0)
    environment["CARMA_HOST_MEMORY_MIB"] = std::to_string(order.host.memory_mib);
  environment.erase("CARMA_ARRAY_INDEX");  // may be inherited from a task that submitted this one
  if (order.spec.array_index)
    environment["CARMA_ARRAY_INDEX"] = std::to_string(*order.spec.array_index);
  std::erase_if(environment, [](const auto& each) { return each.first.starts_with(kParameter); });
  for (const auto& [name, value] : order.spec.parameters) environment[kParameter + name] = value;
  for (const auto& [name, value] : order.extra_environment) environment[name] = value;
  BindMps(environment);
  environment[kAttemptVariable] = attempt_dir;  // the cleanup after a lost shim needs it
  return environment;
}

std::vector<std::string> ToBlock(const Environment& environment) {
  std::vector<std::string> block;
  block.reserve(environment.size());
  for (const auto& [name, value] : environment) block.push_back(name + "=" + value);
  return block;
}

std::string Lookup(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string() : found->second;
}

std::string StandInFolder() {
  return base::ExecutableDir() + "/../libexec/carma";
}

bool IsLoginShell(const Shebang& shebang) {
  constexpr std::array<std::string_view, 5> kShells{"bash", "dash", "ksh", "sh", "zsh"};
  return (shebang.argument == "-l" || shebang.argument == "--login") &&
         std::ranges::find(kShells, base::BaseName(shebang.interpreter)) != kShells.end();
}

Result<Shebang> ParseShebang(std::string_view script) {
  if (!script.starts_with("#!")) {
    return Invalid(
        "this is not a batch script: its first line must be #! and the path of an interpreter, for "
        "example #!/bin/bash");
  }
  const std::string_view line = script.substr(2, std::min(script.find('\n'), script.size()) - 2);
  if (line.ends_with('\r'))
    return Invalid(
        "the script has DOS line endings (\\r\\n): convert it, for example with dos2unix");
  const std::string_view text = base::Trim(line);
  const std::size_t blank = text.find_first_of(" \t");
  const std::string_view interpreter = text.substr(0, blank);
  if (!interpreter.starts_with('/') || text.size() > kMaxShebangBytes || text.contains('\0')) {
    return Invalid(
        "the script's first line does not name an interpreter: expected #! and an absolute path, "
        "found '" +
        base::Printable(line, 80) + "'");
  }
  Shebang shebang{std::string(interpreter), {}};
  if (blank != std::string_view::npos) shebang.argument = base::Trim(text.substr(blank));
  return shebang;
}

}  // namespace carma::task
