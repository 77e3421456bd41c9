// The GPUs, cards and servers of a run. They do not change during the run. Private to sim.
#pragma once

#include <cstdint>
#include <ranges>
#include <span>
#include <vector>

#include "core/values/gpu.h"
#include "lab/sim/gpu_types.h"
#include "lab/sim/simulate.h"

namespace carma::sim {

// A SimGpu is what the policy sees as a GPU: a card, or a MIG instance of a card. SimGpus and cards
// are numbered across the whole cluster.
class Layout {
 public:
  struct Server {
    std::uint32_t first_gpu = 0;
    std::uint32_t gpu_count = 0;
    std::uint32_t kind = 0;  // the same for all servers with the same GPUs
    double fastest = 0;      // GpuType::relative_speed of its fastest GPU
  };

  // divided: true if the cards are partitioned with MIG. The cluster must outlive this object.
  Layout(const Cluster& cluster, const MigProfile& mig, bool divided);

  const std::vector<Server>& servers() const { return servers_; }
  // A server's GPU numbers.
  auto GpusOf(std::uint32_t server) const {
    const Server& its = servers_[server];
    return std::views::iota(its.first_gpu, its.first_gpu + its.gpu_count);
  }
  const MigProfile& mig() const { return mig_; }
  std::uint32_t gpu_count() const { return static_cast<std::uint32_t>(server_of_.size()); }
  std::uint32_t ServerOf(std::uint32_t gpu) const { return server_of_[gpu]; }
  std::uint32_t CardOf(std::uint32_t gpu) const { return gpu / instances_; }
  std::uint32_t FirstOnCard(std::uint32_t card) const { return card * instances_; }
  const std::vector<const GpuType*>& cards() const { return cards_; }
  const GpuType& TypeOf(std::uint32_t gpu) const { return *cards_[CardOf(gpu)]; }
  std::int64_t UsableMib(std::uint32_t gpu) const;
  // Descriptions of a server's GPUs for its core.
  std::vector<core::GpuInfo> InfosOf(std::uint32_t server) const;

  std::int64_t largest_mib() const { return largest_mib_; }  // usable memory of the largest GPU
  double fastest() const { return fastest_; }             // Server::fastest of the fastest server
  std::uint32_t most_gpus() const { return most_gpus_; }  // largest number of GPUs in one server
  // Run time of this work when it runs alone on these GPUs; the slowest GPU sets the pace.
  double AloneS(std::span<const std::uint32_t> gpus, double work_s) const;

 private:
  const MigProfile& mig_;
  const bool divided_;
  std::uint32_t instances_ = 1;
  std::vector<Server> servers_;
  std::vector<const GpuType*> cards_;
  std::vector<std::uint32_t> server_of_;  // by SimGpu
  std::int64_t largest_mib_ = 0;
  double fastest_ = 0;
  std::uint32_t most_gpus_ = 0;
};

}  // namespace carma::sim
