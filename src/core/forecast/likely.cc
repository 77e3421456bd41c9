#include "core/forecast/likely.h"

#include <algorithm>
#include <limits>
#include <map>

namespace carma::core {
namespace {

constexpr double kNoEnd = std::numeric_limits<double>::infinity();
// Remaining work below this is a rounding error and counts as done.
constexpr double kRoundingS = 1e-6;
// Maximum number of fit checks in one simulation. Together they take a few milliseconds.
constexpr int kMostLooks = 100'000;

class Play {
 public:
  Play(const PolicyConfig& config, PreemptionPlan room, std::span<const LikelyRun> running,
       const LikelyLine& line)
      : config_(config),
        room_(std::move(room)),
        line_(line.tasks),
        starts_(line_.size()),
        looked_at_(line_.size(), false),
        first_since_s_(-line.first_for_s),
        passed_(line.passed) {
    for (const LikelyRun& each : running) Add(each);
    for (std::size_t i = 0; i < line_.size(); ++i) waiting_.push_back(i);
    first_ = First();
  }

  std::vector<std::optional<double>> Run(std::size_t most) {
    do {
      KeepForFirst();
      StartWhoFits();
    } while (!waiting_.empty() && waiting_.front() < most && looks_ < kMostLooks && EndNext());
    return std::move(starts_);
  }

 private:
  struct Going {
    TaskId task{};
    double left_s = kNoEnd;
    double leaves_s = kNoEnd;  // simulated time
  };

  void Add(const LikelyRun& run) {
    going_.push_back({run.task, run.left_s.value_or(kNoEnd), now_s_ + run.most_s.value_or(kNoEnd)});
  }

  std::optional<std::size_t> First() const {
    const auto at = std::ranges::find_if(waiting_, [&](std::size_t i) { return line_[i].stops; });
    return at == waiting_.end() ? std::nullopt : std::optional(*at);
  }

  void KeepForFirst() {
    if (!config_.pass_limit || !first_ || !passed_ || kept_for_ == first_) return;
    if (now_s_ - first_since_s_ < base::Seconds(*config_.pass_limit)) return;
    kept_for_ = first_;
    room_.KeepFor(line_[*first_].need);
  }

  void StartWhoFits() {
    int stuck = 0;
    std::erase_if(waiting_, [&](std::size_t i) {
      if (stuck >= config_.backfill) return false;
      ++looks_;
      const bool looked = looked_at_[i];
      looked_at_[i] = true;
      if (!(looked ? room_.TakeIfOpened(line_[i].need) : room_.Take(line_[i].need))) {
        stuck += line_[i].stops ? 1 : 0;
        return false;
      }
      room_.LetGo(line_[i].run.task);
      passed_ |= stuck > 0;
      starts_[i] = now_s_;
      Add(line_[i].run);
      return true;
    });
    room_.NoteLooked();
    const std::optional<std::size_t> first = First();
    if (first == first_) return;
    first_ = first;
    first_since_s_ = now_s_;
    passed_ = false;
  }

  // Advances to the time when the next task ends. Returns false if no task will end.
  bool EndNext() {
    const std::map<TaskId, double> slowdowns = room_.Slowdowns();
    const auto slowdown = [&](const Going& each) {
      const auto at = slowdowns.find(each.task);
      return at == slowdowns.end() ? 1.0 : at->second;
    };
    double next_s = kNoEnd;
    for (const Going& each : going_)
      next_s = std::min({next_s, now_s_ + each.left_s * slowdown(each), each.leaves_s});
    if (next_s == kNoEnd) return false;
    for (Going& each : going_) each.left_s -= (next_s - now_s_) / slowdown(each);
    now_s_ = next_s;
    std::erase_if(going_, [&](const Going& each) {
      if (each.left_s > kRoundingS && each.leaves_s > now_s_) return false;
      room_.Leave(each.task);
      return true;
    });
    return true;
  }

  const PolicyConfig& config_;
  PreemptionPlan room_;
  std::span<const LikelyStart> line_;
  std::vector<std::optional<double>> starts_;
  std::vector<bool> looked_at_;
  std::vector<std::size_t> waiting_;  // indices of line_, in order
  std::vector<Going> going_;
  double now_s_ = 0;
  int looks_ = 0;
  // The first waiting task of the main queue.
  std::optional<std::size_t> first_;
  double first_since_s_ = 0;
  bool passed_ = false;
  std::optional<std::size_t> kept_for_;
};

}  // namespace

std::vector<std::optional<double>> LikelyStarts(const PolicyConfig& config, PreemptionPlan room,
                                                std::span<const LikelyRun> running,
                                                const LikelyLine& line, std::size_t most) {
  return Play(config, std::move(room), running, line).Run(most);
}

}  // namespace carma::core
