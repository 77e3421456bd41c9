#include "daemon/gpus/process_faces.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/file.h"
#include "base/text.h"
#include "base/user.h"

namespace carma::daemon {
namespace {

constexpr std::size_t kMaxArguments = 1 << 17;  // maximum number of bytes read
constexpr std::size_t kMaxCommand = 120;        // maximum number of bytes shown
// Limit on pending requests. A request that hangs delays all later requests.
constexpr int kMostAsked = 64;

// If the administrator has hidden other users' processes, carmad must not show their command-line
// arguments.
bool UsersSeeArguments() {
  const Result<std::string> mounts = base::ReadFile("/proc/self/mounts", 1 << 20);
  return mounts && base::HiddenProcesses(*mounts).empty();
}

ProcessFace FaceOf(const base::ProcessId& process) {
  static const bool with_arguments = UsersSeeArguments();
  const std::optional<base::ProcessStat> stat = base::ReadProcessStat(process.pid);
  const std::optional<uid_t> uid = UserOf(process.pid);
  if (!stat || !uid) return {};
  std::string command;
  if (with_arguments) {
    command =
        base::ReadFile(fmt::format("/proc/{}/cmdline", process.pid), kMaxArguments).value_or("");
  }
  while (!command.empty() && command.back() == '\0') command.pop_back();
  std::replace(command.begin(), command.end(), '\0', ' ');
  const ProcessFace face{base::Printable(base::UserName(*uid), 64),
                         base::Printable(command.empty() ? stat->command : command, kMaxCommand)};
  // The pid may have been reused in the meantime.
  return base::Alive(process) ? face : ProcessFace{};
}

}  // namespace

ProcessFaces::ProcessFaces(std::shared_ptr<boost::asio::io_context> loop)
    : loop_(std::move(loop)) {}

void ProcessFaces::Follow(const std::vector<GpuUse>& uses) {
  if (!loop_) return;
  std::unordered_map<pid_t, Asked> before = std::exchange(asked_, {});
  for (const GpuUse& use : uses) {
    for (const Stranger& stranger : use.strangers) {
      const auto known = before.find(stranger.process.pid);
      if (known != before.end() && known->second.process == stranger.process) {
        asked_.insert(before.extract(known));
      } else if (stranger.process.start_ticks > 0 && !asked_.contains(stranger.process.pid)) {
        Ask(stranger.process);
      }
    }
  }
}

// Drops the request if too many are pending. The next round of readings repeats it.
void ProcessFaces::Ask(const base::ProcessId& process) {
  if (!reader_) reader_.emplace(loop_, BackgroundWorker::AtEnd::kLeave);
  if (reader_->waiting() >= kMostAsked) return;
  asked_[process.pid] = {process, {}};
  reader_->Ask([process] { return FaceOf(process); },
               [this, process](const ProcessFace& face) {
                 const auto asked = asked_.find(process.pid);
                 if (asked != asked_.end() && asked->second.process == process)
                   asked->second.face = face;
               });
}

const ProcessFace& ProcessFaces::Of(const Stranger& stranger) const {
  const auto asked = asked_.find(stranger.process.pid);
  const bool read = asked != asked_.end() && asked->second.process == stranger.process &&
                    !asked->second.face.user.empty();
  return read ? asked->second.face : stranger.face;
}

}  // namespace carma::daemon
