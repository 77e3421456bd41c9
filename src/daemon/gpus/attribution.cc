#include "daemon/gpus/attribution.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/file.h"
#include "base/named_line.h"
#include "base/text.h"
#include "base/user.h"
#include "task/shim/container_command.h"

namespace carma::daemon {
namespace {

// Limits a walk over a process tree that changes while being read; deeper trees do not occur.
constexpr int kMaxAncestors = 64;
constexpr std::size_t kMaxArguments = 1 << 17;  // longest command line in bytes; the rest is cut
constexpr std::size_t kMaxCommand = 120;        // shown part of a command line
// Pending requests; one that hangs delays the others.
constexpr int kMostAsked = 64;

std::string ProcPath(pid_t pid, const char* file) {
  return fmt::format("/proc/{}{}", pid, file);
}

// Also true for the group itself; false if `group` is empty.
bool IsBelow(const std::string& cgroup, const std::string& group) {
  return !group.empty() && (cgroup == group || cgroup.starts_with(group + "/"));
}

// If the administrator hides other users' processes, carmad must not show their arguments.
bool UsersSeeArguments() {
  const Result<std::string> mounts = base::ReadFile("/proc/self/mounts", 1 << 20);
  return mounts && base::HiddenProcesses(*mounts).empty();
}

// Uses the line "Uid:", because the folder in /proc belongs to root if the process is undumpable.
std::optional<uid_t> UserOf(pid_t pid) {
  const std::string ids = base::NamedLine(ProcPath(pid, "/status"), "Uid:");
  const auto uid = base::ParseInt(std::string_view(ids).substr(0, ids.find('\t')));
  return uid ? std::optional(static_cast<uid_t>(*uid)) : std::nullopt;
}

// The parts of a process's user and command that can be read without blocking.
ProcessFace FaceAtOnce(const base::ProcessStat& stat) {
  const std::optional<uid_t> uid = UserOf(stat.id.pid);
  return {uid ? std::to_string(*uid) : "", base::Printable(stat.command, kMaxCommand)};
}

ProcessFace FaceOf(const base::ProcessStat& stat) {
  static const bool with_arguments = UsersSeeArguments();
  ProcessFace face;
  if (const std::optional<uid_t> uid = UserOf(stat.id.pid))
    face.user = base::Printable(base::UserName(*uid), 64);
  std::string command;
  if (with_arguments)
    command = base::ReadFile(ProcPath(stat.id.pid, "/cmdline"), kMaxArguments).value_or("");
  while (!command.empty() && command.back() == '\0') command.pop_back();
  std::replace(command.begin(), command.end(), '\0', ' ');
  face.command = base::Printable(command.empty() ? stat.command : command, kMaxCommand);
  return face;
}

}  // namespace

Attribution::Attribution(std::shared_ptr<boost::asio::io_context> loop) : loop_(std::move(loop)) {}

void Attribution::Add(core::TaskId task, const base::ProcessId& main, const std::string& cgroup,
                      const std::string& containers) {
  Root root{main, {}, cgroup, containers, {}};
  if (const std::optional<base::ProcessStat> stat = base::ReadProcessStat(main.pid);
      stat && stat->id == main) {
    if (const std::optional<base::ProcessStat> shim = base::ReadProcessStat(stat->parent))
      root.shim = shim->id;
  }
  Remove(task);
  roots_[task] = root;
  by_pid_[root.main.pid] = task;
  if (root.shim.pid > 1) by_pid_[root.shim.pid] = task;
  SearchAgain();
}

void Attribution::AddRoot(core::TaskId task, const base::ProcessId& process) {
  const auto found = roots_.find(task);
  if (found == roots_.end()) return;
  found->second.others.push_back(process);
  by_pid_[process.pid] = task;
  SearchAgain();
}

// A pid that was foreign before may now belong to a task.
void Attribution::SearchAgain() {
  for (auto& [pid, known] : known_) known.searched = false;
}

void Attribution::Remove(core::TaskId task) {
  const auto found = roots_.find(task);
  if (found == roots_.end()) return;
  std::vector<pid_t> pids{found->second.main.pid, found->second.shim.pid};
  for (const base::ProcessId& other : found->second.others) pids.push_back(other.pid);
  for (const pid_t pid : pids) {
    const auto by_pid = by_pid_.find(pid);
    if (by_pid != by_pid_.end() && by_pid->second == task) by_pid_.erase(by_pid);
  }
  roots_.erase(found);
  std::erase_if(known_, [&](const auto& entry) { return entry.second.task == task; });
}

Attribution::Known& Attribution::Look(pid_t pid) {
  const std::optional<base::ProcessStat> stat = base::ReadProcessStat(pid);
  const auto [at, is_new] = known_.try_emplace(pid);
  Known& known = at->second;
  if (!is_new && !stat) return known;
  const std::uint64_t start_ticks = stat ? stat->id.start_ticks : 0;
  if (is_new || start_ticks != known.start_ticks) known = {.start_ticks = start_ticks};
  if (!std::exchange(known.searched, true)) known.task = Search(pid, stat);
  return known;
}

std::optional<core::TaskId> Attribution::Find(pid_t pid) {
  return Look(pid).task;
}

std::optional<core::TaskId> Attribution::FindEnded(pid_t pid) {
  if (const std::optional<core::TaskId> task = Find(pid)) return task;
  const auto found = by_pid_.find(pid);
  const bool gone = found != by_pid_.end() && !base::ReadProcessStat(pid);
  return gone ? std::optional(found->second) : std::nullopt;
}

// Requests the full user and command of the process. Returns false if too many requests are
// pending; the caller then tries again later.
bool Attribution::AskWhole(const base::ProcessStat& stat) {
  if (!loop_) return true;
  if (!reader_) reader_.emplace(loop_, BackgroundWorker::AtEnd::kLeave);
  if (reader_->waiting() >= kMostAsked) return false;
  const auto read = [stat] {
    const ProcessFace face = FaceOf(stat);
    // The pid may have been reused.
    return base::Alive(stat.id) ? face : ProcessFace{};
  };
  reader_->Ask(read, [this, id = stat.id](const ProcessFace& face) {
    const auto known = known_.find(id.pid);
    if (known == known_.end() || known->second.start_ticks != id.start_ticks) return;
    if (!face.user.empty()) known->second.face = face;
  });
  return true;
}

const ProcessFace& Attribution::Describe(pid_t pid) {
  Known& known = Look(pid);
  if (known.face_asked) return known.face;
  const std::optional<base::ProcessStat> stat = base::ReadProcessStat(pid);
  const bool there = stat && stat->id.start_ticks == known.start_ticks;
  if (there) known.face = FaceAtOnce(*stat);
  known.face_asked = !there || AskWhole(*stat);
  return known.face;
}

std::optional<core::TaskId> Attribution::RootedIn(const base::ProcessId& process) const {
  const auto found = by_pid_.find(process.pid);
  if (found == by_pid_.end()) return std::nullopt;
  const Root& root = roots_.at(found->second);
  // The pid may have been reused, because the first process of a task ends before its children.
  const bool same = process == root.main || process == root.shim ||
                    std::ranges::find(root.others, process) != root.others.end();
  return same ? std::optional(found->second) : std::nullopt;
}

std::optional<core::TaskId> Attribution::Search(
    pid_t pid, const std::optional<base::ProcessStat>& stat) const {
  if (roots_.empty()) return std::nullopt;
  if (const std::string cgroup = base::CgroupOf(pid); cgroup.size() > 1) {
    for (const auto& [id, root] : roots_) {
      if (IsBelow(cgroup, root.cgroup)) return id;
      if (task::IsInContainerGroup(cgroup, root.containers)) return id;
    }
  }
  std::optional<base::ProcessStat> at = stat;
  for (int depth = 0; depth < kMaxAncestors && at; ++depth) {
    if (const std::optional<core::TaskId> task = RootedIn(at->id)) return task;
    if (at->parent <= 1) break;
    at = base::ReadProcessStat(at->parent);
  }
  return std::nullopt;
}

void Attribution::Retain(const std::vector<pid_t>& pids) {
  std::erase_if(known_, [&](const auto& entry) {
    return std::ranges::find(pids, entry.first) == pids.end();
  });
}

bool Attribution::IsGroupOf(core::TaskId task, const std::string& cgroup) const {
  const auto found = roots_.find(task);
  return found != roots_.end() && IsBelow(cgroup, found->second.cgroup);
}

std::optional<pid_t> Attribution::MainPid(core::TaskId task) const {
  const auto found = roots_.find(task);
  return found == roots_.end() ? std::nullopt : std::optional(found->second.main.pid);
}

std::vector<core::TaskId> Attribution::Tasks() const {
  std::vector<core::TaskId> tasks;
  tasks.reserve(roots_.size());
  for (const auto& [task, root] : roots_) tasks.push_back(task);
  return tasks;
}

}  // namespace carma::daemon
