#include "lab/sim/lines_above.h"

#include <queue>
#include <tuple>

namespace carma::sim {
namespace {

constexpr double kRunsOnS = 3600;

}  // namespace

void LinesAbove::Add(const Waiting& waiting, const std::string& user) {
  Line& line = lines_[order_ == core::QueueOrder::kFair ? waiting.uid : 0];
  line.user = user;
  if (line.waiting.emplace(waiting.number, waiting).second) ++count_;
}

void LinesAbove::Remove(std::uint32_t uid, std::uint64_t number) {
  const auto line = lines_.find(order_ == core::QueueOrder::kFair ? uid : 0);
  if (line == lines_.end() || line->second.waiting.erase(number) == 0) return;
  --count_;
  if (line->second.waiting.empty()) lines_.erase(line);
}

std::vector<LinesAbove::Waiting> LinesAbove::First(std::size_t most, core::Time now) const {
  struct Head {
    double share = 0;
    std::map<std::uint64_t, Waiting>::const_iterator at, end;
    double weight = 1;
    std::tuple<double, std::uint64_t> Rank() const { return {share, at->first}; }
    bool operator<(const Head& other) const { return Rank() > other.Rank(); }
  };
  std::priority_queue<Head> heads;  // smallest share on top
  for (const auto& [uid, line] : lines_) {
    Head head{.at = line.waiting.begin(), .end = line.waiting.end()};
    if (order_ == core::QueueOrder::kFair) {
      const core::FairShare::Use use = shares_.OfHolder({.uid = uid}, now);
      head.weight = shares_.WeightOf(line.user);
      head.share = (use.seconds + kRunsOnS * use.rate) / head.weight;
    }
    heads.push(head);
  }
  std::vector<Waiting> first;
  while (!heads.empty() && first.size() < most) {
    Head head = heads.top();
    heads.pop();
    first.push_back(head.at->second);
    head.share +=
        order_ == core::QueueOrder::kFair ? kRunsOnS * head.at->second.rate / head.weight : 0;
    if (++head.at != head.end) heads.push(head);
  }
  return first;
}

}  // namespace carma::sim
