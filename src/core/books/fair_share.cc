#include "core/books/fair_share.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/values/interference.h"
#include "core/values/task.h"
#include "core/values/throughput.h"

namespace carma::core {
namespace {

double RateOn(const TaskRecord& task, std::int64_t promised_mib, std::int64_t usable_mib) {
  const double memory =
      usable_mib > 0 ? static_cast<double>(promised_mib) / static_cast<double>(usable_mib) : 0;
  const double usual = task.request->sm_share.value_or(kUsualActivity);
  // A task that accepts a slowdown of at most 2 effectively reserves half a GPU.
  const double kept = 1 / task.request->max_slowdown.value_or(kAnySlowdown);
  const double activity = task.profile->sm_active.value_or(usual);
  return std::clamp(std::max({memory, activity, kept}), 0.0, 1.0);
}

}  // namespace

double RateOf(const TaskRecord& task, std::span<const std::int64_t> usable_mib, bool alone) {
  double rate = 0;
  for (const Placement& each : task.attempt->placement) {
    // This GPU is gone: the server restarted without it.
    if (Number(each.gpu) >= usable_mib.size()) continue;
    rate += alone ? 1 : RateOn(task, each.claim_mib, usable_mib[Number(each.gpu)]);
  }
  return rate;
}

double RateOf(const TaskRecord& task, std::int64_t promised_mib, std::int64_t usable_mib,
              bool alone) {
  return task.request->gpus * (alone ? 1 : RateOn(task, promised_mib, usable_mib));
}

Holder HolderOf(const TaskRequest& request) {
  return {.account = request.account.value_or(""), .uid = request.uid};
}

void FairShare::Follow(const FairRules& rules) {
  ++changes_;
  half_life_ = rules.half_life;
  weights_.clear();
  for (const ShareWeight& each : rules.weights) weights_[each.who] = each.weight;
}

double FairShare::Half(Duration age) const {
  return std::exp2(-base::Seconds(age) / base::Seconds(half_life_));
}

double FairShare::Sum(double rate, Time from, Time to, Time now) const {
  const double life_s = base::Seconds(half_life_) * std::numbers::log2e;
  return rate * life_s * (Half(now - to) - Half(now - from));
}

FairShare::Use FairShare::At(const Decaying& use, Time now) const {
  return {use.seconds * Half(now - use.as_of) + Sum(use.rate, use.as_of, now, now), use.rate};
}

void FairShare::AddTo(Decaying& use, double seconds, double rate, Time now) const {
  use.seconds = At(use, now).seconds + seconds;
  use.rate += rate;
  use.as_of = now;
}

void FairShare::Add(const Holder& holder, double seconds, double rate, Time now) {
  ++changes_;
  AddTo(holders_[holder], seconds, rate, now);
  if (!holder.account.empty()) AddTo(accounts_[holder.account], seconds, rate, now);
}

void FairShare::Take(const TaskRecord& task, double rate, Time from, Time now) {
  const Holder holder = HolderOf(task.request);
  if (!taking_.try_emplace(Number(task.id), Taking{holder, rate}).second) return;
  Add(holder, Sum(rate, std::min(from, now), now, now), rate, now);
}

void FairShare::Release(TaskId task, Time ended, Time now) {
  const auto at = taking_.find(Number(task));
  if (at == taking_.end()) return;
  const double rate = at->second.rate;
  Add(at->second.holder, -Sum(rate, ended, now, now), -rate, now);
  taking_.erase(at);
  // Rounding errors accumulate in the summed rates, so the rates are reset once no tasks are left.
  if (!taking_.empty()) return;
  for (auto& [holder, use] : holders_) use.rate = 0;
  for (auto& [account, use] : accounts_) use.rate = 0;
}

void FairShare::Past(const Taken& taken, Time now) {
  const Time to = std::min(taken.to, now);
  if (taken.from >= to) return;
  Add({taken.account, taken.uid}, Sum(taken.rate, taken.from, to, now), 0, now);
}

FairShare::Use FairShare::OfHolder(const Holder& holder, Time now) const {
  const auto at = holders_.find(holder);
  return at == holders_.end() ? Use{} : At(at->second, now);
}

FairShare::Use FairShare::OfAccount(const std::string& account, Time now) const {
  const auto at = accounts_.find(account);
  return at == accounts_.end() ? Use{} : At(at->second, now);
}

double FairShare::WeightOf(const std::string& who) const {
  const auto at = weights_.find(who);
  return at == weights_.end() ? 1 : at->second;
}

}  // namespace carma::core
