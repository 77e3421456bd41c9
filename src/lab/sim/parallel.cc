#include "lab/sim/parallel.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace carma::sim {

void ForEachIndex(std::size_t count, int threads, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  const auto take = [&] {
    for (std::size_t i = next++; i < count; i = next++) work(i);
  };
  const std::size_t useful = std::min<std::size_t>(count, static_cast<std::size_t>(threads));
  std::vector<std::jthread> others;
  for (std::size_t i = 1; i < useful; ++i) others.emplace_back(take);
  take();
}

}  // namespace carma::sim
