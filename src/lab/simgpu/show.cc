#include "lab/simgpu/show.h"

#include <fmt/format.h>

#include "base/json.h"
#include "base/try.h"

namespace carma::simgpu {
namespace {

struct Picture {
  std::vector<GpuLook> gpus;
  std::vector<ResidentLook> residents;
  std::vector<Fault> faults;
};

Result<Picture> Take(Server& server) {
  Picture picture;
  for (int g = 0; g < server.place_count(); ++g) picture.gpus.push_back(CARMA_TRY(server.Look(g)));
  picture.residents = CARMA_TRY(server.Residents());
  picture.faults = CARMA_TRY(server.Faults());
  return picture;
}

// The type of a GPU ("A100-40GB"), or the number and profile of an instance ("0: 3g.20gb").
std::string PlaceName(const Server& server, int place) {
  const GpuIdentity& identity = server.place(place);
  if (identity.parent_uuid.empty()) return identity.type;
  return fmt::format("{}: {}", server.WholeGpu(place),
                     identity.nvml_name.substr(identity.nvml_name.rfind(' ') + 1));
}

}  // namespace

Result<std::string> ShowText(Server& server) {
  const Picture picture = CARMA_TRY(Take(server));
  std::string text = fmt::format("simulated time {:.1f} s, {:g} times as fast as real time\n\n",
                                 server.Now(), server.clock().time_scale);
  text += fmt::format("{:>3} {:<12} {:<40} {:>15} {:>5} {:>6} {:>9}\n", "GPU", "TYPE", "UUID",
                      "USED/TOTAL MiB", "SM %", "W", "kJ");
  for (std::size_t g = 0; g < picture.gpus.size(); ++g) {
    const GpuLook& look = picture.gpus[g];
    const GpuIdentity& identity = server.places()[g];
    text += fmt::format("{:>3} {:<12} {:<40} {:>15} {:>5.1f} {:>6.1f} {:>9.1f}\n", g,
                        PlaceName(server, static_cast<int>(g)), identity.uuid,
                        fmt::format("{}/{}", look.used_mib, identity.total_mib),
                        100 * look.sm_active, look.power_w, look.totals.energy_j / 1000);
  }
  if (!picture.residents.empty()) {
    text += fmt::format("\n{:>9} {:<8} {:>10} {:>6} {}\n", "PID", "SHARING", "WORK LEFT", "PACE",
                        "GPU:MiB");
  }
  for (const ResidentLook& resident : picture.residents) {
    text += fmt::format("{:>9} {:<8} {:>9.0f}s {:>6.3f}", resident.pid,
                        base::WordOf(resident.sharing), resident.work_left_s, resident.pace);
    for (const Share& share : resident.shares)
      text += fmt::format(" {}:{}", share.gpu, share.memory_mib);
    text += "\n";
  }
  for (const Fault& fault : picture.faults) {
    const bool driver = fault.gpu == kWholeDriver;
    text +=
        fmt::format("\nfault on {}: {}{}{}", driver ? "driver" : fmt::format("GPU {}", fault.gpu),
                    base::WordOf(fault.kind),
                    fault.kind == FaultKind::kError ? fmt::format(" {}", fault.code) : "",
                    fault.function.empty() ? "" : " of " + fault.function);
  }
  if (!picture.faults.empty()) text += "\n";
  return text;
}

Result<std::string> ShowJson(Server& server) {
  const Picture picture = CARMA_TRY(Take(server));
  base::Json json = {{"now_s", server.Now()},
                     {"time_scale", server.clock().time_scale},
                     {"origin_time_ms", server.clock().origin_time_ms},
                     {"gpus", base::Json::array()},
                     {"instances", base::Json::array()},
                     {"residents", base::Json::array()},
                     {"faults", base::Json::array()}};
  for (std::size_t g = 0; g < picture.gpus.size(); ++g) {
    const GpuLook& look = picture.gpus[g];
    const GpuIdentity& identity = server.places()[g];
    base::Json place = {{"index", g},
                        {"uuid", identity.uuid},
                        {"type", identity.type},
                        {"pci", identity.pci},
                        {"total_mib", identity.total_mib},
                        {"reserved_mib", identity.reserved_mib},
                        {"used_mib", look.used_mib},
                        {"sm_active", look.sm_active},
                        {"power_w", look.power_w},
                        {"energy_j", look.totals.energy_j},
                        {"sm_s", look.totals.sm_s},
                        {"busy_s", look.totals.busy_s},
                        {"memory_mib_s", look.totals.memory_mib_s}};
    const bool whole = identity.parent_uuid.empty();
    if (!whole) place["gpu"] = server.WholeGpu(static_cast<int>(g));
    json[whole ? "gpus" : "instances"].push_back(std::move(place));
  }
  for (const ResidentLook& resident : picture.residents) {
    base::Json shares = base::Json::array();
    for (const Share& share : resident.shares)
      shares.push_back({{"gpu", share.gpu}, {"memory_mib", share.memory_mib}});
    json["residents"].push_back({{"pid", resident.pid},
                                 {"sharing", base::WordOf(resident.sharing)},
                                 {"joined_s", resident.joined_s},
                                 {"work_left_s", resident.work_left_s},
                                 {"pace", resident.pace},
                                 {"shares", std::move(shares)}});
  }
  for (const Fault& fault : picture.faults) {
    json["faults"].push_back({{"gpu", fault.gpu},
                              {"kind", base::WordOf(fault.kind)},
                              {"code", fault.code},
                              {"function", fault.function}});
  }
  return base::DumpJson(json) + "\n";
}

Result<std::string> Audit(Server& server) {
  const Picture picture = CARMA_TRY(Take(server));
  std::string left;
  for (const ResidentLook& resident : picture.residents) {
    left += fmt::format("pid {} still uses", resident.pid);
    for (const Share& share : resident.shares)
      left += fmt::format(" GPU {} ({} MiB)", share.gpu, share.memory_mib);
    left += "\n";
  }
  const std::vector<GroupLimit> limits = CARMA_TRY(server.GroupLimits());
  for (const GroupLimit& limit : limits)
    left += fmt::format("GPU {}: a memory limit for {} is still set\n", limit.gpu, limit.group);
  for (std::size_t g = 0; g < picture.gpus.size(); ++g) {
    const std::int64_t used_mib = picture.gpus[g].used_mib;
    if (used_mib != 0) left += fmt::format("GPU {}: {} MiB in use\n", g, used_mib);
  }
  return left;
}

}  // namespace carma::simgpu
