// The NVLink connections between GPUs, and the choice of the best GPUs for a task that needs
// several. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "core/policy/policy.h"
#include "core/values/gpu.h"

namespace carma::core {

class GpuLinks {
 public:
  GpuLinks() = default;
  explicit GpuLinks(std::span<const GpuInfo> gpus);

  // True if at least one pair of GPUs is connected.
  bool any() const { return any_; }
  bool Between(GpuIndex a, GpuIndex b) const;

  struct Candidate {
    GpuIndex gpu{};
    double score = 0;          // higher is better
    bool may_be_first = true;  // has enough memory to be the task's first GPU (Need::others_mib)
  };
  // The `wanted` candidates with the highest scores, best first; ties go to the lower index. Among
  // the candidates with the lowest chosen score, those with the most links to the other chosen GPUs
  // are taken. The best chosen GPU with may_be_first is moved to the front. If there is none, the
  // best candidate with may_be_first replaces the last choice. Empty if there are too few
  // candidates or none of them can be first.
  std::vector<GpuIndex> Best(std::vector<Candidate> candidates, std::size_t wanted) const;
  // The best candidates that are all linked to each other, starting with a GPU that can be first.
  // Empty if there is no such set.
  std::vector<GpuIndex> BestLinked(std::vector<Candidate> candidates, std::size_t wanted) const;
  std::vector<GpuIndex> ChooseFor(const Need& need, std::vector<Candidate> candidates) const {
    const auto wanted = static_cast<std::size_t>(need.gpus);
    return need.linked ? BestLinked(std::move(candidates), wanted)
                       : Best(std::move(candidates), wanted);
  }

 private:
  std::vector<GpuIndex> MostLinked(std::span<const Candidate> sorted, std::size_t wanted) const;
  std::vector<std::vector<bool>> between_;
  bool any_ = false;
};

}  // namespace carma::core
