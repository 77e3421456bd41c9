#include "core/policy/gpu_links.h"

#include <algorithm>
#include <functional>

namespace carma::core {
namespace {

// Maximum number of steps in the search for a fully linked set of GPUs. The search is usually
// short, because linked GPUs are usually all linked to each other.
constexpr int kMostSteps = 100'000;

// Candidates with equal scores are ordered by index. std::stable_sort would do the same, but it
// allocates memory.
void SortByScore(std::vector<GpuLinks::Candidate>& candidates) {
  std::ranges::sort(candidates, [](const auto& a, const auto& b) {
    return a.score != b.score ? a.score > b.score : a.gpu < b.gpu;
  });
}

// The best of the chosen GPUs that can be the task's first GPU.
auto FirstOf(std::vector<GpuIndex>& chosen, std::span<const GpuLinks::Candidate> candidates) {
  return std::ranges::find_if(chosen, [&](GpuIndex gpu) {
    return std::ranges::find(candidates, gpu, &GpuLinks::Candidate::gpu)->may_be_first;
  });
}

// sorted: the candidates, best first.
std::vector<GpuIndex> WithFirst(std::vector<GpuIndex> chosen,
                                std::span<const GpuLinks::Candidate> sorted) {
  auto first = FirstOf(chosen, sorted);
  if (first == chosen.end()) {
    const auto best = std::ranges::find_if(sorted, &GpuLinks::Candidate::may_be_first);
    if (best == sorted.end()) return {};
    first = std::prev(chosen.end());
    *first = best->gpu;
  }
  std::rotate(chosen.begin(), first, std::next(first));
  return chosen;
}

}  // namespace

GpuLinks::GpuLinks(std::span<const GpuInfo> gpus)
    : between_(gpus.size(), std::vector<bool>(gpus.size())) {
  for (std::size_t a = 0; a < gpus.size(); ++a) {
    for (std::size_t b = 0; b < gpus.size(); ++b) {
      const std::vector<std::string>& linked = gpus[a].linked_to;
      if (a == b || std::ranges::find(linked, gpus[b].uuid) == linked.end()) continue;
      // A link counts even if only one of the two GPUs reports it.
      between_[a][b] = between_[b][a] = true;
      any_ = true;
    }
  }
}

bool GpuLinks::Between(GpuIndex a, GpuIndex b) const {
  return Number(a) < between_.size() && Number(b) < between_.size() &&
         between_[Number(a)][Number(b)];
}

std::vector<GpuIndex> GpuLinks::Best(std::vector<Candidate> candidates, std::size_t wanted) const {
  if (candidates.size() < wanted || wanted == 0) return {};
  SortByScore(candidates);
  if (any_ && wanted > 1) return WithFirst(MostLinked(candidates, wanted), candidates);
  std::vector<GpuIndex> best;
  for (std::size_t i = 0; i < wanted; ++i) best.push_back(candidates[i].gpu);
  return WithFirst(std::move(best), candidates);
}

// sorted: at least `wanted` candidates, best first.
std::vector<GpuIndex> GpuLinks::MostLinked(std::span<const Candidate> sorted,
                                           std::size_t wanted) const {
  const double last = sorted[wanted - 1].score;
  const auto links_to = [this](GpuIndex gpu, std::span<const GpuIndex> chosen) {
    return std::ranges::count_if(chosen, [&](GpuIndex each) { return Between(gpu, each); });
  };
  std::vector<GpuIndex> sure;
  std::vector<GpuIndex> equal;
  for (const Candidate& each : sorted) {
    if (each.score > last) sure.push_back(each.gpu);
    if (each.score == last) equal.push_back(each.gpu);
  }
  const auto fill = [&](std::vector<GpuIndex> chosen) {
    while (chosen.size() < wanted) {
      const GpuIndex* best = nullptr;
      for (const GpuIndex& gpu : equal) {
        if (std::ranges::find(chosen, gpu) != chosen.end()) continue;
        if (best == nullptr || links_to(gpu, chosen) > links_to(*best, chosen)) best = &gpu;
      }
      chosen.push_back(*best);
    }
    return chosen;
  };
  if (!sure.empty()) return fill(std::move(sure));
  // All GPUs in `equal` have the same score, so only links matter. Starting with a poorly linked
  // GPU leads to a set with few links, so each GPU is tried as the first.
  std::vector<GpuIndex> best;
  std::ptrdiff_t most = -1;
  for (const GpuIndex first : equal) {
    const std::vector<GpuIndex> chosen = fill({first});
    std::ptrdiff_t links = 0;
    for (const GpuIndex each : chosen) links += links_to(each, chosen);
    if (links <= most) continue;
    most = links;
    best = chosen;
  }
  std::ranges::sort(best);
  return best;
}

std::vector<GpuIndex> GpuLinks::BestLinked(std::vector<Candidate> candidates,
                                           std::size_t wanted) const {
  if (candidates.size() < wanted || wanted == 0) return {};
  SortByScore(candidates);
  std::vector<GpuIndex> chosen;
  int steps = 0;
  const std::function<bool(std::size_t)> add = [&](std::size_t from) {
    if (chosen.size() == wanted) return FirstOf(chosen, candidates) != chosen.end();
    for (std::size_t i = from; i < candidates.size() && ++steps < kMostSteps; ++i) {
      const GpuIndex gpu = candidates[i].gpu;
      const bool linked =
          std::ranges::all_of(chosen, [&](GpuIndex each) { return Between(gpu, each); });
      if (!linked) continue;
      chosen.push_back(gpu);
      if (add(i + 1)) return true;
      chosen.pop_back();
    }
    return false;
  };
  if (!add(0)) return {};
  return WithFirst(std::move(chosen), candidates);
}

}  // namespace carma::core
