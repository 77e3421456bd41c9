#include "config/client_socket.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/file.h"
#include "config/keys.h"
#include "config/toml_text.h"

namespace carma::config {
namespace {

constexpr std::string_view kName = "daemon.socket";
constexpr std::size_t kMaxFileBytes = 1 << 20;

// Returns the socket that the daemon would use. Empty if the daemon would reject the value.
std::string Accepted(const std::string& text) {
  Settings settings;
  return FindKey(kName)->set(settings, text) ? settings.socket : "";
}

std::string ValueOf(const Environment& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

std::string OnlySocketIn(const std::string& folder) {
  std::string only;
  std::error_code ignored;  // a missing folder contains no sockets
  std::filesystem::directory_iterator each(folder, ignored);
  for (; each != std::filesystem::directory_iterator(); each.increment(ignored)) {
    if (each->path().extension() != ".sock") continue;
    if (!only.empty()) return "";
    only = each->path().string();
  }
  return only;
}

}  // namespace

std::string ConfiguredSocket(const Sources& sources) {
  std::string socket;
  const auto take = [&](const std::string& text) {
    if (std::string accepted = Accepted(text); !accepted.empty()) socket = std::move(accepted);
  };
  for (const auto& [path, optional] : sources.files) {
    const Result<std::string> text = base::ReadFile(path, kMaxFileBytes);
    if (!text) continue;
    const Result<std::vector<Entry>> entries = ParseToml(path, *text);
    if (!entries) continue;
    for (const Entry& entry : *entries) {
      if (entry.name == kName) take(entry.text);
    }
  }
  const auto variable = sources.environment.find(VariableOf(kName));
  if (variable != sources.environment.end()) take(variable->second);
  return socket;
}

std::vector<std::string> PilotBases(const Environment& environment) {
  std::vector<std::string> bases;
  for (const char* name : {"XDG_RUNTIME_DIR", "TMPDIR"}) {
    const std::string folder = ValueOf(environment, name);
    if (folder.starts_with('/')) bases.push_back(folder);
  }
  bases.emplace_back("/tmp");
  return bases;
}

std::string PilotFolderName(const std::string& job, unsigned uid) {
  return job.empty() ? fmt::format("carma-pilot-{}", uid) : "carma-" + job;
}

Result<Unit> CheckPrivate(const std::string& folder, unsigned uid) {
  struct stat info {};
  if (::lstat(folder.c_str(), &info) != 0) return FailErrno(errno, folder);
  if (S_ISDIR(info.st_mode) && info.st_uid == uid && (info.st_mode & 022) == 0) return Unit{};
  return Denied(folder + ": expected a folder that you own and that only you can write to");
}

std::string JobPilotSocket(const Environment& environment, unsigned uid) {
  const std::string job = ValueOf(environment, "SLURM_JOB_ID");
  if (job.empty() || job.find_first_not_of("0123456789") != std::string::npos) return "";
  for (const std::string& base : PilotBases(environment)) {
    const std::string folder = base + "/" + PilotFolderName(job, uid);
    if (!CheckPrivate(folder, uid)) continue;
    if (std::string socket = OnlySocketIn(folder); !socket.empty()) return socket;
  }
  return "";
}

}  // namespace carma::config
