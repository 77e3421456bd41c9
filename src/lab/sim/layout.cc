// Numbers the GPUs of a cluster and describes each of them.
#include "lab/sim/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

namespace carma::sim {

Layout::Layout(const Cluster& cluster, const MigProfile& mig, bool divided)
    : mig_(mig), divided_(divided), instances_(static_cast<std::uint32_t>(mig.instances)) {
  std::vector<std::vector<std::string>> kinds;
  for (const ServerShape& shape : cluster.servers) {
    Server server{.first_gpu = gpu_count()};
    std::vector<std::string> types;
    for (const GpuType& type : shape.gpus) {
      types.push_back(type.type);
      cards_.push_back(&type);
      server.fastest = std::max(server.fastest, type.relative_speed);
      const auto number = static_cast<std::uint32_t>(servers_.size());
      server_of_.insert(server_of_.end(), instances_, number);
      largest_mib_ = std::max(largest_mib_, UsableMib(gpu_count() - 1));
    }
    server.gpu_count = gpu_count() - server.first_gpu;
    const auto kind = std::ranges::find(kinds, types);
    server.kind = static_cast<std::uint32_t>(kind - kinds.begin());
    if (kind == kinds.end()) kinds.push_back(std::move(types));
    fastest_ = std::max(fastest_, server.fastest);
    most_gpus_ = std::max(most_gpus_, server.gpu_count);
    servers_.push_back(server);
  }
}

std::int64_t Layout::UsableMib(std::uint32_t gpu) const {
  const GpuType& type = TypeOf(gpu);
  return static_cast<std::int64_t>(static_cast<double>(type.total_mib - type.reserved_mib) *
                                   mig_.memory);
}

std::vector<core::GpuInfo> Layout::InfosOf(std::uint32_t server) const {
  std::vector<core::GpuInfo> infos;
  for (const std::uint32_t gpu : GpusOf(server)) {
    infos.push_back({.uuid = fmt::format("GPU-{}", gpu),
                     .type = TypeOf(gpu).type,
                     .total_mib = UsableMib(gpu),
                     .mig = divided_,
                     .compute = mig_.compute,
                     .speed = TypeOf(gpu).relative_speed});
  }
  return infos;
}

double Layout::AloneS(std::span<const std::uint32_t> gpus, double work_s) const {
  double slowest = std::numeric_limits<double>::infinity();
  for (const std::uint32_t gpu : gpus) slowest = std::min(slowest, TypeOf(gpu).relative_speed);
  return work_s / slowest;
}

}  // namespace carma::sim
