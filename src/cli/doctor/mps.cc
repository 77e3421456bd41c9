#include "cli/doctor/mps.h"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>

#include "base/file.h"
#include "base/text.h"
#include "cli/doctor/packages.h"
#include "task/mps/mps_files.h"

namespace carma::cli {
namespace {

// The default folders in which CUDA programs look for NVIDIA's control daemon. With MPS protocol 3,
// root uses the second one.
constexpr const char* kStrangersDirs[] = {"/tmp/nvidia-mps", "/run/nvidia-mps"};
constexpr const char* kLock = "/control_lock";
constexpr std::size_t kMaxFolders = 1'000;  // user folders, or GPU folders of one user

// Finds the program as execvp would; empty if it is not found.
std::string FindProgram(const std::string& root, const std::string& name,
                        const std::string& search_path) {
  if (name.find('/') != std::string::npos) return base::IsProgram(root + name) ? name : "";
  for (const std::string_view folder : base::Split(search_path, ':')) {
    std::string path = std::string(folder.empty() ? "." : folder) + "/" + name;
    if (base::IsProgram(root + path)) return path;
  }
  return "";
}

bool MayUseMps(const config::Settings& settings) {
  if (!settings.collocation) return core::Shares(settings.policy);
  return settings.collocation == core::SharingMethod::kMps;
}

struct Listing {
  std::vector<std::string> names;
  bool hidden = false;  // this process may not read the folder
};

Listing FoldersIn(const std::string& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), &::closedir);
  if (!folder) return {.hidden = errno == EACCES};
  Listing listing;
  while (const dirent* entry = ::readdir(folder.get())) {
    const std::string name = entry->d_name;
    if (name == "." || name == ".." || entry->d_type == DT_LNK) continue;
    if (listing.names.size() == kMaxFolders) break;
    listing.names.push_back(name);
  }
  std::ranges::sort(listing.names);
  return listing;
}

// CARMA's own control daemons, in mps_dir/UID/GPU.
struct OwnDaemons {
  std::vector<std::string> living;  // "uid 1000 (pid 4242)", "all users (pid 4242)"
  int dead = 0;                     // folders whose daemon has exited
  int hidden = 0;                   // folders of users that this process may not read
};

OwnDaemons FindOwn(const std::string& root, const std::string& mps_dir) {
  OwnDaemons own;
  for (const std::string& user : FoldersIn(root + mps_dir).names) {
    const std::string of_user = fmt::format("{}{}/{}", root, mps_dir, user);
    const Listing servers = FoldersIn(of_user);
    if (servers.hidden) ++own.hidden;
    for (const std::string& server : servers.names) {
      const std::string pipes = fmt::format("{}/{}", of_user, server);
      if (!base::Exists(pipes + kLock)) continue;
      const std::optional<pid_t> pid = task::MpsLockHolder(pipes);
      if (pid)
        own.living.push_back(fmt::format(
            "{} (pid {})",
            user == task::kSharedMpsFolder ? "all users" : "uid " + base::Printable(user, 20),
            *pid));
      if (!pid) ++own.dead;
    }
  }
  return own;
}

std::string OwnText(const OwnDaemons& own) {
  std::string text = own.living.size() == 1
                         ? "1 CARMA control daemon is running"
                         : fmt::format("{} CARMA control daemons are running", own.living.size());
  if (!own.living.empty()) text += ": " + base::Join(own.living, ", ");
  if (own.dead > 0) text += fmt::format("; {} exited and will be restarted when needed", own.dead);
  if (own.hidden > 0)
    text += fmt::format("; those of {} are not visible", base::Counted(own.hidden, "other user"));
  return text;
}

// The nearest parent folder that exists.
std::string Existing(const std::string& root, std::string path) {
  while (path.size() > 1 && !base::Exists(root + path))
    path = path.substr(0, std::max<std::size_t>(path.rfind('/'), 1));
  return path;
}

class MpsCheck {
 public:
  MpsCheck(const std::string& root, const config::Settings& settings)
      : root_(root), settings_(settings), own_(FindOwn(root, settings.mps_dir)) {}

