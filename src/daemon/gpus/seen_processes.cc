#include "daemon/gpus/seen_processes.h"

#include "base/file.h"
#include "base/text.h"

namespace carma::daemon {
namespace {

// Limit on the walk up the process tree, which may change while it is being read. Real trees are
// not this deep.
constexpr int kMaxAncestors = 64;
constexpr std::size_t kMostCommand = 64;

// True if the earlier result is still valid. Checking the process and its parent is enough: if
// another ancestor exits, its children are adopted by init or by an ancestor that is already in the
// result.
bool IsSame(const SeenProcess& before, const base::ProcessStat& now) {
  if (!before.whole || before.line.front() != now.id) return false;
  const bool same_parent =
      before.line.size() > 1 ? before.line[1].pid == now.parent : now.parent <= 1;
  return same_parent && before.face.command == base::Printable(now.command, kMostCommand);
}

}  // namespace

std::optional<uid_t> UserOf(pid_t pid) {
  const std::string ids = base::NamedLine("/proc/" + std::to_string(pid) + "/status", "Uid:");
  const auto uid = base::ParseInt(std::string_view(ids).substr(0, ids.find('\t')));
  return uid ? std::optional(static_cast<uid_t>(*uid)) : std::nullopt;
}

SeenProcess SeeProcess(pid_t pid, const SeenProcess* before) {
  SeenProcess seen;
  std::optional<base::ProcessStat> at = base::ReadProcessStat(pid);
  if (!at) return seen;
  if (before != nullptr && IsSame(*before, *at)) return *before;
  const std::optional<uid_t> uid = UserOf(pid);
  seen.face = {uid ? std::to_string(*uid) : "", base::Printable(at->command, kMostCommand)};
  seen.cgroup = base::CgroupOf(pid);
  for (int depth = 0; depth < kMaxAncestors && at; ++depth) {
    seen.line.push_back(at->id);
    if (at->parent <= 1) {
      seen.whole = uid && !seen.cgroup.empty();
      break;
    }
    at = base::ReadProcessStat(at->parent);
  }
  return seen;
}

SeenProcesses SeeProcesses(const gpu::Round& round, const SeenProcesses& before) {
  SeenProcesses seen;
  for (const std::optional<gpu::ReadResult<gpu::Reading>>& answer : round) {
    if (!answer || !*answer) continue;
    for (const gpu::ProcessUse& process : (*answer)->processes) {
      if (seen.contains(process.pid)) continue;
      const auto known = before.find(process.pid);
      seen[process.pid] = SeeProcess(process.pid, known == before.end() ? nullptr : &known->second);
    }
  }
  return seen;
}

}  // namespace carma::daemon
