#include "core/books/limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text.h"
#include "core/values/task.h"

namespace carma::core {
namespace {

constexpr double kHourS = 3600;
constexpr double kLongestAheadS = 1e9;  // changes further ahead are ignored

bool Names(const std::string& rule, const std::string& name) {
  return rule.empty() || rule == "*" ? rule.empty() || !name.empty() : rule == name;
}

double SecondsOf(Time time) {
  return static_cast<double>(base::ToMs(time)) / 1000;
}

bool KeepsFromStarting(const LimitRule& rule) {
  return rule.running || rule.gpus || rule.memory_mib || rule.cpus || rule.host_memory_mib ||
         rule.gpu_hours;
}

}  // namespace

Limits::Names Limits::NamesOf(const TaskRequest& request) {
  return {UserOf(request), request.account.value_or(""), QosOf(request)};
}

bool Limits::IsAbout(const LimitRule& rule, const Names& names) const {
  return core::Names(rule.user, names.user) && core::Names(rule.account, names.account) &&
         core::Names(rule.qos, names.qos);
}

Limits::Key Limits::KeyOf(std::size_t rule, const Names& names) const {
  const LimitRule& of = rules_[rule];
  return {rule, of.user.empty() ? "" : names.user, of.account.empty() ? "" : names.account,
          of.qos.empty() ? "" : names.qos};
}

const Limits::Count& Limits::CountOf(std::size_t rule, const Names& names) const {
  static const Count kNone;
  const auto at = counts_.find(KeyOf(rule, names));
  return at == counts_.end() ? kNone : at->second;
}

std::size_t Limits::HashOfNames::operator()(const Names& names) const {
  const std::hash<std::string> hash;
  return hash(names.user) ^ (hash(names.account) * 3) ^ (hash(names.qos) * 5);
}

std::vector<Limits::BoundBy> Limits::RulesAbout(const Names& names) const {
  std::vector<BoundBy> bound;
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    if (KeepsFromStarting(rules_[i]) && IsAbout(rules_[i], names))
      bound.push_back({&rules_[i], &CountOf(i, names)});
  }
  return bound;
}

template <class Change>
void Limits::ForEach(const Names& names, Change change) {
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    if (IsAbout(rules_[i], names)) change(rules_[i], counts_[KeyOf(i, names)]);
  }
}

void Limits::Follow(std::vector<LimitRule> rules, Time now) {
  rules_ = std::move(rules);
  counts_.clear();
  bound_.clear();
  count_memory_ =
      std::ranges::any_of(rules_, [](const LimitRule& rule) { return !!rule.memory_mib; });
  running_.clear();
  concerned_ = 0;
  ++changes_;
  longest_ = Duration{0};
  for (const LimitRule& each : rules_) {
    if (each.gpu_hours) longest_ = std::max(longest_, each.period);
  }
  for (const Taken& taken : std::exchange(ended_, {})) Past(taken, now);
}

void Limits::Join(const TaskRecord& task) {
  const Names names = NamesOf(task.request);
  ForEach(names, [](const LimitRule&, Count& count) { ++count.tasks; });
  const auto [bound, added] = bound_.try_emplace(names);
  if (added) bound->second = RulesAbout(names);
  if (!bound->second.empty()) ++concerned_;
}

void Limits::Leave(const TaskRecord& task) {
  bool concerned = false;
  ForEach(NamesOf(task.request), [&](const LimitRule& rule, Count& count) {
    --count.tasks;
    concerned |= KeepsFromStarting(rule);
  });
  if (concerned) --concerned_;
}

bool Limits::MayKeep(const TaskRequest& request) const {
  const Names names = NamesOf(request);
  return std::ranges::any_of(rules_, [&](const LimitRule& rule) {
    return KeepsFromStarting(rule) && IsAbout(rule, names);
  });
}

void Limits::Add(const Running& running, int sign) {
  ForEach(running.names, [&](const LimitRule&, Count& count) {
    count.running += sign;
    count.gpus += sign * running.gpus;
    count.memory_mib += sign * running.memory_mib;
    count.cpus += sign * running.host.cpus;
    count.host_memory_mib += sign * running.host.memory_mib;
    count.launched_s += sign * static_cast<double>(running.gpus) * SecondsOf(running.launched);
  });
}