  void Strangers() {
    for (const std::string dir : kStrangersDirs) {
      const std::optional<pid_t> pid = task::MpsLockHolder(root_ + dir);
      if (!pid || settings_.mps_dir == dir) continue;
      const std::string variable = "CUDA_MPS_PIPE_DIRECTORY=" + dir;
      Add(Level::kWarn,
          fmt::format("an MPS control daemon not started by CARMA (pid {}) is serving {}: programs "
                      "outside CARMA share GPUs through it",
                      *pid, dir),
          "stop it unless you need it: " +
              (task::MpsSpeaksThree(*pid)
                   ? variable + " nvidia-cuda-mps-control -q"
                   : "echo quit | " + variable + " nvidia-cuda-mps-control") +
              "; CARMA's tasks never join it");
    }
  }

  void NotUsed() {
    if (own_.living.empty()) return Add(Level::kOk, "not used (collocation.method)");
    Add(Level::kWarn, "collocation.method is not \"mps\", but " + OwnText(own_),
        "they keep running while older tasks use them; otherwise stop each one: echo quit | "
        "CUDA_MPS_PIPE_DIRECTORY=" +
            base::Printable(settings_.mps_dir) + "/UID/GPU nvidia-cuda-mps-control");
  }

  void Used(const std::string& search_path, bool is_daemon_user, const MpsTrial& trial) {
    const std::string program = FindProgram(root_, settings_.mps_control, search_path);
    if (program.empty()) {
      const bool searched = settings_.mps_control.find('/') == std::string::npos;
      Add(WithoutMps(),
          base::Printable(settings_.mps_control) +
              (searched ? " is not in $PATH" : " is not an executable program") +
              ": all tasks share GPUs through streams, without limits",
          settings_.simgpu_state.empty()
              ? "install the driver's MPS programs" + InstallCommand(root_, Missing::kMps) +
                    ", or set collocation.mps_control to the one to use"
              : "set collocation.mps_control to the path of carma-simmps, which a simulated server "
                "uses instead");
    } else {
      Add(Level::kOk,
          fmt::format("{}; at most {} processes per server; {}; {}", base::Printable(program),
                      settings_.mps_clients, MemoryText(), OwnText(own_)));
      if (trial) Tried(*trial);
    }
    if (IsShared() && (!trial || *trial)) {
      Add(Level::kWarn,
          "all users share one MPS server (collocation.mps_servers): nothing isolates their "
          "processes from each other, and a fault in one kills all of them on the same GPUs",
          std::string("set it to \"user\" unless all users trust each other") +
              (is_daemon_user ? "" : "; run carma doctor as root to test whether it starts"));
    }
    Folder(is_daemon_user);
  }

  std::vector<Finding> Take() { return std::move(findings_); }

 private:
  bool IsShared() const { return settings_.mps_servers == task::MpsScope::kShared; }

  std::string_view MemoryText() const {
    if (!settings_.mps_memory_limit) return "memory is not limited (collocation.mps_memory_limit)";
    if (settings_.mps_servers != task::MpsScope::kGpu)
      return "memory is limited only if there is a single GPU (collocation.mps_servers)";
    return "the memory of each process is limited to its task's promise plus policy.margin";
  }

  std::string TrialRemedy(const base::Error& why) const {
    if (IsShared() && why.code == ErrorCode::kDenied)
      return "set collocation.mps_servers to \"user\": each user then has a server of their own";
    return "it was started as this user in an empty folder; try it by hand: "
           "CUDA_MPS_PIPE_DIRECTORY=/tmp/mps CUDA_MPS_LOG_DIRECTORY=/tmp/mps-log " +
           base::Printable(settings_.mps_control) + (IsShared() ? " -d -M" : " -d") + "; echo $?";
  }

