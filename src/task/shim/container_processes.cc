#include "task/shim/container_processes.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <string_view>

#include "base/file.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "task/process/cgroup.h"
#include "task/process/group_limiter.h"
#include "task/process/process_tree.h"
#include "task/shim/container_command.h"

namespace carma::task {
namespace {

// Helper processes of the container tools, by the names that the kernel reports (at most 15
// characters). Signals for the program in the container must not reach them: squashfuse, for
// example, would unmount the image while the program is still using it.
constexpr std::array<std::string_view, 20> kHelpers{
    "apptainer",   "appinit",     "catatonit",     "conmon",         "crun",
    "docker",      "docker-init", "dumb-init",     "fuse-overlayfs", "fuse2fs",
    "gocryptfs",   "pasta",       "podman",        "rootlessport",   "runc",
    "slirp4netns", "squashfuse",  "squashfuse_ll", "starter",        "tini"};
constexpr int kRounds = 50;
constexpr int kRoundsForFolders = 5;  // after that, folders that cannot be removed are kept
constexpr int kRoundMs = 20;

bool IsHelper(const base::ProcessStat& process) {
  return std::ranges::find(kHelpers, std::string_view(process.command)) != kHelpers.end() ||
         process.command.starts_with("starter-");
}

std::vector<base::ProcessStat> ProcessesOfGroup(const std::string& group) {
  std::vector<base::ProcessStat> found;
  if (group.empty()) return found;
  // All processes on the machine except kernel threads are descendants of process 1.
  for (base::ProcessStat& process : Descendants(1)) {
    if (IsInContainerGroup(process.id.pid, group)) found.push_back(std::move(process));
  }
  return found;
}

constexpr char kRoot[] = "/sys/fs/cgroup";

// Where systemd puts a slice of this name.
std::string SlicesOf(const std::string& group) {
  return "carma.slice/" + group.substr(0, group.rfind('-')) + ".slice/" + group;
}

// Creates this path's folders below the root of the v2 tree. Enables the GPU memory controller,
// which kernels before 6.14 do not have, in each group except the last.
bool MakeGroups(const std::string& path) {
  std::string folder = kRoot;
  for (const std::string_view name : base::Split(path, '/')) {
    const base::UniqueFd control(
        ::open((folder + "/cgroup.subtree_control").c_str(), O_WRONLY | O_CLOEXEC));
    if (control) (void)base::WriteAll(control.get(), "+dmem");
    folder += "/" + std::string(name);
    if (::mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) return false;
  }
  return true;
}

// All folders in which Docker's cgroup drivers may create the group: in each hierarchy, with or
// without systemd's slices.
std::vector<std::string> FoldersOf(const std::string& group) {
  const std::string slices = SlicesOf(group);
  std::vector<std::string> folders;
  for (const char* hierarchy :
       {"", "/unified", "/systemd", "/memory", "/cpu", "/cpuacct", "/cpuset", "/pids", "/devices",
        "/freezer", "/blkio", "/hugetlb", "/net_cls", "/perf_event"}) {
    for (const std::string& name : {group, slices}) {
      std::string folder = std::string(kRoot) + hierarchy + "/" + name;
      if (base::Exists(folder)) folders.push_back(std::move(folder));
    }
  }
  return folders;
}

}  // namespace

bool IsInContainerGroup(pid_t pid, const std::string& group) {
  const auto text = base::ReadFile("/proc/" + std::to_string(pid) + "/cgroup", 65'536);
  if (!text) return false;
  return std::ranges::any_of(base::Split(*text, '\n'), [&](std::string_view line) {
    const std::size_t path = line.find(':', line.find(':') + 1);
    return path != std::string_view::npos && IsInContainerGroup(line.substr(path + 1), group);
  });
}

std::vector<std::string> MakeContainerGroups(const std::string& group) {
  std::vector<std::string> made;
  if (group.empty() || !base::Exists(std::string(kRoot) + "/cgroup.controllers")) return made;
  std::vector<std::string> paths{group};
  if (base::Exists("/run/systemd/system")) paths.push_back(SlicesOf(group));
  for (const std::string& path : paths) {
    if (MakeGroups(path)) made.push_back(std::string(kRoot) + "/" + path);
  }
  return made;
}

std::vector<base::ProcessStat> ProcessesInside(pid_t shim, const std::string& group) {
  std::vector<base::ProcessStat> inside = Descendants(shim);
  for (base::ProcessStat& process : ProcessesOfGroup(group)) inside.push_back(std::move(process));
  std::erase_if(inside, IsHelper);
  return inside;
}

void EndContainerGroup(const std::string& group, const ContainerLimits& limits) {
  if (group.empty() || FoldersOf(group).empty()) return;
  for (int round = 0; round < kRounds; ++round) {
    const std::vector<base::ProcessStat> left = ProcessesOfGroup(group);
    for (const base::ProcessStat& process : left) Tell(process.id, {SIGKILL});
    // Remove the limits before the cgroups; otherwise the parent cgroups would keep them.
    for (const std::string& folder : FoldersOf(group)) {
      if (round == 0 && !limits.limiter.empty() &&
          folder.starts_with(std::string(kRoot) + "/carma"))
        (void)LimitGpuMemory(limits.limiter, folder, NoLimitWords(limits.words));
    }
    for (const std::string& folder : FoldersOf(group)) TaskCgroup::RemoveCgroup(folder);
    const bool gone = FoldersOf(group).empty();
    if (left.empty() && (gone || round >= kRoundsForFolders)) return;
    ::poll(nullptr, 0, kRoundMs);
  }
}

}  // namespace carma::task