void Limits::Start(const TaskRecord& task) {
  Running running{.names = NamesOf(task.request),
                  .gpus = task.request->gpus,
                  .host = task.attempt->host,
                  .launched = task.attempt->launched.value_or(Time{})};
  for (const Placement& each : task.attempt->placement) running.memory_mib += each.claim_mib;
  const auto [at, added] = running_.try_emplace(Number(task.id), std::move(running));
  if (added) Add(at->second, 1);
}

void Limits::End(const TaskRecord& task) {
  const auto at = running_.find(Number(task.id));
  if (at == running_.end()) return;
  Add(at->second, -1);
  running_.erase(at);
  ++changes_;
}

void Limits::CountPast(const Taken& taken, Time now) {
  const Time to = std::min(taken.to, now);  // taken.to is in the future if the clock was set back
  const double gpu_s = taken.gpus * base::Seconds(to - std::min(taken.from, to));
  const TaskRequest of{
      .uid = taken.uid,
      .user = taken.user,
      .account = taken.account.empty() ? std::nullopt : std::optional(taken.account),
      .qos = taken.qos};
  ForEach(NamesOf(of), [&](const LimitRule& rule, Count& count) {
    if (!rule.gpu_hours || to + rule.period <= now) return;
    count.past.emplace_back(to, gpu_s);
    count.past_s += gpu_s;
  });
}

void Limits::Past(const Taken& taken, Time now) {
  if (taken.to + longest_ <= now) return;
  CountPast(taken, now);
  ended_.push_back(taken);
}

double Limits::HoursOf(const Count& count, Time now) {
  const double running_s = static_cast<double>(count.gpus) * SecondsOf(now) - count.launched_s;
  return (count.past_s + running_s) / kHourS;
}

// The cached rules are not copied, because they point to the counts of the original.
Limits Limits::ForPlan() const {
  Limits copy;
  copy.rules_ = rules_;
  copy.running_ = running_;
  for (const auto& [key, count] : counts_) static_cast<Use&>(copy.counts_[key]) = count;
  return copy;
}

void Limits::Advance(Time now) {
  if (longest_ == Duration{0}) return;
  while (!ended_.empty() && ended_.front().to + longest_ <= now) ended_.pop_front();
  for (auto& [key, count] : counts_) {
    const LimitRule& rule = rules_[std::get<0>(key)];
    if (!rule.gpu_hours) continue;
    while (!count.past.empty() && count.past.front().first + rule.period <= now) {
      count.past_s -= count.past.front().second;
      count.past.pop_front();
      ++changes_;
    }
    if (count.past.empty()) count.past_s = 0;
    const bool used_up = HoursOf(count, now) >= *rule.gpu_hours;
    if (std::exchange(count.used_up, used_up) != used_up) ++changes_;
  }
}

std::span<const Limits::BoundBy> Limits::Bound(const TaskRequest& request) const {
  const auto at = bound_.find(NamesOf(request));
  return at == bound_.end() ? std::span<const BoundBy>() : at->second;
}

bool Limits::CountTogether(std::span<const BoundBy> one, std::span<const BoundBy> other) {
  return std::ranges::any_of(one, [&](const BoundBy& each) {
    return std::ranges::find(other, each.count, &BoundBy::count) != other.end();
  });
}

std::optional<LimitHit> Limits::AgainstStart(const TaskRecord& task, const Wants& wants,
                                             Time now) const {
  const Names names = NamesOf(task.request);
  const auto at = bound_.find(names);
  // The request may be hypothetical, so its names might not be in the cache.
  return Against(at == bound_.end() ? RulesAbout(names) : at->second, wants, now);
}

