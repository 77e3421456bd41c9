#include "task/process/cgroup.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/file.h"
#include "base/text.h"

namespace carma::task {
namespace {

using base::UniqueFd;

constexpr std::size_t kMaxTextBytes = 4 << 20;
constexpr int kMaxNesting = 32;  // levels of groups that a task may make within its own group

bool WriteTo(const std::string& path, std::string_view text) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return fd && base::WriteAll(fd.get(), text).has_value();
}

// The mount of the v2 tree as (root within the tree, mount point). Both are empty if it is not
// mounted.
std::pair<std::string, std::string> FindMount(std::string_view mountinfo) {
  for (const std::string_view line : base::Split(mountinfo, '\n')) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string_view::npos || !line.substr(dash + 3).starts_with("cgroup2 ")) continue;
    const std::vector<std::string_view> words = base::SplitWords(line.substr(0, dash));
    if (words.size() >= 5) return {std::string(words[3]), std::string(words[4])};
  }
  return {};
}

std::optional<std::string> OwnPath(std::string_view self_cgroup) {
  for (const std::string_view line : base::Split(self_cgroup, '\n')) {
    if (line.starts_with("0::/")) return std::string(line.substr(3));
  }
  return std::nullopt;
}

std::optional<std::int64_t> ReadOomKills(const std::string& group) {
  return base::ParseInt(base::NamedLine(group + "/memory.events", "oom_kill "));
}

void MoveKeeper(const std::string& group) {
  const std::string below = fmt::format("{}/{}", group, kKeeperGroup);
  (void)::mkdir(below.c_str(), 0755);
  const std::string processes = base::ReadFile(group + "/cgroup.procs", 4096).value_or("");
  for (const std::string_view pid : base::SplitWords(processes))
    (void)WriteTo(below + "/cgroup.procs", pid);
}

bool RemoveNested(const std::string& path, int depth) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(path.c_str()), ::closedir);
  if (dir == nullptr) return errno == ENOENT;
  while (const dirent* entry = ::readdir(dir.get())) {
    const std::string name = entry->d_name;
    if (entry->d_type != DT_DIR || name == "." || name == ".." || depth == 0) continue;
    RemoveNested(path + "/" + name, depth - 1);
  }
  return ::rmdir(path.c_str()) == 0 || errno == ENOENT;
}

}  // namespace

CgroupBase ParseCgroupPlace(std::string_view self_cgroup, std::string_view mountinfo) {
  CgroupBase base;
  const auto [mount_root, mount_point] = FindMount(mountinfo);
  const std::optional<std::string> own = OwnPath(self_cgroup);
  if (mount_point.empty()) {
    base.reason = "no cgroup v2 tree is mounted";
  } else if (!own) {
    base.reason = "this process is not in a cgroup v2 group";
  } else if (mount_root != "/" && !(*own + "/").starts_with(mount_root + "/")) {
    base.reason = "this process's cgroup " + *own + " is outside the mounted " + mount_root;
  } else {
    base.root = mount_point;
    base.path = mount_point + (mount_root == "/" ? *own : own->substr(mount_root.size()));
    while (base.path.size() > 1 && base.path.ends_with('/')) base.path.pop_back();
  }
  return base;
}

CgroupBase IfWritable(CgroupBase base) {
  if (base.path.empty()) return base;
  // Moving a process also requires write access to the common ancestor.
  for (const std::string& path : {base.path, base.path + "/cgroup.procs"}) {
    if (::access(path.c_str(), W_OK) == 0) continue;
    return {.reason = path + " is not writable by carmad (a service needs Delegate=yes)"};
  }
  return base;
}

CgroupBase FindCgroupBase() {
  const Result<std::string> self = base::ReadFile("/proc/self/cgroup", kMaxTextBytes);
  const Result<std::string> mounts = base::ReadFile("/proc/self/mountinfo", kMaxTextBytes);
  if (!self || !mounts) return {.reason = "cannot read this process's cgroup from /proc"};
  return PlaceForTasks(IfWritable(ParseCgroupPlace(*self, *mounts)));
}

CgroupBase PlaceForTasks(CgroupBase daemon) {
  const std::size_t slash = daemon.path.rfind('/');
  if (slash == std::string::npos) return daemon;
  std::string place = daemon.path.substr(0, slash);
  if (daemon.path.substr(slash + 1) != kDaemonGroup) place += fmt::format("/{}", kTasksUnit);
  CgroupBase apart = IfWritable({.root = daemon.root, .path = std::move(place)});
  return apart.path.empty() ? daemon : apart;
}

