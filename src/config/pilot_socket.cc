#include "config/pilot_socket.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

namespace carma::config {
namespace {

std::string ValueOf(const Environment& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

std::string OnlySocketIn(const std::string& folder) {
  std::string only;
  std::error_code ignored;  // no folder, no sockets
  std::filesystem::directory_iterator each(folder, ignored);
  for (; each != std::filesystem::directory_iterator(); each.increment(ignored)) {
    if (each->path().extension() != ".sock") continue;
    if (!only.empty()) return "";
    only = each->path().string();
  }
  return only;
}

}  // namespace

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

base::Result<base::Unit> CheckPrivate(const std::string& folder, unsigned uid) {
  struct stat info {};
  if (::lstat(folder.c_str(), &info) != 0) return base::FailErrno(errno, folder);
  if (S_ISDIR(info.st_mode) && info.st_uid == uid && (info.st_mode & 022) == 0) return base::Unit{};
  return base::Fail(base::ErrorCode::kDenied,
                    folder + ": expected a folder of yours that nobody else may write to");
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
