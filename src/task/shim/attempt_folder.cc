#include "task/shim/attempt_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "base/try.h"
#include "base/unique_fd.h"
#include "task/process/group_limiter.h"
#include "task/process/process_tree.h"
#include "task/process/user.h"

namespace carma::task {
namespace {

using base::UniqueFd;

constexpr int kKillRounds = 3;  // a process that is being forked may escape the first rounds
constexpr std::size_t kMaxLogBytes = 65'536;
// Time limit for removing a lost attempt's GPU memory limits. Short, because the caller waits.
constexpr std::chrono::milliseconds kLostPatience{1'000};

ShimOrder ToShimOrder(const LaunchOrder& order, const CgroupBase& cgroup) {
  ShimOrder shim{order, cgroup.path, cgroup.root};
  if (shim.spec.script) shim.spec.command.clear();
  if (shim.spec.stderr_path.empty()) shim.spec.stderr_path = shim.spec.stdout_path;
  return shim;
}

// Replaces the file, so that a reader sees either the old or the new text. Does not sync it.
Result<Unit> WriteNew(const std::string& path, std::string_view text, mode_t mode, uid_t uid,
                      gid_t gid) {
  const std::string draft = path + ".new";
  UniqueFd fd(::open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return FailErrno(errno, path);
  CARMA_TRY(base::Wrap(base::WriteAll(fd.get(), text), path));
  const bool own = uid == ::geteuid();
  if ((!own && CanSwitchUser() && ::fchown(fd.get(), uid, gid) != 0) ||
      ::fchmod(fd.get(), mode) != 0 || ::rename(draft.c_str(), path.c_str()) != 0) {
    return FailErrno(errno, path);
  }
  return Unit{};
}

// Returns true if reading may succeed later, false if the file is missing or invalid.
bool CannotReadNow(const base::Error& error) {
  return error.code == ErrorCode::kIo || error.code == ErrorCode::kUnavailable;
}

// Reads and parses one of the attempt's files.
template <class T>
Result<T> ReadPart(const std::string& dir, const char* name, std::size_t max_bytes,
                   Result<T> (*parse)(std::string_view)) {
  const std::string text = CARMA_TRY(base::ReadFile(dir + "/" + name, max_bytes));
  return parse(text);
}

// Reads the owner file, which must exist. An owner file with invalid content (for example, empty
// after a power failure) names a dead owner. Returns kIo if the file cannot be read at the moment.
Result<ShimOwner> ReadOwner(const std::string& dir) {
  const Result<ShimOwner> owner = ReadPart(dir, kOwnerFile, kMaxOwnerBytes, ParseShimOwner);
  if (!owner && CannotReadNow(owner.error())) return owner;
  return owner.value_or(ShimOwner{});
}

// The shim's last error message, which explains why an attempt never began.
std::string LastComplaint(const std::string& dir) {
  const std::string text = base::ReadFile(dir + "/" + kShimLogFile, kMaxLogBytes).value_or("");
  const std::string_view log = base::Trim(text);
  return std::string(log.substr(log.rfind('\n') + 1));
}

// Names of the folders in `path`; links are not followed.
std::vector<std::string> FolderNames(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator at(path, error), end; !error && at != end;
       at.increment(error)) {
    if (at->symlink_status(error).type() == std::filesystem::file_type::directory)
      names.push_back(at->path().filename().string());
  }
  return names;
}

std::vector<base::ProcessId> Leftovers(uid_t uid, const std::optional<ShimStarted>& started,
                                       const std::string& dir) {
  std::vector<base::ProcessId> left =
      ProcessesWithVariable(uid, std::string(kAttemptVariable) + "=" + dir);
  if (started) std::ranges::copy(SessionMembers(uid, started->process), std::back_inserter(left));
  return left;
}

void KillLeftovers(uid_t uid, const std::optional<ShimStarted>& started, const std::string& dir) {
  for (int round = 0; round < kKillRounds; ++round) {
    const std::vector<base::ProcessId> left = Leftovers(uid, started, dir);
    for (const base::ProcessId& process : left) Tell(process, {SIGKILL});
    if (left.empty()) break;
  }
}

// Kills a task that has lost its shim: nothing watches its processes, and they must be gone before
// the next attempt. Returns the cgroup folder if it could not be removed yet, otherwise "".
std::string KillWithoutShim(const KnownAttempt& attempt, const ShimOwner& owner,
                            const std::optional<ShimStarted>& started) {
  if (owner.boot_id != base::BootId()) return {};  // no process outlives a reboot
  const Result<ShimOrder> order = ReadOrder(attempt.dir);
  if (!order) return {};
  const std::string group = GroupOf(attempt, order->cgroup_base, owner.process.pid);
  if (!group.empty()) TaskCgroup::KillCgroup(group);
  KillLeftovers(order->uid, started, attempt.dir);
  if (!group.empty() && !order->limiter.empty()) {
    // The killed processes may need a moment to exit but can no longer allocate memory, so the
    // limits can be removed now.
    (void)LimitGpuMemory(order->limiter, group, NoLimitWords(order->memory_limits), kLostPatience);
  }
  return group.empty() || TaskCgroup::RemoveCgroup(group) ? std::string() : group;
}

// Converts the end time of a task that ended before the last boot to this boot's CLOCK_BOOTTIME.
// The result is negative.
void FollowBoot(ShimReport& report) {
  const std::int64_t ago_ms = base::ToMs(base::SystemClock().Now()) - report.ended_ms;
  report.ended_boot_ns = base::BootTimeNs() - ago_ms * 1'000'000;
}

// The outcome of an attempt whose folder or owner file was removed during or after its run. No
// report can arrive any longer, so all of its processes are killed.
Outcome Vanished(const KnownAttempt& attempt, const CgroupBase& cgroup,
                 const std::vector<base::ProcessId>& shims) {
  Outcome outcome{.kind = OutcomeKind::kLost, .text = "its folder " + attempt.dir + " was removed"};
  for (const base::ProcessId& shim : shims) {
    outcome.leftover_group = GroupOf(attempt, cgroup.path, shim.pid);
    if (!outcome.leftover_group.empty()) TaskCgroup::KillCgroup(outcome.leftover_group);
    Tell(shim, {SIGKILL});
  }
  KillLeftovers(attempt.uid, std::nullopt, attempt.dir);
  return outcome;
}

Outcome Unknown(const base::Error& why) {
  return {.kind = OutcomeKind::kUnknown, .text = why.message};
}

Outcome NeverBegan(std::string text) {
  return {.kind = OutcomeKind::kNeverBegan, .text = std::move(text)};
}

// Makes sure that no shim will run the attempt. Returns empty if a shim claimed the attempt first.
std::optional<Outcome> Abandon(const std::string& dir) {
  // A shim is started only after its folder has been created.
  const Result<bool> prepared = base::CheckExists(dir);
  if (!prepared) return Unknown(prepared.error());
  if (!*prepared) return NeverBegan("carmad exited before the task was started");
  const std::string complaint = LastComplaint(dir);
  const std::string text =
      complaint.empty() ? "its shim exited before the task started" : complaint;
  const Result<bool> claimed = ClaimAttempt(dir, /*abandon=*/true);
  if (claimed && *claimed) return NeverBegan(text);
  if (claimed) return std::nullopt;
  // The disk is too full even for a claim, so remove the order instead. A shim reads the order only
  // after it has claimed the attempt. So if no claim is visible after the removal, no shim will
  // ever run this attempt.
  ::unlink((dir + "/" + kOrderFile).c_str());
  const Result<bool> owned = base::CheckExists(dir + "/" + kOwnerFile);
  if (!owned) return Unknown(owned.error());
  if (*owned) return std::nullopt;
  return NeverBegan(text);
}

}  // namespace

std::string GroupOf(const KnownAttempt& attempt, const std::string& base, pid_t shim) {
  if (base.empty()) return {};
  return base + "/" + CgroupName(core::Number(attempt.id), attempt.number, shim);
}

Result<Unit> PrepareAttempt(const LaunchOrder& order, const CgroupBase& cgroup) {
  const std::string& dir = order.attempt_dir;
  const std::string text = CARMA_TRY(ToText(ToShimOrder(order, cgroup)));
  // As root, let users enter the folder but not list it, so that an interpreter running as the
  // task's user can read the script.
  const mode_t mode = CanSwitchUser() ? 0711 : 0700;
  CARMA_TRY(base::MakeDirs(dir, mode));
  if (base::Exists(dir + "/" + kOwnerFile))
    return Conflict(dir + ": this attempt has already been started");
  if (order.spec.script) {
    const std::string path = dir + "/" + kScriptFile;
    CARMA_TRY(WriteNew(path, *order.spec.script, 0500, order.uid, order.gid));
  }
  return WriteNew(dir + "/" + kOrderFile, text, 0600, ::geteuid(), ::getegid());
}

bool WasAsked(const std::string& attempt_dir, base::Time leaves_by) {
  // carmad derives the deadline from two clocks, so it may differ a little after a restart.
  constexpr base::Duration kSame{1'000};
  const std::string text = base::ReadFile(attempt_dir + "/" + kDeadlineFile, 32).value_or("");
  const std::optional<std::int64_t> asked_ms = base::ParseInt(base::Trim(text));
  return text.ends_with('\n') && asked_ms &&
         std::chrono::abs(base::FromMs(*asked_ms) - leaves_by) <= kSame;
}

Result<Unit> StateDeadline(const std::string& attempt_dir, std::optional<base::Time> leaves_by,
                           bool asked) {
  const std::string text = leaves_by ? std::to_string(base::ToMs(*leaves_by)) : "inf";
  return WriteNew(attempt_dir + "/" + kDeadlineFile, text + (asked ? "\n" : ""), 0644, ::geteuid(),
                  ::getegid());
}

Result<Unit> StateStop(const std::string& attempt_dir, const std::string& why) {
  return WriteNew(attempt_dir + "/" + kStopFile, why, 0644, ::geteuid(), ::getegid());
}

Outcome SettleAttempt(const KnownAttempt& attempt, const CgroupBase& cgroup) {
  const std::string& dir = attempt.dir;
  Outcome outcome;
  const Result<bool> owned = base::CheckExists(dir + "/" + kOwnerFile);
  if (!owned) return Unknown(owned.error());
  if (!*owned) {
    const Result<bool> prepared = base::CheckExists(dir);
    if (!prepared) return Unknown(prepared.error());
    const std::vector<base::ProcessId> shims =
        *prepared ? std::vector<base::ProcessId>() : ProcessesWithArgument(::geteuid(), dir);
    if (attempt.started || !shims.empty()) return Vanished(attempt, cgroup, shims);
    if (std::optional<Outcome> abandoned = Abandon(dir)) return *abandoned;
  }
  const Result<ShimOwner> read = ReadOwner(dir);
  if (!read) return Unknown(read.error());
  const ShimOwner& owner = *read;
  if (owner.abandoned) return NeverBegan("it was abandoned before the task started");
  // Check whether the shim is alive before reading the report. In the reverse order, a shim that
  // reports and exits in between would count as lost.
  const bool lives = OwnerLives(owner);
  outcome.shim = owner.process;
  outcome.started = ReadStarted(dir);
  Result<ShimReport> report = ReadPart(dir, kExitFile, kReportReserveBytes, ParseShimReport);
  if (!report && CannotReadNow(report.error())) {
    outcome.kind = OutcomeKind::kUnknown;
    outcome.text = report.error().message;
    if (!lives) outcome.shim = {};  // after a reboot, another process may have its pid
  } else if (report) {
    outcome.kind = OutcomeKind::kReported;
    outcome.report = std::move(*report);
    if (owner.boot_id != base::BootId()) FollowBoot(outcome.report);
  } else if (lives) {
    outcome.kind = OutcomeKind::kLives;
  } else {
    outcome.kind = OutcomeKind::kLost;
    outcome.text = "its shim exited without leaving a report: " + report.error().message;
    outcome.leftover_group = KillWithoutShim(attempt, owner, outcome.started);
  }
  return outcome;
}

std::optional<ShimStarted> ReadStarted(const std::string& attempt_dir) {
  const Result<ShimStarted> started =
      ReadPart(attempt_dir, kStartedFile, kStartedReserveBytes, ParseShimStarted);
  return started ? std::optional(*started) : std::nullopt;
}

std::optional<base::Duration> SinceStart(const std::string& attempt_dir) {
  const std::optional<ShimStarted> started = ReadStarted(attempt_dir);
  const Result<ShimOwner> owner = ReadOwner(attempt_dir);
  if (!started || !owner || owner->boot_id != base::BootId()) return std::nullopt;
  const auto began_ms =
      static_cast<std::int64_t>(started->process.start_ticks) * 1'000 / ::sysconf(_SC_CLK_TCK);
  return base::Duration(base::BootTimeNs() / 1'000'000 - began_ms);
}

Result<ShimOrder> ReadOrder(const std::string& attempt_dir) {
  return ReadPart(attempt_dir, kOrderFile, kMaxOrderBytes, ParseShimOrder);
}

std::optional<base::Duration> KillGraceOf(const std::string& attempt_dir) {
  const Result<ShimOrder> order = ReadOrder(attempt_dir);
  return order ? std::optional(order->kill_grace) : std::nullopt;
}

std::size_t SweepAttempts(const std::string& folder,
                          const std::function<bool(core::TaskId, int attempt)>& kept) {
  std::size_t swept = 0;
  for (const std::string& task : FolderNames(folder)) {
    const std::string task_dir = folder + "/" + task;
    const std::optional<std::int64_t> id = base::ParseInt(task);
    if (!id || *id < 1) continue;
    for (const std::string& attempt : FolderNames(task_dir)) {
      const std::string dir = task_dir + "/" + attempt;
      const std::optional<std::int64_t> number = base::ParseInt(attempt);
      if (!number || *number < 1 || *number > INT32_MAX) continue;
      if (kept(static_cast<core::TaskId>(*id), static_cast<int>(*number))) continue;
      const Result<ShimOwner> owner = ReadOwner(dir);
      if (!owner || OwnerLives(*owner)) continue;
      if (RemoveAttempt(dir)) ++swept;
    }
    ::rmdir(task_dir.c_str());  // fails unless it is empty
  }
  return swept;
}

Result<Unit> RemoveAttempt(const std::string& attempt_dir) {
  std::error_code error;
  std::filesystem::remove_all(attempt_dir, error);  // removes links but never follows them
  if (error) return FailErrno(error.value(), attempt_dir);
  ::rmdir(std::filesystem::path(attempt_dir).parent_path().c_str());  // fails unless it is empty
  return Unit{};
}

}  // namespace carma::task
