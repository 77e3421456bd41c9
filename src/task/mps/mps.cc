#include "task/mps/mps.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text.h"

namespace carma::task {
namespace {

constexpr std::size_t kNameLetters = 12;
constexpr std::size_t kMaxLines = 4096;
constexpr std::int64_t kMostSms = 100'000;
constexpr std::string_view kSharedPrefix = "shared:";

bool IsLetterOrDigit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

std::string_view FirstLine(std::string_view text) {
  return base::Trim(text.substr(0, text.find('\n')));
}

// The text of a log line, without time, user and process.
std::string_view LogText(std::string_view line) {
  const std::size_t end = line.starts_with('[') ? line.find("] ") : line.npos;
  return end == line.npos ? line : line.substr(end + 2);
}

template <class Predicate>
bool AnyLogText(std::string_view log, Predicate holds) {
  const std::vector<std::string_view> lines = base::Split(log, '\n');
  return std::ranges::any_of(
      lines, [&holds](std::string_view line) { return holds(base::Trim(LogText(line))); });
}

std::size_t GpuCount(const std::string& gpus) {
  return 1 + static_cast<std::size_t>(std::ranges::count(gpus, ','));
}

}  // namespace

std::string MpsFolderName(const std::string& gpus) {
  const std::size_t count = GpuCount(gpus);
  const std::string last = count == 1 ? gpus : gpus.substr(gpus.rfind(',') + 1);
  std::string name;
  for (const char c : last) {
    if (IsLetterOrDigit(c)) name += c;
  }
  if (name.size() > kNameLetters) name.erase(0, name.size() - kNameLetters);
  if (name.empty()) name = "gpu";
  return count == 1 ? name : name + "-" + std::to_string(count);
}

MpsServerId SharedMpsServer(std::string gpus) {
  return {0, 0, std::move(gpus), true};
}

std::string MpsServerName(const MpsServerId& id) {
  return id.shared ? std::string(kSharedPrefix) + id.gpus : id.gpus;
}

MpsServerId MpsServerNamed(std::uint32_t uid, std::uint32_t gid, const std::string& name) {
  if (name.starts_with(kSharedPrefix)) return SharedMpsServer(name.substr(kSharedPrefix.size()));
  return {uid, gid, name};
}

std::string MpsOwnerFolder(const MpsServerId& id) {
  return id.shared ? kSharedMpsFolder : std::to_string(id.uid);
}

std::string MpsPipeDir(const std::string& dir, const MpsServerId& id) {
  return dir + "/" + MpsOwnerFolder(id) + "/" + MpsFolderName(id.gpus);
}

std::string MpsLogDir(const std::string& dir, const MpsServerId& id) {
  return dir + "/" + MpsOwnerFolder(id) + "/" + MpsLogName(id.gpus);
}

std::string MpsLogName(const std::string& gpus) {
  return MpsFolderName(gpus) + ".log";
}

bool MpsLimitHolds(const std::string& gpus) {
  return GpuCount(gpus) == 1;
}

std::map<std::string, std::string> MpsClientEnvironment(const std::string& dir,
                                                        const MpsServerId& id,
                                                        const core::Sharing& sharing, bool serves) {
  std::map<std::string, std::string> environment{
      {"CUDA_MPS_PIPE_DIRECTORY", MpsPipeDir(dir, id)},
      {"CUDA_MPS_LOG_DIRECTORY", MpsLogDir(dir, id)},
      // 0 is normal and 1 is below normal; there is no higher priority.
      {"CUDA_MPS_CLIENT_PRIORITY", serves ? "0" : "1"}};
  if (sharing.memory_limit_mib > 0) {
    environment["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] =
        "0=" + std::to_string(sharing.memory_limit_mib) + "M";
  }
  if (sharing.thread_percent > 0)
    environment["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = std::to_string(sharing.thread_percent);
  if (!sharing.partition.empty()) environment["CUDA_MPS_SM_PARTITION"] = sharing.partition;
  return environment;
}

std::map<std::string, std::string> WithoutMpsEnvironment() {
  return {{"CUDA_MPS_PIPE_DIRECTORY", "/dev/null"}};
}

void EraseInheritedMps(const std::string& dir, std::map<std::string, std::string>& environment) {
  const auto pipes = environment.find("CUDA_MPS_PIPE_DIRECTORY");
  if (dir.empty() || pipes == environment.end() || !pipes->second.starts_with(dir + "/")) return;
  // When the submitting task started, the pipe directory was also added to APPTAINER_BIND.
  if (const auto bound = environment.find("APPTAINER_BIND"); bound != environment.end()) {
    std::vector<std::string_view> binds = base::Split(bound->second, ',');
    std::erase(binds, pipes->second);
    bound->second = base::Join(std::vector<std::string>(binds.begin(), binds.end()), ",");
  }
  std::erase_if(environment, [](const auto& each) { return each.first.starts_with("CUDA_MPS_"); });
}

Result<std::vector<pid_t>> ParseMpsPids(std::string_view text) {
  std::vector<pid_t> pids;
  for (const std::string_view each : base::Split(text, '\n')) {
    const std::string_view line = base::Trim(each);
    if (line.empty() || line == "\r") continue;
    const std::optional<std::int64_t> pid = base::ParseInt(line.substr(0, line.find(',')));
    if (!pid || *pid <= 0 || *pid > std::numeric_limits<pid_t>::max()) {
      return Invalid("expected a PID, found '" + base::Printable(line, 100) + "'");
    }
    if (pids.size() == kMaxLines)
      return Invalid("more than " + std::to_string(kMaxLines) + " processes");
    pids.push_back(static_cast<pid_t>(*pid));
  }
  return pids;
}

Result<MpsServerState> ParseMpsServerState(std::string_view text) {
  const std::string_view word = FirstLine(text);
  if (word == "ACTIVE") return MpsServerState::kActive;
  if (word == "INITIALIZING") return MpsServerState::kStarting;
  if (word == "FAULT") return MpsServerState::kFault;
  if (word.starts_with("Unknown command")) return MpsServerState::kUnknown;
  return Fail(word.ends_with("not found") ? ErrorCode::kNotFound : ErrorCode::kInvalid,
              "unexpected MPS server state: '" + base::Printable(word, 100) + "'");
}

Result<std::vector<MpsServerRow>> ParseMpsServerRows(std::string_view text) {
  std::vector<MpsServerRow> rows;
  for (const std::string_view line : base::Split(text, '\n')) {
    if (base::Trim(line).empty()) continue;
    const std::vector<std::string_view> words = base::Split(line, ',');
    const auto uid = words.size() > 3 ? base::ParseInt(words[1]) : std::nullopt;
    const auto pid = words.size() > 3 ? base::ParseInt(words[2]) : std::nullopt;
    if (!uid || !pid || rows.size() == kMaxLines)
      return Invalid("expected a server's name, UID, PID and state, found '" +
                     base::Printable(line, 100) + "'");
    MpsServerRow row{std::string(words[0]), static_cast<std::uint32_t>(*uid),
                     static_cast<pid_t>(*pid)};
    if (words[3] == "Ready") row.state = MpsServerState::kActive;
    if (base::ToLower(words[3]).starts_with("fault")) row.state = MpsServerState::kFault;
    rows.push_back(std::move(row));
  }
  return rows;
}

// NVIDIA's manual shows "-" in columns without a value, but its programs omit such columns.
Result<MpsPartitions> ParseMpsPartitions(std::string_view text, const std::string& gpu) {
  MpsPartitions found;
  bool listed = false;
  for (const std::string_view line : base::Split(text, '\n')) {
    std::vector<std::string_view> words = base::SplitWords(line);
    std::erase(words, "-");
    if (words.empty() || !words[0].starts_with("GPU-")) continue;
    const bool partition = words.back() == "Yes" || words.back() == "No";
    const auto number = [&](std::size_t at) {
      const auto value = words.size() == 5 ? base::ParseInt(words[at]) : std::nullopt;
      return value && *value >= 0 && *value <= kMostSms ? static_cast<int>(*value) : -1;
    };
    if (number(2) < 0 || number(3) < 0 || found.partitions.size() == kMaxLines ||
        (!partition && (number(1) < 0 || number(4) < 0))) {
      return Invalid("expected a line of SM partitions, found '" + base::Printable(line, 100) +
                     "'");
    }
    if (!gpu.starts_with(words[0])) continue;
    listed = true;
    if (partition) {
      found.partitions.push_back({std::string(words[1]), number(3), words.back() == "Yes"});
    } else {
      found.free_chunks = number(1);
      found.used_chunks = number(2);
    }
  }
  if (listed) return found;
  return Unavailable("the MPS control daemon does not list any SMs for its GPU: '" +
                     base::Printable(FirstLine(text), 100) + "'");
}

// NVIDIA's manual shows only the name, but its programs reply "Partition GPU-…/… created". The id
// is Base64, so it may contain slashes too.
Result<std::string> ParseMpsPartitionAdded(std::string_view text, const std::string& gpu) {
  const std::string start = gpu + "/";
  for (const std::string_view line : base::Split(text, '\n')) {
    for (const std::string_view word : base::SplitWords(line)) {
      if (word.size() > start.size() && word.starts_with(start))
        return std::string(word.substr(start.size()));
    }
  }
  return Unavailable("the MPS control daemon did not create an SM partition: '" +
                     base::Printable(FirstLine(text), 160) + "'");
}

int MpsChunks(double share, const MpsPartitions& of) {
  const int all = of.free_chunks + of.used_chunks;
  return std::max(1, static_cast<int>(std::floor(std::clamp(share, 0.0, 1.0) * all + 1e-9)));
}

Result<Unit> ParseMpsTermination(std::string_view text) {
  for (const std::string_view each : base::Split(text, '\n')) {
    const std::string_view line = base::Trim(each);
    if (line.empty() || line == "0") continue;
    return Unavailable("the MPS control daemon did not terminate the client: " +
                       base::Printable(line, 100));
  }
  return Unit{};
}

std::string LastMpsLogText(std::string_view log) {
  std::string_view last;
  for (const std::string_view line : base::Split(log, '\n')) {
    const std::string_view text = base::Trim(LogText(line));
    if (!text.empty()) last = text;
  }
  return base::Printable(last, 200);
}

bool SaysMpsServerReady(std::string_view log, pid_t server) {
  const std::string wanted = "NEW SERVER " + std::to_string(server) + ": Ready";
  return AnyLogText(log, [&wanted](std::string_view text) { return text == wanted; });
}

bool SaysMpsServerEnded(std::string_view log) {
  return AnyLogText(log, [](std::string_view text) {
    return text.starts_with("Server ") && text.contains(" exited with status ");
  });
}

}  // namespace carma::task
