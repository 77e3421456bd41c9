#include "task/shim/container_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.h"

namespace carma::task {
namespace {

using Words = std::vector<std::string>;

void Append(Words& words, Words more) {
  words.insert(words.end(), std::make_move_iterator(more.begin()),
               std::make_move_iterator(more.end()));
}

// One field of the comma-separated --mount value, in a form that all three tools accept.
std::string Field(std::string_view name, const std::string& value) {
  std::string field = fmt::format("{}={}", name, value);
  return value.contains(',') ? "\"" + field + "\"" : field;
}

Words Mounts(const ContainerRun& run) {
  Words words;
  for (const ContainerMount& mount : run.mounts) {
    words.push_back("--mount");
    words.push_back(fmt::format("type=bind,{},{}{}", Field("source", mount.source),
                                Field("destination", mount.destination),
                                mount.read_only ? ",ro" : ""));
  }
  return words;
}

// Options that Podman and Docker have in common. The container uses the server's network and shared
// memory, as other tasks do, because MPS and communication within a training run need them.
Words Common(const ContainerRun& run) {
  Words words{"--rm",
              "--name=" + run.name,
              "--network=host",
              "--ipc=host",
              "--security-opt=no-new-privileges",
              "--security-opt=label=disable",
              "--entrypoint=",
              "--workdir=" + run.order.spec.workdir};
  if (run.order.spec.attach) words.emplace_back("--interactive");
  if (run.order.spec.attach && run.order.spec.terminal) words.emplace_back("--tty");
  Append(words, Mounts(run));
  for (const std::string& name : run.variables) Append(words, {"--env", name});
  return words;
}

Words Podman(const ContainerRun& run) {
  Words words{run.program, "run"};
  Append(words, Common(run));
  // The container stays in the task's control group, so the group's limits apply.
  words.emplace_back("--cgroups=disabled");
  if (run.user.uid != 0) Append(words, {"--userns=keep-id", "--group-add=keep-groups"});
  if (!run.init.empty()) Append(words, {"--init", "--init-path=" + run.init});
  for (const std::string& uuid : run.order.gpu_uuids)
    Append(words, {"--device", "nvidia.com/gpu=" + uuid});
  return words;
}

Words Docker(const ContainerRun& run) {
  Words words{run.program, "run"};
  Append(words, Common(run));
  Append(words, {"--init", fmt::format("--user={}:{}", run.user.uid, run.user.gid)});
  for (const gid_t group : run.user.groups) {
    if (group != run.user.gid) words.push_back(fmt::format("--group-add={}", group));
  }
  // Docker's containers are not in the task's control group, so its limits are repeated here.
  words.push_back("--cgroup-parent=" + run.group);
  if (run.order.host.cpus > 0 && run.order.cpu_cap)
    words.push_back(fmt::format("--cpus={}", run.order.host.cpus));
  if (run.order.host.memory_mib > 0)
    Append(words, {fmt::format("--memory={}m", run.order.host.memory_mib),
                   fmt::format("--memory-swap={}m", run.order.host.memory_mib)});
  if (!run.order.cores.empty()) words.push_back("--cpuset-cpus=" + run.order.cores);
  if (run.order.max_processes > 0)
    words.push_back(fmt::format("--pids-limit={}", run.order.max_processes));
  // The value is a comma-separated list; the quotes keep the devices together as one field.
  if (!run.order.gpu_uuids.empty())
    words.push_back(fmt::format("--gpus=\"device={}\"", base::Join(run.order.gpu_uuids, ",")));
  return words;
}

// By default, Apptainer shares the environment, network and shared memory with the container.
Words Apptainer(const ContainerRun& run) {
  Words words{run.program, "exec"};
  if (!run.order.gpu_uuids.empty()) words.emplace_back("--nv");
  Append(words, {"--pwd", run.order.spec.workdir});
  Append(words, Mounts(run));
  return words;
}

// The server's values of these variables would break programs in the image.
constexpr std::array<std::string_view, 14> kOfTheServer{
    "PATH",       "LD_LIBRARY_PATH", "LD_PRELOAD", "SHELL",         "TMPDIR",
    "PYTHONHOME", "VIRTUAL_ENV",     "MANPATH",    "HOSTNAME",      "MAIL",
    "LS_COLORS",  "XDG_RUNTIME_DIR", "OLDPWD",     "CONTAINER_HOST"};
constexpr std::array<std::string_view, 7> kBeginnings{
    "CONDA_", "DOCKER_", "CONTAINERS_", "APPTAINER", "SINGULARITY", "DBUS_", "SSH_"};

}  // namespace

Words ContainerCommand(const ContainerRun& run) {
  Words words = run.tool == ContainerTool::kPodman   ? Podman(run)
                : run.tool == ContainerTool::kDocker ? Docker(run)
                                                     : Apptainer(run);
  const bool of_registry = run.tool == ContainerTool::kApptainer && !IsImageFile(run.image) &&
                           !run.image.contains("://");
  words.push_back((of_registry ? "docker://" : "") + run.image);
  Append(words, run.command);
  return words;
}

Words ContainerRemoval(const ContainerRun& run) {
  if (run.tool == ContainerTool::kApptainer) return {};
  return {run.program, "rm", "--force", run.name};
}

std::string ContainerName(std::string_view books, core::TaskId id, int attempt) {
  return fmt::format("carma-{}-{}-{}", books, core::Number(id), attempt);
}

std::string ContainerGroup(std::string_view books, core::TaskId id, int attempt) {
  return fmt::format("carma-{}-{}x{}.slice", books, core::Number(id), attempt);
}

bool IsInContainerGroup(std::string_view cgroup, std::string_view group) {
  if (group.empty() || !cgroup.starts_with('/')) return false;
  const std::string name(group);
  const std::string above = name.substr(0, name.rfind('-')) + ".slice";
  for (const std::string& folder : {"/" + name, "/carma.slice/" + above + "/" + name}) {
    if (cgroup == folder || cgroup.starts_with(folder + "/")) return true;
  }
  return false;
}

Words ContainerVariables(const std::map<std::string, std::string>& environment) {
  Words names;
  for (const auto& [name, value] : environment) {
    const bool beginning = std::ranges::any_of(
        kBeginnings, [&](std::string_view start) { return name.starts_with(start); });
    // A shell exports its functions in such variables.
    const bool strange = name.starts_with("BASH_FUNC") || name.contains('%');
    if (!beginning && !strange && std::ranges::find(kOfTheServer, name) == kOfTheServer.end())
      names.push_back(name);
  }
  return names;
}

}  // namespace carma::task