CgroupControls EnableControls(const CgroupBase& base) {
  if (base.path.empty()) return {.why_not = base.reason};
  const auto words = [&](const char* file) {
    const std::string text = base::ReadFile(base.path + file, 4096).value_or("");
    std::set<std::string> found;
    for (const std::string_view word : base::SplitWords(text)) found.emplace(word);
    return found;
  };
  const std::set<std::string> there = words("/cgroup.controllers");
  std::set<std::string> on = words("/cgroup.subtree_control");
  std::string wanted;
  for (const char* name : {"pids", "memory", "cpu", "cpuset"}) {
    if (there.contains(name) && !on.contains(name)) wanted += fmt::format(" +{}", name);
  }
  CgroupControls controls;
  if (!wanted.empty() && base.path.ends_with(fmt::format("/{}", kTasksUnit))) MoveKeeper(base.path);
  const Result<std::string> own = base::ReadFile(base.path + "/cgroup.procs", kMaxTextBytes);
  const bool empty = own && base::Trim(*own).empty();
  if (!wanted.empty() && empty) {
    const std::string control = base.path + "/cgroup.subtree_control";
    // If the kernel refuses to enable all controllers together, enable them one by one.
    if (WriteTo(control, base::Trim(wanted))) {
      on.insert(there.begin(), there.end());
    } else {
      for (const std::string_view each : base::SplitWords(wanted)) {
        if (WriteTo(control, each)) on.emplace(each.substr(1));
      }
    }
  }
  controls.processes = on.contains("pids");
  controls.memory = on.contains("memory");
  controls.cpu = on.contains("cpu");
  controls.cores = on.contains("cpuset");
  if (controls.memory && controls.cpu && controls.cores) return controls;
  std::vector<std::string> missing;
  bool is_off = false;
  for (const char* name : {"memory", "cpu", "cpuset"}) {
    if (!there.contains(name) && !on.contains(name)) missing.emplace_back(name);
    is_off = is_off || (there.contains(name) && !on.contains(name));
  }
  if (!is_off) {
    controls.why_not = fmt::format("{1} has no cgroup v2 controller for {0}",
                                   base::Join(missing, ", "), base.path);
  } else if (empty) {
    controls.why_not = base.path + " does not allow its controllers to be enabled";
  } else {
    controls.why_not = fmt::format(
        "carmad itself is in the group that should contain the task groups, and {} is not "
        "running",
        kTasksUnit);
  }
  return controls;
}

Result<TaskCgroup> TaskCgroup::Create(const std::string& base, const std::string& name) {
  const std::string path = base + "/" + name;
  // A restarted container may have left a group of this name, which is replaced if it is empty.
  if (::mkdir(path.c_str(), 0755) != 0 &&
      !(errno == EEXIST && RemoveCgroup(path) && ::mkdir(path.c_str(), 0755) == 0)) {
    return FailErrno(errno, path);
  }
  UniqueFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return FailErrno(errno, path);
  return TaskCgroup(path, std::move(folder));
}

bool TaskCgroup::Enter(int folder_fd) {
  const UniqueFd procs(::openat(folder_fd, "cgroup.procs", O_WRONLY | O_CLOEXEC));
  return procs && base::WriteAll(procs.get(), "0").has_value();
}

std::optional<std::int64_t> TaskCgroup::OomKills() const {
  const std::optional<std::int64_t> own = ReadOomKills(path_);
  return own ? own : ReadOomKills(path_.substr(0, path_.rfind('/')));
}

bool TaskCgroup::LimitProcesses(std::int64_t most) const {
  return WriteTo(path_ + "/pids.max", std::to_string(most));
}

bool TaskCgroup::WeighCpus(int cpus) const {
  constexpr int kOfOne = 100;  // the kernel's default weight
  constexpr int kMost = 10'000;
  return WriteTo(path_ + "/cpu.weight", std::to_string(std::min(kMost / kOfOne, cpus) * kOfOne));
}

bool TaskCgroup::CapCpus(int cpus) const {
  constexpr std::int64_t kPeriodUs = 100'000;  // the kernel's default
  return WriteTo(path_ + "/cpu.max", fmt::format("{} {}", cpus * kPeriodUs, kPeriodUs));
}

bool TaskCgroup::ConfineTo(const std::string& path, const std::string& cores) {
  return WriteTo(path + "/cpuset.cpus", cores + "\n");
}

bool TaskCgroup::LimitMemory(std::int64_t mib) const {
  // Where the kernel supports it, the group gets no swap and is killed as a whole. The limit itself
  // always applies.
  (void)WriteTo(path_ + "/memory.oom.group", "1");
  (void)WriteTo(path_ + "/memory.swap.max", "0");
  return WriteTo(path_ + "/memory.max", std::to_string(mib << 20));
}

bool TaskCgroup::CountsOomKills() const {
  return ReadOomKills(path_).has_value();
}

bool TaskCgroup::KillCgroup(const std::string& path) {
  return WriteTo(path + "/cgroup.kill", "1");
}

bool TaskCgroup::RemoveCgroup(const std::string& path) {
  return RemoveNested(path, kMaxNesting);
}

std::string CgroupName(std::uint64_t task, int attempt, pid_t shim) {
  return "carma-" + std::to_string(task) + "-" + std::to_string(attempt) + "-" +
         std::to_string(shim);
}

}  // namespace carma::task