std::optional<LimitHit> Limits::Against(std::span<const BoundBy> rules, const Wants& would_have,
                                        Time now) {
  using What = LimitHit::What;
  const int gpus = would_have.gpus;
  const HostNeed& host = would_have.host;
  const std::int64_t promised_mib = would_have.promised_mib;
  for (const BoundBy& each : rules) {
    const LimitRule& rule = *each.rule;
    const Count& count = *each.count;
    const auto beyond = [](std::optional<std::int64_t> most, std::int64_t have,
                           std::int64_t wants) { return most && have + wants > *most; };
    const auto hit = [&](What what, std::int64_t have, std::int64_t wants) {
      return LimitHit{&rule, what, static_cast<double>(have), static_cast<double>(wants)};
    };
    if (beyond(rule.running, count.running, 1)) return hit(What::kRunning, count.running, 1);
    if (beyond(rule.gpus, count.gpus, gpus)) return hit(What::kGpus, count.gpus, gpus);
    if (beyond(rule.memory_mib, count.memory_mib, gpus * promised_mib))
      return hit(What::kMemory, count.memory_mib, gpus * promised_mib);
    if (beyond(rule.cpus, count.cpus, host.cpus)) return hit(What::kCpus, count.cpus, host.cpus);
    if (beyond(rule.host_memory_mib, count.host_memory_mib, host.memory_mib))
      return hit(What::kHostMemory, count.host_memory_mib, host.memory_mib);
    // A task without GPUs uses no GPU hours.
    if (!rule.gpu_hours || gpus == 0) continue;
    const double hours = HoursOf(count, now);
    if (hours >= *rule.gpu_hours) return LimitHit{&rule, What::kGpuHours, hours, 0};
  }
  return std::nullopt;
}

std::optional<LimitHit> Limits::AgainstEver(const LimitRule& rule, const TaskRequest& request,
                                            const HostNeed& host) {
  using What = LimitHit::What;
  if (rule.running == 0) return LimitHit{&rule, What::kRunning, 0, 1};
  if (rule.gpus && request.gpus > *rule.gpus)
    return LimitHit{&rule, What::kGpus, 0, static_cast<double>(request.gpus)};
  const std::int64_t memory_mib = request.gpus * request.memory_mib.value_or(0);
  if (rule.memory_mib && memory_mib > *rule.memory_mib)
    return LimitHit{&rule, What::kMemory, 0, static_cast<double>(memory_mib)};
  if (rule.gpu_hours == 0 && request.gpus > 0) return LimitHit{&rule, What::kGpuHours, 0, 0};
  if (rule.cpus && host.cpus > *rule.cpus)
    return LimitHit{&rule, What::kCpus, 0, static_cast<double>(host.cpus)};
  if (rule.host_memory_mib && host.memory_mib > *rule.host_memory_mib)
    return LimitHit{&rule, What::kHostMemory, 0, static_cast<double>(host.memory_mib)};
  return std::nullopt;
}

std::optional<LimitHit> Limits::AgainstEver(const TaskRequest& request,
                                            const HostNeed& host) const {
  const Names names = NamesOf(request);
  for (const LimitRule& rule : rules_) {
    if (!IsAbout(rule, names)) continue;
    if (const auto hit = AgainstEver(rule, request, host)) return hit;
  }
  return std::nullopt;
}

std::optional<LimitHit> Limits::AgainstQueueing(const TaskRequest& request, const HostNeed& host,
                                                std::size_t more, const TaskRequest* counted,
                                                std::span<const AlikeTasks> beside) const {
  const Names names = NamesOf(request);
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    const LimitRule& rule = rules_[i];
    if (!IsAbout(rule, names)) continue;
    const auto counts_with = [&](const TaskRequest& other) {
      return IsAbout(rule, NamesOf(other)) && KeyOf(i, NamesOf(other)) == KeyOf(i, names);
    };
    auto wanted = static_cast<std::int64_t>(more);
    for (const AlikeTasks& each : beside) {
      if (counts_with(each.request)) wanted += static_cast<std::int64_t>(each.count);
    }
    const std::int64_t tasks = CountOf(i, names).tasks;
    const bool counts = counted != nullptr && counts_with(*counted);
    if (rule.queued && wanted > 0 && !counts && tasks + wanted > *rule.queued) {
      return LimitHit{&rule, LimitHit::What::kQueued, static_cast<double>(tasks),
                      static_cast<double>(wanted)};
    }
    if (const auto hit = AgainstEver(rule, request, host)) return hit;
    if (rule.length && request.time_limit && *request.time_limit > *rule.length)
      return LimitHit{&rule, LimitHit::What::kLength, 0, base::Seconds(*request.time_limit)};
  }
  return std::nullopt;
}

