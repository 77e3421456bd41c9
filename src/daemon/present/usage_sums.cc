#include "daemon/present/usage_sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "base/text.h"

namespace carma::daemon {

using base::Duration;
using core::Time;

namespace {

std::chrono::sys_days DayOf(Time at) {
  const std::chrono::sys_time<std::chrono::milliseconds> when{
      std::chrono::milliseconds(base::ToMs(at))};
  return std::chrono::floor<std::chrono::days>(when);
}

Time BeginOf(std::chrono::sys_days day) {
  return base::FromMs(
      std::chrono::duration_cast<std::chrono::milliseconds>(day.time_since_epoch()).count());
}

}  // namespace

Result<UsageBy> ParseUsageBy(std::string_view text) {
  UsageBy by;
  for (const std::string_view piece : base::Split(text, ',')) {
    const std::string_view word = base::Trim(piece);
    const bool timed = word == "month" || word == "day";
    if (word == "user") {
      by.user = true;
    } else if (word == "account") {
      by.account = true;
    } else if (word == "class" || word == "qos") {
      by.qos = true;
    } else if (timed && by.period == UsageBy::Period::kAll) {
      by.period = word == "month" ? UsageBy::Period::kMonth : UsageBy::Period::kDay;
    } else {
      return Invalid(
          "by: expected one or more of user, account, class (or qos), and month or day, not '{}'",
          base::Printable(text, 60));
    }
  }
  return by;
}

std::string UsageSums::PeriodOf(Time at) const {
  if (by_.period == UsageBy::Period::kAll) return "";
  const std::chrono::year_month_day date{DayOf(at)};
  std::string text = fmt::format("{:04}-{:02}", static_cast<int>(date.year()),
                                 static_cast<unsigned>(date.month()));
  if (by_.period == UsageBy::Period::kDay)
    text += fmt::format("-{:02}", static_cast<unsigned>(date.day()));
  return text;
}

Time UsageSums::PeriodEnd(Time at) const {
  using std::chrono::days, std::chrono::months, std::chrono::year_month_day;
  if (by_.period == UsageBy::Period::kAll) return to_;
  const std::chrono::sys_days day = DayOf(at);
  if (by_.period == UsageBy::Period::kDay) return BeginOf(day + days{1});
  const year_month_day date{day};
  return BeginOf((date.year() / date.month() + months{1}) / std::chrono::day{1});
}

void UsageSums::Add(const store::EndedAttempt& attempt) {
  const Time end = std::min(attempt.taken.to, to_);
  Time at = std::max(attempt.taken.from, from_);
  // Zero-length attempts count, too.
  const bool point = attempt.taken.from >= from_ && attempt.taken.from == end;
  if (point) AddPiece(attempt, at, end);
  while (at < end) {
    const Time until = std::min(end, PeriodEnd(at));
    AddPiece(attempt, at, until);
    at = until;
  }
}

void UsageSums::AddPiece(const store::EndedAttempt& attempt, Time from, Time to) {
  const core::Taken& taken = attempt.taken;
  Sum& sum = sums_[{by_.user ? taken.user : "", by_.account ? taken.account : "",
                    by_.qos ? taken.qos : "", PeriodOf(from)}];
  const std::int64_t length_ms = (to - from).count();
  sum.tasks.insert(core::Number(attempt.task));
  sum.gpu_ms += taken.gpus * length_ms;
  sum.share_s += taken.rate * base::Seconds(to - from);
  sum.promised_mib_ms += attempt.promised_mib * taken.gpus * length_ms;
  const std::int64_t unused_mib =
      std::max<std::int64_t>(0, attempt.promised_mib - attempt.peak_mib);
  sum.unused_mib_ms += unused_mib * taken.gpus * length_ms;
  if (from == taken.from) {
    ++sum.attempts;
    sum.waiting_ms += attempt.waited.count();
  }
  if (to == taken.to && attempt.exit == core::ExitKind::kOutOfMemory) ++sum.ooms;
  for (const std::string& uuid : attempt.gpu_uuids) gpus_[uuid].pieces.push_back({from, to, &sum});
}

void UsageSums::Add(const store::GpuUsage& usage) {
  const auto at = gpus_.find(usage.gpu_uuid);
  if (at == gpus_.end() || std::isnan(usage.energy_j) || usage.to <= usage.from) return;
  Gpu& gpu = at->second;
  if (!std::exchange(gpu.sorted, true)) std::ranges::stable_sort(gpu.pieces, {}, &Piece::from);
  for (; gpu.next < gpu.pieces.size() && gpu.pieces[gpu.next].from < usage.to; ++gpu.next)
    gpu.there.push_back(gpu.pieces[gpu.next]);
  std::erase_if(gpu.there, [&](const Piece& each) { return each.to <= usage.from; });
  const auto shared = [&](const Piece& each) {
    return base::Seconds(
        std::max(Duration{0}, std::min(each.to, usage.to) - std::max(each.from, usage.from)));
  };
  double all_s = 0;
  for (const Piece& each : gpu.there) all_s += shared(each);
  if (all_s <= 0) return;
  // Energy used while no task was running is not attributed to any user.
  const double watts = usage.energy_j / std::max(all_s, base::Seconds(usage.to - usage.from));
  for (const Piece& each : gpu.there)
    each.of->energy_j = each.of->energy_j.value_or(0) + watts * shared(each);
}

std::vector<api::UsageView> UsageSums::Rows() const {
  std::vector<api::UsageView> rows;
  for (const auto& [key, sum] : sums_) {
    const auto& [user, account, qos, period] = key;
    rows.push_back({.user = user,
                    .account = account,
                    .qos = qos,
                    .period = period,
                    .tasks = static_cast<std::int64_t>(sum.tasks.size()),
                    .attempts = sum.attempts,
                    .gpu_s = static_cast<double>(sum.gpu_ms) / 1000,
                    .share_s = sum.share_s,
                    .waiting_s = static_cast<double>(sum.waiting_ms) / 1000,
                    .energy_j = sum.energy_j,
                    .ooms = sum.ooms,
                    .promised_mib_s = static_cast<double>(sum.promised_mib_ms) / 1000,
                    .unused_mib_s = static_cast<double>(sum.unused_mib_ms) / 1000});
  }
  return rows;
}

}  // namespace carma::daemon
