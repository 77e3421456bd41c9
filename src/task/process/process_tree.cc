#include "task/process/process_tree.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>

#include "base/file.h"
#include "base/pidfd.h"
#include "base/text.h"

namespace carma::task {
namespace {

constexpr std::size_t kMaxEnvironmentBytes = 16 << 20;

std::vector<pid_t> AllProcesses() {
  std::vector<pid_t> pids;
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir("/proc"), ::closedir);
  if (dir == nullptr) return pids;
  while (const dirent* entry = ::readdir(dir.get())) {
    const std::optional<std::int64_t> pid = base::ParseInt(entry->d_name);
    if (pid && *pid > 0) pids.push_back(static_cast<pid_t>(*pid));
  }
  return pids;
}

// Returns the user's processes for which `fits` accepts the content of /proc/PID/<file>, split at
// NUL bytes.
template <class Fits>
std::vector<base::ProcessId> ProcessesWith(uid_t uid, const char* file, Fits fits) {
  std::vector<base::ProcessId> found;
  for (const pid_t pid : AllProcesses()) {
    if (!BelongsTo(pid, uid)) continue;
    const std::optional<base::ProcessStat> stat = base::ReadProcessStat(pid);
    if (!stat || stat->dead()) continue;
    const Result<std::string> text =
        base::ReadFile("/proc/" + std::to_string(pid) + file, kMaxEnvironmentBytes);
    if (text && fits(base::Split(*text, '\0'))) found.push_back(stat->id);
  }
  return found;
}

bool IsInMask(const base::ProcessId& process, const char* mask_name, int signal) {
  const std::string mask =
      base::NamedLine("/proc/" + std::to_string(process.pid) + "/status", mask_name);
  return (std::strtoull(mask.c_str(), nullptr, 16) >> (signal - 1)) % 2 == 1;
}

}  // namespace

bool BelongsTo(pid_t pid, uid_t uid) {
  struct stat st {};
  return ::stat(("/proc/" + std::to_string(pid)).c_str(), &st) == 0 && st.st_uid == uid;
}

std::vector<base::ProcessStat> Descendants(pid_t root) {
  if (root <= 0) return {};  // the kernel is the parent of pid 1, and thus of all processes
  std::multimap<pid_t, base::ProcessStat> by_parent;
  for (const pid_t pid : AllProcesses()) {
    std::optional<base::ProcessStat> stat = base::ReadProcessStat(pid);
    if (stat) by_parent.emplace(stat->parent, std::move(*stat));
  }
  std::vector<base::ProcessStat> found;
  std::vector<pid_t> open = {root};
  while (!open.empty()) {
    const auto [first, last] = by_parent.equal_range(open.back());
    open.pop_back();
    for (auto child = first; child != last; ++child) {
      open.push_back(child->second.id.pid);
      if (!child->second.dead()) found.push_back(child->second);
    }
    by_parent.erase(first, last);  // so that a reused pid cannot make this loop endless
  }
  return found;
}

bool Catches(const base::ProcessId& process, int signal) {
  return IsInMask(process, "SigCgt:", signal) && !IsInteractiveShell(process);
}

bool IsInteractiveShell(const base::ProcessId& process) {
  return IsInMask(process, "SigIgn:", SIGTERM) && IsInMask(process, "SigIgn:", SIGTSTP);
}

std::vector<base::ProcessId> ProcessesWithVariable(uid_t uid, const std::string& assignment) {
  return ProcessesWith(uid, "/environ", [&](const std::vector<std::string_view>& variables) {
    return std::ranges::find(variables, assignment) != variables.end();
  });
}

std::vector<base::ProcessId> ProcessesWithArgument(uid_t uid, const std::string& argument) {
  return ProcessesWith(uid, "/cmdline", [&](const std::vector<std::string_view>& words) {
    return words.size() == 3 && words[1] == argument;  // the last word is empty
  });
}

bool MayLive(const base::ProcessId& process) {
  if (process.pid <= 0) return false;
  if (const std::optional<base::ProcessStat> now = base::ReadProcessStat(process.pid))
    return now->id == process && !now->dead();
  return ::kill(process.pid, 0) == 0 || errno == EPERM;
}

void Tell(const base::ProcessId& process, std::initializer_list<int> signals) {
  const base::UniqueFd fd = base::OpenPidfd(process.pid);
  if (!fd || !base::Alive(process)) return;
  for (const int number : signals) (void)base::SendSignal(fd, number);
}

std::vector<base::ProcessId> SessionMembers(uid_t uid, const base::ProcessId& leader) {
  std::vector<base::ProcessId> found;
  const std::optional<base::ProcessStat> now = base::ReadProcessStat(leader.pid);
  if (now && now->id != leader) return found;
  for (const pid_t pid : AllProcesses()) {
    const std::optional<base::ProcessStat> stat = base::ReadProcessStat(pid);
    if (!stat || stat->session != leader.pid || stat->dead()) continue;
    if (BelongsTo(pid, uid)) found.push_back(stat->id);
  }
  return found;
}

}  // namespace carma::task
