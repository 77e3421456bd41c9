#include "daemon/gpus/core_meter.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "base/file.h"
#include "base/text.h"

namespace carma::daemon {
namespace {

constexpr base::Duration kSpan{10'000};
constexpr std::size_t kMostProcesses = 1'000;  // limit on the processes counted for one task
constexpr std::size_t kMaxBytes = 1 << 20;

double Ticks(std::string_view word) {
  return static_cast<double>(base::ParseInt(word).value_or(0));
}

// Adds up the busy-time fields of the line "cpu user nice system idle iowait irq softirq steal …".
double BusyTicks(std::string_view line) {
  const std::vector<std::string_view> words = base::SplitWords(line);
  double busy = 0;
  for (const std::size_t field : {1, 2, 3, 6, 7, 8}) {
    if (field < words.size()) busy += Ticks(words[field]);
  }
  return busy;
}

}  // namespace

double CoreMeter::TreeS(pid_t root) const {
  double ticks = 0;
  std::vector<pid_t> open{root};
  for (std::size_t seen = 0; !open.empty() && seen < kMostProcesses; ++seen) {
    const pid_t pid = open.back();
    open.pop_back();
    const auto stat = base::ReadFile(fmt::format("{}/{}/stat", proc_, pid), kMaxBytes);
    if (!stat) continue;
    // The program's name is in parentheses and may contain any characters, including parentheses.
    const std::size_t name_ends = stat->rfind(')');
    if (name_ends == std::string::npos) continue;
    const std::vector<std::string_view> words =
        base::SplitWords(std::string_view(*stat).substr(name_ends + 1));
    for (std::size_t field = 11; field < 15 && field < words.size(); ++field)
      ticks += Ticks(words[field]);
    const auto children =
        base::ReadFile(fmt::format("{}/{}/task/{}/children", proc_, pid, pid), kMaxBytes);
    if (!children) continue;
    for (const std::string_view word : base::SplitWords(*children))
      open.push_back(static_cast<pid_t>(base::ParseInt(word).value_or(0)));
  }
  return ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

std::optional<CoreMeter::Reading> CoreMeter::Look(base::Time now,
                                                  const std::map<core::TaskId, pid_t>& mains) {
  const auto stat = base::ReadFile(proc_ + "/stat", kMaxBytes);
  if (!stat) return std::nullopt;
  Reading reading{.when = now};
  cpus_ = 0;
  for (const std::string_view line : base::Split(*stat, '\n')) {
    if (!line.starts_with("cpu")) break;
    if (line.starts_with("cpu ")) {
      reading.busy_s = BusyTicks(line) / static_cast<double>(::sysconf(_SC_CLK_TCK));
    } else {
      ++cpus_;
    }
  }
  if (cpus_ == 0) return std::nullopt;
  for (const auto& [task, main] : mains) reading.tasks_s[task] = TreeS(main);
  return reading;
}

std::optional<core::HostSampled> CoreMeter::Read(base::Time now,
                                                 const std::map<core::TaskId, pid_t>& mains) {
  std::optional<Reading> reading = Look(now, mains);
  if (!reading) return std::nullopt;
  while (!readings_.empty() && now - readings_.front().when > kSpan) readings_.pop_front();
  readings_.push_back(*std::move(reading));
  const Reading& last = readings_.back();
  const double span_s = base::Seconds(now - readings_.front().when);
  if (span_s <= 0) return std::nullopt;
  core::HostSampled sample{.cpus = static_cast<double>(cpus_)};
  sample.used_cpus = std::max(0.0, (last.busy_s - readings_.front().busy_s) / span_s);
  for (const auto& [task, used_s] : last.tasks_s) {
    // A task that started recently is averaged only over the time since its first reading.
    const auto first = std::ranges::find_if(
        readings_, [&](const Reading& each) { return each.tasks_s.contains(task); });
    const double its_s = base::Seconds(now - first->when);
    if (its_s <= 0) continue;
    sample.tasks_cpus.emplace_back(task, std::max(0.0, (used_s - first->tasks_s.at(task)) / its_s));
  }
  return sample;
}

}  // namespace carma::daemon