std::optional<Time> Limits::NextChange(Time now) const {
  std::optional<Time> next;
  for (const auto& [key, count] : counts_) {
    const LimitRule& rule = rules_[std::get<0>(key)];
    if (!rule.gpu_hours) continue;
    const auto at = [&](Time when) { next = std::min(next.value_or(when), when); };
    if (!count.past.empty()) at(count.past.front().first + rule.period);
    const double left_s = (*rule.gpu_hours - HoursOf(count, now)) * kHourS;
    if (count.gpus == 0 || left_s <= 0 || left_s > kLongestAheadS) continue;
    const double ms = std::ceil(left_s / static_cast<double>(count.gpus) * 1000);
    at(now + Duration(std::max<std::int64_t>(1, static_cast<std::int64_t>(ms))));
  }
  return next;
}

std::optional<std::int64_t> Limits::MostMibFor(const TaskRequest& request) const {
  if (!count_memory_) return std::nullopt;
  const Names names = NamesOf(request);
  std::optional<std::int64_t> most_mib;
  for (const LimitRule& rule : rules_) {
    if (!rule.memory_mib || !IsAbout(rule, names)) continue;
    const std::int64_t each_mib = *rule.memory_mib / std::max(1, request.gpus);
    most_mib = std::min(most_mib.value_or(each_mib), each_mib);
  }
  return most_mib;
}

std::optional<Duration> Limits::LongestFor(const TaskRequest& request) const {
  const Names names = NamesOf(request);
  std::optional<Duration> longest;
  for (const LimitRule& rule : rules_) {
    if (!rule.length || !IsAbout(rule, names)) continue;
    longest = std::min(longest.value_or(*rule.length), *rule.length);
  }
  return longest;
}

std::string TextOf(const LimitHit& hit) {
  const LimitRule& rule = *hit.rule;
  const std::string whose = fmt::format("(limit of {}: {})", WhomOf(rule), TextOf(rule));
  // "1 of 2 allowed tasks are", or after the limit was lowered: "3 tasks (2 allowed) are".
  const auto used = [&](std::int64_t allowed, const char* what) {
    const auto have = static_cast<std::int64_t>(hit.have);
    if (have > allowed)
      return fmt::format("{} ({} allowed) {}", base::Counted(have, what), allowed,
                         have == 1 ? "is" : "are");
    return fmt::format("{} of {} allowed {}{}", have, allowed, what,
                       allowed == 1 ? " is" : "s are");
  };
  switch (hit.what) {
    case LimitHit::What::kRunning:
      return fmt::format("{} running {}.", used(*rule.running, "task"), whose);
    case LimitHit::What::kGpus:
      return fmt::format("{} in use, and the task needs {:.0f} {}.", used(*rule.gpus, "GPU"),
                         hit.wants, whose);
    case LimitHit::What::kMemory:
      return fmt::format(
          "{} of the allowed {} of GPU memory is already promised, and the task needs {} {}.",
          base::FormatMib(static_cast<std::int64_t>(hit.have)), base::FormatMib(*rule.memory_mib),
          base::FormatMib(static_cast<std::int64_t>(hit.wants)), whose);
    case LimitHit::What::kCpus:
      return fmt::format("{} in use, and the task needs {:.0f} {}.", used(*rule.cpus, "CPU"),
                         hit.wants, whose);
    case LimitHit::What::kHostMemory:
      return fmt::format(
          "{} of the allowed {} of host memory is already promised, and the task needs {} {}.",
          base::FormatMib(static_cast<std::int64_t>(hit.have)),
          base::FormatMib(*rule.host_memory_mib),
          base::FormatMib(static_cast<std::int64_t>(hit.wants)), whose);
    case LimitHit::What::kQueued:
      return fmt::format("{} waiting or running, and {:.0f} would be added {}.",
                         used(*rule.queued, "task"), hit.wants, whose);
    case LimitHit::What::kGpuHours:
      return fmt::format("{:.1f} of the {} GPU hours allowed per {} have been used {}.", hit.have,
                         *rule.gpu_hours, base::FormatSpan(rule.period), whose);
    case LimitHit::What::kLength:
      return fmt::format("The task asks for {}, but may run for at most {} {}.",
                         base::FormatSpan(Duration(static_cast<std::int64_t>(hit.wants * 1000))),
                         base::FormatSpan(*rule.length), whose);
  }
  return "";
}

}  // namespace carma::core
