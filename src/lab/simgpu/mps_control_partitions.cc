// Static SM partitions of the simulated MPS. Syntax and limits follow NVIDIA's manual and users'
// reports on CUDA 13.1 and newer. Every GPU is treated as an A100: 108 SMs in chunks of 4.
#include <fmt/format.h>

#include "base/text.h"
#include "lab/simgpu/mps_control_daemon.h"

namespace carma::simgpu {
namespace {

constexpr int kSms = 108;
constexpr int kSmsPerChunk = 4;
constexpr int kChunks = kSms / kSmsPerChunk;
constexpr std::size_t kPartialUuid = 12;  // length of "GPU-74d43ed3"

constexpr const char* kTitle =
    "GPU             Partition                                free   used   free  used  clients\n"
    "                                                         chunks chunks SM    SM";

}  // namespace

int ControlDaemon::Gpu::UsedChunks() const {
  int used = 0;
  for (const auto& [id, chunks] : partitions) used += chunks;
  return used;
}

ControlDaemon::Gpu* ControlDaemon::FindGpu(std::string_view uuid) {
  for (Gpu& gpu : gpus_) {
    if (!uuid.empty() && gpu.uuid.starts_with(uuid)) return &gpu;
  }
  return nullptr;
}

std::optional<double> ControlDaemon::PartitionPercent(std::string_view name) {
  const std::size_t slash = name.find('/');
  const Gpu* const gpu = slash == name.npos ? nullptr : FindGpu(name.substr(0, slash));
  if (gpu == nullptr) return std::nullopt;
  const auto found = gpu->partitions.find(std::string(name.substr(slash + 1)));
  if (found == gpu->partitions.end()) return std::nullopt;
  return 100.0 * found->second * kSmsPerChunk / kSms;
}

std::set<std::string> ControlDaemon::UsedPartitions() {
  std::set<std::string> used;
  const std::string answer = Ask("partitions").value_or("");
  for (const std::string_view name : base::SplitWords(answer))
    used.emplace(name.substr(name.find('/') + 1));
  return used;
}

std::string ControlDaemon::ChangePartitions(const Words& words) {
  Gpu* const gpu = FindGpu(words[2]);
  if (gpu == nullptr) return fmt::format("Device {} not found", base::Printable(words[2], 60));
  if (words[1] == "add") return AddPartition(*gpu, words[3]);
  if (words[1] == "rm") return RemovePartition(*gpu, words[3]);
  return fmt::format("Unknown command \"sm_partition {}\"", base::Printable(words[1], 60));
}

std::string ControlDaemon::AddPartition(Gpu& gpu, std::string_view chunks) {
  const auto wanted = base::ParseInt(chunks);
  if (!wanted || *wanted < 1 || *wanted > kChunks - gpu.UsedChunks() ||
      MpsBehaves(folders_, "no-partitions")) {
    return fmt::format(
        "Failed to fulfill the requested SM partition of {} chunks, error "
        "CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION",
        base::Printable(chunks, 20));
  }
  const std::string id = fmt::format("D{}/x4AAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", ++partitions_made_);
  gpu.partitions[id] = static_cast<int>(*wanted);
  return fmt::format("Partition {}/{} created", gpu.uuid, id);
}

std::string ControlDaemon::RemovePartition(Gpu& gpu, std::string_view id) {
  const auto found = gpu.partitions.find(std::string(id));
  if (found == gpu.partitions.end())
    return fmt::format("Partition {} not found", base::Printable(id, 60));
  if (UsedPartitions().contains(found->first))
    return fmt::format("Partition {} is in use", found->first);
  gpu.partitions.erase(found);
  return "";
}

std::string ControlDaemon::ListPartitions(const Words&) {
  const std::set<std::string> used = UsedPartitions();
  std::string table = kTitle;
  for (const Gpu& gpu : gpus_) {
    const std::string name = gpu.uuid.substr(0, kPartialUuid);
    const int chunks = gpu.UsedChunks();
    table += fmt::format("\n{:<15} {:<40} {:<6} {:<6} {:<5} {:<5}", name, "", kChunks - chunks,
                         chunks, kSms - chunks * kSmsPerChunk, chunks * kSmsPerChunk);
    for (const auto& [id, its] : gpu.partitions) {
      table += fmt::format("\n{:<15} {:<40} {:<6} {:<6} {:<5} {:<5} {}", name, id, "", its, "",
                           its * kSmsPerChunk, used.contains(id) ? "Yes" : "No");
    }
  }
  return table;
}

}  // namespace carma::simgpu
