// Executes the commands that the control daemon of the simulated MPS accepts.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/clock.h"
#include "base/process_id.h"
#include "base/text.h"
#include "lab/simgpu/mps_control_daemon.h"

namespace carma::simgpu {
namespace {

std::string NoServer(std::string_view pid) {
  return fmt::format("Server {} not found", base::Printable(pid, 20));
}

std::string ServerName(uid_t uid) {
  return fmt::format("uid_{}", uid);
}

constexpr int kSms = 108;
constexpr int kSmsPerChunk = 4;
constexpr int kChunks = kSms / kSmsPerChunk;
constexpr std::size_t kPartialUuid = 12;  // length of "GPU-74d43ed3"

constexpr const char* kTitle =
    "GPU             Partition                                free   used   free  used  clients\n"
    "                                                         chunks chunks SM    SM";

}  // namespace

std::string ControlDaemon::Execute(std::string_view line) {
  static constexpr std::array kCommands{
      Command{"start_server", 2, &ControlDaemon::StartServerCommand},
      Command{"get_server_list", 0, &ControlDaemon::ServerList},
      Command{"get_server_status", 1, &ControlDaemon::ServerStatus},
      Command{"get_client_list", 1, &ControlDaemon::ClientList},
      Command{"terminate_client", 2, &ControlDaemon::TerminateClient},
      Command{"sm_partition", 3, &ControlDaemon::ChangePartitions},
      Command{"lspart", 0, &ControlDaemon::ListPartitions},
      Command{"quit", 0, &ControlDaemon::Quit},
  };
  const Words words = base::SplitWords(line);
  if (words.empty()) return "";
  if (three_) return ExecuteThree(words);
  for (const Command& command : kCommands) {
    if (command.name != words[0] || (Is535() && command.name == "get_server_status")) continue;
    if (!options_.partitions && (words[0] == "sm_partition" || words[0] == "lspart")) continue;
    if (words.size() <= command.arguments)
      return fmt::format("{}: expected {} arguments", command.name, command.arguments);
    return (this->*command.run)(words);
  }
  return fmt::format("Unknown command \"{}\"", base::Printable(words[0], 60));
}

// ---- protocol 3 ----
// The commands that carmad uses, as described in NVIDIA's manual for release 615. They have never
// been compared with a real daemon.

std::string ControlDaemon::Refuse(const std::string& why) {
  refused_ = true;
  return why;
}

std::string ControlDaemon::ExecuteThree(const Words& words) {
  const std::string command = words.size() > 1 ? fmt::format("{} {}", words[0], words[1]) : "";
  const auto option = [&words](std::string_view name) {
    const auto found = std::ranges::find_if(
        words, [name](std::string_view word) { return word.starts_with(name); });
    return found == words.end() ? std::string_view() : found->substr(name.size());
  };
  if (words[0] == "quit") return Quit({words[0]});
  if (command == "server list") return NamedServers();
  if (command == "client list") return NamedClients(option("--server="));
  if (command == "server create") {
    const auto uid = base::ParseInt(option("--uid="));
    if (!uid) return Refuse("a name or --uid is required");
    return StartServer(static_cast<uid_t>(*uid)) ? "" : Refuse("the server did not start");
  }
  if (command == "client terminate" && words.size() == 3) {
    const std::optional<std::string> answer = Ask("terminate " + std::string(words[2]));
    return answer == "done" ? "" : Refuse("no such client");
  }
  return Refuse("unknown command");
}

std::string ControlDaemon::NamedServers() {
  if (!server_) return "";
  const std::string status = Ask("status").value_or("");
  return fmt::format("{},{},{},{},{},{},-", ServerName(server_->uid), server_->uid, server_->pid,
                     status == "ACTIVE" ? "Ready" : status, folders_.pipes,
                     terms_.visible_devices.value_or("all"));
}

std::string ControlDaemon::NamedClients(std::string_view name) {
  std::vector<std::string> rows;
  if (!server_ || ServerName(server_->uid) != name) return "";
  const std::string clients = Ask("clients").value_or("");
  for (const std::string_view pid : base::SplitWords(clients)) {
    const auto stat = base::ReadProcessStat(static_cast<pid_t>(base::ParseInt(pid).value_or(0)));
    rows.push_back(fmt::format("{},{},0,default,{}", pid, name, stat ? stat->command : ""));
  }
  return base::Join(rows, "\n");
}

std::string ControlDaemon::StartServerCommand(const Words& words) {
  const auto uid = base::ParseInt(words[2]);
  if (words[1] != "-uid" || !uid || *uid < 0 || *uid > 0xffff'fffe)
    return "A user id (UID) is required to start a new server";
  // The reply does not say whether the server started; the log and the list of servers do.
  StartServer(static_cast<uid_t>(*uid));
  return "";
}

std::string ControlDaemon::ServerList(const Words&) {
  return server_ ? std::to_string(server_->pid) : "";
}

std::string ControlDaemon::ServerStatus(const Words& words) {
  if (!IsServer(words[1])) return NoServer(words[1]);
  return Ask("status").value_or("get_server_status: the server is not responding");
}

std::string ControlDaemon::ClientList(const Words& words) {
  if (!IsServer(words[1])) return NoServer(words[1]);
  std::string pids = Ask("clients").value_or("");
  std::ranges::replace(pids, ' ', '\n');
  return pids;
}

std::string ControlDaemon::TerminateClient(const Words& words) {
  if (!IsServer(words[1])) return fmt::format("{0}\n{0}!\n1", NoServer(words[1]));
  const std::optional<std::string> answer = Ask("terminate " + std::string(words[2]));
  if (!answer) return "terminate_client: the server is not responding";
  return *answer == "done" ? "0" : *answer + "\n1";
}

std::string ControlDaemon::Quit(const Words& words) {
  if (words.size() == 3 && words[1] == "-t") {
    const auto seconds = base::ParseInt(words[2]);
    if (!seconds || *seconds < 0 || *seconds > 86'400) return "quit: expected -t SECONDS";
    quit_at_ns_ = base::BootTimeNs() + *seconds * 1'000'000'000;
  } else if (words.size() != 1) {
    return "quit: expected no argument or -t SECONDS";
  }
  quitting_ = true;
  Note("Asked to quit");
  return "";
}

// ---- static SM partitions ----
// Syntax and limits follow NVIDIA's manual and users' reports on CUDA 13.1 and newer. Every GPU is
// treated as an A100: 108 SMs in chunks of 4.

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
