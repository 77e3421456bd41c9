#include "core/queue/line_up.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "core/values/task.h"

namespace carma::core {

namespace {

// Replaces the top of a min-heap and restores the heap.
template <class T>
void ReplaceFirst(std::span<T> heap, const T& with) {
  std::size_t at = 0;
  while (true) {
    std::size_t below = 2 * at + 1;
    if (below >= heap.size()) break;
    if (below + 1 < heap.size() && heap[below + 1] < heap[below]) ++below;
    if (!(heap[below] < with)) break;
    heap[at] = std::move(heap[below]);
    at = below;
  }
  heap[at] = with;
}

}  // namespace

Time SharesChange(Time now) {
  constexpr std::int64_t kStepMs = 60'000;
  return base::FromMs((base::ToMs(now) / kStepMs + 1) * kStepMs);
}

const QueueKey* LineUp::Line::First() const {
  const QueueKey* first = at == end ? nullptr : &*at;
  if (newcomer && (first == nullptr || *newcomer < *first)) return &*newcomer;
  return first;
}

LineUp::LineUp(const WaitingLine& main, const FairShare& shares, const Rules& rules, Time now,
               const Host& host, const std::optional<Newcomer>& newcomer)
    : host_(host), fair_(rules.order == QueueOrder::kFair), limited_(rules.limited) {
  const std::map<LineKey, HolderLine>& lines = main.holders;
  lines_.reserve(lines.size() + 1);
  if (fair_) {
    sums_.reserve(lines.size() + 1);
    accounts_.reserve(lines.size() + 1);
  }
  bool is_there = !newcomer;
  const auto add_newcomer = [&] {
    AddLine(newcomer->line, nullptr, newcomer->user, shares, rules, now);
    lines_.back().newcomer = newcomer->key;
    is_there = true;
  };
  for (const auto& [key, line] : lines) {
    if (!is_there && newcomer->line < key) add_newcomer();
    AddLine(key, &line, line.user, shares, rules, now);
    if (is_there || newcomer->line != key) continue;
    lines_.back().newcomer = newcomer->key;
    is_there = true;
  }
  if (!is_there) add_newcomer();
  // Lines of the same account are adjacent.
  ranks_.reserve(lines_.size());
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    if (i == 0 || lines_[i].account != lines_[i - 1].account) accounts_.push_back({.begin = i});
    ++accounts_.back().size;
    ranks_.push_back(RankOf(i));
  }
  firsts_.reserve(accounts_.size());
  for (std::size_t i = 0; i < accounts_.size(); ++i) {
    const std::span<Rank> ranks = RanksOf(accounts_[i]);
    std::iter_swap(ranks.begin(), std::ranges::min_element(ranks));
    firsts_.emplace_back(ranks.front(), i);
    firsts_.back().first.account = AccountShareOf(ranks.front().line);
  }
  std::ranges::make_heap(firsts_, std::greater<>());
}

std::size_t LineUp::AddSum(const FairShare::Use& use, double weight) {
  sums_.push_back({use.seconds + use.rate * base::Seconds(kRunsOn), weight});
  return sums_.size() - 1;
}

void LineUp::AddLine(const LineKey& key, const HolderLine* line, const std::string& user,
                     const FairShare& shares, const Rules& rules, Time now) {
  Line& added = lines_.emplace_back();
  added.key = &key;
  if (line != nullptr) {
    added.at = line->tasks.begin();
    added.end = line->tasks.end();
    if (fair_ && now - line->waits_since >= rules.patience)
      added.starving_since = line->waits_since;
  }
  if (!fair_) {
    if (sums_.empty()) AddSum({}, 1);
    return;
  }
  const LineKey* last = std::exchange(last_key_, &key);
  const Holder& holder = key.holder;
  const bool same_holder = last != nullptr && last->holder == holder;
  const bool same_account = same_holder || (last != nullptr && !holder.account.empty() &&
                                            last->holder.account == holder.account);
  const Line& before = lines_[lines_.size() - (last == nullptr ? 1 : 2)];
  if (same_holder) {
    added.account = before.account;
    added.user = before.user;
  } else {
    const Time at = SharesChange(now);
    const std::size_t own = AddSum(shares.OfHolder(holder, at), shares.WeightOf(user));
    added.user = own;
    if (same_account) {
      added.account = before.account;
    } else {
      added.account = holder.account.empty() ? own
                                             : AddSum(shares.OfAccount(holder.account, at),
                                                      shares.WeightOf("@" + holder.account));
      all_seconds_ += sums_[added.account].seconds;
      all_weights_ += sums_[added.account].weight;
    }
  }
}

