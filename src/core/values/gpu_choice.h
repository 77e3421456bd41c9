// Which GPUs of the server a task may have by what it says itself: a type, a size, names. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/values/gpu.h"
#include "core/values/task.h"

namespace carma::core {

// Whether people who say `wanted` mean a GPU of that model: case, blanks and dashes do not count,
// and each word of `wanted` is found in the model's name, whole and in that order. "a100",
// "A100-40" and "nvidia_a100-sxm4-40gb" are "NVIDIA A100-SXM4-40GB", "a10", "100" and "a40" are
// not; "rtx4090" is "NVIDIA GeForce RTX 4090".
bool NamesType(std::string_view wanted, std::string_view model);

// Whether that GPU is meant by its index, its UUID, or the beginning of the UUID ("GPU-5d6e").
bool NamesGpu(std::string_view name, GpuIndex index, const GpuInfo& gpu);

// Whether a GPU has as much memory as people mean by `wanted_mib`: of what is sold as 24 GB the
// driver reports up to 8 % less, where ECC and its own share take some.
bool HasMemory(const GpuInfo& gpu, std::int64_t wanted_mib);

class GpuChoice {
 public:
  GpuChoice() = default;  // any of them
  GpuChoice(const TaskRequest& request, std::span<const GpuInfo> gpus);

  bool Allows(GpuIndex gpu) const {
    return why_not_.empty() || Number(gpu) >= why_not_.size() || why_not_[Number(gpu)].empty();
  }
  // A sentence; empty of one that it may have.
  std::string_view WhyNot(GpuIndex gpu) const;

  friend bool operator==(const GpuChoice&, const GpuChoice&) = default;

 private:
  std::vector<std::string> why_not_;  // by GPU; none at all: it may have any
};

// Does it say anything about which GPUs it may have?
bool Chooses(const TaskRequest& request);
// Do both say the same about it?
bool ChooseAlike(const TaskRequest& a, const TaskRequest& b);

// What is wrong with what it says, on this server: a type or a name that no GPU has. A sentence
// that tells those that there are; empty: nothing.
std::optional<std::string> MisnamedGpus(const TaskRequest& request, std::span<const GpuInfo> gpus);

// The server's GPUs by type: "4 of NVIDIA A100-SXM4-40GB, 2 of Tesla T4".
std::string TypesOf(std::span<const GpuInfo> gpus);

}  // namespace carma::core
