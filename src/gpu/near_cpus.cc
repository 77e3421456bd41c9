#include "gpu/near_cpus.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/cpu_list.h"
#include "base/file.h"
#include "base/text.h"

namespace carma::gpu {
namespace {

constexpr std::size_t kMaxCpuList = 65'536;
constexpr std::size_t kDomainDigits = 4;  // in the kernel; eight in the driver

}  // namespace

std::vector<int> NearCpus(const std::string& root, std::string_view pci) {
  const std::size_t colon = pci.find(':');
  if (colon == std::string_view::npos || pci.contains('/')) return {};
  if (colon > kDomainDigits) pci.remove_prefix(colon - kDomainDigits);
  const std::string device =
      fmt::format("{}/sys/bus/pci/devices/{}", root, base::ToLower(std::string(pci)));
  // The file contains -1 on a machine with a single NUMA node.
  const std::string node = base::ReadFile(device + "/numa_node", kMaxCpuList).value_or("");
  if (base::Trim(node).starts_with('-')) return {};
  const std::string list = base::ReadFile(device + "/local_cpulist", kMaxCpuList).value_or("");
  return base::ParseCpuList(list).value_or(std::vector<int>{});
}

std::vector<int> NearCpusSimulated(const std::vector<int>& cpus, std::size_t index,
                                   std::size_t gpus) {
  if (gpus < 2 || cpus.size() < 2) return cpus;
  std::vector<int> all = cpus;
  std::ranges::sort(all);
  const auto half = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  return index < gpus / 2 ? std::vector<int>(all.begin(), half) : std::vector<int>(half, all.end());
}

}  // namespace carma::gpu
