#include "task/describe/lease.h"

#include <fmt/format.h>

#include <limits>
#include <vector>

#include "base/text.h"

namespace carma::task {
namespace {

constexpr std::size_t kMaxKey = 200;

// If the kernel has no boot ID, only the pid and the start time identify the process.
LeaseProcess OfThisBoot(const base::ProcessId& id) {
  const std::string boot = base::BootId();
  return {id, boot.empty() ? "-" : boot};
}

}  // namespace

std::string TextOf(const LeaseProcess& process) {
  return fmt::format("{} {} {}", process.process.pid, process.process.start_ticks, process.boot_id);
}

std::optional<LeaseProcess> ParseLeaseProcess(std::string_view text) {
  const std::vector<std::string_view> words = base::SplitWords(text);
  if (words.size() != 3 || words[2].size() > 64) return std::nullopt;
  const std::optional<std::int64_t> pid = base::ParseInt(words[0]);
  const std::optional<std::int64_t> ticks = base::ParseInt(words[1]);
  if (!pid || *pid < 1 || *pid > std::numeric_limits<pid_t>::max() || !ticks || *ticks < 0)
    return std::nullopt;
  return LeaseProcess{{static_cast<pid_t>(*pid), static_cast<std::uint64_t>(*ticks)},
                      std::string(words[2])};
}

std::string TextOf(const LeaseKey& key) {
  return fmt::format("{} {} {} {} {}", key.cluster, key.job, key.step, key.rank, key.restart);
}

std::optional<LeaseKey> ParseLeaseKey(std::string_view text) {
  const std::vector<std::string_view> words = base::SplitWords(text);
  if (words.size() != 5 || text.size() > kMaxKey || base::HasControls(text)) return std::nullopt;
  const std::optional<std::int64_t> job = base::ParseInt(words[1]);
  const std::optional<std::int64_t> rank = base::ParseInt(words[3]);
  const std::optional<std::int64_t> restart = base::ParseInt(words[4]);
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  if (!job || *job < 1 || !rank || *rank < 0 || *rank > kMost || !restart || *restart < 0 ||
      *restart > kMost)
    return std::nullopt;
  return LeaseKey{std::string(words[0]), static_cast<std::uint64_t>(*job), std::string(words[2]),
                  static_cast<int>(*rank), static_cast<int>(*restart)};
}

std::optional<LeaseProcess> FindLeaseProcess(pid_t pid) {
  const std::optional<base::ProcessStat> stat = base::ReadProcessStat(pid);
  if (!stat || stat->dead()) return std::nullopt;
  return OfThisBoot(stat->id);
}

bool Alive(const LeaseProcess& process) {
  const std::optional<LeaseProcess> now = FindLeaseProcess(process.process.pid);
  return now == process;
}

std::optional<bool> HasBegun(const LeaseProcess& process) {
  const std::optional<base::ProcessStat> stat = base::ReadProcessStat(process.process.pid);
  if (!stat || OfThisBoot(stat->id) != process) return std::nullopt;
  return stat->command != kWaitsForLease;
}

}  // namespace carma::task