std::optional<std::size_t> LineUp::Find(const LineKey& key) const {
  const auto at = std::ranges::find_if(lines_, [&](const Line& each) { return *each.key == key; });
  if (at == lines_.end()) return std::nullopt;
  return static_cast<std::size_t>(at - lines_.begin());
}

LineUp::Rank LineUp::RankOf(std::size_t line) const {
  const Line& of = lines_[line];
  const QueueKey& first = *of.First();
  Rank rank{
      .less_priority = first.less_priority, .since = first.since, .task = first.task, .line = line};
  if (!fair_) return rank;
  if (of.starving_since) rank.starving_since = *of.starving_since;
  if (of.user != of.account) rank.user = sums_[of.user].Share();
  return rank;
}

double LineUp::AccountShareOf(std::size_t line) const {
  return fair_ ? sums_[lines_[line].account].Share() : 0;
}

std::span<LineUp::Rank> LineUp::RanksOf(const Heap& heap) {
  return std::span(ranks_).subspan(heap.begin, heap.size);
}

std::span<LineUp::Rank> LineUp::Made(Heap& heap) {
  if (!std::exchange(heap.made, true)) std::ranges::make_heap(RanksOf(heap), std::greater<>());
  return RanksOf(heap);
}

bool LineUp::SetRight(Heap& heap) {
  while (heap.size > 0) {
    // The rank may be out of date, because other tasks of the same user may have been popped since
    // it was computed. Ranks only grow.
    const Rank& first = ranks_[heap.begin];
    if (lines_[first.line].First() == nullptr) {
      DropFirst(heap);
      continue;
    }
    const Rank rank = RankOf(first.line);
    if (rank <= first) return true;
    ReplaceFirst(Made(heap), rank);
  }
  return false;
}

LineUp::Heap* LineUp::FirstOfAll() {
  while (!firsts_.empty()) {
    const std::pair<Rank, std::size_t>& first = firsts_.front();
    Heap& heap = accounts_[first.second];
    const bool any = SetRight(heap);
    if (!any) {
      std::ranges::pop_heap(firsts_, std::greater<>());
      firsts_.pop_back();
      continue;
    }
    std::pair now(ranks_[heap.begin], first.second);
    now.first.account = AccountShareOf(now.first.line);
    if (now <= first) return &heap;
    ReplaceFirst(std::span(firsts_), now);
  }
  return nullptr;
}

void LineUp::DropFirst(Heap& heap) {
  std::ranges::pop_heap(Made(heap), std::greater<>());
  --heap.size;
}

bool LineUp::IsLimited(Line& line, const TaskRecord& first) const {
  if (!line.bounds) line.bounds = host_.BoundsOn(first);
  return host_.IsLimited(first, *line.bounds);
}

std::optional<LineUp::Next> LineUp::Pop() {
  while (Heap* const heap = FirstOfAll()) {
    const Rank rank = ranks_[heap->begin];
    Line& line = lines_[rank.line];
    const bool is_newcomer = line.newcomer && line.First() == &*line.newcomer;
    const TaskRecord* const record = host_.Find(rank.task);
    if (limited_ && !is_newcomer && record != nullptr && IsLimited(line, *record)) {
      DropFirst(*heap);  // drops the whole line
      continue;
    }
    Next next{.task = rank.task,
              .line = rank.line,
              .starving = line.starving_since.has_value(),
              .priority = -rank.less_priority,
              .record = record,
              .bounds = line.bounds.value_or(std::span<const Limits::BoundBy>())};
    if (fair_) {
      Charge(rank.line, record == nullptr ? 0 : host_.WouldTake(*record));
      line.starving_since.reset();
    }
    if (is_newcomer) {
      line.newcomer.reset();
    } else {
      ++line.at;
    }
    return next;
  }
  return std::nullopt;
}

void LineUp::Charge(std::size_t line, double rate) {
  if (!fair_) return;
  const double seconds = rate * base::Seconds(kRunsOn);
  const Line& of = lines_[line];
  sums_[of.account].seconds += seconds;
  if (of.user != of.account) sums_[of.user].seconds += seconds;
  all_seconds_ += seconds;
}

double LineUp::Excess(std::size_t line) const {
  if (!fair_ || all_seconds_ <= 0) return 0;
  const Sum& of = sums_[lines_[line].account];
  return of.seconds / all_seconds_ - of.weight / all_weights_;
}

}  // namespace carma::core