  void Tried(const Result<task::MpsAbilities>& trial) {
    if (!trial) {
      return Add(
          WithoutMps(),
          fmt::format(
              "no control daemon can be used ({}): all tasks share GPUs through streams, without "
              "limits",
              base::Printable(trial.error().message)),
          TrialRemedy(trial.error()));
    }
    Add(Level::kOk, "a control daemon was started, queried and stopped");
    if (!trial->tells_state) {
      Add(Level::kWarn,
          "this driver does not report the state of MPS servers: a server stopped by a client's "
          "fault "
          "is noticed only when tasks end",
          "driver branch 550 or newer reports it");
    }
    if (settings_.sm_partitions && trial->partitions)
      Add(Level::kOk, "tasks with --sm-share get their own SM partition");
    if (settings_.sm_partitions && !trial->partitions) {
      Add(Level::kWarn,
          "this driver has no SM partitions (collocation.sm_partitions): --sm-share only limits "
          "the SMs that a task uses",
          "drivers for CUDA 13.1 or newer have them");
    }
    if (!trial->logs) {
      Add(Level::kWarn, "control daemons write no logs, so CARMA cannot report why a server fails",
          "check that this user may write files below /tmp; if so, report the problem");
    }
  }

  // Only a warning for "auto", because tasks can still share GPUs, just less efficiently.
  Level WithoutMps() const { return settings_.collocation ? Level::kBad : Level::kWarn; }

  void Add(Level level, std::string text, std::string remedy = "") {
    findings_.push_back({"mps", level, std::move(text), std::move(remedy)});
  }

  void Folder(bool is_daemon_user) {
    const std::string shown = base::Printable(settings_.mps_dir);
    const std::string existing = Existing(root_, settings_.mps_dir);
    struct stat facts {};
    const char* const remedy =
        "set collocation.mps_dir to a folder that carmad can create and write to; until then tasks "
        "share GPUs through streams";
    if (::stat((root_ + existing).c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode))
      return Add(Level::kBad, base::Printable(existing) + " is not a folder", remedy);
    if (existing == settings_.mps_dir && (facts.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
      return Add(Level::kBad,
                 shown + " is writable by other users, so they could impersonate MPS servers there",
                 "chmod go-w " + shown);
    }
    if (is_daemon_user && ::access((root_ + existing).c_str(), W_OK | X_OK) != 0) {
      Add(Level::kBad,
          fmt::format("{} cannot be created or written: {}: {}", shown, base::Printable(existing),
                      std::strerror(errno)),
          remedy);
    }
  }

  const std::string& root_;
  const config::Settings& settings_;
  OwnDaemons own_;
  std::vector<Finding> findings_;
};

}  // namespace

MpsTrial TryMps(const config::Settings& settings, bool is_daemon_user) {
  if (!MayUseMps(settings)) return std::nullopt;
  // An ordinary user cannot test a shared server for a carmad that runs as root.
  const bool shared =
      settings.mps_servers == task::MpsScope::kShared && (::geteuid() == 0 || is_daemon_user);
  return task::TryMps({base::ExecutableDir() + "/carma-shim", settings.mps_control, "", {}}, shared,
                      std::chrono::steady_clock::now() + settings.mps_timeout);
}

core::SharingMethod MethodInForce(const config::Settings& settings, std::string_view carmads_line,
                                  const MpsTrial& trial) {
  if (settings.collocation) return *settings.collocation;
  for (const auto method : {core::SharingMethod::kMps, core::SharingMethod::kStreams}) {
    if (carmads_line.starts_with(fmt::format("{}:", base::WordOf(method)))) return method;
  }
  return trial && !*trial ? core::SharingMethod::kStreams : core::SharingMethod::kMps;
}

std::vector<Finding> CheckMps(const std::string& root, const config::Settings& settings,
                              const std::string& search_path, bool is_daemon_user,
                              const MpsTrial& trial) {
  MpsCheck check(root, settings);
  if (MayUseMps(settings)) {
    check.Used(search_path, is_daemon_user, trial);
  } else {
    check.NotUsed();
  }
  check.Strangers();
  return check.Take();
}

}  // namespace carma::cli
