// Which GPUs a task may use according to its own options (type, size, names). Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/values/gpu.h"
#include "core/values/ids.h"
#include "core/values/task_request.h"

namespace carma::core {

// True if `wanted` names that GPU model. All words of `wanted` must occur in the model's name as
// whole words and in the same order. Case, blanks and dashes are ignored. "a100", "A100-40" and
// "nvidia_a100-sxm4-40gb" name "NVIDIA A100-SXM4-40GB", but "a10", "100" and "a40" do not.
// "rtx4090" names "NVIDIA GeForce RTX 4090".
bool NamesType(std::string_view wanted, std::string_view model);

// True if `name` is the GPU's index, its UUID, or the beginning of the UUID ("GPU-5d6e").
bool NamesGpu(std::string_view name, GpuIndex index, const GpuInfo& gpu);

// True if the GPU's nominal memory is at least `wanted_mib`. The driver may report up to 8 % less,
// because ECC and the driver itself use some.
bool HasMemory(const GpuInfo& gpu, std::int64_t wanted_mib);

class GpuChoice {
 public:
  GpuChoice() = default;  // allows every GPU
  GpuChoice(const TaskRequest& request, std::span<const GpuInfo> gpus);

  bool Allows(GpuIndex gpu) const {
    return why_not_.empty() || Number(gpu) >= why_not_.size() || why_not_[Number(gpu)].empty();
  }
  // Explains in one sentence why the task may not use the GPU; empty if it may.
  std::string_view WhyNot(GpuIndex gpu) const;

  friend bool operator==(const GpuChoice&, const GpuChoice&) = default;

 private:
  std::vector<std::string> why_not_;  // by GPU; empty if every GPU is allowed
};

// True if the request restricts the choice of GPUs at all.
bool Chooses(const TaskRequest& request);
// True if both requests restrict the choice of GPUs in the same way.
bool ChooseAlike(const TaskRequest& a, const TaskRequest& b);

// Returns a sentence that lists the server's types or GPUs if the request names one that the server
// does not have. Otherwise returns nothing.
std::optional<std::string> MisnamedGpus(const TaskRequest& request, std::span<const GpuInfo> gpus);

// Returns a sentence that lists the request's conditions and says that only `chosen` of the
// server's GPUs meet them.
std::string TooFewChosen(const TaskRequest& request, std::span<const GpuInfo> gpus, int chosen);

// The server's GPUs by type: "4x NVIDIA A100-SXM4-40GB, 2x Tesla T4".
std::string TypesOf(std::span<const GpuInfo> gpus);

}  // namespace carma::core
