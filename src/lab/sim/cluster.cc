// Parses server descriptions, which are names or shapes.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "base/try.h"
#include "lab/sim/simulate.h"

namespace carma::sim {
namespace {

// NVIDIA's servers according to their data sheets, and common cloud instances with other GPUs.
constexpr std::array kServers{
    ServerName{"dgx-station-a100", "4xA100-40GB"}, ServerName{"dgx-a100", "8xA100-40GB"},
    ServerName{"dgx-a100-80gb", "8xA100-80GB"},    ServerName{"dgx-h100", "8xH100-80GB"},
    ServerName{"dgx-h200", "8xH200-141GB"},        ServerName{"dgx-1-v100", "8xV100-16GB"},
    ServerName{"l40s-server", "8xL40S-48GB"},
};

Result<ServerShape> ParseServer(std::string_view text) {
  const auto* known = std::ranges::find(kServers, base::ToLower(text), &ServerName::name);
  const ServerName server = known == kServers.end() ? ServerName{text, text} : *known;
  Result<std::vector<GpuType>> gpus = ParseShape(server.shape);
  if (gpus) return ServerShape{std::string(server.name), *std::move(gpus)};
  std::vector<std::string> names;
  for (const ServerName& each : kServers) names.emplace_back(each.name);
  return Invalid("server '{}': {}; known servers: {}", base::Printable(text, 60),
                 gpus.error().message, base::Join(names, ", "));
}

}  // namespace

std::span<const ServerName> ServerNames() {
  return kServers;
}

Result<Cluster> ParseCluster(std::string_view text) {
  Cluster cluster;
  for (std::string_view group : base::Split(text, '+')) {
    group = base::Trim(group);
    std::int64_t count = 1;
    if (const std::size_t star = group.find('*'); star != std::string_view::npos) {
      const auto number = base::ParseInt(base::Trim(group.substr(0, star)));
      if (!number || *number < 1) {
        return Invalid("servers '{}': expected a number of servers before '*'",
                       base::Printable(text, 60));
      }
      count = *number;
      group = base::Trim(group.substr(star + 1));
    }
    if (count > static_cast<std::int64_t>(kMaxServers - cluster.servers.size()))
      return Invalid("servers '{}': more than {}", base::Printable(text, 60), kMaxServers);
    const ServerShape server = CARMA_TRY(ParseServer(group));
    cluster.servers.insert(cluster.servers.end(), static_cast<std::size_t>(count), server);
  }
  if (cluster.servers.size() > 1) {
    for (std::size_t i = 0; i < cluster.servers.size(); ++i)
      cluster.servers[i].name = fmt::format("node {}", i);
  }
  return cluster;
}

}  // namespace carma::sim
