// Which GPUs of a server are connected with each other (NVLink), and the best ones for a task with
// several GPUs. Pure.
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

  // Whether any two GPUs are connected.
  bool any() const { return any_; }
  bool Between(GpuIndex a, GpuIndex b) const;

  struct Candidate {
    GpuIndex gpu{};
    double score = 0;          // the higher the better
    bool may_be_first = true;  // it has enough for the task's first GPU (Need::others_mib)
  };
  // The `wanted` best candidates, best first: the highest scores, and among equal last scores those
  // with most links to the others. Equal scores are ordered by index. The best of them that may be
  // the first comes before all others; if none may, the best candidate that may replaces the last.
  // Empty: too few, or none may be the first.
  std::vector<GpuIndex> Best(std::vector<Candidate> candidates, std::size_t wanted) const;
  // The best candidates that are all linked with each other, starting with one that may be the
  // first. Empty: there is no such set.
  std::vector<GpuIndex> BestLinked(std::vector<Candidate> candidates, std::size_t wanted) const;
  // The GPUs that a task takes, chosen from those that may take it.
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
