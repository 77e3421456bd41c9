// Finds a lease's processes and decides which of them may be signalled.
#include "task/lease/lease_processes.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <set>

#include "base/file.h"
#include "base/text.h"
#include "task/process/process_tree.h"

namespace carma::task {
namespace {

constexpr int kMaxAncestors = 256;  // deeper trees do not occur
constexpr std::size_t kMaxStatusBytes = 65'536;
// A shim that an earlier daemon started is not a child of this daemon, but it still has this name.
constexpr std::string_view kShim = "carma-shim";

// Returns true if an unprivileged process of this user could signal the process. Like the kernel,
// compares the real and the saved UID. The owner of /proc/PID may differ if the program changed its
// UID or is not dumpable.
bool RunsAs(pid_t pid, std::uint32_t uid) {
  const std::string ids = base::NamedLine(fmt::format("/proc/{}/status", pid), "Uid:");
  const std::vector<std::string_view> words = base::SplitWords(ids);
  return words.size() >= 3 && (base::ParseInt(words[0]) == uid || base::ParseInt(words[2]) == uid);
}

bool IsAbove(pid_t pid, pid_t below) {
  std::optional<base::ProcessStat> at = base::ReadProcessStat(below);
  for (int depth = 0; depth < kMaxAncestors && at && at->parent > 0; ++depth) {
    if (at->parent == pid) return true;
    at = base::ReadProcessStat(at->parent);
  }
  return false;
}

// Children of all threads of the process, as listed by the kernel. Avoids scanning all processes on
// the machine.
std::vector<pid_t> ChildrenOf(pid_t pid) {
  std::vector<pid_t> children;
  std::error_code ignored;
  const std::filesystem::path threads = fmt::format("/proc/{}/task", pid);
  for (std::filesystem::directory_iterator at(threads, ignored), end; at != end;
       at.increment(ignored)) {
    const std::string text =
        base::ReadFile(at->path().string() + "/children", kMaxStatusBytes).value_or("");
    for (const std::string_view word : base::SplitWords(text)) {
      if (const auto child = base::ParseInt(word)) children.push_back(static_cast<pid_t>(*child));
    }
  }
  return children;
}

void AddOutputs(pid_t pid, std::vector<std::string>& outputs) {
  constexpr int kMostFiles = 64;  // per process
  std::error_code ignored;
  int seen = 0;
  const std::string process = fmt::format("/proc/{}", pid);
  for (std::filesystem::directory_iterator at(process + "/fd", ignored), end; at != end;
       at.increment(ignored)) {
    if (++seen > kMostFiles) break;
    const std::string path = std::filesystem::read_symlink(at->path(), ignored).string();
    const bool file = path.starts_with('/') && !path.starts_with("/dev/") &&
                      !path.starts_with("/proc/") && !path.ends_with(" (deleted)") &&
                      !base::HasControls(path);
    if (ignored || !file) continue;
    const std::string number = at->path().filename().string();
    const std::string info = process + "/fdinfo/" + number;
    const std::string flags = base::NamedLine(info, "flags:");
    const int access = static_cast<int>(std::strtoul(flags.c_str(), nullptr, 8)) & O_ACCMODE;
    const bool output = number == "1" || number == "2";
    if (access != O_WRONLY && !(output && access == O_RDWR)) continue;
    const std::string inode = base::NamedLine(info, "ino:");  // since Linux 5.14
    std::string line = fmt::format("{} {}", inode, path);
    if (inode.empty() || std::ranges::find(outputs, line) != outputs.end()) continue;
    outputs.push_back(std::move(line));
  }
}

}  // namespace

std::optional<std::string> WhyNoLease(pid_t pid, pid_t daemon) {
  if (pid == 1) return "is the init process of this machine";
  if (pid == daemon) return "is carmad";
  const std::optional<base::ProcessStat> stat = base::ReadProcessStat(pid);
  if (!stat) return std::nullopt;
  if (stat->command == kShim || (daemon > 0 && stat->parent == daemon)) return "belongs to carmad";
  if (daemon > 0 && IsAbove(pid, daemon)) return "is an ancestor of carmad";
  return std::nullopt;
}

bool IsBelow(const base::ProcessId& process, const base::ProcessId& above) {
  std::optional<base::ProcessStat> at = base::ReadProcessStat(process.pid);
  for (int depth = 0; depth < kMaxAncestors && at; ++depth) {
    if (at->id == above) return true;
    if (at->parent <= 1) break;
    at = base::ReadProcessStat(at->parent);
  }
  return false;
}

std::vector<base::ProcessStat> ProcessesOf(const Lease& lease, pid_t daemon) {
  std::vector<base::ProcessStat> found;
  std::set<pid_t> known;
  for (const LeaseMember& member : lease.members) {
    if (member.keeper) known.insert(member.process.process.pid);
  }
  for (const LeaseMember& member : lease.members) {
    const pid_t pid = member.process.process.pid;
    if (!Alive(member.process) || WhyNoLease(pid, daemon)) continue;
    const std::optional<base::ProcessStat> stat = base::ReadProcessStat(pid);
    if (stat && known.insert(pid).second) found.push_back(*stat);
    for (const base::ProcessStat& each : Descendants(pid)) {
      if (known.insert(each.id.pid).second) found.push_back(each);
    }
  }
  if (daemon <= 0 || !known.contains(daemon)) return found;
  std::set<pid_t> served{daemon};
  for (const base::ProcessStat& each : Descendants(daemon)) served.insert(each.id.pid);
  std::erase_if(found, [&](const base::ProcessStat& each) { return served.contains(each.id.pid); });
  return found;
}

void SignalProcesses(const Lease& lease, int number, pid_t daemon, bool handlers_only) {
  for (const base::ProcessStat& each : ProcessesOf(lease, daemon)) {
    if (!RunsAs(each.id.pid, lease.uid)) continue;
    if (!handlers_only || Catches(each.id, number)) Tell(each.id, {number});
  }
}

std::vector<std::string> OutputsOf(const Lease& lease, pid_t daemon) {
  std::vector<std::string> outputs;
  for (const base::ProcessStat& each : ProcessesOf(lease, daemon)) AddOutputs(each.id.pid, outputs);
  return outputs;
}

bool IsStopped(const Lease& lease) {
  std::vector<pid_t> waiting;
  for (const LeaseMember& member : lease.members) {
    const pid_t pid = member.process.process.pid;
    if (!member.keeper) waiting.push_back(pid);
    if (member.keeper) std::ranges::copy(ChildrenOf(pid), std::back_inserter(waiting));
  }
  return !waiting.empty() && std::ranges::all_of(waiting, [](pid_t pid) {
    const std::optional<base::ProcessStat> stat = base::ReadProcessStat(pid);
    return stat && stat->state == 'T';
  });
}

}  // namespace carma::task
